"""Detect which agents are installed, which are connected, and what prevents it. Reads only."""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Iterable, Iterator
from shutil import which
from typing import TYPE_CHECKING, Literal, NamedTuple

from holdfast.conversations.adapters.base import Scope
from holdfast.conversations.adapters.index import CONNECTABLE, title
from holdfast.conversations.connect import mcp_entry
from holdfast.conversations.connect.agent_settings import SettingsChange, settings_of
from holdfast.conversations.connect.file_plan import Ours, at_path, decoded, editing, read_current
from holdfast.conversations.connect.registry import ConnectedFile, Connections
from holdfast.conversations.hooks import script
from holdfast.conversations.hooks.install import mcp_is_installed
from holdfast.core.agent_programs import MCP_ONLY
from holdfast.core.canonical import digest
from holdfast.core.errors import HoldfastError
from holdfast.machine import files

if TYPE_CHECKING:
    from holdfast.workspace.agent_dirs import AgentDirs
    from holdfast.workspace.workspace import Workspace

Way = Literal["user", "project", "plugin"]
SCOPES: tuple[Scope, ...] = ("user", "project")
_PLUGIN = "holdfast@"
_SHARED = (".json", ".jsonc", ".toml")  # kinds of files that we share with others


class McpRegistration(NamedTuple):
    """Our MCP server in an agent's settings."""

    scope: Scope
    path: str
    # The program that it starts, if that is missing.
    missing: str | None = None
    # The name of its entry, if a person wrote it.
    by_hand: str | None = None


class ManualServer(NamedTuple):
    """An entry for our MCP server that a person wrote."""

    path: str
    name: str
    program: str


class Leftover(NamedTuple):
    """Hooks or the server of another Holdfast: its script is missing, or it has another home."""

    path: str
    home: str
    missing: bool
    scope: Scope = "user"


class AgentSetup(NamedTuple):
    name: str
    title: str
    program: str | None
    traces: tuple[str, ...]
    connected: Way | None
    obstacles: tuple[str, ...]
    leftovers: tuple[Leftover, ...]
    # The files with its hooks, and whether the script they call is missing, so that nothing is reported.
    files: tuple[str, ...] = ()
    silent: bool = False
    server: McpRegistration | None = None
    # Whether it can be connected: some agents only take the server, which may not be installed.
    able: bool = True

    @property
    def is_here(self) -> bool:
        return self.program is not None or bool(self.traces)

    @property
    def ready(self) -> bool:
        """Whether it is installed, but not connected or without its script."""
        return self.able and (self.silent or (self.is_here and self.connected is None))


def find(ws: Workspace, places: AgentDirs) -> list[AgentSetup]:
    """All agents that Holdfast supports, in their usual order."""
    created = _created_paths(ws)
    return [inspect_agent(ws, places, name, created) for name in CONNECTABLE]


def _created_paths(ws: Workspace) -> set[str]:
    """Files and directories that we created, which are no traces of an agent."""
    try:
        recorded = [
            (file, connection.project) for connection in Connections(ws.home.path).all() for file in connection.files
        ]
        return {
            item for file, at in recorded for item in (*file.made, *((file.path,) if _is_untouched(file, at) else ()))
        }
    except HoldfastError:
        return set()


def _is_untouched(file: ConnectedFile, project: str | None) -> bool:
    """Whether a file that we created has no other changes yet."""
    return not file.existed and digest(read_current(file.path, project) or b"") == file.wrote


def inspect_agent(ws: Workspace, places: AgentDirs, name: str, created: Container[str] = ()) -> AgentSetup:
    wired = settings_of(name)
    path = places.environ.get("PATH", "")
    programs = (which(program, path=path) for program in wired.programs)
    way, where = installed_entries(ws.home.path, places, name)
    setup = AgentSetup(
        name,
        title(name),
        next((installed for installed in programs if installed is not None), None),
        tuple(trace for trace in wired.traces(places) if os.path.lexists(trace) and trace not in created),
        way,
        (),
        tuple(leftovers(ws.home.path, places, name)),
        where,
        way in SCOPES and not script_exists(ws.home.path),
        registered(ws.home.path, places, name),
        name not in MCP_ONLY or mcp_is_installed(),
    )
    if not setup.is_here and way is None:
        return setup  # obstacles only matter for installed agents
    return setup._replace(obstacles=obstacles(places, name, "project" if way == "project" else "user"))


