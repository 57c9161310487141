"""Charts over time: for any session the drawing is well-formed, within its bounds, and escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.times import DAY, EARLIEST, HOUR, LATEST, MINUTE
from holdfast.web.charts import gantt, strip
from holdfast.web.charts.axis import Axis, Offset, Period, quiet
from holdfast.web.charts.gantt import GanttLane
from holdfast.web.charts.strip import StripPause

START = 1_795_000_000_000
_HOSTILE = st.sampled_from(
    ["<script>x</script>", "\"'><svg onload=x>", "a\x00\x1b[31m\u202eb", "]]>&amp;&", "\ud800"]
)
_WORDS = st.text(max_size=30) | _HOSTILE
_MOMENTS = st.integers(START - DAY, START + 40 * DAY) | st.integers(EARLIEST, LATEST)
_STATUSES = st.sampled_from([*gantt.FORMS, "<odd>"])


@st.composite
def _lanes(draw: st.DrawFn) -> GanttLane:
    times = sorted(draw(st.lists(_MOMENTS, max_size=8)))
    runs: list[tuple[int, int | None]] = list(zip(times[::2], times[1::2], strict=False))
    if len(times) % 2:
        runs.append((times[-1], None))
    failed = tuple(until for _, until in runs if until is not None and draw(st.booleans()))
    return GanttLane(draw(_WORDS), draw(_WORDS), draw(_STATUSES), tuple(runs), failed)


@st.composite
def _pauses(draw: st.DrawFn) -> StripPause:
    since = draw(_MOMENTS)
    return StripPause(
        draw(st.sampled_from([*strip.KINDS, "odd"])),
        draw(st.none() | _WORDS),
        since,
        draw(st.none() | st.integers(0, 3 * DAY).map(lambda length: since + length)),
    )


_PERIODS = st.builds(
    lambda since, length, live: Period.of(since, since + length, live=live),
    _MOMENTS,
    st.integers(0, 60 * DAY) | st.integers(0, 3 * MINUTE) | st.integers(0, LATEST),
    st.booleans(),
)


def _zone(minutes: int) -> Offset:
    return lambda _: timedelta(minutes=minutes)


_OFFSETS = st.integers(-14 * 60, 14 * 60).map(_zone)


def _axis(period: Period, lanes: list[GanttLane], pauses: list[StripPause]) -> Axis:
    spans = [(pause.since, period.end if pause.until is None else pause.until) for pause in pauses]
    return Axis(period, quiet(spans, gantt.busy(lanes, period.end)))


def _parse_within(drawing: str) -> None:
    """Parse well-formed XML, with every coordinate within the edges."""
    top = ET.fromstring(drawing)
    height = float(top.attrib["height"])
    for element in top.iter():
        left = _share(element.attrib.get("x", "0%"))
        assert 0 <= left <= 100
        assert left + _share(element.attrib.get("width", "0%")) <= 100.001 or element is top
        for name in ("x1", "x2"):
            assert 0 <= _share(element.attrib.get(name, "0%")) <= 100
        low = float(element.attrib.get("y", 0))
        assert 0 <= low <= height
        assert low + float(element.attrib.get("height", 0)) <= height or element is top
        for name in ("y1", "y2"):
            assert 0 <= float(element.attrib.get(name, 0)) <= height
        assert element.tag in ("svg", "g", "rect", "line", "text", "title")
        assert not any(name.startswith("on") or name == "style" for name in element.attrib)


def _share(written: str) -> float:
    assert written.endswith("%")
    return float(written[:-1])


def _texts(drawing: str) -> Iterator[str]:
    for element in ET.fromstring(drawing).iter():
        yield element.text or ""


@given(st.lists(_lanes(), max_size=12), st.lists(_pauses(), max_size=8), _PERIODS, _OFFSETS)
def test_agents_chart_of_any_session_is_well_formed_and_within_bounds(
    lanes: list[GanttLane], pauses: list[StripPause], period: Period, offset: Offset
) -> None:
    """For any ids, tasks, times and statuses, in any zone; nothing unescaped."""
    drawn = gantt.chart(lanes, _axis(period, lanes, pauses), offset)
    _parse_within(str(drawn.drawing))
    assert len(drawn.names) == len(lanes)
    assert all(text.isprintable() for text in _texts(drawn.drawing))


@given(st.lists(_pauses(), max_size=12), _PERIODS, _OFFSETS)
def test_time_strip_of_any_session_is_well_formed_and_within_bounds(
    pauses: list[StripPause], period: Period, offset: Offset
) -> None:
    """For any pauses: open, overlapping or outside."""
    drawn = strip.chart(pauses, _axis(period, [], pauses), offset)
    _parse_within(str(drawn))
    assert all(text.isprintable() for text in _texts(drawn))


@given(_PERIODS, st.lists(_pauses(), max_size=8), st.lists(st.integers(0, 10**6), min_size=2, max_size=20))
def test_axis_keeps_the_order_of_moments(period: Period, pauses: list[StripPause], shares: list[int]) -> None:
    """With or without folds, from edge to edge."""
    axis = _axis(period, [], pauses)
    length = period.until - period.since
    places = [axis.x(period.since + length * share // 10**6) for share in sorted(shares)]
    assert places == sorted(places)
    assert axis.x(period.since) == 0
    assert axis.x(period.until) == 100


@given(st.integers(0, 40 * DAY), st.integers(0, 10_000))
def test_chart_of_an_open_session_changes_in_steps(length: int, later: int) -> None:
    """Of a four-hundredth, with room for what follows."""
    one, two = (Period.of(START, START + length + more, live=True) for more in (0, later))
    assert one.now is not None
    assert one.now >= START + length
    assert one.until > one.now
    if later * 500 < length and one.now == two.now:
        assert one == two
    assert len({Period.of(START, START + 10 * HOUR + ms, live=True) for ms in range(0, 60_000, 500)}) <= 2


def test_night_is_folded_so_that_work_stays_visible() -> None:
    """On a day with a night in it, the two hours of work take most of the width."""
    night = StripPause("manual", "night", START + HOUR, START + 15 * HOUR)
    period = Period.of(START, START + 16 * HOUR, live=False)
    axis = _axis(period, [], [night])
    assert axis.folds == [(night.since, night.until)]
    assert axis.x(START + HOUR) > 45
    assert axis.x(START + 15 * HOUR) < 55
    assert "without activity" in strip.chart([night], axis, lambda _: timedelta())


def test_night_with_a_working_agent_is_not_folded() -> None:
    night = StripPause("manual", "night", START + HOUR, START + 15 * HOUR)
    lane = GanttLane("a", "b", "completed", ((START + HOUR, START + 15 * HOUR),))
    assert _axis(Period.of(START, START + 16 * HOUR, live=False), [lane], [night]).folds == []


def test_each_status_has_its_own_shape_or_sign() -> None:
    """Statuses can be distinguished without colours."""
    forms = {gantt.FORMS[status] for status in ("running", "completed", "error", "paused", "gone")}
    assert len({form for form, _ in forms}) == len({sign for _, sign in forms}) == 5
    lanes = [
        GanttLane(status, "", status, ((START, None if status == "running" else START + HOUR),))
        for status in gantt.FORMS
    ]
    drawn = gantt.chart(lanes, Axis(Period.of(START, START + 2 * HOUR, live=True)), lambda _: timedelta())
    assert 'fill="url(#stripes)"' in drawn.drawing
    assert drawn.drawing.count("now-line") == 1


def test_agents_that_are_not_drawn_are_counted() -> None:
    """Working and latest agents are drawn, and one line counts the rest."""
    lanes = [
        GanttLane(f"a{n}", "", "running" if n == 3 else "completed", ((START + n, START + n + 1),))
        for n in range(250)
    ]
    drawn = gantt.chart(lanes, Axis(Period.of(START, START + HOUR, live=False)), lambda _: timedelta(), max_drawn=50)
    assert [lane.label for lane in drawn.names] == ["a3", *(f"a{n}" for n in range(201, 250))]
    assert drawn.left_out == "and 200 more agents: 200 completed"
    assert len(re.findall("<g ", drawn.drawing)) == 50


def test_strip_draws_the_longest_of_a_thousand_pauses() -> None:
    """And always an open one."""
    pauses = [StripPause("idle", None, START + n * HOUR, START + n * HOUR + n + 1) for n in range(1000)]
    pauses.append(StripPause("manual", None, START + 1001 * HOUR, None))
    kept = strip.drawn_pauses(pauses)
    assert len(kept) == strip.MAX_DRAWN
    assert kept[-1] is pauses[-1]
    assert list(kept) == sorted(kept, key=lambda one: one.since)
