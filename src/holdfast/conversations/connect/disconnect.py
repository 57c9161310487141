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


_SHARED_HOOKS: Final = (
    "These hooks came with the project: everybody who shares it loses them too, once this change reaches them."
)
_KEPT_ENTRY: Final = "{0} still starts the MCP server, as {1}: that entry is yours, and stays."
_REMOVED_SETTINGS: Final = "Settings added to the server {0} in {1} were removed with it: {2}."


def disconnect(ws: Workspace, places: AgentDirs, agents: Sequence[str]) -> list[ConnectResult]:
    """Remove Holdfast from these agents' settings, the user's and this project's."""
    names = list(dict.fromkeys(agents))
    for name in names:
        title(name)  # raises if there is no such agent
    connections = Connections(ws.home.path)
    if not connections.are_there:
        return [with_kept_entries(ws.home.path, places, remove_unrecorded(ws, places, name)) for name in names]
    with locked(connections.lock, purpose="disconnect"):
        plans: list[tuple[AgentConnection, list[FilePlan]]] = []
        for name in names:
            recorded = (connections.of(name, "user", None), connections.of(name, "project", places.project))
            plans += [plan_disconnect(ws.home.path, connection) for connection in recorded if connection is not None]
        for _, planned in plans:
            refuse_unwritable(planned)
        done = [apply_disconnect(ws, connections, *plan) for plan in plans]
        for name in names:
            unrecorded = remove_unrecorded(ws, places, name)
            if unrecorded.is_new or not any(connected.agent == name for connected in done):
                done.append(unrecorded)
        _forget_store(ws, places, connections)
        return [with_kept_entries(ws.home.path, places, connected) for connected in done]


def _forget_store(ws: Workspace, places: AgentDirs, connections: Connections) -> None:
    """Forget the store's URL, which may hold a password, once no agent needs it."""
    home = ws.home.path
    # Unreadable settings may still need it; `uninstall` removes it in any case.
    with contextlib.suppress(HoldfastError):
        if not connections.all() and all(
            detect.connected_through(home, places, name) is None for name in CONNECTABLE
        ):
            install.note_store(home, None)
            if detect.script_exists(home):  # it names the store too
                install.install(home, system=places.system)


def with_kept_entries(home: str, places: AgentDirs, connected: ConnectResult) -> ConnectResult:
    """Add notes on entries that are the person's own and stay."""
    stays = [detect.manual_server(home, places, connected.agent, scope) for scope in detect.SCOPES]
    notes = tuple(_KEPT_ENTRY.format(theirs.path, theirs.name) for theirs in stays if theirs is not None)
    return connected._replace(notes=(*connected.notes, *(words for words in notes if words not in connected.notes)))


def _removed_settings(planned: list[FilePlan]) -> tuple[str, ...]:
    return tuple(
        _REMOVED_SETTINGS.format(NAME, step.recorded.path, ", ".join(step.added)) for step in planned if step.added
    )


def plan_disconnect(home: str, connection: AgentConnection) -> tuple[AgentConnection, list[FilePlan]]:
    whose = detect.entry_test(home, connection.scope)
    return connection, [
        file_plan.plan_disconnect(recorded, whose, connection.project) for recorded in reversed(connection.files)
    ]


def apply_disconnect(
    ws: Workspace, connections: Connections, connection: AgentConnection, planned: list[FilePlan]
) -> ConnectResult:
    touched = []
    for step in planned:
        aside = file_plan.carry_out(step, now=ws.now())
        touched.append(TouchedFile(step.recorded.path, step.change, step.before, step.after, aside))
    connections.forget(connection)
    shared = connection.came_with_project and any(item.change != "unchanged" for item in touched)
    notes = (*_removed_settings(planned), *((_SHARED_HOOKS,) if shared else ()))
    return ConnectResult(connection.agent, connection.scope, touched, notes=notes, project=connection.project)


