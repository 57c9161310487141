"""Syncing with every remote of this device, one after the other: what fails at one does not hold up the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from holdfast.core import view
from holdfast.core.errors import HoldfastError
from holdfast.core.text import shorten
from holdfast.keeper.teleports import guesting, opening, remotes, travelling
from holdfast.keeper.teleports.remotes import Remote
from holdfast.store import origin
from holdfast.teleport import founding, joining, syncing
from holdfast.teleport.memory import Memory
from holdfast.teleport.report import Progress, Report, silent

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper


class News(NamedTuple):
    """A session that something was learned of, and how many of its conflicts nobody has settled."""

    id: str
    goal: str
    conflicts: int


class Synced(NamedTuple):
    """What came of it: all remotes together, and those that failed."""

    report: Report
    failed: dict[str, HoldfastError]
    conflicts: int
    reached: list[str]
    # What was learned of, the latest first.
    sessions: list[News]


def sync(
    keeper: Keeper,
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
    wanted = [remotes.named(keeper.home, name)] if name is not None else remotes.load(keeper.home)
    if not wanted:
        raise remotes.none()
    keeper.absorb()
    report, failed, reached = Report(), {}, []
    with opening.alone(keeper):
        begun()
        for one in wanted:
            if guesting.leave_deleted(keeper, one):
                report.note(f"The session of {one.name} was deleted here: it is not followed any more.")
                continue
            if guesting.leave_superseded(keeper, one):
                report.note(f"{one.name} has the id of a session of your own: it is not followed any more.")
                continue
            try:
                with opening.vault(keeper, one, hurried=not patient) as vault:
                    report.add(syncing.sync(vault, progress=progress, patient=patient, put_back=put_back))
                    wrong = founding.replaced(vault) if patient and one.kind == "vault" else None
                    if wrong is not None:
                        report.reject(founding.PUBLIC, "", wrong)
                    if joining.under_other_keys(vault):
                        said = remotes.other_keys(one)
                        report.note(f"{one.name}: {said}")
                reached.append(one.name)
            except HoldfastError as error:
                failed[one.name] = error
                note_error(keeper, one, error)
    keeper.upkeep.travelled()
    _tell_of_shares_elsewhere(keeper, report)
    _remember_gone(keeper, report)
    sessions = news(keeper, report.sessions)
    return Synced(report, failed, sum(one.conflicts for one in sessions), reached, sessions)


def note_error(keeper: Keeper, remote: Remote, error: HoldfastError) -> None:
    """Let `status` show it, until a sync succeeds."""
    memory = Memory(keeper.store(), remote.vault)
    standing = memory.standing()
    if standing.error != error.message:
        with keeper.transaction() as transaction:
            memory.write(transaction, replace(standing, error=error.message), "standing")


def news(keeper: Keeper, sessions: Iterable[str]) -> list[News]:
    """What these sessions are about, the latest first; those that were deleted are not among them."""
    found: list[tuple[int, News]] = []
    for session in sessions:
        state = keeper.store().state(session)
        if state is not None and not state.deleted:
            conflicts = sum(one.chosen is None for one in view.conflicts(state))
            about = News(session, shorten(view.word(state, "goal") or "", 200), conflicts)
            found.append((max(state.latest.values(), default=0), about))
    return [about for _, about in sorted(found, key=lambda one: (-one[0], one[1].id))]


def _tell_of_shares_elsewhere(keeper: Keeper, report: Report) -> None:
    """Only devices that accepted a share take part in it: what others of the same person record reaches no owner."""
    accepted = guesting.shares(keeper.home)
    for session in sorted(report.sent - accepted.keys()):
        if origin.share_of(keeper.store(), session) is not None:
            report.note(
                f"Session {session[:8]} was shared with another device of yours: what this one records in it stays"
                " among your own devices. To send it to its owner: holdfast accept"
            )


# ── what others deleted ──────────────────────────────────────────────────────────────────────────────────


def _remember_gone(keeper: Keeper, report: Report) -> None:
    """So that whoever was at work on it is told, also where nobody saw this sync. What it was about is erased."""
    left = [(place, one) for one in report.deleted for place in one.places]
    if left:
        with keeper.transaction() as transaction:
            for place, one in left:
                transaction.remember(travelling.GONE + place, f"{one.session}\n{one.device}".encode())
