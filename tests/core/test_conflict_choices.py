"""Choosing between conflicting values settles exactly the conflict that was meant."""

from __future__ import annotations

import pytest

from holdfast.core import view
from holdfast.core.events import (
    AgentAborted,
    AgentResumed,
    AgentStarted,
    ConflictResolved,
    NoteAdded,
    PhaseAdded,
    SessionArchived,
    SessionCompleted,
    SessionPaused,
)
from holdfast.core.fold import fold
from holdfast.core.registers import disputes
from tests.support.histories import MINUTE, NOON, joined, started, together


@pytest.mark.parametrize("take", [1, 2])
def test_refused_transition_can_be_confirmed_or_overruled(take: int) -> None:
    """A foreign program resumed an agent that it knew to be aborted; either status can be chosen."""
    device = started()
    made = device.record(AgentStarted(id="a1", type="t"))
    ended = device.record(AgentAborted(id="a1", ref=made.hash))
    resumed = device.record(AgentResumed(id="a1", ref=made.hash))
    (open_dispute,) = disputes(device.state())
    assert (open_dispute.stands, [write.value for write in open_dispute.writes]) == (1, ["aborted", "running"])
    chosen, other = (ended, resumed) if take == 1 else (resumed, ended)
    device.record(ConflictResolved(field=open_dispute.field, chosen=chosen.hash, overruled=(other.hash,)))
    (settled,) = disputes(device.state())
    assert (settled.id, settled.chosen) == (open_dispute.id, take)
    (agent,) = view.session(device.state(), NOON + MINUTE).agents
    assert agent.status == ("aborted", "running")[take - 1]


def test_choice_between_three_duplicates_settles_only_the_chosen_pair() -> None:
    """Two conflicts share a value; choosing it in the first leaves the second open."""
    device = started()
    events = [device.record(AgentStarted(id="a1", type="t", task=task)) for task in ("One", "Two", "Three")]
    first, second = disputes(device.state())
    device.record(
        ConflictResolved(field="agents.a1", chosen=events[1].hash, overruled=(events[0].hash,)),
    )
    assert [(dispute.id, dispute.chosen) for dispute in disputes(device.state())] == [
        (first.id, 2),
        (second.id, None),
    ]


def test_choice_between_phase_names_settles_one_pair_at_a_time() -> None:
    """The first name has no event to choose, and is addressed by an empty hash."""
    device = started()
    device.record(PhaseAdded(id="p", name="Zero"))
    events = [device.record(PhaseAdded(id="p", name=name)) for name in ("One", "Two")]
    first, second = disputes(device.state())
    assert first.id != second.id
    device.record(ConflictResolved(field="phases.p", chosen="", overruled=(events[0].hash,)))
    assert [dispute.chosen for dispute in disputes(device.state())] == [1, None]


def test_chosen_ending_keeps_its_time() -> None:
    """Chosen an hour later, the session still ended at its recorded time."""
    one = started()
    two = joined(one)
    one.wait(MINUTE)
    done = one.record(SessionCompleted())
    pause = two.record(SessionPaused())
    two.receive(one)
    two.wait(60 * MINUTE)
    two.record(ConflictResolved(field="status", chosen=done.hash, overruled=(pause.hash,)))
    state = fold(together(one, two))
    assert view.status_of(state) == "completed"
    assert view.ended_at(state) == done.at


def test_dispute_names_the_current_value_before_and_after_a_choice() -> None:
    """The ending counts over concurrent work until a person chooses the work."""
    one = started()
    two = joined(one)
    done = one.record(SessionCompleted())
    one.wait(MINUTE)
    two.wait(2 * MINUTE)
    pause = two.record(SessionPaused())
    two.receive(one)
    (open_dispute,) = disputes(fold(together(one, two)))
    assert open_dispute.writes[open_dispute.stands - 1].hash == done.hash
    two.record(ConflictResolved(field="status", chosen=pause.hash, overruled=(done.hash,)))
    (settled,) = disputes(fold(together(one, two)))
    assert settled.id == open_dispute.id
    assert settled.writes[settled.stands - 1].hash == pause.hash


@pytest.mark.parametrize("first", [True, False])
def test_work_concurrent_with_an_ending_is_shown_and_can_be_chosen(first: bool) -> None:
    """Completed on one device and continued on another: the ending counts, and a person may choose the work."""
    one = started()
    two = joined(one)
    one.wait(1 if first else 5 * MINUTE)
    two.wait(2 * MINUTE)
    done = one.record(SessionCompleted())
    work = two.record(NoteAdded(text="Still at it"))
    two.wait(MINUTE)
    two.record(NoteAdded(text="And again"))
    state = fold(together(one, two))
    (disputed,) = disputes(state)
    assert view.status_of(state) == "completed"
    assert view.ended_at(state) == done.at
    assert {(write.value, state.devices[write.writer]) for write in disputed.writes} == {
        ("completed", "laptop"), ("in_progress", "desktop"),
    }  # fmt: skip
    other = next(write for write in disputed.writes if write.writer == two.writer)
    if first:
        assert other.hash == work.hash
    one.receive(two)
    one.record(ConflictResolved(field="status", chosen=other.hash, overruled=(done.hash,)))
    after = fold(together(one, two))
    assert view.status_of(after) == "in_progress"
    assert [dispute.chosen is None for dispute in disputes(after)] == [False]


def test_ending_that_has_seen_all_work_makes_no_conflict() -> None:
    """Archiving afterwards is not work."""
    one = started()
    two = joined(one)
    two.record(NoteAdded(text="Mine"))
    one.receive(two)
    one.record(SessionCompleted())
    assert disputes(fold(together(one, two))) == []
    two.receive(one)
    two.record(SessionArchived())
    assert disputes(fold(together(one, two))) == []


def test_choice_of_work_survives_when_the_work_continued_meanwhile() -> None:
    """The desktop keeps working, unaware, while a person chooses its work."""
    one = started()
    two = joined(one)
    done = one.record(SessionCompleted())
    two.wait(MINUTE)
    work = two.record(NoteAdded(text="One"))
    one.receive(two)
    two.wait(MINUTE)
    two.record(NoteAdded(text="Two"))
    one.wait(5 * MINUTE)
    one.record(ConflictResolved(field="status", chosen=work.hash, overruled=(done.hash,)))
    assert view.status_of(fold(together(one, two))) == "in_progress"
