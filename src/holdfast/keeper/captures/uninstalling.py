"""Taking every trace of Holdfast out of this machine's agents, in every project it remembers. What was recorded stays
where it is: it is the person's.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from holdfast.capture import glances, script, spool
from holdfast.capture.registry import CONNECTABLE
from holdfast.core.errors import HoldfastError
from holdfast.keeper.captures import connecting, installing, opened
from holdfast.keeper.captures.connecting import Connected
from holdfast.keeper.captures.connections import Connections
from holdfast.keeper.captures.taking_back import refuse_unwritable
from holdfast.machine.locks import locked

if TYPE_CHECKING:
    from holdfast.capture.places import Places
    from holdfast.keeper.keeper import Keeper


class Uninstalled(NamedTuple):
    connections: list[Connected]
    removed: list[str]
    # Sentences on what could not be done, each naming its file.
    problems: list[str]


def uninstall(keeper: Keeper, places: Places) -> Uninstalled:
    """Disconnect everything, then remove the scripts. One file that resists does not keep the others."""
    home = keeper.home.path
    done: list[Connected] = []
    removed: list[str] = []
    problems: list[str] = []
    try:
        keeper.absorb()  # what agents told until now is recorded before the way it came is gone
    except HoldfastError as error:
        problems.append(error.message)
    memory = Connections(home)
    resisting: set[str] = set()
    if memory.are_there:
        with locked(memory.lock, what="uninstall"):
            for connection in memory.all():
                try:
                    plan = connecting.plan_back(home, connection)
                    refuse_unwritable(plan[1])
                    done.append(connecting.carry_back(keeper, memory, *plan))
                except HoldfastError as error:
                    problems.append(error.message)
                    resisting.add(connection.agent)
    # Where taking back failed, what is remembered stays the way to do it: entries are not picked out of the file.
    for name in (one for one in CONNECTABLE if one not in resisting):
        try:
            left = connecting.forgotten(keeper, places, name)
        except HoldfastError as error:
            if error.message not in problems:
                problems.append(error.message)
            continue
        if left.is_new:
            done.append(left)
    done = [connecting.with_what_stays(home, places, one) for one in done]
    if problems:
        return Uninstalled(done, removed, problems)
    # Only now: hooks that are still connected somewhere need their script and what is remembered about them.
    if installing.remove(home):
        removed.append(os.path.join(home, script.DIRECTORY))
    if memory.are_there:
        memory.clear()
        removed.append(os.path.join(home, "connections"))
    if _remove_spool(home):
        removed.append(os.path.join(home, spool.DIRECTORY))
    # What was kept for status lines and for conversations without a session is of no use to anybody now.
    for name in (glances.DIRECTORY, opened.DIRECTORY):
        path = os.path.join(home, name)
        if _remove_notes(path):
            removed.append(path)
    return Uninstalled(done, removed, problems)


def _remove_notes(directory: str) -> bool:
    """Small files that can all be made again; whatever else somebody put there stays."""
    if os.path.islink(directory):
        return False
    try:
        for name in os.listdir(directory):
            os.unlink(os.path.join(directory, name))
        os.rmdir(directory)
    except OSError:
        return False
    return True


def _remove_spool(home: str) -> bool:
    """The spool goes when nothing is left in it: payloads nobody could read are the person's to look at."""
    try:
        os.rmdir(os.path.join(home, spool.DIRECTORY))
    except OSError:
        return False
    return True
