"""The orchestrator format in a mirror: any session is shown in it, and what others make of the file is taken in."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from holdfast.core.canonical import Json
from holdfast.core.errors import Refused
from holdfast.core.events import (
    AgentCompleted,
    AgentFailed,
    AgentPaused,
    AgentProgressed,
    AgentResumed,
    AgentRetried,
    AgentStarted,
    ContextMeasured,
    DecisionMade,
    ErrorNoted,
    EventData,
    ProjectFacts,
    SessionAborted,
    SessionCompleted,
    SessionEdited,
    SessionFailed,
    SessionPaused,
    SessionResumed,
    SessionStarted,
    TaskAdded,
    TaskBlocked,
    TaskCompleted,
    TaskDropped,
    TaskEdited,
    TaskStarted,
)
from holdfast.core.fold import fold
from holdfast.core.state import State
from holdfast.formats.base import Document, TimedEvent
from holdfast.formats.conformance import CONTEXT
from holdfast.formats.convert import fold_events, state_of
from holdfast.formats.entries import is_same
from holdfast.formats.merge import merge_documents
from holdfast.formats.timestamps import in_seconds
from tests.formats.orchestrator_documents import BEGIN, EXAMPLE, RULES, changed, edits, messages, with_agent
from tests.support.histories import History, histories

SLOW = settings(suppress_health_check=[HealthCheck.too_slow])


def events_between(after: Document, before: Document = EXAMPLE, state: State | None = None) -> list[EventData]:
    """The events of a changed session file."""
    known = state_of(before, RULES, CONTEXT) if state is None else state
    together = merge_documents(before, before, after, RULES)
    assert together.clashes == []
    return [change.data for change in RULES.changes(before, together.document, known, CONTEXT)]


def began(*more: EventData, mode: str = "default") -> State:
    """A session of ours, begun at the example's time, a minute between two events."""
    start = SessionStarted(goal="g", project=ProjectFacts(id="p", name="holdfast"), device="d", mode=mode)
    new_events = [TimedEvent(BEGIN + 60_000 * minute, data) for minute, data in enumerate((start, *more))]
    return fold_events(new_events, "0123456789abcdef0123456789abcdef")


def shown(*more: EventData) -> Document:
    return RULES.render(began(*more))


# ── rendering what other formats and people record ───────────────────────────────────────────────────────


def test_session_in_error_is_shown_as_paused_with_its_error() -> None:
    document = shown(SessionFailed(message="the disk is full", category="resource"))
    assert document["status"] == "paused"
    assert document["errors"] == [
        {"timestamp": "2025-12-27T10:31:00Z", "agent": None, "message": "the disk is full", "category": "resource"}
    ]


def test_open_tasks_are_pending_done_ones_completed_and_dropped_ones_nowhere() -> None:
    ids = ("one", "two", "three", "four", "five")
    document = shown(
        *(TaskAdded(id=name, text=name) for name in ids),
        TaskStarted(id="two"), TaskBlocked(id="three"), TaskDropped(id="four"),
        TaskCompleted(id="five", outcome="fine", artifacts=("a.py",)),
    )  # fmt: skip
    assert document["pending_tasks"] == ["one", "two", "three"]
    assert document["completed_work"] == [{"task": "five", "outcome": "fine", "files": ["a.py"]}]


def test_what_cannot_be_shown_as_it_is_still_makes_a_valid_document() -> None:
    """Ids given twice on two devices, ids of another alphabet, blank words, tokens beyond the window."""
    state = began(
        AgentStarted(id="a b", type=" "), AgentStarted(id="x", type="t"), AgentStarted(id="x", type="t"),
        TaskAdded(id="t1", text=" "), DecisionMade(chosen=""), ContextMeasured(tokens=500_000),
        SessionEdited(goal=" "), mode="turbo",
    )  # fmt: skip
    state.aliases["orchestrator"] = "not an id"
    document = RULES.render(state)
    assert messages(document) == []
    agents = document["agents"]
    assert isinstance(agents, list)
    assert [agent["id"] for agent in agents if isinstance(agent, dict)] == ["a-b", "x", "x-2"]
    assert document["session_id"] == "2025-12-27-012345"
    assert RULES.render(State(session="s"))["schema_version"] == "1.0"
    assert messages(RULES.render(State(session="s"))) == []


