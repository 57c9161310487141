"""A field that another program edited from an outdated value: both values are kept until a person chooses."""

from __future__ import annotations

import pytest
from hypothesis import given

from holdfast.core import view
from holdfast.core.canonical import Json
from holdfast.core.envelope import Event
from holdfast.core.events import (
    AgentStarted,
    ConflictDetected,
    ConflictResolved,
    ErrorNoted,
    SessionCompleted,
    SessionEdited,
    SessionPaused,
    TaskAdded,
)
from holdfast.core.fold import fold
from holdfast.core.model import Conflict
from tests.support.histories import MINUTE, NOON, Device, History, histories, joined, started, together

LATER = NOON + 60 * MINUTE


def shown(device: Device) -> list[Conflict]:
    return view.session(device.state(), LATER).conflicts


def values(device: Device) -> list[list[Json]]:
    return [[value.value for value in conflict.values] for conflict in shown(device)]


def detect(device: Device, field: str, value: Json, stood: Json = None) -> Event:
    device.wait(MINUTE)
    return device.record(ConflictDetected(field=field, value=value, stood=stood))


def edit(device: Device, goal: str) -> Event:
    device.wait(MINUTE)
    return device.record(SessionEdited(goal=goal))


# ── registers ────────────────────────────────────────────────────────────────────────────────────────────


def test_detected_conflict_shows_both_values_and_keeps_ours() -> None:
    device = started()
    edit(device, "Ours")
    detect(device, "goal", "Theirs")
    session = view.session(device.state(), LATER)
    assert session.goal == "Ours"
    assert [(conflict.field, conflict.chosen) for conflict in session.conflicts] == [("goal", None)]
    assert sorted(map(str, values(device)[0])) == ["Ours", "Theirs"]
    assert {value.device for value in session.conflicts[0].values} == {"laptop"}
    assert device.state().not_applied == 0


def test_detected_value_equal_to_the_current_one_is_no_conflict() -> None:
    device = started()
    edit(device, "Both")
    detect(device, "goal", "Both")
    assert shown(device) == []


def test_detected_values_are_all_kept() -> None:
    device = started()
    edit(device, "Ours")
    detect(device, "goal", "Second")
    detect(device, "goal", "Third")
    assert sorted(map(str, values(device)[0])) == ["Ours", "Second", "Third"]
    assert view.session(device.state(), LATER).goal == "Ours"


def test_detected_conflict_is_settled_by_a_later_edit() -> None:
    device = started()
    edit(device, "Ours")
    detect(device, "goal", "Theirs")
    edit(device, "Settled")
    assert shown(device) == []
    assert view.session(device.state(), LATER).goal == "Settled"


def test_detected_conflict_is_settled_by_another_device_that_saw_it() -> None:
    device = started()
    edit(device, "Ours")
    detect(device, "goal", "Theirs")
    other = joined(device)
    edit(other, "Settled elsewhere")
    assert shown(other) == []
    device.receive(other)
    assert view.session(device.state(), LATER).goal == "Settled elsewhere"


def test_detected_conflict_stays_open_after_a_write_that_had_not_seen_it() -> None:
    device = started()
    edit(device, "Ours")
    other = joined(device)
    detect(device, "goal", "Theirs")
    edit(other, "Meanwhile")
    state = fold(together(device, other))
    assert "Theirs" in {value.value for value in view.session(state, LATER).conflicts[0].values}


def test_detected_conflict_is_settled_by_choosing_either_value() -> None:
    for theirs in (True, False):
        device = started()
        ours = edit(device, "Ours")
        other = detect(device, "goal", "Theirs")
        chosen, over = (other, ours) if theirs else (ours, other)
        device.record(ConflictResolved(field="goal", chosen=chosen.hash, overruled=(over.hash,)))
        session = view.session(device.state(), LATER)
        assert session.goal == ("Theirs" if theirs else "Ours")
        assert [conflict.chosen is None for conflict in session.conflicts] == [False]
        past = session.conflicts[0]
        assert past.chosen is not None
        assert past.values[past.chosen - 1].value == session.goal
        assert device.state().not_applied == 0


def test_concurrent_choices_of_two_devices_converge() -> None:
    device = started()
    ours = edit(device, "Ours")
    theirs = detect(device, "goal", "Theirs")
    other = joined(device)
    device.record(ConflictResolved(field="goal", chosen=ours.hash, overruled=(theirs.hash,)))
    other.record(ConflictResolved(field="goal", chosen=theirs.hash, overruled=(ours.hash,)))
    events = together(device, other)
    assert fold(events) == fold(reversed(events))
    assert view.session(fold(events), LATER).goal in ("Ours", "Theirs")


# ── statuses: endings win ────────────────────────────────────────────────────────────────────────────────


def test_foreign_ending_wins_over_ongoing_work() -> None:
    device = started()
    device.wait(MINUTE)
    device.record(SessionPaused(reason="lunch"))
    detect(device, "status", "completed")
    session = view.session(device.state(), LATER)
    assert session.status == "completed"
    assert [conflict.field for conflict in session.conflicts] == ["status"]


def test_own_ending_wins_over_foreign_ongoing_work() -> None:
    device = started()
    device.wait(MINUTE)
    device.record(SessionCompleted())
    detect(device, "status", "paused")
    session = view.session(device.state(), LATER)
    assert session.status == "completed"
    assert sorted(map(str, values(device)[0])) == ["completed", "paused"]


