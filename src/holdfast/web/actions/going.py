"""Pausing, going on, and stopping."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core.errors import Invalid, Refused
from holdfast.core.short_names import agent_names
from holdfast.keeper import ground
from holdfast.keeper.elsewhere import at_its_place
from holdfast.keeper.resuming import look
from holdfast.keeper.wording import count, time_words
from holdfast.web.actions.said import AskFirst, Form, Said, nearest, said

if TYPE_CHECKING:
    from holdfast.keeper.ground import Difference
    from holdfast.keeper.keeper import Keeper


def pause(keeper: Keeper, reference: str, form: Form) -> Said:
    there, session = nearest(keeper, reference)
    there.session(session).pause(form.get("reason", "").strip() or None)
    return said("Paused.", there)


def resume(keeper: Keeper, reference: str, form: Form) -> Said:
    session = keeper.session(reference).id
    heard = _others_first(keeper)
    there = at_its_place(keeper, session)
    there.places = keeper.places
    try:
        found = there.session(session).resume(force=form.get("force") == "yes")
    except Refused as error:
        if any(one.blocking for one in _differences(there, session)):
            raise AskFirst("resume", error) from None
        raise
    more = [*heard, *(f"The ground differs, {one.detail}." for one in found.ground)]
    if found.interrupted:
        more.append(f"{count(len(found.interrupted), 'agent')} had been interrupted.")
    return said("Resumed.", keeper, there, more=tuple(more))


def _others_first(keeper: Keeper) -> list[str]:
    """Hear what other devices did, where there is a remote to ask."""
    if not os.path.lexists(keeper.home.remotes):
        return []
    from holdfast.keeper.teleports.catching_up import catch_up  # noqa: PLC0415 (most have no remote)

    return catch_up(keeper)


def _differences(there: Keeper, session: str) -> tuple[Difference, ...]:
    state = there.state(session)
    files = look(state, there.place.root).files
    return ground.check(there, state, files, foreign=ground.left_by_another(there, state))


def before_resuming(keeper: Keeper, reference: str) -> dict[str, object]:
    session = keeper.session(reference)
    there = at_its_place(keeper, session.id)
    there.places = keeper.places
    return {"session": session.document(), "differences": _differences(there, session.id)}


def stop(keeper: Keeper, reference: str, form: Form) -> Said:
    what = form.get("branch", "")
    if what not in ("", "keep", "discard"):
        raise Invalid("a branch is kept or discarded", hint="Or left alone.")
    there, session = nearest(keeper, reference)
    if what:
        there = at_its_place(keeper, session)  # to say why, where it is not here
    kept = there.session(session)
    done = kept.stop(keep=what == "keep", discard=what == "discard", reason=form.get("reason", "").strip() or None)
    time = kept.document().time
    more: tuple[str, ...] = ()
    if done.commit is not None:
        more = (f"Merged as {done.commit[:12]}; {done.branch} is deleted.",)
    elif done.tip is not None:
        more = (f"{done.branch} is deleted; git branch {done.branch} {done.tip[:12]} brings it back.",)
    if done.at_work:
        names = agent_names(kept.document().agents)
        running = ", ".join(names.get(id_, id_) for id_ in done.at_work)
        more = (*more, f"Still at work, and not stopped by this: {running}.")
    return said(f"Completed: {time_words(time)}.", keeper, there, more=more)


def before_stopping(keeper: Keeper, reference: str) -> dict[str, object]:
    session = keeper.session(reference)
    return {"session": session.document(), "came_from": session.state().came_from}
