"""Working + paused = elapsed, exactly and always; and each rule by example."""

from __future__ import annotations

import random
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import reminders, view
from holdfast.core.activity import add_activity, add_attended
from holdfast.core.events import (
    AgentAborted,
    AgentCompleted,
    AgentFailed,
    AgentInterrupted,
    AgentPaused,
    AgentProgressed,
    AgentResumed,
    AgentRetried,
    AgentStarted,
    AwayRecorded,
    CommandRan,
    ContextMeasured,
    DecisionMade,
    EventData,
    FileChanged,
    MessageExchanged,
    NoteAdded,
    ReminderReached,
    SessionAborted,
    SessionArchived,
    SessionCompleted,
    SessionPaused,
    SessionResumed,
    SessionTimedOut,
    TaskAdded,
    TimerRules,
    WorkedRecorded,
    WorkRecorded,
)
from holdfast.core.fold import fold
from holdfast.core.model import Time
from holdfast.core.reminders import LimitRule
from holdfast.core.state import AgentRun, PauseMark, State, TimeState
from holdfast.core.worktime import ForegroundRun, WorkPause, WorkTime, measure
from tests.support.histories import (
    MINUTE,
    NOON,
    SESSION,
    Device,
    History,
    histories,
    joined,
    started,
    together,
)

START = NOON


def lawful(work: WorkTime, start: int) -> None:
    """The laws of every result."""
    assert work.working + work.paused == work.elapsed
    assert work.elapsed >= 0
    assert work.working >= 0
    assert work.paused == sum(rest.length for rest in work.pauses)
    end = start + work.elapsed
    reached = start
    for rest in work.pauses:
        assert start <= rest.since <= end
        assert rest.since >= reached, "pauses overlap or are out of order"
        reached = rest.since + rest.length
        assert reached <= end
        assert rest.until is None or rest.until == reached
        assert rest.until is not None or reached == end, "only a pause that lasts to the end is open"
        assert rest.length > 0 or rest.until is None
    assert sum(rest.until is None for rest in work.pauses) <= 1


# ── Laws ─────────────────────────────────────────────────────────────────────────────────────────────────

_moment = st.integers(-5, 60)
_threshold = st.integers(-2, 20)
_mark = st.builds(
    PauseMark, _moment, st.sampled_from(["manual", "timeout", "resumed", "resumed", "away", "worked"]), st.none(),
    st.none() | _moment,
)  # fmt: skip
_stretch = st.builds(ForegroundRun, _moment, st.none() | _moment, st.just("agent"))


@st.composite
def times(draw: st.DrawFn) -> TimeState:
    time = TimeState(timer=TimerRules(idle=draw(_threshold), task=draw(_threshold)), start=draw(st.integers(-3, 10)))
    for at in draw(st.lists(_moment, max_size=12)):
        add_activity(time, at)
    time.marks = draw(st.lists(_mark, max_size=8))
    return time


_cuts = st.lists(_moment, max_size=6)


@given(times(), _cuts, st.lists(_stretch, max_size=4), st.none() | _moment, _moment)
def test_work_time_of_any_input_adds_up(
    time: TimeState, cuts: list[int], stretches: list[ForegroundRun], end: int | None, now: int
) -> None:
    """Any signs, marks, agents and thresholds, however contradictory; pauses never overlap."""
    for cut in cuts:
        add_attended(time, cut, cut)
    lawful(measure(time, stretches, end=end, now=now), time.start)


@given(times(), _cuts, st.lists(_stretch, max_size=4), st.none() | _moment, _moment)
def test_every_millisecond_is_classified_by_the_strongest_cause(
    time: TimeState, cuts: list[int], stretches: list[ForegroundRun], end: int | None, now: int
) -> None:
    """A slow second implementation, one millisecond at a time, computes the same pauses."""
    time.timer = TimerRules(idle=max(time.timer.idle, 0), task=max(time.timer.task, 0))
    for cut in cuts:
        add_attended(time, cut, cut)
    signs = {point for run in time.active for point in (run.since, run.until) if point is not None}
    stop = max(time.start, now if end is None else end)
    work = measure(time, stretches, end=end, now=now)
    computed = {}
    for rest in work.pauses:
        for ms in range(rest.since, rest.since + rest.length):
            computed[ms] = "explicit" if rest.kind in ("manual", "timeout") else rest.kind
    runs = [(run.since, stop if run.until is None else min(run.until, stop)) for run in stretches]
    runs = [(since, until) for since, until in runs if since < until]
    for ms in range(time.start, stop):
        assert computed.get(ms, "working") == _slowly(time, runs, signs, cuts, ms, stop), ms


def _slowly(
    time: TimeState, runs: list[tuple[int, int]], signs: set[int], cuts: list[int], ms: int, stop: int
) -> str:
    corrections = [mark.kind for mark in time.marks if mark.until is not None and mark.at <= ms < mark.until]
    if [kind for kind in corrections if kind in ("away", "worked")][-1:] == ["worked"]:
        return "working"  # the latest correction of this moment
    paused: int | None = None
    spans: list[tuple[int, int]] = []
    for mark in time.marks:
        if mark.kind == "worked":
            continue
        if mark.kind == "away":
            spans.append((mark.at, mark.at if mark.until is None else mark.until))
        elif mark.kind == "resumed":
            spans.append((mark.at if paused is None else paused, mark.at))
            paused = None
        elif paused is None:
            paused = mark.at
    spans.append((stop if paused is None else paused, stop))
    if any(low <= ms < high for low, high in spans):
        return "explicit"
    for low, high in runs:
        if low <= ms < high:
            begins = max([low, *(cut for cut in cuts if low < cut <= ms)])
            ends = min([high, *(cut for cut in cuts if ms < cut < high)])
            if ends - begins > time.timer.task:
                return "task"
    if any(low <= ms < high for low, high in runs):
        return "working"
    inside = any(run.since <= ms < (run.since if run.until is None else run.until) for run in time.active)
    if inside:
        return "working"
    # The silence around this moment: back and forth to the nearest sign or run.
    low = max([time.start, *(sign for sign in signs if sign <= ms), *(high for _, high in runs if high <= ms)])
    high = min([stop, *(sign for sign in signs if sign > ms), *(low for low, high in runs if high > low > ms)])
    gap_low = max([time.start, *(sign for sign in signs if sign <= ms)])
    gap_high = min([stop, *(sign for sign in signs if sign > ms)])
    return "idle" if high - low > time.timer.idle and gap_high - gap_low > time.timer.idle else "working"


