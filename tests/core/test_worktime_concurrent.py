"""Working time of devices that act unaware of each other: a pause stops only the devices that had seen it."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import agents, view
from holdfast.core.envelope import Event
from holdfast.core.events import (
    EVENT_TYPES,
    TYPE_OF,
    AgentCompleted,
    AgentStarted,
    ConflictResolved,
    EventData,
    MessageExchanged,
    SessionCompleted,
    SessionPaused,
    SessionResumed,
    SessionTimedOut,
    WorkRecorded,
)
from holdfast.core.fold import apply, fold, in_log_order
from holdfast.core.lifecycle import session_allows
from holdfast.core.registers import disputes
from holdfast.core.state import State, freeze, thaw
from holdfast.core.worktime import WorkTime
from tests.support.histories import MINUTE, NOON, SESSION, Device, joined, started, together

_IDLE = 5


def do(device: Device, minute: float, data: EventData, *, recorded: float | None = None) -> None:
    """Records the event at this minute; `recorded` is the minute of recording, if later."""
    device.now = NOON + int((minute if recorded is None else recorded) * MINUTE)
    device.record(data, at=NOON + int(minute * MINUTE))


def work(device: Device, since: int, until: int, step: int = 4) -> None:
    for minute in range(since, until + 1, step):
        do(device, minute, MessageExchanged())


def pauses_at(minute: float, *devices: Device) -> list[tuple[str, float, float | None]]:
    """Kind, beginning and end of each pause in minutes, from the events of all devices."""
    measured = view.worktime(fold(together(*devices)), NOON + int(minute * MINUTE))
    _lawful(measured)
    return [
        (rest.kind, (rest.since - NOON) / MINUTE, None if rest.until is None else (rest.until - NOON) / MINUTE)
        for rest in measured.pauses
    ]


def _lawful(measured: WorkTime) -> None:
    assert measured.working + measured.paused == measured.elapsed
    assert measured.paused == sum(rest.length for rest in measured.pauses)
    assert all(rest.since + rest.length <= two.since for rest, two in pairwise(measured.pauses))
    assert measured.working >= 0


# ── By example ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pause", "kind"), [(SessionPaused(reason="Lunch"), "manual"), (SessionTimedOut(), "timeout")]
)
def test_work_of_a_device_that_had_not_seen_the_pause_counts(pause: EventData, kind: str) -> None:
    """The pause may be a manual one or a timeout."""
    one = started()
    two = joined(one)
    do(one, 0.1, pause)
    work(two, 4, 28)
    assert pauses_at(30, one, two) == [(kind, 0.1, 4), (kind, 28, None)]
    assert view.status_of(fold(together(one, two))) == "paused"
    two.receive(one)
    work(two, 32, 40)
    assert pauses_at(45, one, two) == [(kind, 0.1, 4), (kind, 28, None)], "who knows of a pause works in it"
    do(two, 50, SessionResumed())
    assert pauses_at(50, one, two) == [(kind, 0.1, 4), (kind, 28, 50)]


def test_idle_gap_in_unaware_work_stays_a_pause() -> None:
    """Unaware: of a device that had not seen the pause."""
    one = started()
    two = joined(one)
    work(one, 0, 8)
    do(one, 10, SessionPaused())
    work(two, 12, 20)
    work(two, 40, 44)
    assert pauses_at(60, one, two) == [("manual", 10, 12), ("manual", 20, 40), ("manual", 44, None)]


def test_single_unaware_sign_is_not_work() -> None:
    """Work lasts from the first sign to the last."""
    one = started()
    two = joined(one)
    do(one, 1, SessionPaused())
    do(two, 3, MessageExchanged())
    assert pauses_at(10, one, two) == [("manual", 1, None)]


def test_own_pause_of_an_unaware_device_still_counts() -> None:
    """Although its signs before and after are close together."""
    one = started()
    two = joined(one)
    do(one, 1, SessionPaused(reason="One"))
    work(two, 4, 8)
    do(two, 10, SessionPaused(reason="Two"))
    do(two, 13, SessionResumed())
    work(two, 16, 24)
    assert pauses_at(24, one, two) == [("manual", 1, 4), ("manual", 10, 13)]
    reasons = [rest.reason for rest in view.worktime(fold(together(one, two)), NOON + 24 * MINUTE).pauses]
    assert reasons == ["One", "Two"]


def test_resume_counts_when_it_had_not_seen_the_others_new_pause() -> None:
    """The device was at work from then on."""
    one = started()
    do(one, 1, SessionPaused())
    two = joined(one)
    do(one, 3, SessionResumed())
    do(two, 5, SessionResumed())
    do(one, 6, SessionPaused(reason="Lunch"))
    work(two, 8, 24)
    assert pauses_at(30, one, two) == [("manual", 1, 3), ("manual", 6, 8), ("manual", 24, None)]


def test_pause_counts_although_a_concurrent_pause_replaced_the_resume_before_it() -> None:
    """Its writer had not seen the concurrent pause."""
    one = started()
    two, three = joined(one), joined(one, "w3", "phone")
    do(two, 0, SessionPaused(reason="Two"))
    do(two, 0, SessionResumed())
    do(three, 0, SessionPaused(reason="Three"))
    one.receive(two)
    do(one, 0, SessionPaused(reason="One"))
    two.receive(three)
    do(two, 0, SessionPaused(reason="Two again"))
    do(two, 1, MessageExchanged())
    assert pauses_at(7, one, two, three) == [("manual", 0, None)]
    assert [clash.field for clash in fold(together(one, two, three)).clashes] == []


@pytest.mark.parametrize("has_seen_pause", [False, True])
def test_short_agent_run_of_an_unaware_device_is_work(has_seen_pause: bool) -> None:
    """Also when the pause became known during the run."""
    one = started()
    two = joined(one)
    do(one, 1, SessionPaused())
    do(two, 2, AgentStarted(id="a1", type="t"))
    if has_seen_pause:
        two.receive(one)
    do(two, 10, AgentCompleted(id="a1"))
    assert pauses_at(20, one, two) == [("manual", 1, 2), ("manual", 10, None)]


def test_long_agent_run_of_an_unaware_device_is_a_task_pause() -> None:
    one = started()
    two = joined(one)
    do(one, 1, SessionPaused())
    do(two, 2, AgentStarted(id="a1", type="t"))
    do(two, 22, AgentCompleted(id="a1"))
    assert pauses_at(30, one, two) == [("manual", 1, 2), ("task", 2, 22), ("manual", 22, None)]


def test_agent_of_the_pausing_device_does_not_shorten_the_pause() -> None:
    """Not even a run without an end."""
    one = started()
    two = joined(one)
    do(one, 1, SessionPaused())
    do(one, 2, AgentStarted(id="a1", type="t"))
    do(one, 9, AgentCompleted(id="a1"))
    do(two, 3, AgentStarted(id="a2", type="t"))
    assert pauses_at(60, one, two) == [("manual", 1, None)]


def test_signs_of_two_unaware_devices_close_each_others_gaps() -> None:
    one = started()
    two, three = joined(one), joined(one, "w3", "phone")
    do(one, 1, SessionPaused())
    work(two, 2, 18, 8)
    work(three, 6, 14, 8)
    assert pauses_at(20, one, two, three) == [("manual", 1, 2), ("manual", 18, None)]
    assert pauses_at(20, one, two) == [("manual", 1, None)]


def test_pause_recorded_late_spares_work_that_had_not_seen_it() -> None:
    """Work before it in the log and after its beginning in time."""
    one = started()
    two = joined(one)
    work(two, 4, 12)
    do(one, 2, SessionPaused(), recorded=20)
    assert pauses_at(25, one, two) == [("manual", 2, 4), ("manual", 12, None)]
    one = started()
    two = joined(one)
    work(two, 4, 12)
    one.receive(two)
    do(one, 2, SessionPaused(), recorded=20)
    assert pauses_at(25, one, two) == [("manual", 2, None)]


def test_watched_work_of_an_unaware_device_counts() -> None:
    """It has no gaps, wherever it was recorded."""
    one = started()
    two = joined(one)
    do(one, 5, SessionPaused())
    do(two, 30, MessageExchanged())
    two.record(WorkRecorded(since=NOON + 2 * MINUTE, until=NOON + 28 * MINUTE))
    assert pauses_at(40, one, two) == [("manual", 30, None)]


def test_pause_is_open_again_at_the_last_unaware_sign() -> None:
    """With no length yet, so that status and time agree."""
    one = started()
    two = joined(one)
    do(one, 1, SessionPaused())
    work(two, 2, 10)
    assert pauses_at(10, one, two) == [("manual", 1, 2), ("manual", 10, None)]
    assert pauses_at(8, one, two) == [("manual", 1, 2)]


def test_work_concurrent_with_an_ending_counts_only_once_it_is_chosen() -> None:
    """Until then the session's time is that of its ending."""
    one = started()
    two = joined(one)
    work(two, 4, 28)
    do(one, 10, SessionCompleted())
    state = fold(together(one, two))
    assert view.worktime(state, NOON + 60 * MINUTE).elapsed == 10 * MINUTE
    (open_dispute,) = disputes(state)
    assert open_dispute.field == "status"
    ended, resumed = sorted(open_dispute.writes, key=lambda one: str(one.value))
    two.receive(one)
    do(two, 30, ConflictResolved(field="status", chosen=resumed.hash, overruled=(ended.hash,)))
    assert view.worktime(two.state(), NOON + 30 * MINUTE).working == 30 * MINUTE


