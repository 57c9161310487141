"""Connect and disconnect agents: their own settings get Holdfast's hooks and MCP server, and are restored.

Everything is worked out and parsed before anything is written: settings that cannot be read, a file that is not ours,
an agent that would be heard twice, a file that cannot be written, stop all of it. What is written is remembered first
(`connections`), and taken back if something fails (`taking_back`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.conversations.adapters.base import Scope
from holdfast.conversations.adapters.index import CONNECTABLE, MCP_ONLY, title
from holdfast.conversations.connect import detect, file_plan
from holdfast.conversations.connect.editors import decoded, editing
from holdfast.conversations.connect.file_plan import FilePlan, What
from holdfast.conversations.connect.mcp_entry import NAME, called, home_of
from holdfast.conversations.connect.registry import AgentConnection, Connections
from holdfast.conversations.connect.rollback import Begun, refuse_unwritable, take_back
from holdfast.conversations.hooks import install
from holdfast.core import extras
from holdfast.core.errors import Conflict, Failed, HoldfastError, Invalid
from holdfast.machine import files
from holdfast.machine.locks import locked

if TYPE_CHECKING:
    from holdfast.conversations.connect.wiring import FileChange
    from holdfast.workspace.agent_dirs import AgentDirs
    from holdfast.workspace.workspace import Workspace


class Touched(NamedTuple):
    """A file and what became of it; the texts are for whoever wants to see the difference."""

    path: str
    change: What
    before: bytes | None = None
    after: bytes | None = None
    # Where it was set aside.
    aside: str | None = None


class Connected(NamedTuple):
    """What was done about one agent."""

    agent: str
    scope: Scope
    files: list[Touched]
    obstacles: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    project: str | None = None
    # Whether everything stood there, and was not heard for want of the script.
    revived: bool = False
    # The file that tells the agent of the MCP server.
    server: str | None = None
    # What its entry is called there: a person's own may have any name.
    server_name: str = NAME

    @property
    def is_new(self) -> bool:
        return any(file.change != "unchanged" for file in self.files)


_SHARED: Final = "What stood there is the project's: whoever shares it loses it too, once this change reaches them."

_BY_HAND: Final = "{0} starts the MCP server already, as {1}: that entry is yours, and stays when you disconnect."
_STAYS: Final = "{0} goes on starting the MCP server, as {1}: that entry is yours, and stays."
_WENT: Final = "What was added to the server {0} in {1} went with it: {2}."

_EXTRA: Final = extras.install_command("mcp")


class _Plan(NamedTuple):
    """Everything about one agent, before anything is written."""

    connection: AgentConnection
    planned: list[FilePlan]
    # Where a server of ours stands that is not wanted (any more).
    back: list[FilePlan]
    notes: list[str]
    server: str | None = None
    server_name: str = NAME

    @property
    def begun(self) -> Begun:
        """What has to be known to take it back, told before anything is written."""
        was = msgspec.structs.replace(self.connection) if self.connection.files else None
        return Begun(self.connection, was, [*self.planned, *self.back])


# ── connecting ───────────────────────────────────────────────────────────────────────────────────────────


def connect(
    ws: Workspace, places: AgentDirs, agents: Sequence[str], scope: Scope = "user", *, server: bool = True
) -> list[Connected]:
    """Let these agents' hooks call Holdfast, and tell them of its MCP server, if that can be started and is wanted.

    Safe to repeat: what is there stays, what is missing is mended.
    """
    names = list(dict.fromkeys(agents))
    for name in names:
        _refuse_in_vain(name, scope, server=server)
    ws.home.prepare()
    memory = Connections(ws.home.path)
    with locked(memory.lock, what="connect"):
        plans = [_plan(ws, places, memory, name, scope, server=server) for name in names]
        for plan in plans:
            refuse_unwritable([*plan.planned, *plan.back])
        silent = not detect.script_stands(ws.home.path)
        own = ws.address.path == ws.home.store
        install.note_store(ws.home.path, None if own else ws.address.secret)
        rewritten = install.install(ws.home.path, system=places.system)
        begun: list[Begun] = []
        done: list[Connected] = []
        try:
            for plan in plans:
                begun.append(plan.begun)
                done.append(_carry_out(ws, places, memory, plan, rewritten=rewritten, silent=silent))
        except (HoldfastError, OSError) as error:
            raise take_back(memory, begun, error, now=ws.now()) from error
        return done


def _refuse_in_vain(name: str, scope: Scope, *, server: bool) -> None:
    """Whoever gets nothing but the server is not connected without it."""
    called_by_people = title(name)
    if name not in MCP_ONLY:
        return
    if scope == "project":
        raise Invalid(f"{called_by_people} has no settings of a project", hint=f"holdfast connect {name}")
    if not server:
        raise Invalid(f"{called_by_people} takes nothing but the MCP server", hint="Leave out --no-mcp.")
    if not install.can_serve():
        raise Failed(f"{called_by_people} takes nothing but the MCP server, which is not installed", hint=_EXTRA)


def _plan(ws: Workspace, places: AgentDirs, memory: Connections, name: str, scope: Scope, *, server: bool) -> _Plan:
    home = ws.home.path
    project = places.project if scope == "project" else None
    if name not in MCP_ONLY:
        _refuse_twice(ws, places, memory, name, scope)
    connection = memory.of(name, scope, project)
    if connection is None:
        stood = scope == "project" and detect.connected_through(home, places, name) == scope
        connection = AgentConnection(agent=name, scope=scope, project=project, stood=stood)
    whose = detect.all_ours(home, scope)
    wanted = server and install.can_serve()
    # Nobody needs it twice.
    theirs = detect.by_hand(home, places, name, scope) if wanted else None
    changes = detect.changes(home, places, name, scope, with_server=wanted and theirs is None)
    made = {name for other in memory.all() for file in other.files for name in file.made}
    planned = [
        file_plan.sharing(file_plan.to_connect(change, connection.of(change.path), whose), made) for change in changes
    ]
    served = detect.server(home, places, name, scope)
    if served is None:
        return _Plan(connection, planned, [], [])
    if theirs is not None:
        return _Plan(connection, planned, [], [_BY_HAND.format(theirs.path, theirs.name)], theirs.path, theirs.name)
    if not wanted:
        back: FilePlan | None = None
        if all(change.path != served.path for change in changes):
            kept = connection.of(served.path)
            back = (
                file_plan.to_forget(served, whose) if kept is None else file_plan.to_disconnect(kept, whose, project)
            )
        missing = [f"The MCP server is not installed: {_EXTRA}, then connect again."] if server else []
        return _Plan(connection, planned, [] if back is None else [back], missing)
    if _is_told(served, planned):
        return _Plan(connection, planned, [], [], served.path)
    other = home_of(detect.installed_server(served))
    described = f"another server called {NAME}" if other is None else f"the MCP server of another Holdfast ({other})"
    return _Plan(connection, planned, [], [f"{served.path} has {described}, which stays as it is."])


def _is_told(served: FileChange, planned: list[FilePlan]) -> bool:
    """Whether the server that will stand there is ours."""
    after = next(step.after for step in planned if step.kept.path == served.path)
    data = editing(served.path).plain(decoded(after or b"", served.path), served.path)
    entry = next(entry for entry in served.entries if called(entry.value))
    return called(file_plan.at_path(data, entry.at)) == called(entry.value)


def _carry_out(
    ws: Workspace, places: AgentDirs, memory: Connections, plan: _Plan, *, rewritten: bool, silent: bool
) -> Connected:
    connection, planned = plan.connection, plan.planned
    # Files remembered from another place of the agent's settings stay connected, and remembered.
    known_before = bool(connection.files)
    of_now = {step.kept.path for step in planned}
    elsewhere = [file for file in connection.files if file.path not in of_now]
    connection.files = elsewhere + [step.kept for step in planned]
    if connection.files:
        memory.remember(connection)
    for step in (*planned, *plan.back):
        file_plan.carry_out(step, now=ws.now())
    if any(connection.of(step.kept.path) for step in plan.back):
        gone = {step.kept.path for step in plan.back}
        connection.files = [file for file in connection.files if file.path not in gone]
        memory.remember(connection)
    notes = list(plan.notes)
    revived = silent and bool(planned) and all(step.change == "unchanged" for step in planned)
    if revived and connection.agent not in MCP_ONLY:
        notes.append("Its hooks stood there already; the script they call is made only now.")
    elif rewritten and known_before:
        notes.append("The hook script is written anew, for the Holdfast that runs now.")
    if connection.agent == "claude" and _other_status_line(ws.home.path, planned):
        notes.append("Your status line stays; holdfast statusline claude is Holdfast's.")
    return Connected(
        connection.agent,
        connection.scope,
        [Touched(step.kept.path, step.change, step.before, step.after) for step in (*planned, *plan.back)],
        detect.obstacles(places, connection.agent, connection.scope),
        tuple(notes),
        connection.project,
        revived,
        plan.server,
        plan.server_name,
    )


def _other_status_line(home: str, planned: list[FilePlan]) -> bool:
    settings = planned[0]
    data = editing(settings.kept.path).plain(decoded(settings.after or b"", settings.kept.path), settings.kept.path)
    command = file_plan.at_path(data, ("statusLine", "command"))
    return not (isinstance(command, str) and detect.ours(home)(command))


def _refuse_twice(ws: Workspace, places: AgentDirs, memory: Connections, name: str, scope: Scope) -> None:
    """An agent heard through two configurations would do everything twice."""
    program = title(name)
    heard = detect.connected_through(ws.home.path, places, name)
    if name == "claude":
        plugin = detect.plugin_at(places)
        if plugin is not None:
            raise Conflict(
                f"{program} is heard through Holdfast's plugin already, which {plugin} switches on",
                hint="Keep the plugin, or disable it (claude plugin disable holdfast) and connect again.",
                file=plugin,
            )
    if heard == scope or (heard is None and scope == "project"):
        return
    if heard == "project" and not detect.script_stands(ws.home.path):
        raise Conflict(
            f"{program}'s hooks stand in this project already, but Holdfast's script is not in this home yet",
            hint=f"holdfast connect {name} --scope project makes it.",
        )
    if heard is not None:
        raise Conflict(
            f"{program} is connected in the scope of {_words(heard)} already",
            hint=f"holdfast disconnect {name} first, or leave it as it is.",
        )
    for connection in memory.all():
        if connection.agent == name and connection.scope == "project" and stands(ws.home.path, connection):
            raise Conflict(
                f"{program} is connected in the scope of a project already: "
                f"{files.display_path(connection.project or '')}",
                hint=f"holdfast disconnect {name} --project {files.display_path(connection.project or '')} first.",
            )


def _words(scope: str) -> str:
    return "this project" if scope == "project" else "the user"


def stands(home: str, connection: AgentConnection) -> bool:
    """Whether the hooks of a remembered connection are still in its files; the server, of who gets nothing else."""
    ours = detect.all_ours(home, connection.scope) if connection.agent in MCP_ONLY else detect.ours(home)
    return any(ours(line) for kept in connection.files for line in detect.lines(kept.path, connection.project))


# ── disconnecting ────────────────────────────────────────────────────────────────────────────────────────


def disconnect(ws: Workspace, places: AgentDirs, agents: Sequence[str]) -> list[Connected]:
    """Take Holdfast out of these agents' settings: of the user's, and of this project's."""
    names = list(dict.fromkeys(agents))
    for name in names:
        title(name)  # says so, if there is no such agent
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
    """The URL of the store may hold a password: it goes with the last of those who need it."""
    home = ws.home.path
    with contextlib.suppress(
        HoldfastError
    ):  # what cannot be read may still need it; `uninstall` takes it in any case
        if not memory.all() and all(detect.connected_through(home, places, name) is None for name in CONNECTABLE):
            install.note_store(home, None)
            if detect.script_stands(home):  # it names the store too
                install.install(home, system=places.system)


