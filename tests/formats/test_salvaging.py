"""Hand-made session files: what is recognised becomes a possible story, everything is kept, the mapping is told."""

from __future__ import annotations

from typing import Any

import pytest
import spec_examples
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import tasks, view
from holdfast.core.state import State
from holdfast.core.times import text
from holdfast.core.vocabulary import SessionStarted
from holdfast.formats.conformance import GROUND
from holdfast.formats.folding import folded
from holdfast.formats.places import written
from holdfast.formats.recovery.meaning import completed, meant
from holdfast.formats.recovery.recovering import recovered
from holdfast.formats.unknown.meanings import recognises
from holdfast.formats.unknown.reading import reading
from holdfast.formats.unknown.salvage import EXTRA, NO_GOAL, additions, beginning
from holdfast.formats.unknown.table import GROUPS, TABLE, row_of, words_of

HAND_MADE: dict[str, Any] = {
    "session_id": "tuesday",
    "working_on": "Fix the parser",
    "current_task": {"task": "Write its tests", "progress": 50},
    "next_steps": ["Run CI", "- [x] Ask Mia"],
    "completed_tasks": [{"task": "Read the code", "outcome": "clear", "files": ["src/a.py"]}, "Sketch it"],
    "decisions": {"database": "SQLite"},
    "key_decisions": [{"decision": "Own stack", "rationale": "no recursion", "timestamp": "2025-01-01T12:00:00Z"}],
    "blocker": "Waiting for keys",
    "git_branch": "dev",
    "notes": "two\nlines",
    "todos": [{"content": "Ship it", "status": "in_progress", "activeForm": "Shipping"}],
    "progress": "60%",
    "files_modified": ["src/b.py", "/etc/passwd"],
    "last_error": "it crashed",
    "started_at": "2025-01-01",
    "last_updated": "2025-01-02T10:00:00Z",
    "mood": {"level": [1, 2]},
}


def state_of(value: Any) -> State:
    """What the events add up to; the story must be possible."""
    heard = beginning(reading(value, GROUND), value, GROUND)
    assert isinstance(heard[0].data, SessionStarted)
    assert [one.at for one in heard] == sorted(one.at for one in heard)
    assert all(one.at <= GROUND.now for one in heard)
    state = folded(heard, "s")
    assert state.clashes == []
    assert state.not_applied == 0
    return state


def plan(state: State) -> dict[str, str]:
    return {task.text: tasks.status_of(task) for task in state.tasks.values()}


def mapping(value: Any) -> dict[str, str]:
    return {written(note.place): note.message for note in reading(value, GROUND).notes}


def test_everything_that_is_usual_is_recognised() -> None:
    state = state_of(HAND_MADE)
    assert view.word(state, "goal") == "Fix the parser"
    assert plan(state) == {
        "Read the code": "completed",
        "Sketch it": "completed",
        "Ask Mia": "completed",
        "Write its tests": "in_progress",
        "Ship it": "in_progress",
        "Run CI": "pending",
        "Waiting for keys": "blocked",
    }
    done = next(task for task in state.tasks.values() if task.text == "Read the code")
    assert (done.outcome, done.artifacts) == ("clear", ("src/a.py",))
    assert [(one.chosen, one.why) for one in state.decisions] == [
        ("Own stack", "no recursion"),
        ("database: SQLite", None),
    ]
    assert [note.text for note in state.notes] == ["two\nlines"]
    assert [failure.message for failure in state.failures] == ["it crashed"]
    assert list(state.files) != []
    assert state.project is not None
    assert state.project.git_branch == "dev"
    shown = view.session(state, now=state.updated_at)
    assert (shown.progress, shown.status) == (0.6, "in_progress")
    assert (text(state.created_at or 0), text(state.updated_at)) == (
        "2025-01-01T00:00:00.000Z",
        "2025-01-02T10:00:00.000Z",
    )
    assert [change.path for change in shown.files] == ["src/b.py"]
    assert reading(HAND_MADE, GROUND).alias == "tuesday"


def test_the_whole_document_is_kept_under_extra() -> None:
    assert state_of(HAND_MADE).extra["salvaged"] == HAND_MADE
    odd = {"goal": "x", "number": 10**25}
    kept = state_of(odd).extra["salvaged"]
    assert isinstance(kept, str)
    assert "10000000000000000000000000" in kept