@given(st.lists(_moment, max_size=15), _threshold, st.randoms(use_true_random=False))
def test_activity_does_not_depend_on_the_order_of_signs(signs: list[int], idle: int, chance: random.Random) -> None:
    """However late a sign arrives."""

    def stretches(order: list[int]) -> TimeState:
        time = TimeState(timer=TimerRules(idle=idle))
        for at in order:
            add_activity(time, at)
        return time

    shuffled = signs.copy()
    chance.shuffle(shuffled)
    assert stretches(shuffled) == stretches(sorted(set(signs)))
    active = stretches(shuffled).active
    assert all(run.until is not None and two.since - run.until > idle for run, two in pairwise(active))


def test_activity_may_end_at_the_epoch() -> None:
    time = TimeState(timer=TimerRules(idle=3))
    for sign in (-3, 0, 3):
        add_activity(time, sign)
    assert time.active == [AgentRun(-3, 3)]


@given(histories(), st.integers(-(10**13), 10**13), _threshold, _threshold)
def test_work_time_of_any_history_adds_up(history: History, later: int, idle: int, task: int) -> None:
    """Whoever recorded it, with whatever clocks and thresholds."""
    state = fold(history.events)
    for timer in (state.time.timer, TimerRules(idle=idle * MINUTE, task=task * MINUTE)):
        state.time.timer = timer
        for now in (NOON + later, state.updated_at):
            work = view.worktime(state, now)
            start = state.time.start
            if state.created_at is None:
                start = state.time.active[0].since if state.time.active else state.updated_at
            lawful(work, start)


@given(histories(hostile=False))
def test_status_is_paused_exactly_while_a_manual_pause_or_timeout_is_open(history: History) -> None:
    if any(event.type == "conflict.resolved" for event in history.events):
        return
    state = fold(history.events)
    now = max(event.at for event in history.events) + 1
    lasting = {rest.kind for rest in view.worktime(state, now).pauses if rest.until is None}
    if view.status_of(state) == "paused":
        assert lasting & {"manual", "timeout"}
    if view.status_of(state) == "in_progress":
        assert not lasting & {"manual", "timeout"}


# ── The rules by example ────────────────────────────────────────────────────────────────────────────────────


def at(device: Device, ms: int) -> Time:
    """The session's time as everybody sees it, `ms` after its start."""
    return view.session(device.state(), START + ms).time


def pauses_at(device: Device, ms: int) -> list[tuple[str, int, int | None]]:
    """Kind, beginning and length of each pause, from the start; the length is None while it lasts."""
    work = view.worktime(device.state(), START + ms)
    lawful(work, START)
    return [(rest.kind, rest.since - START, None if rest.until is None else rest.length) for rest in work.pauses]


def after(device: Device, ms: int, data: EventData) -> None:
    device.now = START + ms
    device.record(data)


def test_default_thresholds_can_be_changed() -> None:
    """Idle 5 minutes, a task agent 10, reminders at 40, 60 and 90."""
    assert msgspec.to_builtins(TimerRules()) == {}
    assert (TimerRules().idle, TimerRules().task) == (5 * MINUTE, 10 * MINUTE)
    assert (TimerRules().break_40, TimerRules().warning_60, TimerRules().timeout_90) == (
        40 * MINUTE,
        60 * MINUTE,
        90 * MINUTE,
    )
    device = started(timer=TimerRules(idle=MINUTE))
    after(device, 2 * MINUTE, MessageExchanged())
    assert pauses_at(device, 2 * MINUTE) == [("idle", 0, 2 * MINUTE)]


def test_gap_of_exactly_the_idle_threshold_is_work() -> None:
    """5 minutes are work, 1 ms more is idle."""
    device = started()
    after(device, 5 * MINUTE, MessageExchanged())
    assert pauses_at(device, 5 * MINUTE) == []
    device = started()
    after(device, 5 * MINUTE + 1, MessageExchanged())
    assert pauses_at(device, 5 * MINUTE + 1) == [("idle", 0, 5 * MINUTE + 1)]


@pytest.mark.parametrize(
    "data",
    [
        MessageExchanged(role="user"), MessageExchanged(role="assistant"), SessionResumed(), NoteAdded(text="n"),
        TaskAdded(id="t1", text="t"), DecisionMade(chosen="c"), FileChanged(path="a", action="created"),
        ContextMeasured(tokens=1), CommandRan(command="make", code=0),
        AgentStarted(id="a", type="t", background=True), AgentProgressed(id="a", progress=0.5),
    ],
    ids=lambda data: type(data).__name__,
)  # fmt: skip
def test_activity_keeps_the_session_from_being_idle(data: EventData) -> None:
    """Messages, and everything a person or an agent records."""
    device = started()
    after(device, 4 * MINUTE, data)
    after(device, 8 * MINUTE, MessageExchanged())
    assert pauses_at(device, 8 * MINUTE) == []


@pytest.mark.parametrize("data", [SessionArchived(), ReminderReached(line="break_40")])
def test_derived_events_and_archiving_are_not_activity(data: EventData) -> None:
    device = started()
    after(device, 4 * MINUTE, data)
    after(device, 8 * MINUTE, MessageExchanged())
    assert pauses_at(device, 8 * MINUTE) == [("idle", 0, 8 * MINUTE)]


def test_idle_gap_is_one_pause_between_its_signs() -> None:
    """Afterwards the session is in progress again."""
    device = started()
    after(device, 2 * MINUTE, MessageExchanged())
    after(device, 22 * MINUTE, MessageExchanged())
    after(device, 24 * MINUTE, MessageExchanged())
    assert pauses_at(device, 24 * MINUTE) == [("idle", 2 * MINUTE, 20 * MINUTE)]
    time = at(device, 24 * MINUTE)
    assert (time.elapsed_ms, time.working_ms, time.paused_ms) == (24 * MINUTE, 4 * MINUTE, 20 * MINUTE)
    assert view.session(device.state(), START + 24 * MINUTE).status == "in_progress"


