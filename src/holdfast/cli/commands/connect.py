"""`holdfast connect AGENT… [--scope user|project] [--no-mcp]`, `disconnect AGENT…`: Holdfast's hooks and server
in agents' own settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.agent_dirs import places
from holdfast.cli.call import Call
from holdfast.cli.connect_view import painted, public
from holdfast.cli.paint import Paint, Painted
from holdfast.conversations.adapters.index import SERVED

if TYPE_CHECKING:
    from holdfast.conversations.adapters.base import Scope
    from holdfast.conversations.connect.apply import Connected


def run(call: Call) -> None:
    from holdfast.conversations.connect.apply import connect

    asked = call.parsed.text("scope")
    scope: Scope = "project" if asked == "project" else "user"
    wanted = not call.parsed.flag("no_mcp")
    agents = [name for name in call.parsed.texts("agents") if name != "git"]
    done = connect(call.keeper, places(call), agents, scope, server=wanted) if agents else []
    if "git" in call.parsed.texts("agents"):
        from holdfast.conversations.connect import git_trailer

        done.append(git_trailer.connect(call.keeper, places(call), scope if asked else None))
    call.answer(
        {"connections": [public(connected) for connected in done]},
        lambda paint: Painted("") if call.quiet else _connected(paint, done),
    )


def disconnect(call: Call) -> None:
    from holdfast.conversations.connect.apply import disconnect as take_out

    agents = [name for name in call.parsed.texts("agents") if name != "git"]
    done = take_out(call.keeper, places(call), agents) if agents else []
    if "git" in call.parsed.texts("agents"):
        from holdfast.conversations.connect import git_trailer

        done.append(git_trailer.disconnect(call.keeper))
    call.answer(
        {"connections": [public(connected) for connected in done]},
        lambda paint: Painted("") if call.quiet else _disconnected(paint, done),
    )


def _connected(paint: Paint, done: list[Connected]) -> Painted:
    lines: list[Painted] = []
    for connected in done:
        where = _where(connected)
        lines += painted(
            paint,
            connected,
            f"connected {where}" if connected.is_new or connected.revived else f"is connected already, {where}",
        )
    names = " ".join(connected.agent for connected in done if connected.agent not in (*SERVED, "git"))
    lines.append(paint.plain(""))
    if all(connected.agent == "git" for connected in done):
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
    for connected in done:
        lines += painted(paint, connected, "disconnected" if connected.is_new else "was not connected", lines=False)
    return Painted("\n".join(lines))
