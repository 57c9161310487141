"""Laws of the fold: it accepts anything, does not depend on the order of arrival, and reports every conflict."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import reminders, view
from holdfast.core.agents import status_of
from holdfast.core.canonical import canonical_json
from holdfast.core.envelope import Event, StreamHead
from holdfast.core.events import (
    EVENT_TYPES,
    AgentCompleted,
    AgentFailed,
    AgentInterrupted,
    AgentPaused,
    AgentProgressed,
    AgentResumed,
    AgentRetried,
    AgentStarted,
    AliasGiven,
    ConflictResolved,
    DeviceJoined,
    EventData,
    ExtraKept,
    MessageExchanged,
    NoteAdded,
    PhaseAdded,
    SessionAborted,
    SessionCompleted,
    SessionEdited,
    SessionFailed,
    SessionPaused,
    SessionResumed,
    SessionStarted,
    TaskAdded,
    TaskCompleted,
    TaskDropped,
    TaskStarted,
)
from holdfast.core.fold import _RULES, apply, fold, in_log_order, read_data, skip_duplicate
from holdfast.core.lifecycle import FINAL
from holdfast.core.model import Conflict, Session
from holdfast.core.reminders import LimitRule
from holdfast.core.state import State, freeze, thaw
from tests.support.histories import (
    GARBAGE,
    MINUTE,
    NOON,
    POOL,
    PROJECT,
    SESSION,
    Device,
    History,
    erased,
    histories,
    joined,
    started,
    together,
)


def shown(events: Iterable[Event]) -> Session:
    return view.session(fold(events, SESSION), NOON + 10 * MINUTE)


def conflicts(*devices: Device) -> list[Conflict]:
    return view.conflicts(fold(together(*devices)))


def values(conflict: Conflict) -> set[object]:
    return {value.value for value in conflict.values}


def step_by_step(state: State, events: Iterable[Event], keys: set[str]) -> State:
    """Applies events one at a time in log order and skips duplicates, as a store does."""
    for event in events:
        if event.key is not None and event.key in keys:
            skip_duplicate(state, event)
        else:
            apply(state, event)
        keys |= {event.key} if event.key is not None else set()
    return state


def ordered(history: History) -> list[Event]:
    return sorted(history.events, key=lambda event: event.written)


# ── Laws for any history ─────────────────────────────────────────────────────────────────────────────────


@given(histories(), st.randoms(use_true_random=False))
def test_fold_ignores_order_and_repetition_of_arrival(history: History, chance: random.Random) -> None:
    expected = fold(ordered(history))
    arrived = [*history.events, *chance.choices(history.events, k=5)]
    chance.shuffle(arrived)
    assert fold(arrived) == expected
    assert freeze(fold(arrived)) == freeze(expected)


@given(histories(), st.randoms(use_true_random=False))
def test_erased_copy_wins_over_a_complete_one(history: History, chance: random.Random) -> None:
    """In any order of arrival."""
    erased_event = [erased(event) for event in chance.sample(history.events, k=min(3, len(history.events)))]
    hashes = {event.hash for event in erased_event}
    expected = fold([*erased_event, *(event for event in history.events if event.hash not in hashes)])
    arrived = [*history.events, *erased_event]
    chance.shuffle(arrived)
    assert fold(arrived) == expected


@given(histories())
def test_incremental_fold_equals_full_fold(history: History) -> None:
    assert step_by_step(State(session=SESSION), ordered(history), set()) == fold(history.events)


@given(histories(), st.integers(0, 1000))
def test_snapshot_can_be_taken_after_any_event(history: History, where: int) -> None:
    """Freezing and thawing loses nothing, and a state frozen twice has the same bytes."""
    events = ordered(history)
    cut = where % (len(events) + 1)
    keys: set[str] = set()
    frozen = freeze(step_by_step(State(session=SESSION), events[:cut], keys))
    assert freeze(thaw(frozen)) == frozen
    finished = step_by_step(thaw(frozen), events[cut:], keys)
    assert finished == fold(events, SESSION)
    assert freeze(finished) == freeze(fold(events, SESSION))


@given(histories(), st.sampled_from([0, -(10**14), NOON, NOON + 10**10, 10**15]))
def test_any_state_can_be_viewed(history: History, now: int) -> None:
    """As of any moment, as JSON, with times that add up."""
    state = fold(history.events)
    document = view.session(state, now)
    assert msgspec.json.decode(msgspec.json.encode(document), type=Session) == document
    assert document.time.working_ms + document.time.paused_ms == document.time.elapsed_ms
    assert 0 <= document.progress <= 1
    for rule in (LimitRule(), LimitRule(pauses=True)):
        assert reminders.counted_time(state, now, rule).working <= max(document.time.working_ms, 0)
        assert isinstance(reminders.due_limits(state, now, partial(LimitRule, *rule)), list)


@given(histories())
def test_every_event_is_counted(history: History) -> None:
    """Each event is in the count, and every stream has its head."""
    state = fold(history.events)
    assert state.count == len(in_log_order(history.events))
    assert set(state.heads) == {event.writer for event in history.events}
    for writer, head in state.heads.items():
        assert head.seq == max(event.seq for event in history.events if event.writer == writer)


@given(histories(hostile=False))
def test_devices_with_the_same_events_show_the_same_document(history: History) -> None:
    """In whatever order they received them."""
    for device in history.devices:
        for other in history.devices:
            device.receive(other)
    documents = {msgspec.json.encode(view.session(device.state(), NOON)) for device in history.devices}
    assert len(documents) == 1


@given(histories(hostile=False))
def test_registers_keep_exactly_the_unseen_writes(history: History) -> None:
    """A write stays until a later one has it in its causal past."""
    kept = {event.hash: event for event in in_log_order(history.events)}
    if len(kept) != len(history.events) or any(event.type.startswith("conflict.") for event in kept.values()):
        return  # duplicates, choices and detected conflicts follow other rules
    past = {hash_: seen for device in history.devices for hash_, seen in device.past.items()}
    writes = {hash_ for hash_, event in kept.items() if getattr(read_data(event), "goal", None) is not None}
    alone = {name for name in writes if not any(name in past[other] for other in writes)}
    assert {write.hash for write in fold(history.events).registers["goal"]} == alone


@given(histories(hostile=False))
def test_ending_wins_among_concurrent_statuses(history: History) -> None:
    """If one of several concurrent statuses is an ending, the session ended."""
    for events in (history.events, *(tuple(device.known.values()) for device in history.devices)):
        state = fold(events, SESSION)
        writes = state.registers.get("status", [])
        if any(write.value in FINAL["session"] for write in writes):
            assert view.status_of(state) in FINAL["session"]


# ── Unusual input ────────────────────────────────────────────────────────────────────────────────────────


def test_every_event_type_has_a_rule() -> None:
    """And the tests generate every type."""
    missing = sorted(set(EVENT_TYPES) - set(_RULES))
    assert not missing, f"no @_rule in core/fold.py is for {missing}"
    assert {type(data) for data in POOL} | {ConflictResolved} == {kind.data for kind in EVENT_TYPES.values()}


@pytest.mark.parametrize("kind", sorted(EVENT_TYPES))
def test_undecodable_data_of_every_type_is_counted_and_skipped(kind: str) -> None:
    """It is kept, and counted as not applied or not read."""
    device = started()
    for written in GARBAGE:
        device.record(NoteAdded(text=""), kind=kind, written=written)
    state = device.state()
    thaw(freeze(state))
    assert state.count == 1 + len(GARBAGE)
    assert state.not_applied >= 8
    msgspec.json.encode(view.session(state, NOON))


@pytest.mark.parametrize("data", POOL, ids=lambda data: type(data).__name__)
def test_session_without_its_start_can_be_shown(data: EventData) -> None:
    """Events that arrived before the start are folded, and corrected once it arrives."""
    device = started()
    start = next(iter(device.known.values()))
    device.wait(MINUTE)
    event = device.record(data)
    orphan = fold([event])
    document = view.session(orphan, NOON + 2 * MINUTE)
    assert document.created_at == document.updated_at == "2026-11-15T12:01:00.000Z"
    assert document.time.elapsed_ms == MINUTE or document.status in FINAL["session"]
    assert fold([event, start]) == fold([start, event])


def test_fold_of_no_events_can_be_shown() -> None:
    document = view.session(fold([], SESSION), NOON)
    assert document.id == SESSION
    assert document.status == "created"
    assert document.time.elapsed_ms == NOON


def test_erased_start_still_starts_the_session() -> None:
    """Type and time stay in the envelope."""
    device = started()
    device.wait(MINUTE)
    device.record(NoteAdded(text="n"))
    start, note = device.known.values()
    document = shown([erased(start), note])
    assert document.created_at == "2026-11-15T12:00:00.000Z"
    assert view.status_of(fold([erased(start), note])) == "in_progress"
    assert document.time.elapsed_ms == 10 * MINUTE
    assert document.goal == ""


def test_erased_transitions_still_apply() -> None:
    """The transition is in the envelope."""
    device = started()
    event = device.record(SessionCompleted(summary="secret"))
    document = shown([*(item for item in device.known.values() if item is not event), erased(event)])
    assert document.status == "completed"
    assert document.summary is None


def test_second_start_is_a_conflict() -> None:
    """The first counts, and both goals are shown."""
    one, two = started(), Device("w9", now=NOON + 1)
    two.record(SessionStarted(goal="Other", project=PROJECT, device="thief"))
    document = shown(together(one, two))
    assert document.goal == "Add login"
    (conflict,) = document.conflicts
    assert conflict.field == "started"
    assert values(conflict) == {"Add login", "Other"}


def test_ending_before_the_start_in_the_log_still_counts() -> None:
    early = Device("w0", now=NOON - MINUTE)
    early.record(SessionAborted())
    document = shown(together(early, started()))
    assert document.status == "aborted"
    assert [values(conflict) for conflict in document.conflicts] == [{"aborted", "in_progress"}]


def test_events_of_later_versions_and_types_are_counted_and_not_applied() -> None:
    device = started()
    device.record(SessionEdited(goal="Later"), version=2)
    device.record(NoteAdded(text="x"), kind="session.dreamt")
    assert device.state().not_applied == 2
    assert shown(device.known.values()).goal == "Add login"


def test_forked_stream_keeps_both_branches() -> None:
    """Two events with one number, as after restoring a home; both values are in conflict."""
    device = started()
    device.record(SessionEdited(goal="Before the crash"))
    device.fork()
    device.record(SessionEdited(goal="After restoring"))
    assert len({event.seq for event in device.known.values()}) == 2
    (conflict,) = conflicts(device)
    assert values(conflict) == {"Before the crash", "After restoring"}


def test_stream_head_does_not_move_back() -> None:
    """An event with a lower number does not replace it."""
    device = started()
    for _ in range(3):
        last = device.record(NoteAdded(text="n"))
    device.fork()
    device.fork()
    device.record(NoteAdded(text="from the past"))
    assert device.state().heads["w1"] == last.head


def test_seen_may_name_unknown_streams() -> None:
    device = started()
    event = device.record(NoteAdded(text="n"))
    odd = msgspec.structs.replace(event, seen=(StreamHead("nobody", 2**53 - 1, "00" * 32), StreamHead("w1", -5, "")))
    assert len(shown([*device.known.values(), msgspec.structs.replace(odd, hash="ff" * 32)]).notes) == 2


@pytest.mark.parametrize("last_seen", [0, -(2**53 - 1), 2**53 - 1, NOON - MINUTE, NOON + MINUTE])
@pytest.mark.parametrize("pending", [False, True])
def test_interrupted_run_ends_within_the_agents_lifetime(last_seen: int, pending: bool) -> None:
    """Whatever `last_seen` is, between its start and the moment of detection."""
    device, other = started(), Device("w2")
    device.record(AgentStarted(id="a1", type="t", pending=pending))
    other.receive(device)
    device.wait(MINUTE // 2)
    device.record(AgentResumed(id="a1") if pending else AgentProgressed(id="a1", progress=0.5))
    other.wait(MINUTE)
    other.record(AgentInterrupted(id="a1", last_seen=last_seen))
    (agent,) = fold(together(device, other)).agents.values()
    assert agent.ended_at is not None
    assert agent.ended_at <= NOON + MINUTE
    for run in agent.runs:
        assert run.until is not None
        assert run.since <= run.until <= NOON + MINUTE


# ── Keys ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_events_with_equal_keys_count_once() -> None:
    """One hook on two machines makes one note, without a conflict."""
    one = started()
    two = joined(one)
    one.record(NoteAdded(text="heard"), key="hook:1")
    two.record(NoteAdded(text="heard"), key="hook:1")
    document = shown(together(one, two))
    assert [note.text for note in document.notes] == ["heard"]
    assert document.conflicts == []


def test_duplicate_event_still_becomes_the_stream_head() -> None:
    """The next event of the stream has to follow it."""
    one = started()
    two = joined(one)
    one.record(NoteAdded(text="heard"), key="hook:1")
    two.wait(1)
    double = two.record(NoteAdded(text="heard"), key="hook:1")
    two.receive(one)
    assert two.state().heads["w2"] == double.head
    assert two.state().count == 3


def test_earliest_of_equal_keys_counts_even_when_it_arrives_last() -> None:
    early, late = started(), started()
    late.writer = "w2"
    one = early.record(NoteAdded(text="early"), key="k")
    late.wait(MINUTE)
    two = late.record(NoteAdded(text="late"), key="k")
    start = next(iter(early.known.values()))
    assert [note.text for note in fold([start, two, one]).notes] == ["early"]
    assert in_log_order([two, one]) == [one]


def test_duplicate_changes_neither_time_nor_device() -> None:
    """As when a transcript is read again on another machine."""
    one = started()
    two = joined(one)
    one.record(NoteAdded(text="heard"), key="k")
    one.receive(two)
    one.record(MessageExchanged())
    before = shown(one.known.values())
    two.wait(MINUTE)
    two.record(NoteAdded(text="heard"), key="k")
    assert shown(together(one, two)) == before


# ── Conflicts ────────────────────────────────────────────────────────────────────────────────────────────


def test_concurrent_writes_make_a_conflict_with_both_values() -> None:
    """The later one counts, and both are shown with their device."""
    one = started()
    two = joined(one)
    one.wait(1)
    one.record(SessionEdited(goal="One"))
    two.wait(2)
    two.record(SessionEdited(goal="Two"))
    document = shown(together(one, two))
    assert document.goal == "Two"
    (conflict,) = document.conflicts
    assert conflict.field == "goal"
    assert [(v.value, v.device, v.at) for v in conflict.values] == [
        ("One", "laptop", "2026-11-15T12:00:00.001Z"),
        ("Two", "desktop", "2026-11-15T12:00:00.002Z"),
    ]
    assert conflict.chosen is None


def test_concurrent_equal_values_make_no_conflict() -> None:
    one = started()
    two = joined(one)
    one.record(SessionEdited(goal="Same"))
    two.record(SessionEdited(goal="Same"))
    assert conflicts(one, two) == []


def test_write_that_saw_both_values_settles_the_conflict() -> None:
    one = started()
    two = joined(one)
    one.record(SessionEdited(goal="One"))
    two.record(SessionEdited(goal="Two"))
    two.receive(one)
    two.record(SessionEdited(goal="Three"))
    assert conflicts(one, two) == []
    assert shown(together(one, two)).goal == "Three"


def test_write_that_saw_one_value_keeps_the_other_in_conflict() -> None:
    one = started()
    two = joined(one)
    one.record(SessionEdited(goal="One"))
    two.record(SessionEdited(goal="Two"))
    two.record(SessionEdited(goal="Two again"))
    (conflict,) = conflicts(one, two)
    assert values(conflict) == {"One", "Two again"}


def test_concurrency_does_not_depend_on_clocks() -> None:
    """A device whose clock is years off conflicts exactly like one that is right."""
    for wrong in (0, NOON - 9 * 365 * 86_400_000, NOON + 9 * 365 * 86_400_000):
        one = started()
        two = joined(one)
        two.now = wrong
        two.record(SessionEdited(goal="Two"))
        one.receive(two)
        one.record(SessionEdited(goal="One, knowing Two"))
        assert conflicts(one, two) == []
        assert shown(together(one, two)).goal == "One, knowing Two"
        two.record(SessionEdited(goal="Two, not knowing"))
        assert [values(conflicts_of_skews) for conflicts_of_skews in conflicts(one, two)] == [
            {"One, knowing Two", "Two, not knowing"}
        ]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("ending", [SessionCompleted(), SessionAborted()])
def test_ending_wins_over_concurrent_work(first: bool, ending: EventData) -> None:
    """Completed on one device and paused on another is completed, in any order, and shown as a conflict."""
    one = started()
    two = joined(one)
    one.wait(1 if first else 5)
    two.wait(3)
    one.record(ending)
    two.record(SessionPaused())
    document = shown(together(one, two))
    assert document.status in ("completed", "aborted")
    (conflict,) = document.conflicts
    assert conflict.field == "status"
    assert values(conflict) == {document.status, "paused"}


def test_ending_wins_over_later_work_that_had_not_seen_it() -> None:
    """A device that pauses and resumes for hours without having seen the ending does not undo it."""
    one = started()
    two = joined(one)
    one.record(SessionCompleted())
    for data in (SessionPaused(), SessionResumed(), SessionPaused(), SessionResumed()):
        two.wait(MINUTE)
        two.record(data)
    document = shown(together(one, two))
    assert document.status == "completed"
    assert document.ended_at == "2026-11-15T12:00:00.000Z"
    assert [values(conflict) for conflict in document.conflicts] == [{"completed", "in_progress"}]


def test_transition_that_its_writer_knew_to_be_forbidden_changes_nothing() -> None:
    """A foreign program resumes a session that it knew to be completed; both writes are shown."""
    one = started()
    two = joined(one)
    one.record(SessionCompleted())
    two.receive(one)
    two.wait(MINUTE)
    two.record(SessionResumed())
    document = shown(together(one, two))
    assert document.status == "completed"
    (conflict,) = document.conflicts
    assert [(v.value, v.device) for v in conflict.values] == [("completed", "laptop"), ("in_progress", "desktop")]


def test_third_device_cannot_undo_an_ending_it_has_seen() -> None:
    """Even while a concurrent pause exists that it has not seen."""
    one = started()
    two, three = joined(one), joined(one, "w3", "phone")
    one.record(SessionCompleted())
    two.record(SessionPaused())
    three.receive(one)
    three.wait(MINUTE)
    three.record(SessionResumed())
    assert shown(together(one, two, three)).status == "completed"


def test_refused_pause_does_not_pause_the_time() -> None:
    device = started()
    device.record(SessionFailed(message="m"))
    device.wait(MINUTE)
    device.record(SessionPaused())
    assert {pause.kind for pause in shown(device.known.values()).time.pauses} == {"idle"}


# ── Choosing ─────────────────────────────────────────────────────────────────────────────────────────────


def conflicting_goals() -> tuple[Device, Device, Event, Event]:
    one = started()
    two = joined(one)
    two.wait(1)
    first = one.record(SessionEdited(goal="One"))
    second = two.record(SessionEdited(goal="Two"))
    one.receive(two)
    two.receive(one)
    return one, two, first, second


@pytest.mark.parametrize("take", [0, 1])
def test_choice_sets_the_value_and_settles_the_conflict(take: int) -> None:
    """Later writes continue from it."""
    one, two, first, second = conflicting_goals()
    chosen, other = (first, second) if take == 0 else (second, first)
    one.wait(MINUTE)
    one.record(ConflictResolved(field="goal", chosen=chosen.hash, overruled=(other.hash,)))
    document = shown(together(one, two))
    assert document.goal == ("One", "Two")[take]
    (conflict,) = document.conflicts
    assert conflict.chosen is not None
    assert conflict.values[conflict.chosen - 1].value == document.goal
    one.record(SessionEdited(goal="Three"))
    after = shown(together(one, two))
    assert after.goal == "Three"
    assert [remaining.chosen for remaining in after.conflicts] == [conflict.chosen]


def test_choice_can_be_changed_later() -> None:
    one, _, first, second = conflicting_goals()
    one.record(ConflictResolved(field="goal", chosen=first.hash, overruled=(second.hash,)))
    one.record(ConflictResolved(field="goal", chosen=second.hash, overruled=(first.hash,)))
    document = shown(one.known.values())
    assert document.goal == "Two"
    (conflict,) = document.conflicts
    assert conflict.values[(conflict.chosen or 0) - 1].value == "Two"


def test_concurrent_different_choices_conflict_again() -> None:
    """Both values are shown, and a third choice settles them."""
    one, two, first, second = conflicting_goals()
    one.wait(MINUTE)
    two.wait(MINUTE)
    here = one.record(ConflictResolved(field="goal", chosen=first.hash, overruled=(second.hash,)))
    there = two.record(ConflictResolved(field="goal", chosen=second.hash, overruled=(first.hash,)))
    open_ones = [conflict for conflict in conflicts(one, two) if conflict.chosen is None]
    assert [values(conflict) for conflict in open_ones] == [{"One", "Two"}]
    two.receive(one)
    two.record(ConflictResolved(field="goal", chosen=here.hash, overruled=(there.hash,)))
    assert all(conflict.chosen is not None for conflict in conflicts(one, two))
    assert shown(together(one, two)).goal == "One"


def test_choice_leaves_a_third_value_that_it_had_not_seen_in_conflict() -> None:
    one, two, first, second = conflicting_goals()
    three = joined(started(), "w3", "phone")
    three.receive(one)
    three.record(SessionEdited(goal="Three, having seen both"))
    one.wait(MINUTE)
    one.record(ConflictResolved(field="goal", chosen=first.hash, overruled=(second.hash,), value="One"))
    open_ones = [conflict for conflict in conflicts(one, two, three) if conflict.chosen is None]
    assert [values(conflict) for conflict in open_ones] == [{"One", "Three, having seen both"}]


def test_ending_can_be_overruled_by_choosing_the_work() -> None:
    """The session is then in progress."""
    one = started()
    two = joined(one)
    done = one.record(SessionCompleted())
    pause = two.record(SessionPaused())
    two.receive(one)
    two.record(ConflictResolved(field="status", chosen=pause.hash, overruled=(done.hash,)))
    assert shown(together(one, two)).status == "paused"
    two.record(SessionResumed())
    assert view.status_of(fold(together(one, two))) == "in_progress"


def test_agent_status_can_be_chosen_by_id_or_reference() -> None:
    """The field is addressed by the agent's id or by the hash of its first event."""
    for by_ref in (False, True):
        one = started()
        made = one.record(AgentStarted(id="a1", type="t"))
        two = joined(one)
        done = one.record(AgentCompleted(id="a1"))
        failed = two.record(AgentFailed(id="a1", category="logical", message="m"))
        two.receive(one)
        (conflict,) = conflicts(one, two)
        assert conflict.field == "agents.a1.status"
        field = f"agents.{made.hash}.status" if by_ref else conflict.field
        two.record(ConflictResolved(field=field, chosen=failed.hash, overruled=(done.hash,)))
        (agent,) = shown(together(one, two)).agents
        assert agent.status == "error"


