"""The orchestrator format: the suite every format passes, its specification's example, and what edits come to."""

from __future__ import annotations

import json
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from orchestrator_documents import BEGIN, documents, edits

from holdfast.core import view
from holdfast.core.canonical import Json
from holdfast.core.errors import Refused
from holdfast.core.model import Session
from holdfast.core.state import State
from holdfast.core.vocabulary import (
    AgentCompleted,
    AgentFailed,
    AgentPaused,
    AgentProgressed,
    AgentResumed,
    AgentRetried,
    AgentStarted,
    ContextMeasured,
    Data,
    DecisionMade,
    ErrorNoted,
    Project,
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
    TaskReopened,
    TaskStarted,
)
from holdfast.formats import registry
from holdfast.formats.conformance import GROUND, FormatConformance
from holdfast.formats.conversion import state_of
from holdfast.formats.entries import same
from holdfast.formats.folding import folded
from holdfast.formats.interface import Document, Format, Heard
from holdfast.formats.jsontext import written
from holdfast.formats.merging import merged
from holdfast.formats.moments import in_seconds

RULES = registry.named("orchestrator")
SLOW = settings(suppress_health_check=[HealthCheck.too_slow])

# The schema of the specification, which is an example.
EXAMPLE: Document = json.loads("""{
  "schema_version": "1.0",
  "session_id": "2025-12-27-abc123",
  "created": "2025-12-27T10:30:00Z",
  "updated": "2025-12-27T11:45:00Z",
  "project": {"name": "aiterm", "path": "/Users/dt/projects/dev-tools/aiterm", "git_branch": "dev"},
  "goal": "Add sensitivity analysis to RMediation::medci()",
  "mode": "default",
  "status": "in_progress",
  "agents": [
    {"id": "arch-1", "type": "arch", "task": "Design sensitivity API", "status": "complete",
     "started": "2025-12-27T10:30:00Z", "completed": "2025-12-27T10:32:00Z",
     "result_summary": "3 methods proposed: bootstrap, delta, MCMC", "context_tokens": 1500},
    {"id": "code-1", "type": "code", "task": "Implement primary method", "status": "in_progress",
     "started": "2025-12-27T10:32:00Z", "progress": 60, "context_tokens": 3200}
  ],
  "completed_work": [
    {"task": "Architecture design", "outcome": "3 methods proposed", "files": ["R/sensitivity.R"]}
  ],
  "pending_tasks": ["Complete code-1 implementation", "Add unit tests", "Update documentation"],
  "decisions_made": [
    {"decision": "Use bootstrap for confidence intervals",
     "rationale": "Best balance of accuracy and performance", "timestamp": "2025-12-27T10:31:00Z"}
  ],
  "context_usage": {"estimated_tokens": 25000, "percentage": 20, "last_compression": null},
  "errors": []
}""")


class TestOrchestrator(FormatConformance):
    rules: ClassVar[Format] = RULES
    documents: ClassVar[st.SearchStrategy[Document]] = documents()
    edits: ClassVar[st.SearchStrategy[tuple[Document, Document]]] = edits()
    examples: ClassVar[list[tuple[str, Document]]] = [("the schema", EXAMPLE)]


# ── what is used below ───────────────────────────────────────────────────────────────────────────────────


def changed(**parts: Json) -> Document:
    """The example with parts replaced."""
    return {**json.loads(json.dumps(EXAMPLE)), **parts}


def with_agent(position: int, **parts: Json) -> Document:
    document = changed()
    agents = document["agents"]
    assert isinstance(agents, list)
    agent = agents[position]
    assert isinstance(agent, dict)
    agent.update(parts)
    return document


def messages(document: Document) -> list[tuple[str, str]]:
    return [(".".join(map(str, one.place)), one.severity) for one in RULES.problems(document, "orchestrator")]


def imported(document: Document) -> Session:
    state = state_of(document, RULES, GROUND)
    return view.session(state, state.updated_at)