def commands(setups: Iterable[AgentSetup]) -> list[str]:
    """The commands that connect the installed agents. Hooks that came with the project stay in its scope."""
    ready = [setup for setup in setups if setup.ready]
    shared = [setup.name for setup in ready if setup.connected == "project"]
    own = [setup.name for setup in ready if setup.connected != "project"]
    return ([f"holdfast connect {' '.join(own)}"] if own else []) + (
        [f"holdfast connect {' '.join(shared)} --scope project"] if shared else []
    )


def obstacles(places: AgentDirs, name: str, scope: Scope) -> tuple[str, ...]:
    """What in an agent's own settings prevents its hooks from running."""
    try:
        return settings_of(name).obstacles(places, scope)
    except (OSError, ValueError) as error:
        return (f"Its settings could not be read ({type(error).__name__}: {error}).",)


def hook_test(home: str) -> Ours:
    """A test whether a command line calls the hook script of this home, or of the home of the person who runs it."""
    return lambda line: script.is_call(line) and script.home_of(line) in (None, home)


def entry_test(home: str, scope: Scope) -> Ours:
    """A test whether a text in the files of a scope is our hook or server. In the user's scope that includes entries
    whose script no longer exists; in a project's, the shared server entry.
    """
    hooked = hook_test(home)

    def known(text: str) -> bool:
        if scope == "project":
            return hooked(text) or mcp_entry.is_shared(text)
        return hooked(text) or mcp_entry.home_of(text) == home or is_missing(text)

    return known


def is_missing(text: str) -> bool:
    """Whether the script that a hook or server entry of ours calls no longer exists."""
    at = _home_of(text)
    return at is not None and not os.path.lexists(script_path(at))


def _home_of(text: str) -> str | None:
    return script.home_of(text) if script.is_call(text) else mcp_entry.home_of(text)


def script_path(home: str) -> str:
    """The script that hooks call."""
    return os.path.join(home, script.DIRECTORY, script.WINDOWS_SCRIPT if os.name == "nt" else script.SCRIPT)


def script_exists(home: str) -> bool:
    return os.path.isfile(script_path(home))


def connected_through(home: str, places: AgentDirs, name: str) -> Way | None:
    """The configuration through which this agent is connected here, if any."""
    return installed_entries(home, places, name)[0]


def installed_entries(home: str, places: AgentDirs, name: str) -> tuple[Way | None, tuple[str, ...]]:
    """The configuration and the files with our hooks. For an agent that only takes the server, the server counts."""
    if name in MCP_ONLY:
        served = registered(home, places, name)
        return (None, ()) if served is None else (served.scope, (served.path,))
    known = hook_test(home)
    for scope in SCOPES:
        hooked = _hooks(home, places, name, scope)
        where = tuple(change.path for change in hooked if any(map(known, commands_in(change.path, change.project))))
        if where:
            return scope, where
    plugin = plugin_at(places) if name == "claude" else None
    return (None, ()) if plugin is None else ("plugin", (plugin,))


def leftovers(home: str, places: AgentDirs, name: str) -> Iterator[Leftover]:
    for scope in SCOPES:
        for change in changes(home, places, name, scope):
            for other in dict.fromkeys(_home_of(line) for line in commands_in(change.path, change.project)):
                if other is not None and other != home:
                    yield Leftover(change.path, other, not os.path.lexists(script_path(other)), scope)


def registered(home: str, places: AgentDirs, name: str) -> McpRegistration | None:
    """Where our server is registered with an agent, if it is."""
    for scope in SCOPES:
        change = server(home, places, name, scope)
        call = "" if change is None else installed_server(change)
        is_ours = mcp_entry.is_shared(call) if scope == "project" else mcp_entry.home_of(call) == home
        if change is None or not is_ours:
            theirs = manual_server(home, places, name, scope)
            if theirs is None:
                continue
            missing = _first_missing(places, [theirs.program])
            return McpRegistration(scope, theirs.path, missing, theirs.name)
        own = (mcp_entry.PYTHON,) if os.name == "nt" else (mcp_entry.SCRIPT, mcp_entry.PYTHON)
        called = [os.path.join(home, script.DIRECTORY, name) for name in own]
        return McpRegistration(
            scope, change.path, _first_missing(places, [mcp_entry.SHARED.command] if scope == "project" else called)
        )
    return None


