"""Followers: one capability's part in every verb; and the doctor's checks, which capabilities contribute."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from holdfast.machine.wall import monotonic

if TYPE_CHECKING:
    from holdfast.core.errors import Refused
    from holdfast.core.model import Sync, SyncFacts
    from holdfast.core.state import State
    from holdfast.store.interface import Transaction
    from holdfast.workspace.workspace import Workspace

CheckStatus = Literal["ok", "warning", "failed"]
NOTHING_STORED: Final = "nothing kept yet"
NOT_OPENED: Final = "not checked: the store cannot be opened"
MAX_SHOWN: Final = 3  # problems that one check lists
REPAIR_COMMAND: Final = "holdfast doctor --repair"
COPIED_HOME_HINT: Final = (
    "Nothing is lost, and there is nothing to do, unless two machines use copies of one home: then, on one of them,"
    " move device.json and remotes.json out of the home, and add the remote again."
)


class Check(msgspec.Struct, frozen=True, gc=False):
    name: str
    status: CheckStatus
    detail: str
    fix: str | None = None


_CHECK_INTERVAL: Final = 0.05  # seconds


class WorkCommit(NamedTuple):
    """What was recorded since the followers last ran."""

    sessions: frozenset[str]
    # Whether to sync soon.
    needs_sync: bool


class ResumeDifference(NamedTuple):
    """One difference from how the session was left, how to fix it, and whether it makes resuming unsafe."""

    what: str
    detail: str
    fix: str | None
    blocking: bool


class Follower:
    """One capability's part in every verb. A method does nothing unless the capability needs it."""

    # Its name in the error log, and the notice when it fails.
    name = ""
    failure = ""

    # ── around every verb ────────────────────────────────────────────────────────────────────────────────

    def collect(self, ws: Workspace) -> None:
        """Record what others left for us, before a verb or a question."""

    def committed(self, ws: Workspace, commit: WorkCommit) -> None:
        """React to what was recorded. What this records is passed to later followers too."""

    def notices_shown(self, ws: Workspace) -> None:
        """The notices were shown to the person."""

    # ── what a session may do ────────────────────────────────────────────────────────────────────────────

    def write_refusal(self, ws: Workspace, session: str) -> Refused | None:  # noqa: ARG002
        """Why nothing can be recorded in a session."""
        return None

    def refuse_deleting(self, ws: Workspace, session: str) -> None:
        """Raise where a session must not be deleted from here."""

    def deleting(self, ws: Workspace, state: State) -> None:
        """Remove what is kept of a session besides its events, before these are erased."""

    def starting(self, ws: Workspace, transaction: Transaction, session: str) -> None:
        """A session was begun in this transaction."""

    def becoming_current(self, ws: Workspace, session: str) -> None:
        """A session is about to become current in this work tree."""

    # ── what other capabilities know ─────────────────────────────────────────────────────────────────────

    def conversation(self, ws: Workspace) -> str | None:  # noqa: ARG002
        """The agent's conversation that this process runs in, as `agent:id`."""
        return None

    def is_own_writer(self, ws: Workspace) -> Callable[[str], bool] | None:  # noqa: ARG002
        """A test whether a writer with keys is one of this person's devices."""
        return None

    def own_mark(self, ws: Workspace) -> str | None:  # noqa: ARG002
        """A mark that distinguishes our sessions from others' of the same id."""
        return None

    def limit_action(self, ws: Workspace) -> str | None:  # noqa: ARG002
        """What crossing the last limit of working time does if no setting says so."""
        return None

    def holds_one_session(self, ws: Workspace) -> bool:  # noqa: ARG002
        """Whether the work tree has room for one session only."""
        return False

    def own_paths(self, ws: Workspace) -> Sequence[str]:  # noqa: ARG002
        """Files in the work tree that Holdfast writes itself."""
        return ()

    def feature_path(self, ws: Workspace, feature_id: str) -> str | None:  # noqa: ARG002
        """Where a feature of this id is in the work tree."""
        return None

    def sync_of(self, ws: Workspace, state: State) -> Sync | None:  # noqa: ARG002
        """How far a session is sent to its remotes."""
        return None

    def sync_facts(self, ws: Workspace, state: State) -> SyncFacts | None:  # noqa: ARG002
        """The same for documents; None if the session is not synced."""
        return None

    def synced(self, ws: Workspace) -> None:
        """A sync is over."""

    def remotes_changed(self, ws: Workspace) -> None:
        """A remote or a share came or went."""

    def resume_differences(self, ws: Workspace, state: State) -> Iterable[ResumeDifference]:  # noqa: ARG002
        """What differs here from what another device left."""
        return ()


class Presence:
    """Whether a directory exists, cached briefly, as it is checked with every event."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._is_present = False
        self._next_check = 0.0

    def __call__(self) -> bool:
        if not self._is_present and (now := monotonic()) >= self._next_check:
            self._next_check = now + _CHECK_INTERVAL
            self._is_present = os.path.isdir(self._path)
        return self._is_present
