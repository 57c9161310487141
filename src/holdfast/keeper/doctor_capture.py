"""The doctor's look at what agents tell: whether their hooks are heard, and whether what they said was understood."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.capture import absence, spool
from holdfast.capture.serving import NAME, by_hand, called
from holdfast.core.errors import HoldfastError
from holdfast.core.times import DAY, HOUR, text
from holdfast.keeper.captures.destinations import elsewhere
from holdfast.keeper.doctor_checks import Check
from holdfast.keeper.wording import count, one_line
from holdfast.machine import errorlog

if TYPE_CHECKING:
    from holdfast.keeper.captures.connections import Connection
    from holdfast.keeper.captures.found import Found
    from holdfast.keeper.keeper import Keeper
    from holdfast.store.interface import Store

_SHOWN = 3


def hooks(keeper: Keeper, _: Store | None) -> Check:
    """Connected agents: their entries, the script these call, and what keeps agents from calling it."""
    from holdfast.keeper.captures.connecting import stands
    from holdfast.keeper.captures.connections import Connections

    remembered = Connections(keeper.home.path).all()
    unreadable = _unreadable(keeper, remembered)
    if unreadable is not None:
        return unreadable
    standing = [one for one in remembered if stands(keeper.home.path, one)]
    lost = [one for one in remembered if one not in standing and _could_stand(one)]
    if lost:
        gone = ", ".join(sorted({one.agent for one in lost}))
        fix = _connect(keeper, [(one.agent, one.project) for one in lost])
        return Check("hooks", "warning", f"connected once, but the hooks are gone from its settings: {gone}",
                     f"{fix}; or holdfast disconnect, if that is meant")  # fmt: skip
    seen = _seen(keeper)
    return (
        _script(keeper, standing, seen)
        or _left_behind(seen)
        or _server(keeper, seen)
        or _outdated(keeper, standing, seen)
        or _told_once(keeper, standing)
        or _hindered(seen)
        or _heard({one.agent for one in standing} | {one.name for one in seen if one.connected is not None})
    )


def _could_stand(connection: Connection) -> bool:
    """Whether the place of a connection is still there: a project that was deleted misses nothing."""
    return connection.project is None or os.path.isdir(connection.project)


def _unreadable(keeper: Keeper, remembered: list[Connection]) -> Check | None:
    """Files of connections in which nobody can look any more: whether anything of ours is in them is not known."""
    from holdfast.keeper.captures.editing import decoded, editing
    from holdfast.keeper.captures.steps import current

    told: list[str] = []
    agents: list[tuple[str, str | None]] = []
    for one in remembered:
        for kept in one.files if _could_stand(one) else ():
            try:
                data = current(kept.path, one.project)
                if data is not None and not kept.own:
                    editing(kept.path).plain(decoded(data, kept.path), kept.path)
            except HoldfastError as error:
                told.append(f"{one.agent} is connected through {kept.path}, which is of no use now: {error.message}")
                agents.append((one.agent, one.project))
    if not told:
        return None
    names = " ".join(sorted({name for name, _ in agents}))
    return Check("hooks", "warning", "; ".join(told[:_SHOWN]),
                 f"Put that right, then {_connect(keeper, agents)}; or holdfast disconnect {names}")  # fmt: skip


def _told_once(keeper: Keeper, standing: list[Connection]) -> Check | None:
    """Agents that are heard, and were told of the MCP server in a file that does not name it any more."""
    from holdfast.keeper.captures import found
    from holdfast.keeper.captures.steps import at_path

    lost = [
        (one, kept.path)
        for one in standing
        for kept in one.files
        for value in (kept.receipt.values if kept.receipt is not None else ())
        if value.at[-1] == NAME and called(value.value)
        if not (call := called(at_path(found.read(kept.path, one.project), value.at)))
        or not (found.all_ours(keeper.home.path, one.scope)(call) or by_hand(call))
    ]
    if not lost:
        return None
    told = [f"{one.agent} was told of the MCP server, but it does not stand in {path}" for one, path in lost]
    fix = _connect(keeper, [(one.agent, one.project) for one, _ in lost])
    return Check("hooks", "warning", "; ".join(told[:_SHOWN]), f"{fix}; with --no-mcp, if that is meant")


def _seen(keeper: Keeper) -> list[Found]:
    """What stands in agents' settings, remembered or not: as far as we know where to look."""
    from holdfast.capture.registry import CONNECTABLE
    from holdfast.keeper.captures import found

    seen: list[Found] = []
    if keeper.places is None:
        return seen
    for name in CONNECTABLE:
        try:
            seen.append(found.look(keeper, keeper.places, name))
        except (HoldfastError, ImportError):
            continue
    return seen


