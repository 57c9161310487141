"""Start processes that outlive their caller, for work nobody waits for.

Such a process has no terminal, hears nothing, says nothing and shares no pipe with us: an agent that waits for the
end of our output does not wait for it. Loaded by status lines, which have a few milliseconds: `subprocess` alone
would cost more than they do.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

# No directory but those given is looked at for modules: certainly not the one we happen to be in.
_START: Final = (
    "import sys; sys.path[:] = sys.argv[{count}:]; from {module} import {function}; {function}(*sys.argv[1:{count}])"
)


_begun: list[int] = []


def start(module: str, function: str, *words: str, around: Mapping[str, str] | None = None) -> bool:
    """Let a function of ours run with these words in a process of its own; says whether it was begun.

    `around` is added to its environment, which other users cannot read as they can its words.
    """
    program = sys.executable
    if not program or any("\0" in word for word in words):
        return False
    code = _START.format(module=module, function=function, count=len(words) + 1)
    paths = [path for path in sys.path if os.path.isabs(path)]
    command = [program, "-I", "-S", "-c", code, *words, *paths]
    environ = {**os.environ, **(around or {})}
    try:
        if os.name == "nt":
            return _on_windows(command, environ)
        nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
        try:
            pid = os.posix_spawn(program, command, environ, file_actions=nothing, setsid=True)
        except NotImplementedError:  # a system whose library cannot begin a new session this way
            pid = os.posix_spawn(program, command, environ, file_actions=nothing, setpgroup=0)
    except (OSError, ValueError):
        return False
    _bury()
    _begun.append(pid)
    return pid > 0


def _bury() -> None:
    """Whoever lives long and begins many is asked by the system for each that has ended: nobody else waits for it."""
    for pid in list(_begun):
        try:
            ended, _ = os.waitpid(pid, os.WNOHANG)
        except OSError:  # somebody has waited for it
            ended = pid
        if ended:
            _begun.remove(pid)


def _on_windows(command: list[str], environ: Mapping[str, str]) -> bool:
    import subprocess

    detached = 0x00000008 | 0x00000200  # DETACHED_PROCESS, CREATE_NEW_PROCESS_GROUP
    devnull = subprocess.DEVNULL
    subprocess.Popen(  # noqa: S603 (our own interpreter and our own code)
        command, stdin=devnull, stdout=devnull, stderr=devnull, close_fds=True, creationflags=detached, env=environ
    )
    return True
