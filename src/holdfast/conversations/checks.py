"""The doctor's checks of agents: do their hooks run, and are their payloads understood?"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.conversations.connect.mcp_entry import NAME, by_hand, call_of
from holdfast.conversations.ingest.drain import payloads_for_other_stores
from holdfast.core.errors import HoldfastError
from holdfast.core.times import DAY, HOUR, format_time
from holdfast.core.wording import count, one_line
from holdfast.machine import error_log
from holdfast.workspace import server_outage, spool
from holdfast.workspace.followers import Check

if TYPE_CHECKING:
    from holdfast.conversations.connect.detect import AgentSetup
    from holdfast.conversations.connect.registry import AgentConnection
    from holdfast.store.interface import Store
    from holdfast.workspace.workspace import Workspace

_MAX_SHOWN = 3


def check_hooks(ws: Workspace, _: Store | None) -> Check:
    """Check connected agents: their entries, the script these call, and what keeps agents from calling it."""
    from holdfast.conversations.connect.apply import is_installed
    from holdfast.conversations.connect.registry import Connections

    recorded = Connections(ws.home.path).all()
    unreadable = _check_readable(ws, recorded)
    if unreadable is not None:
        return unreadable
    active = [connection for connection in recorded if is_installed(ws.home.path, connection)]
    lost = [connection for connection in recorded if connection not in active and _has_place(connection)]
    if lost:
        agents = ", ".join(sorted({connection.agent for connection in lost}))
        fix = _connect_command(ws, [(connection.agent, connection.project) for connection in lost])
        return Check("hooks", "warning", f"connected, but the hooks are missing from the settings: {agents}",
                     f"{fix}; or holdfast disconnect, if that is intended")  # fmt: skip
    setups = _setups(ws)
    return (
        _check_script(ws, active, setups)
        or _check_leftovers(setups)
        or _check_server(ws, setups)
        or _check_current(ws, active, setups)
        or _check_server_entries(ws, active)
        or _check_obstacles(setups)
        or _connected(
            {connection.agent for connection in active}
            | {setup.name for setup in setups if setup.connected is not None}
        )
    )


def _has_place(connection: AgentConnection) -> bool:
    """Whether the project of a connection still exists: a deleted one needs no hooks."""
    return connection.project is None or os.path.isdir(connection.project)


def _check_readable(ws: Workspace, recorded: list[AgentConnection]) -> Check | None:
    """Check for settings files that cannot be read: whether they hold anything of ours is unknown."""
    from holdfast.conversations.connect.file_plan import decoded, editing, read_current

    problems: list[str] = []
    agents: list[tuple[str, str | None]] = []
    for connection in recorded:
        for file in connection.files if _has_place(connection) else ():
            try:
                data = read_current(file.path, connection.project)
                if data is not None and not file.own:
                    editing(file.path).plain(decoded(data, file.path), file.path)
            except HoldfastError as error:
                problems.append(
                    f"{connection.agent} is connected through {file.path}, which cannot be used: {error.message}"
                )
                agents.append((connection.agent, connection.project))
    if not problems:
        return None
    names = " ".join(sorted({name for name, _ in agents}))
    return Check("hooks", "warning", "; ".join(problems[:_MAX_SHOWN]),
                 f"Fix that, then {_connect_command(ws, agents)}; or holdfast disconnect {names}")  # fmt: skip


def _check_server_entries(ws: Workspace, active: list[AgentConnection]) -> Check | None:
    """Check for connected agents whose entry of the MCP server has been removed."""
    from holdfast.conversations.connect import detect
    from holdfast.conversations.connect.file_plan import at_path

    lost = [
        (connection, file.path)
        for connection in active
        for file in connection.files
        for value in (file.receipt.values if file.receipt is not None else ())
        if value.at[-1] == NAME and call_of(value.value)
        if not (call := call_of(at_path(detect.read(file.path, connection.project), value.at)))
        or not (detect.entry_test(ws.home.path, connection.scope)(call) or by_hand(call))
    ]
    if not lost:
        return None
    problems = [f"the MCP server of {connection.agent} is missing from {path}" for connection, path in lost]
    fix = _connect_command(ws, [(connection.agent, connection.project) for connection, _ in lost])
    return Check("hooks", "warning", "; ".join(problems[:_MAX_SHOWN]), f"{fix}; with --no-mcp, if that is intended")


def _setups(ws: Workspace) -> list[AgentSetup]:
    """What agents' settings hold, recorded or not, as far as their places are known."""
    from holdfast.conversations.adapters.index import CONNECTABLE
    from holdfast.conversations.connect import detect

    setups: list[AgentSetup] = []
    if ws.agent_dirs is None:
        return setups
    for name in CONNECTABLE:
        try:
            setups.append(detect.inspect_agent(ws, ws.agent_dirs, name))
        except (HoldfastError, ImportError):
            continue
    return setups


