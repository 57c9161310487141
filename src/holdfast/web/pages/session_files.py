"""The files that a session changed, one by one: what was done to each, and whether the last of it is on the disk."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from holdfast.sessions.resume import Landing, look

if TYPE_CHECKING:
    from holdfast.core.state import FileState, State
    from holdfast.keeper.keeper import Keeper

MAX_FILES: Final = 50  # files
MAX_CHANGES: Final = 10  # of one file
_SETTLED: Final = 2_000  # milliseconds after which a file that was written is told from its next writing by its time
_KNOWN: Final = 5_000
# What is on the disk beside what was recorded, in words and in a sentence.
_WORDS: Final[dict[Landing, tuple[str, str]]] = {
    "landed": ("✓ as recorded", "On this disk it is as this change left it."),
    "not landed": ("✗ as before", "On this disk it is as it was before this change."),
    "changed since": ("≠ changed since", "On this disk it is neither as this change left it nor as it was before."),
    "unknown": ("? not known", "It cannot be told whether it is still as this change left it."),
}
_STILL_THERE: Final = ("✗ still there", "It was recorded as deleted, and is on this disk.")
_MISSING: Final = ("✗ gone", "It is not on this disk any more.")


class ChangedFile(NamedTuple):
    path: str
    # The latest first.
    changes: list[FileState]
    # Where the project is on this machine.
    landing: Landing | None
    # It is not on the disk, though nobody recorded that it was deleted.
    is_missing: bool = False

    @property
    def on_disk(self) -> tuple[str, str]:
        if self.landing == "not landed" and (self.is_missing or self.last.action == "deleted"):
            return _MISSING if self.is_missing else _STILL_THERE
        return _WORDS[self.landing or "unknown"]

    @property
    def last(self) -> FileState:
        return self.changes[0]

    @property
    def name(self) -> str:
        """Of its region: a path may hold anything."""
        return f"file-{hashlib.sha256(self.path.encode(errors='surrogatepass')).hexdigest()[:16]}"


def grouped(state: State) -> list[tuple[str, list[FileState]]]:
    """By file, the one that was changed last first."""
    files: dict[str, list[FileState]] = {}
    for change in state.files:
        earlier = files.pop(change.path, [])
        files[change.path] = [*earlier, change] if len(earlier) < MAX_CHANGES else [*earlier[1:], change]
    return [(path, changes[::-1]) for path, changes in reversed(files.items())]


class Landings:
    """What became of files, remembered until they or what is known of them change: hashing them is the dear part."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[object, Landing]] = {}

    def of(self, keeper: Keeper, state: State, root: str | None, changes: list[FileState]) -> dict[str, Landing]:
        """By path, for the last change of each file."""
        if root is None:
            return {}
        landings: dict[str, Landing] = {}
        asked: list[tuple[FileState, object]] = []
        for change in changes:
            fingerprint = _fingerprint(root, change, keeper.now())
            known = self._known.get((root, change.path))
            if known is not None and fingerprint is not None and known[0] == fingerprint:
                landings[change.path] = known[1]
            else:
                asked.append((change, fingerprint))
        if asked:
            only = replace(state, files=[change for change, _ in asked], agents={}, native={})
            if len(self._known) > _KNOWN:
                self._known.clear()
            for landed, (change, fingerprint) in zip(look(only, root).files, asked, strict=True):
                landings[change.path] = landed.landing
                self._known[root, change.path] = fingerprint, landed.landing
        return landings


def _fingerprint(root: str, change: FileState, now: int) -> object:
    """Tells one state of a file from another; None where it is too young to be told from the next."""
    expected = change.action, change.hash_before, change.hash_after
    try:
        info = os.stat(os.path.join(root, *change.path.split("/")))
    except (OSError, ValueError):
        return (*expected, None)
    if now - info.st_mtime_ns // 1_000_000 < _SETTLED:
        return None
    return *expected, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns


LANDINGS: Final = Landings()


def files(keeper: Keeper, state: State, root: str | None) -> tuple[list[ChangedFile], int]:
    """Those to be shown, and how many there are."""
    every = grouped(state)
    shown = every[:MAX_FILES]
    landed = LANDINGS.of(keeper, state, root, [changes[0] for _, changes in shown])
    return [
        ChangedFile(path, changes, landed.get(path), is_missing=_is_missing(root, changes[0], landed.get(path)))
        for path, changes in shown
    ], len(every)


def _is_missing(root: str | None, change: FileState, landing: Landing | None) -> bool:
    return (
        root is not None
        and landing == "not landed"
        and change.action != "deleted"
        and not os.path.lexists(os.path.join(root, *change.path.split("/")))
    )