def test_idle_pause_is_open_since_the_last_activity() -> None:
    """Once the threshold has passed; a millisecond before, there is none."""
    device = started()
    after(device, 2 * MINUTE, MessageExchanged())
    assert at(device, 7 * MINUTE).idle_since is None
    assert pauses_at(device, 7 * MINUTE) == []
    assert view.session(device.state(), START + 7 * MINUTE).status == "in_progress"
    assert view.session(device.state(), START + 7 * MINUTE + 1).status == "paused"
    time = at(device, 7 * MINUTE + 1)
    assert time.idle_since == "2026-11-15T12:02:00.000Z"
    (pause,) = time.pauses
    assert (pause.kind, pause.started_at, pause.ended_at, pause.duration_ms) == (
        "idle",
        "2026-11-15T12:02:00.000Z",
        None,
        5 * MINUTE + 1,
    )


def test_idle_pause_is_counted_once_however_often_it_is_computed() -> None:
    device = started()
    for minute in range(6, 20):
        assert pauses_at(device, minute * MINUTE) == [("idle", 0, None)]
    after(device, 20 * MINUTE, MessageExchanged())
    assert pauses_at(device, 20 * MINUTE) == [("idle", 0, 20 * MINUTE)]
    assert at(device, 20 * MINUTE).working_ms == 0


def test_late_sign_divides_an_idle_gap() -> None:
    """As from a hook that is drained late."""
    device = started()
    after(device, 8 * MINUTE, MessageExchanged())
    assert pauses_at(device, 8 * MINUTE) == [("idle", 0, 8 * MINUTE)]
    device.record(MessageExchanged(), at=START + 4 * MINUTE)
    assert pauses_at(device, 8 * MINUTE) == []


def test_agent_run_of_exactly_the_task_threshold_is_work() -> None:
    """10 minutes are work; with 1 ms more the whole run is one task pause."""
    device = started()
    after(device, MINUTE, AgentStarted(id="a1", type="coder", task="Build"))
    after(device, 11 * MINUTE, AgentCompleted(id="a1"))
    assert pauses_at(device, 11 * MINUTE) == []
    device = started()
    after(device, MINUTE, AgentStarted(id="a1", type="coder", task="Build"))
    after(device, 11 * MINUTE + 1, AgentCompleted(id="a1"))
    assert pauses_at(device, 11 * MINUTE + 1) == [("task", MINUTE, 10 * MINUTE + 1)]
    (pause,) = at(device, 11 * MINUTE + 1).pauses
    assert pause.reason == "Agent at work: Build"


@pytest.mark.parametrize(
    "end", [AgentFailed(id="a1", category="logical", message="m"), AgentAborted(id="a1"), AgentPaused(id="a1")]
)
def test_task_pause_covers_the_run_however_it_ended(end: EventData) -> None:
    device = started()
    after(device, 0, AgentStarted(id="a1", type="t"))
    after(device, 12 * MINUTE, end)
    assert pauses_at(device, 13 * MINUTE) == [("task", 0, 12 * MINUTE)]


def test_task_pause_is_open_while_the_long_run_lasts() -> None:
    """From the beginning of the run, once ten minutes have passed."""
    device = started()
    after(device, MINUTE, AgentStarted(id="a1", type="t"))
    assert pauses_at(device, 11 * MINUTE) == []
    assert pauses_at(device, 11 * MINUTE + 1) == [("task", MINUTE, None)]


def test_session_is_not_idle_while_a_foreground_agent_runs() -> None:
    """Eight silent minutes are work."""
    device = started()
    after(device, 0, AgentStarted(id="a1", type="t"))
    after(device, 8 * MINUTE, AgentCompleted(id="a1"))
    assert pauses_at(device, 8 * MINUTE) == []
    device = started()
    after(device, 0, AgentStarted(id="a1", type="t"))
    assert pauses_at(device, 9 * MINUTE) == []
    assert at(device, 9 * MINUTE).idle_since is None


def test_idle_gap_after_an_agent_starts_at_its_end() -> None:
    device = started()
    after(device, 0, AgentStarted(id="a1", type="t"))
    after(device, 8 * MINUTE, AgentCompleted(id="a1"))
    after(device, 20 * MINUTE, MessageExchanged())
    assert pauses_at(device, 20 * MINUTE) == [("idle", 8 * MINUTE, 12 * MINUTE)]


def test_interrupted_agent_ran_until_it_was_last_seen() -> None:
    """After a crash in the evening, the night is idle."""
    device = started()
    after(device, MINUTE, AgentStarted(id="a1", type="t"))
    after(device, 600 * MINUTE, AgentInterrupted(id="a1", last_seen=START + 4 * MINUTE))
    device.record(SessionResumed())
    assert pauses_at(device, 600 * MINUTE) == [("idle", 4 * MINUTE, 596 * MINUTE)]


def test_rest_of_a_gap_after_a_run_is_idle_only_above_the_threshold() -> None:
    """Five silent minutes after an agent was last seen are work, 1 ms more is idle."""
    for over, pauses in ((0, []), (1, [("idle", 4 * MINUTE, 5 * MINUTE + 1)])):
        device = started()
        after(device, MINUTE, AgentStarted(id="a1", type="t"))
        after(device, 9 * MINUTE + over, AgentInterrupted(id="a1", last_seen=START + 4 * MINUTE))
        device.record(MessageExchanged())
        assert pauses_at(device, 9 * MINUTE + over) == pauses


def test_runs_of_a_retried_agent_are_judged_separately() -> None:
    """Two runs of eight minutes are short."""
    device = started()
    after(device, 0, AgentStarted(id="a1", type="t"))
    after(device, 8 * MINUTE, AgentFailed(id="a1", category="transient", message="m"))
    after(device, 9 * MINUTE, AgentRetried(id="a1"))
    after(device, 17 * MINUTE, AgentCompleted(id="a1"))
    assert pauses_at(device, 17 * MINUTE) == []


