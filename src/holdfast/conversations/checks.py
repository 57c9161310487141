"""The doctor's checks of agents: whether their hooks run, and whether their payloads were understood."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.conversations.connect.mcp_entry import NAME, by_hand, called
from holdfast.conversations.ingest.drain import waiting_elsewhere
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

_SHOWN = 3


def hooks(ws: Workspace, _: Store | None) -> Check:
    """Connected agents: their entries, the script these call, and what keeps agents from calling it."""
    from holdfast.conversations.connect.apply import stands
    from holdfast.conversations.connect.registry import Connections

    remembered = Connections(ws.home.path).all()
    unreadable = _unreadable(ws, remembered)
    if unreadable is not None:
        return unreadable
    standing = [connection for connection in remembered if stands(ws.home.path, connection)]
    lost = [connection for connection in remembered if connection not in standing and _could_stand(connection)]
    if lost:
        gone = ", ".join(sorted({connection.agent for connection in lost}))
        fix = _connect(ws, [(connection.agent, connection.project) for connection in lost])
        return Check("hooks", "warning", f"connected once, but the hooks are gone from its settings: {gone}",
                     f"{fix}; or holdfast disconnect, if that is meant")  # fmt: skip
    seen = _seen(ws)
    return (
        _script(ws, standing, seen)
        or _left_behind(seen)
        or _server(ws, seen)
        or _outdated(ws, standing, seen)
        or _told_once(ws, standing)
        or _hindered(seen)
        or _heard(
            {connection.agent for connection in standing}
            | {setup.name for setup in seen if setup.connected is not None}
        )
    )


def _could_stand(connection: AgentConnection) -> bool:
    """Whether the place of a connection is still there: a project that was deleted misses nothing."""
    return connection.project is None or os.path.isdir(connection.project)


def _unreadable(ws: Workspace, remembered: list[AgentConnection]) -> Check | None:
    """Files of connections in which nobody can look any more: whether anything of ours is in them is not known."""
    from holdfast.conversations.connect.file_plan import current, decoded, editing

    told: list[str] = []
    agents: list[tuple[str, str | None]] = []
    for connection in remembered:
        for kept in connection.files if _could_stand(connection) else ():
            try:
                data = current(kept.path, connection.project)
                if data is not None and not kept.own:
                    editing(kept.path).plain(decoded(data, kept.path), kept.path)
            except HoldfastError as error:
                told.append(
                    f"{connection.agent} is connected through {kept.path}, which is of no use now: {error.message}"
                )
                agents.append((connection.agent, connection.project))
    if not told:
        return None
    names = " ".join(sorted({name for name, _ in agents}))
    return Check("hooks", "warning", "; ".join(told[:_SHOWN]),
                 f"Put that right, then {_connect(ws, agents)}; or holdfast disconnect {names}")  # fmt: skip


def _told_once(ws: Workspace, standing: list[AgentConnection]) -> Check | None:
    """Agents that are heard, and were told of the MCP server in a file that does not name it any more."""
    from holdfast.conversations.connect import detect
    from holdfast.conversations.connect.file_plan import at_path

    lost = [
        (connection, kept.path)
        for connection in standing
        for kept in connection.files
        for value in (kept.receipt.values if kept.receipt is not None else ())
        if value.at[-1] == NAME and called(value.value)
        if not (call := called(at_path(detect.read(kept.path, connection.project), value.at)))
        or not (detect.all_ours(ws.home.path, connection.scope)(call) or by_hand(call))
    ]
    if not lost:
        return None
    told = [
        f"{connection.agent} was told of the MCP server, but it does not stand in {path}" for connection, path in lost
    ]
    fix = _connect(ws, [(connection.agent, connection.project) for connection, _ in lost])
    return Check("hooks", "warning", "; ".join(told[:_SHOWN]), f"{fix}; with --no-mcp, if that is meant")


def _seen(ws: Workspace) -> list[AgentSetup]:
    """What stands in agents' settings, remembered or not: as far as we know where to look."""
    from holdfast.conversations.adapters.index import CONNECTABLE
    from holdfast.conversations.connect import detect

    seen: list[AgentSetup] = []
    if ws.agent_dirs is None:
        return seen
    for name in CONNECTABLE:
        try:
            seen.append(detect.look(ws, ws.agent_dirs, name))
        except (HoldfastError, ImportError):
            continue
    return seen


