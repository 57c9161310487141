"""A hook that waits for an answer: its payload is taken in with everything before it, and answered from what is
true then. Opened anew for each: hooks are processes of their own.
"""

from __future__ import annotations

import os

from holdfast.capture import glances, registry, spool
from holdfast.capture.interface import Heard, Reply
from holdfast.core import view
from holdfast.core.errors import HoldfastError
from holdfast.keeper.captures import glance
from holdfast.keeper.captures.answering import answer
from holdfast.keeper.captures.payloads import decoded, read
from holdfast.keeper.keeper import Keeper
from holdfast.machine.wall import Wall

_HURRY = 0.4  # seconds that the store may keep an agent waiting
_LEISURE = 5.0


def answered(home: str, name: str, *, store: str | None, payload: bytes | None = None) -> Reply | None:
    """The reply to the payload handed over under this name; None when there is nothing to say."""
    asked = name.partition(".")[0]
    heard = _heard(home, name, asked, payload)
    if heard is None or heard.occasion is None or heard.agent != asked:
        return None
    keeper = _keeper(home, heard.cwd, store)
    with keeper:
        keeper.patience = _HURRY
        keeper.absorb()
        agent = registry.agent(heard.agent)
        said = answer(keeper, heard, room=agent.room)
        if said.notify and said.say and not agent.notifies:
            from holdfast.keeper.captures.notifying import notify

            notify(home, "Holdfast", said.say)
        if heard.occasion == "prompt":
            # From now on the next prompts can see for themselves that there is nothing to say.
            name = view.native_name(heard.agent, heard.conversation)
            if not os.path.lexists(glances.of_conversation(home, name)):
                glance.asked(keeper, name, heard.cwd or "", store=store or "")
        return agent.reply(said, heard.event)


def drained(home: str, *, store: str | None) -> None:
    """Take in what waits, for nobody in particular."""
    with _keeper(home, None, store) as keeper:
        keeper.patience = _LEISURE
        keeper.absorb()


def _heard(home: str, name: str, asked: str, payload: bytes | None) -> Heard | None:
    """What it says: from memory if possible, because somebody else may take in the file this very moment."""
    if payload is not None:
        found = decoded(payload) if asked in registry.NAMES else None
        return None if found is None else registry.agent(asked).heard(found)
    path = os.path.join(home, spool.DIRECTORY, name)
    try:
        entry = spool.Entry(path, name, os.lstat(path))
    except FileNotFoundError:
        return None
    taken = read(entry, Wall().now()).taken
    return None if taken is None else taken.heard


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
