"""`holdfast history`: past and present sessions, newest first."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.cli.call import Call
from holdfast.cli.clock import Clock
from holdfast.cli.paint import Column, Paint, Painted
from holdfast.cli.session_parts import status_word
from holdfast.core.model import Row
from holdfast.core.times import format_duration
from holdfast.core.view import other_names
from holdfast.core.wording import count, percent
from holdfast.formats.archives import FOLDER, Archives, archives
from holdfast.machine.wall import midnight


def run(call: Call) -> None:
    words, keeper, at = call.parsed, call.keeper, call.at
    asked = words.integer("limit")
    limit = round(keeper.settings.number("history.limit")) if asked is None else asked
    since, everywhere = _since(call), words.flag("all_projects")
    search, status = words.text("search"), words.text("status")
    rows = keeper.history(limit=limit, search=search, status=status, since=since, all_projects=everywhere, at=at)
    beside = archives(keeper) if (search, status, since, at) == (None, None, None, None) else Archives([], 0)
    unreadable = [{"path": path, "reason": reason} for path, reason in beside.unreadable]
    call.answer(
        {"sessions": rows, **({"unreadable": unreadable} if unreadable else {})},
        lambda paint: _shown(call, paint, rows, beside, everywhere=everywhere),
    )
    if unreadable:
        call.note(f"What is left of it: holdfast recover {unreadable[0]['path']}")
    if beside.unknown:
        folder = "/".join(FOLDER)
        call.note(f"{count(beside.unknown, 'more archive')} in {folder}: holdfast import {folder}")
    if asked is None and len(rows) == limit:
        call.note(f"The latest {limit:,} are shown; --limit N shows more.")


def _shown(call: Call, paint: Paint, rows: Sequence[Row], beside: Archives, *, everywhere: bool) -> Painted:
    clock = Clock(call.keeper.now() if call.at is None else call.at)
    aliases = [_alias(call, row) for row in rows]
    listed = _table(paint, rows, aliases, clock, everywhere=everywhere) if rows else _nothing(call, paint)
    unread = [paint.plain(f"unreadable  {path}: {reason}") for path, reason in beside.unreadable]
    return Painted("\n".join([listed, *unread]))


def _since(call: Call) -> int | None:
    written = call.parsed.text("since")
    # A date alone is the midnight it began with, here.
    return midnight(written) if written is not None and len(written) == 10 else call.moment(written)


def _table(paint: Paint, rows: Sequence[Row], aliases: Sequence[str], clock: Clock, *, everywhere: bool) -> Painted:
    columns = [
        Column("Session"), Column("Alias", weight=1, least=17, most=32), Column("Goal", weight=4, least=16),
        Column("Status"), Column("Done", "right"), Column("Worked", "right"),
        Column("Project", weight=1, least=8, most=24), Column("Age", "right"),
    ]  # fmt: skip
    cells: list[list[str]] = [
        [paint.bold(row.id[:8]), paint.dim(alias), row.goal,
         paint.join(status_word(paint, row), paint.dim(" (archived)") if row.archived else ""),
         percent(row.progress), format_duration(row.working_ms), row.project, clock.age(row.updated_at)]
        for row, alias in zip(rows, aliases, strict=True)
    ]  # fmt: skip
    left_out = {1} if not any(aliases) else set()
    left_out |= set() if everywhere else {6}
    cells = [[cell for place, cell in enumerate(line) if place not in left_out] for line in cells]
    columns = [column for place, column in enumerate(columns) if place not in left_out]
    return paint.table(cells, columns)


def _alias(call: Call, row: Row) -> str:
    """The first id that a format has for it, else the name that a hand-made file gave it."""
    names = (row.aliases.orchestrator, row.aliases.timer, row.aliases.contract, row.aliases.craft)
    known = next((name for name in names if name and name != row.id), None)
    store = call.keeper.existing_store()
    state = None if known or store is None else store.state(row.id)
    return known or ("" if state is None else next(iter(other_names(state)), ""))


def _nothing(call: Call, paint: Paint) -> Painted:
    words = call.parsed
    search = words.text("search")
    where = "" if words.flag("all_projects") else " in this project"
    wider = "" if words.flag("all_projects") else " (--all-projects looks further)"
    if search is not None:
        return paint.plain(f"Nothing found for {search!r}{where}{wider}.")
    if words.text("status") or words.text("since") or words.globals.at:
        return paint.plain(f"No such session{where}{wider}.")
    return paint.join(f"No sessions{where} yet. Start one: ", paint.bold("holdfast start GOAL"))