def told(after: Document, before: Document = EXAMPLE, state: State | None = None) -> list[Data]:
    """What is heard when the file of the session was changed."""
    known = state_of(before, RULES, GROUND) if state is None else state
    together = merged(before, before, after, RULES)
    assert together.clashes == []
    return [one.data for one in RULES.changes(before, together.document, known, GROUND)]


def began(*more: Data, mode: str = "default") -> State:
    """A session of ours, begun at the example's time, a minute between two events."""
    start = SessionStarted(goal="g", project=Project(id="p", name="holdfast"), device="d", mode=mode)
    heard = [Heard(BEGIN + 60_000 * minute, data) for minute, data in enumerate((start, *more))]
    return folded(heard, "0123456789abcdef0123456789abcdef")


def shown(*more: Data) -> Document:
    return RULES.render(began(*more))


# ── the specification's example ──────────────────────────────────────────────────────────────────────────


def test_the_example_of_the_text_is_valid() -> None:
    """Its times follow each other, its id is of the day it was created, 25,000 tokens of 128,000 are 20 percent."""
    assert RULES.problems(EXAMPLE, "orchestrator") == []
    assert RULES.is_sound(written(EXAMPLE), "orchestrator")
    assert RULES.detects(EXAMPLE) == "orchestrator"


def test_the_example_is_shown_as_it_stands_without_anything_kept() -> None:
    assert same(RULES.render(state_of(EXAMPLE, RULES, GROUND)), EXAMPLE)


def test_what_the_example_says() -> None:
    """A quarter is done: of four tasks, one is completed, and tasks count before the progress of agents."""
    session = imported(EXAMPLE)
    assert (session.status, session.mode, session.goal) == ("in_progress", "default", EXAMPLE["goal"])
    assert session.aliases.orchestrator == "2025-12-27-abc123"
    assert (session.created_at, session.updated_at) == ("2025-12-27T10:30:00.000Z", "2025-12-27T11:45:00.000Z")
    assert session.project.name == "aiterm"
    assert session.project.git_branch == "dev"
    assert session.progress == 0.25
    arch, code = session.agents
    assert (arch.id, arch.type, arch.status, arch.tokens) == ("arch-1", "arch", "completed", 1500)
    assert arch.summary == "3 methods proposed: bootstrap, delta, MCMC"
    assert arch.completed_at == "2025-12-27T10:32:00.000Z"
    assert (code.id, code.status, code.progress, code.completed_at) == ("code-1", "running", 0.6, None)
    assert [(task.id, task.status) for task in session.tasks] == [
        ("t1", "completed"), ("t2", "pending"), ("t3", "pending"), ("t4", "pending"),
    ]  # fmt: skip
    assert session.tasks[0].outcome == "3 methods proposed"
    assert session.tasks[0].artifacts == ["R/sensitivity.R"]
    (decision,) = session.decisions
    assert (decision.chosen, decision.at) == ("Use bootstrap for confidence intervals", "2025-12-27T10:31:00.000Z")
    assert decision.why == "Best balance of accuracy and performance"
    assert (session.context.tokens, session.context.window, session.context.percent) == (25000, 128000, 19.5)
    assert session.context.by_agent == {"arch-1": 1500, "code-1": 3200}
    assert session.context.last_compression is None
    assert session.errors == []


@pytest.mark.parametrize(
    ("status", "canonical"),
    [("created", "created"), ("in_progress", "in_progress"), ("paused", "paused"), ("complete", "completed"),
     ("aborted", "aborted")],
)  # fmt: skip
def test_every_status_comes_in_and_is_shown_again(status: str, canonical: str) -> None:
    document = changed(status=status)
    assert imported(document).status == canonical
    assert same(RULES.render(state_of(document, RULES, GROUND)), document)


