"""A figure: what was measured, what it must be, and the numbers behind it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple


class Figure(NamedTuple):
    name: str
    value: float
    rule: str  # "≥ 0.5", "≤ 8", "= 8000"; empty for what is only recorded
    detail: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the rule holds; None where there is none."""
        if not self.rule:
            return None
        sign, limit = self.rule.split()[:2]
        bound = float(limit)
        return {"≥": self.value >= bound, "≤": self.value <= bound, "=": self.value == bound}[sign]


def timed(call: Callable[[int], object], numbers: range) -> list[float]:
    """Seconds each call took."""
    seconds = []
    for number in numbers:
        begin = time.perf_counter()
        call(number)
        seconds.append(time.perf_counter() - begin)
    return seconds


def micros(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs"


def median(seconds: list[float]) -> float:
    return statistics.median(seconds)


def mean(seconds: list[float]) -> float:
    return statistics.fmean(seconds)
