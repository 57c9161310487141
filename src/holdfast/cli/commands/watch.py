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
    from holdfast.keeper.overview import Glance


def run(call: Call) -> None:
    if call.parsed.globals.at is not None:
        raise Usage("watch shows what is now, and takes no --at", hint="holdfast status --at TIME shows what was.")
    reference = call.parsed.text("id")
    only = None if reference is None else call.keeper.session(reference).id
    if call.json or not can_draw(call.environ):
        _once(call, only)
        return
    from holdfast.cli.watching.loop import watch

    watch(call.open_keeper, call.paint, only=only, prepare=lambda keeper: _prepare(call, keeper))


def _prepare(call: Call, keeper: Keeper) -> None:
    """A keeper for a long life, that knows where agents keep their things."""
    from holdfast.capture.places import Places

    keeper.places = Places(os.path.expanduser("~"), keeper.place.root, call.environ, sys.platform)


def _once(call: Call, only: str | None) -> None:
    from holdfast.keeper import overview

    glances = overview.now(call.keeper) if only is None else [overview.glance(call.keeper, only)]
    call.answer(
        {"sessions": [one.session for one in glances]},
        lambda paint: _shown(call, paint, glances, alone=only is not None),
    )


def _shown(call: Call, paint: Paint, glances: Sequence[Glance], *, alone: bool) -> Painted:
    """As `status` and `history` show it."""
    from holdfast.cli.clock import Clock

    clock = Clock(call.keeper.now())
    if alone:
        from holdfast.cli.glance import glance

        shown = glances[0]
        return glance(paint, shown.session, clock, gone=shown.gone, failed=shown.failed, hint=not call.quiet)
    if not glances:
        return paint.join("No session is unfinished. Start one: ", paint.bold("holdfast start GOAL"))
    from holdfast.cli.describe import status_word
    from holdfast.cli.paint import Column
    from holdfast.core.times import span
    from holdfast.keeper.wording import percent

    columns = [
        Column("Session"), Column("Goal", weight=4, least=16), Column("Status"), Column("Done", "right"),
        Column("Worked", "right"), Column("Project", weight=1, least=8, most=24), Column("Waits for you", weight=3),
    ]  # fmt: skip
    rows: list[list[str]] = [
        [paint.bold(one.session.id[:8]), one.session.goal, status_word(paint, one.session),
         percent(one.session.progress), span(one.session.time.working_ms), one.session.project.name,
         one.attention[0] if one.attention else ""]
        for one in glances
    ]  # fmt: skip
    if not any(row[-1] for row in rows):
        del columns[-1]
        rows = [row[:-1] for row in rows]
    return paint.table(rows, columns)
