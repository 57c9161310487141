"""The law of work time, drawn."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.times import DAY, HOUR, MINUTE
from holdfast.web.charts import sum as sums

LENGTHS = st.integers(0, 20_000 * DAY)


def read(written: str) -> int:
    """The milliseconds that a length of time says, as a person adds them up."""
    found = re.fullmatch(r"(?:([\d,]+) h )?(?:(\d+) min )?(\d+)\.(\d{3}) s", written)
    assert found is not None, written
    hours, minutes, seconds, milli = (int((part or "0").replace(",", "")) for part in found.groups())
    return hours * HOUR + minutes * MINUTE + seconds * 1000 + milli


@given(LENGTHS, LENGTHS)
def test_what_is_written_adds_up(working: int, paused: int) -> None:
    """Nobody who adds the printed numbers finds a millisecond too much or too little."""
    assert read(sums.exact(working)) + read(sums.exact(paused)) == read(sums.exact(working + paused))


@given(st.lists(LENGTHS, max_size=50))
def test_full_seconds_add_up_down_a_column(parts: list[int]) -> None:
    """To those of the whole; each is the length itself, rounded down or up, and nothing stays nothing."""
    shown = sums.shared(parts, sum(parts))
    assert sum(shown) == sum(parts) // 1000 * 1000
    assert all(one % 1000 == 0 and abs(one - part) < 1000 for one, part in zip(shown, parts, strict=True))


@given(LENGTHS, LENGTHS)
def test_what_is_drawn_adds_up(working: int, paused: int) -> None:
    """The two lengths end to end are as long as the one under them."""
    root = ET.fromstring(str(sums.drawn(working, paused)))
    parts = {one.attrib["class"]: one.attrib for one in root}
    both = float(parts["working"]["width"]) + float(parts["paused"]["width"])
    assert abs(both - float(parts["elapsed"]["width"])) < 0.01
    assert float(parts["paused"]["x"]) == float(parts["working"]["width"])
    assert sums.exact(working + paused) in root.attrib["aria-label"]


@given(st.floats(allow_nan=False))
def test_a_bar_stays_in_its_cell(fraction: float) -> None:
    """Whatever it is given, from nothing to all."""
    (bar,) = ET.fromstring(str(sums.length(fraction)))
    assert 0 <= float(bar.attrib["width"].removesuffix("%")) <= 100


def test_lengths_are_written_as_people_write_them() -> None:
    """Short ones short, long ones with hours of any number."""
    assert sums.exact(0) == "0.000 s"
    assert sums.exact(5 * MINUTE + 7) == "5 min 00.007 s"
    assert sums.exact(1234 * HOUR + 4 * MINUTE + 31_120) == "1,234 h 04 min 31.120 s"
    assert sums.clocked(4 * HOUR + 12 * MINUTE + 31_999) == "4:12:31"