@pytest.mark.parametrize(
    ("status", "canonical"),
    [("pending", "pending"), ("in_progress", "running"), ("paused", "paused"), ("complete", "completed"),
     ("failed", "error"), ("aborted", "aborted"), ("interrupted", "interrupted")],
)  # fmt: skip
def test_every_status_of_an_agent_comes_in_and_is_shown_again(status: str, canonical: str) -> None:
    document = with_agent(1, status=status)
    assert imported(document).agents[1].status == canonical
    again = RULES.render(state_of(document, RULES, GROUND))["agents"]
    assert isinstance(again, list)
    assert isinstance(again[1], dict)
    assert again[1]["status"] == status


def test_a_session_that_was_paused_was_paused_when_it_was_saved() -> None:
    (pause,) = [one for one in imported(changed(status="paused")).time.pauses if one.ended_at is None]
    assert (pause.kind, pause.started_at) == ("manual", "2025-12-27T11:45:00.000Z")


@pytest.mark.parametrize(
    ("tokens", "percentage", "window"),
    [(25_000, 20, 128_000), (25_000, 19, 128_000), (100_000, 50, 200_000), (250_000, 25, 1_000_000),
     (100_000, 3, 128_000), (100_000, 71, 128_000), (100_000, 49.6, 200_000), (0, 40, 128_000)],
)  # fmt: skip
def test_the_window_is_the_usual_one_unless_the_percentage_clearly_says_otherwise(
    tokens: int, percentage: float, window: int
) -> None:
    document = changed(context_usage={"estimated_tokens": tokens, "percentage": percentage})
    assert imported(document).context.window == window


def test_an_error_that_tells_how_an_agent_failed_is_that_failure() -> None:
    document = with_agent(1, status="failed", completed="2025-12-27T11:00:00Z")
    document["errors"] = [
        {"timestamp": "2025-12-27T10:50:00Z", "agent": "code-1", "message": "slow", "category": None},
        {"timestamp": "2025-12-27T11:00:00Z", "agent": "code-1", "message": "no memory", "category": "resource"},
        "and something else",
    ]
    session = imported(document)
    assert [one.message for one in session.errors] == ["slow", "no memory", "and something else"]
    error = session.agents[1].error
    assert error is not None
    assert (error.category, error.message) == ("resource", "no memory")


def test_a_failed_agent_without_an_error_is_told_by_its_summary() -> None:
    error = imported(with_agent(1, status="failed", result_summary="could not compile")).agents[1].error
    assert error is not None
    assert (error.category, error.message) == ("logical", "could not compile")


# ── strictness ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", sorted(EXAMPLE))
def test_every_part_of_the_document_is_required(key: str) -> None:
    document = {name: value for name, value in EXAMPLE.items() if name != key}
    assert messages(document) == [(key, "error")]
    assert not RULES.is_sound(written(document), "orchestrator")


@pytest.mark.parametrize(
    ("document", "place"),
    [
        (changed(schema_version="2.0"), "schema_version"),
        (changed(schema_version=1.0), "schema_version"),
        (changed(session_id="2025-12-27-ABC123"), "session_id"),
        (changed(session_id="2025-12-27-abc123\n"), "session_id"),
        (changed(session_id="2025-02-30-abc123"), "session_id"),
        (changed(created="2025-12-27T10:30:00"), "created"),
        (changed(created="2025-12-27T04:30:00-06:00"), "created"),
        (changed(created="2025-12-27T25:30:00Z"), "created"),
        (changed(updated="2025-12-27T10:29:59Z"), "updated"),
        (changed(status="completed"), "status"),
        (changed(mode="fast"), "mode"),
        (changed(goal="  "), "goal"),
        (changed(project="aiterm"), "project"),
        (changed(project={"name": "aiterm"}), "project.path"),
        (changed(pending_tasks=[{"task": "x"}]), "pending_tasks.0"),
        (changed(completed_work=["x"]), "completed_work.0"),
        (changed(decisions_made=["x"]), "decisions_made.0"),
        (changed(decisions_made=[{"decision": "x", "rationale": "y"}]), "decisions_made.0.timestamp"),
        (changed(errors=[1]), "errors.0"),
        (changed(context_usage={"estimated_tokens": -1, "percentage": 0}), "context_usage.estimated_tokens"),
        (changed(context_usage={"estimated_tokens": 1, "percentage": 101}), "context_usage.percentage"),
        (with_agent(1, status="running"), "agents.1.status"),
        (with_agent(1, progress=0.6), "agents.1.progress"),
        (with_agent(1, progress=101), "agents.1.progress"),
        (with_agent(1, id="arch-1"), "agents.1.id"),
        (with_agent(1, id="code 1"), "agents.1.id"),
        (with_agent(1, completed="2025-12-27T11:00:00Z"), "agents.1.completed"),
        (with_agent(0, completed="2025-12-27T10:29:00Z"), "agents.0.completed"),
        (with_agent(1, completed_at="2025-12-27T11:00:00Z"), "agents.1.completed_at"),
        (with_agent(0, context_tokens="1500"), "agents.0.context_tokens"),
    ],
)
def test_what_the_text_does_not_allow_is_said_with_its_place(document: Document, place: str) -> None:
    assert messages(document) == [(place, "error")]
    assert not RULES.is_sound(written(document), "orchestrator")


