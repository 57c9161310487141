"""The files a session changed: what was done to each, and whether its last change is on disk."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from holdfast.sessions.resume import Landing, preview

if TYPE_CHECKING:
    from holdfast.core.state import FileState, State
    from holdfast.keeper.keeper import Keeper

MAX_FILES: Final = 50  # files
MAX_CHANGES: Final = 10  # of one file
_SETTLED_MS: Final = 2_000  # milliseconds after which a file's time distinguishes it from its next version
_MAX_CACHED: Final = 5_000
# What is on disk compared with what was recorded, briefly and in a sentence.
_LANDING_WORDS: Final[dict[Landing, tuple[str, str]]] = {
    "landed": ("✓ as recorded", "On this disk it is as this change left it."),
    "not landed": ("✗ as before", "On this disk it is as it was before this change."),
    "changed since": ("≠ changed since", "On this disk it is neither as this change left it nor as it was before."),
    "unknown": ("? not known", "It is not known whether it is still as this change left it."),
}
_STILL_THERE: Final = ("✗ still there", "It was recorded as deleted, but is on this disk.")
_MISSING: Final = ("✗ missing", "It is no longer on this disk.")


class ChangedFile(NamedTuple):
    path: str
    # The latest first.
    changes: list[FileState]
    # None unless the project is on this machine.
    landing: Landing | None
    # It is not on disk, though its deletion was not recorded.
    is_missing: bool = False

    @property
    def on_disk(self) -> tuple[str, str]:
        if self.landing == "not landed" and (self.is_missing or self.last.action == "deleted"):
            return _MISSING if self.is_missing else _STILL_THERE
        return _LANDING_WORDS[self.landing or "unknown"]

    @property
    def last(self) -> FileState:
        return self.changes[0]

    @property
    def name(self) -> str:
        """The name of its region: a path may contain anything."""
        return f"file-{hashlib.sha256(self.path.encode(errors='surrogatepass')).hexdigest()[:16]}"


def changes_by_file(state: State) -> list[tuple[str, list[FileState]]]:
    """Changes by file, the file changed last first."""
    files: dict[str, list[FileState]] = {}
    for change in state.files:
        earlier = files.pop(change.path, [])
        files[change.path] = [*earlier, change] if len(earlier) < MAX_CHANGES else [*earlier[1:], change]
    return [(path, changes[::-1]) for path, changes in reversed(files.items())]


class Landings:
    """What became of files, cached until the file or its record changes: hashing is expensive."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[object, Landing]] = {}

    def of(self, keeper: Keeper, state: State, root: str | None, changes: list[FileState]) -> dict[str, Landing]:
        """By path, for the last change of each file."""
        if root is None:
            return {}
        landings: dict[str, Landing] = {}
        unknown: list[tuple[FileState, object]] = []
        for change in changes:
            fingerprint = _fingerprint(root, change, keeper.now())
            known = self._known.get((root, change.path))
            if known is not None and fingerprint is not None and known[0] == fingerprint:
                landings[change.path] = known[1]
            else:
                unknown.append((change, fingerprint))
        if unknown:
            partial_state = replace(state, files=[change for change, _ in unknown], agents={}, native={})
            if len(self._known) > _MAX_CACHED:
                self._known.clear()
            for landed, (change, fingerprint) in zip(preview(partial_state, root).files, unknown, strict=True):
                landings[change.path] = landed.landing
                self._known[root, change.path] = fingerprint, landed.landing
        return landings


def _fingerprint(root: str, change: FileState, now: int) -> object:
    """Identifies a version of a file; None if the file is too young for that."""
    expected = change.action, change.hash_before, change.hash_after
    try:
        info = os.stat(os.path.join(root, *change.path.split("/")))
    except (OSError, ValueError):
        return (*expected, None)
    if now - info.st_mtime_ns // 1_000_000 < _SETTLED_MS:
        return None
    return *expected, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns


LANDINGS: Final = Landings()


def files(keeper: Keeper, state: State, root: str | None) -> tuple[list[ChangedFile], int]:
    """The files to show, and how many there are."""
    all_files = changes_by_file(state)
    shown = all_files[:MAX_FILES]
    landings = LANDINGS.of(keeper, state, root, [changes[0] for _, changes in shown])
    return [
        ChangedFile(path, changes, landings.get(path), is_missing=_is_missing(root, changes[0], landings.get(path)))
        for path, changes in shown
    ], len(all_files)


def _is_missing(root: str | None, change: FileState, landing: Landing | None) -> bool:
    return (
        root is not None
        and landing == "not landed"
        and change.action != "deleted"
        and not os.path.lexists(os.path.join(root, *change.path.split("/")))
    )
