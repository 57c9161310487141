"""The timeline as a Gantt chart in text: one row for the person's time, one for each agent, and an axis.

Long stretches in which nothing happened (a night, a weekend) are folded to a few cells, so that an hour's work on
either side of them stays visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.cli.clock import day_name, local
from holdfast.cli.paint import Column, Paint, Painted
from holdfast.cli.session_parts import mark
from holdfast.core.times import DAY, HOUR, MINUTE, SECOND, format_duration
from holdfast.core.wording import age

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.paint import Style

Span = tuple[int, int]

_FOLD_CELLS = 6  # cells a folded stretch takes
_MIN_FOLD_SHARE = 0.2  # of the whole: shorter ones are not folded
_ALWAYS_FOLDED = 4 * HOUR  # longer ones are
_STEPS = (
    SECOND, 5 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE,
    30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY,
    91 * DAY, 364 * DAY,
)  # fmt: skip
# What the person's time was: sign, in ASCII, style, name.
_KINDS: dict[str, tuple[str, str, Style, str]] = {
    "work": ("█", "#", "green", "worked"), "manual": ("░", "-", "yellow", "paused"),
    "task": ("▒", "=", "cyan", "agent at work"), "idle": ("·", ".", "dim", "idle"),
    "timeout": ("×", "x", "red", "time limit"),
}  # fmt: skip


class TimelinePause(NamedTuple):
    kind: str
    since: int
    until: int
    reason: str | None = None


class TimelineLane(NamedTuple):
    """An agent: its runs, its failures and its status."""

    label: str
    status: str
    runs: tuple[Span, ...]
    failed: tuple[int, ...] = ()

    def outcome_at(self, until: int) -> str:
        """The outcome of the run that ended then; only that of the last one is the status of the agent."""
        if self.runs and until == self.runs[-1][1]:
            return self.status
        return "error" if until in self.failed else "paused"


class TimelineChart(NamedTuple):
    since: int
    until: int
    live: bool
    pauses: tuple[TimelinePause, ...]
    lanes: tuple[TimelineLane, ...]


class Scale:
    """The cell of a moment on the axis."""

    def __init__(self, since: int, until: int, folds: Sequence[Span], cells: int) -> None:
        self.since, self.until, self.folds, self.cells = since, until, folds, cells
        self._unfolded_ms = max(until - since - sum(end - begin for begin, end in folds), 1)
        self._unfolded_cells = max(cells - _FOLD_CELLS * len(folds), 1)

    def cell(self, moment: int) -> int:
        hidden, passed = 0, 0
        for begin, end in self.folds:
            if moment >= end:
                hidden, passed = hidden + end - begin, passed + _FOLD_CELLS
            elif moment > begin:
                passed += (moment - begin) * _FOLD_CELLS // (end - begin)
                hidden += moment - begin
        return min((moment - self.since - hidden) * self._unfolded_cells // self._unfolded_ms + passed, self.cells)

    def fill(self, since: int, until: int) -> range:
        """The cells of a stretch: at least one, and none outside."""
        first = min(self.cell(max(since, self.since)), self.cells - 1)
        return range(first, min(max(self.cell(min(until, self.until)), first + 1), self.cells))

    def step(self, label_cells: int) -> int:
        """The smallest round step that leaves so many cells for each label."""
        return next(
            (step for step in _STEPS if step * self._unfolded_cells >= label_cells * self._unfolded_ms), _STEPS[-1]
        )

    def ticks(self, step: int, shift: int) -> list[int]:
        """Round moments of the local clock, none of them in a fold."""
        moments: list[int] = []
        moment = -(-(self.since + shift) // step) * step - shift
        while moment < self.until and len(moments) < self.cells:
            fold = next((end for begin, end in self.folds if begin < moment < end), None)
            if fold is not None:
                moment = -(-(fold + shift) // step) * step - shift
                continue
            moments.append(moment)
            moment += step
        return moments


def chart(paint: Paint, timeline: TimelineChart, *, max_lanes: int = 100) -> Painted:
    if timeline.until - timeline.since < SECOND:
        return paint.plain("Nothing to draw yet.")
    if not paint.tty:
        return _list_runs(paint, timeline)
    lanes = timeline.lanes if len(timeline.lanes) <= max_lanes else timeline.lanes[: max_lanes - 1]
    totals = _totals(timeline)
    lengths = [
        format_duration(totals["work"]),
        *(format_duration(sum(end - begin for begin, end in lane.runs)) for lane in lanes),
    ]
    label_width = max([4, *(paint.width_of(lane.label) for lane in lanes)])
    label_width = min(label_width, paint.width // 5)
    length_width = max(len(length) for length in lengths)
    cells = paint.width - label_width - length_width - 6
    scale = Scale(
        timeline.since, max(timeline.until, timeline.since + 1), folds(timeline, max(cells // 20, 1)), cells
    )
    margin = " " * (label_width + 4)
    rows = [margin + row for row in _axis(paint, timeline, scale)]
    rows.append(
        _row(paint, "you", Painted(" "), _draw_person(paint, timeline, scale), lengths[0], label_width, length_width)
    )
    for lane, length in zip(lanes, lengths[1:], strict=True):
        drawn = _draw_lane(paint, lane, scale)
        rows.append(_row(paint, lane.label, mark(paint, lane.status), drawn, length, label_width, length_width))
    if len(lanes) < len(timeline.lanes):
        rows.append(paint.dim(f"and {len(timeline.lanes) - len(lanes):,} more: holdfast agent list"))
    return Painted("\n".join([*rows, "", _legend(paint, totals, margin)]))


def folds(timeline: TimelineChart, max_folds: int) -> list[Span]:
    """The longest pauses in which no agent worked either, if they would leave little room for the rest."""
    busy = sorted(run for lane in timeline.lanes for run in lane.runs)
    min_length = max(min(int((timeline.until - timeline.since) * _MIN_FOLD_SHARE), _ALWAYS_FOLDED), 15 * MINUTE)
    quiet: list[Span] = []
    for pause in timeline.pauses:
        start = pause.since
        for since, until in busy:
            if since > start:
                quiet.append((start, min(since, pause.until)))
            start = max(start, until)
            if start >= pause.until:
                break
        quiet.append((start, pause.until))
    ranked = sorted((span for span in quiet if span[1] - span[0] > min_length), key=lambda span: span[0] - span[1])
    longest = sorted(ranked[:max_folds])
    shown = timeline.until - timeline.since - sum(until - since for since, until in longest)
    return longest if shown >= MINUTE else []  # something must be left to see


def _totals(timeline: TimelineChart) -> dict[str, int]:
    totals = dict.fromkeys(_KINDS, 0)
    for pause in timeline.pauses:
        totals[pause.kind] += pause.until - pause.since
    totals["work"] = timeline.until - timeline.since - sum(totals.values())
    return totals


def _axis(paint: Paint, timeline: TimelineChart, scale: Scale) -> list[str]:
    shift = _shift(timeline.since)
    step = scale.step(9)
    days: list[tuple[int, str]] = []
    times: list[tuple[int, str]] = []
    ruler = ["-" if paint.ascii_only else "─"] * scale.cells
    day = ""
    for tick in scale.ticks(step, shift):
        cell = scale.cell(tick)
        if cell >= scale.cells:
            continue
        local_time = local(tick)
        if local_time[:10] != day:
            day = local_time[:10]
            days.append((cell, day_name(tick, timeline.until)))
        times.append((cell, local_time[11:19] if step < MINUTE else local_time[11:16]))
        ruler[cell] = "+" if paint.ascii_only else "┬"
    for begin, end in scale.folds:
        first = scale.cell(begin)
        label = age(end - begin).center(_FOLD_CELLS)[:_FOLD_CELLS]
        ruler[first : first + _FOLD_CELLS] = list(label)
    if step >= DAY:
        rows = [_labels(days, scale.cells, "now" if timeline.live else "")]
    else:
        several = local(timeline.since)[:10] != local(max(timeline.until - 1, timeline.since))[:10]
        rows = [_labels(days, scale.cells, "")] if several else []
        rows.append(_labels(times, scale.cells, "now" if timeline.live else ""))
    return [*(paint.dim(row).rstrip() for row in rows), paint.dim("".join(ruler[: scale.cells]))]


def _labels(items: Sequence[tuple[int, str]], cells: int, last: str) -> str:
    """Labels at their cells, without those that would touch another one."""
    room = cells - len(last) - 2 if last else cells
    row = ""
    for cell, label in items:
        if cell + len(label) <= room and (not row or cell >= len(row) + 2):
            row = row.ljust(cell) + label
    return row.ljust(cells - len(last)) + last


def _shift(moment: int) -> int:
    from holdfast.machine.wall import local_offset

    offset = local_offset(moment)
    return (offset.days * 86_400 + offset.seconds) * SECOND


def _draw_person(paint: Paint, timeline: TimelineChart, scale: Scale) -> Painted:
    kinds = ["work"] * scale.cells
    for pause in timeline.pauses:
        for cell in scale.fill(pause.since, pause.until) if pause.until > pause.since else ():
            kinds[cell] = pause.kind
    drawn: list[str] = []
    start = 0
    for cell in range(1, scale.cells + 1):
        if cell == scale.cells or kinds[cell] != kinds[start]:
            sign, plain, style, _ = _KINDS[kinds[start]]
            drawn.append(paint.style((plain if paint.ascii_only else sign) * (cell - start), style))
            start = cell
    return Painted("".join(drawn))


def _draw_lane(paint: Paint, lane: TimelineLane, scale: Scale) -> Painted:
    bar, cross = ("=", "x") if paint.ascii_only else ("━", "✗")
    cells = [" "] * scale.cells
    for since, until in lane.runs:
        for cell in scale.fill(since, until):
            cells[cell] = bar
    for moment in lane.failed:
        cells[max(scale.fill(moment - 1, moment).start, 0)] = cross
    style: Style = "green" if lane.status == "running" else "yellow" if lane.status == "paused" else ""
    parts = "".join(cells).rstrip().split(cross)
    return paint.join(*(paint.style(part, style) for part in parts), sep=paint.red(cross))


def _row(
    paint: Paint, label: str, sign: Painted, drawn: Painted, length: str, label_width: int, length_width: int
) -> str:
    name = paint.cut(label, label_width)
    left = paint.join(name, " " * (label_width - paint.width_of(name)), " ", sign, "  ")
    room = paint.width - label_width - length_width - 6
    return paint.join(left, drawn, " " * (room - paint.width_of(drawn)), "  ", paint.dim(f"{length:>{length_width}}"))


def _legend(paint: Paint, totals: dict[str, int], margin: str) -> Painted:
    parts = []
    for kind, (sign, plain, style, name) in _KINDS.items():
        if totals[kind]:
            parts.append(
                paint.join(
                    paint.style(plain if paint.ascii_only else sign, style),
                    f" {name} {format_duration(totals[kind])}",
                )
            )
    lines, timeline = [], Painted(margin)
    for part in parts:
        if timeline.strip() and paint.width_of(timeline) + paint.width_of(part) + 3 > paint.width:
            lines.append(timeline)
            timeline = Painted(margin)
        timeline = paint.join(timeline, "   " if timeline.strip() else "", part)
    return Painted("\n".join([*lines, timeline]))


def _list_runs(paint: Paint, timeline: TimelineChart) -> Painted:
    """Where nothing is drawn: every stretch as a row, by time."""
    rows = [(pause.since, pause.until, _KINDS[pause.kind][3], pause.reason or "") for pause in timeline.pauses]
    rows += [(begin, end, lane.label, lane.outcome_at(end)) for lane in timeline.lanes for begin, end in lane.runs]
    rows.sort(key=lambda row: (row[0], row[1]))
    columns = [Column("From"), Column("To"), Column("Length", "right"), Column("Who", weight=1), Column("", weight=2)]
    cells = [
        [
            local(begin)[:19].replace("T", " "),
            "now" if timeline.live and end == timeline.until else local(end)[11:19],
            format_duration(end - begin),
            who,
            what,
        ]
        for begin, end, who, what in rows
    ]
    return paint.table(cells, columns) if cells else paint.plain("Nothing but work so far.")