# ── Laws ─────────────────────────────────────────────────────────────────────────────────────────────────


class Step(NamedTuple):
    who: int
    wait: int
    act: str
    other: int


_ACTS = ("sign", "sign", "sign", "pause", "resume", "hear", "timeout")
_AGENTS = ("start", "end")


def _steps(*acts: str) -> st.SearchStrategy[list[Step]]:
    step = st.builds(Step, st.integers(0, 2), st.integers(0, 6), st.sampled_from(acts), st.integers(0, 2))
    return st.lists(step, min_size=3, max_size=30)


def play(steps: list[Step]) -> list[Device]:
    """Runs the steps on three devices with one wall clock; each does what its own state allows."""
    first = started()
    devices = [first, joined(first), joined(first, "w3", "phone")]
    minute = 0
    for step in steps:
        minute += step.wait
        device = devices[step.who]
        data = _event_of(device, step)
        if step.act == "hear":
            device.receive(devices[step.other])
        elif data is not None and session_allows(view.status_of(device.state()), TYPE_OF[type(data)].name):
            do(device, minute, data)
    return devices


def _event_of(device: Device, step: Step) -> EventData | None:
    running = [agent for agent in agents.running(device.state()) if agent.writer == device.writer]
    match step.act:
        case "pause":
            return SessionPaused(reason=device.writer)
        case "resume" if view.status_of(device.state()) == "paused":
            return SessionResumed()
        case "timeout":
            return SessionTimedOut()
        case "sign":
            return MessageExchanged()
        case "start":
            return AgentStarted(id=f"{device.writer}-{len(device.known)}", type="t")
        case "end" if running:
            return AgentCompleted(id=running[0].id, ref=running[0].ref)
    return None


