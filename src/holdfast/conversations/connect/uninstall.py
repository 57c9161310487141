"""Remove every trace of Holdfast from this machine's agents, in every project it remembers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from holdfast.conversations import status_cache
from holdfast.conversations.adapters.index import CONNECTABLE
from holdfast.conversations.connect import apply, git_trailer
from holdfast.conversations.connect.apply import Connected
from holdfast.conversations.connect.registry import Connections
from holdfast.conversations.connect.rollback import refuse_unwritable
from holdfast.conversations.hooks import install, script
from holdfast.conversations.ingest import pending
from holdfast.core.errors import HoldfastError
from holdfast.machine import files
from holdfast.machine.locks import locked
from holdfast.workspace import spool

if TYPE_CHECKING:
    from holdfast.workspace.agent_dirs import AgentDirs
    from holdfast.workspace.workspace import Workspace


class Uninstalled(NamedTuple):
    connections: list[Connected]
    removed: list[str]
    # What could not be done, each naming its file.
    problems: list[HoldfastError]


def uninstall(ws: Workspace, places: AgentDirs) -> Uninstalled:
    """Disconnect everything, then remove the scripts. One file that resists does not keep the others."""
    home = ws.home.path
    done: list[Connected] = []
    removed: list[str] = []
    problems: list[HoldfastError] = []
    try:
        ws.collect()  # what agents told until now is recorded before the way it came is gone
    except HoldfastError as error:
        problems.append(error)
    memory = Connections(home)
    resisting: set[str] = set()
    if memory.are_there:
        with locked(memory.lock, what="uninstall"):
            for connection in memory.all():
                try:
                    plan = apply.plan_back(home, connection)
                    refuse_unwritable(plan[1])
                    done.append(apply.carry_back(ws, memory, *plan))
                except HoldfastError as error:
                    problems.append(error)
                    resisting.add(connection.agent)
    try:
        hooks = git_trailer.disconnect_all(home)
        done += [hooks] if hooks.files else []
    except HoldfastError as error:
        problems.append(error)
    # Where taking back failed, what is remembered stays the way to do it: entries are not picked out of the file.
    for name in (name for name in CONNECTABLE if name not in resisting):
        try:
            left = apply.forgotten(ws, places, name)
        except HoldfastError as error:
            if all(error.message != other.message for other in problems):
                problems.append(error)
            continue
        if left.is_new:
            done.append(left)
    done = [
        connected if connected.agent == git_trailer.NAME else apply.with_what_stays(home, places, connected)
        for connected in done
    ]
    if problems:
        return Uninstalled(done, removed, problems)
    # Only now: hooks that are still connected somewhere need their script and what is remembered about them.
    removals: tuple[tuple[str, Callable[[str], bool]], ...] = (
        (script.DIRECTORY, lambda _: install.remove(home)),
        ("connections", lambda _: memory.are_there and memory.clear()),
        # Payloads that nobody could read are the person's to look at: with one of them, the spool stays.
        (spool.DIRECTORY, files.remove_directory),
        # What was kept for status lines and for conversations without a session is of no use to anybody now.
        (status_cache.DIRECTORY, _remove_notes),
        (pending.DIRECTORY, _remove_notes),
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
            names = [entry.path for entry in listing if not entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        raise files.explain(error, "list", directory) from error
    for name in names:
        files.remove_file(name)
    return files.remove_directory(directory)
