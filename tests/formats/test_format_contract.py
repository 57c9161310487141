"""The contract: its documents, its rules, its history, and the text's own examples."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import tasks as tasks_of
from holdfast.core import view
from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid, Refused
from holdfast.core.events import (
    CommandRan,
    EventData,
    PhaseAdded,
    ProjectFacts,
    SessionCompleted,
    SessionEdited,
    SessionFailed,
    SessionPaused,
    SessionResumed,
    SessionSaved,
    SessionStarted,
    TaskAdded,
    TaskBlocked,
    TaskCompleted,
    TaskDropped,
    TaskReopened,
    TaskStarted,
)
from holdfast.formats.base import Document, TimedEvent
from holdfast.formats.conformance import CONTEXT, FormatConformance
from holdfast.formats.contract import FORMAT
from holdfast.formats.contract.fields import HISTORY, PLAN, REGISTRY, STATE, model_name, model_note
from holdfast.formats.convert import fold_events, state_of
from holdfast.formats.entries import is_same
from holdfast.formats.text.read import read_yaml
from tests.formats.contract_documents import documents, edits

# The text's example of state.yaml, and of a line of history.
STATE_EXAMPLE = """\
version: "1.0"
feature_id: "ai-orchestrator-2025-01-09"
current_state:
  active_task: "impl-core-commands"
  model_in_use: "opus"
  started_at: "2025-01-09T10:00:00Z"
  last_updated: "2025-01-09T15:30:45Z"
"""
LINE_EXAMPLE: Document = {
    "timestamp": "2025-01-09T10:00:00Z", "command": "plan", "arguments": "Create AI orchestrator", "model": "gemini",
    "agent": "agent-1", "task_id": None, "status": "success", "duration_ms": 5234,
}  # fmt: skip
ENTRY: Document = {
    "feature_id": "ai-orchestrator-2025-01-09", "started_at": "2025-01-09T10:00:00Z",
    "last_active": "2025-01-09T15:30:00Z", "status": "active",
}  # fmt: skip


def example() -> Document:
    state = read_yaml(STATE_EXAMPLE.encode(), "state.yaml").value
    assert isinstance(state, dict)
    return {"state": state}


def planned(**changed: Json) -> Document:
    task: Document = {
        "task_id": "impl-core-commands", "description": "Implement", "agent": "agent-1", "status": "in_progress",
        "started_at": "2025-01-09T11:00:00Z", "completed_at": None, "artifacts": [], **changed,
    }  # fmt: skip
    feature: Document = {
        "id": "ai-orchestrator-2025-01-09", "name": "AI Orchestrator", "description": "Runs agents",
        "created_at": "2025-01-09T10:00:00Z",
    }  # fmt: skip
    phases: Json = [{"phase_id": "core", "name": "Core", "tasks": [task]}]
    return {**example(), "plan": {"feature": feature, "phases": phases}}


class TestContract(FormatConformance):
    rules = FORMAT
    documents = documents()
    edits = edits()
    examples: ClassVar[Sequence[tuple[str, Document]]] = [
        ("state.yaml", example()),
        ("history.jsonl", {**example(), "history": [LINE_EXAMPLE]}),
    ]


# ── the text's examples ──────────────────────────────────────────────────────────────────────────────────


def test_texts_state_is_valid_and_names_its_task_without_a_plan() -> None:
    """It has neither implementation_plan nor history_log, which the text's structure lists: so they are optional."""
    document = example()
    assert FORMAT.problems(document["state"], STATE) == []
    assert FORMAT.problems_together(document) == []
    state = state_of(document, FORMAT, CONTEXT)
    assert view.text_value(state, "goal") == "ai orchestrator"  # nothing but the slug says what it is about
    assert view.text_value(state, "model") == "opus"
    assert [(task.id, tasks_of.status_of(task)) for task in state.tasks.values()] == [
        ("impl-core-commands", "in_progress")
    ]
    assert state.aliases == {"contract": "ai-orchestrator-2025-01-09"}


def test_history_line_of_the_specification_is_valid_and_becomes_a_command() -> None:
    """It succeeded, so it has no `error`; its task is null, which the text allows."""
    assert FORMAT.problems(LINE_EXAMPLE, HISTORY) == []
    events = FORMAT.changes(None, {**example(), "history": [LINE_EXAMPLE]}, None, CONTEXT)
    assert [event.data for event in events if isinstance(event.data, CommandRan)] == [
        CommandRan(command="plan Create AI orchestrator", code=0, agent="agent-1", duration_ms=5234)
    ]