@given(histories())
@SLOW
def test_whatever_was_recorded_is_shown_as_a_valid_document(history: History) -> None:
    """Also of sessions nobody could have: wild clocks, forged events, no beginning."""
    state = fold(history.events)
    document = RULES.render(state)
    assert [message for message in messages(document) if message[1] == "error"] == []
    assert RULES.changes(document, document, state, CONTEXT) == []


@given(histories(hostile=False))
@SLOW
def test_what_devices_recorded_is_understood_when_it_is_read_again(history: History) -> None:
    """Statuses, work and errors come back, and the story is a possible one."""
    document = RULES.render(fold(history.events))
    again = state_of(document, RULES, CONTEXT)
    assert again.clashes == []
    assert again.not_applied == 0
    shown_again = RULES.render(again)
    for key in ("session_id", "created", "updated", "goal", "mode", "status", "project"):
        assert is_same(shown_again[key], document[key])
    assert _statuses(shown_again) == _statuses(document)
    for key in ("completed_work", "pending_tasks", "decisions_made"):
        assert len(_entries(shown_again, key)) == len(_entries(document, key))
    # A conflict can make an agent fail without a word; being read again, it gets one.
    events_between = {entry.get("agent") for entry in _entries(document, "errors") if isinstance(entry, dict)}
    wordless = [
        agent
        for agent in _entries(document, "agents")
        if isinstance(agent, dict) and agent["status"] == "failed" and agent["id"] not in events_between
    ]
    assert len(_entries(shown_again, "errors")) == len(_entries(document, "errors")) + len(wordless)


# ── what edits come to ───────────────────────────────────────────────────────────────────────────────────


def test_agent_completes_at_its_own_time() -> None:
    after = with_agent(
        1, status="complete", completed="2025-12-27T11:40:00Z", result_summary="works", context_tokens=4000
    )
    state = state_of(EXAMPLE, RULES, CONTEXT)
    (new_events,) = RULES.changes(EXAMPLE, after, state, CONTEXT)
    assert in_seconds(new_events.at) == "2025-12-27T11:40:00Z"
    assert isinstance(new_events.data, AgentCompleted)
    assert (new_events.data.id, new_events.data.summary, new_events.data.tokens) == ("code-1", "works", 4000)


def test_progress_tokens_and_a_pause_of_an_agent() -> None:
    measured, progressed, paused = events_between(with_agent(1, status="paused", progress=80, context_tokens=5000))
    assert isinstance(measured, ContextMeasured)
    assert (measured.agent, measured.tokens) == ("code-1", 5000)
    assert isinstance(progressed, AgentProgressed)
    assert progressed.progress == 0.8
    assert isinstance(paused, AgentPaused)


def test_failure_with_its_error_is_one_event() -> None:
    after = with_agent(1, status="failed")
    after["errors"] = [{"agent": "code-1", "message": "boom", "category": "permanent"}, "by the way"]
    failed, noted = events_between(after)
    assert isinstance(failed, AgentFailed)
    assert (failed.message, failed.category) == ("boom", "permanent")
    assert isinstance(noted, ErrorNoted)
    assert noted.message == "by the way"


def test_failed_agent_that_completes_was_retried() -> None:
    before = with_agent(1, status="failed", completed="2025-12-27T11:00:00Z")
    after = with_agent(1, status="complete", completed="2025-12-27T11:30:00Z")
    assert [type(line) for line in events_between(after, before)] == [AgentRetried, AgentCompleted]