def _connect(keeper: Keeper, wanted: Iterable[tuple[str, str | None]]) -> str:
    """The commands that connect agents, each in the scope of its project, or in the person's."""
    together: dict[str | None, list[str]] = {}
    for name, project in sorted(set(wanted), key=str):
        together.setdefault(project, []).append(name)
    here = keeper.place.root if keeper.places is None else keeper.places.project
    return "; ".join(
        f"holdfast connect {' '.join(names)}"
        + ("" if project is None else " --scope project")
        + ("" if project in (None, here) else f" --project {shlex.quote(str(project))}")
        for project, names in together.items()
    )


def _script(keeper: Keeper, standing: list[Connection], seen: list[Found]) -> Check | None:
    """That the script which hooks call is missing, wherever they stand."""
    from holdfast.keeper.captures import found

    calling = _calling(keeper, standing, seen)
    home = keeper.home.path
    path, fix = found.script_path(home), _connect(keeper, calling)
    if calling and not found.script_stands(home):
        where = list(dict.fromkeys(paths[0] for paths in calling.values() if paths))
        more = f" and {len(where) - _SHOWN} more" if len(where) > _SHOWN else ""
        detail = f"hooks stand in {', '.join(where[:_SHOWN])}{more}, but {path}, which they call, is not there"
        # What a project shares is not this person's to take out.
        out = "" if all(project for _, project in calling) else ", or holdfast uninstall, which takes them out"
        return Check("hooks", "warning", f"{detail}: nothing is heard", fix + out)
    return None


def _outdated(keeper: Keeper, standing: list[Connection], seen: list[Found]) -> Check | None:
    """That the scripts are not those of the Holdfast that runs now, or not all there."""
    import sys

    from holdfast.keeper.captures import found, installing

    calling, home = _calling(keeper, standing, seen), keeper.home.path
    if not calling or installing.is_current(home, system=sys.platform):
        return None
    missing = installing.missing(home, system=sys.platform)
    if missing:
        detail = f"{' and '.join(missing[:_SHOWN])}, which Holdfast put there for agents, is not there any more"
    else:
        path = found.script_path(home)
        detail = f"{path} was made for another Python or another version of Holdfast than this one"
    return Check("hooks", "warning", detail, _connect(keeper, calling))


def _calling(
    keeper: Keeper, standing: list[Connection], seen: list[Found]
) -> dict[tuple[str, str | None], list[str]]:
    """The agents that call a script of ours, each in its project or in the person's settings, and in which files."""
    from holdfast.keeper.captures import found

    here = keeper.place.root if keeper.places is None else keeper.places.project
    calling = {(one.agent, one.project): [file.path for file in one.files] for one in standing}
    for one in seen:
        if one.connected in found.SCOPES and not _is_by_hand_alone(one):
            calling[one.name, here if one.connected == "project" else None] = list(one.files)
    return calling


def _is_by_hand_alone(one: Found) -> bool:
    """Whether it gets nothing but the server, and a person saw to that."""
    from holdfast.capture.registry import SERVED

    return one.name in SERVED and one.server is not None and one.server.by_hand is not None


def _left_behind(seen: list[Found]) -> Check | None:
    """Hooks of a Holdfast that is not this one, and not there any more."""
    left = [
        (f"{other.path} has hooks or a server of a Holdfast that is gone ({other.home})", other.scope)
        for one in seen
        for other in one.leftovers
        # In files that are shared, the other one is probably somebody else's: it matters if nobody is heard.
        if other.gone and (other.scope == "user" or one.connected is None)
    ]
    if not left:
        return None
    own = any(scope == "user" for _, scope in left)
    return Check("hooks", "warning", "; ".join(list(dict.fromkeys(words for words, _ in left))[:_SHOWN]),
                 "They do nothing; holdfast disconnect AGENT takes them out." if own
                 else "They do nothing here; holdfast connect AGENT lets this home hear.")  # fmt: skip