def test_paused_agent_does_not_prevent_idle() -> None:
    device = started()
    after(device, 0, AgentStarted(id="a1", type="t"))
    after(device, 2 * MINUTE, AgentPaused(id="a1"))
    after(device, 12 * MINUTE, AgentResumed(id="a1"))
    after(device, 14 * MINUTE, AgentCompleted(id="a1"))
    assert pauses_at(device, 14 * MINUTE) == [("idle", 2 * MINUTE, 10 * MINUTE)]


def test_pending_agent_does_not_prevent_idle() -> None:
    device = started()
    after(device, 0, AgentStarted(id="a1", type="t", pending=True))
    after(device, 6 * MINUTE, AgentResumed(id="a1"))
    after(device, 17 * MINUTE, AgentCompleted(id="a1"))
    assert pauses_at(device, 17 * MINUTE) == [("idle", 0, 6 * MINUTE), ("task", 6 * MINUTE, 11 * MINUTE)]


def test_background_agent_changes_no_working_time() -> None:
    """However long it runs there is no task pause, and the session can be idle meanwhile."""
    device = started()
    after(device, 0, AgentStarted(id="a1", type="t", background=True))
    for minute in range(4, 40, 4):
        after(device, minute * MINUTE, MessageExchanged())
    assert pauses_at(device, 40 * MINUTE) == []
    assert pauses_at(device, 50 * MINUTE) == [("idle", 36 * MINUTE, None)]


@pytest.mark.parametrize("cut", [MessageExchanged(role="user"), SessionResumed()], ids=["message", "resume"])
def test_message_or_resume_cuts_the_run_of_an_agent_without_an_end(cut: EventData) -> None:
    """The run is a pause up to that moment, and work counts from there."""
    device = started()
    after(device, MINUTE, AgentStarted(id="a1", type="t", task="Explore"))
    after(device, 600 * MINUTE, cut)
    assert pauses_at(device, 600 * MINUTE) == [("task", MINUTE, 599 * MINUTE)]
    assert pauses_at(device, 610 * MINUTE) == [("task", MINUTE, 599 * MINUTE)]
    assert at(device, 610 * MINUTE).working_ms == 11 * MINUTE
    assert pauses_at(device, 610 * MINUTE + 1) == [("task", MINUTE, 599 * MINUTE), ("task", 600 * MINUTE, None)]


def test_pieces_of_a_cut_run_are_judged_separately() -> None:
    """Messages at 8, 16 and 40 minutes: the two pieces of eight minutes are work, the third is a pause."""
    device = started()
    after(device, 0, AgentStarted(id="a1", type="t"))
    for minute in (8, 16, 40):
        after(device, minute * MINUTE, MessageExchanged())
    after(device, 49 * MINUTE, AgentCompleted(id="a1"))
    assert pauses_at(device, 49 * MINUTE) == [("task", 16 * MINUTE, 24 * MINUTE)]


def test_run_is_cut_only_by_the_persons_messages_and_resume() -> None:
    device = started()
    after(device, 0, AgentStarted(id="a1", type="t"))
    for minute, data in (
        (4, MessageExchanged(role="assistant")), (8, AgentProgressed(id="a1", progress=0.5)),
        (9, CommandRan(command="make", code=0)),
    ):  # fmt: skip
        after(device, minute * MINUTE, data)
    after(device, 12 * MINUTE, AgentCompleted(id="a1"))
    assert pauses_at(device, 12 * MINUTE) == [("task", 0, 12 * MINUTE)]


def test_late_message_cuts_a_run() -> None:
    """Recorded before or after the agent's end."""
    device = started()
    after(device, 0, AgentStarted(id="a1", type="t"))
    after(device, 16 * MINUTE, AgentCompleted(id="a1"))
    assert pauses_at(device, 16 * MINUTE) == [("task", 0, 16 * MINUTE)]
    device.record(MessageExchanged(), at=START + 8 * MINUTE)
    assert pauses_at(device, 16 * MINUTE) == []


def test_work_counted_by_another_program_outranks_a_task_pause() -> None:
    """Work that it merely watched does not."""
    for counted, pauses in ((True, []), (False, [("task", MINUTE, 26 * MINUTE)])):
        device = started()
        after(device, MINUTE, AgentStarted(id="a1", type="t"))
        after(device, 27 * MINUTE, WorkRecorded(since=START, until=START + 27 * MINUTE, counted=counted))
        device.record(MessageExchanged())
        assert pauses_at(device, 27 * MINUTE) == pauses


def test_message_ends_a_task_pause_that_another_program_opened() -> None:
    """However short the pause, and however recent the message before it."""
    device = started()
    after(device, 4 * MINUTE, MessageExchanged())
    device.record(AgentStarted(id="a1", type="t"))
    device.record(AwayRecorded(since=START + 4 * MINUTE, until=START + 4 * MINUTE, kind="task", reason="Explore"))
    assert pauses_at(device, 9 * MINUTE) == [("task", 4 * MINUTE, None)]
    after(device, 10 * MINUTE, MessageExchanged())
    assert pauses_at(device, 19 * MINUTE) == [("task", 4 * MINUTE, 6 * MINUTE)]


def test_overlapping_long_runs_pause_once() -> None:
    device = started()
    after(device, 0, AgentStarted(id="a1", type="t"))
    after(device, 5 * MINUTE, AgentStarted(id="a2", type="t"))
    after(device, 15 * MINUTE, AgentCompleted(id="a1"))
    after(device, 20 * MINUTE, AgentCompleted(id="a2"))
    assert pauses_at(device, 20 * MINUTE) == [("task", 0, 15 * MINUTE), ("task", 15 * MINUTE, 5 * MINUTE)]
    assert at(device, 20 * MINUTE).working_ms == 0


def test_manual_pause_ends_only_by_resuming() -> None:
    """Not by messages, notes or agents."""
    device = started()
    after(device, 10_000, SessionPaused(reason="Lunch"))
    for minute, data in ((1, MessageExchanged()), (3, NoteAdded(text="n")), (20, AgentStarted(id="a1", type="t"))):
        after(device, minute * MINUTE, data)
    assert pauses_at(device, 40 * MINUTE) == [("manual", 10_000, None)]
    (pause,) = at(device, 40 * MINUTE).pauses
    assert (pause.reason, pause.ended_at) == ("Lunch", None)
    after(device, 41 * MINUTE, SessionResumed())
    assert pauses_at(device, 41 * MINUTE)[0] == ("manual", 10_000, 41 * MINUTE - 10_000)


