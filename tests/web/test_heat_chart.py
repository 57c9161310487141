"""The calendar of hours, and durations in tables."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise
from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import Markup

from holdfast.core.times import DAY, HOUR, MINUTE, format_duration
from holdfast.web.charts import heat
from holdfast.web.pages.hours import _whole_seconds
from holdfast.web.render import clocked, table_bar

SVG = "{http://www.w3.org/2000/svg}"
WORKED = st.builds(
    heat.WorkedDay,
    working_ms=st.integers(0, 40 * DAY),
    sessions=st.integers(1, 5_000),
)
TODAYS = st.dates(date(1990, 1, 1), date(2200, 1, 1))


def parsed(markup: Markup) -> ET.Element:
    return ET.fromstring(str(markup).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


def squares(drawn: heat.Calendar) -> dict[date, ET.Element]:
    days_drawn = [*parsed(drawn.past).iter(f"{SVG}rect"), *parsed(drawn.this_week).iter(f"{SVG}rect")]
    return {date.fromisoformat(element.attrib["data-day"]): element for element in days_drawn}


def words(square: ET.Element) -> str:
    title = square.find(f"{SVG}title")
    assert title is not None
    return title.text or ""


@settings(max_examples=15)
@given(TODAYS, st.data())
def test_every_day_has_a_labelled_square_inside_the_chart(today: date, data: st.DataObject) -> None:
    """53 weeks from a Monday, today the last and the only marked one."""
    first = heat.first_day(today)
    reach = st.integers(-30, (today - first).days + 30).map(lambda number: first + timedelta(days=number))
    days = data.draw(st.dictionaries(reach, WORKED, max_size=40))
    drawn = heat.calendar(days, today)
    days_drawn = squares(drawn)
    assert first.weekday() == 0
    assert sorted(days_drawn) == [first + timedelta(days=number) for number in range((today - first).days + 1)]
    assert (today - first).days // 7 == heat.WEEKS - 1
    for day, element in days_drawn.items():
        assert words(element).removesuffix(" (today)") == heat.day_text(day, days.get(day))
        assert ("today" in element.attrib["class"]) == (day == today) == (element.attrib["tabindex"] == "0")
        worked = days.get(day)
        assert element.attrib["class"].startswith("s0") == (worked is None or worked.working_ms == 0)
    for part in (drawn.past, drawn.this_week):
        root = parsed(part)
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        for element in root.iter(f"{SVG}rect"):
            assert 0 <= float(element.attrib["x"]) <= width - 11
            assert 0 <= float(element.attrib["y"]) <= height - 11
        for text in root.iter(f"{SVG}text"):
            assert 0 <= float(text.attrib["x"]) <= width - 20


@settings(max_examples=15)
@given(st.lists(st.integers(0, 40 * DAY), max_size=50))
def test_more_work_is_never_a_lighter_shade(amounts: list[int]) -> None:
    """Five shades keep the order of worked time, and most days do not share the last one."""
    today = date(2026, 11, 15)
    days = {today - timedelta(days=n): heat.WorkedDay(ms, 1) for n, ms in enumerate(amounts)}
    days_drawn = squares(heat.calendar(days, today))
    steps = sorted((worked.working_ms, int(days_drawn[day].attrib["class"][1])) for day, worked in days.items())
    assert [step for _, step in steps] == sorted(step for _, step in steps)


def test_day_is_described_in_words() -> None:
    """In the tooltip of its square."""
    worked = heat.WorkedDay(4 * HOUR + 12 * MINUTE, 3)
    assert heat.day_text(date(2026, 11, 3), worked) == "Tue 3 Nov 2026: 4 h 12 min worked, 3 sessions"
    assert heat.day_text(date(2026, 11, 7), heat.WorkedDay(0, 1)) == "Sat 7 Nov 2026: nothing"
    assert heat.day_text(date(2026, 11, 4), None) == "Wed 4 Nov 2026: nothing"
    assert format_duration(worked.working_ms) in heat.day_text(date(2026, 11, 3), worked)


def test_each_month_is_named_once_without_overlap() -> None:
    """At least three weeks apart."""
    for number in range(0, 400, 5):
        root = parsed(heat.calendar({}, date(2026, 1, 1) + timedelta(days=number)).past)
        at = [float(element.attrib["x"]) for element in root.iter(f"{SVG}text") if element.attrib["y"] == "9"]
        assert len(at) >= 11
        assert all(right - left >= 3 * 14 for left, right in pairwise(at))


# ── durations in tables ──────────────────────────────────────────────────────────────────────────────────

LENGTHS = st.integers(0, 20_000 * DAY)


@given(st.lists(LENGTHS, max_size=50))
def test_rounded_seconds_add_up_to_the_total(parts: list[int]) -> None:
    """Each is rounded up or down, and zero stays zero."""
    shown = _whole_seconds(parts, sum(parts))
    assert sum(shown) == sum(parts) // 1000 * 1000
    assert all(item % 1000 == 0 and abs(item - part) < 1000 for item, part in zip(shown, parts, strict=True))


@given(st.floats(allow_nan=False))
def test_bar_stays_in_its_cell(fraction: float) -> None:
    """For any share."""
    (bar,) = ET.fromstring(str(table_bar(fraction)))
    assert 0 <= float(bar.attrib["width"].removesuffix("%")) <= 100


def test_durations_are_written_in_hours_minutes_and_seconds() -> None:
    assert clocked(4 * HOUR + 12 * MINUTE + 31_999) == "4:12:31"
    assert clocked(1234 * HOUR) == "1,234:00:00"