def test_state_is_written_as_the_text_writes_it() -> None:
    assert FORMAT.write(example()).decode() == STATE_EXAMPLE


# ── rules ────────────────────────────────────────────────────────────────────────────────────────────────


def broken(value: Json, kind: str) -> list[str]:
    return [
        ".".join(map(str, problem.place)) for problem in FORMAT.problems(value, kind) if problem.severity == "error"
    ]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("version", "2.0"),
        ("version", 1.0),
        ("feature_id", "ai-orchestrator"),
        ("feature_id", "ai-orchestrator-2025-02-30"),
        ("feature_id", "AI-2025-01-09"),
        ("feature_id", "-ai-2025-01-09"),
        ("current_state.model_in_use", "gpt-5"),
        ("current_state.started_at", "2025-01-09T10:00:00+01:00"),
        ("current_state.started_at", "2025-01-09T10:00:00"),
        ("current_state.started_at", "2025-13-09T10:00:00Z"),
        ("current_state.last_updated", "2025-01-09T09:00:00Z"),
        ("current_state.active_task", 5),
    ],
)
def test_state_that_breaks_a_rule_is_reported_with_its_place(place: str, value: Json) -> None:
    state = example()["state"]
    *outer, key = place.split(".")
    inner = state
    for step in outer:
        assert isinstance(inner, dict)
        inner = inner[step]
    assert isinstance(inner, dict)
    inner[key] = value
    assert broken(state, STATE) == [place]
    assert not FORMAT.is_sound(msgspec.json.encode(state), STATE)


def test_version_that_is_missing_is_1_0_and_no_error() -> None:
    state = example()["state"]
    assert isinstance(state, dict)
    del state["version"]
    assert [(problem.place, problem.severity) for problem in FORMAT.problems(state, STATE)] == [
        (("version",), "warning")
    ]
    repaired = FORMAT.repair(state, CONTEXT)
    assert is_same(repaired.document, {"state": state})
    assert [note.place for note in repaired.notes] == [("state", "version")]


def test_completed_task_needs_a_time_after_its_start() -> None:
    place = "phases.0.tasks.0.completed_at"
    assert broken(planned(status="completed")["plan"], PLAN) == [place]
    assert broken(planned(status="completed", completed_at="2025-01-09T10:59:59Z")["plan"], PLAN) == [place]
    assert broken(planned(status="completed", completed_at="2025-01-09T11:00:00Z")["plan"], PLAN) == []


def test_ids_are_unique_in_plan_and_registry() -> None:
    plan = planned()["plan"]
    assert isinstance(plan, dict)
    assert isinstance(plan["phases"], list)
    plan["phases"].append(copy.deepcopy(plan["phases"][0]))
    assert broken(plan, PLAN) == ["phases.1.phase_id", "phases.1.tasks.0.task_id"]
    assert broken({"active_features": [ENTRY, ENTRY]}, REGISTRY) == ["active_features.1.feature_id"]


def test_only_a_failure_has_an_error_and_always() -> None:
    assert broken({**LINE_EXAMPLE, "error": "no"}, HISTORY) == ["error"]
    assert broken({**LINE_EXAMPLE, "status": "failure"}, HISTORY) == ["error"]
    assert broken({**LINE_EXAMPLE, "status": "failure", "error": "no"}, HISTORY) == []
    assert broken({**LINE_EXAMPLE, "duration_ms": -1}, HISTORY) == ["duration_ms"]


def test_files_of_a_feature_fit_together() -> None:
    document = planned(task_id="another")
    document["entry"] = {**ENTRY, "feature_id": "other-2025-01-09"}
    document["history"] = [LINE_EXAMPLE, {**LINE_EXAMPLE, "timestamp": "2025-01-09T09:00:00Z"}]
    assert [(problem.place, problem.severity) for problem in FORMAT.problems_together(document)] == [
        (("entry", "feature_id"), "error"),
        (("state", "current_state", "active_task"), "error"),
        (("history", 1, "timestamp"), "warning"),  # what a union merge leaves
    ]


