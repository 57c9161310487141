"""Lengths of time in tables: as people write them, adding up to the total, and as bars."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from holdfast.core.times import SECOND


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


def length(fraction: float) -> Markup:
    """A bar in a row of a table: the number stands beside it."""
    width = round(min(max(fraction, 0.0), 1.0) * 100, 1)
    return Markup('<svg class="length" aria-hidden="true"><rect width="{}%" height="100%"/></svg>').format(width)