def test_choice_of_an_unknown_field_or_event_only_counts() -> None:
    device = started()
    before = shown(device.known.values())
    device.record(ConflictResolved(field="goal", chosen="00" * 32, overruled=()))
    device.record(ConflictResolved(field="nonsense", chosen="00" * 32, overruled=("11" * 32,)))
    assert device.state().not_applied == 2
    assert shown(device.known.values()) == before


# ── Agents and tasks ─────────────────────────────────────────────────────────────────────────────────────


def test_concurrent_agents_with_equal_ids_stay_two_agents() -> None:
    """One conflict, and each agent continues on its own."""
    one = started()
    two = joined(one)
    first = one.record(AgentStarted(id="a1", type="coder", task="Here"))
    two.wait(1)
    second = two.record(AgentStarted(id="a1", type="coder", task="There"))
    two.record(AgentCompleted(id="a1", ref=second.hash))
    document = shown(together(one, two))
    assert [(agent.task, agent.status) for agent in document.agents] == [("Here", "running"), ("There", "completed")]
    (conflict,) = document.conflicts
    assert conflict.field == "agents.a1"
    assert [(v.value, v.device) for v in conflict.values] == [("Here", "laptop"), ("There", "desktop")]
    one.receive(two)
    one.record(ConflictResolved(field="agents.a1", chosen=first.hash, overruled=(second.hash,)))
    (settled,) = conflicts(one, two)
    assert settled.chosen == 1
    assert len(shown(together(one, two)).agents) == 2


