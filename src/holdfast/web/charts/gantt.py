"""The agents of a session over time: one lane each, with its runs as bars and its status as a sign and a shape.

Colour is never the only difference: a running agent is striped up to the now-line, a failed one has a cross at its
end, a lost or interrupted one is dashed, a paused one is hatched, and each lane begins with a sign.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from holdfast.core.text import shorten
from holdfast.core.times import format_duration
from holdfast.core.wording import count, one_line
from holdfast.web.charts.axis import Axis, Offset, Span

ROW: Final = 24
TOP: Final = 22
MAX_DRAWN: Final = 60  # lanes that are drawn

# How a lane's last run is drawn, and the sign before its name.
FORMS: Final[dict[str, tuple[str, str]]] = {
    "running": ("run", "▶"), "completed": ("done", "✓"), "error": ("failed", "✗"), "timeout": ("failed", "✗"),
    "paused": ("held", "‖"), "gone": ("lost", "?"), "interrupted": ("lost", "?"), "aborted": ("lost", "■"),
    "pending": ("held", "·"),
}  # fmt: skip
WORDS: Final = {
    "error": "failed", "timeout": "timed out", "aborted": "aborted", "pending": "not started",
    "gone": "ended without finishing",
}  # fmt: skip
_ACTIVE: Final = frozenset({"running", "paused", "gone", "pending"})
_PATTERNS: Final = {"run": "stripes", "held": "hatch"}


class GanttLane(NamedTuple):
    """An agent: its runs (without an end while it runs), its failures, its status."""

    label: str
    about: str
    status: str
    runs: tuple[tuple[int, int | None], ...]
    failed: tuple[int, ...] = ()


class Gantt(NamedTuple):
    """A drawing, and what it leaves out."""

    names: Sequence[GanttLane]
    drawing: Markup
    left_out: str


def drawn_lanes(lanes: Sequence[GanttLane], max_drawn: int = MAX_DRAWN) -> list[int]:
    """Which lanes are drawn, in order: those still active, then those that started last."""
    if len(lanes) <= max_drawn:
        return list(range(len(lanes)))
    latest = sorted(range(len(lanes)), key=lambda number: (lanes[number].status in _ACTIVE, number), reverse=True)
    return sorted(latest[:max_drawn])


def chart(lanes: Sequence[GanttLane], axis: Axis, offset: Offset, *, max_drawn: int = MAX_DRAWN) -> Gantt:
    numbers = drawn_lanes(lanes, max_drawn)
    drawn = [lanes[number] for number in numbers]
    height = TOP + max(len(drawn), 1) * ROW + 4
    parts = [axis.draw_grid(height, offset)]
    for row, lane in enumerate(drawn):
        parts += _lane(lane, axis, TOP + row * ROW)
    parts.append(axis.now_line(height, top=14))
    named = f"Timeline of {count(len(drawn), 'agent')}: {tally(drawn)}" if drawn else "Timeline without agents"
    drawing = Markup('<svg class="plot" width="100%" height="{}" role="img" aria-label="{}">{}</svg>').format(
        height, named, Markup("").join(parts)
    )
    left_out = [lanes[number] for number in sorted(set(range(len(lanes))) - set(numbers))]
    return Gantt(drawn, drawing, f"and {count(len(left_out), 'more agent')}: {tally(left_out)}" if left_out else "")


def tally(lanes: Sequence[GanttLane]) -> str:
    """`3 completed, 1 failed`"""
    counted = Counter(WORDS.get(lane.status, lane.status) for lane in lanes)
    return ", ".join(f"{number:,} {one_line(words)}" for words, number in counted.most_common())


def sign(status: str) -> str:
    return FORMS.get(status, ("done", "·"))[1]


def _lane(lane: GanttLane, axis: Axis, y: int) -> list[Markup]:
    last = len(lane.runs) - 1
    parts: list[Markup] = []
    description = f"{one_line(lane.label)}: {shorten(one_line(lane.about), 160)}"
    end = axis.period.end
    if last > 0:  # between two attempts: idle, but the same agent
        left, width = axis.edges(lane.runs[0][0], lane.runs[last][0])
        parts.append(
            Markup('<line class="between" x1="{}%" y1="{}" x2="{}%" y2="{}"/>').format(
                left, y + 12, round(left + width, 2), y + 12
            )
        )
    for number, (since, until) in enumerate(lane.runs):
        stop = end if until is None else until
        form = (
            FORMS.get(lane.status, ("done", ""))[0] if number == last else "failed" if stop in lane.failed else "done"
        )
        status = lane.status if number == last else "failed" if form == "failed" else "paused"
        left, width = axis.edges(since, stop)
        title = f"{description} ({WORDS.get(status, one_line(status))}" + (
            ")" if until is None else f", {format_duration(stop - since)})"
        )
        parts.append(_bar(form, left, width, y, title))
    for moment in lane.failed:
        place = min(max(axis.x(moment), 0.8), 99.2)
        parts.append(Markup('<text class="cross" x="{}%" y="{}" text-anchor="middle">✗</text>').format(place, y + 16))
    return parts


def _bar(form: str, left: float, width: float, y: int, title: str) -> Markup:
    pattern_id = _PATTERNS.get(form)
    position = Markup('x="{}%" y="{}" width="{}%" height="14" rx="3"').format(left, y + 5, width)
    pattern = (
        Markup('<rect {} fill="url(#{})" class="over"/>').format(position, pattern_id) if pattern_id else Markup("")
    )
    return Markup('<g class="bar-{}"><title>{}</title><rect {}/>{}</g>').format(form, title, position, pattern)


def busy(lanes: Sequence[GanttLane], end: int) -> list[Span]:
    """When any agent was running."""
    return [(since, end if until is None else until) for lane in lanes for since, until in lane.runs]