@given(st.data())
def test_what_looks_sound_is_sound(data: st.DataObject) -> None:
    """The quick look may doubt anything, but what it passes has no problem at all."""
    kind, value = data.draw(st.sampled_from(FORMAT.files(data.draw(documents()))))
    value = copy.deepcopy(value)
    spots = list(_spots(value))
    changing: bool = data.draw(st.booleans())
    if spots and changing:
        where, key = data.draw(st.sampled_from(spots))
        odd: list[Json] = [None, "", " ", 5, 5.0, True, "x", [], {}, "2025-02-30T00:00:00Z", "a-2025-02-30", "1.0"]
        where[key] = data.draw(st.sampled_from(odd))
    if FORMAT.is_sound(msgspec.json.encode(value), kind):
        assert FORMAT.problems(value, kind) == []


Spot = tuple[dict[str, Json], str]


def _spots(value: Json) -> list[Spot]:
    if isinstance(value, dict):
        return [(value, key) for key in value] + [spot for inner in value.values() for spot in _spots(inner)]
    return [spot for inner in value for spot in _spots(inner)] if isinstance(value, list) else []


def test_usual_files_are_seen_to_be_sound_at_once() -> None:
    document: Document = {**planned(), "entry": ENTRY, "history": [LINE_EXAMPLE]}
    assert all(FORMAT.is_sound(msgspec.json.encode(value), kind) for kind, value in FORMAT.files(document))
    assert not FORMAT.is_sound(STATE_EXAMPLE.encode(), STATE)  # YAML is left to the strict rules


@given(documents())
def test_each_file_is_recognised_by_its_shape(document: Document) -> None:
    assert [FORMAT.detects(value) for _, value in FORMAT.files(document)] == [
        kind for kind, _ in FORMAT.files(document)
    ]


@pytest.mark.parametrize("value", [None, [], "x", {}, {"goal": "x"}, {"schema_version": "1.0", "session_id": "x"}])
def test_other_documents_are_not_detected_as_contract(value: Json) -> None:
    assert FORMAT.detects(value) is None


# ── models ───────────────────────────────────────────────────────────────────────────────────────────────


def test_model_goes_under_its_family_or_what_the_settings_say_or_sonnet() -> None:
    assert model_name("claude-opus-4-5", {}) == "opus"
    assert model_name("Gemini 3 Pro", {}) == "gemini"
    assert model_name("gpt-5", {"gpt-5": "gemini"}) == "gemini"
    assert model_name("gpt-5", {"gpt-5": "nonsense"}) == "sonnet"
    assert model_name(None, {}) == "sonnet"
    assert model_note("gpt-5", {}) is not None
    assert model_note("opus", {}) is None


# ── changes ──────────────────────────────────────────────────────────────────────────────────────────────


def changed(before: Document, after: Document) -> list[EventData]:
    return [change.data for change in FORMAT.changes(before, after, state_of(before, FORMAT, CONTEXT), CONTEXT)]


def test_task_that_was_completed_in_the_plan_is_completed_with_its_files() -> None:
    state = state_of(planned(), FORMAT, CONTEXT)
    after = planned(status="completed", completed_at="2025-01-09T12:00:00Z", artifacts=["a.py"])
    (events,) = FORMAT.changes(planned(), after, state, CONTEXT)
    assert events.at == 1_736_424_000_000
    assert isinstance(events.data, TaskCompleted)
    assert events.data.artifacts == ("a.py",)


@pytest.mark.parametrize("status", ["pending", "in_progress", "blocked"])
def test_completed_task_cannot_change_its_status(status: str) -> None:
    done = planned(status="completed", completed_at="2025-01-09T12:00:00Z")
    with pytest.raises(Refused, match="completed and cannot become"):
        changed(done, planned(status=status))


def test_completed_feature_stays_completed() -> None:
    done = {**example(), "entry": {**ENTRY, "status": "completed"}}
    with pytest.raises(Refused, match="is completed, which is final"):
        changed(done, {**example(), "entry": ENTRY})


def test_another_feature_id_is_another_session() -> None:
    after = example()
    assert isinstance(after["state"], dict)
    after["state"]["feature_id"] = "other-2025-01-09"
    with pytest.raises(Refused, match="identifies the session"):
        changed(example(), after)


def test_registry_pauses_resumes_and_completes() -> None:
    active, paused, done = ({**example(), "entry": {**ENTRY, "status": s}} for s in ("active", "paused", "completed"))
    assert changed(active, paused) == [SessionPaused()]
    assert changed(paused, active) == [SessionResumed()]
    assert changed(paused, done) == [SessionCompleted()]


