"""Hours add up by scope, day, project and agent, across midnights and changes of the clock."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import view
from holdfast.core.canonical import canonical_json
from holdfast.core.envelope import Event, make_event
from holdfast.core.errors import Invalid
from holdfast.core.events import (
    TYPE_OF,
    AgentCompleted,
    AgentFailed,
    AgentRetried,
    AgentStarted,
    ContextMeasured,
    EventData,
    HillMoved,
    MessageExchanged,
    ProjectFacts,
    SessionCompleted,
    SessionPaused,
    SessionResumed,
    SessionStarted,
)
from holdfast.core.fold import fold
from holdfast.core.state import State
from holdfast.core.times import DAY, HOUR, MINUTE, parse_time
from holdfast.sessions.hours.table import AgentLine, Line, Table, by_midnight, table

BEGAN = parse_time("2026-10-05T22:00:00.000Z")
NOW = BEGAN + 10 * HOUR
SHOP = ProjectFacts(id="p1", name="shop", path="/a/shop")


def utc(_: int) -> timedelta:
    return timedelta(0)


def state(
    *steps: tuple[int, EventData],
    name: str = "1",
    at: int = BEGAN,
    project: ProjectFacts = SHOP,
    scope: str | None = "auth",
) -> State:
    """A session that starts at `at`; each step comes so many minutes after the start."""
    chain: list[Event] = []
    started = SessionStarted(goal="x", project=project, device="d", scope=scope)
    for number, (minutes, data) in enumerate(((0, started), *steps), start=1):
        kind = TYPE_OF[type(data)]
        chain.append(make_event(
            session=f"s{name}", writer="w1", seq=number, prev=chain[-1].hash if chain else None, clock=number,
            at=at + minutes * MINUTE, actor="ada", type=kind.name, version=kind.version,
            data=canonical_json(msgspec.to_builtins(data)), salt=bytes(16),
        ))  # fmt: skip
    return fold(chain)


def lines(hours_table: Table) -> dict[str | None, Line]:
    return {line.key: line for line in hours_table.lines if isinstance(line, Line)}


def busy(minutes: int) -> list[tuple[int, EventData]]:
    """Work without a gap."""
    return [(minute, MessageExchanged()) for minute in range(4, minutes + 1, 4)]


def test_session_over_midnight_is_split_at_midnight() -> None:
    """Work and pauses, to the millisecond."""
    worked = state(*busy(160), (160, SessionPaused()), (190, SessionCompleted(outcome="kept")))
    hours_table = table([worked], "day", now=NOW, offset=utc)
    first, second = lines(hours_table)["2026-10-05"], lines(hours_table)["2026-10-06"]
    assert (first.working_ms, first.paused_ms, first.kept) == (120 * MINUTE, 0, 0)
    assert (second.working_ms, second.paused_ms, second.kept) == (40 * MINUTE, 30 * MINUTE, 1)
    assert (first.sessions, second.sessions, hours_table.total.sessions) == (1, 1, 1)


def test_session_counts_only_on_days_on_which_it_began_or_was_worked_on() -> None:
    """Not on the days of a weekend in between."""
    worked = state(*busy(40), (3 * 24 * 60, MessageExchanged()), (3 * 24 * 60 + 4, SessionCompleted()))
    hours_table = lines(table([worked], "day", now=NOW, offset=utc))
    assert {day: line.sessions for day, line in hours_table.items()} == {
        "2026-10-05": 1, "2026-10-06": 0, "2026-10-07": 0, "2026-10-08": 1,
    }  # fmt: skip


def test_days_are_in_the_persons_time_zone() -> None:
    """Two hours ahead, the same session lies within one day."""
    worked = state(*busy(100), (100, SessionCompleted()))
    hours_table = table([worked], "day", now=NOW, offset=lambda _: timedelta(hours=2))
    assert list(lines(hours_table)) == ["2026-10-06"]


def test_day_of_a_clock_change_has_25_hours() -> None:
    """When clocks are set back."""
    change = parse_time("2026-10-25T01:00:00.000Z")  # Berlin goes from +2 to +1
    berlin = lambda ms: timedelta(hours=2 if ms < change else 1)  # noqa: E731
    start = parse_time("2026-10-24T12:00:00.000Z")
    pieces = list(by_midnight(start, start + 3 * DAY, berlin))
    assert [(b - a) // HOUR for a, b in pieces] == [10, 25, 24, 13]


def test_scope_lines_have_sessions_hours_outcomes_and_hill() -> None:
    """The hill is at its latest position in any session."""
    hours_table = table(
        [
            state(*busy(8), (8, HillMoved(scope="auth", position=7)), (8, SessionCompleted(outcome="kept"))),
            state(
                (1, HillMoved(scope="auth", position=3)), (1, SessionCompleted(outcome="discarded")), name="2",
                at=BEGAN - HOUR,
            ),
            state(
                (1, HillMoved(scope="ops", position=0)), (1, SessionCompleted()), name="3", scope=None,
                at=BEGAN - 2 * HOUR,
            ),
        ],
        "scope", now=NOW, offset=utc,
    )  # fmt: skip
    assert list(hours_table.lines) == [
        Line(key="auth", sessions=2, elapsed_ms=9 * MINUTE, working_ms=9 * MINUTE, kept=1, discarded=1, hill=7),
        Line(key=None, sessions=1, elapsed_ms=MINUTE, working_ms=MINUTE),
        Line(key="ops", hill=0),
    ]
    assert hours_table.total == Line(
        key=None, sessions=3, elapsed_ms=10 * MINUTE, working_ms=10 * MINUTE, kept=1, discarded=1
    )


def test_simultaneous_time_counts_for_the_session_of_the_latest_message() -> None:
    """The second session lies within the first, and the person writes in it."""
    one = state(*busy(40), (40, SessionCompleted()), scope="one")
    two = state(*busy(20), (20, SessionCompleted()), name="2", at=BEGAN + 10 * MINUTE, scope="two")
    messages_by_session = {"s1": [BEGAN, BEGAN + 32 * MINUTE], "s2": [BEGAN + 14 * MINUTE]}
    hours_table = table([one, two], "scope", now=NOW, offset=utc, messages=messages_by_session.__getitem__)
    worked = {key: line.working_ms // MINUTE for key, line in lines(hours_table).items()}
    # The second session owns its time from its start, which is later than the first one's message.
    assert worked == {"one": 20, "two": 20}
    assert hours_table.total == Line(key=None, sessions=2, elapsed_ms=40 * MINUTE, working_ms=40 * MINUTE)


def test_unfinished_session_counts_until_it_was_last_worked_on() -> None:
    """An open pause adds nothing, even after days."""
    hours_table = table([state(*busy(8))], "day", now=NOW + 20 * DAY, offset=utc)
    assert hours_table.total == Line(key=None, sessions=1, elapsed_ms=8 * MINUTE, working_ms=8 * MINUTE)
    assert len(hours_table.lines) == 1


def test_projects_with_one_name_have_separate_lines() -> None:
    """Distinguished by their paths."""
    other = ProjectFacts(id="p2", name="shop", path="/b/shop")
    hours_table = table(
        [state((1, SessionCompleted())), state((2, SessionCompleted()), name="2", project=other)],
        "project", now=NOW, offset=utc,
    )  # fmt: skip
    assert [line.key for line in hours_table.lines] == ["shop (/b/shop)", "shop (/a/shop)"]


def test_agent_lines_are_grouped_by_type() -> None:
    """Runs, time, tokens and failures; an open run counts up to now."""
    one = state(
        (0, AgentStarted(id="c1", type="coder")), (5, AgentFailed(id="c1", category="logical", message="x")),
        (6, AgentRetried(id="c1")), (8, AgentCompleted(id="c1", tokens=900)),
        (9, AgentStarted(id="c2", type="coder")), (9, ContextMeasured(tokens=50, agent="c2")),
    )  # fmt: skip
    two = state((0, AgentStarted(id="t1", type="tester")), (1, SessionCompleted()), name="2")
    hours_table = table([one, two], "agent", now=BEGAN + 10 * MINUTE, offset=utc)
    assert list(hours_table.lines) == [
        AgentLine(
            key="coder", agents=["c1", "c2"], sessions=1, runs=3, running_ms=8 * MINUTE, tokens=950, failures=1
        ),
        AgentLine(key="tester", agents=["t1"], sessions=1, runs=1, running_ms=MINUTE),
    ]
    assert isinstance(hours_table.total, AgentLine)
    assert (hours_table.total.runs, hours_table.total.running_ms, hours_table.total.sessions) == (4, 9 * MINUTE, 2)


def test_table_of_no_sessions_is_empty() -> None:
    """An unknown grouping is invalid."""
    for by in ("scope", "day", "project", "agent"):
        assert list(table([], by, now=NOW, offset=utc).lines) == []
    with pytest.raises(Invalid):
        table([], "moon", now=NOW, offset=utc)


steps = st.lists(
    st.tuples(
        st.integers(0, 4_000),
        st.sampled_from(
            [
                MessageExchanged(), SessionPaused(), SessionResumed(), AgentStarted(id="a", type="t"),
                AgentCompleted(id="a"), SessionCompleted(outcome="kept"),
            ]
        ),
    ), max_size=12,
)  # fmt: skip
sessions = st.lists(
    st.builds(
        lambda hours_table, late, scope: (hours_table, late, scope),
        steps, st.integers(0, 3 * DAY), st.sampled_from([None, "a", "b"]),
    ), max_size=4,
)  # fmt: skip


def worked_by_session(states: list[State], messages: dict[str, list[int]], now: int) -> dict[str, int]:
    """A model: each moment counts once, for the active session with the person's latest message."""
    spans: dict[str, list[tuple[int, int]]] = {}
    starts: dict[str, int] = {}
    for item in states:
        work, end = view.worktime(item, now), view.ended_at(item)
        stop = now if end is None else end
        starts[item.session] = stop - work.elapsed
        spans[item.session] = [(rest.since, rest.since + rest.length) for rest in work.pauses]
        spans[item.session] += [(-1, stop - work.elapsed), (stop, 10**15)]
    cuts = sorted(
        {edge for rests in spans.values() for rest in rests for edge in rest}.union(
            *messages.values(), starts.values()
        )
    )
    owned = dict.fromkeys(spans, 0)
    for low, high in pairwise(cuts):
        at_work = [
            name for name, rests in spans.items() if not any(since <= low and high <= until for since, until in rests)
        ]
        if at_work:
            latest = {name: max([starts[name], *(at for at in messages[name] if at <= low)]) for name in at_work}
            owned[max(at_work, key=lambda name: (latest[name], name))] += high - low
    return owned