def remove_unrecorded(ws: Workspace, places: AgentDirs, name: str) -> ConnectResult:
    """Remove entries of ours that no recorded connection has, recognised by their command lines."""
    home = ws.home.path
    planned: list[FilePlan] = []
    notes: tuple[str, ...] = ()
    for scope in detect.SCOPES:
        whose = detect.entry_test(home, scope)
        for change in detect.changes(home, places, name, scope):
            step = file_plan.plan_removal(change, whose)
            if step is not None:
                planned.append(step)
                notes = (_SHARED_HOOKS,) if scope == "project" else notes
    refuse_unwritable(planned)
    for step in planned:
        file_plan.carry_out(step, now=ws.now())
    touched = [TouchedFile(plan.recorded.path, plan.change, plan.before, plan.after) for plan in planned]
    return ConnectResult(name, "user", touched, notes=(*_removed_settings(planned), *notes))


# ── uninstalling ────────────────────────────────────────────────────────────────────────────────────────


class UninstallResult(NamedTuple):
    connections: list[ConnectResult]
    removed: list[str]
    # Errors, each naming its file.
    problems: list[HoldfastError]


def uninstall(ws: Workspace, places: AgentDirs) -> UninstallResult:
    """Disconnect everything, then remove the scripts. One file that fails does not stop the others."""
    home = ws.home.path
    problems: list[HoldfastError] = []
    try:
        ws.collect()  # record what agents reported before their scripts are removed
    except HoldfastError as error:
        problems.append(error)
    connections = Connections(home)
    done, failed_agents = _disconnect_recorded(ws, connections, problems)
    try:
        hooks = git_trailer.disconnect_all(home)
        done += [hooks] if hooks.files else []
    except HoldfastError as error:
        problems.append(error)
    # After a failure the connection stays recorded, so its entries are not removed by command line.
    for name in (name for name in CONNECTABLE if name not in failed_agents):
        try:
            unrecorded = remove_unrecorded(ws, places, name)
        except HoldfastError as error:
            if all(error.message != other.message for other in problems):
                problems.append(error)
            continue
        if unrecorded.is_new:
            done.append(unrecorded)
    done = [
        connected if connected.agent == git_trailer.NAME else with_kept_entries(home, places, connected)
        for connected in done
    ]
    # Hooks that are still connected somewhere need their script and what is recorded about them.
    removed = [] if problems else _remove_own_files(home, connections, problems)
    return UninstallResult(done, removed, problems)


def _disconnect_recorded(
    ws: Workspace, connections: Connections, problems: list[HoldfastError]
) -> tuple[list[ConnectResult], set[str]]:
    """Disconnect all recorded connections; gives the results, and the agents with a connection that failed."""
    done: list[ConnectResult] = []
    failed_agents: set[str] = set()
    if connections.are_there:
        with locked(connections.lock, purpose="uninstall"):
            for connection in connections.all():
                try:
                    plan = plan_disconnect(ws.home.path, connection)
                    refuse_unwritable(plan[1])
                    done.append(apply_disconnect(ws, connections, *plan))
                except HoldfastError as error:
                    problems.append(error)
                    failed_agents.add(connection.agent)
    return done, failed_agents


def _remove_own_files(home: str, connections: Connections, problems: list[HoldfastError]) -> list[str]:
    """Remove scripts, recorded connections and caches; gives the removed directories."""
    removals: tuple[tuple[str, Callable[[str], bool]], ...] = (
        (script.DIRECTORY, lambda _: install.remove(home)),
        ("connections", lambda _: connections.are_there and connections.clear()),
        # Quarantined payloads are left for the person to look at: then the spool stays.
        (spool.DIRECTORY, files.remove_directory),
        # Caches of status lines and of conversations without a session are no longer needed.
        (status_cache.DIRECTORY, _remove_cache_files),
        (OPENED_DIRECTORY, _remove_cache_files),
    )
    removed: list[str] = []
    for name, remove in removals:
        path = os.path.join(home, name)
        try:
            if remove(path):
                removed.append(path)
        except HoldfastError as error:
            problems.append(error)
    return removed


def _remove_cache_files(directory: str) -> bool:
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
