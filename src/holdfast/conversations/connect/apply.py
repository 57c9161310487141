"""Connect agents: their own settings get Holdfast's hooks and MCP server, all or nothing as far as a disk allows.

Everything is worked out and parsed before anything is written: settings that cannot be read, a file that is not ours,
an agent that would be connected twice, a file that cannot be written, stop all of it. What is about to be written is
remembered first (`registry`), and undone if something fails.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.conversations.adapters.base import Scope
from holdfast.conversations.adapters.index import title
from holdfast.conversations.connect import detect, file_plan
from holdfast.conversations.connect.file_plan import FilePlan, What, decoded, editing
from holdfast.conversations.connect.mcp_entry import NAME, call_of, home_of
from holdfast.conversations.connect.registry import AgentConnection, Connections
from holdfast.conversations.hooks import install
from holdfast.core.agent_programs import MCP_ONLY
from holdfast.core.errors import Conflict, Failed, HoldfastError, Invalid, install_command
from holdfast.machine import files
from holdfast.machine.locks import locked

if TYPE_CHECKING:
    from holdfast.conversations.connect.agent_settings import SettingsChange
    from holdfast.workspace.agent_dirs import AgentDirs
    from holdfast.workspace.workspace import Workspace


class TouchedFile(NamedTuple):
    """A file and what was done to it, with its content before and after."""

    path: str
    change: What
    before: bytes | None = None
    after: bytes | None = None
    # Where it was moved to, if it was set aside.
    aside: str | None = None


class ConnectResult(NamedTuple):
    """What was done for one agent."""

    agent: str
    scope: Scope
    files: list[TouchedFile]
    obstacles: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    project: str | None = None
    # Whether all entries existed, but did nothing because the script was missing.
    revived: bool = False
    # The file that registers the MCP server.
    server: str | None = None
    # The name of its entry there: a person's own may have any name.
    server_name: str = NAME

    @property
    def is_new(self) -> bool:
        return any(file.change != "unchanged" for file in self.files)


_BY_HAND: Final = "{0} already starts the MCP server, as {1}: that entry is yours, and stays when you disconnect."

_EXTRA: Final = install_command("mcp")


class _Plan(NamedTuple):
    """All changes for one agent, before anything is written."""

    connection: AgentConnection
    planned: list[FilePlan]
    # Files from which a server of ours is removed, because it is not wanted.
    removals: list[FilePlan]
    notes: list[str]
    server: str | None = None
    server_name: str = NAME

    @property
    def begun(self) -> ConnectionUndo:
        """What is needed to undo it, collected before anything is written."""
        previous = msgspec.structs.replace(self.connection) if self.connection.files else None
        return ConnectionUndo(self.connection, previous, [*self.planned, *self.removals])


# ── connecting ───────────────────────────────────────────────────────────────────────────────────────────


def connect(
    ws: Workspace, places: AgentDirs, agents: Sequence[str], scope: Scope = "user", *, server: bool = True
) -> list[ConnectResult]:
    """Install Holdfast's hooks for these agents, and register its MCP server, if it can be started and is wanted.

    Safe to repeat: existing entries stay, missing ones are added.
    """
    names = list(dict.fromkeys(agents))
    for name in names:
        _refuse_without_effect(name, scope, server=server)
    ws.home.prepare()
    connections = Connections(ws.home.path)
    with locked(connections.lock, purpose="connect"):
        plans = [_plan(ws, places, connections, name, scope, server=server) for name in names]
        for plan in plans:
            refuse_unwritable([*plan.planned, *plan.removals])
        silent = not detect.script_exists(ws.home.path)
        own = ws.address.path == ws.home.store
        install.note_store(ws.home.path, None if own else ws.address.secret)
        rewritten = install.install(ws.home.path, system=places.system)
        begun: list[ConnectionUndo] = []
        done: list[ConnectResult] = []
        try:
            for plan in plans:
                begun.append(plan.begun)
                done.append(_carry_out(ws, places, connections, plan, rewritten=rewritten, silent=silent))
        except (HoldfastError, OSError) as error:
            raise undo_changes(connections, begun, error, now=ws.now()) from error
        return done


def _refuse_without_effect(name: str, scope: Scope, *, server: bool) -> None:
    """Refuse an agent that only takes the MCP server, if that is not wanted or not installed."""
    called_by_people = title(name)
    if name not in MCP_ONLY:
        return
    if scope == "project":
        raise Invalid(f"{called_by_people} has no project settings", hint=f"holdfast connect {name}")
    if not server:
        raise Invalid(f"{called_by_people} supports only the MCP server", hint="Leave out --no-mcp.")
    if not install.mcp_is_installed():
        raise Failed(f"{called_by_people} supports only the MCP server, which is not installed", hint=_EXTRA)


def _plan(
    ws: Workspace, places: AgentDirs, connections: Connections, name: str, scope: Scope, *, server: bool
) -> _Plan:
    home = ws.home.path
    project = places.project if scope == "project" else None
    if name not in MCP_ONLY:
        _refuse_connected(ws, places, connections, name, scope)
    connection = connections.of(name, scope, project)
    if connection is None:
        came_with_project = scope == "project" and detect.connected_through(home, places, name) == scope
        connection = AgentConnection(agent=name, scope=scope, project=project, came_with_project=came_with_project)
    whose = detect.entry_test(home, scope)
    with_server = server and install.mcp_is_installed()
    # The server is not registered twice.
    theirs = detect.manual_server(home, places, name, scope) if with_server else None
    changes = detect.changes(home, places, name, scope, with_server=with_server and theirs is None)
    made = {name for other in connections.all() for file in other.files for name in file.made}
    planned = [
        file_plan.share_directories(file_plan.plan_connect(change, connection.of(change.path), whose), made)
        for change in changes
    ]
    served = detect.server(home, places, name, scope)
    if served is None:
        return _Plan(connection, planned, [], [])
    if theirs is not None:
        return _Plan(connection, planned, [], [_BY_HAND.format(theirs.path, theirs.name)], theirs.path, theirs.name)
    if not with_server:
        server_removal: FilePlan | None = None
        if all(change.path != served.path for change in changes):
            recorded = connection.of(served.path)
            server_removal = (
                file_plan.plan_removal(served, whose)
                if recorded is None
                else file_plan.plan_disconnect(recorded, whose, project)
            )
        missing = [f"The MCP server is not installed: {_EXTRA}, then connect again."] if server else []
        return _Plan(connection, planned, [] if server_removal is None else [server_removal], missing)
    if _is_ours(served, planned):
        return _Plan(connection, planned, [], [], served.path)
    other = home_of(detect.installed_server(served))
    described = f"another server called {NAME}" if other is None else f"the MCP server of another Holdfast ({other})"
    return _Plan(connection, planned, [], [f"{served.path} has {described}, which stays as it is."])


def _is_ours(served: SettingsChange, planned: list[FilePlan]) -> bool:
    """Whether the server entry will be ours."""
    after = next(step.after for step in planned if step.recorded.path == served.path)
    data = editing(served.path).plain(decoded(after or b"", served.path), served.path)
    entry = next(entry for entry in served.entries if call_of(entry.value))
    return call_of(file_plan.at_path(data, entry.at)) == call_of(entry.value)


def _carry_out(
    ws: Workspace, places: AgentDirs, connections: Connections, plan: _Plan, *, rewritten: bool, silent: bool
) -> ConnectResult:
    connection, planned = plan.connection, plan.planned
    # Files remembered from another settings directory of the agent stay connected.
    known_before = bool(connection.files)
    of_now = {step.recorded.path for step in planned}
    elsewhere = [file for file in connection.files if file.path not in of_now]
    connection.files = elsewhere + [step.recorded for step in planned]
    if connection.files:
        connections.remember(connection)
    for step in (*planned, *plan.removals):
        file_plan.carry_out(step, now=ws.now())
    if any(connection.of(step.recorded.path) for step in plan.removals):
        removed = {step.recorded.path for step in plan.removals}
        connection.files = [file for file in connection.files if file.path not in removed]
        connections.remember(connection)
    notes = list(plan.notes)
    revived = silent and bool(planned) and all(step.change == "unchanged" for step in planned)
    if revived and connection.agent not in MCP_ONLY:
        notes.append("Its hooks were installed already; only the script they call was missing, and was created now.")
    elif rewritten and known_before:
        notes.append("The hook script was rewritten for the Holdfast installation that runs now.")
    if connection.agent == "claude" and _other_status_line(ws.home.path, planned):
        notes.append("Your own status line stays; Holdfast's is: holdfast statusline claude")
    return ConnectResult(
        connection.agent,
        connection.scope,
        [
            TouchedFile(step.recorded.path, step.change, step.before, step.after)
            for step in (*planned, *plan.removals)
        ],
        detect.obstacles(places, connection.agent, connection.scope),
        tuple(notes),
        connection.project,
        revived,
        plan.server,
        plan.server_name,
    )


def _other_status_line(home: str, planned: list[FilePlan]) -> bool:
    settings = planned[0]
    data = editing(settings.recorded.path).plain(
        decoded(settings.after or b"", settings.recorded.path), settings.recorded.path
    )
    command = file_plan.at_path(data, ("statusLine", "command"))
    return not (isinstance(command, str) and detect.hook_test(home)(command))


def _refuse_connected(ws: Workspace, places: AgentDirs, connections: Connections, name: str, scope: Scope) -> None:
    """Refuse to connect an agent twice: it would report everything twice."""
    program = title(name)
    way = detect.connected_through(ws.home.path, places, name)
    if name == "claude":
        plugin = detect.plugin_at(places)
        if plugin is not None:
            raise Conflict(
                f"{program} is already connected through Holdfast's plugin, which is enabled in {plugin}",
                hint="Keep the plugin, or disable it (claude plugin disable holdfast) and connect again.",
                file=plugin,
            )
    if way == scope or (way is None and scope == "project"):
        return
    if way == "project" and not detect.script_exists(ws.home.path):
        raise Conflict(
            f"{program}'s hooks are already installed in this project, but Holdfast's script is not in this home yet",
            hint=f"holdfast connect {name} --scope project creates it.",
        )
    if way is not None:
        raise Conflict(
            f"{program} is already connected for {_words(way)}",
            hint=f"holdfast disconnect {name} first, or leave it as it is.",
        )
    for connection in connections.all():
        if connection.agent == name and connection.scope == "project" and is_installed(ws.home.path, connection):
            project = files.display_path(connection.project or "")
            raise Conflict(
                f"{program} is already connected for the project {project}",
                hint=f"holdfast disconnect {name} --project {project} first.",
            )


def _words(scope: str) -> str:
    return "this project" if scope == "project" else "the user"


def is_installed(home: str, connection: AgentConnection) -> bool:
    """Whether the hooks of a remembered connection (or the server, for an agent that only takes that) are still in
    its files.
    """
    ours = detect.entry_test(home, connection.scope) if connection.agent in MCP_ONLY else detect.hook_test(home)
    return any(ours(line) for file in connection.files for line in detect.commands_in(file.path, connection.project))


# ── all or nothing ─────────────────────────────────────────────────────────────────────────────────────


class ConnectionUndo(NamedTuple):
    """What is needed to undo one agent's changes: all its files, and what was remembered of it before."""

    connection: AgentConnection
    was: AgentConnection | None
    planned: list[FilePlan]


