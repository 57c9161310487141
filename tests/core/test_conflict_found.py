"""A field somebody changed without having seen what stands there: both values are kept until a person chooses."""

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


def found(device: Device, field: str, value: Json, stood: Json = None) -> Event:
    device.wait(MINUTE)
    return device.record(ConflictDetected(field=field, value=value, stood=stood))


def edited(device: Device, goal: str) -> Event:
    device.wait(MINUTE)
    return device.record(SessionEdited(goal=goal))


# ── registers ────────────────────────────────────────────────────────────────────────────────────────────


def test_detected_conflict_shows_both_values_and_ours_counts() -> None:
    device = started()
    edited(device, "Ours")
    found(device, "goal", "Theirs")
    session = view.session(device.state(), LATER)
    assert session.goal == "Ours"
    assert [(conflict.field, conflict.chosen) for conflict in session.conflicts] == [("goal", None)]
    assert sorted(map(str, values(device)[0])) == ["Ours", "Theirs"]
    assert {value.device for value in session.conflicts[0].values} == {"laptop"}
    assert device.state().not_applied == 0


def test_detected_value_equal_to_the_current_one_is_no_conflict() -> None:
    device = started()
    edited(device, "Both")
    found(device, "goal", "Both")
    assert shown(device) == []


def test_several_who_had_not_seen_it_are_all_kept() -> None:
    device = started()
    edited(device, "Ours")
    found(device, "goal", "Second")
    found(device, "goal", "Third")
    assert sorted(map(str, values(device)[0])) == ["Ours", "Second", "Third"]
    assert view.session(device.state(), LATER).goal == "Ours"


def test_a_later_edit_settles_it() -> None:
    device = started()
    edited(device, "Ours")
    found(device, "goal", "Theirs")
    edited(device, "Settled")
    assert shown(device) == []
    assert view.session(device.state(), LATER).goal == "Settled"


def test_conflict_is_settled_by_another_device_that_has_seen_it() -> None:
    device = started()
    edited(device, "Ours")
    found(device, "goal", "Theirs")
    other = joined(device)
    edited(other, "Settled elsewhere")
    assert shown(other) == []
    device.hear(other)
    assert view.session(device.state(), LATER).goal == "Settled elsewhere"


def test_conflict_stays_open_after_a_write_of_a_device_that_has_not_seen_it() -> None:
    device = started()
    edited(device, "Ours")
    other = joined(device)
    found(device, "goal", "Theirs")
    edited(other, "Meanwhile")
    state = fold(together(device, other))
    assert "Theirs" in {value.value for value in view.session(state, LATER).conflicts[0].values}


def test_choosing_either_value_settles_it() -> None:
    for theirs in (True, False):
        device = started()
        ours = edited(device, "Ours")
        other = found(device, "goal", "Theirs")
        chosen, over = (other, ours) if theirs else (ours, other)
        device.record(ConflictResolved(field="goal", chosen=chosen.hash, overruled=(over.hash,)))
        session = view.session(device.state(), LATER)
        assert session.goal == ("Theirs" if theirs else "Ours")
        assert [conflict.chosen is None for conflict in session.conflicts] == [False]
        past = session.conflicts[0]
        assert past.chosen is not None
        assert past.values[past.chosen - 1].value == session.goal
        assert device.state().not_applied == 0


def test_two_devices_that_choose_apart_meet_again() -> None:
    device = started()
    ours = edited(device, "Ours")
    theirs = found(device, "goal", "Theirs")
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
    found(device, "status", "completed")
    session = view.session(device.state(), LATER)
    assert session.status == "completed"
    assert [conflict.field for conflict in session.conflicts] == ["status"]


def test_own_ending_wins_over_foreign_ongoing_work() -> None:
    device = started()
    device.wait(MINUTE)
    device.record(SessionCompleted())
    found(device, "status", "paused")
    session = view.session(device.state(), LATER)
    assert session.status == "completed"
    assert sorted(map(str, values(device)[0])) == ["completed", "paused"]


def test_without_an_ending_the_status_is_ours() -> None:
    device = started()
    device.wait(MINUTE)
    device.record(SessionPaused())
    found(device, "status", "in_progress")
    assert view.session(device.state(), LATER).status == "paused"


