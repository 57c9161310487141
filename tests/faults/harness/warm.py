"""A process that has Holdfast loaded and forks it: run as a script, with one JSON request and one answer per line.

A cold start costs a tenth of a second, a fork two milliseconds; and a forked child makes no system call but the
command's own, so that a fault at its Nth call is a fault in Holdfast and not in Python's startup. The child opens its
store after the fork. With `strace` in the request, strace is attached before the command begins. A request may limit
its child: `memory` (bytes more than the warm process has), `unprivileged` (root's rights over files are dropped),
`seconds` (a child that runs longer is aborted, and the answer has `late`).
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import json
import os
import pkgutil
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NoReturn

_ANY_TRACER = ctypes.c_ulong(-1)  # PR_SET_PTRACER_ANY: where Yama lets only ancestors trace


def _load() -> None:
    import holdfast

    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if not module.name.endswith("__main__"):
            try:
                import_module(module.name)
            except ImportError:  # an extra that is not installed, or a module that is just being edited
                continue
    import_module("ruamel.yaml")  # imported lazily by the program: it would be a third of a child's time
    # Injected errors are permanent: waiting before a retry would only take time.
    import_module("holdfast.sync.remotes.wrappers")._FIRST_WAIT = 0.0  # type: ignore[attr-defined]


def _child(request: dict[str, Any], go: int, ready: int) -> NoReturn:
    from holdfast.cli.entry import main

    code = 99
    try:
        ctypes.CDLL(None).prctl(0x59616D61, _ANY_TRACER, 0, 0, 0)
        for number, name in ((1, "stdout"), (2, "stderr")):
            fd = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(fd, number)
            os.close(fd)
        os.dup2(os.open(request.get("stdin", os.devnull), os.O_RDONLY), 0)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environ"])
        if request.get("fsize"):
            import resource

            resource.setrlimit(resource.RLIMIT_FSIZE, (request["fsize"], request["fsize"]))
        _limit(request)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115 (by lines, as Python has it)
        os.write(ready, b"!")
        os.close(ready)
        while not select.select([go], [], [], 0.0003 if request.get("strace") else None)[0]:
            os.getppid()  # a call that strace shows, as proof that it is attached
        if "call" in request:
            module, function, *words = request["call"]
            getattr(import_module(module), function)(*words)
            code = 0
        else:
            code = _write_until_killed(request) if "acks" in request else main(request["argv"])
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def without_privileges() -> None:
    """Drop root's override of permission checks, here and in programs started from here. No effect for
    other users.
    """
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        capabilities = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        for capability in capabilities:
            libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP: an exec does not bring it back
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this process
        sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable: the low 32 bits of each, then the high
        if libc.capget(header, sets) == 0:
            for kind in range(3):
                sets[kind] &= ~sum(1 << capability for capability in capabilities)
            libc.capset(header, sets)


def _limit(request: dict[str, Any]) -> None:
    import resource

    if request.get("unprivileged"):
        without_privileges()
    if "seconds" in request:
        faulthandler.enable(file=2)  # SIGABRT prints where it hung
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if "memory" in request:
        with open("/proc/self/status", encoding="ascii") as file:
            data = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmData:"))
        resource.setrlimit(resource.RLIMIT_DATA, (data + request["memory"],) * 2)


def _late(pid: int, seconds: float) -> bool:
    """Wait for a child; abort it when its time is over."""
    watched = os.pidfd_open(pid)
    try:
        late = not select.select([watched], [], [], seconds)[0]
    finally:
        os.close(watched)
    if late:
        os.kill(pid, signal.SIGABRT)
    return late


def _write_until_killed(request: dict[str, Any]) -> int:
    """Run commands, or add notes through the library, each acknowledged in a file as soon as it is done."""
    acks = os.open(request["acks"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for name in _commands(request) if "argvs" in request else _notes(request):
        os.write(acks, name.encode() + b"\n")
        os.fsync(acks)
    return 0


def _commands(request: dict[str, Any]) -> Iterator[str]:
    from holdfast.cli.main import main

    for name, argv in request["argvs"]:
        if main(argv) == 0:
            yield name


def _notes(request: dict[str, Any]) -> Iterator[str]:
    from holdfast.keeper.keeper import Keeper

    with Keeper.open(request["cwd"], home=os.environ["HOLDFAST_HOME"], actor="tester") as keeper:
        session = keeper.current() or keeper.start("to be killed")
        for number in range(request["notes"]):
            text = f"{request['life']}-{number}"
            session.note(text)
            yield text


def _traced(trace: str, tracer: subprocess.Popen[bytes]) -> bool:
    """Wait until strace has shown a call. Attaching is not enough: calls are missed for a moment afterwards."""
    until = time.monotonic() + 20
    while time.monotonic() < until and tracer.poll() is None:
        if os.path.exists(trace) and os.path.getsize(trace):
            return True
        time.sleep(0.0005)
    return False


def _serve(request: dict[str, Any]) -> dict[str, Any]:
    go, start = os.pipe()
    waiting, ready = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(start)
        os.close(waiting)
        _child(request, go, ready)
    os.close(go)
    os.close(ready)
    os.read(waiting, 1)  # until the child has finished its own preparations, which must not be traced
    os.close(waiting)
    tracer: subprocess.Popen[bytes] | None = None
    strace_output = b""
    if request.get("strace"):
        trace = request["trace"]
        if os.path.exists(trace):
            os.unlink(trace)
        command = ["strace", "-q", "-o", trace, *request["strace"], "-p", str(pid)]
        tracer = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        if not _traced(trace, tracer):
            os.kill(pid, signal.SIGKILL)
    os.write(start, b"!")
    if request.get("kill_after") is not None:
        time.sleep(request["kill_after"])
        os.kill(pid, signal.SIGKILL)
    late = "seconds" in request and _late(pid, request["seconds"])
    _, status = os.waitpid(pid, 0)
    os.close(start)
    if tracer is not None:
        strace_output = tracer.communicate()[1]
    return {"code": os.waitstatus_to_exitcode(status), "strace": strace_output.decode(errors="replace"), "late": late}


def run() -> None:
    _load()
    gc.freeze()  # a child that collects garbage would copy every page of what is loaded
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_serve(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    run()