def _minutes(state: State, stop: int) -> list[str]:
    """The kind of each minute, from the start."""
    measured = view.worktime(state, NOON + stop * MINUTE)
    _lawful(measured)
    kinds = ["work"] * stop
    for rest in measured.pauses:
        for minute in range((rest.since - NOON) // MINUTE, (rest.since + rest.length - NOON) // MINUTE):
            kinds[minute] = "held" if rest.kind in ("manual", "timeout") else rest.kind
    return kinds


def _minute(event: Event) -> int:
    return (event.at - NOON) // MINUTE


@given(_steps(*_ACTS))
def test_every_minute_matches_a_slow_model(steps: list[Step]) -> None:
    """It uses the exact knowledge of every device."""
    devices = play(steps)
    events = in_log_order(together(*devices))
    past = {name: known for device in devices for name, known in device.past.items()}
    stop = max(_minute(event) for event in events) + 7
    signs = sorted({_minute(event) for event in events if EVENT_TYPES[event.type].is_activity})
    expected = []
    for minute in range(stop):
        quiet = [low for low in [0, *signs] if low <= minute][-1], next((s for s in signs if s > minute), stop)
        idle = quiet[1] - quiet[0] > _IDLE
        expected.append("held" if _is_paused(events, past, minute) else "idle" if idle else "work")
    assert _minutes(fold(events), stop) == expected


def _is_paused(events: list[Event], past: dict[str, frozenset[str]], minute: int) -> bool:
    """Is there a pause in this minute that no unaware work suspends?"""
    for place, pause in enumerate(events):
        if pause.type not in ("session.paused", "session.timed_out") or _minute(pause) > minute:
            continue
        ends = [_minute(event) for event in events[place:] if event.type == "session.resumed"]
        if ends and ends[0] <= minute:
            continue
        unaware = [
            _minute(event)
            for event in events
            if EVENT_TYPES[event.type].is_activity
            and event.writer != pause.writer
            and pause.hash not in past[event.hash]
            and event.hash not in past[pause.hash]
            and event.at >= pause.at
        ]
        before, later = [s for s in unaware if s <= minute], [s for s in unaware if s > minute]
        if not before or not later or min(later) - max(before) > _IDLE:
            return True
    return False


@given(_steps(*_ACTS, *_AGENTS))
def test_work_between_two_signs_stays_work_after_merging(steps: list[Step]) -> None:
    """Unless a long agent run covers it."""
    devices = play(steps)
    everything = together(*devices)
    by_name = {event.hash: event for event in everything}
    stop = max(_minute(event) for event in everything) + 1
    merged = _minutes(fold(everything), stop)
    past = {name: known for device in devices for name, known in device.past.items()}
    pauses = [event for event in everything if event.type in ("session.paused", "session.timed_out")]
    for device in devices:
        own = [e for e in device.known.values() if e.writer == device.writer and EVENT_TYPES[e.type].is_activity]
        for item, two in pairwise(sorted(own, key=lambda event: event.seq)):
            known = fold([*(by_name[name] for name in device.past[two.hash]), two])
            alone = _minutes(known, _minute(two))
            for minute in range(_minute(item), _minute(two)):
                # A pause that began after the first sign, or whose writer had seen it, lasts until the second.
                disturbed = any(
                    _minute(pause) <= minute and (_minute(item) < _minute(pause) or item.hash in past[pause.hash])
                    for pause in pauses
                )
                is_short = _minute(two) - _minute(item) <= _IDLE
                if alone[minute] == "work" and is_short and not disturbed:
                    assert merged[minute] in ("work", "task")


@given(_steps(*_ACTS, *_AGENTS), st.randoms(use_true_random=False))
def test_fold_of_concurrent_work_ignores_the_order_of_arrival(steps: list[Step], chance: random.Random) -> None:
    """Shuffled, or one by one through snapshots; at every minute the times add up."""
    events = together(*play(steps))
    state = fold(events)
    shuffled = events.copy()
    chance.shuffle(shuffled)
    assert freeze(fold(shuffled)) == freeze(state)
    grown = State(session=SESSION)
    for event in in_log_order(events):
        apply(grown, event)
        grown = thaw(freeze(grown))
    assert freeze(grown) == freeze(state)
    for minute in range(max(_minute(event) for event in events) + 12):
        _lawful(view.worktime(state, NOON + minute * MINUTE))


@given(_steps(*_ACTS, *_AGENTS))
def test_status_is_paused_exactly_while_a_pause_is_open(steps: list[Step]) -> None:
    """Also as of the last event."""
    state = fold(together(*play(steps)))
    for now in (state.updated_at, state.updated_at + 1):
        lasting = {rest.kind for rest in view.worktime(state, now).pauses if rest.until is None}
        assert bool(lasting & {"manual", "timeout"}) == (view.status_of(state) == "paused")