def refuse_unwritable(planned: Iterable[FilePlan]) -> None:
    """Refuse if a file cannot be written, as far as that can be checked beforehand."""
    for step in planned:
        if step.change != "unchanged":
            _refuse_if_unwritable(step.recorded.path, step.target)


def _refuse_if_unwritable(path: str, target: str) -> None:
    try:
        info = os.stat(path)
    except FileNotFoundError:
        info = None
    except OSError as error:  # circular links, or a file instead of a directory
        raise files.explain(error, "write", path) from error
    above = os.path.dirname(target)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise _unwritable(path, f"{files.display_path(above)} is not a directory")
    if not os.access(above, os.W_OK | os.X_OK):
        raise _unwritable(path, f"nothing can be written in {files.display_path(above)}")
    if info is not None and _is_protected(path, info):
        raise _unwritable(path, "the system protects it against changes")


def _is_protected(path: str, info: os.stat_result) -> bool:
    """Whether the system protects a file whose mode is writable. One that is merely read-only is replaced."""
    if sys.platform == "win32":
        return False
    may = os.geteuid() in (0, info.st_uid) and info.st_mode & stat.S_IWUSR
    return bool(may) and not os.access(path, os.W_OK)


def _unwritable(path: str, why: str) -> Failed:
    return Failed(
        f"cannot write {files.display_path(path)}: {why}",
        hint="Fix that, then try again; nothing was changed.",
        operation="write",
        file=path,
    )


