"""`holdfast uninstall`: every trace out of agents' settings; what was recorded stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.agent_dirs import places
from holdfast.cli.call import Call
from holdfast.cli.connect_view import painted, public
from holdfast.cli.notes import public_path
from holdfast.cli.paint import Paint, Painted

if TYPE_CHECKING:
    from holdfast.conversations.connect.uninstall import Uninstalled

PACKAGE = "pip uninstall holdfast"


def run(call: Call) -> int:
    from holdfast.conversations.connect.uninstall import uninstall

    done = uninstall(call.keeper, places(call))
    home = call.keeper.home.path
    call.answer(
        {
            "connections": [public(connected) for connected in done.connections],
            "removed": [public_path(path) for path in done.removed],
            "problems": [error.message for error in done.problems],
            "home": public_path(home),
        },
        lambda paint: Painted("") if call.quiet else _painted(paint, done, home),
        error=done.problems[0] if done.problems else None,
    )
    call.failed(done.problems)
    return 1 if done.problems else 0


def _painted(paint: Paint, done: Uninstalled, home: str) -> Painted:
    lines: list[Painted] = []
    for connected in done.connections:
        where = "" if connected.project is None else f" from {connected.project}"
        lines += painted(paint, connected, f"disconnected{where}", lines=False)
    lines += [paint.join(paint.green("Removed "), path) for path in done.removed]
    if done.problems:
        lines.append(paint.yellow("Not everything could be taken out; put that right and run it again."))
        return Painted("\n".join(lines))
    if not lines:
        lines.append(paint.plain("No agent was connected."))
    lines.append(paint.plain(f"What was recorded stays in {home}; mirrored files stay as they are."))
    lines.append(
        paint.dim(f"The program goes with `{PACKAGE}`, or as you installed it; the data by deleting {home}.")
    )
    return Painted("\n".join(lines))
