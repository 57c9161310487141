"""Syncing with every remote of this device, one after the other: what fails at one does not hold up the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from holdfast.core import view
from holdfast.core.errors import HoldfastError
from holdfast.core.text import shorten
from holdfast.store import origin
from holdfast.sync import (
    create_vault,
    join_vault,
    open_vault,
    remote_list,
    session_status,
    shared_with_me,
    sync_remote,
)
from holdfast.sync.remote_list import KnownRemote
from holdfast.sync.state import VaultState
from holdfast.sync.sync_report import Progress, SyncReport, silent

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace


class SessionNews(NamedTuple):
    """A session that something was learned of, and how many of its conflicts nobody has settled."""

    id: str
    goal: str
    conflicts: int


class Synced(NamedTuple):
    """What came of it: all remotes together, and those that failed."""

    report: SyncReport
    failed: dict[str, HoldfastError]
    conflicts: int
    reached: list[str]
    # What was learned of, the latest first.
    sessions: list[SessionNews]


def sync(
    ws: Workspace,
    name: str | None = None,
    *,
    progress: Progress = silent,
    patient: bool = True,
    put_back: bool = False,
    begun: Callable[[], None] = lambda: None,
) -> Synced:
    """Exchange what is missing. `patient`: a person waits for it.

    `put_back`: a remote that was emptied gets everything again. `begun` is told when it is this one's turn: whatever
    was recorded until then is in it.
    """
    wanted = [remote_list.named(ws.home, name)] if name is not None else remote_list.load(ws.home)
    if not wanted:
        raise remote_list.none()
    ws.collect()
    report, failed, reached = SyncReport(), {}, []
    with open_vault.alone(ws):
        begun()
        for remote in wanted:
            if shared_with_me.leave_deleted(ws, remote):
                report.note(f"The session of {remote.name} was deleted here: it is not followed any more.")
                continue
            if shared_with_me.leave_superseded(ws, remote):
                report.note(f"{remote.name} has the id of a session of your own: it is not followed any more.")
                continue
            try:
                with open_vault.vault(ws, remote, hurried=not patient) as vault:
                    report.add(sync_remote.sync(vault, progress=progress, patient=patient, put_back=put_back))
                    wrong = create_vault.replaced(vault) if patient and remote.kind == "vault" else None
                    if wrong is not None:
                        report.reject(create_vault.PUBLIC, "", wrong)
                    if join_vault.under_other_keys(vault):
                        said = remote_list.other_keys(remote)
                        report.note(f"{remote.name}: {said}")
                reached.append(remote.name)
            except HoldfastError as error:
                failed[remote.name] = error
                note_error(ws, remote, error)
    ws.synced()
    _tell_of_shares_elsewhere(ws, report)
    _remember_gone(ws, report)
    sessions = news(ws, report.sessions)
    return Synced(report, failed, sum(session.conflicts for session in sessions), reached, sessions)


def note_error(ws: Workspace, remote: KnownRemote, error: HoldfastError) -> None:
    """Let `status` show it, until a sync succeeds."""
    memory = VaultState(ws.store(), remote.vault)
    standing = memory.standing()
    if standing.error != error.message:
        with ws.transaction() as transaction:
            memory.write(transaction, replace(standing, error=error.message), "standing")


def news(ws: Workspace, sessions: Iterable[str]) -> list[SessionNews]:
    """What these sessions are about, the latest first; those that were deleted are not among them."""
    found: list[tuple[int, SessionNews]] = []
    for session in sessions:
        state = ws.store().state(session)
        if state is not None and not state.deleted:
            conflicts = sum(conflict.chosen is None for conflict in view.conflicts(state))
            about = SessionNews(session, shorten(view.word(state, "goal") or "", 200), conflicts)
            found.append((max(state.latest.values(), default=0), about))
    return [about for _, about in sorted(found, key=lambda one: (-one[0], one[1].id))]


def _tell_of_shares_elsewhere(ws: Workspace, report: SyncReport) -> None:
    """Only devices that accepted a share take part in it: what others of the same person record reaches no owner."""
    accepted = shared_with_me.shares(ws.home)
    for session in sorted(report.sent - accepted.keys()):
        if origin.share_of(ws.store(), session) is not None:
            report.note(
                f"Session {session[:8]} was shared with another device of yours: what this one records in it stays"
                " among your own devices. To send it to its owner: holdfast accept"
            )


# ── what others deleted ──────────────────────────────────────────────────────────────────────────────────


def _remember_gone(ws: Workspace, report: SyncReport) -> None:
    """So that whoever was at work on it is told, also where nobody saw this sync. What it was about is erased."""
    left = [(place, deleted) for deleted in report.deleted for place in deleted.places]
    if left:
        with ws.transaction() as transaction:
            for place, rest in left:
                transaction.remember(session_status.GONE + place, f"{rest.session}\n{rest.device}".encode())