@given(sessions, st.integers(0, 5 * DAY), st.integers(-14 * 60, 14 * 60), st.integers(-120, 120))
def test_every_table_adds_up(
    drawn: list[tuple[list[tuple[int, EventData]], int, str | None]], later: int, zone: int, change: int
) -> None:
    """In any zone, lines make the total, and working + paused = elapsed in each."""
    states = [
        state(*sorted(happened, key=lambda step: step[0]), name=str(number), at=BEGAN + late, scope=scope)
        for number, (happened, late, scope) in enumerate(drawn)
    ]
    now = BEGAN + later

    def offset(ms: int) -> timedelta:
        return timedelta(minutes=zone + (change if ms > BEGAN + DAY else 0))

    messages_by_session = {
        f"s{number}": sorted(
            at + minutes * MINUTE for minutes, data in happened if isinstance(data, MessageExchanged)
        )
        for number, (happened, at, _) in enumerate((happened, BEGAN + late, scope) for happened, late, scope in drawn)
    }
    expected = worked_by_session(states, messages_by_session, now)
    for by in ("scope", "day", "project"):
        hours_table = table(states, by, now=now, offset=offset, messages=messages_by_session.__getitem__)
        assert isinstance(hours_table.total, Line)
        rows = lines(hours_table).values()
        for name in ("elapsed_ms", "working_ms", "paused_ms", "kept", "discarded"):
            assert sum(getattr(row, name) for row in rows) == getattr(hours_table.total, name), (by, name)
        assert all(row.working_ms + row.paused_ms == row.elapsed_ms for row in rows)
        assert all(row.working_ms >= 0 and row.paused_ms >= 0 for row in rows)
        assert hours_table.total.working_ms == sum(expected.values())
        if by == "scope":
            by_scope = dict.fromkeys((scope for _, _, scope in drawn), 0)
            for number, (_, _, scope) in enumerate(drawn):
                by_scope[scope] += expected[f"s{number}"]
            assert {row.key: row.working_ms for row in rows} == by_scope
        assert hours_table.total.sessions == len(states)


@given(st.integers(0, 10**13), st.integers(0, 5 * DAY), st.integers(-900, 900), st.integers(-200, 200))
def test_pieces_of_a_stretch_are_adjacent(since: int, length: int, zone: int, change: int) -> None:
    """In any zone."""

    def offset(ms: int) -> timedelta:
        return timedelta(minutes=zone + (change if ms > since + length // 2 else 0))

    pieces = list(by_midnight(since, since + length, offset))
    edges = [since, *(b for _, b in pieces)]
    assert [a for a, _ in pieces] == edges[:-1]
    assert edges[-1] == since + length
    assert all(b - a <= 30 * HOUR for a, b in pieces)