def test_the_mapping_is_told_place_by_place() -> None:
    told = mapping(HAND_MADE)
    assert told["$.working_on"] == "taken as the goal"
    assert told["$.next_steps[0]"] == "taken as pending task"
    assert told["$.next_steps[1]"] == "taken as done task"
    assert told["$.decisions.database"] == "taken as a decision"
    assert told["$.blocker"] == "taken as blocked task"
    assert told["$.files_modified[0]"] == "taken as a modified file"
    assert "$.files_modified[1]" not in told
    assert "$.mood" not in told


@pytest.mark.parametrize(
    ("value", "goal"),
    [
        ({"goal": "A", "working_on": "B"}, "A"),
        ({"workingOn": "B"}, "B"),
        ({"Current Task": "C"}, "C"),
        ({"session": {"goal": "D", "status": "active"}}, "D"),
        ({"state": {"current_focus": "E"}, "todos": []}, "E"),
        ({"next_steps": ["x"]}, NO_GOAL),
        (["x", {"text": "y", "done": True}], NO_GOAL),
    ],
)
def test_the_goal_is_found_under_its_many_names(value: Any, goal: str) -> None:
    assert view.word(state_of(value), "goal") == goal


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"todo": "- [ ] a\n- [x] b\n* c"}, {"a": "pending", "b": "completed", "c": "pending"}),
        (
            {"tasks": {"completed": ["a"], "pending": ["b"], "blocked": ["c"]}},
            {"a": "completed", "b": "pending", "c": "blocked"},
        ),
        (
            {"tasks": {"write it": "done", "test it": "todo", "ship it": False}},
            {"write it": "completed", "test it": "pending", "ship it": "pending"},
        ),
        (
            {"tasks": [{"name": "a", "status": "cancelled"}, {"title": "b", "completed": True}]},
            {"a": "dropped", "b": "completed"},
        ),
        (
            {"progress": {"completed": ["a"], "remaining": ["b"], "percentage": 50}},
            {"a": "completed", "b": "pending"},
        ),
        ({"done": ["a"], "todo": ["a", "b"]}, {"a": "completed", "b": "pending"}),
        ({"goal": "a", "current_task": "a", "in_progress": ["c"]}, {"c": "in_progress"}),
    ],
)
def test_tasks_come_as_lists_objects_and_text(value: Any, expected: dict[str, str]) -> None:
    assert plan(state_of(value)) == expected


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("done", "completed"),
        ("Paused", "paused"),
        ("failed", "error"),
        ("cancelled", "aborted"),
        ("active", "in_progress"),
        ("??", "in_progress"),
    ],
)
def test_the_status_is_understood(said: str, status: str) -> None:
    assert view.status_of(state_of({"goal": "x", "status": said})) == status


@pytest.mark.parametrize(
    ("said", "progress"), [(0.4, 0.4), (40, 0.4), ("40%", 0.4), ("2/5", 0.4), (1, 1.0), ("half", 0.0), (400, 0.0)]
)
def test_progress_is_understood(said: Any, progress: float) -> None:
    state = state_of({"goal": "x", "progress": said})
    assert view.session(state, now=state.updated_at).progress == progress


KEYS = (
    st.sampled_from(sorted({word for group in GROUPS.values() for word in group.split("|")}))
    | st.lists(st.sampled_from(["next", "task", "done", "session", "branch", "goal", "at"]), max_size=3).map("_".join)
    | st.text(max_size=5)
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=10)
    | st.sampled_from(["done", "2025-01-01T00:00:00Z", "../x", "a/b.py"])
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=10
)


@given(st.dictionaries(KEYS, VALUES, max_size=8))
def test_anything_is_a_possible_story_and_kept_whole(value: dict[str, Any]) -> None:
    state = state_of(value)
    assert EXTRA in state.extra
    view.session(state, now=state.updated_at)


# ── what a recovered document was ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", spec_examples.JSON_FILES)
def test_a_cut_document_is_recognised_and_completed(name: str) -> None:
    """With a third of it left, the format is known, and its document is valid again."""
    raw = spec_examples.JSON_FILES[name]
    for part in (3, 5, 7, 9):
        found = recovered(raw[: len(raw) * part // 10])
        what = meant(found.value)
        assert what is not None, part
        assert what.rules.name == name.split(maxsplit=1)[0]
        tidy = completed(found.value, what, GROUND, cut=True)
        assert isinstance(tidy, tuple), (part, tidy)
        assert not any(problem.severity == "error" for problem in what.rules.problems(tidy.document, what.kind))


def test_a_hand_made_file_is_none_of_the_formats() -> None:
    assert meant(HAND_MADE) is None
    assert meant({"goal": "x"}) is None
    assert meant([1]) is None
