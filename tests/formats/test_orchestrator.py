"""The orchestrator format: the suite every format passes, its specification's example, and what is valid."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core import view
from holdfast.core.canonical import Json
from holdfast.core.model import Session
from holdfast.formats.base import Document, Format
from holdfast.formats.conformance import CONTEXT, FormatConformance
from holdfast.formats.convert import state_of
from holdfast.formats.entries import is_same
from holdfast.formats.text.json import render_json
from tests.formats.orchestrator_documents import EXAMPLE, RULES, changed, documents, edits, messages, with_agent

SLOW = settings(suppress_health_check=[HealthCheck.too_slow])


class TestOrchestrator(FormatConformance):
    rules: ClassVar[Format] = RULES
    documents: ClassVar[st.SearchStrategy[Document]] = documents()
    edits: ClassVar[st.SearchStrategy[tuple[Document, Document]]] = edits()
    examples: ClassVar[list[tuple[str, Document]]] = [("the schema", EXAMPLE)]


def imported(document: Document) -> Session:
    state = state_of(document, RULES, CONTEXT)
    return view.session(state, state.updated_at)


# ── the specification's example ──────────────────────────────────────────────────────────────────────────


def test_example_of_the_text_is_valid() -> None:
    """Its times follow each other, its id is of the day it was created, 25,000 tokens of 128,000 are 20 percent."""
    assert RULES.problems(EXAMPLE, "orchestrator") == []
    assert RULES.is_sound(render_json(EXAMPLE), "orchestrator")
    assert RULES.detects(EXAMPLE) == "orchestrator"


def test_example_renders_exactly_without_a_remainder() -> None:
    assert is_same(RULES.render(state_of(EXAMPLE, RULES, CONTEXT)), EXAMPLE)


def test_example_gives_the_expected_state() -> None:
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
def test_each_status_comes_in_and_is_shown_again(status: str, canonical: str) -> None:
    document = changed(status=status)
    assert imported(document).status == canonical
    assert is_same(RULES.render(state_of(document, RULES, CONTEXT)), document)


@pytest.mark.parametrize(
    ("status", "canonical"),
    [("pending", "pending"), ("in_progress", "running"), ("paused", "paused"), ("complete", "completed"),
     ("failed", "error"), ("aborted", "aborted"), ("interrupted", "interrupted")],
)  # fmt: skip
def test_each_status_of_an_agent_comes_in_and_is_shown_again(status: str, canonical: str) -> None:
    document = with_agent(1, status=status)
    assert imported(document).agents[1].status == canonical
    again = RULES.render(state_of(document, RULES, CONTEXT))["agents"]
    assert isinstance(again, list)
    assert isinstance(again[1], dict)
    assert again[1]["status"] == status


def test_session_that_was_paused_was_paused_when_it_was_saved() -> None:
    (pause,) = [pause for pause in imported(changed(status="paused")).time.pauses if pause.ended_at is None]
    assert (pause.kind, pause.started_at) == ("manual", "2025-12-27T11:45:00.000Z")


@pytest.mark.parametrize(
    ("tokens", "percentage", "window"),
    [(25_000, 20, 128_000), (25_000, 19, 128_000), (100_000, 50, 200_000), (250_000, 25, 1_000_000),
     (100_000, 3, 128_000), (100_000, 71, 128_000), (100_000, 49.6, 200_000), (0, 40, 128_000)],
)  # fmt: skip
def test_window_is_the_usual_one_unless_the_percentage_implies_another(
    tokens: int, percentage: float, window: int
) -> None:
    document = changed(context_usage={"estimated_tokens": tokens, "percentage": percentage})
    assert imported(document).context.window == window


def test_error_entry_about_a_failed_agent_is_its_failure() -> None:
    document = with_agent(1, status="failed", completed="2025-12-27T11:00:00Z")
    document["errors"] = [
        {"timestamp": "2025-12-27T10:50:00Z", "agent": "code-1", "message": "slow", "category": None},
        {"timestamp": "2025-12-27T11:00:00Z", "agent": "code-1", "message": "no memory", "category": "resource"},
        "and something else",
    ]
    session = imported(document)
    assert [error.message for error in session.errors] == ["slow", "no memory", "and something else"]
    error = session.agents[1].error
    assert error is not None
    assert (error.category, error.message) == ("resource", "no memory")


def test_failed_agent_without_an_error_entry_uses_its_summary() -> None:
    error = imported(with_agent(1, status="failed", result_summary="could not compile")).agents[1].error
    assert error is not None
    assert (error.category, error.message) == ("logical", "could not compile")


# ── strictness ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", sorted(EXAMPLE))
def test_each_part_of_the_document_is_required(key: str) -> None:
    document = {name: value for name, value in EXAMPLE.items() if name != key}
    assert messages(document) == [(key, "error")]
    assert not RULES.is_sound(render_json(document), "orchestrator")


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
def test_violation_is_reported_with_its_place(document: Document, place: str) -> None:
    assert messages(document) == [(place, "error")]
    assert not RULES.is_sound(render_json(document), "orchestrator")


def test_id_of_another_day_is_only_a_warning() -> None:
    """Whoever made the id may have lived in another zone."""
    assert messages(changed(session_id="2025-12-26-abc123")) == [("session_id", "warning")]


@given(documents())
@SLOW
def test_quick_check_and_rules_agree(document: Document) -> None:
    sound = RULES.is_sound(render_json(document), "orchestrator")
    assert sound == (RULES.problems(document, "orchestrator") == [])


@given(documents(), st.data())
@SLOW
def test_invalid_document_fails_the_quick_check(document: Document, data: st.DataObject) -> None:
    """A valid document with any one of its values replaced."""
    place = data.draw(st.sampled_from(_places(document)))
    others: list[Json] = [None, "", "x", " ", -1, 1.5, True, [], {}, "2025-13-01T00:00:00Z", [{}]]
    broken = _replaced(document, place, others[data.draw(st.integers(0, len(others) - 1))])
    assert isinstance(broken, dict)
    if RULES.is_sound(render_json(broken), "orchestrator"):
        assert RULES.problems(broken, "orchestrator") == []


def _places(value: Json, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner: list[tuple[str | int, Json]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [(*place, key) for key, _ in inner] + [
        inner_place for key, item in inner for inner_place in _places(item, (*place, key))
    ]


def _replaced(value: Json, place: tuple[str | int, ...], other: Json) -> Json:
    if not place:
        return other
    first, *rest = place
    if isinstance(value, dict):
        return {key: _replaced(item, tuple(rest), other) if key == first else item for key, item in value.items()}
    assert isinstance(value, list)
    return [_replaced(item, tuple(rest), other) if at == first else item for at, item in enumerate(value)]


@pytest.mark.parametrize(
    "value",
    [
        None, [], "text", {}, {"goal": "g"}, {"working_on": "x", "next_steps": [], "git_branch": "main"},
        {"sessionId": "20251104-a-b", "status": "IN_PROGRESS", "goal": "g", "agents": []},
        {"session_id": "11111111-2222-4333-8444-555555555555", "goal": "g", "status": "paused", "agents": []},
        {"session_id": "x", "goal": "g", "status": "paused", "agents": [], "teleportation": {}},
    ],
)  # fmt: skip
def test_other_files_are_not_detected_as_this_format(value: Json) -> None:
    assert RULES.detects(value) is None


def test_document_in_the_wild_is_recognised() -> None:
    assert RULES.detects({"session_id": "2025-12-27-abc123", "goal": "g"}) == "orchestrator"
    assert RULES.detects({"goal": "g", "status": "completed", "pending_tasks": []}) == "orchestrator"


# ── fields ───────────────────────────────────────────────────────────────────────────────────────────────


def test_places_have_canonical_names_and_values() -> None:
    assert RULES.field(("goal",), "g") == ("goal", "g")
    assert RULES.field(("status",), "complete") == ("status", "completed")
    assert RULES.field(("agents", "code-1", "status"), "failed") == ("agents.code-1.status", "error")
    assert RULES.field(("agents", "code-1", "progress"), 60) == ("agents.code-1.progress", 0.6)
    assert RULES.field(("x-own",), 1) is None
