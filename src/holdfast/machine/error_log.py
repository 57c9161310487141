"""Holdfast's own error log: what went wrong where nobody could be told, one JSON object a line.

Hooks run inside somebody else's work and say nothing there; `doctor` shows these lines. It never fails, because
whoever writes into it has already failed once, and it never grows beyond a limit.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:  # hooks load this module in a hurry
    from typing import Final

NAME: Final = "errors.log"
MAX_SIZE: Final = 256 * 1024
_LONGEST: Final = 500
# No link is followed, and no pipe waited for.
_CAREFUL: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def note(home: str, where: str, message: str) -> None:
    """Leave a line; where even that is impossible, nothing happens."""
    import json

    from holdfast.machine.wall import Wall

    path = os.path.join(home, NAME)
    line = json.dumps({"at": Wall().now(), "where": where[:100], "message": message[:_LONGEST]})
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _CAREFUL
    try:
        if os.path.lexists(path) and os.lstat(path).st_size > MAX_SIZE:
            os.replace(path, path + ".old")
        handle = os.open(path, flags, 0o600)
        try:
            status = os.fstat(handle)
            if stat.S_ISREG(status.st_mode) and status.st_nlink < 2:  # else somebody planted it
                os.write(handle, line.encode(errors="replace") + b"\n")
        finally:
            os.close(handle)
    except OSError:
        return


def lines(home: str, since: int = 0) -> list[dict[str, object]]:
    """What was noted from a moment on (milliseconds), oldest first; lines that cannot be read are passed over."""
    import json

    found: list[dict[str, object]] = []
    for name in (NAME + ".old", NAME):
        try:
            with open(os.open(os.path.join(home, name), os.O_RDONLY | _CAREFUL), "rb") as file:
                written = file.read(2 * MAX_SIZE) or b""
        except OSError:
            continue
        for line in written.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            at = entry.get("at") if isinstance(entry, dict) else None
            if isinstance(at, int) and at >= since:
                found.append(entry)
    return found
