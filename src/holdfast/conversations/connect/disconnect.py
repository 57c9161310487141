"""Take Holdfast out of agents' settings; `uninstall` does so everywhere, and removes the scripts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.conversations import status_cache
from holdfast.conversations.adapters.index import CONNECTABLE, title
from holdfast.conversations.connect import detect, file_plan, git_trailer
from holdfast.conversations.connect.apply import ConnectResult, TouchedFile, refuse_unwritable
from holdfast.conversations.connect.file_plan import FilePlan
from holdfast.conversations.connect.mcp_entry import NAME
from holdfast.conversations.connect.registry import AgentConnection, Connections
from holdfast.conversations.hooks import install, script
from holdfast.conversations.ingest.routing import OPENED_DIRECTORY
from holdfast.core.errors import HoldfastError
from holdfast.machine import files
from holdfast.machine.locks import locked
from holdfast.workspace import spool

if TYPE_CHECKING:
    from holdfast.workspace.agent_dirs import AgentDirs
    from holdfast.workspace.workspace import Workspace


_SHARED: Final = (
    "These hooks came with the project: everybody who shares it loses them too, once this change reaches them."
)
_STAYS: Final = "{0} still starts the MCP server, as {1}: that entry is yours, and stays."
_WENT: Final = "Settings added to the server {0} in {1} were removed with it: {2}."


def disconnect(ws: Workspace, places: AgentDirs, agents: Sequence[str]) -> list[ConnectResult]:
    """Remove Holdfast from these agents' settings, the user's and this project's."""
    names = list(dict.fromkeys(agents))
    for name in names:
        title(name)  # raises if there is no such agent
    memory = Connections(ws.home.path)
    if not memory.are_there:
        return [with_what_stays(ws.home.path, places, forgotten(ws, places, name)) for name in names]
    with locked(memory.lock, what="disconnect"):
        plans: list[tuple[AgentConnection, list[FilePlan]]] = []
        for name in names:
            kept = (memory.of(name, "user", None), memory.of(name, "project", places.project))
            plans += [plan_back(ws.home.path, connection) for connection in kept if connection is not None]
        for _, planned in plans:
            refuse_unwritable(planned)
        done = [carry_back(ws, memory, *plan) for plan in plans]
        for name in names:
            left = forgotten(ws, places, name)
            if left.is_new or not any(connected.agent == name for connected in done):
                done.append(left)
        _forget_store(ws, places, memory)
        return [with_what_stays(ws.home.path, places, connected) for connected in done]


def _forget_store(ws: Workspace, places: AgentDirs, memory: Connections) -> None:
    """Forget the store's URL, which may hold a password, once no agent needs it."""
    home = ws.home.path
    with contextlib.suppress(
        HoldfastError
    ):  # unreadable settings may still need it; `uninstall` removes it in any case
        if not memory.all() and all(detect.connected_through(home, places, name) is None for name in CONNECTABLE):
            install.note_store(home, None)
            if detect.script_stands(home):  # it names the store too
                install.install(home, system=places.system)


def with_what_stays(home: str, places: AgentDirs, connected: ConnectResult) -> ConnectResult:
    """Add notes on entries that are the person's own and stay."""
    stays = [detect.by_hand(home, places, connected.agent, scope) for scope in detect.SCOPES]
    notes = tuple(_STAYS.format(theirs.path, theirs.name) for theirs in stays if theirs is not None)
    return connected._replace(notes=(*connected.notes, *(words for words in notes if words not in connected.notes)))


def _went(planned: list[FilePlan]) -> tuple[str, ...]:
    return tuple(_WENT.format(NAME, step.kept.path, ", ".join(step.added)) for step in planned if step.added)


def plan_back(home: str, connection: AgentConnection) -> tuple[AgentConnection, list[FilePlan]]:
    whose = detect.all_ours(home, connection.scope)
    return connection, [
        file_plan.to_disconnect(kept, whose, connection.project) for kept in reversed(connection.files)
    ]