def test_pending_agent_that_completes_was_resumed() -> None:
    before = with_agent(1, status="pending")
    assert [type(line) for line in events_between(with_agent(1, status="complete"), before)] == [
        AgentResumed,
        AgentCompleted,
    ]


def test_pending_task_among_the_completed_work_is_that_task_completed() -> None:
    work = EXAMPLE["completed_work"]
    assert isinstance(work, list)
    after = changed(
        pending_tasks=["Complete code-1 implementation", "Update documentation"],
        completed_work=[*work, {"task": "add unit tests", "outcome": "12 tests", "files": ["t.R"]}],
    )
    (completed,) = events_between(after)
    assert isinstance(completed, TaskCompleted)
    assert (completed.id, completed.outcome, completed.artifacts) == ("t3", "12 tests", ("t.R",))


def test_blocked_task_that_completes_was_started() -> None:
    state = began(TaskAdded(id="x", text="Wait for the key"), TaskBlocked(id="x"))
    before = RULES.render(state)
    after: Document = {**before, "completed_work": [{"task": "Wait for the key"}]}
    assert [type(line) for line in events_between(after, before, state)] == [TaskStarted, TaskCompleted]


def test_other_outcome_of_completed_work_is_a_correction() -> None:
    after = changed(completed_work=[{"task": "Architecture design", "outcome": "4 methods", "files": ["b.R"]}])
    (edited,) = events_between(after)
    assert isinstance(edited, TaskEdited)
    assert (edited.id, edited.outcome, edited.artifacts) == ("t1", "4 methods", ("b.R",))


def test_leaving_out_is_no_change() -> None:
    after = changed(
        pending_tasks=[], agents=[], decisions_made=[], completed_work=[], errors=[], goal=EXAMPLE["goal"]
    )
    assert events_between(after) == []


def test_what_only_holdfast_computes_is_no_change() -> None:
    usage: Json = {"estimated_tokens": 25000, "percentage": 99, "last_compression": None}
    assert events_between(changed(updated="2026-01-01T00:00:00Z", context_usage=usage)) == []


def test_new_goal_mode_tasks_and_decisions() -> None:
    after = changed(
        goal="Something else", mode="debug", pending_tasks=["First of all"],
        decisions_made=[{"decision": "Go", "rationale": "", "timestamp": "2025-12-27T11:00:00Z"}],
    )  # fmt: skip
    decided, edited, added = events_between(after)
    assert decided == DecisionMade(chosen="Go")
    assert edited == SessionEdited(goal="Something else", mode="debug")
    assert added == TaskAdded(id="t5", text="First of all")


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        ("in_progress", "paused", [SessionPaused]),
        ("paused", "in_progress", [SessionResumed]),
        ("paused", "complete", [SessionCompleted]),
        ("created", "in_progress", [SessionResumed]),
        ("created", "complete", [SessionResumed, SessionCompleted]),
        ("in_progress", "aborted", [SessionAborted]),
    ],
)
def test_session_changes_status_with_the_file(before: str, after: str, events: list[type[EventData]]) -> None:
    assert [type(line) for line in events_between(changed(status=after), changed(status=before))] == events


def test_session_in_error_may_be_resumed_and_completed_by_its_file() -> None:
    state = began(SessionFailed(message="x"))
    before = RULES.render(state)
    new_events = events_between({**before, "status": "complete"}, before, state)
    assert [type(data) for data in new_events] == [SessionResumed, SessionCompleted]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (changed(status="complete"), changed(status="in_progress")),
        (changed(status="complete"), changed(status="complete", goal="Another")),
        (changed(status="aborted"), changed(status="paused")),
        (changed(status="in_progress"), changed(status="created")),
        (EXAMPLE, with_agent(0, status="in_progress")),
        (EXAMPLE, with_agent(1, status="pending")),
        (with_agent(1, status="aborted"), with_agent(1, status="complete")),
    ],
)
def test_what_cannot_follow_is_refused(before: Document, after: Document) -> None:
    with pytest.raises(Refused) as refused:
        events_between(after, before)
    assert refused.value.message