def test_pause_is_open_with_length_zero_at_its_own_event() -> None:
    device = started()
    after(device, MINUTE, SessionPaused())
    assert pauses_at(device, MINUTE) == [("manual", MINUTE, None)]
    assert at(device, MINUTE).paused_ms == 0


def test_manual_pause_ends_an_open_task_pause() -> None:
    device = started()
    after(device, 0, AgentStarted(id="a1", type="t"))
    after(device, 12 * MINUTE, SessionPaused())
    assert pauses_at(device, 12 * MINUTE) == [("task", 0, 12 * MINUTE), ("manual", 12 * MINUTE, None)]


def test_pause_without_length_is_omitted() -> None:
    """Paused and resumed in the same millisecond."""
    device = started()
    after(device, MINUTE, SessionPaused())
    after(device, MINUTE, SessionResumed())
    assert pauses_at(device, 2 * MINUTE) == []


def test_concurrent_pauses_of_two_devices_are_one_pause() -> None:
    """One resume ends it."""
    one = started()
    two = joined(one)
    after(one, MINUTE, SessionPaused(reason="One"))
    after(two, 2 * MINUTE, SessionPaused(reason="Two"))
    one.receive(two)
    after(one, 4 * MINUTE, SessionResumed())
    assert pauses_at(one, 4 * MINUTE) == [("manual", MINUTE, 3 * MINUTE)]


def test_resume_ends_the_pause_it_has_seen_whatever_the_clocks_say() -> None:
    """With a clock that is behind, the pause has no negative length."""
    one = started()
    after(one, 10 * MINUTE, SessionPaused())
    two = joined(one)
    after(two, 4 * MINUTE, SessionResumed())
    document = view.session(two.state(), START + 11 * MINUTE)
    assert document.status == "in_progress"
    assert all(pause.kind == "idle" for pause in document.time.pauses)


def test_open_pause_is_shown_whatever_the_clocks_say() -> None:
    """A device whose clock is behind pauses again: the open pause takes over the earlier one's time."""
    one = started()
    after(one, 10 * MINUTE, SessionPaused(reason="First"))
    after(one, 30 * MINUTE, SessionResumed())
    two = joined(one)
    after(two, 20 * MINUTE, SessionPaused(reason="Second"))
    assert pauses_at(two, 25 * MINUTE)[-1] == ("manual", 20 * MINUTE, None)
    assert at(two, 25 * MINUTE).pauses[-1].reason == "Second"


def test_manual_pause_outranks_task_pause_outranks_idle() -> None:
    """Where they overlap, the weaker one is shortened."""
    device = started()
    after(device, 0, AgentStarted(id="a1", type="t"))
    after(device, 3 * MINUTE, SessionPaused())
    after(device, 6 * MINUTE, SessionResumed())
    after(device, 20 * MINUTE, AgentCompleted(id="a1"))
    after(device, 30 * MINUTE, MessageExchanged())
    # Resuming cuts the run: six minutes of it are working time, except for the pause; fourteen are a task pause.
    assert pauses_at(device, 30 * MINUTE) == [
        ("manual", 3 * MINUTE, 3 * MINUTE), ("task", 6 * MINUTE, 14 * MINUTE), ("idle", 20 * MINUTE, 10 * MINUTE),
    ]  # fmt: skip


def test_away_counts_as_a_manual_pause_in_retrospect() -> None:
    """It has a reason and shortens an idle gap."""
    device = started()
    after(device, 30 * MINUTE, MessageExchanged())
    device.record(AwayRecorded(since=START + 5 * MINUTE, until=START + 25 * MINUTE, reason="Dentist"))
    assert pauses_at(device, 30 * MINUTE) == [
        ("idle", 0, 5 * MINUTE), ("manual", 5 * MINUTE, 20 * MINUTE), ("idle", 25 * MINUTE, 5 * MINUTE),
    ]  # fmt: skip
    assert at(device, 30 * MINUTE).pauses[1].reason == "Dentist"


def test_repeated_away_from_the_same_moment_is_one_pause() -> None:
    """As long as the longest, in either order."""
    for first, second in ((9, 14), (14, 9)):
        device = started()
        device.wait(20 * MINUTE)
        for minutes in (first, second):
            device.record(AwayRecorded(since=START + 2 * MINUTE, until=START + minutes * MINUTE))
        rests = [rest for rest in view.worktime(device.state(), START + 20 * MINUTE).pauses if rest.kind == "manual"]
        assert [(rest.since - START, rest.length) for rest in rests] == [(2 * MINUTE, 12 * MINUTE)]


def test_away_outranks_activity_within_it() -> None:
    """The activity may be an agent's."""
    device = started()
    for minute in range(1, 12):
        after(device, minute * MINUTE, MessageExchanged())
    device.record(AwayRecorded(since=START + 2 * MINUTE, until=START + 9 * MINUTE))
    assert pauses_at(device, 11 * MINUTE) == [("manual", 2 * MINUTE, 7 * MINUTE)]


@pytest.mark.parametrize(("since", "until"), [(5, 5), (9, 3), (-20, -10), (-(10**9), 0)])
def test_away_outside_the_session_or_reversed_is_ignored(since: int, until: int) -> None:
    device = started()
    device.record(AwayRecorded(since=START + since * MINUTE, until=START + until * MINUTE))
    assert pauses_at(device, 4 * MINUTE) == []


def test_away_leaves_an_open_pause_open() -> None:
    device = started()
    after(device, 10 * MINUTE, SessionPaused())
    after(device, 30 * MINUTE, AwayRecorded(since=START + 5 * MINUTE, until=START + 30 * MINUTE))
    assert pauses_at(device, 30 * MINUTE)[-1] == ("manual", 10 * MINUTE, None)
    assert at(device, 30 * MINUTE).working_ms == 0