def with_what_stays(home: str, places: AgentDirs, one: Connected) -> Connected:
    """The same, with a word on entries that are the person's own."""
    stays = [detect.by_hand(home, places, one.agent, scope) for scope in detect.SCOPES]
    told = tuple(_STAYS.format(theirs.path, theirs.name) for theirs in stays if theirs is not None)
    return one._replace(notes=(*one.notes, *(words for words in told if words not in one.notes)))


def _went(planned: list[FilePlan]) -> tuple[str, ...]:
    return tuple(_WENT.format(NAME, step.kept.path, ", ".join(step.added)) for step in planned if step.added)


def plan_back(home: str, connection: AgentConnection) -> tuple[AgentConnection, list[FilePlan]]:
    whose = detect.all_ours(home, connection.scope)
    return connection, [
        file_plan.to_disconnect(kept, whose, connection.project) for kept in reversed(connection.files)
    ]


def carry_back(ws: Workspace, memory: Connections, connection: AgentConnection, planned: list[FilePlan]) -> Connected:
    touched = []
    for step in planned:
        aside = file_plan.carry_out(step, now=ws.now())
        touched.append(Touched(step.kept.path, step.change, step.before, step.after, aside))
    memory.forget(connection)
    shared = connection.stood and any(item.change != "unchanged" for item in touched)
    notes = (*_went(planned), *((_SHARED,) if shared else ()))
    return Connected(connection.agent, connection.scope, touched, notes=notes, project=connection.project)


def forgotten(ws: Workspace, places: AgentDirs, name: str) -> Connected:
    """Take out entries of ours that nobody remembers, found by their command lines."""
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
    touched = [Touched(plan.kept.path, plan.change, plan.before, plan.after) for plan in planned]
    return Connected(name, "user", touched, notes=(*_went(planned), *notes))
