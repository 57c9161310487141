"""Start processes that outlive their caller, for work in the background.

Such a process has no terminal, input or output and shares no pipe with us, so an agent that waits for the end of our
output does not wait for it. Status lines load this module and have only a few milliseconds: importing `subprocess`
alone takes longer.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

# Modules are loaded only from the given directories, never from the working directory.
_START: Final = (
    "import sys; sys.path[:] = sys.argv[{count}:]; from {module} import {function}; {function}(*sys.argv[1:{count}])"
)


_started: list[int] = []


def start(module: str, function: str, *args: str, around: Mapping[str, str] | None = None) -> bool:
    """Run one of our functions with these arguments in a new process; return whether it was started.

    `around` is added to its environment, which other users cannot read, unlike its arguments.
    """
    program = sys.executable
    if not program or any("\0" in word for word in args):
        return False
    code = _START.format(module=module, function=function, count=len(args) + 1)
    paths = [path for path in sys.path if os.path.isabs(path)]
    command = [program, "-I", "-S", "-c", code, *args, *paths]
    environ = {**os.environ, **(around or {})}
    try:
        if os.name == "nt":
            return _on_windows(command, environ)
        redirects = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
        try:
            pid = os.posix_spawn(program, command, environ, file_actions=redirects, setsid=True)
        except NotImplementedError:  # this system's library cannot start a new session here
            pid = os.posix_spawn(program, command, environ, file_actions=redirects, setpgroup=0)
    except (OSError, ValueError):
        return False
    _reap()
    _started.append(pid)
    return pid > 0


def _reap() -> None:
    """Wait for processes that have ended: otherwise a long-running program would collect zombies."""
    for pid in list(_started):
        try:
            ended, _ = os.waitpid(pid, os.WNOHANG)
        except OSError:  # it was already waited for
            ended = pid
        if ended:
            _started.remove(pid)


def _on_windows(command: list[str], environ: Mapping[str, str]) -> bool:
    import subprocess

    detached = 0x00000008 | 0x00000200  # DETACHED_PROCESS, CREATE_NEW_PROCESS_GROUP
    devnull = subprocess.DEVNULL
    subprocess.Popen(  # noqa: S603 (our own interpreter and our own code)
        command, stdin=devnull, stdout=devnull, stderr=devnull, close_fds=True, creationflags=detached, env=environ
    )
    return True