def _connect(ws: Workspace, wanted: Iterable[tuple[str, str | None]]) -> str:
    """The commands that connect agents, each in the scope of its project, or in the person's."""
    together: dict[str | None, list[str]] = {}
    for name, project in sorted(set(wanted), key=str):
        together.setdefault(project, []).append(name)
    here = ws.place.root if ws.agent_dirs is None else ws.agent_dirs.project
    return "; ".join(
        f"holdfast connect {' '.join(names)}"
        + ("" if project is None else " --scope project")
        + ("" if project in (None, here) else f" --project {shlex.quote(str(project))}")
        for project, names in together.items()
    )


def _script(ws: Workspace, standing: list[AgentConnection], seen: list[AgentSetup]) -> Check | None:
    """That the script which hooks call is missing, wherever they stand."""
    from holdfast.conversations.connect import detect

    calling = _calling(ws, standing, seen)
    home = ws.home.path
    path, fix = detect.script_path(home), _connect(ws, calling)
    if calling and not detect.script_stands(home):
        where = list(dict.fromkeys(paths[0] for paths in calling.values() if paths))
        more = f" and {len(where) - _SHOWN} more" if len(where) > _SHOWN else ""
        detail = f"hooks stand in {', '.join(where[:_SHOWN])}{more}, but {path}, which they call, is not there"
        # What a project shares is not this person's to take out.
        out = "" if all(project for _, project in calling) else ", or holdfast uninstall, which takes them out"
        return Check("hooks", "warning", f"{detail}: nothing is heard", fix + out)
    return None


def _outdated(ws: Workspace, standing: list[AgentConnection], seen: list[AgentSetup]) -> Check | None:
    """That the scripts are not those of the Holdfast that runs now, or not all there."""
    import sys

    from holdfast.conversations.connect import detect
    from holdfast.conversations.hooks import install

    calling, home = _calling(ws, standing, seen), ws.home.path
    if not calling or install.is_current(home, system=sys.platform):
        return None
    missing = install.missing(home, system=sys.platform)
    if missing:
        detail = f"{' and '.join(missing[:_SHOWN])}, which Holdfast put there for agents, is not there any more"
    else:
        path = detect.script_path(home)
        detail = f"{path} was made for another Python or another version of Holdfast than this one"
    return Check("hooks", "warning", detail, _connect(ws, calling))


def _calling(
    ws: Workspace, standing: list[AgentConnection], seen: list[AgentSetup]
) -> dict[tuple[str, str | None], list[str]]:
    """The agents that call a script of ours, each in its project or in the person's settings, and in which files."""
    from holdfast.conversations.connect import detect

    here = ws.place.root if ws.agent_dirs is None else ws.agent_dirs.project
    calling = {
        (connection.agent, connection.project): [file.path for file in connection.files] for connection in standing
    }
    for setup in seen:
        if setup.connected in detect.SCOPES and not _is_by_hand_alone(setup):
            calling[setup.name, here if setup.connected == "project" else None] = list(setup.files)
    return calling


def _is_by_hand_alone(one: AgentSetup) -> bool:
    """Whether it gets nothing but the server, and a person saw to that."""
    from holdfast.conversations.adapters.index import MCP_ONLY

    return one.name in MCP_ONLY and one.server is not None and one.server.by_hand is not None


def _left_behind(seen: list[AgentSetup]) -> Check | None:
    """Hooks of a Holdfast that is not this one, and not there any more."""
    left = [
        (f"{other.path} has hooks or a server of a Holdfast that is gone ({other.home})", other.scope)
        for setup in seen
        for other in setup.leftovers
        # In files that are shared, the other one is probably somebody else's: it matters if nobody is heard.
        if other.missing and (other.scope == "user" or setup.connected is None)
    ]
    if not left:
        return None
    own = any(scope == "user" for _, scope in left)
    return Check("hooks", "warning", "; ".join(list(dict.fromkeys(words for words, _ in left))[:_SHOWN]),
                 "They do nothing; holdfast disconnect AGENT takes them out." if own
                 else "They do nothing here; holdfast connect AGENT lets this home hear.")  # fmt: skip


def _hindered(seen: list[AgentSetup]) -> Check | None:
    told = list(dict.fromkeys(words for setup in seen if setup.connected is not None for words in setup.obstacles))
    if not told:
        return None
    return Check("hooks", "warning", " ".join(told[:_SHOWN]), "holdfast agents shows all that stands in the way")


