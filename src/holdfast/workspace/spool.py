"""The spool: hooks leave payloads here until a drain turns them into events.

One file per payload, so that hooks never wait for one another. The file's name is `AGENT.SOURCE.PARENT.OWN.STORE`:
the agent, the configuration that called the hook, the pids of the agent and of the hook, and the store; its
modification time is when the event happened. The shell script of `conversations.hooks.script` writes the same way.
Raw payloads may contain secrets: the directory is private, and drained before anything else is done.

`STORE` is `home` for the home's own store. Otherwise it is `named`, and the file begins with a line with the store's
URL, without a password: a shell cannot put a URL into a file name. A process that uses another store replaces `named`
by a tag, so that it can skip such payloads unread. Payloads of earlier versions have no `STORE`.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # hooks must load this module quickly
    from collections.abc import Container, Iterable
    from typing import Final

DIRECTORY: Final = "spool"
UNREAD: Final = "unread"  # below the spool: payloads that could not be understood
STATUS: Final = "status"  # the source of payloads that a status line handed over
HOME: Final = "home"  # in a name: meant for the home's own store
NAMED: Final = "named"  # in a name: meant for the store that the file's first line names
MAX_PAYLOAD_SIZE: Final = 64 * 1024 * 1024  # bytes of a payload
MAX_URL_LENGTH: Final = 8192  # bytes of the line that names a store
FORMAT: Final = "2"  # of what hook scripts write; installed scripts of an earlier format are replaced
YOUNG_NS: Final = 10 * 1_000_000_000  # ns: an unreadable younger file may still be being written
# No system starts so many processes within one step of its clock: a larger gap means that pids wrapped around.
_PID_WRAP_GAP: Final = 16_384


class SpoolEntry:
    """A waiting payload."""

    __slots__ = ("agent", "at", "inode", "name", "own", "parent", "path", "size", "source", "store")

    def __init__(self, path: str, name: str, status: os.stat_result) -> None:
        self.path = path
        self.name = name
        parts = name.split(".")
        self.agent = parts[0]
        self.source = parts[1] if len(parts) > 1 else ""
        self.parent = int(parts[2]) if len(parts) > 2 and parts[2].isdecimal() else 0
        self.own = int(parts[3]) if len(parts) > 3 and parts[3].isdecimal() else 0
        self.store = store_tag_of(name)
        self.at = status.st_mtime_ns
        self.size = status.st_size
        self.inode = status.st_ino

    def is_in(self, status: os.stat_result) -> bool:
        """Whether a file is the one that was listed, unchanged. Names do not suffice, since pids are reused."""
        return (status.st_ino, status.st_mtime_ns, status.st_size) == (self.inode, self.at, self.size)

    def is_there(self) -> bool:
        try:
            return self.is_in(os.lstat(self.path))
        except OSError:
            return False

    @property
    def names_store(self) -> bool:
        """Whether the first line of the file names the store, and the payload begins after it."""
        return self.store not in ("", HOME)

    def store_url(self) -> str | None:
        """The first line, which names the store; None while it is being written, or if the file was removed."""
        try:
            with open(self.path, "rb") as file:
                line = file.readline(MAX_URL_LENGTH)
                if not self.is_in(os.fstat(file.fileno())):
                    return None
        except OSError:
            return None
        if not line.endswith(b"\n"):
            return None if len(line) < MAX_URL_LENGTH else ""
        return os.fsdecode(line[:-1].replace(b"\0", b"\n"))

    def payload(self, content: bytes) -> bytes:
        """The payload in the content of the file."""
        return content.partition(b"\n")[2] if self.names_store else content


def add_payload(home: str, agent: str, source: str, parent: int, payload: bytes, *, store: str = "") -> str:
    """Write a payload durably and return its path. Raises `OSError` if that is impossible.

    `store` is the URL of the store it is meant for, without a password; empty for the home's own.
    """
    directory = os.path.join(home, DIRECTORY)
    if os.path.islink(directory):
        raise NotADirectoryError(errno.ENOTDIR, "the spool is a link", directory)  # whose target is unknown
    if not os.path.isdir(directory):
        os.makedirs(directory, 0o700, exist_ok=True)
    tag = NAMED if store else HOME
    # The path in the URL may contain a newline, but never a NUL.
    content = os.fsencode(store).replace(b"\n", b"\0") + b"\n" + payload if store else payload
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    for attempt in range(100):
        name = f"{agent}.{source}.{parent}.{os.getpid()}.{tag}" + (f".{attempt}" if attempt else "")
        path = os.path.join(directory, name)
        try:
            handle = os.open(path, flags, 0o600)
        except FileExistsError:
            continue
        try:
            remaining = memoryview(content)
            while remaining:
                remaining = remaining[os.write(handle, remaining) :]
            os.fsync(handle)
        except OSError:
            os.close(handle)
            os.unlink(path)
            raise
        os.close(handle)
        return path
    raise FileExistsError(directory)


def is_payload(name: str) -> bool:
    """Whether a hook left this file. Other files in the spool are not touched."""
    parts = name.split(".", 4)
    return len(parts) > 3 and parts[2].isdecimal() and parts[3].isdecimal()


def store_tag_of(name: str) -> str:
    """The part of a payload's name that says for which store it is; empty in names of earlier versions."""
    parts = name.split(".", 5)
    return parts[4] if len(parts) > 4 and not parts[4].isdecimal() else ""


