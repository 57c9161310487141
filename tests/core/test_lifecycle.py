"""The lifecycle tables, written down a second time from the words of the decisions."""

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
def test_tables_allow_exactly_the_decided_transitions(name: str) -> None:
    """Every pair of status and event."""
    table = TABLES[name]
    events = {event for _, event, _ in EXPECTED[name]}
    for status, event in itertools.product(STATUSES[name], events):
        expected = next((after for before, what, after in EXPECTED[name] if (before, what) == (status, event)), None)
        assert allows(table, status, event) == (expected is not None), (status, event)
        assert table.get(status, {}).get(event) == expected
    assert {event for row in table.values() for event in row} == events
    assert set(table) <= STATUSES[name]


def test_every_status_can_be_reached() -> None:
    for name, table in TABLES.items():
        reached = set(FIRST[name])
        while True:
            more = {after for status in reached for after in table.get(status, {}).values()} - reached
            if not more:
                break
            reached |= more
        assert reached == STATUSES[name]


def test_endings_are_terminal() -> None:
    """Sessions and agents stay completed or aborted; a task leaves its ending only by reopening."""
    for status in FINISHED:
        assert status not in SESSION
        assert status not in AGENT
    for status in FINAL["task"]:
        assert set(TASK[status]) == {"task.reopened"}


def test_every_event_leads_to_a_single_status() -> None:
    """Concurrent events are comparable because each leads to one status, whatever came before."""
    for name, moves in EXPECTED.items():
        for _, event, after in moves:
            assert MOVES[event] == (name, after)
    assert set(MOVES) <= set(EVENT_TYPES)


def test_finished_session_accepts_only_events_about_it() -> None:
    """Archiving, deleting, erasing, conflicts, aliases, extra fields, corrections; no work."""
    after = {
        "session.archived", "session.unarchived", "session.deleted", "event.erased", "conflict.resolved",
        "conflict.found", "alias.given", "native.linked", "native.closed", "native.moved", "device.joined",
        "extra.kept", "away.recorded", "worked.recorded", "conversation.updated",
    }  # fmt: skip
    for status in FINISHED:
        assert {event for event in EVENT_TYPES if session_allows(status, event)} == after


def test_unfinished_session_accepts_all_but_forbidden_transitions() -> None:
    moves = {event for event, move in MOVES.items() if move.table == "session"}
    for status in STATUSES["session"] - FINISHED:
        for event in EVENT_TYPES:
            assert session_allows(status, event) == (event not in moves or event in SESSION[status])


def test_refusals_are_sentences_with_a_way_forward() -> None:
    """Each says what the status is, what is therefore impossible, and what to do if something can be done."""
    for name, moves in EXPECTED.items():
        for status, event in itertools.product(STATUSES[name], {event for _, event, _ in moves}):
            sentence = refusal(f"the {name}", status, event, "ID")
            assert sentence.exit_code == 1
            words = {"error": "in error", "timeout": "timed out"}.get(status, status.replace("_", " "))
            assert sentence.message.startswith(f"the {name} is {words}")
            assert "_" not in sentence.message
    assert "--continues ID" in (refusal("the session", "completed", "session.paused", "ID").hint or "")
    assert refusal("agent a1", "completed", "agent.progressed").message == (
        "agent a1 is completed and cannot be given progress"
    )
    assert "resume" in (refusal("the session", "paused", "session.paused").hint or "")