def _server(ws: Workspace, seen: list[AgentSetup]) -> Check | None:
    """Agents that are told of an MCP server which nobody can start."""
    lost = [
        (setup.name, setup.server) for setup in seen if setup.server is not None and setup.server.missing is not None
    ]
    if not lost:
        return None
    told = [f"{server.path} has the MCP server, but {server.missing}, which it calls, is not there"
            for _, server in lost]  # fmt: skip
    here = ws.place.root if ws.agent_dirs is None else ws.agent_dirs.project
    own = [(name, None) for name, server in lost if server.scope == "user" and server.by_hand is None]
    theirs = [server.path for _, server in lost if server.by_hand is not None]
    fix = f"Put the program on the PATH; {here} shares what it is called."
    if own:
        fix = _connect(ws, own)
    elif theirs:
        fix = f"Put the program there, or mend the entry in {theirs[0]}, which is yours."
    return Check("hooks", "warning", "; ".join(told[:_SHOWN]), fix)


def _heard(names: set[str]) -> Check:
    from holdfast.conversations.adapters.index import MCP_ONLY

    heard, served = sorted(names - set(MCP_ONLY)), sorted(names & set(MCP_ONLY))
    told = ([f"{', '.join(heard)} can be heard"] if heard else []) + (
        [f"{', '.join(served)} can start the MCP server"] if served else []
    )
    return Check("hooks", "ok", "; ".join(told) or "no agent is connected")


def waiting(ws: Workspace, _: Store | None) -> Check:
    """Payloads that wait for somebody to take them in, or that nobody understood."""
    home = ws.home.path
    place = os.path.join(home, spool.DIRECTORY)
    if os.path.islink(place):
        return Check("spool", "warning", f"{place} is a link, which hooks do not follow: what they tell is lost",
                     "Remove the link; the directory is made anew.")  # fmt: skip
    unread = spool.list_unread(home)
    if unread:
        place = os.path.join(place, spool.UNREAD)
        return Check("spool", "warning", f"nothing could be made of {count(len(unread), 'payload')} of agents",
                     f"Please report what is in {place}, then delete it.")  # fmt: skip
    others = waiting_elsewhere(ws)
    passed_over = {entry.name for entries in others.values() for entry in entries}
    found = [entry for entry in spool.list_entries(home) if entry.name not in passed_over]
    old = [entry for entry in found if ws.now() - entry.at // 1_000_000 > HOUR]
    if old:
        return Check("spool", "warning", f"{count(len(old), 'payload')} of agents waited for more than an hour",
                     "holdfast status takes them in; look at the check named capture if they stay.")  # fmt: skip
    if others:
        return _for_other_stores(ws, others)
    if found:
        return Check("spool", "ok", f"{count(len(found), 'payload')} of agents will be taken in next")
    return Check("spool", "ok", "everything agents told is recorded")


def _for_other_stores(ws: Workspace, others: dict[str, list[spool.SpoolEntry]]) -> Check:
    """What hooks left for stores that other processes use: it waits for one that opens them."""
    named = [
        f"{count(len(entries), 'payload')} of agents {'waits' if len(entries) == 1 else 'wait'} for {one_line(url)}"
        for url, entries in list(others.items())[:_SHOWN]
    ]
    more = [f"{len(others) - _SHOWN} more stores have some"] if len(others) > _SHOWN else []
    oldest = min(entry.at for entries in others.values() for entry in entries) // 1_000_000
    takes_in = " && ".join(
        f"holdfast --store {shlex.quote(one_line(url))} history" for url in list(others)[:_SHOWN]
    )  # fmt: skip
    return Check("spool", "warning" if ws.now() - oldest > HOUR else "ok", "; ".join(named + more),
                 f"To record them there: {takes_in}")  # fmt: skip


def troubles(ws: Workspace, _: Store | None) -> Check:
    """What went wrong in hooks, where nobody could be told."""
    lines = error_log.lines(ws.home.path, ws.now() - 7 * DAY)
    if not lines:
        return Check("capture", "ok", "no hook had any trouble in the last seven days")
    outages = [line for line in lines if server_outage.is_outage_message(str(line.get("message", "")))]
    lines = [line for line in lines if line not in outages]
    if not lines:
        return Check("capture", "ok", f"what hooks heard while the server was away was kept ({_told(outages[-1])})")
    told = "; ".join(_told(line) for line in lines[-_SHOWN:])
    more = f" (the last of {len(lines):,})" if len(lines) > _SHOWN else ""
    path = os.path.join(ws.home.path, error_log.NAME)
    return Check("capture", "warning", f"{told}{more}", f"All of it is in {path}; please report what stays.")


def _told(line: dict[str, object]) -> str:
    at = line.get("at")
    when = f"{format_time(at)[:16]}Z " if isinstance(at, int) and 0 <= at < 253402300800000 else ""
    return f"{when}{one_line(str(line.get('where', '')))}: {one_line(str(line.get('message', '')))}"