def undo_changes(
    connections: Connections, begun: list[ConnectionUndo], error: HoldfastError | OSError, *, now: int
) -> HoldfastError:
    """Undo what was written before the failure; gives the error, with a hint at what could not be undone."""
    failure = error if isinstance(error, HoldfastError) else files.explain(error, "write", error.filename or "")
    not_undone: list[str] = []
    agents: list[str] = []
    for item in reversed(begun):
        stuck = [step.recorded.path for step in reversed(item.planned) if not _undo(step, now)]
        not_undone += stuck
        if stuck:
            agents.append(item.connection.agent)
            continue
        with contextlib.suppress(HoldfastError, OSError):
            if item.was is None:
                connections.forget(item.connection)
            else:
                connections.remember(item.was)
    if not_undone:
        names = " ".join(reversed(agents))
        words = (
            f"What Holdfast wrote is still in {', '.join(map(files.display_path, not_undone))}: fix this, then "
            f"holdfast connect {names} finishes it, or holdfast disconnect {names} removes it."
        )
    else:
        words = "Fix that, then connect again; what was written before was undone, so nothing is changed."
    failure.hint = words if failure.hint is None else f"{failure.hint} {words}"
    return failure


def _undo(step: FilePlan, now: int) -> bool:
    """Restore a file; says whether it is what it was, or holds nothing of ours."""
    if step.change == "unchanged":
        return True
    try:
        present = file_plan.read_current(step.recorded.path, step.project)
        if present == step.before:
            file_plan.remove_empty_directories(step.recorded.made if present is None else ())
            return True
        if present != step.after:
            return present is None or b"holdfast" not in present.lower()  # somebody else wrote to it meanwhile
        reversed_step = step._replace(change="edited", before=step.after, after=step.before, executable=False)
        file_plan.carry_out(reversed_step, now=now)
    except (HoldfastError, OSError):
        return False
    return True
