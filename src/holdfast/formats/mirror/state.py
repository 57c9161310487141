"""What mirrors remember of a work tree: what they wrote, where, and of which session.

It lies in the home, private to this device, and can be lost without harm: a file that nobody remembers writing is
read, compared and found to say nothing new. The hashes of all versions are kept apart, because they are asked for
only when a file has changed.
"""

from __future__ import annotations

import os
from typing import Final, TypeVar

import msgspec

from holdfast.core.canonical import digest
from holdfast.core.decode import decodable
from holdfast.core.errors import HoldfastError
from holdfast.formats.mirror.fingerprint import Fingerprint
from holdfast.machine import files
from holdfast.machine.locks import locked

_T = TypeVar("_T")

_MAX_SIZE: Final = 16 << 20
_MAX_VERSIONS_SIZE: Final = 64 << 20
# A quarter of a million versions; of more, the older half is forgotten.
_TRIM_VERSIONS_AT: Final = 16 << 20
_TRIM_ASKED_AT: Final = 1 << 16
# Of the reasons why files were set aside, the latest are told.
_MAX_REJECTED: Final = 20


class WrittenFile(msgspec.Struct):
    """One file, as it was left."""

    session: str
    hash: str
    print: Fingerprint
    # The session's last event when it was written.
    as_of: str
    # When, for people: milliseconds.
    at: int
    # How many events are in it, and of a history the clock of the last.
    events: int = 0
    clock: int = 0


class ForeignFile(msgspec.Struct, frozen=True):
    """A file of somebody else's: how it looked, and why it was not taken in, if it was not."""

    print: Fingerprint
    reason: str = ""
    hash: str = ""


class RejectedFile(msgspec.Struct, frozen=True):
    """A file that was set aside, and why."""

    path: str
    aside: str
    reason: str
    at: int


class RemovedFile(msgspec.Struct):
    """A file that another program deleted to stop its session, and whether a person has been told."""

    session: str
    reported: bool = msgspec.field(default=False, name="told")


class MirroredTree(msgspec.Struct):
    """One work tree and everything mirrored in it."""

    root: str
    # format -> path within the tree, with forward slashes -> how it was left
    files: dict[str, dict[str, WrittenFile]] = {}
    # format -> sessions that are shown there
    sessions: dict[str, list[str]] = {}
    rejected: dict[str, list[RejectedFile]] = {}
    # format -> path -> why nothing is done with it for now
    left_alone: dict[str, dict[str, str]] = msgspec.field(default_factory=dict, name="held")
    # format -> directory -> when its names last changed
    listed: dict[str, dict[str, int]] = {}
    # format -> what could not be written, and why
    failures: dict[str, str] = msgspec.field(default_factory=dict, name="trouble")
    # format -> files in our places that we did not write, as they were when they were looked at
    foreign: dict[str, dict[str, ForeignFile]] = msgspec.field(default_factory=dict, name="strange")
    # path -> what was deleted there: the file stays away until its session goes on
    removed: dict[str, RemovedFile] = {}
    # format -> session -> what was last taken in: the event it was made as of, and those that came of it; the last
    # one twice where it says all that is shown since
    lines: dict[str, dict[str, list[str]]] = {}
    # format -> how far the log was when the files were last brought up to date
    as_of: dict[str, str] = {}
    # format -> how many of the sessions that were begun or taken up here have been noticed
    came: dict[str, int] = {}
    # How models were named that contract has no name for, and which of them were told of.
    model: str = ""
    noted: list[str] = []
    # Whoever asked before this many had asked has been served: files and log were brought together since.
    served: int = 0

    def reject(self, name: str, rejected: RejectedFile) -> None:
        self.rejected[name] = [*self.rejected.get(name, []), rejected][-_MAX_REJECTED:]


class Switch(msgspec.Struct):
    """Which formats are mirrored, by project: main work tree -> format -> since when."""

    on: dict[str, dict[str, int]] = {}