def test_task_made_active_is_begun() -> None:
    after = example()
    current = after["state"]["current_state"]  # type: ignore[index,call-overload]
    current["active_task"] = "next"  # type: ignore[index,call-overload]
    assert changed(example(), after) == [TaskAdded(id="next", text="next"), TaskStarted(id="next")]


def test_model_and_a_name_are_edits() -> None:
    after = planned()
    after["state"]["current_state"]["model_in_use"] = "gemini"  # type: ignore[index,call-overload]
    after["plan"]["feature"]["name"] = "Orchestrator 2"  # type: ignore[index,call-overload]
    assert changed(planned(), after) == [SessionEdited(model="gemini"), SessionEdited(goal="Orchestrator 2")]


def test_only_new_history_lines_of_others_become_events() -> None:
    own: Document = {**LINE_EXAMPLE, "x-holdfast": {}}
    before: Document = {**example(), "history": [LINE_EXAMPLE]}
    after: Document = {
        **example(),
        "history": [LINE_EXAMPLE, LINE_EXAMPLE, own, {**LINE_EXAMPLE, "command": "build"}],
    }
    assert [data.command for data in changed(before, after) if isinstance(data, CommandRan)] == [
        "plan Create AI orchestrator",
        "build Create AI orchestrator",
    ]


# ── rendering ────────────────────────────────────────────────────────────────────────────────────────────

ids = st.sampled_from(["a", "b", "a-2", "odd id", ""])
any_text = st.sampled_from(["x", "", "  ", "é\n"])
happenings = st.one_of(
    st.builds(TaskAdded, id=ids, text=any_text, phase=st.none() | ids | st.just("tasks"), agent=st.none() | ids),
    st.builds(PhaseAdded, id=ids | st.just("tasks"), name=any_text),
    *(
        st.builds(kind, id=ids, artifacts=st.lists(any_text, max_size=2).map(tuple))
        for kind in (TaskStarted, TaskCompleted, TaskBlocked, TaskReopened, TaskDropped)
    ),
    st.builds(SessionEdited, goal=any_text, summary=any_text, model=any_text, feature=any_text),
    *(st.builds(kind) for kind in (SessionPaused, SessionResumed, SessionCompleted, SessionSaved)),
    st.builds(SessionFailed, message=any_text),
)
stories = st.lists(st.builds(TimedEvent, st.integers(-(10**15), 2 * 10**14), happenings), max_size=12)


@given(stories, any_text, st.booleans())
def test_any_history_renders_as_valid_documents(story: list[TimedEvent], goal: str, began: bool) -> None:
    first = TimedEvent(5, SessionStarted(goal=goal, project=ProjectFacts(id="p", name="n"), device="d"))
    shown = FORMAT.render(fold_events([first, *story] if began else story, "7d444840-9dc0-41d1-b245-5ffdce74fad2"))
    problems = [problem for kind, value in FORMAT.files(shown) for problem in FORMAT.problems(value, kind)]
    assert [problem for problem in problems if problem.severity == "error"] == []
    assert FORMAT.problems_together(shown) == []


def test_task_that_was_dropped_is_shown_as_blocked_and_read_as_dropped() -> None:
    events = FORMAT.changes(None, planned(), None, CONTEXT)
    state = fold_events([*events, TimedEvent(CONTEXT.now, TaskDropped(id="impl-core-commands"))], "s")
    shown = FORMAT.render(state)
    task = shown["plan"]["phases"][0]["tasks"][0]  # type: ignore[index,call-overload]
    assert (task["status"], task["x-holdfast-status"]) == ("blocked", "dropped")  # type: ignore[index,call-overload]
    again = state_of(shown, FORMAT, CONTEXT)
    assert [tasks_of.status_of(task) for task in again.tasks.values()] == ["dropped"]


def test_task_without_a_phase_comes_back_without_one() -> None:
    state = state_of(FORMAT.render(state_of(example(), FORMAT, CONTEXT)), FORMAT, CONTEXT)
    assert [task.phase for task in state.tasks.values()] == [None]
    assert state.phases == {}


def test_document_without_a_feature_is_refused() -> None:
    odd: list[Json] = [None, [], {}, {"active_features": []}, {"state": 1}]
    for value in odd:
        with pytest.raises(Invalid):
            FORMAT.repair(value, CONTEXT)
