"""What mirrors remember of a work tree: what they wrote, where, and of which session.

It is private to this device and can be lost without harm: a file without a record is read and compared, and
says nothing new. The hashes of all versions are stored separately, because they are needed only when a file has
changed.
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
# A quarter of a million versions; then the older half is forgotten.
_TRIM_VERSIONS_AT: Final = 16 << 20
_TRIM_ASKED_AT: Final = 1 << 16
# Of files that were set aside, the latest are remembered.
_MAX_REJECTED: Final = 20


class WrittenFile(msgspec.Struct):
    """One file, as it was left."""

    session: str
    hash: str
    print: Fingerprint
    # The session's last event when it was written.
    as_of: str
    # When it was written, in milliseconds; for people.
    at: int
    # How many events it shows; for a history, also the clock of the last one.
    events: int = 0
    clock: int = 0


class ForeignFile(msgspec.Struct, frozen=True):
    """A file of somebody else: its fingerprint, and why it was not read, if it was not."""

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
    """A file that another program deleted to stop its session, and whether that was reported."""

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
    # format -> path -> why it is left alone for now
    left_alone: dict[str, dict[str, str]] = msgspec.field(default_factory=dict, name="held")
    # format -> directory -> when its names last changed
    listed: dict[str, dict[str, int]] = {}
    # format -> why it could not be written
    failures: dict[str, str] = msgspec.field(default_factory=dict, name="trouble")
    # format -> files in our places that we did not write, as they were when last looked at
    foreign: dict[str, dict[str, ForeignFile]] = msgspec.field(default_factory=dict, name="strange")
    # path -> the file deleted there, which stays away until its session goes on
    removed: dict[str, RemovedFile] = {}
    # format -> session -> the version last read back: the event it was made as of, then the events that came of it;
    # the last one twice if it says all that is shown since
    edit_chains: dict[str, dict[str, list[str]]] = msgspec.field(default_factory=dict, name="lines")
    # format -> how far the log was when the files were last brought up to date
    as_of: dict[str, str] = {}
    # format -> how many of the sessions that became current here were noticed
    came: dict[str, int] = {}
    # The name used for models that contract has no name for, and the notes already reported about that.
    model: str = ""
    noted: list[str] = []
    # Requests up to this number have been served: files and log were brought together since.
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
        with locked(os.path.join(self.folder, "on.lock"), purpose="switching a mirror"):
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

    def request_settling(self, root: str) -> int:
        """Ask the lock's holder to bring files and log together. Returns the number to be served."""
        fd = files.open_private(self._requests_path(root), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(fd, b".")
            return os.fstat(fd).st_size  # perhaps of a later request: then we are served with it
        finally:
            os.close(fd)

    def request_count(self, root: str) -> int:
        """How many requests there were so far."""
        try:
            return os.stat(self._requests_path(root)).st_size
        except FileNotFoundError:
            return 0

    def reset_request_count(self, tree: MirroredTree) -> None:
        """Reset the counter when it has grown large. The tree first: no request may seem served that is not."""
        if self.request_count(tree.root) > _TRIM_ASKED_AT:
            tree.served = 0
            self.save(tree)
            os.truncate(self._requests_path(tree.root), 0)

    def _requests_path(self, root: str) -> str:
        return self.place(root) + ".asked"

    # ── every version ever written ───────────────────────────────────────────────────────────────────────

    def note_session(self, root: str, session: str) -> None:
        """Called before a session becomes current here: it is shown even if another one replaces it at once."""
        fd = files.open_private(self._sessions_path(root), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(fd, f"{session}\n".encode())
        finally:
            os.close(fd)

    def sessions(self, root: str) -> list[str]:
        """The sessions that became current here while something was mirrored, in that order."""
        path = self._sessions_path(root)
        if not os.path.exists(path):
            return []
        return files.read_limited(path, _MAX_SIZE, subject="what mirrors remember").decode("ascii", "replace").split()

    def _sessions_path(self, root: str) -> str:
        return self.place(root) + ".sessions"

    def remember(self, main: str, hashes: list[str]) -> None:
        """Remember versions before they are written, so that they are known as ours whatever happens."""
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
            versions = files.read_limited(path, _MAX_VERSIONS_SIZE, subject="the versions of mirrored files")
            files.write_atomic(path, versions[-size // 2 :].partition(b"\n")[2], durable=False)

    def was_written(self, main: str, hashed: str) -> bool:
        """Whether a mirror of this project ever wrote this content, in any of its work trees."""
        return hashed in self.written(main)

    def written(self, main: str) -> frozenset[str]:
        """The hashes of everything that mirrors of this project wrote, and of the events as of which they did."""
        path = self.place(main) + ".versions"
        if not os.path.exists(path):
            return frozenset()
        raw = files.read_limited(path, _MAX_VERSIONS_SIZE, subject="the versions of mirrored files")
        return frozenset(raw.decode("ascii", "replace").split())


def _read(path: str, kind: type[_T]) -> _T | None:
    """None if it does not exist or cannot be read: all of it can be rebuilt."""
    if not os.path.lexists(path):
        return None
    try:
        return msgspec.json.decode(
            files.read_limited(path, _MAX_SIZE, subject="what mirrors remember"), type=decodable(kind)
        )
    except (msgspec.MsgspecError, UnicodeDecodeError, HoldfastError):
        return None