class MirrorState:
    def __init__(self, home: str) -> None:
        self.folder = os.path.join(home, "mirrors")

    def exists(self) -> bool:
        return os.path.isdir(self.folder)

    # ── what is on ───────────────────────────────────────────────────────────────────────────────────────

    @property
    def _switch(self) -> str:
        return os.path.join(self.folder, "on.json")

    def switch(self) -> Switch:
        return _read(self._switch, Switch) or Switch()

    def set(self, main: str, name: str, since: int | None) -> None:
        files.make_private_dir(self.folder)
        with locked(os.path.join(self.folder, "on.lock"), what="switching a mirror"):
            switch = self.switch()
            formats = switch.on.setdefault(main, {})
            if since is None:
                formats.pop(name, None)
            else:
                formats.setdefault(name, since)
            if not formats:
                del switch.on[main]
            files.write_atomic(self._switch, msgspec.json.encode(switch) + b"\n")

    # ── one work tree ────────────────────────────────────────────────────────────────────────────────────

    def place(self, root: str) -> str:
        return os.path.join(self.folder, digest(root.encode(errors="surrogateescape"))[:16])

    def lock(self, root: str) -> str:
        files.make_private_dir(self.folder)
        return self.place(root) + ".lock"

    def tree(self, root: str) -> MirroredTree:
        tree = _read(self.place(root) + ".json", MirroredTree)
        return tree if tree is not None and tree.root == root else MirroredTree(root=root)

    def save(self, tree: MirroredTree) -> None:
        files.make_private_dir(self.folder)
        files.write_atomic(self.place(tree.root) + ".json", msgspec.json.encode(tree) + b"\n", durable=False)

    # ── who waits ────────────────────────────────────────────────────────────────────────────────────────

    def ask(self, root: str) -> int:
        """Ask that files and log be brought together by whoever is at it. The number to be served."""
        fd = files.open_private(self._asked(root), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(fd, b".")
            return os.fstat(fd).st_size  # that of somebody after us, perhaps: then we are served with them
        finally:
            os.close(fd)

    def asked(self, root: str) -> int:
        """How many have asked so far."""
        try:
            return os.stat(self._asked(root)).st_size
        except FileNotFoundError:
            return 0

    def count_anew(self, tree: MirroredTree) -> None:
        """Forget who asked when it has become many. The tree first: nobody may seem served who is not."""
        if self.asked(tree.root) > _TRIM_ASKED_AT:
            tree.served = 0
            self.save(tree)
            os.truncate(self._asked(tree.root), 0)

    def _asked(self, root: str) -> str:
        return self.place(root) + ".asked"

    # ── every version ever written ───────────────────────────────────────────────────────────────────────

    def note_session(self, root: str, session: str) -> None:
        """Before a session becomes current here: should another one replace it at once, it is still to be shown."""
        fd = files.open_private(self._came(root), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(fd, f"{session}\n".encode())
        finally:
            os.close(fd)

    def sessions(self, root: str) -> list[str]:
        """The sessions that were begun or taken up here while something was mirrored, in that order."""
        path = self._came(root)
        if not os.path.exists(path):
            return []
        return files.read_limited(path, _MAX_SIZE, what="what mirrors remember").decode("ascii", "replace").split()

    def _came(self, root: str) -> str:
        return self.place(root) + ".sessions"

    def know(self, main: str, hashes: list[str]) -> None:
        """Remember versions before they are written: whatever happens then, they are known as ours."""
        if not hashes:
            return
        path = self.place(main) + ".versions"
        fd = files.open_private(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(fd, "".join(f"{name}\n" for name in hashes).encode())
            size = os.fstat(fd).st_size
        finally:
            os.close(fd)
        if size > _TRIM_VERSIONS_AT:
            kept = files.read_limited(path, _MAX_VERSIONS_SIZE, what="the versions of mirrored files")[-size // 2 :]
            files.write_atomic(path, kept.partition(b"\n")[2], durable=False)

    def knows(self, main: str, hashed: str) -> bool:
        """Was this content written by a mirror of this project at some time, in whichever of its work trees?"""
        return hashed in self.written(main)

    def written(self, main: str) -> frozenset[str]:
        """The hashes of everything mirrors of this project wrote, and of the events as of which they did."""
        path = self.place(main) + ".versions"
        if not os.path.exists(path):
            return frozenset()
        raw = files.read_limited(path, _MAX_VERSIONS_SIZE, what="the versions of mirrored files")
        return frozenset(raw.decode("ascii", "replace").split())


def _read(path: str, kind: type[_T]) -> _T | None:
    """None when it is not there, or cannot be read: what is remembered can be learnt again."""
    if not os.path.lexists(path):
        return None
    try:
        return msgspec.json.decode(
            files.read_limited(path, _MAX_SIZE, what="what mirrors remember"), type=decodable(kind)
        )
    except (msgspec.MsgspecError, UnicodeDecodeError, HoldfastError):
        return None
