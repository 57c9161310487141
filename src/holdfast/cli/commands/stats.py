"""`holdfast stats`: hours worked, by scope, day, project or agent.

People are shown worked time alone: pauses of several sessions overlap and include nights, so a sum of them means
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.cli.call import Call, put
from holdfast.cli.paint import Column, Paint, Painted
from holdfast.core.times import format_duration
from holdfast.core.wording import count
from holdfast.sessions.hours.table import AgentLine, Line, Table, worked_days

_NONE = "(none)"


def run(call: Call) -> None:
    by = call.parsed.text("by") or "scope"
    found = call.keeper.hours(by, at=call.at)
    if call.parsed.flag("csv") and not call.json:
        from holdfast.sessions.hours.table import csv_of

        put(csv_of(found.by, found.lines, type(found.total)))
        return
    call.answer(
        {"by": by, "lines": found.lines, "total": found.total},
        lambda paint: _shown(paint, found) if found.lines else _nothing(paint, by),
    )


def _nothing(paint: Paint, by: str) -> Painted:
    return paint.plain("No agents were recorded here yet." if by == "agent" else "No sessions here yet.")


def _shown(paint: Paint, found: Table) -> Painted:
    total = found.total
    if isinstance(total, AgentLine):
        return _agents(paint, [line for line in found.lines if isinstance(line, AgentLine)], total, found.names)
    lines = [line for line in found.lines if isinstance(line, Line)]
    shown = worked_days(lines) if found.by == "day" else lines
    left_out = len(lines) - len(shown)
    rest = "\n" + paint.dim(count(left_out, "day") + " without worked time not shown") if left_out else ""
    return Painted(_sessions(paint, found.by, shown, total) + rest)


def _sessions(paint: Paint, by: str, lines: Sequence[Line], total: Line) -> Painted:
    most = max((line.working_ms for line in lines), default=0) or 1
    columns = [
        Column(by.capitalize(), weight=2, least=10), Column("Sessions", "right"), Column("Worked", "right"),
        Column("", least=12), Column("Kept", "right"), Column("Discarded", "right"), Column("Hill"),
    ]  # fmt: skip
    rows: list[list[str]] = [
        [line.key or _NONE, f"{line.sessions:,}", format_duration(line.working_ms),
         paint.bar(line.working_ms / most, 12) if paint.tty else "",
         f"{line.kept:,}" if line.kept else "", f"{line.discarded:,}" if line.discarded else "",
         "" if line.hill is None else _hill(paint, line.hill)]
        for line in lines
    ]  # fmt: skip
    rows.append([
        paint.bold("Total"), f"{total.sessions:,}", paint.bold(format_duration(total.working_ms)), "",
        f"{total.kept:,}" if total.kept else "", f"{total.discarded:,}" if total.discarded else "", "",
    ])  # fmt: skip
    return _without_empty(paint, rows, columns)


def _agents(paint: Paint, lines: Sequence[AgentLine], total: AgentLine, names: Mapping[str, str]) -> Painted:
    columns = [
        Column("Type", weight=2, least=8), Column("Agents", weight=2, least=6), Column("Sessions", "right"),
        Column("Runs", "right"), Column("Time", "right"), Column("Tokens", "right"), Column("Failures", "right"),
    ]  # fmt: skip
    rows: list[list[str]] = [
        [line.key or _NONE, ", ".join(names.get(id_, id_) for id_ in line.agents), f"{line.sessions:,}",
         f"{line.runs:,}", format_duration(line.running_ms), f"{line.tokens:,}", f"{line.failures:,}"]
        for line in lines
    ]  # fmt: skip
    rows.append([
        paint.bold("Total"), "", f"{total.sessions:,}", f"{total.runs:,}",
        paint.bold(format_duration(total.running_ms)), f"{total.tokens:,}", f"{total.failures:,}",
    ])  # fmt: skip
    return _without_empty(paint, rows, columns)


def _without_empty(paint: Paint, rows: list[list[str]], columns: list[Column]) -> Painted:
    keep = [n for n in range(len(columns)) if any(row[n] for row in rows)]
    return paint.table([[row[n] for n in keep] for row in rows], [columns[n] for n in keep])


def _hill(paint: Paint, position: int) -> str:
    """Where on its hill a scope is: up to 5 finding out, then making it happen."""
    words = "not started" if position == 0 else "done" if position >= 10 else "crest" if position == 5 else (
        "uphill" if position < 5 else "downhill"
    )  # fmt: skip
    return paint.join(f"{position:>2} ", paint.dim(words))