def test_own_status_wins_without_an_ending() -> None:
    device = started()
    device.wait(MINUTE)
    device.record(SessionPaused())
    detect(device, "status", "in_progress")
    assert view.session(device.state(), LATER).status == "paused"


def test_detected_conflict_addresses_tasks_and_agents_by_public_name() -> None:
    device = started()
    device.record(TaskAdded(id="t1", text="Test it"))
    device.record(AgentStarted(id="a1", type="coder"))
    detect(device, "tasks.t1.status", "completed")
    detect(device, "agents.a1.status", "paused")
    session = view.session(device.state(), LATER)
    assert [(task.id, task.status) for task in session.tasks] == [("t1", "completed")]
    assert [(agent.id, agent.status) for agent in session.agents] == [("a1", "running")]
    assert {conflict.field for conflict in session.conflicts} == {"tasks.t1.status", "agents.a1.status"}


# ── fields without a register ────────────────────────────────────────────────────────────────────────────


def test_field_without_a_register_becomes_a_conflict_with_both_values() -> None:
    device = started()
    device.record(AgentStarted(id="a1", type="coder", task="Write it"))
    detect(device, "agents.a1.task", "Read it", "Write it")
    detect(device, "x-own.deep", {"a": [1]}, None)
    assert values(device) == [["Write it", "Read it"], [None, {"a": [1]}]]
    assert [(conflict.field, conflict.chosen) for conflict in shown(device)] == [
        ("agents.a1.task", None),
        ("x-own.deep", None),
    ]
    assert view.session(device.state(), LATER).agents[0].task == "Write it"


def test_conflict_without_a_register_is_settled_by_choosing() -> None:
    device = started()
    theirs = detect(device, "x-own", "theirs", "ours")
    device.record(ConflictResolved(field="x-own", chosen=theirs.hash, overruled=()))
    assert [conflict.chosen for conflict in shown(device)] == [2]
    assert device.state().not_applied == 0


@pytest.mark.parametrize("value", [None, 7, "dreaming", "", [], {"a": 1}, True, "completed", "0.5", 0.5])
@pytest.mark.parametrize("field", ["status", "agents.a1.status", "tasks.t1.status", "goal", "progress"])
def test_invalid_value_never_enters_a_field_even_when_chosen(field: str, value: Json) -> None:
    """Another program may write anything; it is shown, but no status or number takes it."""
    device = started()
    device.record(SessionEdited(progress=0.25))
    device.record(AgentStarted(id="a1", type="coder"))
    device.record(TaskAdded(id="t1", text="Test it"))
    theirs = detect(device, field, value)
    assert value in values(device)[0]
    device.record(ConflictResolved(field=field, chosen=theirs.hash, overruled=()))
    session = view.session(device.state(), LATER)
    kind, stands = {
        "status": (("in_progress", "completed"), session.status),
        "agents.a1.status": (("running", "completed"), session.agents[0].status),
        "tasks.t1.status": (("pending", "completed"), session.tasks[0].status),
        "goal": (("Add login", value if isinstance(value, str) else None), session.goal),
        "progress": ((0.25, 0.5, 1.0), session.progress),
    }[field]
    assert stands in kind
    assert [conflict.chosen is None for conflict in session.conflicts] == [False]
    assert device.state().not_applied == 0


def test_unset_field_conflicts_with_a_detected_value() -> None:
    device = started()
    detect(device, "summary", "Done")
    assert values(device) == [[None, "Done"]]
    assert view.session(device.state(), LATER).summary is None


def test_detected_conflict_is_not_activity() -> None:
    device = started()
    device.wait(30 * MINUTE)
    device.record(ConflictDetected(field="goal", value="Theirs"))
    work = view.worktime(device.state(), NOON + 30 * MINUTE)
    assert [(pause.kind, pause.since) for pause in work.pauses] == [("idle", NOON)]


# ── other effects ────────────────────────────────────────────────────────────────────────────────────────


def test_noted_error_does_not_end_the_session() -> None:
    device = started()
    device.record(AgentStarted(id="a1", type="coder"))
    device.record(ErrorNoted(message="Rate limit", category="transient", agent="a1"))
    session = view.session(device.state(), LATER)
    assert session.status == "in_progress"
    assert session.agents[0].status == "running"
    assert [(failure.message, failure.category, failure.agent) for failure in device.state().failures] == [
        ("Rate limit", "transient", "a1")
    ]


@given(histories())
def test_current_value_of_every_dispute_is_among_those_shown(history: History) -> None:
    state = fold(history.events)
    for conflict in view.session(state, LATER).conflicts:
        if conflict.field == "goal" and conflict.chosen is None:
            assert view.text_value(state, "goal") in [value.value for value in conflict.values]


def test_agent_with_a_chosen_ending_has_no_open_run() -> None:
    """Otherwise a pause would go on for it."""
    device = started()
    device.record(AgentStarted(id="a1", type="coder"))
    device.now += 20 * MINUTE
    device.record(ConflictDetected(field="agents.a1.status", value="completed"))
    shown = view.session(device.state(), device.now + 60 * MINUTE)
    assert shown.agents[0].status == "completed"
    assert shown.agents[0].completed_at is not None
    assert [pause.kind for pause in shown.time.pauses] == ["task", "idle"]
    assert shown.time.pauses[0].duration_ms == 20 * MINUTE
