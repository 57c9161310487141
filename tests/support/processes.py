"""Limits for tests and the processes they start: signals have their default effect, and every wait ends.

`conftest.py` uses it once, for every test. `end` ends a process that a test has started.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_CHECKOUT: Final = str(Path(__file__).parents[2])

_TORTURE: Final = os.environ.get("HOLDFAST_TORTURE", "")
# Seconds, on a very busy machine.
LONGEST_WAIT: Final = {"": 240.0, "sample": 240.0}.get(_TORTURE, 4 * 3600.0)  # for one process
LONGEST_TEST: Final = {"": 600.0, "sample": 600.0}.get(_TORTURE, 12 * 3600.0)


def environ_with_tests() -> dict[str, str]:
    """This environment, for a process that imports from `tests` itself."""
    return os.environ | {"PYTHONPATH": _CHECKOUT}


def reset_signals() -> None:
    """Resets the signals that the caller of the tests ignores (`nohup`, a background job) or blocks.

    Otherwise every process started here, the program under test included, would ignore them too.
    """
    if os.name != "posix":
        return
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    by_python = {signal.SIGPIPE, signal.SIGXFSZ}  # which Python ignores itself, but not in the programs it starts
    for number in signal.valid_signals() - by_python:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _HANDLERS.get(number, signal.SIG_DFL))


def _go_on(number: int, frame: object) -> None:
    """Handlers are not inherited; the tests themselves continue, as `nohup` intends."""


_HANDLERS: Final[dict[int, Any]] = (
    {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: _go_on} if os.name == "posix" else {}
)


def limit_waits() -> None:
    """Limits every wait for a process, in the test and in the code under test."""
    wait, communicate = subprocess.Popen.wait, subprocess.Popen.communicate

    def wait_so_long(self: subprocess.Popen[Any], timeout: float | None = None) -> int:
        return wait(self, LONGEST_WAIT if timeout is None else timeout)

    def communicate_so_long(
        self: subprocess.Popen[Any],
        input: Any = None,  # noqa: A002 (as it is called)
        timeout: float | None = None,
    ) -> Any:
        return communicate(self, input, LONGEST_WAIT if timeout is None else timeout)

    subprocess.Popen.wait = wait_so_long  # type: ignore[method-assign]
    subprocess.Popen.communicate = communicate_so_long  # type: ignore[method-assign]


@contextlib.contextmanager
def limited(seconds: float, stderr: int) -> Iterator[None]:
    """Aborts this process with the stacks of its threads if it does not end in time; another worker continues."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=stderr)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def end(process: subprocess.Popen[Any], *, group: bool = False) -> None:
    """Kills a process or its group, without reading its pipes to their end, which its children may keep open."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL) if group else process.kill()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):  # input that was never sent
                stream.close()
    process.wait(LONGEST_WAIT)