def list_entries(home: str) -> list[SpoolEntry]:
    """The waiting payloads, in the order in which they were written."""
    directory = os.path.join(home, DIRECTORY)
    if os.path.islink(directory):
        return []  # not our directory; doctor reports it
    try:
        entries = _listed(directory)
        # Listing a directory is not atomic and may miss one payload but return a later one. A second listing has all
        # that existed when the first ended; payloads newer than the newest of the first have to wait.
        known = {entry.name for entry in entries}
        missed = _listed(directory, known) if entries else []
    except OSError:
        return []
    entries = in_spool_order(entries + missed)
    while entries and entries[-1].name not in known:
        entries.pop()
    return entries


def _listed(directory: str, known: Container[str] = ()) -> list[SpoolEntry]:
    """The payloads in a directory, except known ones."""
    entries: list[SpoolEntry] = []
    with os.scandir(directory) as listing:
        for entry in listing:
            if entry.name not in known and is_payload(entry.name) and entry.is_file(follow_symlinks=False):
                try:
                    entries.append(SpoolEntry(entry.path, entry.name, os.lstat(entry.path)))
                except FileNotFoundError:
                    continue  # another process has just drained it
    return entries


def in_spool_order(entries: Iterable[SpoolEntry]) -> list[SpoolEntry]:
    """Sort by time, and files with the same time by pid, which counts up and wraps around."""
    from itertools import groupby

    ordered: list[SpoolEntry] = []
    for _, step in groupby(sorted(entries, key=_sort_key), key=lambda entry: entry.at):
        entries_of_step = list(step)
        gaps = (
            index
            for index in range(1, len(entries_of_step))
            if entries_of_step[index].own - entries_of_step[index - 1].own > _PID_WRAP_GAP
        )
        start = next(gaps, 0)
        ordered += entries_of_step[start:] + entries_of_step[:start]
    return ordered


def _sort_key(entry: SpoolEntry) -> tuple[int, int, str]:
    return entry.at, entry.own, entry.name


def has_entries(home: str, store: str | None = None) -> bool:
    """Whether any payload waits that may be for the store with this tag. Cheap, because every command calls it."""
    try:
        names = [name for name in os.listdir(os.path.join(home, DIRECTORY)) if is_payload(name)]
    except OSError:
        return False
    return bool(names) if store is None else any(store_tag_of(name) in (store, NAMED, "") for name in names)


def tag_entry(entry: SpoolEntry, store: str) -> None:
    """Write a store's tag into a payload's name, so that users of another store skip it.

    The first line of the file still decides, because names are reused.
    """
    directory, name = os.path.split(entry.path)
    renamed = os.path.join(directory, ".".join((*name.split(".")[:4], store, f"{entry.at}", f"{entry.inode}")))
    try:
        if entry.is_there() and not os.path.lexists(renamed):
            os.rename(entry.path, renamed)
    except OSError:
        return  # another process renamed or drained it, or it is still open (Windows): the next one tries again


def remove_entries(entries: Iterable[SpoolEntry]) -> None:
    """Remove payloads that have become events."""
    for entry in entries:
        try:
            if entry.is_there():
                os.unlink(entry.path)
        except OSError:
            continue  # two processes drained at once, or it cannot be removed now: its key keeps it single in the log


def quarantine(home: str, entry: SpoolEntry) -> None:
    """Keep a payload that could not be understood where `doctor` reports it."""
    directory = os.path.join(home, DIRECTORY, UNREAD)
    os.makedirs(directory, 0o700, exist_ok=True)
    if entry.is_there():
        os.replace(entry.path, os.path.join(directory, f"{entry.name}.{entry.at}"))


def list_unread(home: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(home, DIRECTORY, UNREAD)))
    except OSError:
        return []