def test_worked_turns_every_kind_of_pause_into_work() -> None:
    """Manual, idle or task."""
    device = started()
    work_every_four_minutes(device, 0, 8)
    after(device, 10 * MINUTE, SessionPaused(reason="Lunch"))
    after(device, 130 * MINUTE, SessionResumed())
    after(device, 160 * MINUTE, MessageExchanged())
    assert at(device, 160 * MINUTE).working_ms == 10 * MINUTE
    device.record(WorkedRecorded(since=START + 30 * MINUTE, until=START + 150 * MINUTE))
    assert pauses_at(device, 160 * MINUTE) == [
        ("manual", 10 * MINUTE, 20 * MINUTE),
        ("idle", 150 * MINUTE, 10 * MINUTE),
    ]
    assert at(device, 160 * MINUTE).working_ms == 130 * MINUTE


def test_later_of_two_corrections_counts() -> None:
    device = started()
    work_every_four_minutes(device, 0, 60)
    device.record(AwayRecorded(since=START + 10 * MINUTE, until=START + 40 * MINUTE))
    device.record(WorkedRecorded(since=START + 20 * MINUTE, until=START + 30 * MINUTE))
    assert pauses_at(device, 60 * MINUTE) == [
        ("manual", 10 * MINUTE, 10 * MINUTE),
        ("manual", 30 * MINUTE, 10 * MINUTE),
    ]
    device.record(AwayRecorded(since=START + 25 * MINUTE, until=START + 35 * MINUTE))
    assert pauses_at(device, 60 * MINUTE) == [
        ("manual", 10 * MINUTE, 10 * MINUTE), ("manual", 25 * MINUTE, 15 * MINUTE),
    ]  # fmt: skip


def test_worked_leaves_the_remainder_of_an_open_pause_open() -> None:
    device = started()
    work_every_four_minutes(device, 0, 8)
    after(device, 10 * MINUTE, SessionPaused())
    after(device, 60 * MINUTE, WorkedRecorded(since=START + 5 * MINUTE, until=START + 40 * MINUTE))
    assert pauses_at(device, 60 * MINUTE) == [("manual", 40 * MINUTE, None)]


def test_worked_until_now_leaves_the_session_paused() -> None:
    device = started()
    work_every_four_minutes(device, 0, 8)
    after(device, 10 * MINUTE, SessionPaused())
    after(device, 60 * MINUTE, WorkedRecorded(since=START + 5 * MINUTE, until=START + 60 * MINUTE))
    assert pauses_at(device, 60 * MINUTE) == [("manual", 60 * MINUTE, None)]
    assert pauses_at(device, 90 * MINUTE) == [("manual", 60 * MINUTE, None)]


def work_every_four_minutes(device: Device, since: int, until: int) -> None:
    for minute in range(since, until + 1, 4):
        after(device, minute * MINUTE, MessageExchanged())


RULES = pytest.mark.parametrize("rule", [LimitRule(pauses=False), LimitRule(pauses=True)], ids=["remind", "pause"])


def due(device: Device, minute: float, rule: LimitRule) -> list[str]:
    return [*reminders.due_limits(device.state(), START + int(minute * MINUTE), lambda: rule)]


@RULES
def test_reminder_is_due_exactly_at_its_limit(rule: LimitRule) -> None:
    """At 40, 60 and 90 minutes of working time, not a millisecond before."""
    device = started()
    work_every_four_minutes(device, 0, 88)
    assert due(device, 40 - 1 / MINUTE, rule) == []
    assert due(device, 40, rule) == ["break_40"]
    assert due(device, 60 - 1 / MINUTE, rule) == ["break_40"]
    assert due(device, 60, rule) == ["break_40", "warning_60"]
    assert due(device, 90, rule) == ["break_40", "warning_60", "timeout_90"]


@RULES
def test_reminder_counts_only_working_time(rule: LimitRule) -> None:
    """A long pause brings it no nearer; where it counts from the last break, the pause resets it."""
    device = started()
    work_every_four_minutes(device, 0, 36)
    after(device, 36 * MINUTE, SessionPaused())
    after(device, 500 * MINUTE, SessionResumed())
    work_every_four_minutes(device, 504, 536)
    assert due(device, 503, rule) == []
    assert due(device, 504, rule) == (["break_40"] if rule.pauses else [])
    assert due(device, 540 - 1 / MINUTE, rule) == (["break_40", "warning_60"] if rule.pauses else [])
    assert "break_40" in due(device, 540, rule)


@pytest.mark.parametrize(("length", "is_break"), [(5 * MINUTE - 1, False), (5 * MINUTE, True)])
@pytest.mark.parametrize("kind", ["manual", "timeout", "task", "away"])
def test_pause_is_a_break_from_the_length_of_the_idle_threshold(kind: str, length: int, is_break: bool) -> None:
    """Whatever its kind; an idle pause always is."""
    device = started(timer=TimerRules(task=MINUTE))
    work_every_four_minutes(device, 0, 20)
    begin = 20 * MINUTE
    match kind:
        case "task":
            after(device, begin, AgentStarted(id="a1", type="t"))
            after(device, begin + length, AgentCompleted(id="a1"))
        case "away":
            after(device, begin + length, AwayRecorded(since=START + begin, until=START + begin + length))
        case _:
            after(device, begin, SessionPaused() if kind == "manual" else SessionTimedOut())
            after(device, begin + length, SessionResumed())
    work_every_four_minutes(device, 27, 47)
    count = reminders.counted_time(device.state(), START + 47 * MINUTE, LimitRule())
    assert count.since == (START + begin + length if is_break else START)
    assert count.working == 47 * MINUTE - length - (begin if is_break else 0)


def test_adjacent_pauses_make_one_break() -> None:
    device = started()
    work_every_four_minutes(device, 0, 20)
    for minute in (20, 23):
        after(device, minute * MINUTE, SessionPaused())
        after(device, (minute + 3) * MINUTE, SessionResumed())
    work_every_four_minutes(device, 28, 40)
    assert reminders.counted_time(device.state(), START + 40 * MINUTE, LimitRule()) == (
        START + 26 * MINUTE,
        14 * MINUTE,
    )


