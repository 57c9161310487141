"""Taking in a mirrored file: the session it shows, changed by somebody else, or a session nobody here began."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.core import view
from holdfast.core.lifecycle import FINISHED
from holdfast.core.vocabulary import Data, SessionArchived, SessionPaused
from holdfast.formats.keeping import shown as shown_as
from holdfast.keeper.absorbing import absorb
from holdfast.keeper.ground import ground
from holdfast.keeper.importing import Taken, readied, take_in
from holdfast.keeper.versions import nearest

if TYPE_CHECKING:
    from holdfast.core.canonical import Json
    from holdfast.formats.interface import Format
    from holdfast.keeper.keeper import Keeper


def take_file(
    keeper: Keeper,
    value: Json,
    rules: Format,
    *,
    shown: str | None,
    written: Callable[[str], bool],
    made_current: bool,
    edited: int | None = None,
) -> Taken:
    """`shown` is the session the file showed when it was left, if any. A new session can be `made_current`.

    `written` says of an event whether a file was written as of it. `edited` is when the file was changed, if known.
    """
    store = keeper.store()
    state = None if shown is None else store.state(shown)
    here = ground(keeper, state.project if state is not None else None)
    document, notes = readied(keeper, value, rules, here)
    known = shown is not None and state is not None and not state.deleted
    if not known or shown is None or state is None or rules.alias(document) != rules.alias(shown_as(state, rules)):
        taken = take_in(keeper, value, rules)
        return _made_current(keeper, taken, rules) if made_current else taken
    events = list(store.events(shown))
    base = nearest(events, rules, document, written)
    here = here._replace(now=_moment(edited, state, here.now))
    with keeper.transaction() as transaction:
        heard = absorb(
            keeper.recorder, transaction, shown, document, rules, base=base, ground=here,
            known={event.key for event in events},
        )  # fmt: skip
        if view.status_of(transaction.state(shown)) in FINISHED and store.current(keeper.place.root) == shown:
            transaction.set_current(keeper.place.root, None)
    return Taken(shown, False, heard.events, heard.conflicts, notes)


def _moment(edited: int | None, state: State, now: int) -> int:
    """When a change was made that names no time: when its file was. A clock that cannot be right counts for nothing."""
    return edited if edited is not None and state.time.start <= edited <= now else now


def _made_current(keeper: Keeper, taken: Taken, rules: Format) -> Taken:
    """Somebody began a session by writing its file: it is what this work tree is at now, if it is unfinished."""
    store = keeper.store()
    state = store.state(taken.session)
    current = store.current(keeper.place.root)
    assert state is not None
    if view.status_of(state) in FINISHED or current == taken.session or rules.name in ("craft", "contract"):
        return taken
    earlier = None if current is None else store.state(current)
    with keeper.transaction() as transaction:
        if earlier is not None and not earlier.deleted and view.status_of(earlier) not in FINISHED:
            away: list[Data] = [SessionArchived()]
            if view.status_of(earlier) == "in_progress":
                away.insert(0, SessionPaused(reason="Replaced by another session"))
            keeper.recorder.within(transaction, earlier.session, lambda _: away)
        transaction.set_current(keeper.place.root, taken.session)
    return taken
