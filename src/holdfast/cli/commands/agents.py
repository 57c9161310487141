"""`holdfast agents`: which agents were found here, which are connected, and what stands in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.agent_dirs import places
from holdfast.cli.call import Call
from holdfast.cli.notes import public_path
from holdfast.cli.paint import Column, Paint, Painted, wrap

if TYPE_CHECKING:
    from holdfast.conversations.connect.detect import AgentSetup

WAYS = {"user": "for you", "project": "for this project", "plugin": "by its plugin"}


def run(call: Call) -> None:
    from holdfast.conversations.connect.detect import find

    found = find(call.keeper, places(call))
    call.answer({"agents": [public(setup) for setup in found]}, lambda paint: _painted(paint, found))


def public(one: AgentSetup) -> dict[str, object]:
    return {
        "name": one.name,
        "title": one.title,
        "found": one.found,
        "connected": one.connected,
        "script_missing": one.silent,
        "server": None if one.server is None else {
            "scope": one.server.scope,
            "path": public_path(one.server.path),
            "missing": None if one.server.missing is None else public_path(one.server.missing),
        },
        "program": None if one.program is None else public_path(one.program),
        "obstacles": list(one.obstacles),
        "leftovers": [
            {"path": public_path(left.path), "home": public_path(left.home), "gone": left.gone}
            for left in one.leftovers
        ],
    }  # fmt: skip


def table(paint: Paint, found: list[AgentSetup]) -> Painted:
    rows = [
        [
            paint.bold(setup.name),
            setup.title,
            _way(paint, setup),
            _server(paint, setup),
            setup.program or ("used here" if setup.found else paint.dim("not found")),
        ]
        for setup in found
    ]
    return paint.table(
        rows, [Column("Agent"), Column("Name"), Column("Connected"), Column("Server"), Column("Found", weight=1)]
    )


def _way(paint: Paint, one: AgentSetup) -> Painted:
    if one.connected is None:
        return paint.dim("no")
    if one.silent:
        return paint.yellow(f"{WAYS[one.connected]}, script missing")
    return paint.green(WAYS[one.connected])


def _server(paint: Paint, one: AgentSetup) -> Painted:
    if one.server is None:
        return paint.dim("no")
    if one.server.missing is not None:
        return paint.yellow("missing")
    return paint.green("yes" if one.server.by_hand is None else "by hand")


def _painted(paint: Paint, found: list[AgentSetup]) -> Painted:
    from holdfast.conversations.connect.detect import commands

    lines: list[str] = [table(paint, found)]
    for setup in found:
        told = list(setup.obstacles) if setup.connected else []
        if setup.silent:
            told.append(f"Hooks stand in {setup.files[0]}, but Holdfast's script is not in this home yet.")
        if setup.server is not None and setup.server.missing is not None:
            told.append(f"{setup.server.path} has the MCP server, but {setup.server.missing} is not there.")
        told += [
            f"{left.path} calls {'a Holdfast that is gone' if left.gone else 'another home'} ({left.home})."
            for left in setup.leftovers
        ]
        for sentence in told:
            lines += [paint.yellow(line) for line in wrap(paint.plain(f"{setup.name}: {sentence}"), paint.width)]
    lines += [paint.dim(command) for command in commands(found)]
    return Painted("\n".join(lines))