def _connect_command(ws: Workspace, setups: Iterable[tuple[str, str | None]]) -> str:
    """The commands that connect agents, each in the scope of its project, or in the person's."""
    by_project: dict[str | None, list[str]] = {}
    for name, project in sorted(set(setups), key=str):
        by_project.setdefault(project, []).append(name)
    current_project = ws.place.root if ws.agent_dirs is None else ws.agent_dirs.project
    return "; ".join(
        f"holdfast connect {' '.join(names)}"
        + ("" if project is None else " --scope project")
        + ("" if project in (None, current_project) else f" --project {shlex.quote(str(project))}")
        for project, names in by_project.items()
    )


def _check_script(ws: Workspace, active: list[AgentConnection], setups: list[AgentSetup]) -> Check | None:
    """Check that the script which hooks call is there."""
    from holdfast.conversations.connect import detect

    callers = _callers(ws, active, setups)
    home = ws.home.path
    path, fix = detect.script_path(home), _connect_command(ws, callers)
    if callers and not detect.script_exists(home):
        where = list(dict.fromkeys(paths[0] for paths in callers.values() if paths))
        more = f" and {len(where) - _MAX_SHOWN} more" if len(where) > _MAX_SHOWN else ""
        detail = f"hooks in {', '.join(where[:_MAX_SHOWN])}{more} call {path}, which is missing: nothing is recorded"
        # What a project shares is not this person's to remove.
        remove = "" if all(project for _, project in callers) else ", or holdfast uninstall, which removes them"
        return Check("hooks", "warning", detail, fix + remove)
    return None


def _check_current(ws: Workspace, active: list[AgentConnection], setups: list[AgentSetup]) -> Check | None:
    """Check that all scripts are there, and are those of the Holdfast that runs now."""
    import sys

    from holdfast.conversations.connect import detect
    from holdfast.conversations.hooks import install

    callers, home = _callers(ws, active, setups), ws.home.path
    if not callers or install.is_current(home, system=sys.platform):
        return None
    missing = install.missing(home, system=sys.platform)
    if missing:
        detail = f"missing: {' and '.join(missing[:_MAX_SHOWN])}, which Holdfast wrote for agents"
    else:
        path = detect.script_path(home)
        detail = f"{path} was made for another Python or by another version of Holdfast"
    return Check("hooks", "warning", detail, _connect_command(ws, callers))


def _callers(
    ws: Workspace, active: list[AgentConnection], setups: list[AgentSetup]
) -> dict[tuple[str, str | None], list[str]]:
    """The agents that call a script of ours, each in its project or in the person's settings, and in which files."""
    from holdfast.conversations.connect import detect

    current_project = ws.place.root if ws.agent_dirs is None else ws.agent_dirs.project
    callers = {
        (connection.agent, connection.project): [file.path for file in connection.files] for connection in active
    }
    for setup in setups:
        if setup.connected in detect.SCOPES and not _has_only_manual_server(setup):
            callers[setup.name, current_project if setup.connected == "project" else None] = list(setup.files)
    return callers


def _has_only_manual_server(setup: AgentSetup) -> bool:
    """Whether it has nothing but a server that a person entered."""
    from holdfast.core.agent_programs import MCP_ONLY

    return setup.name in MCP_ONLY and setup.server is not None and setup.server.by_hand is not None


def _check_leftovers(setups: list[AgentSetup]) -> Check | None:
    """Check for hooks of another Holdfast that has been removed."""
    leftovers = [
        (f"{other.path} has hooks or a server of a removed Holdfast ({other.home})", other.scope)
        for setup in setups
        for other in setup.leftovers
        # In shared files it is probably somebody else's: it only matters if the agent is not connected here.
        if other.missing and (other.scope == "user" or setup.connected is None)
    ]
    if not leftovers:
        return None
    own = any(scope == "user" for _, scope in leftovers)
    return Check("hooks", "warning", "; ".join(list(dict.fromkeys(text for text, _ in leftovers))[:_MAX_SHOWN]),
                 "They do nothing; holdfast disconnect AGENT removes them." if own
                 else "They do nothing here; holdfast connect AGENT connects this home.")  # fmt: skip


def _check_obstacles(setups: list[AgentSetup]) -> Check | None:
    obstacles = list(
        dict.fromkeys(text for setup in setups if setup.connected is not None for text in setup.obstacles)
    )
    if not obstacles:
        return None
    return Check("hooks", "warning", " ".join(obstacles[:_MAX_SHOWN]), "holdfast agents shows all obstacles")


