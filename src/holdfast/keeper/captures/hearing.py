"""A hook that waits for an answer: its payload is taken in with everything before it, and answered from what is
true then. Opened anew for each: hooks are processes of their own.
"""

from __future__ import annotations

import os

from holdfast.capture import registry, spool
from holdfast.capture.interface import Reply
from holdfast.core.errors import HoldfastError
from holdfast.keeper.captures.answering import answer
from holdfast.keeper.captures.draining import Taken, read
from holdfast.keeper.keeper import Keeper
from holdfast.machine.wall import Wall

_ROOM = 9_500  # characters: agents cut what is longer than 10,000
_HURRY = 0.4  # seconds that the store may keep an agent waiting
_LEISURE = 5.0


def answered(home: str, name: str, *, store: str | None) -> Reply | None:
    """The reply to the payload handed over under this name; None when there is nothing to say."""
    taken = _heard(home, name)
    if taken is None or taken.heard.occasion is None or taken.heard.agent != taken.entry.agent:
        return None
    keeper = _keeper(home, taken.heard.cwd, store)
    with keeper:
        keeper.patience = _HURRY
        keeper.absorb()
        agent = registry.agent(taken.heard.agent)
        said = answer(keeper, taken.heard, room=min(_ROOM, getattr(agent, "room", _ROOM)))
        return agent.reply(said, taken.heard.event)


def drained(home: str, *, store: str | None) -> None:
    """Take in what waits, for nobody in particular."""
    with _keeper(home, None, store) as keeper:
        keeper.patience = _LEISURE
        keeper.absorb()


def _heard(home: str, name: str) -> Taken | None:
    path = os.path.join(home, spool.DIRECTORY, name)
    try:
        entry = spool.Entry(path, name, os.lstat(path))
    except FileNotFoundError:
        return None
    return read(entry, Wall().now()).taken


def _keeper(home: str, cwd: str | None, store: str | None) -> Keeper:
    for directory in (cwd, ".", home):
        if directory and "\0" not in directory and os.path.isdir(directory):
            try:
                keeper = Keeper.open(directory, home=home, store=store)
            except HoldfastError:
                continue
            keeper.looks_once = True
            return keeper
    return Keeper.open(os.sep, home=home, store=store)