def test_concurrent_tasks_with_equal_ids_stay_two_tasks() -> None:
    one = started()
    two = joined(one)
    first = one.record(TaskAdded(id="t1", text="Here"))
    two.wait(1)
    two.record(TaskAdded(id="t1", text="There"))
    one.receive(two)
    one.record(TaskCompleted(id="t1", ref=first.hash))
    document = shown(together(one, two))
    assert [(task.text, task.status) for task in document.tasks] == [("Here", "completed"), ("There", "pending")]
    (conflict,) = document.conflicts
    assert conflict.field == "tasks.t1"
    assert [(v.value, v.device) for v in conflict.values] == [("Here", "laptop"), ("There", "desktop")]


def test_concurrent_ends_of_a_task_make_a_conflict() -> None:
    """Completed on one device and dropped on another, shown under the task's id."""
    one = started()
    one.record(TaskAdded(id="t1", text="Write"))
    two = joined(one)
    one.record(TaskCompleted(id="t1", outcome="good"))
    two.wait(1)
    two.record(TaskDropped(id="t1"))
    document = shown(together(one, two))
    assert document.tasks[0].status == "dropped"
    assert document.tasks[0].completed_at is None
    (conflict,) = document.conflicts
    assert conflict.field == "tasks.t1.status"
    assert values(conflict) == {"completed", "dropped"}


