"""The lifecycles of sessions, agents and tasks, as one table each.

A table maps status and event to the next status; an event without an entry is refused. Appending obeys the tables
strictly; folding uses them to detect contradictions. The diagrams in the docs are generated from here.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.errors import Refused
from holdfast.core.events import EVENT_TYPES

Table = dict[str, dict[str, str]]


def _rows(*rows: tuple[str, str, str]) -> Table:
    table: Table = {}
    for event, before, after in rows:
        for status in before.split():
            table.setdefault(status, {})[event] = after
    return table


SESSION: Table = _rows(
    ("session.paused", "in_progress", "paused"),
    ("session.timed_out", "in_progress", "paused"),
    ("session.resumed", "created in_progress paused error", "in_progress"),
    ("session.completed", "in_progress paused", "completed"),
    ("session.failed", "in_progress paused", "error"),
    ("session.aborted", "created in_progress paused error", "aborted"),
)

AGENT: Table = _rows(
    ("agent.progressed", "running", "running"),
    ("agent.paused", "running", "paused"),
    ("agent.resumed", "paused pending", "running"),
    # An interruption is our conclusion, an ending the agent's own report: the report wins.
    ("agent.completed", "running paused interrupted", "completed"),
    ("agent.failed", "pending running paused interrupted", "error"),
    ("agent.timed_out", "running paused", "timeout"),
    ("agent.interrupted", "pending running paused", "interrupted"),
    ("agent.retried", "error timeout interrupted", "running"),
    ("agent.aborted", "pending running paused error timeout interrupted", "aborted"),
)

TASK: Table = _rows(
    ("task.started", "pending blocked", "in_progress"),
    ("task.completed", "pending in_progress", "completed"),
    ("task.blocked", "pending in_progress", "blocked"),
    ("task.dropped", "pending in_progress blocked", "dropped"),
    ("task.reopened", "completed dropped blocked", "pending"),
)

TABLES: dict[str, Table] = {"session": SESSION, "agent": AGENT, "task": TASK}

FIRST = {"session": ("in_progress", "created"), "agent": ("running", "pending"), "task": ("pending",)}

FINISHED = frozenset({"completed", "aborted"})  # of a session: nothing follows
FINAL = {"session": FINISHED, "agent": FINISHED, "task": frozenset({"completed", "dropped"})}

# What may still be recorded in a session that has ended.
_AFTER_THE_END = frozenset(kind.name for kind in EVENT_TYPES.values() if kind.after_end)


class Move(NamedTuple):
    """An event that changes a status: its table, and the new status."""

    table: str
    status: str


# Each event leads to the same status from every other, so concurrent events can be compared by it.
MOVES: dict[str, Move] = {
    event: Move(name, after)
    for name, table in TABLES.items()
    for row in table.values()
    for event, after in row.items()
}


def allows(table: Table, status: str, event: str) -> bool:
    return event in table.get(status, ())


def session_allows(status: str, event: str) -> bool:
    """Whether this event may be appended to a session of this status."""
    move = MOVES.get(event)
    if move is not None and move.table == "session":
        return allows(SESSION, status, event)
    return status not in FINISHED or event in _AFTER_THE_END


_PARTICIPLES = {
    "session.paused": "paused", "session.resumed": "resumed", "session.completed": "completed",
    "session.failed": "marked as failed", "session.aborted": "aborted", "agent.progressed": "given progress",
}  # fmt: skip


def refusal(subject: str, status: str, event: str, session: str | None = None) -> Refused:
    """The error for an event that the table does not allow."""
    words = {"error": "in error", "timeout": "timed out"}.get(status, status.replace("_", " "))
    if status in FINISHED and subject == "the session":
        return Refused(
            f"the session is {words}, which is final",
            hint=f"To continue in a new session: holdfast start GOAL --continues {session or 'ID'}",
            session=session,
        )
    participle = _PARTICIPLES.get(event, event.partition(".")[2].replace("_", " "))
    hint = {
        ("paused", "session.paused"): "To continue: holdfast resume",
        ("error", "session.completed"): "Resume it first: holdfast resume",
        ("error", "session.failed"): "To continue: holdfast resume",
        ("error", "session.paused"): "It has failed. To continue: holdfast resume",
    }.get((status, event))
    move = MOVES.get(event)
    if move is not None and move.status == status:
        return Refused(f"{subject} is {words} already", hint=hint, session=session)
    return Refused(f"{subject} is {words} and cannot be {participle}", hint=hint, session=session)
