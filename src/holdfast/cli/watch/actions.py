"""What keys do to a session: the keeper's verbs, and what became of them in words."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.cli.watch.bindings import Deed
from holdfast.core.wording import count, reminder
from holdfast.sessions.work_trees import at_its_place

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.session import SessionHandle


def act(keeper: Keeper, deed: Deed, prepare: Callable[[Keeper], None]) -> str:
    """Do it; gives the sentences for the person. `prepare` tells a keeper what only the surface knows."""
    there = at_its_place(keeper, deed.session)
    prepare(there)
    told = _done(there.session(deed.session), deed)
    return " ".join([*told, *_besides(there)])


def asks_others(keeper: Keeper, deed: Deed) -> bool:
    """Whether it takes a while, because other devices are heard first."""
    return deed.verb == "resume" and os.path.lexists(keeper.home.remotes)


def _done(session: SessionHandle, deed: Deed) -> list[str]:
    name = session.id[:8]
    if deed.verb == "note":
        session.note(deed.text)
        return [f"Noted in {name}."]
    if deed.verb == "pause":
        session.pause(deed.text.strip() or None)
        return [f"Paused {name}."]
    return _resumed(session, name)


def _resumed(session: SessionHandle, name: str) -> list[str]:
    heard: list[str] = []
    if os.path.lexists(session.keeper.home.remotes):
        from holdfast.sync.background import catch_up

        heard = catch_up(session.keeper)
    resumed = session.resume()
    lost = len(resumed.interrupted)
    told = [f"Resumed {name}" + (f"; {count(lost, 'agent was', 'agents were')} interrupted." if lost else ".")]
    return [*told, *(f"This place differs: {difference.detail}." for difference in resumed.ground), *heard]


def _besides(keeper: Keeper) -> list[str]:
    """What the person should know as well: mirrored files set aside, secrets cut out, a break due."""
    recorder, told = keeper.recorder, [*keeper.notices]
    keeper.notices.clear()
    if recorder.tally.redacted:
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(recorder.tally.redacted.items()))
        told.append(f"Secrets were cut out before anything was stored: {kinds}.")
        recorder.tally.redacted.clear()
    if recorder.tally.reached:
        told.append(reminder(*recorder.tally.reached[-1]))
        recorder.tally.reached.clear()
    return told
