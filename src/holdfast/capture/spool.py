"""The spool: where hooks leave payloads until somebody makes events of them.

One file a payload, so that hooks never wait for one another. Everything worth knowing besides the payload is in the
name and the file itself: `AGENT.SOURCE.PARENT.OWN`, the agent asked for, through which configuration, the process
of the agent, the process of the hook; and when it was written is when it was heard. The shell script of
`capture.script` writes the same way. Raw payloads stand here, secrets and all: the directory is private, and
drained before everything else is done.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # hooks load this module in a hurry
    from collections.abc import Iterable
    from typing import Final

DIRECTORY: Final = "spool"
UNREAD: Final = "unread"  # below the spool: payloads nothing could be made of
STATUS: Final = "status"  # the source of payloads that a status line handed over
LARGEST: Final = 64 * 1024 * 1024
YOUNG: Final = 10 * 1_000_000_000  # ns: what cannot be read yet may still be being written


class Entry:
    """A payload that waits."""

    __slots__ = ("agent", "at", "name", "own", "parent", "path", "size", "source")

    def __init__(self, path: str, name: str, status: os.stat_result) -> None:
        self.path = path
        self.name = name
        parts = name.split(".")
        self.agent = parts[0]
        self.source = parts[1] if len(parts) > 1 else ""
        self.parent = int(parts[2]) if len(parts) > 2 and parts[2].isdecimal() else 0
        self.own = int(parts[3]) if len(parts) > 3 and parts[3].isdecimal() else 0
        self.at = status.st_mtime_ns
        self.size = status.st_size

    @property
    def order(self) -> tuple[int, int, str]:
        # Systems count a file's time in steps of some milliseconds; within one, processes are numbered upwards.
        return self.at // 4_000_000, self.own, self.name


def hand_over(home: str, agent: str, source: str, parent: int, payload: bytes) -> str:
    """Keep a payload, durably; gives the file it is in. Raises `OSError` where that is impossible."""
    directory = os.path.join(home, DIRECTORY)
    if os.path.islink(directory):
        raise NotADirectoryError(errno.ENOTDIR, "the spool is a link", directory)  # to whom, nobody can know
    if not os.path.isdir(directory):
        os.makedirs(directory, 0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    for again in range(100):
        name = f"{agent}.{source}.{parent}.{os.getpid()}" + (f".{again}" if again else "")
        path = os.path.join(directory, name)
        try:
            handle = os.open(path, flags, 0o600)
        except FileExistsError:
            continue
        try:
            left = memoryview(payload)
            while left:
                left = left[os.write(handle, left) :]
            os.fsync(handle)
        except OSError:
            os.close(handle)
            os.unlink(path)
            raise
        os.close(handle)
        return path
    raise FileExistsError(directory)


def is_payload(name: str) -> bool:
    """Whether a file in there was left by a hook. Whatever else somebody put there is not ours to move."""
    parts = name.split(".", 4)
    return len(parts) > 3 and parts[2].isdecimal() and parts[3].isdecimal()


def waiting(home: str) -> list[Entry]:
    """What waits, in the order in which it was heard."""
    directory = os.path.join(home, DIRECTORY)
    found: list[Entry] = []
    if os.path.islink(directory):
        return found  # its files are somebody else's; doctor names it
    try:
        with os.scandir(directory) as listing:
            for one in listing:
                if is_payload(one.name) and one.is_file(follow_symlinks=False):
                    try:
                        found.append(Entry(one.path, one.name, one.stat(follow_symlinks=False)))
                    except FileNotFoundError:
                        continue  # somebody else has just taken it in
    except OSError:
        return []
    found.sort(key=lambda entry: entry.order)
    return found


def anything(home: str) -> bool:
    """Whether anything waits: asked with everything Holdfast does, so as cheap as can be."""
    try:
        return any(is_payload(name) for name in os.listdir(os.path.join(home, DIRECTORY)))
    except OSError:
        return False


def done(entries: Iterable[Entry]) -> None:
    """These are events now."""
    for entry in entries:
        try:
            os.unlink(entry.path)
        except OSError:
            continue  # two drained at once, or it cannot go now: the log holds it once


def put_aside(home: str, entry: Entry) -> None:
    """Nothing can be made of it, but it is somebody's: kept where `doctor` shows it."""
    directory = os.path.join(home, DIRECTORY, UNREAD)
    os.makedirs(directory, 0o700, exist_ok=True)
    os.replace(entry.path, os.path.join(directory, f"{entry.name}.{entry.at}"))


def unread(home: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(home, DIRECTORY, UNREAD)))
    except OSError:
        return []
