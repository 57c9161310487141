"""`holdfast watch`: the sessions, live in the terminal; elsewhere, how they stand now, once."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from holdfast.cli.call import Call
from holdfast.core.errors import Usage
from holdfast.machine.terminal import can_draw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.paint import Paint, Painted
    from holdfast.keeper.keeper import Keeper
    from holdfast.sessions.overview import SessionCard


def run(call: Call) -> None:
    if call.parsed.globals.at is not None:
        raise Usage("watch shows the present, and takes no --at", hint="holdfast status --at TIME shows what was.")
    reference = call.parsed.text("id")
    only = None if reference is None else call.keeper.session(reference).id
    if call.json or not can_draw(call.environ):
        _once(call, only)
        return
    from holdfast.cli.watch.loop import watch

    watch(call.open_keeper, call.paint, only=only, prepare=lambda keeper: _prepare(call, keeper))


def _prepare(call: Call, keeper: Keeper) -> None:
    """A keeper for a long life, that knows where agents keep their things."""
    from holdfast.workspace.agent_dirs import AgentDirs

    keeper.agent_dirs = AgentDirs(os.path.expanduser("~"), keeper.place.root, call.environ, sys.platform)


def _once(call: Call, only: str | None) -> None:
    from holdfast.sessions import overview

    glances = overview.now(call.keeper) if only is None else [overview.session_card(call.keeper, only)]
    call.answer(
        {"sessions": [card.session for card in glances]},
        lambda paint: _shown(call, paint, glances, alone=only is not None),
    )


def _shown(call: Call, paint: Paint, glances: Sequence[SessionCard], *, alone: bool) -> Painted:
    """As `status` and `history` show it."""
    from holdfast.cli.clock import Clock

    clock = Clock(call.keeper.now())
    if alone:
        from holdfast.cli.status_view import render_status

        shown = glances[0]
        return render_status(paint, shown.session, clock, gone=shown.gone, failed=shown.failed, hint=not call.quiet)
    if not glances:
        return paint.join("No session is unfinished. Start one: ", paint.bold("holdfast start GOAL"))
    from holdfast.cli.paint import Column
    from holdfast.cli.session_parts import status_word
    from holdfast.core.times import format_duration
    from holdfast.core.wording import percent

    columns = [
        Column("Session"), Column("Goal", weight=4, least=16), Column("Status"), Column("Done", "right"),
        Column("Worked", "right"), Column("Project", weight=1, least=8, most=24), Column("Waits for you", weight=3),
    ]  # fmt: skip
    rows: list[list[str]] = [
        [paint.bold(card.session.id[:8]), card.session.goal, status_word(paint, card.session),
         percent(card.session.progress), format_duration(card.session.time.working_ms), card.session.project.name,
         card.attention[0] if card.attention else ""]
        for card in glances
    ]  # fmt: skip
    if not any(row[-1] for row in rows):
        del columns[-1]
        rows = [row[:-1] for row in rows]
    return paint.table(rows, columns)