def _hindered(seen: list[Found]) -> Check | None:
    told = list(dict.fromkeys(words for one in seen if one.connected is not None for words in one.obstacles))
    if not told:
        return None
    return Check("hooks", "warning", " ".join(told[:_SHOWN]), "holdfast agents shows all that stands in the way")


def _server(keeper: Keeper, seen: list[Found]) -> Check | None:
    """Agents that are told of an MCP server which nobody can start."""
    lost = [(one.name, one.server) for one in seen if one.server is not None and one.server.missing is not None]
    if not lost:
        return None
    told = [f"{server.path} has the MCP server, but {server.missing}, which it calls, is not there"
            for _, server in lost]  # fmt: skip
    here = keeper.place.root if keeper.places is None else keeper.places.project
    own = [(name, None) for name, server in lost if server.scope == "user" and server.by_hand is None]
    theirs = [server.path for _, server in lost if server.by_hand is not None]
    fix = f"Put the program on the PATH; {here} shares what it is called."
    if own:
        fix = _connect(keeper, own)
    elif theirs:
        fix = f"Put the program there, or mend the entry in {theirs[0]}, which is yours."
    return Check("hooks", "warning", "; ".join(told[:_SHOWN]), fix)


def _heard(names: set[str]) -> Check:
    from holdfast.capture.registry import SERVED

    heard, served = sorted(names - set(SERVED)), sorted(names & set(SERVED))
    told = ([f"{', '.join(heard)} can be heard"] if heard else []) + (
        [f"{', '.join(served)} can start the MCP server"] if served else []
    )
    return Check("hooks", "ok", "; ".join(told) or "no agent is connected")


def waiting(keeper: Keeper, _: Store | None) -> Check:
    """Payloads that wait for somebody to take them in, or that nobody understood."""
    home = keeper.home.path
    place = os.path.join(home, spool.DIRECTORY)
    if os.path.islink(place):
        return Check("spool", "warning", f"{place} is a link, which hooks do not follow: what they tell is lost",
                     "Remove the link; the directory is made anew.")  # fmt: skip
    unread = spool.unread(home)
    if unread:
        place = os.path.join(place, spool.UNREAD)
        return Check("spool", "warning", f"nothing could be made of {count(len(unread), 'payload')} of agents",
                     f"Please report what is in {place}, then delete it.")  # fmt: skip
    others = elsewhere(keeper)
    passed_over = {entry.name for entries in others.values() for entry in entries}
    found = [entry for entry in spool.waiting(home) if entry.name not in passed_over]
    old = [one for one in found if keeper.now() - one.at // 1_000_000 > HOUR]
    if old:
        return Check("spool", "warning", f"{count(len(old), 'payload')} of agents waited for more than an hour",
                     "holdfast status takes them in; look at the check named capture if they stay.")  # fmt: skip
    if others:
        return _for_other_stores(keeper, others)
    if found:
        return Check("spool", "ok", f"{count(len(found), 'payload')} of agents will be taken in next")
    return Check("spool", "ok", "everything agents told is recorded")


def _for_other_stores(keeper: Keeper, others: dict[str, list[spool.Entry]]) -> Check:
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
    return Check("spool", "warning" if keeper.now() - oldest > HOUR else "ok", "; ".join(named + more),
                 f"To record them there: {takes_in}")  # fmt: skip


def troubles(keeper: Keeper, _: Store | None) -> Check:
    """What went wrong in hooks, where nobody could be told."""
    lines = errorlog.lines(keeper.home.path, keeper.now() - 7 * DAY)
    if not lines:
        return Check("capture", "ok", "no hook had any trouble in the last seven days")
    outages = [line for line in lines if absence.is_plain(str(line.get("message", "")))]
    lines = [line for line in lines if line not in outages]
    if not lines:
        return Check("capture", "ok", f"what hooks heard while the server was away was kept ({_told(outages[-1])})")
    told = "; ".join(_told(line) for line in lines[-_SHOWN:])
    more = f" (the last of {len(lines):,})" if len(lines) > _SHOWN else ""
    path = os.path.join(keeper.home.path, errorlog.NAME)
    return Check("capture", "warning", f"{told}{more}", f"All of it is in {path}; please report what stays.")


def _told(line: dict[str, object]) -> str:
    at = line.get("at")
    when = f"{text(at)[:16]}Z " if isinstance(at, int) and 0 <= at < 253402300800000 else ""
    return f"{when}{one_line(str(line.get('where', '')))}: {one_line(str(line.get('message', '')))}"