@RULES
def test_recorded_reminder_stays_when_the_working_time_shrinks(rule: LimitRule) -> None:
    """A pause recorded later makes no reminder due twice."""
    device = started()
    work_every_four_minutes(device, 0, 40)
    device.record(ReminderReached(line="break_40"))
    device.record(AwayRecorded(since=START, until=START + 30 * MINUTE))
    time = at(device, 40 * MINUTE)
    assert time.working_ms == 10 * MINUTE
    assert time.reminders.break_40
    assert not time.reminders.warning_60
    assert due(device, 40, rule) == []


def test_reminder_is_due_once_between_breaks() -> None:
    device = started()
    work_every_four_minutes(device, 0, 40)
    device.record(ReminderReached(line="break_40"))
    work_every_four_minutes(device, 44, 56)
    assert due(device, 56, LimitRule()) == []
    work_every_four_minutes(device, 76, 112)
    assert due(device, 115.9, LimitRule()) == []
    assert due(device, 116, LimitRule()) == ["break_40"]
    assert due(device, 116, LimitRule(pauses=True)) == ["warning_60", "timeout_90"]
    after(device, 116 * MINUTE, MessageExchanged())
    device.record(ReminderReached(line="break_40"))
    assert due(device, 120, LimitRule()) == []
    assert device.state().time.reached == {"break_40": START + 40 * MINUTE}


@RULES
def test_disabled_reminder_is_never_due(rule: LimitRule) -> None:
    """Disabled for the session or by the person since."""
    device = started()
    work_every_four_minutes(device, 0, 88)
    rest = ["warning_60", "timeout_90"]
    assert due(device, 90, rule._replace(off=frozenset({"break_40"}))) == rest
    device = started(timer=TimerRules(break_40=reminders.NEVER))
    work_every_four_minutes(device, 0, 88)
    assert due(device, 90, rule) == rest


def test_lasting_reminder_ends_with_the_break_that_it_asks_for() -> None:
    device = started()
    work_every_four_minutes(device, 0, 40)
    device.record(ReminderReached(line="break_40"))
    lasting_rule = {
        minute: reminders.crossed_limit(device.state(), START + minute * MINUTE, LimitRule)
        for minute in (40, 45, 46, 60)
    }
    assert lasting_rule == {40: "break_40", 45: "break_40", 46: None, 60: None}
    after(device, 60 * MINUTE, MessageExchanged())
    assert reminders.crossed_limit(device.state(), START + 63 * MINUTE, LimitRule) is None
    assert reminders.crossed_limit(device.state(), START + 63 * MINUTE, lambda: LimitRule(pauses=True)) == "break_40"


def timed_out_session() -> Device:
    device = started()
    work_every_four_minutes(device, 0, 88)
    after(device, 90 * MINUTE, MessageExchanged())
    for line in due(device, 90, LimitRule(pauses=True)):
        device.record(ReminderReached(line=line))
    device.record(SessionTimedOut())
    return device


def test_timeout_is_a_pause_until_the_session_is_resumed() -> None:
    """It starts at the sign that crossed the limit; work recorded meanwhile does not end it."""
    device = timed_out_session()
    assert view.session(device.state(), START + 90 * MINUTE).status == "paused"
    assert pauses_at(device, 90 * MINUTE) == [("timeout", 90 * MINUTE, None)]
    after(device, 95 * MINUTE, MessageExchanged())
    assert pauses_at(device, 100 * MINUTE) == [("timeout", 90 * MINUTE, None)]
    after(device, 120 * MINUTE, SessionResumed())
    assert pauses_at(device, 120 * MINUTE) == [("timeout", 90 * MINUTE, 30 * MINUTE)]


def test_timeout_happens_once() -> None:
    """After resuming, no limit is due again, however long the work."""
    device = timed_out_session()
    after(device, 91 * MINUTE, SessionResumed())
    work_every_four_minutes(device, 92, 400)
    assert due(device, 400, LimitRule(pauses=True)) == []
    assert at(device, 400 * MINUTE).reminders.timeout_90


def test_two_devices_share_one_working_time() -> None:
    """Activity on either device counts, and simultaneous activity counts once."""
    one = started()
    two = joined(one)
    for minute in range(0, 21, 4):
        after(one if minute % 8 else two, minute * MINUTE, MessageExchanged())
    both = fold(together(one, two))
    assert view.worktime(both, START + 20 * MINUTE).pauses == ()
    alone = view.worktime(one.state(), START + 20 * MINUTE)
    assert {rest.kind for rest in alone.pauses} == {"idle"}


def test_concurrent_timeouts_of_two_devices_are_one_pause() -> None:
    one = started()
    two = joined(one)
    for device, minute in ((one, 90), (two, 95)):
        work_every_four_minutes(device, 0, 88)
        after(device, minute * MINUTE, MessageExchanged())
        device.record(ReminderReached(line="timeout_90"))
        device.record(SessionTimedOut())
    one.receive(two)
    assert pauses_at(one, 100 * MINUTE) == [("timeout", 90 * MINUTE, None)]
    after(one, 110 * MINUTE, SessionResumed())
    assert pauses_at(one, 110 * MINUTE) == [("timeout", 90 * MINUTE, 20 * MINUTE)]
    assert view.session(one.state(), START + 110 * MINUTE).status == "in_progress"


@pytest.mark.parametrize("end", [SessionCompleted(), SessionAborted()])
def test_working_time_is_fixed_after_the_session_ended(end: EventData) -> None:
    """Whenever it is computed, and no pause stays open."""
    device = started()
    after(device, 2 * MINUTE, SessionPaused())
    after(device, 10 * MINUTE, end)
    assert pauses_at(device, 10 * MINUTE) == pauses_at(device, 10**9) == [("manual", 2 * MINUTE, 8 * MINUTE)]
    assert at(device, 10**9).elapsed_ms == 10 * MINUTE


def test_session_at_the_epoch_counts_like_any_other() -> None:
    device = started(0)
    device.now = 0
    for ms in (-MINUTE, 0, 4 * MINUTE, 5 * MINUTE):
        device.now = ms
        device.record(MessageExchanged())
    work = view.worktime(device.state(), 12 * MINUTE)
    lawful(work, 0)
    assert work.pauses == (WorkPause("idle", None, 5 * MINUTE, None, 7 * MINUTE),)


