"""Restores a backup: what it has and the store lacks is added, but for what its author had no right to erase."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from holdfast.core.event import Event
from holdfast.core.reading import read
from holdfast.core.vocabulary import EventErased
from holdfast.store.interface import Copied

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

_NOT_THEIRS: Final = "it would delete or erase what is here, by a device that neither wrote it nor is one of yours"
ERASES: Final = "it would delete or erase what is here, and nothing in a backup proves who said so"
DISPLACES: Final = "something in it would stand in the place of what was recorded here"
SPEAKS: Final = "it has words of a device of yours that are not here, and nothing in a backup proves who said them"
_NUMBERS: Final = "it numbers what this device recorded so that others could not follow it"
_ANOTHER: Final = "it has nothing in common with the session that is here but its id"


def restore(keeper: Keeper, path: str, *, erase: bool = False) -> Copied:
    """Unite with a backup; says how many events were new, and which sessions were left as they are.

    Whoever made the file could have written anything in anybody's name. So what it deletes, erases or displaces of
    what is here is obeyed only when a person says so (`erase`), and so is what it says for this person's devices.
    """
    new = keeper.store().restore(path, lambda session, events: _refusal(keeper, session, events, erase=erase))
    if new.events:
        from holdfast.keeper.captures import glance

        glance.forget(keeper.home.path)
    return new


def _refusal(keeper: Keeper, session: str, events: Iterable[Event], *, erase: bool) -> str | None:
    """Why a session is left as it is; None when the backup's events are taken in."""
    events = list(events)
    here = {event.hash: event for event in keeper.store().events(session)}
    keys = {event.key for event in here.values()} - {None}
    if not any(event.hash in here or event.key in keys for event in events):
        return _ANOTHER
    new = [event for event in events if event.hash not in here]
    own = keeper.home.writer(keeper.address)
    last = max((event.seq for event in here.values() if event.writer == own), default=0)
    beyond = sorted(event.seq for event in new if event.writer == own and event.seq > last)
    if beyond and beyond[-1] != last + len(beyond):
        return _NUMBERS
    # Where devices synchronise, what one of them said comes from there: a guest could have made the file.
    if not erase and os.path.lexists(keeper.home.remotes) and any(_is_ours(keeper, event.writer) for event in new):
        return SPEAKS
    keyed = {event.key: event for event in here.values() if event.key is not None}
    for event in () if erase else events:
        known = None if event.key is None else keyed.get(event.key)
        if known is None or event.hash in here or event.written > known.written:
            continue
        if (event.type, event.data) != (known.type, known.data):
            return DISPLACES
    erasing = [event for event in events if event.type in ("session.deleted", "event.erased")]
    began = {event.writer for event in here.values() if event.type == "session.started"}
    for event in erasing:
        if event.hash in here or _is_ours(keeper, event.writer):
            continue
        said = read(event)
        if event.type == "session.deleted" and event.writer in began:
            continue
        if isinstance(said, EventErased) and all(
            name in here and here[name].writer == event.writer for name in said.hashes
        ):
            continue
        return _NOT_THEIRS
    return None if erase or all(event.hash in here for event in erasing) else ERASES


def _is_ours(keeper: Keeper, writer: str) -> bool:
    if writer == keeper.home.writer(keeper.address):
        return True
    if not os.path.lexists(keeper.home.device):
        return False
    from holdfast.keeper.teleports import opening

    return opening.here(keeper).is_ours(writer)
