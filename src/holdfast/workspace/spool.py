"""The spool: where hooks leave payloads until somebody makes events of them.

One file a payload, so that hooks never wait for one another. Everything worth knowing besides the payload is in the
name and the file itself: `AGENT.SOURCE.PARENT.OWN.STORE`, the agent asked for, through which configuration, the
process of the agent, the process of the hook, and the store that is meant; and when it was written is when it was
heard. The shell script of `capture.script` writes the same way. Raw payloads stand here, secrets and all: the
directory is private, and drained before everything else is done.

`STORE` is `home` for the home's own store. Otherwise the file begins with a line that holds the store's URL, without
a password: a shell cannot put a URL into a file name. `STORE` is `named` then, until a process that uses another
store writes a tag there, by which such payloads are passed over without being read. Without any `STORE`, an earlier
version wrote the payload.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # hooks load this module in a hurry
    from collections.abc import Container, Iterable
    from typing import Final

DIRECTORY: Final = "spool"
UNREAD: Final = "unread"  # below the spool: payloads nothing could be made of
STATUS: Final = "status"  # the source of payloads that a status line handed over
HOME: Final = "home"  # in a name: meant for the home's own store
NAMED: Final = "named"  # in a name: meant for the store that the file's first line names
MAX_PAYLOAD_SIZE: Final = 64 * 1024 * 1024  # bytes of a payload
MAX_URL_LENGTH: Final = 8192  # bytes of the line that names a store
FORMAT: Final = "2"  # of what hook scripts write here; an installed script of an earlier one is made anew
YOUNG_NS: Final = 10 * 1_000_000_000  # ns: what cannot be read yet may still be being written
# No system starts so many processes within one step of its clock: their numbers began again from the bottom.
_WRAPPED: Final = 16_384


class SpoolEntry:
    """A payload that waits."""

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
        """Whether a file is the one that was listed, as it was then. Names alone do not tell: numbers of processes
        are given out again.
        """
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
        """The first line of a file that names its store; None while it is being written, or not there any more."""
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
    """Keep a payload, durably; gives the file it is in. Raises `OSError` where that is impossible.

    `store` is the URL of the store it is meant for, without a password; empty for the home's own.
    """
    directory = os.path.join(home, DIRECTORY)
    if os.path.islink(directory):
        raise NotADirectoryError(errno.ENOTDIR, "the spool is a link", directory)  # to whom, nobody can know
    if not os.path.isdir(directory):
        os.makedirs(directory, 0o700, exist_ok=True)
    tag = NAMED if store else HOME
    # The name of a file may hold the end of a line, and never a NUL.
    content = os.fsencode(store).replace(b"\n", b"\0") + b"\n" + payload if store else payload
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    for again in range(100):
        name = f"{agent}.{source}.{parent}.{os.getpid()}.{tag}" + (f".{again}" if again else "")
        path = os.path.join(directory, name)
        try:
            handle = os.open(path, flags, 0o600)
        except FileExistsError:
            continue
        try:
            left = memoryview(content)
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


def store_tag_of(name: str) -> str:
    """The part of a payload's name that says for which store it is; empty in names of earlier versions."""
    parts = name.split(".", 5)
    return parts[4] if len(parts) > 4 and not parts[4].isdecimal() else ""


def list_entries(home: str) -> list[SpoolEntry]:
    """What waits, in the order in which it was heard."""
    directory = os.path.join(home, DIRECTORY)
    if os.path.islink(directory):
        return []  # its files are somebody else's; doctor names it
    try:
        entries = _listed(directory)
        # A directory is read piece by piece: one payload may be missed, and the one after it seen. A second listing
        # has all that was there when the first ended; what is newer than the newest of the first waits.
        known = {entry.name for entry in entries}
        missed = _listed(directory, known) if entries else []
    except OSError:
        return []
    entries = in_spool_order(entries + missed)
    while entries and entries[-1].name not in known:
        entries.pop()
    return entries


def _listed(directory: str, known: Container[str] = ()) -> list[SpoolEntry]:
    """The payloads in a directory, but for those that are known already."""
    entries: list[SpoolEntry] = []
    with os.scandir(directory) as listing:
        for entry in listing:
            if entry.name not in known and is_payload(entry.name) and entry.is_file(follow_symlinks=False):
                try:
                    entries.append(SpoolEntry(entry.path, entry.name, os.lstat(entry.path)))
                except FileNotFoundError:
                    continue  # somebody else has just taken it in
    return entries


def in_spool_order(entries: Iterable[SpoolEntry]) -> list[SpoolEntry]:
    """By time. Systems count a file's time in steps of some milliseconds: within one step, by the number of the
    process, which is counted upwards and, after the last number there is, begins again.
    """
    from itertools import groupby

    ordered: list[SpoolEntry] = []
    for _, step in groupby(sorted(entries, key=_place), key=lambda entry: entry.at):
        same = list(step)
        gaps = (place for place in range(1, len(same)) if same[place].own - same[place - 1].own > _WRAPPED)
        first = next(gaps, 0)
        ordered += same[first:] + same[:first]
    return ordered


def _place(entry: SpoolEntry) -> tuple[int, int, str]:
    return entry.at, entry.own, entry.name


def has_entries(home: str, store: str | None = None) -> bool:
    """Whether anything waits: asked with everything Holdfast does, so as cheap as can be. With the tag of a store,
    what is known to be meant for others does not count.
    """
    try:
        names = [name for name in os.listdir(os.path.join(home, DIRECTORY)) if is_payload(name)]
    except OSError:
        return False
    return bool(names) if store is None else any(store_tag_of(name) in (store, NAMED, "") for name in names)


def tag_entry(entry: SpoolEntry, store: str) -> None:
    """Write the tag of its store into the name of a payload, so that who uses another one passes it over. What counts
    is the line in the file: names are given out again.
    """
    directory, name = os.path.split(entry.path)
    renamed = os.path.join(directory, ".".join((*name.split(".")[:4], store, f"{entry.at}", f"{entry.inode}")))
    try:
        if entry.is_there() and not os.path.lexists(renamed):
            os.rename(entry.path, renamed)
    except OSError:
        return  # another process renamed it or took it in, or it is still open (Windows): the next one tries


def remove_entries(entries: Iterable[SpoolEntry]) -> None:
    """These are events now."""
    for entry in entries:
        try:
            if entry.is_there():
                os.unlink(entry.path)
        except OSError:
            continue  # two drained at once, or it cannot go now: the log holds it once


def quarantine(home: str, entry: SpoolEntry) -> None:
    """Nothing can be made of it, but it is somebody's: kept where `doctor` shows it."""
    directory = os.path.join(home, DIRECTORY, UNREAD)
    os.makedirs(directory, 0o700, exist_ok=True)
    if entry.is_there():
        os.replace(entry.path, os.path.join(directory, f"{entry.name}.{entry.at}"))


def list_unread(home: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(home, DIRECTORY, UNREAD)))
    except OSError:
        return []
