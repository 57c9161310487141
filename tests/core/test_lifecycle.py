"""What may follow what, written down a second time from the words of the decisions."""

from __future__ import annotations

import itertools

import pytest

from holdfast.core.events import EVENT_TYPES
from holdfast.core.lifecycle import (
    AGENT,
    FINAL,
    FINISHED,
    FIRST,
    MOVES,
    SESSION,
    TABLES,
    TASK,
    allows,
    refusal,
    session_allows,
)

# "created → in_progress; in_progress ↔ paused; in_progress or paused → completed or error; error → in_progress;
# everything unfinished → aborted. Completed and aborted are terminal. `resume` of a session that is in_progress
# makes it current here." The timeout is a pause.
SESSION_MOVES = {
    ("created", "session.resumed", "in_progress"), ("created", "session.aborted", "aborted"),
    ("in_progress", "session.paused", "paused"), ("in_progress", "session.timed_out", "paused"),
    ("in_progress", "session.resumed", "in_progress"), ("in_progress", "session.completed", "completed"),
    ("in_progress", "session.failed", "error"), ("in_progress", "session.aborted", "aborted"),
    ("paused", "session.resumed", "in_progress"), ("paused", "session.completed", "completed"),
    ("paused", "session.failed", "error"), ("paused", "session.aborted", "aborted"),
    ("error", "session.resumed", "in_progress"), ("error", "session.aborted", "aborted"),
}  # fmt: skip

# "task pending → in_progress → completed, pending → completed; pending or in_progress ↔ blocked; any → dropped;
# nothing leaves completed or dropped except by `reopen`."
TASK_MOVES = {
    ("pending", "task.started", "in_progress"), ("pending", "task.completed", "completed"),
    ("pending", "task.blocked", "blocked"), ("pending", "task.dropped", "dropped"),
    ("in_progress", "task.completed", "completed"), ("in_progress", "task.blocked", "blocked"),
    ("in_progress", "task.dropped", "dropped"),
    ("blocked", "task.started", "in_progress"), ("blocked", "task.reopened", "pending"),
    ("blocked", "task.dropped", "dropped"),
    ("completed", "task.reopened", "pending"), ("dropped", "task.reopened", "pending"),
}  # fmt: skip

# Statuses of the table at the top: pending, running, paused, completed, error, timeout, aborted, interrupted.
AGENT_MOVES = {
    ("pending", "agent.resumed", "running"), ("pending", "agent.failed", "error"),
    ("pending", "agent.aborted", "aborted"), ("pending", "agent.interrupted", "interrupted"),
    ("running", "agent.progressed", "running"), ("running", "agent.paused", "paused"),
    ("running", "agent.completed", "completed"), ("running", "agent.failed", "error"),
    ("running", "agent.timed_out", "timeout"), ("running", "agent.interrupted", "interrupted"),
    ("running", "agent.aborted", "aborted"),
    ("paused", "agent.resumed", "running"), ("paused", "agent.completed", "completed"),
    ("paused", "agent.failed", "error"), ("paused", "agent.timed_out", "timeout"),
    ("paused", "agent.interrupted", "interrupted"), ("paused", "agent.aborted", "aborted"),
    ("error", "agent.retried", "running"), ("error", "agent.aborted", "aborted"),
    ("timeout", "agent.retried", "running"), ("timeout", "agent.aborted", "aborted"),
    ("interrupted", "agent.retried", "running"), ("interrupted", "agent.aborted", "aborted"),
    ("interrupted", "agent.completed", "completed"), ("interrupted", "agent.failed", "error"),
}  # fmt: skip

STATUSES = {
    "session": {"created", "in_progress", "paused", "completed", "error", "aborted"},
    "agent": {"pending", "running", "paused", "completed", "error", "timeout", "aborted", "interrupted"},
    "task": {"pending", "in_progress", "completed", "blocked", "dropped"},
}
EXPECTED = {"session": SESSION_MOVES, "agent": AGENT_MOVES, "task": TASK_MOVES}


@pytest.mark.parametrize("name", ["session", "agent", "task"])
def test_the_table_allows_exactly_what_is_decided(name: str) -> None:
    """Every pair of status and event is allowed or refused as the decisions say."""
    table = TABLES[name]
    events = {event for _, event, _ in EXPECTED[name]}
    for status, event in itertools.product(STATUSES[name], events):
        expected = next((after for before, what, after in EXPECTED[name] if (before, what) == (status, event)), None)
        assert allows(table, status, event) == (expected is not None), (status, event)
        assert table.get(status, {}).get(event) == expected
    assert {event for row in table.values() for event in row} == events
    assert set(table) <= STATUSES[name]


def test_every_status_can_be_reached() -> None:
    """There is a way from a first status to each other one."""
    for name, table in TABLES.items():
        reached = set(FIRST[name])
        while True:
            more = {after for status in reached for after in table.get(status, {}).values()} - reached
            if not more:
                break
            reached |= more
        assert reached == STATUSES[name]


def test_nothing_follows_an_ending() -> None:
    """Completed and aborted sessions and agents stay so; a task comes back only by reopening."""
    for status in FINISHED:
        assert status not in SESSION
        assert status not in AGENT
    for status in FINAL["task"]:
        assert set(TASK[status]) == {"task.reopened"}


def test_every_event_leads_to_one_status() -> None:
    """Concurrent events can be compared because each means one status, whatever came before."""
    for name, moves in EXPECTED.items():
        for _, event, after in moves:
            assert MOVES[event] == (name, after)
    assert set(MOVES) <= set(EVENT_TYPES)


def test_finished_session_accepts_only_events_about_it() -> None:
    """After the end: putting away, deleting, erasing, conflicts, naming, keeping, corrections. Nothing of work."""
    after = {
        "session.archived", "session.unarchived", "session.deleted", "event.erased", "conflict.resolved",
        "conflict.found", "alias.given", "native.linked", "native.closed", "native.moved", "device.joined",
        "extra.kept", "away.recorded", "worked.recorded", "conversation.updated",
    }  # fmt: skip
    for status in FINISHED:
        assert {event for event in EVENT_TYPES if session_allows(status, event)} == after


def test_an_unfinished_session_takes_everything_but_wrong_moves() -> None:
    """Work can be recorded in every other status; only the session's own moves follow the table."""
    moves = {event for event, move in MOVES.items() if move.table == "session"}
    for status in STATUSES["session"] - FINISHED:
        for event in EVENT_TYPES:
            assert session_allows(status, event) == (event not in moves or event in SESSION[status])


def test_refusals_are_sentences() -> None:
    """Every refusal says what is so and what therefore cannot be, and how to go on where there is a way."""
    for name, moves in EXPECTED.items():
        for status, event in itertools.product(STATUSES[name], {event for _, event, _ in moves}):
            said = refusal(f"the {name}", status, event, "ID")
            assert said.exit_code == 1
            words = {"error": "in error", "timeout": "timed out"}.get(status, status.replace("_", " "))
            assert said.message.startswith(f"the {name} is {words}")
            assert "_" not in said.message
    assert "--continues ID" in (refusal("the session", "completed", "session.paused", "ID").hint or "")
    assert refusal("agent a1", "completed", "agent.progressed").message == (
        "agent a1 is completed and cannot be given progress"
    )
    assert "resume" in (refusal("the session", "paused", "session.paused").hint or "")