def _first_missing(places: AgentDirs, programs: list[str]) -> str | None:
    """The first of these programs that does not exist or is not on PATH."""
    path = places.environ.get("PATH", "")
    are_installed = (
        os.path.isfile(name) if os.path.dirname(name) else which(name, path=path) is not None for name in programs
    )
    return next((program for program, is_there in zip(programs, are_installed, strict=True) if not is_there), None)


def manual_server(home: str, places: AgentDirs, name: str, scope: Scope) -> ManualServer | None:
    """A person's own entry for our server, under any name, if there is none of ours."""
    change = server(home, places, name, scope)
    if change is None or entry_test(home, scope)(installed_server(change)):
        return None
    data = read(change.path, change.project)
    for entry in change.entries:
        servers = at_path(data, entry.at[:-1]) if mcp_entry.call_of(entry.value) else None
        for called, item in servers.items() if isinstance(servers, dict) else ():
            if mcp_entry.by_hand(mcp_entry.call_of(item)):
                return ManualServer(change.path, called, mcp_entry.program(mcp_entry.call_of(item)))
    return None


def installed_server(change: SettingsChange) -> str:
    """What the entry at our server's path starts; empty if there is none."""
    data = read(change.path, change.project)
    return next((text for entry in change.entries if (text := mcp_entry.call_of(at_path(data, entry.at)))), "")


def changes(
    home: str, places: AgentDirs, name: str, scope: Scope, *, with_server: bool = True
) -> tuple[SettingsChange, ...]:
    """The changes of a connection of this agent."""
    hooked = _hooks(home, places, name, scope)
    served = server(home, places, name, scope)
    if served is None:
        return hooked
    together = any(change.path == served.path for change in hooked)
    if not with_server:
        bare = tuple(entry.at for entry in served.entries)
        return tuple(change._replace(bare=bare) if change.path == served.path else change for change in hooked)
    if not together:
        return (*hooked, served)
    return tuple(
        change._replace(entries=change.entries + served.entries) if change.path == served.path else change
        for change in hooked
    )


def server(home: str, places: AgentDirs, name: str, scope: Scope) -> SettingsChange | None:
    """The change that registers the MCP server; None if the agent cannot use it in this scope."""
    python = os.path.abspath(sys.executable)
    change = settings_of(name).server(
        places, scope, mcp_entry.server(home, scope, python=python, system=places.system)
    )
    return None if change is None else _placed(change, places, scope)


def _hooks(home: str, places: AgentDirs, name: str, scope: Scope) -> tuple[SettingsChange, ...]:
    shared = script.shared_home(places, home) if scope == "project" else None
    hook_changes = settings_of(name).changes(
        places, scope, script.command(home, name, scope, shared=shared, system=places.system)
    )
    hook_changes = tuple(_placed(change, places, scope) for change in hook_changes)
    if name != "claude":
        return hook_changes
    from holdfast.conversations.adapters.claude import settings as claude

    line = script.status_line(home, name, scope, shared=shared, system=places.system)
    first, *rest = hook_changes
    return (first._replace(entries=(*first.entries, claude.status_line(line))), *rest)


def _placed(change: SettingsChange, places: AgentDirs, scope: Scope) -> SettingsChange:
    return change._replace(project=places.project) if scope == "project" else change


def commands_in(path: str, project: str | None) -> list[str]:
    """The texts of a file that may be command lines of ours; none if it cannot be read."""
    try:
        data = read_current(path, project)
        if data is None:
            return []
        if path.endswith(_SHARED):
            # Large settings without our words need no parsing.
            return list(editing(path).texts(decoded(data, path), path)) if b"hold" in data or b"hook" in data else []
    except HoldfastError:
        return []
    return data.decode(errors="replace").splitlines()


def read(path: str, project: str | None) -> object:
    """The data of a shared file; None if it cannot be read."""
    try:
        data = read_current(path, project)
        return None if data is None or b"holdfast" not in data else editing(path).plain(decoded(data, path), path)
    except HoldfastError:
        return None


def plugin_at(places: AgentDirs) -> str | None:
    """The settings file of Claude Code that enables Holdfast's plugin."""
    from holdfast.conversations.adapters.claude.settings import settings

    local = places.in_project(".claude", "settings.local.json")
    shared = settings(places, "project")
    for path, project in ((settings(places, "user"), None), (shared, places.project), (local, places.project)):
        switched = at_path(read(path, project), ("enabledPlugins",))
        if isinstance(switched, dict) and any(
            key.startswith(_PLUGIN) and value not in (False, None) for key, value in switched.items()
        ):
            return files.display_path(path)
    return None
