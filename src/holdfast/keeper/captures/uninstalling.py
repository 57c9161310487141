"""Taking every trace of Holdfast out of this machine's agents, in every project it remembers. What was recorded stays
where it is: it is the person's.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from holdfast.capture import glances, script, spool
from holdfast.capture.registry import CONNECTABLE
from holdfast.core.errors import HoldfastError
from holdfast.keeper.captures import connecting, git_trailer, installing, opened
from holdfast.keeper.captures.connecting import Connected
from holdfast.keeper.captures.connections import Connections
from holdfast.keeper.captures.taking_back import refuse_unwritable
from holdfast.machine import files
from holdfast.machine.locks import locked

if TYPE_CHECKING:
    from holdfast.capture.places import Places
    from holdfast.keeper.keeper import Keeper


class Uninstalled(NamedTuple):
    connections: list[Connected]
    removed: list[str]
    # What could not be done, each naming its file.
    problems: list[HoldfastError]


def uninstall(keeper: Keeper, places: Places) -> Uninstalled:
    """Disconnect everything, then remove the scripts. One file that resists does not keep the others."""
    home = keeper.home.path
    done: list[Connected] = []
    removed: list[str] = []
    problems: list[HoldfastError] = []
    try:
        keeper.absorb()  # what agents told until now is recorded before the way it came is gone
    except HoldfastError as error:
        problems.append(error)
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
                    problems.append(error)
                    resisting.add(connection.agent)
    try:
        hooks = git_trailer.disconnect_all(home)
        done += [hooks] if hooks.files else []
    except HoldfastError as error:
        problems.append(error)
    # Where taking back failed, what is remembered stays the way to do it: entries are not picked out of the file.
    for name in (one for one in CONNECTABLE if one not in resisting):
        try:
            left = connecting.forgotten(keeper, places, name)
        except HoldfastError as error:
            if all(error.message != other.message for other in problems):
                problems.append(error)
            continue
        if left.is_new:
            done.append(left)
    done = [one if one.agent == git_trailer.NAME else connecting.with_what_stays(home, places, one) for one in done]
    if problems:
        return Uninstalled(done, removed, problems)
    # Only now: hooks that are still connected somewhere need their script and what is remembered about them.
    removals: tuple[tuple[str, Callable[[str], bool]], ...] = (
        (script.DIRECTORY, lambda _: installing.remove(home)),
        ("connections", lambda _: memory.are_there and memory.clear()),
        # Payloads that nobody could read are the person's to look at: with one of them, the spool stays.
        (spool.DIRECTORY, files.remove_directory),
        # What was kept for status lines and for conversations without a session is of no use to anybody now.
        (glances.DIRECTORY, _remove_notes),
        (opened.DIRECTORY, _remove_notes),
    )
    for name, remove in removals:
        path = os.path.join(home, name)
        try:
            if remove(path):
                removed.append(path)
        except HoldfastError as error:
            problems.append(error)
    return Uninstalled(done, removed, problems)


def _remove_notes(directory: str) -> bool:
    """Small files that can all be made again; whatever else somebody put there stays."""
    if os.path.islink(directory) or not os.path.isdir(directory):
        return False
    try:
        with os.scandir(directory) as listing:
            names = [one.path for one in listing if not one.is_dir(follow_symlinks=False)]
    except OSError as error:
        raise files.explain(error, "list", directory) from error
    for name in names:
        files.remove_file(name)
    return files.remove_directory(directory)
