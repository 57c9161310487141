"""Syncing with every remote of this device, one after the other: what fails at one does not hold up the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from holdfast.core import view
from holdfast.core.errors import HoldfastError
from holdfast.keeper.teleports import opening, remotes
from holdfast.keeper.teleports.remotes import Remote
from holdfast.teleport import syncing
from holdfast.teleport.memory import Memory
from holdfast.teleport.report import Progress, Report, silent

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper


class Synced(NamedTuple):
    """What came of it: all remotes together, and those that failed."""

    report: Report
    failed: dict[str, HoldfastError]
    conflicts: int
    reached: list[str]


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
            try:
                with opening.vault(keeper, one, hurried=not patient) as vault:
                    report.add(syncing.sync(vault, progress=progress, patient=patient, put_back=put_back))
                reached.append(one.name)
            except HoldfastError as error:
                failed[one.name] = error
                note_error(keeper, one, error)
    keeper.upkeep.travelled()
    return Synced(report, failed, conflicts(keeper, report.sessions), reached)


def note_error(keeper: Keeper, remote: Remote, error: HoldfastError) -> None:
    """Let `status` show it, until a sync succeeds."""
    memory = Memory(keeper.store(), remote.vault)
    standing = memory.standing()
    if standing.error != error.message:
        with keeper.transaction() as transaction:
            memory.write(transaction, replace(standing, error=error.message), "standing")


def conflicts(keeper: Keeper, sessions: Iterable[str]) -> int:
    """How many conflicts nobody has settled yet, in these sessions."""
    found = 0
    for session in sessions:
        state = keeper.store().state(session)
        if state is not None and not state.deleted:
            found += sum(one.chosen is None for one in view.conflicts(state))
    return found
