"""A hook that waits for an answer: its payload is taken in with everything before it, and answered from what is
true then. Opened anew for each: hooks are processes of their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TypeVar

from holdfast.capture import absence, glances, registry, spool
from holdfast.capture.interface import Heard, Reply
from holdfast.capture.places import Places
from holdfast.core import view
from holdfast.core.errors import Busy, HoldfastError, Unreachable
from holdfast.keeper.captures import glance
from holdfast.keeper.captures.answering import answer
from holdfast.keeper.captures.payloads import decoded, read
from holdfast.keeper.keeper import Keeper
from holdfast.machine.locks import locked
from holdfast.machine.wall import Wall

_AT_WORK = "drain.lock"  # in the home: held by who takes in what waits
_NEXT = "drain.next"  # held by who comes after them
_SOON = 60.0  # seconds to wait for who is at work
_Result = TypeVar("_Result")


def answered(home: str, name: str, *, store: str | None, payload: bytes | None = None) -> Reply | None:
    """The reply to the payload handed over under this name; None when there is nothing to say."""
    asked = name.partition(".")[0]
    heard = _heard(home, name, asked, payload)
    if heard is None or heard.occasion is None or heard.agent != asked or absence.is_away(home, store):
        return None
    return _briefly(home, heard.cwd, store, absence.HURRY, lambda keeper: _answered(keeper, heard, store))


def _answered(keeper: Keeper, heard: Heard, store: str | None) -> Reply | None:
    home = keeper.home.path
    keeper.absorb()
    if keeper.upkeep.compares:
        # The agent waits for this process: another one looks at the work tree before anything is changed there.
        from holdfast.machine import detached

        detached.start("holdfast.cli.hooking", "drain", home)
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


def named_in_commit(home: str, path: str, *, store: str | None) -> None:
    """Name the session in the message of the commit that is being made in this directory."""
    if not absence.is_away(home, store):
        from holdfast.keeper.captures.git_trailer import add_trailer

        _briefly(home, None, store, absence.HURRY, lambda keeper: add_trailer(keeper, path))


def drained(home: str, *, store: str | None, places: Places | None = None) -> None:
    """Take in what waits, for nobody in particular; where a turn began or ended, compare the work tree and read the
    transcript.
    """
    if not absence.is_on_a_server(store):
        _briefly(home, None, store, absence.LEISURE, lambda keeper: _drained(keeper, places))
    elif not absence.is_away(home, store, absence.LEISURE):
        with suppress(Busy):
            _in_turn(home, store, places)


def _drained(keeper: Keeper, places: Places | None) -> None:
    from holdfast.keeper.captures.comparison import compare_due
    from holdfast.keeper.captures.conversations import update_due

    keeper.absorb()
    compare_due(keeper)
    if places is not None:
        update_due(keeper, places)


def _in_turn(home: str, store: str | None, places: Places | None) -> None:
    """A server may take its time, and hooks keep sending processes for what they left. One of them is at work and one
    waits: begun later than that, it finds all that was left before it began. The others are not needed.
    """
    with ExitStack() as waiting:
        waiting.enter_context(locked(os.path.join(home, _NEXT), patience=0, what="draining"))
        with locked(os.path.join(home, _AT_WORK), patience=_SOON, what="draining"):
            waiting.close()
            if not absence.is_away(home, store, absence.LEISURE):
                _briefly(home, None, store, absence.LEISURE, lambda keeper: _drained(keeper, places))


def _briefly(
    home: str, cwd: str | None, store: str | None, patience: float, do: Callable[[Keeper], _Result]
) -> _Result | None:
    """Do something that is not worth a long wait. A server that is away is named once, by the first to notice."""
    try:
        with _keeper(home, cwd, store) as keeper:
            keeper.patience = keeper.hurry = patience
            done = do(keeper)
            waits = spool.anything(home, keeper.upkeep.spool_tag)
    except Unreachable as error:
        absence.noticed(home, "hook", store or "", error.message, patience)
        return None
    if absence.is_on_a_server(store) and not waits:
        absence.is_over(home)
    return done


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
