"""Choosing between values that cannot both be true: whatever a person picks, that conflict is the one settled."""

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
def test_a_move_that_was_refused_is_settled_either_way(take: int) -> None:
    """A foreign program resumed an agent it knew to be aborted: what stands can be confirmed as well as overruled."""
    device = started()
    made = device.record(AgentStarted(id="a1", type="t"))
    ended = device.record(AgentAborted(id="a1", ref=made.hash))
    went_on = device.record(AgentResumed(id="a1", ref=made.hash))
    (found,) = disputes(device.state())
    assert (found.stands, [write.value for write in found.writes]) == (1, ["aborted", "running"])
    chosen, other = (ended, went_on) if take == 1 else (went_on, ended)
    device.record(ConflictResolved(field=found.field, chosen=chosen.hash, overruled=(other.hash,)))
    (settled,) = disputes(device.state())
    assert (settled.id, settled.chosen) == (found.id, take)
    (agent,) = view.session(device.state(), NOON + MINUTE).agents
    assert agent.status == ("aborted", "running")[take - 1]


def test_of_three_twins_the_pair_that_was_meant_is_settled() -> None:
    """Two conflicts share a value: choosing it in the first does not settle the second."""
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


def test_names_of_one_phase_are_settled_one_by_one() -> None:
    """What stood there first has no event of its own to be chosen by, and is found all the same."""
    device = started()
    device.record(PhaseAdded(id="p", name="Zero"))
    events = [device.record(PhaseAdded(id="p", name=name)) for name in ("One", "Two")]
    first, second = disputes(device.state())
    assert first.id != second.id
    device.record(ConflictResolved(field="phases.p", chosen="", overruled=(events[0].hash,)))
    assert [dispute.chosen for dispute in disputes(device.state())] == [1, None]


def test_an_ending_that_is_chosen_keeps_its_time() -> None:
    """Chosen an hour later, the session still ended when it did."""
    one = started()
    two = joined(one)
    one.wait(MINUTE)
    done = one.record(SessionCompleted())
    pause = two.record(SessionPaused())
    two.hear(one)
    two.wait(60 * MINUTE)
    two.record(ConflictResolved(field="status", chosen=done.hash, overruled=(pause.hash,)))
    state = fold(together(one, two))
    assert view.status_of(state) == "completed"
    assert view.ended_at(state) == done.at


def test_dispute_names_the_current_value_before_and_after_a_choice() -> None:
    """An ending stands over work that went on; after the choice, what was chosen does."""
    one = started()
    two = joined(one)
    done = one.record(SessionCompleted())
    one.wait(MINUTE)
    two.wait(2 * MINUTE)
    pause = two.record(SessionPaused())
    two.hear(one)
    (found,) = disputes(fold(together(one, two)))
    assert found.writes[found.stands - 1].hash == done.hash
    two.record(ConflictResolved(field="status", chosen=pause.hash, overruled=(done.hash,)))
    (settled,) = disputes(fold(together(one, two)))
    assert settled.id == found.id
    assert settled.writes[settled.stands - 1].hash == pause.hash


@pytest.mark.parametrize("first", [True, False])
def test_work_concurrent_with_an_ending_is_shown_and_can_be_chosen(first: bool) -> None:
    """Completed here, worked on there, neither knowing: the ending stands, says so, and a person may overrule it."""
    one = started()
    two = joined(one)
    one.wait(1 if first else 5 * MINUTE)
    two.wait(2 * MINUTE)
    done = one.record(SessionCompleted())
    work = two.record(NoteAdded(text="Still at it"))
    two.wait(MINUTE)
    two.record(NoteAdded(text="And again"))
    state = fold(together(one, two))
    (found,) = disputes(state)
    assert view.status_of(state) == "completed"
    assert view.ended_at(state) == done.at
    assert {(write.value, state.devices[write.writer]) for write in found.writes} == {
        ("completed", "laptop"), ("in_progress", "desktop"),
    }  # fmt: skip
    other = next(write for write in found.writes if write.writer == two.writer)
    if first:
        assert other.hash == work.hash
    one.hear(two)
    one.record(ConflictResolved(field="status", chosen=other.hash, overruled=(done.hash,)))
    after = fold(together(one, two))
    assert view.status_of(after) == "in_progress"
    assert [dispute.chosen is None for dispute in disputes(after)] == [False]


def test_work_that_is_known_to_whoever_ends_it_is_no_conflict() -> None:
    """Both worked, then one ended it having heard of everything; what is filed away later is no work."""
    one = started()
    two = joined(one)
    two.record(NoteAdded(text="Mine"))
    one.hear(two)
    one.record(SessionCompleted())
    assert disputes(fold(together(one, two))) == []
    two.hear(one)
    two.record(SessionArchived())
    assert disputes(fold(together(one, two))) == []


def test_a_choice_for_work_that_went_on_meanwhile_is_not_lost() -> None:
    """The desktop works on unknowing while a person chooses its work: that is what stands."""
    one = started()
    two = joined(one)
    done = one.record(SessionCompleted())
    two.wait(MINUTE)
    work = two.record(NoteAdded(text="One"))
    one.hear(two)
    two.wait(MINUTE)
    two.record(NoteAdded(text="Two"))
    one.wait(5 * MINUTE)
    one.record(ConflictResolved(field="status", chosen=work.hash, overruled=(done.hash,)))
    assert view.status_of(fold(together(one, two))) == "in_progress"
