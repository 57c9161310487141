"""The document of the public contract: exactly its keys, in its order, with their meaning."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core import view
from holdfast.core.events import (
    AgentAborted,
    AgentCompleted,
    AgentFailed,
    AgentProgressed,
    AgentRetried,
    AgentStarted,
    AgentTimedOut,
    AliasGiven,
    CommandRan,
    CommitRecorded,
    ContextCompressed,
    ContextMeasured,
    DecisionMade,
    EventData,
    ExtraKept,
    FileChanged,
    NativeLinked,
    NoteAdded,
    PhaseAdded,
    ReminderReached,
    SessionCompleted,
    SessionEdited,
    SessionFailed,
    SessionPaused,
    SessionResumed,
    TaskAdded,
    TaskBlocked,
    TaskCompleted,
    TaskDropped,
    TaskReopened,
    TaskStarted,
    WaitingEnded,
    WaitingStarted,
)
from holdfast.core.fold import fold
from holdfast.core.model import Aliases, Row, Session
from tests.support.histories import MINUTE, NOON, PROJECT, SESSION, Device, joined, started, together

# The contract's document. A list means a list of such objects, None any value.
CONTRACT: dict[str, Any] = {
    "id": None,
    "aliases": {"orchestrator": None, "timer": None, "contract": None, "craft": None},
    "project": {"name": None, "path": None, "git_branch": None, "git_commit": None, "remote": None},
    "goal": None, "summary": None, "mode": None, "model": None, "status": None, "over": None, "progress": None,
    "scope": None, "task": None, "feature": None, "branch": None, "tags": None, "continues": None,
    "created_at": None, "updated_at": None, "started_at": None, "ended_at": None, "device": None, "devices": None,
    "cost_usd": None,
    "waiting": [{"at": None, "for": None, "text": None}],
    "native": [{"agent": None, "id": None, "resume": None}],
    "conversations": [{
        "id": None, "agent": None, "title": None, "model": None, "started_at": None, "ended_at": None,
        "prompts": None, "kept": None, "resume": None, "cost_usd": None,
        "tokens": {"input": None, "output": None, "cache_read": None, "cache_write": None},
    }],
    "commits": [{
        "sha": None, "at": None, "subject": None, "conversation": None, "branch": None, "certainty": None,
        "among": None, "replaces": None,
    }],
    "agents": [{
        "id": None, "type": None, "task": None, "status": None, "progress": None, "started_at": None,
        "completed_at": None, "duration_ms": None, "result": None, "summary": None, "blocking_on": None,
        "tokens": None, "retries": None, "pid": None, "background": None,
        "error": {"category": None, "message": None, "retry_count": None, "last_retry_at": None},
        "files": {"created": None, "modified": None, "deleted": None},
    }],
    "phases": [{"id": None, "name": None}],
    "tasks": [{
        "id": None, "text": None, "phase": None, "agent": None, "status": None, "outcome": None, "artifacts": None,
        "created_at": None, "started_at": None, "completed_at": None,
    }],
    "decisions": [{"at": None, "chosen": None, "context": None, "options": None, "why": None}],
    "files": [{
        "path": None, "action": None, "agent": None, "at": None, "lines_added": None, "lines_removed": None,
        "hash_before": None, "hash_after": None, "by": None, "among": None,
    }],
    "context": {
        "tokens": None, "window": None, "percent": None, "level": None, "compressions": None,
        "last_compression": None, "by_agent": None,
    },
    "time": {
        "elapsed_ms": None, "working_ms": None, "paused_ms": None, "idle_since": None,
        "pauses": [{"kind": None, "reason": None, "started_at": None, "ended_at": None, "duration_ms": None}],
        "reminders": {"break_40": None, "warning_60": None, "timeout_90": None}, "reminder": None,
    },
    "notes": [{"at": None, "text": None}],
    "errors": [{"at": None, "message": None, "category": None, "agent": None}],
    "conflicts": [{
        "id": None, "field": None, "values": [{"value": None, "device": None, "at": None}], "chosen": None,
    }],
    "commands": {"total": None, "failed": None, "last": None},
    "sync": {"remote": None, "status": None, "last_sync": None, "error": None, "shared_with": None},
    "extra": None,
}  # fmt: skip


def full() -> list[Device]:
    """Two devices that recorded every kind of event."""
    one = started()
    everything: list[EventData] = [
        AgentStarted(id="a1", type="coder", task="Build"), AgentProgressed(id="a1", progress=0.25),
        AgentFailed(id="a1", category="transient", message="net"), PhaseAdded(id="p1", name="Plan"),
        TaskAdded(id="t1", text="Write", phase="p1"), DecisionMade(chosen="A", options=("A", "B"), why="w"),
        FileChanged(path="a.py", action="modified", agent="a1"), ContextMeasured(tokens=5), NoteAdded(text="n"),
        NativeLinked(agent="claude", id="abc", resume="claude --resume abc"), CommandRan(command="make", code=2),
        WaitingStarted(id="q", for_="permission", text="?"), AliasGiven(format="timer", id="20261115-shop-login"),
        CommitRecorded(sha="a" * 40, message="Build"), ExtraKept(name="x", value=1), SessionPaused(reason="r"),
    ]  # fmt: skip
    for data in everything:
        one.record(data)
    two = joined(one)
    one.record(SessionEdited(goal="One"))
    two.record(SessionEdited(goal="Two"))
    return [one, two]


def now(*devices: Device, at: int = NOON + MINUTE) -> Session:
    return view.session(fold(together(*devices)), at)


def same_shape(expected: Any, actual: Any, where: str) -> None:
    if isinstance(expected, dict):
        assert list(actual) == list(expected), where
        for key, inner in expected.items():
            same_shape(inner, actual[key], f"{where}.{key}")
    elif isinstance(expected, list):
        assert actual, f"{where} is empty"
        for item in actual:
            same_shape(expected[0], item, where)


def test_document_has_exactly_the_contracts_keys_in_order() -> None:
    """At every level."""
    document = msgspec.json.decode(msgspec.json.encode(now(*full())))
    same_shape(CONTRACT, document, "session")


def test_document_of_an_empty_session_has_null_for_unknown_values() -> None:
    document = msgspec.json.decode(msgspec.json.encode(view.session(fold([], SESSION), NOON)))
    assert list(document) == list(CONTRACT)
    for name in ("aliases", "project", "context", "commands", "sync"):
        assert list(document[name]) == list(CONTRACT[name])
    assert document["agents"] == document["tasks"] == document["conflicts"] == document["tags"] == []
    assert document["model"] is document["ended_at"] is document["cost_usd"] is document["context"]["tokens"] is None


def test_history_row_has_the_contracts_keys() -> None:
    assert Row.__struct_fields__ == (
        "id", "goal", "status", "progress", "project", "device", "created_at", "updated_at", "working_ms", "archived",
        "over", "aliases",
    )  # fmt: skip
    assert Aliases.__struct_fields__ == ("orchestrator", "timer", "contract", "craft")


def test_started_session_shows_what_start_recorded() -> None:
    document = now(started())
    assert document.id == SESSION
    assert (document.goal, document.mode, document.status, document.progress) == (
        "Add login",
        "default",
        "in_progress",
        0,
    )
    assert document.project.name == PROJECT.name
    assert document.created_at == document.updated_at == document.started_at == "2026-11-15T12:00:00.000Z"
    assert document.ended_at is None
    assert (document.device, document.devices) == ("laptop", ["laptop"])


def test_imported_session_has_no_start_until_it_is_resumed() -> None:
    """Created but not started."""
    device = started(status="created")
    assert (now(device).status, now(device).started_at) == ("created", None)
    device.record(SessionResumed())
    assert now(device).started_at == "2026-11-15T12:00:00.000Z"


# ── Progress ─────────────────────────────────────────────────────────────────────────────────────────────


def test_progress_prefers_set_over_tasks_over_agents() -> None:
    """The mean of agents, then the fraction of tasks done, then the value that was set."""
    device = started()
    assert now(device).progress == 0.0
    device.record(AgentStarted(id="a1", type="t"))
    device.record(AgentStarted(id="a2", type="t"))
    device.record(AgentProgressed(id="a1", progress=0.5))
    assert now(device).progress == 0.25
    for task in ("t1", "t2", "t3"):
        device.record(TaskAdded(id=task, text=task))
    assert now(device).progress == 0.0
    device.record(TaskCompleted(id="t1"))
    assert now(device).progress == 0.3333
    device.record(TaskDropped(id="t2"))
    assert now(device).progress == 0.5
    device.record(SessionEdited(progress=0.65))
    assert now(device).progress == 0.65
    device.record(TaskCompleted(id="t3"))
    assert now(device).progress == 0.65


@pytest.mark.parametrize(("recorded", "shown"), [(1e308, 1.0), (-5.0, 0.0), (0.0, 0.0), (1.0, 1.0)])
def test_progress_is_clamped_between_0_and_1(recorded: float, shown: float) -> None:
    """Whatever a foreign program recorded."""
    device = started()
    device.record(SessionEdited(progress=recorded))
    device.record(AgentStarted(id="a1", type="t"))
    device.record(AgentProgressed(id="a1", progress=recorded))
    assert (now(device).progress, now(device).agents[0].progress) == (shown, shown)


# ── Context ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("tokens", "level"),
    [
        (4_999, "normal"), (5_000, "shown"), (6_999, "shown"), (7_000, "warning"), (8_499, "warning"),
        (8_500, "compress"), (20_000, "compress"),
    ],
)  # fmt: skip
def test_context_level_follows_from_the_tokens(tokens: int, level: str) -> None:
    """49.99 % is normal, 50 shown, 70 a warning, 85 compress."""
    device = started()
    device.record(ContextMeasured(tokens=tokens, window=10_000))
    assert now(device).context.level == level


def test_context_is_the_sum_of_agents_until_the_session_is_measured() -> None:
    device = started()
    device.record(ContextMeasured(tokens=30, agent="a1"))
    device.record(ContextMeasured(tokens=40, agent="a2"))
    context = now(device).context
    assert (context.tokens, context.window, context.by_agent) == (70, 128_000, {"a1": 30, "a2": 40})
    device.record(ContextMeasured(tokens=64_000))
    assert (now(device).context.tokens, now(device).context.percent) == (64_000, 50.0)
    device.wait(5)
    device.record(ContextCompressed(tokens=9))
    context = now(device).context
    assert (context.tokens, context.compressions, context.last_compression) == (9, 1, "2026-11-15T12:00:00.005Z")


def test_context_is_unknown_after_a_compression_until_it_is_measured() -> None:
    """Unless the compression recorded how much was left."""
    device = started()
    device.record(ContextMeasured(tokens=9_900, window=10_000))
    device.record(ContextMeasured(tokens=9_000, agent="a1"))
    device.record(ContextCompressed())
    context = now(device).context
    assert (context.tokens, context.percent, context.level, context.compressions) == (None, None, "normal", 1)
    device.record(ContextMeasured(tokens=100, agent="a1"))
    assert now(device).context.tokens is None
    device.record(ContextMeasured(tokens=5_000))
    assert (now(device).context.tokens, now(device).context.level) == (5_000, "shown")
    device.record(ContextCompressed())
    device.record(ContextCompressed(tokens=7))
    assert now(device).context.tokens == 7


def test_absurd_context_measurements_can_be_shown() -> None:
    """Windows of zero or less, and more tokens than fit."""
    for tokens, window in ((2**53 - 1, 1), (-5, -5), (7, 0)):
        device = started()
        device.record(ContextMeasured(tokens=tokens, window=window))
        msgspec.json.encode(now(device))


# ── Agents and tasks ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("end", "status", "result"),
    [
        (AgentCompleted(id="a1", summary="s", tokens=7), "completed", "success"),
        (AgentFailed(id="a1", category="resource", message="m"), "error", "failure"),
        (AgentTimedOut(id="a1"), "timeout", "timeout"),
        (AgentAborted(id="a1"), "aborted", "aborted"),
    ],
)
def test_finished_agent_shows_start_duration_end_and_result(end: EventData, status: str, result: str) -> None:
    """For each kind of end."""
    device = started()
    device.record(AgentStarted(id="a1", type="coder", blocking_on="a0", pid=7))
    device.wait(90_000)
    (running,) = now(device, at=NOON + 60_000).agents
    assert (running.status, running.duration_ms, running.completed_at, running.result) == (
        "running",
        60_000,
        None,
        None,
    )
    device.record(end)
    (agent,) = now(device, at=NOON + 10**6).agents
    assert (agent.status, agent.result, agent.duration_ms) == (status, result, 90_000)
    assert agent.completed_at == "2026-11-15T12:01:30.000Z"
    assert (agent.blocking_on, agent.pid, agent.background) == ("a0", 7, False)


def test_agent_shows_its_last_error_with_later_retries() -> None:
    """Until it completes."""
    device = started()
    device.record(AgentStarted(id="a1", type="t"))
    device.record(AgentFailed(id="a1", category="transient", message="net"))
    device.wait(2000)
    device.record(AgentRetried(id="a1"))
    (agent,) = now(device).agents
    assert agent.error is not None
    assert (agent.error.category, agent.error.message, agent.error.retry_count) == ("transient", "net", 1)
    assert agent.error.last_retry_at == "2026-11-15T12:00:02.000Z"
    assert (agent.status, agent.completed_at) == ("running", None)
    device.record(AgentCompleted(id="a1"))
    document = now(device)
    assert document.agents[0].error is None
    assert [error.message for error in document.errors] == ["net"]


def test_agent_files_are_listed_once_per_action() -> None:
    """Also those recorded after its end."""
    device = started()
    device.record(AgentStarted(id="a1", type="t"))
    device.record(AgentCompleted(id="a1"))
    for path, action in (("a", "created"), ("a", "modified"), ("b", "modified"), ("b", "modified"), ("c", "deleted")):
        device.record(FileChanged(path=path, action=action, agent="a1"))
    document = now(device)
    files = document.agents[0].files
    assert (files.created, files.modified, files.deleted) == (["a"], ["a", "b"], ["c"])
    assert len(document.files) == 5


def test_task_times_follow_its_status() -> None:
    """Started, blocked, reopened, done."""
    device = started()
    device.record(TaskAdded(id="t1", text="Write"))
    device.wait(1000)
    device.record(TaskStarted(id="t1"))
    device.record(TaskBlocked(id="t1", outcome="waits for review"))
    assert (now(device).tasks[0].status, now(device).tasks[0].outcome) == ("blocked", "waits for review")
    device.record(TaskStarted(id="t1"))
    device.wait(1000)
    device.record(TaskCompleted(id="t1", artifacts=("a", "b")))
    device.record(TaskReopened(id="t1"))
    assert (now(device).tasks[0].status, now(device).tasks[0].completed_at) == ("pending", None)
    device.wait(1000)
    device.record(TaskCompleted(id="t1", artifacts=("b", "c"), outcome="done"))
    (task,) = now(device).tasks
    assert (task.started_at, task.completed_at) == ("2026-11-15T12:00:01.000Z", "2026-11-15T12:00:03.000Z")
    assert (task.artifacts, task.outcome) == (["a", "b", "c"], "done")


# ── Other fields ─────────────────────────────────────────────────────────────────────────────────────────


def test_waiting_is_shown_until_it_ends() -> None:
    device = started()
    device.record(WaitingStarted(id="q", for_="permission", text="rm?"))
    device.record(WaitingStarted(id="r", for_="input"))
    device.record(WaitingEnded(id="q"))
    assert [(w.for_, w.text) for w in now(device).waiting] == [("input", None)]


def test_native_conversations_keep_their_ids() -> None:
    """One entry per conversation, whatever characters the ids have."""
    device = started()
    device.record(NativeLinked(agent="a\nb", id="c\nd", resume="one"))
    device.record(NativeLinked(agent="a\nb", id="c\nd", resume="two"))
    assert [(n.agent, n.id) for n in now(device).native] == [("a\nb", "c\nd")]


def test_ended_session_shows_summary_end_and_errors() -> None:
    device = started()
    device.record(SessionFailed(message="disk", category="resource"))
    device.record(SessionResumed())
    device.wait(MINUTE)
    device.record(SessionCompleted(summary="All done"))
    document = now(device)
    assert (document.status, document.summary, document.ended_at) == (
        "completed",
        "All done",
        "2026-11-15T12:01:00.000Z",
    )
    assert [(error.message, error.category, error.agent) for error in document.errors] == [("disk", "resource", None)]


def test_redactions_are_counted_by_kind() -> None:
    device = started()
    device.record(NoteAdded(text="[redacted:npm_token]", redacted={"npm_token": 1}))
    device.record(NoteAdded(text="[redacted:npm_token]", redacted={"npm_token": 2}))
    assert now(device).extra == {"redacted": {"npm_token": 3}}


def test_reached_reminders_and_commands_are_shown() -> None:
    device = started()
    device.record(ReminderReached(line="warning_60"))
    device.record(CommandRan(command="make", code=0))
    device.record(CommandRan(command="make test", code=1))
    document = now(device)
    assert msgspec.to_builtins(document.time.reminders) == {
        "break_40": False,
        "warning_60": True,
        "timeout_90": False,
    }
    assert msgspec.to_builtins(document.commands) == {"total": 2, "failed": 1, "last": "make test"}


def test_conflict_ids_are_short_stable_and_distinct() -> None:
    """Unrelated events do not change them."""
    one, two = full()
    one.record(SessionEdited(mode="debug"))
    two.record(SessionEdited(mode="release"))
    before = {conflict.field: conflict.id for conflict in now(one, two).conflicts}
    assert set(before) == {"goal", "mode"}
    assert len(set(before.values())) == 2
    assert all(len(mark) == 8 for mark in before.values())
    one.record(NoteAdded(text="later"))
    assert {conflict.field: conflict.id for conflict in now(one, two).conflicts} == before
