"""Commands that detect agent programs, and edit their settings: `agents`, `connect`, `disconnect`, `uninstall`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from holdfast.cli.call import Call, public_path
from holdfast.cli.paint import Column, Paint, Painted, wrap
from holdfast.core.wording import count, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.conversations.adapters.base import Scope
    from holdfast.conversations.connect.apply import ConnectResult, TouchedFile
    from holdfast.conversations.connect.detect import AgentSetup
    from holdfast.conversations.connect.disconnect import UninstallResult

# ── agents ─────────────────────────────────────────────────────────────────────────────────────────────


_WAYS = {"user": "for you", "project": "for this project", "plugin": "by its plugin"}


def agents(call: Call) -> None:
    call.keeper.agent_dirs = call.agent_dirs()
    setups = call.keeper.agents.list()
    call.answer({"agents": [public_agent(setup) for setup in setups]}, lambda paint: _paint_agents(paint, setups))


def public_agent(setup: AgentSetup) -> dict[str, object]:
    return {
        "name": setup.name,
        "title": setup.title,
        "found": setup.is_here,
        "connected": setup.connected,
        "script_missing": setup.silent,
        "server": None if setup.server is None else {
            "scope": setup.server.scope,
            "path": public_path(setup.server.path),
            "missing": None if setup.server.missing is None else public_path(setup.server.missing),
        },
        "program": None if setup.program is None else public_path(setup.program),
        "obstacles": list(setup.obstacles),
        "leftovers": [
            {"path": public_path(left.path), "home": public_path(left.home), "gone": left.missing}
            for left in setup.leftovers
        ],
    }  # fmt: skip


def agents_table(paint: Paint, setups: Sequence[AgentSetup]) -> Painted:
    rows = [
        [
            paint.bold(setup.name),
            setup.title,
            _way(paint, setup),
            _server(paint, setup),
            setup.program or ("used here" if setup.is_here else paint.dim("not found")),
        ]
        for setup in setups
    ]
    return paint.table(
        rows, [Column("Agent"), Column("Name"), Column("Connected"), Column("Server"), Column("Found", weight=1)]
    )


def _way(paint: Paint, setup: AgentSetup) -> Painted:
    if setup.connected is None:
        return paint.dim("no")
    if setup.silent:
        return paint.yellow(f"{_WAYS[setup.connected]}, script missing")
    return paint.green(_WAYS[setup.connected])


def _server(paint: Paint, setup: AgentSetup) -> Painted:
    if setup.server is None:
        return paint.dim("no")
    if setup.server.missing is not None:
        return paint.yellow("missing")
    return paint.green("yes" if setup.server.by_hand is None else "by hand")


def _paint_agents(paint: Paint, setups: Sequence[AgentSetup]) -> Painted:
    from holdfast.conversations.connect.detect import commands

    lines: list[str] = [agents_table(paint, setups)]
    for setup in setups:
        problems = list(setup.obstacles) if setup.connected else []
        if setup.silent:
            problems.append(f"{setup.files[0]} has the hooks, but Holdfast's script is not in this home yet.")
        if setup.server is not None and setup.server.missing is not None:
            problems.append(f"{setup.server.path} has the MCP server, but {setup.server.missing} is missing.")
        problems += [
            f"{left.path} calls {'a missing Holdfast' if left.missing else 'another home'} ({left.home})."
            for left in setup.leftovers
        ]
        for sentence in problems:
            lines += [paint.yellow(line) for line in wrap(paint.plain(f"{setup.name}: {sentence}"), paint.width)]
    lines += [paint.dim(command) for command in commands(setups)]
    return Painted("\n".join(lines))


# ── connect ────────────────────────────────────────────────────────────────────────────────────────────


def connect(call: Call) -> None:
    asked = call.parsed.text("scope")
    scope: Scope | None = "project" if asked == "project" else "user" if asked else None
    call.keeper.agent_dirs = call.agent_dirs()
    done = call.keeper.agents.connect(call.parsed.texts("agents"), scope, server=not call.parsed.flag("no_mcp"))
    call.answer(
        {"connections": [public_connection(connected) for connected in done]},
        lambda paint: Painted("") if call.quiet else _paint_connected(paint, done),
    )


def disconnect(call: Call) -> None:
    call.keeper.agent_dirs = call.agent_dirs()
    done = call.keeper.agents.disconnect(call.parsed.texts("agents"))
    call.answer(
        {"connections": [public_connection(connected) for connected in done]},
        lambda paint: Painted("") if call.quiet else _paint_disconnected(paint, done),
    )


def _paint_connected(paint: Paint, done: Sequence[ConnectResult]) -> Painted:
    lines: list[Painted] = []
    for connected in done:
        where = _where_connected(connected)
        lines += _paint_connection(
            paint,
            connected,
            f"connected {where}" if connected.is_new or connected.revived else f"is connected already, {where}",
        )
    from holdfast.core.agent_programs import MCP_ONLY

    names = " ".join(connected.agent for connected in done if connected.agent not in (*MCP_ONLY, "git"))
    lines.append(paint.plain(""))
    if all(connected.agent == "git" for connected in done):
        lines.append(paint.dim("From now on, commits name their session: Holdfast-Session."))
    elif names:
        lines.append(paint.dim("Sessions record themselves from now on: work as usual, then holdfast status."))
        lines.append(paint.dim(f"holdfast backfill {names} adds past conversations."))
    else:
        lines.append(paint.dim("Restart it: it reads its settings when it starts."))
    return Painted("\n".join(lines))


def _where_connected(connected: ConnectResult) -> str:
    if connected.agent == "git":
        return "for this repository" if connected.scope == "project" else "for all your repositories"
    from holdfast.core.agent_programs import MCP_ONLY

    if connected.agent in MCP_ONLY:
        return "for you, with the MCP server and nothing else"  # it knows of no projects
    return "for this project" if connected.scope == "project" else "for you, in every project"


def _paint_disconnected(paint: Paint, done: Sequence[ConnectResult]) -> Painted:
    lines: list[Painted] = []
    for connected in done:
        lines += _paint_connection(
            paint, connected, "disconnected" if connected.is_new else "was not connected", lines=False
        )
    return Painted("\n".join(lines))


# ── uninstall ──────────────────────────────────────────────────────────────────────────────────────────


_UNINSTALL_PROGRAM = "pip uninstall holdfast"


def uninstall(call: Call) -> int:
    call.keeper.agent_dirs = call.agent_dirs()
    done = call.keeper.agents.uninstall()
    home = call.keeper.home.path
    call.answer(
        {
            "connections": [public_connection(connected) for connected in done.connections],
            "removed": [public_path(path) for path in done.removed],
            "problems": [error.message for error in done.problems],
            "home": public_path(home),
        },
        lambda paint: Painted("") if call.quiet else _paint_uninstalled(paint, done, home),
        error=done.problems[0] if done.problems else None,
    )
    call.failed(done.problems)
    return 1 if done.problems else 0


def _paint_uninstalled(paint: Paint, done: UninstallResult, home: str) -> Painted:
    lines: list[Painted] = []
    for connected in done.connections:
        where = "" if connected.project is None else f" from {connected.project}"
        lines += _paint_connection(paint, connected, f"disconnected{where}", lines=False)
    lines += [paint.join(paint.green("Removed "), path) for path in done.removed]
    if done.problems:
        lines.append(paint.yellow("Not everything could be removed; fix that and run the command again."))
        return Painted("\n".join(lines))
    if not lines:
        lines.append(paint.plain("No agent was connected."))
    lines.append(paint.plain(f"What was recorded stays in {home}; mirrored files stay as they are."))
    lines.append(
        paint.dim(
            f"To remove the program, run `{_UNINSTALL_PROGRAM}`, or remove it the way you installed it; "
            f"to remove the data, delete {home}."
        )
    )
    return Painted("\n".join(lines))


# ── connect_view ───────────────────────────────────────────────────────────────────────────────────────


_MAX_LINES = 8
_MAX_ALIKE = 3


def public_connection(connected: ConnectResult) -> dict[str, object]:
    return {
        "agent": connected.agent,
        "scope": connected.scope,
        "project": None if connected.project is None else public_path(connected.project),
        "files": [
            {"path": public_path(file.path), "change": file.change}
            | ({} if file.aside is None else {"aside": public_path(file.aside)})
            for file in connected.files
        ],
        "server": None if connected.server is None else public_path(connected.server),
        "obstacles": list(connected.obstacles),
        "notes": list(connected.notes),
    }


def _paint_connection(paint: Paint, connected: ConnectResult, verdict: str, *, lines: bool = True) -> list[Painted]:
    """One agent: its state, its files, what was added to them, and what prevents it from running hooks."""
    from holdfast.conversations.adapters.index import title

    name = connected.agent if connected.agent == "git" else title(connected.agent)
    out = [paint.join(paint.bold(name), "  ", paint.green(verdict))]
    out += _paint_files(paint, connected.files)
    if connected.server is not None:
        out.append(paint.join("  ", paint.dim("server "), f"{connected.server_name} in {connected.server}"))
    if lines:
        out += _paint_new_lines(paint, connected.files)
    out += [paint.plain(f"  {note}") for note in connected.notes]
    for obstacle in connected.obstacles:
        out += [paint.yellow(f"  {line}") for line in wrap(paint.plain(obstacle), paint.width - 2)]
    return out


def _paint_files(paint: Paint, files: Sequence[TouchedFile]) -> Iterator[Painted]:
    """Each file; many with the same change in one directory are one line."""
    together: dict[tuple[str, str], list[TouchedFile]] = {}
    for file in files:
        together.setdefault((os.path.dirname(file.path), file.change), []).append(file)
    for (directory, change), alike in together.items():
        if len(alike) > _MAX_ALIKE:
            yield paint.join("  ", paint.dim(f"{change} "), f"{count(len(alike), 'file')} in {directory}")
        else:
            yield from (paint.join("  ", paint.dim(f"{change} "), file.path) for file in alike)
    for file in files:
        if file.aside is not None:
            yield paint.yellow(f"  {file.path} was changed since, and is kept as {file.aside}")


def _paint_new_lines(paint: Paint, files: Sequence[TouchedFile]) -> Iterator[Painted]:
    """The first lines that are new in shared files, each once, without those that only close what others opened."""
    new = [line for file in files for line in _new_lines(file) if line.strip("+{}[], \t\r")]
    shown = list(dict.fromkeys(f"+ {one_line(line[1:])}" for line in new))[:_MAX_LINES]
    for line in shown:
        yield paint.cut(paint.join("    ", paint.green(line)), paint.width)
    if len(new) > len(shown):
        yield paint.dim(f"    and {count(len(new) - len(shown), 'more line')} like these")


def _new_lines(file: TouchedFile) -> list[str]:
    if file.change not in ("created", "edited") or not file.path.endswith((".json", ".toml")):
        return []
    from difflib import unified_diff

    before, after = ((text or b"").decode(errors="replace").splitlines() for text in (file.before, file.after))
    return [
        line
        for line in unified_diff(before, after, lineterm="", n=0)
        # Only insertions are made: a removed line is there again, longer.
        if line[:1] == "+" and line[:3] != "+++"
    ]