def test_an_id_of_another_day_is_only_a_warning() -> None:
    """Whoever made the id may have lived in another zone."""
    assert messages(changed(session_id="2025-12-26-abc123")) == [("session_id", "warning")]


@given(documents())
@SLOW
def test_what_is_sound_has_no_problems_and_what_has_none_is_sound(document: Document) -> None:
    sound = RULES.is_sound(written(document), "orchestrator")
    assert sound == (RULES.problems(document, "orchestrator") == [])


@given(documents(), st.data())
@SLOW
def test_nothing_broken_is_sound(document: Document, data: st.DataObject) -> None:
    """A valid document with any one of its values replaced."""
    place = data.draw(st.sampled_from(_places(document)))
    others: list[Json] = [None, "", "x", " ", -1, 1.5, True, [], {}, "2025-13-01T00:00:00Z", [{}]]
    broken = _replaced(document, place, others[data.draw(st.integers(0, len(others) - 1))])
    assert isinstance(broken, dict)
    if RULES.is_sound(written(broken), "orchestrator"):
        assert RULES.problems(broken, "orchestrator") == []


def _places(value: Json, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner: list[tuple[str | int, Json]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [(*place, key) for key, _ in inner] + [
        found for key, one in inner for found in _places(one, (*place, key))
    ]


def _replaced(value: Json, place: tuple[str | int, ...], other: Json) -> Json:
    if not place:
        return other
    first, *rest = place
    if isinstance(value, dict):
        return {key: _replaced(one, tuple(rest), other) if key == first else one for key, one in value.items()}
    assert isinstance(value, list)
    return [_replaced(one, tuple(rest), other) if at == first else one for at, one in enumerate(value)]


@pytest.mark.parametrize(
    "value",
    [
        None, [], "text", {}, {"goal": "g"}, {"working_on": "x", "next_steps": [], "git_branch": "main"},
        {"sessionId": "20251104-a-b", "status": "IN_PROGRESS", "goal": "g", "agents": []},
        {"session_id": "11111111-2222-4333-8444-555555555555", "goal": "g", "status": "paused", "agents": []},
        {"session_id": "x", "goal": "g", "status": "paused", "agents": [], "teleportation": {}},
    ],
)  # fmt: skip
def test_files_of_other_kinds_are_not_taken_for_this_format(value: Json) -> None:
    assert RULES.detects(value) is None


def test_a_document_in_the_wild_is_recognised() -> None:
    assert RULES.detects({"session_id": "2025-12-27-abc123", "goal": "g"}) == "orchestrator"
    assert RULES.detects({"goal": "g", "status": "completed", "pending_tasks": []}) == "orchestrator"


# ── rendering what other formats and people record ───────────────────────────────────────────────────────


def test_a_session_in_error_is_shown_as_paused_with_its_error() -> None:
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
    assert [one["id"] for one in agents if isinstance(one, dict)] == ["a-b", "x", "x-2"]
    assert document["session_id"] == "2025-12-27-012345"
    assert RULES.render(State(session="s"))["schema_version"] == "1.0"
    assert messages(RULES.render(State(session="s"))) == []


# ── what edits come to ───────────────────────────────────────────────────────────────────────────────────


def test_an_agent_that_is_done_is_completed_when_it_says() -> None:
    after = with_agent(
        1, status="complete", completed="2025-12-27T11:40:00Z", result_summary="works", context_tokens=4000
    )
    state = state_of(EXAMPLE, RULES, GROUND)
    (heard,) = RULES.changes(EXAMPLE, after, state, GROUND)
    assert in_seconds(heard.at) == "2025-12-27T11:40:00Z"
    assert isinstance(heard.data, AgentCompleted)
    assert (heard.data.id, heard.data.summary, heard.data.tokens) == ("code-1", "works", 4000)


def test_progress_tokens_and_a_pause_of_an_agent() -> None:
    measured, progressed, paused = told(with_agent(1, status="paused", progress=80, context_tokens=5000))
    assert isinstance(measured, ContextMeasured)
    assert (measured.agent, measured.tokens) == ("code-1", 5000)
    assert isinstance(progressed, AgentProgressed)
    assert progressed.progress == 0.8
    assert isinstance(paused, AgentPaused)


def test_a_failure_with_its_error_is_one_event() -> None:
    after = with_agent(1, status="failed")
    after["errors"] = [{"agent": "code-1", "message": "boom", "category": "permanent"}, "by the way"]
    failed, noted = told(after)
    assert isinstance(failed, AgentFailed)
    assert (failed.message, failed.category) == ("boom", "permanent")
    assert isinstance(noted, ErrorNoted)
    assert noted.message == "by the way"


def test_an_agent_that_failed_and_is_done_was_tried_again() -> None:
    before = with_agent(1, status="failed", completed="2025-12-27T11:00:00Z")
    after = with_agent(1, status="complete", completed="2025-12-27T11:30:00Z")
    assert [type(one) for one in told(after, before)] == [AgentRetried, AgentCompleted]


def test_an_agent_that_waited_and_is_done_was_begun() -> None:
    before = with_agent(1, status="pending")
    assert [type(one) for one in told(with_agent(1, status="complete"), before)] == [AgentResumed, AgentCompleted]


def test_a_pending_task_among_the_completed_work_is_that_task_completed() -> None:
    work = EXAMPLE["completed_work"]
    assert isinstance(work, list)
    after = changed(
        pending_tasks=["Complete code-1 implementation", "Update documentation"],
        completed_work=[*work, {"task": "add unit tests", "outcome": "12 tests", "files": ["t.R"]}],
    )
    (completed,) = told(after)
    assert isinstance(completed, TaskCompleted)
    assert (completed.id, completed.outcome, completed.artifacts) == ("t3", "12 tests", ("t.R",))


def test_a_blocked_task_that_is_done_was_taken_up() -> None:
    state = began(TaskAdded(id="x", text="Wait for the key"), TaskBlocked(id="x"))
    before = RULES.render(state)
    after: Document = {**before, "completed_work": [{"task": "Wait for the key"}]}
    assert [type(one) for one in told(after, before, state)] == [TaskStarted, TaskCompleted]


def test_another_outcome_of_work_that_is_done_takes_it_up_again() -> None:
    after = changed(completed_work=[{"task": "Architecture design", "outcome": "4 methods", "files": ["b.R"]}])
    reopened, completed = told(after)
    assert isinstance(reopened, TaskReopened)
    assert isinstance(completed, TaskCompleted)
    assert (completed.id, completed.outcome) == ("t1", "4 methods")


def test_leaving_out_is_no_change() -> None:
    after = changed(
        pending_tasks=[], agents=[], decisions_made=[], completed_work=[], errors=[], goal=EXAMPLE["goal"]
    )
    assert told(after) == []


def test_what_only_holdfast_computes_is_no_change() -> None:
    usage: Json = {"estimated_tokens": 25000, "percentage": 99, "last_compression": None}
    assert told(changed(updated="2026-01-01T00:00:00Z", context_usage=usage)) == []


def test_new_goal_mode_tasks_and_decisions() -> None:
    after = changed(
        goal="Something else", mode="debug", pending_tasks=["First of all"],
        decisions_made=[{"decision": "Go", "rationale": "", "timestamp": "2025-12-27T11:00:00Z"}],
    )  # fmt: skip
    decided, edited, added = told(after)
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
def test_the_session_moves_as_the_file_says(before: str, after: str, events: list[type[Data]]) -> None:
    assert [type(one) for one in told(changed(status=after), changed(status=before))] == events


def test_a_session_in_error_may_be_resumed_and_completed_by_its_file() -> None:
    state = began(SessionFailed(message="x"))
    before = RULES.render(state)
    heard = told({**before, "status": "complete"}, before, state)
    assert [type(one) for one in heard] == [SessionResumed, SessionCompleted]


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
        told(after, before)
    assert refused.value.message


def test_the_end_of_a_session_is_the_last_that_is_heard_of_it() -> None:
    """Nothing may follow an end, whatever times the rest of the edit carries."""
    before = changed()
    after = with_agent(1, status="complete", completed="2026-12-27T11:40:00Z")
    after["status"] = "complete"
    heard = RULES.changes(before, after, state_of(before, RULES, GROUND), GROUND)
    assert isinstance(heard[-1].data, SessionCompleted)
    assert [one.at for one in heard] == sorted(one.at for one in heard)


@given(edits())
@SLOW
def test_what_an_agent_wrote_is_shown_by_the_state_it_leads_to(pair: tuple[Document, Document]) -> None:
    """Without anything kept: statuses, goal, mode, tasks and tokens are in the session itself."""
    before, after = pair
    state = state_of(before, RULES, GROUND)
    together = merged(before, before, after, RULES).document
    heard = RULES.changes(before, together, state, GROUND)
    assert [one.at for one in heard] == sorted(one.at for one in heard)
    assert all(one.at <= GROUND.now for one in heard)
    first = RULES.changes(None, before, None, GROUND)
    then = RULES.render(folded([*first, *heard], state.session))
    for key in ("goal", "mode", "status"):
        assert then[key] == together[key]
    assert _statuses(then) == _statuses(together)
    for key in ("completed_work", "decisions_made"):
        assert len(_entries(then, key)) == len(_entries(together, key))
    finished = {_plain(one["task"]) for one in _entries(together, "completed_work") if isinstance(one, dict)}
    still = {one for one in _entries(together, "pending_tasks") if _plain(one) not in finished}
    assert still <= set(_entries(then, "pending_tasks"))
    assert _used(then) == _used(together) or not _used(together)


def _entries(document: Document, key: str) -> list[Json]:
    value = document[key]
    assert isinstance(value, list)
    return value


def _statuses(document: Document) -> dict[Json, Json]:
    return {one["id"]: one["status"] for one in _entries(document, "agents") if isinstance(one, dict)}


def _plain(text: Json) -> str:
    return " ".join(str(text).split()).casefold()


def _used(document: Document) -> Json:
    usage = document["context_usage"]
    assert isinstance(usage, dict)
    return usage["estimated_tokens"]


# ── fields ───────────────────────────────────────────────────────────────────────────────────────────────


def test_places_have_canonical_names_and_values() -> None:
    assert RULES.field(("goal",), "g") == ("goal", "g")
    assert RULES.field(("status",), "complete") == ("status", "completed")
    assert RULES.field(("agents", "code-1", "status"), "failed") == ("agents.code-1.status", "error")
    assert RULES.field(("agents", "code-1", "progress"), 60) == ("agents.code-1.progress", 0.6)
    assert RULES.field(("x-own",), 1) is None