def _check_server(ws: Workspace, setups: list[AgentSetup]) -> Check | None:
    """Check for agents whose MCP server cannot be started."""
    lost = [
        (setup.name, setup.server)
        for setup in setups
        if setup.server is not None and setup.server.missing is not None
    ]
    if not lost:
        return None
    problems = [f"the MCP server in {server.path} calls {server.missing}, which is missing" for _, server in lost]
    current_project = ws.place.root if ws.agent_dirs is None else ws.agent_dirs.project
    own = [(name, None) for name, server in lost if server.scope == "user" and server.by_hand is None]
    theirs = [server.path for _, server in lost if server.by_hand is not None]
    fix = f"Put the program on the PATH; {current_project} shares only its name."
    if own:
        fix = _connect_command(ws, own)
    elif theirs:
        fix = f"Put the program there, or fix your entry in {theirs[0]}."
    return Check("hooks", "warning", "; ".join(problems[:_MAX_SHOWN]), fix)


def _connected(names: set[str]) -> Check:
    from holdfast.core.agent_programs import MCP_ONLY

    hooked, served = sorted(names - set(MCP_ONLY)), sorted(names & set(MCP_ONLY))
    details = [f"connected: {', '.join(hooked)}"] if hooked else []
    details += [f"{', '.join(served)} can start the MCP server"] if served else []
    return Check("hooks", "ok", "; ".join(details) or "no agent is connected")


def check_spool(ws: Workspace, _: Store | None) -> Check:
    """Check for payloads that wait in the spool, or could not be understood."""
    home = ws.home.path
    place = os.path.join(home, spool.DIRECTORY)
    if os.path.islink(place):
        return Check("spool", "warning", f"{place} is a link, which hooks do not follow: payloads are lost",
                     "Remove the link; Holdfast makes the directory again.")  # fmt: skip
    unread = spool.list_unread(home)
    if unread:
        place = os.path.join(place, spool.UNREAD)
        return Check("spool", "warning", f"{count(len(unread), 'payload')} of agents could not be understood",
                     f"Please report what is in {place}, then delete it.")  # fmt: skip
    others = payloads_for_other_stores(ws)
    elsewhere = {entry.name for entries in others.values() for entry in entries}
    entries = [entry for entry in spool.list_entries(home) if entry.name not in elsewhere]
    old = [entry for entry in entries if ws.now() - entry.at // 1_000_000 > HOUR]
    if old:
        return Check("spool", "warning", f"{count(len(old), 'payload')} of agents waited for more than an hour",
                     "holdfast status records them; if they stay, see the check `capture`.")  # fmt: skip
    if others:
        return _check_other_stores(ws, others)
    if entries:
        return Check("spool", "ok", f"{count(len(entries), 'payload')} of agents will be recorded next")
    return Check("spool", "ok", "everything that agents reported is recorded")


def _check_other_stores(ws: Workspace, others: dict[str, list[spool.SpoolEntry]]) -> Check:
    """Check for payloads that are meant for other stores: they wait for a process that opens these."""
    named = [
        f"{count(len(entries), 'payload')} of agents {'waits' if len(entries) == 1 else 'wait'} for {one_line(url)}"
        for url, entries in list(others.items())[:_MAX_SHOWN]
    ]
    more = [f"{len(others) - _MAX_SHOWN} more stores have payloads"] if len(others) > _MAX_SHOWN else []
    oldest = min(entry.at for entries in others.values() for entry in entries) // 1_000_000
    commands = " && ".join(
        f"holdfast --store {shlex.quote(one_line(url))} history" for url in list(others)[:_MAX_SHOWN]
    )  # fmt: skip
    return Check("spool", "warning" if ws.now() - oldest > HOUR else "ok", "; ".join(named + more),
                 f"To record them there: {commands}")  # fmt: skip


def check_hook_errors(ws: Workspace, _: Store | None) -> Check:
    """Check for errors in hooks, which have no way to show them."""
    lines = error_log.lines(ws.home.path, ws.now() - 7 * DAY)
    if not lines:
        return Check("capture", "ok", "no errors in hooks in the last seven days")
    outages = [line for line in lines if server_outage.is_outage_message(str(line.get("message", "")))]
    lines = [line for line in lines if line not in outages]
    if not lines:
        return Check(
            "capture", "ok", f"payloads were kept while the server could not be reached ({_describe(outages[-1])})"
        )
    shown = "; ".join(_describe(line) for line in lines[-_MAX_SHOWN:])
    more = f" (the last of {len(lines):,})" if len(lines) > _MAX_SHOWN else ""
    path = os.path.join(ws.home.path, error_log.NAME)
    return Check(
        "capture", "warning", f"{shown}{more}", f"All errors are in {path}; please report those that persist."
    )


def _describe(line: dict[str, object]) -> str:
    at = line.get("at")
    when = f"{format_time(at)[:16]}Z " if isinstance(at, int) and 0 <= at < 253402300800000 else ""
    return f"{when}{one_line(str(line.get('where', '')))}: {one_line(str(line.get('message', '')))}"
