"""Lengths of time in tables."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.times import DAY, HOUR, MINUTE
from holdfast.web.charts import sum as sums

LENGTHS = st.integers(0, 20_000 * DAY)


@given(st.lists(LENGTHS, max_size=50))
def test_full_seconds_add_up_down_a_column(parts: list[int]) -> None:
    """To those of the whole; each is the length itself, rounded down or up, and nothing stays nothing."""
    shown = sums.shared(parts, sum(parts))
    assert sum(shown) == sum(parts) // 1000 * 1000
    assert all(item % 1000 == 0 and abs(item - part) < 1000 for item, part in zip(shown, parts, strict=True))


@given(st.floats(allow_nan=False))
def test_a_bar_stays_in_its_cell(fraction: float) -> None:
    """Whatever it is given, from nothing to all."""
    (bar,) = ET.fromstring(str(sums.length(fraction)))
    assert 0 <= float(bar.attrib["width"].removesuffix("%")) <= 100


def test_lengths_are_written_as_people_write_them() -> None:
    """Hours of any number, minutes and seconds."""
    assert sums.clocked(4 * HOUR + 12 * MINUTE + 31_999) == "4:12:31"
    assert sums.clocked(1234 * HOUR) == "1,234:00:00"
