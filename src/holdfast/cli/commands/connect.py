"""`holdfast connect AGENT… [--scope user|project] [--no-mcp]`, `disconnect AGENT…`: Holdfast's hooks and server
in agents' own settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.capture.registry import SERVED
from holdfast.cli.call import Call
from holdfast.cli.connected import painted, public
from holdfast.cli.paint import Paint, Painted
from holdfast.cli.places import places

if TYPE_CHECKING:
    from holdfast.capture.interface import Scope
    from holdfast.keeper.captures.connecting import Connected


def run(call: Call) -> None:
    from holdfast.keeper.captures.connecting import connect

    asked = call.parsed.text("scope")
    scope: Scope = "project" if asked == "project" else "user"
    wanted = not call.parsed.flag("no_mcp")
    agents = [name for name in call.parsed.texts("agents") if name != "git"]
    done = connect(call.keeper, places(call), agents, scope, server=wanted) if agents else []
    if "git" in call.parsed.texts("agents"):
        from holdfast.keeper.captures import git_trailer

        done.append(git_trailer.connect(call.keeper, places(call), scope if asked else None))
    call.answer(
        {"connections": [public(one) for one in done]},
        lambda paint: Painted("") if call.quiet else _connected(paint, done),
    )


def disconnect(call: Call) -> None:
    from holdfast.keeper.captures.connecting import disconnect as take_out

    agents = [name for name in call.parsed.texts("agents") if name != "git"]
    done = take_out(call.keeper, places(call), agents) if agents else []
    if "git" in call.parsed.texts("agents"):
        from holdfast.keeper.captures import git_trailer

        done.append(git_trailer.disconnect(call.keeper))
    call.answer(
        {"connections": [public(one) for one in done]},
        lambda paint: Painted("") if call.quiet else _disconnected(paint, done),
    )


def _connected(paint: Paint, done: list[Connected]) -> Painted:
    lines: list[Painted] = []
    for one in done:
        where = _where(one)
        lines += painted(
            paint, one, f"connected {where}" if one.is_new or one.revived else f"is connected already, {where}"
        )
    names = " ".join(one.agent for one in done if one.agent not in (*SERVED, "git"))
    lines.append(paint.plain(""))
    if all(one.agent == "git" for one in done):
        lines.append(paint.dim("Commits name the session that is at work from now on: Holdfast-Session."))
    elif names:
        lines.append(paint.dim("Sessions record themselves from now on: work as usual, then holdfast status."))
        lines.append(paint.dim(f"holdfast backfill {names} takes in what was done before."))
    else:
        lines.append(paint.dim("Start it anew: it reads its settings when it opens."))
    return Painted("\n".join(lines))


def _where(one: Connected) -> str:
    if one.agent == "git":
        return "for this repository" if one.scope == "project" else "for all your repositories"
    if one.agent in SERVED:
        return "for you, with the MCP server and nothing else"  # it knows of no projects
    return "for this project" if one.scope == "project" else "for you, in every project"


def _disconnected(paint: Paint, done: list[Connected]) -> Painted:
    lines: list[Painted] = []
    for one in done:
        lines += painted(paint, one, "disconnected" if one.is_new else "was not connected", lines=False)
    return Painted("\n".join(lines))
