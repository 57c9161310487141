"""The law of work time, drawn: working + paused = elapsed, to the millisecond."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from holdfast.core.times import HOUR, MINUTE, SECOND

_WIDTH: Final = 1000


def exact(ms: int) -> str:
    """`123 h 04 min 31.120 s`: nothing is rounded, so what adds up adds up as it is written."""
    hours, rest = divmod(ms, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    seconds, milli = divmod(rest, SECOND)
    last = f"{seconds:02d}.{milli:03d} s"
    if hours:
        return f"{hours:,} h {minutes:02d} min {last}"
    return f"{minutes} min {last}" if minutes else f"{seconds}.{milli:03d} s"


def clocked(ms: int) -> str:
    """`4:12:31`, for a column; parts of a second are left out."""
    minutes, seconds = divmod(ms // SECOND, 60)
    return f"{minutes // 60:,}:{minutes % 60:02d}:{seconds:02d}"


def shared(parts: Sequence[int], whole: int) -> list[int]:
    """Lengths of time in full seconds that add up to those of the whole: the largest rests are rounded up."""
    shown = [part // SECOND for part in parts]
    missing = whole // SECOND - sum(shown)
    for number in sorted(range(len(parts)), key=lambda number: -(parts[number] % SECOND))[: max(missing, 0)]:
        shown[number] += 1
    return [seconds * SECOND for seconds in shown]


def drawn(working_ms: int, paused_ms: int) -> Markup:
    """Two lengths end to end, and under them, as long as both, what they come to."""
    elapsed = working_ms + paused_ms
    cut = round(_WIDTH * working_ms / elapsed, 1) if elapsed > 0 else 0.0
    label = f"{exact(working_ms)} working and {exact(paused_ms)} paused are {exact(elapsed)} elapsed"
    return Markup(
        '<svg class="sum" viewBox="0 0 {w} 26" preserveAspectRatio="none" role="img" aria-label="{label}">'
        '<rect class="rail" width="{w}" height="14"/>'
        '<rect class="working" width="{cut}" height="14"/>'
        '<rect class="paused" x="{cut}" width="{rest}" height="14"/>'
        '<rect class="elapsed" y="20" width="{all}" height="6"/></svg>'
    ).format(
        w=_WIDTH, label=label, cut=cut, rest=round(_WIDTH - cut, 1) if elapsed > 0 else 0,
        all=_WIDTH if elapsed > 0 else 0,
    )  # fmt: skip


def length(fraction: float) -> Markup:
    """A bar in a row of a table: the number stands beside it."""
    width = round(min(max(fraction, 0.0), 1.0) * 100, 1)
    return Markup('<svg class="length" aria-hidden="true"><rect width="{}%" height="100%"/></svg>').format(width)