def test_agent_resumed_or_retried_concurrently_has_one_run() -> None:
    """Its end ends that run."""
    one = started()
    one.record(AgentStarted(id="a1", type="t"))
    one.record(AgentPaused(id="a1"))
    two = joined(one)
    one.record(AgentResumed(id="a1"))
    two.record(AgentResumed(id="a1"))
    one.receive(two)
    one.wait(MINUTE)
    one.record(AgentFailed(id="a1", category="logical", message="m"))
    two.receive(one)
    one.record(AgentRetried(id="a1"))
    two.record(AgentRetried(id="a1"))
    two.receive(one)
    two.wait(2 * MINUTE)
    two.record(AgentCompleted(id="a1"))
    (agent,) = fold(together(one, two)).agents.values()
    assert all(run.until is not None for run in agent.runs)
    assert conflicts(one, two) == []


def test_late_progress_does_not_change_a_finished_agent() -> None:
    one = started()
    one.record(AgentStarted(id="a1", type="t"))
    two = joined(one)
    one.record(AgentCompleted(id="a1"))
    two.wait(MINUTE)
    two.record(AgentProgressed(id="a1", progress=0.4))
    (agent,) = shown(together(one, two)).agents
    assert (agent.status, agent.progress) == ("completed", 1.0)


def test_detected_interruption_yields_to_the_agents_own_events() -> None:
    """One device inferred an interruption; another saw what the agent did."""
    one = started()
    one.record(AgentStarted(id="a1", type="t"))
    two = joined(one)
    one.record(AgentInterrupted(id="a1", last_seen=NOON))
    two.wait(1)
    two.record(AgentCompleted(id="a1"))
    (agent,) = fold(together(one, two)).agents.values()
    assert status_of(agent) == "completed"