def carry_back(
    ws: Workspace, memory: Connections, connection: AgentConnection, planned: list[FilePlan]
) -> ConnectResult:
    touched = []
    for step in planned:
        aside = file_plan.carry_out(step, now=ws.now())
        touched.append(TouchedFile(step.kept.path, step.change, step.before, step.after, aside))
    memory.forget(connection)
    shared = connection.stood and any(item.change != "unchanged" for item in touched)
    notes = (*_went(planned), *((_SHARED,) if shared else ()))
    return ConnectResult(connection.agent, connection.scope, touched, notes=notes, project=connection.project)


def forgotten(ws: Workspace, places: AgentDirs, name: str) -> ConnectResult:
    """Remove entries of ours that are not remembered, recognised by their command lines."""
    home = ws.home.path
    planned: list[FilePlan] = []
    notes: tuple[str, ...] = ()
    for scope in detect.SCOPES:
        whose = detect.all_ours(home, scope)
        for change in detect.changes(home, places, name, scope):
            step = file_plan.to_forget(change, whose)
            if step is not None:
                planned.append(step)
                notes = (_SHARED,) if scope == "project" else notes
    refuse_unwritable(planned)
    for step in planned:
        file_plan.carry_out(step, now=ws.now())
    touched = [TouchedFile(plan.kept.path, plan.change, plan.before, plan.after) for plan in planned]
    return ConnectResult(name, "user", touched, notes=(*_went(planned), *notes))


# ── uninstalling ────────────────────────────────────────────────────────────────────────────────────────


class UninstallResult(NamedTuple):
    connections: list[ConnectResult]
    removed: list[str]
    # Errors, each naming its file.
    problems: list[HoldfastError]


def uninstall(ws: Workspace, places: AgentDirs) -> UninstallResult:
    """Disconnect everything, then remove the scripts. One file that fails does not stop the others."""
    home = ws.home.path
    done: list[ConnectResult] = []
    removed: list[str] = []
    problems: list[HoldfastError] = []
    try:
        ws.collect()  # record what agents reported before their scripts are removed
    except HoldfastError as error:
        problems.append(error)
    memory = Connections(home)
    resisting: set[str] = set()
    if memory.are_there:
        with locked(memory.lock, what="uninstall"):
            for connection in memory.all():
                try:
                    plan = plan_back(home, connection)
                    refuse_unwritable(plan[1])
                    done.append(carry_back(ws, memory, *plan))
                except HoldfastError as error:
                    problems.append(error)
                    resisting.add(connection.agent)
    try:
        hooks = git_trailer.disconnect_all(home)
        done += [hooks] if hooks.files else []
    except HoldfastError as error:
        problems.append(error)
    # After a failure the connection stays remembered, so its entries are not removed by command line.
    for name in (name for name in CONNECTABLE if name not in resisting):
        try:
            left = forgotten(ws, places, name)
        except HoldfastError as error:
            if all(error.message != other.message for other in problems):
                problems.append(error)
            continue
        if left.is_new:
            done.append(left)
    done = [
        connected if connected.agent == git_trailer.NAME else with_what_stays(home, places, connected)
        for connected in done
    ]
    if problems:
        return UninstallResult(done, removed, problems)
    # Only now: hooks that are still connected somewhere need their script and what is remembered about them.
    removals: tuple[tuple[str, Callable[[str], bool]], ...] = (
        (script.DIRECTORY, lambda _: install.remove(home)),
        ("connections", lambda _: memory.are_there and memory.clear()),
        # Quarantined payloads are left for the person to look at: then the spool stays.
        (spool.DIRECTORY, files.remove_directory),
        # Caches of status lines and of conversations without a session are no longer needed.
        (status_cache.DIRECTORY, _remove_notes),
        (OPENED_DIRECTORY, _remove_notes),
    )
    for name, remove in removals:
        path = os.path.join(home, name)
        try:
            if remove(path):
                removed.append(path)
        except HoldfastError as error:
            problems.append(error)
    return UninstallResult(done, removed, problems)


def _remove_notes(directory: str) -> bool:
    """Remove the files of a cache directory, and it, if nothing else is in it."""
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
