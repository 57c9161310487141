"""Holdfast's error log: errors that no surface could show, one JSON object per line.

Hooks run inside other programs and print nothing there; `doctor` shows these lines. Writing never fails, because the
caller is already handling a failure, and the log never exceeds a limit.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:  # hooks must load this module quickly
    from typing import Final

NAME: Final = "errors.log"
MAX_SIZE: Final = 256 * 1024
_MAX_MESSAGE_LENGTH: Final = 500
# Follow no link, wait for no pipe.
_SAFE_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def note(home: str, source: str, message: str) -> None:
    """Append a line, if possible."""
    import json

    from holdfast.machine.wall import Wall

    path = os.path.join(home, NAME)
    line = json.dumps({"at": Wall().now(), "where": source[:100], "message": message[:_MAX_MESSAGE_LENGTH]})
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _SAFE_FLAGS
    try:
        if os.path.lexists(path) and os.lstat(path).st_size > MAX_SIZE:
            os.replace(path, path + ".old")
        handle = os.open(path, flags, 0o600)
        try:
            status = os.fstat(handle)
            if stat.S_ISREG(status.st_mode) and status.st_nlink < 2:  # otherwise it may have been planted
                os.write(handle, line.encode(errors="replace") + b"\n")
        finally:
            os.close(handle)
    except OSError:
        return


def lines(home: str, since: int = 0) -> list[dict[str, object]]:
    """The entries since a time (milliseconds), oldest first; unreadable lines are skipped."""
    import json

    entries: list[dict[str, object]] = []
    for name in (NAME + ".old", NAME):
        try:
            with open(os.open(os.path.join(home, name), os.O_RDONLY | _SAFE_FLAGS), "rb") as file:
                content = file.read(2 * MAX_SIZE) or b""
        except OSError:
            continue
        for line in content.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            at = entry.get("at") if isinstance(entry, dict) else None
            if isinstance(at, int) and at >= since:
                entries.append(entry)
    return entries