def test_events_about_unknown_agents_and_tasks_are_counted_and_not_applied() -> None:
    device = started()
    device.record(AgentCompleted(id="ghost"))
    device.record(TaskStarted(id="ghost", ref="00" * 32))
    assert device.state().not_applied == 2


# ── Other fields ─────────────────────────────────────────────────────────────────────────────────────────


def test_sets_of_both_devices_are_merged() -> None:
    """Tags, notes, aliases and phases."""
    one = started()
    two = joined(one)
    one.record(SessionEdited(tags=("a", "both")))
    two.record(SessionEdited(tags=("both", "b")))
    one.record(PhaseAdded(id="p1", name="Plan"))
    two.record(PhaseAdded(id="p2", name="Build"))
    two.record(AliasGiven(format="timer", id="x"))
    document = shown(together(one, two))
    assert sorted(document.tags) == ["a", "b", "both"]
    assert {phase.id for phase in document.phases} == {"p1", "p2"}
    assert document.aliases.timer == "x"
    assert document.conflicts == []


def test_phase_with_two_names_is_a_conflict() -> None:
    """The first name counts, and both are shown."""
    device = started()
    device.record(PhaseAdded(id="p", name="Plan"))
    device.record(PhaseAdded(id="p", name="Plan"))
    device.record(PhaseAdded(id="p", name="Ground"))
    (conflict,) = conflicts(device)
    assert values(conflict) == {"Plan", "Ground"}


def test_large_numbers_in_extra_fields_are_kept_as_doubles() -> None:
    """A number above 2^53 can be written again."""
    device = started()
    device.record(ExtraKept(name="x", value=[1e17, 5, 0.5]))
    kept = device.state().extra["x"]
    assert kept == [1e17, 5, 0.5]
    assert canonical_json(kept) == b"[100000000000000000,5,0.5]"


def test_devices_are_listed_with_the_last_active_one() -> None:
    """All that wrote are listed."""
    one = started()
    two = joined(one)
    document = shown(together(one, two))
    assert document.device == "desktop"
    assert document.devices == ["desktop", "laptop"]
    two.record(DeviceJoined(device="desk"))
    assert shown(two.known.values()).devices == ["desk", "laptop"]