def test_end_of_a_session_is_its_last_event() -> None:
    """Nothing may follow an end, whatever times the rest of the edit carries."""
    before = changed()
    after = with_agent(1, status="complete", completed="2026-12-27T11:40:00Z")
    after["status"] = "complete"
    new_events = RULES.changes(before, after, state_of(before, RULES, CONTEXT), CONTEXT)
    assert isinstance(new_events[-1].data, SessionCompleted)
    assert [event.at for event in new_events] == sorted(event.at for event in new_events)


@given(edits())
@SLOW
def test_what_an_agent_wrote_is_shown_by_the_state_it_leads_to(pair: tuple[Document, Document]) -> None:
    """Without anything kept: statuses, goal, mode, tasks and tokens are in the session itself."""
    before, after = pair
    state = state_of(before, RULES, CONTEXT)
    together = merge_documents(before, before, after, RULES).document
    new_events = RULES.changes(before, together, state, CONTEXT)
    assert [event.at for event in new_events] == sorted(event.at for event in new_events)
    assert all(event.at <= CONTEXT.now for event in new_events)
    first = RULES.changes(None, before, None, CONTEXT)
    then = RULES.render(fold_events([*first, *new_events], state.session))
    for key in ("goal", "mode", "status"):
        assert then[key] == together[key]
    assert _statuses(then) == _statuses(together)
    for key in ("completed_work", "decisions_made"):
        assert len(_entries(then, key)) == len(_entries(together, key))
    finished = {_plain(entry["task"]) for entry in _entries(together, "completed_work") if isinstance(entry, dict)}
    still = {entry for entry in _entries(together, "pending_tasks") if _plain(entry) not in finished}
    assert still <= set(_entries(then, "pending_tasks"))
    assert _used(then) == _used(together) or not _used(together)


def _entries(document: Document, key: str) -> list[Json]:
    value = document[key]
    assert isinstance(value, list)
    return value


def _statuses(document: Document) -> dict[Json, Json]:
    return {entry["id"]: entry["status"] for entry in _entries(document, "agents") if isinstance(entry, dict)}


def _plain(text: Json) -> str:
    return " ".join(str(text).split()).casefold()


def _used(document: Document) -> Json:
    usage = document["context_usage"]
    assert isinstance(usage, dict)
    return usage["estimated_tokens"]


def test_errors_of_any_shape_are_shown_once_and_as_they_were_written() -> None:
    errors: list[Json] = [{}, "the disk is full", {"category": "odd"}, {"error": "x", "code": 7}]
    after = changed(errors=errors)
    new_events = RULES.changes(EXAMPLE, after, state_of(EXAMPLE, RULES, CONTEXT), CONTEXT)
    assert [type(event.data) for event in new_events] == [ErrorNoted] * 4
    begun = RULES.changes(None, EXAMPLE, None, CONTEXT)
    then = RULES.render(fold_events([*begun, *new_events], "0123456789abcdef0123456789abcdef"))
    meant = merge_documents(EXAMPLE, then, after, RULES, in_their_words=True).document
    assert meant["errors"] == errors
    assert RULES.changes(meant, after, state_of(EXAMPLE, RULES, CONTEXT), CONTEXT) == []


def test_outcome_goes_to_the_right_one_of_two_tasks_with_the_same_text() -> None:
    before = changed(completed_work=[{"task": "Fix", "outcome": "a"}, {"task": "Fix", "outcome": "b"}])
    start = RULES.changes(None, before, None, CONTEXT)
    for outcomes in (("new", "b"), ("a", "new")):
        work: list[Json] = [{"task": "Fix", "outcome": outcome, "files": []} for outcome in outcomes]
        more = RULES.changes(before, {**before, "completed_work": work}, state_of(before, RULES, CONTEXT), CONTEXT)
        then = RULES.render(fold_events([*start, *more], "0123456789abcdef0123456789abcdef"))
        assert then["completed_work"] == work