def test_work_time_before_the_start_is_zero() -> None:
    device = started()
    assert fold([], SESSION).time.start == 0
    assert (at(device, -MINUTE).elapsed_ms, at(device, -MINUTE).pauses) == (0, [])


# ── Pauses reported by another program ────────────────────────────────────────────────────────────────────

_claim = st.builds(
    PauseMark, _moment, st.just("away"), st.none() | st.just("said"), _moment,
    st.sampled_from(["idle", "task", "manual", "timeout", "odd"]),
)  # fmt: skip


@given(times(), st.lists(_claim, max_size=6), st.data())
def test_work_time_adds_up_with_any_pauses_reported_by_other_programs(
    time: TimeState, claims: list[PauseMark], data: st.DataObject
) -> None:
    """Including pauses without an end."""
    for claim in claims:
        if data.draw(st.booleans()):
            claim.until = claim.at
    time.marks += claims
    stretches = data.draw(st.lists(_stretch, max_size=4))
    lawful(measure(time, stretches, end=data.draw(st.none() | _moment), now=data.draw(_moment)), time.start)


def test_agent_run_marked_as_a_pause_counts_at_any_length() -> None:
    device = started()
    device.wait(MINUTE)
    device.record(AgentStarted(id="a1", type="task"))
    device.record(AwayRecorded(since=device.now, until=device.now, reason="Exploring", kind="task"))
    begun = WorkPause("task", "Exploring", NOON + MINUTE, None, 0)
    assert view.worktime(device.state(), device.now).pauses == (begun,)
    device.wait(MINUTE)
    assert view.worktime(device.state(), device.now).pauses == (begun._replace(length=MINUTE),)
    device.record(AgentCompleted(id="a1"))
    device.wait(MINUTE)
    assert view.worktime(device.state(), device.now).pauses == (
        begun._replace(until=NOON + 2 * MINUTE, length=MINUTE),
    )


def test_person_marked_as_away_is_away_until_the_next_sign() -> None:
    device = started()
    device.record(AwayRecorded(since=NOON, until=NOON, kind="idle"))
    assert view.worktime(device.state(), NOON).pauses == (WorkPause("idle", None, NOON, None, 0),)
    assert view.worktime(device.state(), NOON + MINUTE).pauses == (WorkPause("idle", None, NOON, None, MINUTE),)
    device.wait(6 * MINUTE)
    device.record(MessageExchanged())
    assert view.worktime(device.state(), device.now).pauses == (
        WorkPause("idle", None, NOON, NOON + 6 * MINUTE, 6 * MINUTE),
    )


def test_idle_pause_marked_as_open_lasts_until_its_end_is_recorded() -> None:
    device = started()
    device.wait(2 * MINUTE)
    device.record(AwayRecorded(since=NOON, until=NOON + 2 * MINUTE, kind="idle"))
    device.record(AwayRecorded(since=NOON, until=NOON, kind="idle"))
    assert view.worktime(device.state(), device.now + MINUTE).pauses == (
        WorkPause("idle", None, NOON, None, 3 * MINUTE),
    )
    device.wait(MINUTE)
    device.record(AwayRecorded(since=NOON, until=device.now, kind="idle"))
    resumed = started()
    resumed.record(AwayRecorded(since=NOON, until=NOON, kind="idle"))
    resumed.record(SessionResumed())
    assert view.worktime(resumed.state(), NOON + MINUTE).pauses == ()
    (pause,) = view.worktime(device.state(), device.now).pauses
    assert (pause.since, pause.until) == (NOON, NOON + 3 * MINUTE)
    assert view.worktime(device.state(), device.now).paused == 3 * MINUTE


# ── Work watched by another program ───────────────────────────────────────────────────────────────────────


def _two_signs(*between: WorkRecorded | AwayRecorded) -> State:
    device = started()
    device.wait(40 * MINUTE)
    for item in between:
        device.record(item)
    device.record(MessageExchanged())
    return device.state()


def test_watched_work_has_no_idle_gap() -> None:
    whole = WorkRecorded(since=NOON, until=NOON + 40 * MINUTE)
    assert view.worktime(_two_signs(whole), NOON + 40 * MINUTE).pauses == ()
    assert [pause.kind for pause in view.worktime(_two_signs(), NOON + 40 * MINUTE).pauses] == ["idle"]
    half = WorkRecorded(since=NOON, until=NOON + 30 * MINUTE)
    pauses = view.worktime(_two_signs(half), NOON + 40 * MINUTE).pauses
    assert [(pause.kind, pause.since, pause.until) for pause in pauses] == [
        ("idle", NOON + 30 * MINUTE, NOON + 40 * MINUTE)
    ]


def test_impossible_watched_work_is_ignored() -> None:
    plain = view.worktime(_two_signs(), NOON + 60 * MINUTE)
    for since, until in ((-MINUTE, MINUTE), (2 * MINUTE, MINUTE), (MINUTE, 50 * MINUTE)):
        odd = _two_signs(WorkRecorded(since=NOON + since, until=NOON + until))
        assert view.worktime(odd, NOON + 60 * MINUTE) == plain


def test_pause_within_watched_work_is_still_a_pause() -> None:
    state = _two_signs(
        WorkRecorded(since=NOON, until=NOON + 40 * MINUTE),
        AwayRecorded(since=NOON + 10 * MINUTE, until=NOON + 20 * MINUTE, reason="Tea", kind="idle"),
    )
    pauses = view.worktime(state, NOON + 40 * MINUTE).pauses
    assert [(pause.kind, pause.since - NOON, pause.length) for pause in pauses] == [
        ("idle", 10 * MINUTE, 10 * MINUTE)
    ]


def test_past_pause_keeps_its_kind_and_reason() -> None:
    for kind in ("manual", "idle", "task", "timeout"):
        state = _two_signs(
            WorkRecorded(since=NOON, until=NOON + 40 * MINUTE),
            AwayRecorded(since=NOON + MINUTE, until=NOON + 2 * MINUTE, reason="Said", kind=kind),
        )
        pauses = view.worktime(state, NOON + 40 * MINUTE).pauses
        assert [(pause.kind, pause.reason, pause.length) for pause in pauses] == [(kind, "Said", MINUTE)]