def test_detected_conflict_reaches_tasks_and_agents_by_public_name() -> None:
    device = started()
    device.record(TaskAdded(id="t1", text="Test it"))
    device.record(AgentStarted(id="a1", type="coder"))
    found(device, "tasks.t1.status", "completed")
    found(device, "agents.a1.status", "paused")
    session = view.session(device.state(), LATER)
    assert [(task.id, task.status) for task in session.tasks] == [("t1", "completed")]
    assert [(agent.id, agent.status) for agent in session.agents] == [("a1", "running")]
    assert {conflict.field for conflict in session.conflicts} == {"tasks.t1.status", "agents.a1.status"}


# ── what is no register ──────────────────────────────────────────────────────────────────────────────────


def test_what_is_no_register_becomes_a_clash_with_both_values() -> None:
    device = started()
    device.record(AgentStarted(id="a1", type="coder", task="Write it"))
    found(device, "agents.a1.task", "Read it", "Write it")
    found(device, "x-own.deep", {"a": [1]}, None)
    assert values(device) == [["Write it", "Read it"], [None, {"a": [1]}]]
    assert [(conflict.field, conflict.chosen) for conflict in shown(device)] == [
        ("agents.a1.task", None),
        ("x-own.deep", None),
    ]
    assert view.session(device.state(), LATER).agents[0].task == "Write it"


def test_a_clash_is_settled_by_choosing() -> None:
    device = started()
    theirs = found(device, "x-own", "theirs", "ours")
    device.record(ConflictResolved(field="x-own", chosen=theirs.hash, overruled=()))
    assert [conflict.chosen for conflict in shown(device)] == [2]
    assert device.state().not_applied == 0


@pytest.mark.parametrize("value", [None, 7, "dreaming", "", [], {"a": 1}, True, "completed", "0.5", 0.5])
@pytest.mark.parametrize("field", ["status", "agents.a1.status", "tasks.t1.status", "goal", "progress"])
def test_what_cannot_stand_in_a_field_never_does_even_if_somebody_chooses_it(field: str, value: Json) -> None:
    """Another program may write anything: it is shown, and no status or number becomes something else."""
    device = started()
    device.record(SessionEdited(progress=0.25))
    device.record(AgentStarted(id="a1", type="coder"))
    device.record(TaskAdded(id="t1", text="Test it"))
    theirs = found(device, field, value)
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


def test_a_field_nobody_has_set_is_a_clash_too() -> None:
    device = started()
    found(device, "summary", "Done")
    assert values(device) == [[None, "Done"]]
    assert view.session(device.state(), LATER).summary is None


def test_finding_a_conflict_is_no_sign_of_activity() -> None:
    device = started()
    device.wait(30 * MINUTE)
    device.record(ConflictDetected(field="goal", value="Theirs"))
    work = view.worktime(device.state(), NOON + 30 * MINUTE)
    assert [(pause.kind, pause.since) for pause in work.pauses] == [("idle", NOON)]


# ── and beside it ────────────────────────────────────────────────────────────────────────────────────────


def test_an_error_that_was_noted_ends_nothing() -> None:
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
def test_current_value_of_any_dispute_is_one_of_those_shown(history: History) -> None:
    state = fold(history.events)
    for conflict in view.session(state, LATER).conflicts:
        if conflict.field == "goal" and conflict.chosen is None:
            assert view.text_value(state, "goal") in [value.value for value in conflict.values]


def test_agent_with_a_chosen_ending_has_no_open_run() -> None:
    """Whichever event made an ending stand, its run is over: no pause goes on for it."""
    device = started()
    device.record(AgentStarted(id="a1", type="coder"))
    device.now += 20 * MINUTE
    device.record(ConflictDetected(field="agents.a1.status", value="completed"))
    shown = view.session(device.state(), device.now + 60 * MINUTE)
    assert shown.agents[0].status == "completed"
    assert shown.agents[0].completed_at is not None
    assert [pause.kind for pause in shown.time.pauses] == ["task", "idle"]
    assert shown.time.pauses[0].duration_ms == 20 * MINUTE
