"""A process that has Holdfast loaded and forks it: run as a script, one JSON request a line, one answer a line.

A cold start costs a tenth of a second, a fork two milliseconds; and a forked child makes no system call but the
command's own, so that a fault at its Nth call is a fault in Holdfast and not in Python's start. The child opens its
store after the fork. With `strace` in the request, strace is attached before the command begins.
"""

from __future__ import annotations

import ctypes
import json
import os
import pkgutil
import signal
import subprocess
import sys
import time
from importlib import import_module
from typing import Any, NoReturn

_ANYONE = ctypes.c_ulong(-1)  # PR_SET_PTRACER_ANY: where Yama lets only ancestors trace


def _load() -> None:
    import holdfast

    for found in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if not found.name.endswith("__main__"):
            try:
                import_module(found.name)
            except ImportError:  # an extra that is not installed, or a module somebody is writing right now
                continue


def _child(request: dict[str, Any], go: int) -> NoReturn:
    from holdfast.cli.main import main

    code = 99
    try:
        ctypes.CDLL(None).prctl(0x59616D61, _ANYONE, 0, 0, 0)
        for number, name in ((1, "stdout"), (2, "stderr")):
            fd = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(fd, number)
            os.close(fd)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environ"])
        if request.get("fsize"):
            import resource

            resource.setrlimit(resource.RLIMIT_FSIZE, (request["fsize"], request["fsize"]))
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        os.read(go, 1)
        code = main(request["argv"])
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _traced(pid: int, tracer: subprocess.Popen[bytes]) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until and tracer.poll() is None:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            if f"TracerPid:\t{tracer.pid}\n" in file.read():
                return True
        time.sleep(0.0005)
    return False


def _serve(request: dict[str, Any]) -> dict[str, Any]:
    go, start = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(start)
        _child(request, go)
    os.close(go)
    tracer: subprocess.Popen[bytes] | None = None
    said = b""
    if request.get("strace"):
        command = ["strace", "-q", *request["strace"], "-p", str(pid)]
        tracer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if not _traced(pid, tracer):
            os.kill(pid, signal.SIGKILL)
    os.write(start, b"!")
    if request.get("kill_after") is not None:
        time.sleep(request["kill_after"])
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(start)
    if tracer is not None:
        said = tracer.communicate()[1]
    return {"code": os.waitstatus_to_exitcode(status), "strace": said.decode(errors="replace")}


def run() -> None:
    _load()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_serve(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    run()
