"""Hand-made session files: what is recognised becomes valid events, everything is kept, the mapping is noted."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import tasks, view
from holdfast.core.events import SessionEdited, SessionStarted, TaskAdded
from holdfast.core.state import State
from holdfast.core.times import HOUR, MINUTE, format_time
from holdfast.formats.base import TimedEvent
from holdfast.formats.conformance import CONTEXT
from holdfast.formats.convert import fold_events
from holdfast.formats.document_paths import format_place
from holdfast.formats.recovery.identify import complete, identify
from holdfast.formats.recovery.parse import recover_document
from holdfast.formats.salvage import EXTRA, NO_GOAL, first_events, later_events
from holdfast.formats.unknown.keys import recognises
from holdfast.formats.unknown.read import read_document
from holdfast.formats.unknown.table import GROUPS, TABLE, row_of, words_of
from tests.support import spec_examples

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
    events = first_events(read_document(value, CONTEXT), value, CONTEXT)
    assert isinstance(events[0].data, SessionStarted)
    assert [event.at for event in events] == sorted(event.at for event in events)
    assert all(event.at <= CONTEXT.now for event in events)
    state = fold_events(events, "s")
    assert state.clashes == []
    assert state.not_applied == 0
    return state


def plan(state: State) -> dict[str, str]:
    return {task.text: tasks.status_of(task) for task in state.tasks.values()}


def mapping(value: Any) -> dict[str, str]:
    return {format_place(note.place): note.message for note in read_document(value, CONTEXT).notes}


def test_everything_that_is_usual_is_recognised() -> None:
    state = state_of(HAND_MADE)
    assert view.text_value(state, "goal") == "Fix the parser"
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
    assert (done.outcome, list(done.artifacts)) == ("clear", ["src/a.py"])
    assert [(decision.chosen, decision.why) for decision in state.decisions] == [
        ("Own stack", "no recursion"),
        ("database: SQLite", None),
    ]
    assert [note.text for note in state.notes] == ["two\nlines"]
    assert [failure.message for failure in state.failures] == ["it crashed"]
    assert list(state.files) != []
    assert state.project is not None
    assert state.project.git_branch == "dev"
    shown = view.session(state, now=state.updated_at)
    assert (shown.progress, shown.status) == (0.6, "paused")
    assert (format_time(state.created_at or 0), format_time(state.updated_at)) == (
        "2025-01-01T00:00:00.000Z",
        "2025-01-02T10:00:00.000Z",
    )
    assert [change.path for change in shown.files] == ["src/b.py"]
    assert read_document(HAND_MADE, CONTEXT).alias == "tuesday"


def test_whole_document_is_kept_under_extra() -> None:
    assert state_of(HAND_MADE).extra["salvaged"] == HAND_MADE
    odd = {"goal": "x", "number": 10**25}
    kept = state_of(odd).extra["salvaged"]
    assert isinstance(kept, str)
    assert "10000000000000000000000000" in kept


def test_mapping_is_noted_for_each_place() -> None:
    mapped = mapping(HAND_MADE)
    assert mapped["$.working_on"] == "taken as the goal"
    assert mapped["$.next_steps[0]"] == "taken as a pending task"
    assert mapped["$.next_steps[1]"] == "taken as a done task"
    assert mapped["$.decisions.database"] == "taken as a decision"
    assert mapped["$.blocker"] == "taken as a blocked task"
    assert mapped["$.files_modified[0]"] == "taken as a modified file"
    assert "$.files_modified[1]" not in mapped
    assert "$.mood" not in mapped


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
def test_goal_is_recognised_under_many_names(value: Any, goal: str) -> None:
    assert view.text_value(state_of(value), "goal") == goal


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
    ("reported", "status"),
    [
        ("done", "completed"),
        ("Paused", "paused"),
        ("failed", "error"),
        ("cancelled", "aborted"),
        ("active", "in_progress"),
        ("??", "in_progress"),
    ],
)
def test_status_is_understood(reported: str, status: str) -> None:
    assert view.status_of(state_of({"goal": "x", "status": reported})) == status


@pytest.mark.parametrize(
    ("reported", "progress"), [(0.4, 0.4), (40, 0.4), ("40%", 0.4), ("2/5", 0.4), (1, 1.0), ("half", 0.0), (400, 0.0)]
)
def test_progress_is_understood(reported: Any, progress: float) -> None:
    state = state_of({"goal": "x", "progress": reported})
    assert view.session(state, now=state.updated_at).progress == progress


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", ["", "[", "—", " "])
def test_key_without_a_word_is_no_reason_to_refuse_the_file(key: str) -> None:
    recognised = read_document({"done": {key: ["b"], "done": {"x": "done"}}}, CONTEXT)

    assert [task.text for task in recognised.tasks if task.status == "done"][:1] == ["b"]


def test_key_words_are_the_same_in_every_spelling() -> None:
    spellings = ("nextSteps", "next_steps", "Next Steps", "next-step", "NEXT_STEPS", "NextStep")
    assert {words_of(key) for key in spellings} == {("next", "step")}
    assert words_of("priorities") == ("priority",)
    assert words_of("JSONStatus") == ("json", "status")
    assert words_of("progress") == ("progress",)


def test_each_row_of_the_table_can_match() -> None:
    """A row that an earlier one always hides would mislead whoever extends the table."""
    samples: list[Any] = [
        "Write the docs", "main", "3f9c2d1", "2026-05-01T10:00:00Z", 0.5, ["Write the docs"], ["src/a.py"],
        {"Write the docs": "done", "Ship it": "pending"}, [{"title": "Ship it", "status": "pending"}], {"a": 1},
        ["3f9c2d1"],
    ]  # fmt: skip
    words = {word for row in TABLE for word in re.findall(r"\w+", re.sub("<[^>]+>", "", row.keys))}
    words |= {word for group in GROUPS.values() for word in group.split("|")}
    ends = ("file", "session", "task", "decision", "status", "at", "issue", "done")
    pairs = {f"{word} {end}" for word in words for end in ends}
    seen = {row for key in words | pairs for value in samples if (row := row_of(key, value)) is not None}
    assert [row.keys for row in TABLE if row not in seen] == []


NOT_GOALS = [
    "None", "none", "N/A", "n/a", "null", "TBD", "unknown", "-", "", "0", "42", "3/7", "60%", "v2.1.0", "1.4",
    "2.0.0-rc1",
    "src/app/main.py", "./notes.md", "~/work/plan.md, ~/work/todo.md", "C:\\work\\plan.md", "docs/", "README.md",
    "2026-05-01", "2026-05-01T10:00:00Z", "https://example.org/board", "3f9c2d1a", "in_progress", "completed",
    "[to be filled in]", "#FFD024", 0, 7, 1.5, True, None, [], {}, ["src/a.py", "src/b.py"], {"number": 3},
]  # fmt: skip


@pytest.mark.parametrize("key", ["goal", "working_on", "currentFocus", "current_task", "phase", "feature"])
def test_goal_is_never_a_number_a_path_a_date_or_none(key: str) -> None:
    for value in NOT_GOALS:
        document: dict[str, Any] = {key: value, "next_steps": ["Measure it"]}
        assert read_document(document, CONTEXT).goal is None, value
        assert read_document({**document, "sprint": "Faster checkout"}, CONTEXT).goal == "Faster checkout", value


@pytest.mark.parametrize(
    ("value", "goal"),
    [
        ({"phase": "Hardening", "todos": ["a"]}, "Hardening"),
        ({"active_feature": {"id": 7, "name": "Invoices as PDF"}}, "Invoices as PDF"),
        ({"currentSprint": {"name": "S4", "goal": "Cut the bundle in half"}}, "Cut the bundle in half"),
        ({"session_objectives": {"primary": "Move to Postgres", "completed": ["Dump"]}}, "Move to Postgres"),
        ({"objective": "Ship the beta", "phase": "2"}, "Ship the beta"),
        ({"phase": "1.0", "phase_name": "Groundwork"}, "Groundwork"),
        ({"current_story": "US-17", "story_title": "Cards in two columns"}, "Cards in two columns"),
        ({"current_task": {"task_name": "Sort the list", "status": "completed"}, "phase": "Lists"}, "Lists"),
        ({"project": {"name": "webshop"}, "blockers": ["No keys"]}, "Work on webshop"),
        ({"in_progress": ["Draw the map", "Load tiles"]}, "Draw the map"),
        ({"lastCompletedTask": "Wired the hooks"}, "Wired the hooks"),
        ({"last_completed": "ISSUE-63"}, NO_GOAL),
        ({"key_files": {"tasks/todo.md": "All that is to do", "goal.md": "What it is for"}}, NO_GOAL),
        ({"recent_sessions": [{"focus": "Old", "status": "done"}, {"focus": "Paint", "status": "active"}]}, "Paint"),
        ({"sprints": {"S1": {"goal": "One", "status": "done"}, "S2": {"goal": "Two", "status": "todo"}}}, NO_GOAL),
    ],
)  # fmt: skip
def test_goal_falls_back_to_feature_sprint_phase_and_project(value: Any, goal: str) -> None:
    assert view.text_value(state_of(value), "goal") == goal


DONE_KEYS = (
    "tasks_completed", "completed_fixes", "completedToday", "recent_actions", "recentChanges", "achievements",
    "shipped",
    "lastCompletedTask", "what_was_done", "resolved_issues", "phasesCompleted", "work_done", "Finished Items",
)  # fmt: skip
TO_DO_KEYS = (
    "pending_work", "pendingActions", "next_actions", "nextPriorities", "futureTasks", "future_work", "carry_forward",
    "carryForwardItems", "tasks_for_next_session", "notes_for_next_session", "remaining", "backlog", "tasks_deferred",
    "incomplete", "follow_up_tasks", "not_completed", "tomorrow", "upcoming_milestones", "open_items", "action_items",
    "todos", "priorities", "tasks", "checklist",
)  # fmt: skip


@pytest.mark.parametrize(
    ("key", "status"),
    [*((key, "completed") for key in DONE_KEYS), *((key, "pending") for key in TO_DO_KEYS), ("blocker", "blocked"),
     ("blockers", "blocked"), ("current_blockers", "blocked"), ("blocked_tasks", "blocked"),
     ("waiting_on", "blocked"), ("in_progress_items", "in_progress"), ("activeTasks", "in_progress")],
)  # fmt: skip
def test_work_is_read_by_the_words_of_its_key(key: str, status: str) -> None:
    entries = ["Fit the new lock", "Paint the door"]
    for document in ({key: entries}, {"session": {key: entries}}, {key: [{"title": entry} for entry in entries]}):
        assert plan(state_of({"goal": "A better door", **document})) == dict.fromkeys(entries, status)


@pytest.mark.parametrize("key", ["tasks_completed", "remaining", "next_phase", "completed_at", "last_task_id"])
@pytest.mark.parametrize("value", [3, True, "2026-05-01T10:00:00Z", "docs/plan.md", "none", 0.5, {}])
def test_counts_times_and_paths_are_no_tasks(key: str, value: Any) -> None:
    assert plan(state_of({"goal": "A better door", key: value})) == {}


@pytest.mark.parametrize(
    "key", ["todos", "priorities", "tasks", "plan", "features", "milestones", "epics", "value_slices"]
)
def test_lists_with_a_status_per_entry_are_both(key: str) -> None:
    entries = [
        {"title": "Saw", "status": "DONE: on Monday"}, {"title": "Sand", "status": "in-progress"},
        {"title": "Oil", "status": "not_started"}, {"title": "Sell", "status": "Blocked (no buyer)"},
    ]  # fmt: skip
    stand = {"Saw": "completed", "Sand": "in_progress", "Oil": "pending", "Sell": "blocked"}
    assert plan(state_of({"goal": "A table", key: entries})) == stand
    by_name = {entry["title"]: {"status": entry["status"]} for entry in entries}
    assert plan(state_of({"goal": "A table", key: by_name})) == stand


def test_milestone_has_the_statuses_of_its_steps() -> None:
    steps = [{"title": "Saw", "done": True}, {"title": "Oil", "done": False}]
    value = {"goal": "A table", "milestones": [{"id": "M1", "title": "The top", "steps": steps}]}
    assert plan(state_of(value)) == {"Saw": "completed", "Oil": "pending"}
    assert mapping(value)["$.milestones[0].steps[0]"] == "taken as a done task"


def test_task_with_a_blocker_is_blocked_by_it() -> None:
    value = {"goal": "x", "activeTasks": [{"description": "Send mail", "blockers": ["no SMTP account"]}]}
    state = state_of(value)
    assert plan(state) == {"Send mail": "blocked"}
    assert next(iter(state.tasks.values())).outcome == "no SMTP account"


def test_blockers_are_tasks_and_not_the_summary() -> None:
    state = state_of({"goal": "x", "blocker": "The licence server is down", "blockers": ["None"]})
    assert plan(state) == {"The licence server is down": "blocked"}
    assert view.text_value(state, "summary") is None


@pytest.mark.parametrize(
    ("document", "commit"),
    [
        ({"last_commit": "4be19f2"}, "4be19f2"),
        ({"commit_hash": "4BE19F2"}, "4be19f2"),
        ({"git_commit": "4be19f2 Add the lock"}, "4be19f2"),
        ({"git": {"head": "4be19f2c5d6e7f8091a2b3c4d5e6f708192a3b4c"}}, "4be19f2c5d6e7f8091a2b3c4d5e6f708192a3b4c"),
        ({"projectStatus": {"lastCommit": {"hash": "4be19f2", "message": "Add the lock"}}}, "4be19f2"),
        ({"last_commit": "pending"}, None),
        ({"last_commit": "N/A"}, None),
        ({"last_commit": "feedface is a word"}, None),
        ({"history": [{"commit": "4be19f2"}]}, None),
    ],
)
def test_commit_is_read_from_its_many_names(document: Any, commit: str | None) -> None:
    project = state_of({"goal": "x", "branch": "main", **document}).project
    assert project is not None
    assert project.git_commit == commit


@pytest.mark.parametrize(
    ("document", "branch"),
    [
        ({"current_branch": "feat/lock"}, "feat/lock"),
        ({"git_state": {"branch": "feat/lock"}}, "feat/lock"),
        ({"project": {"working_branch": "feat/lock (clean)"}}, "feat/lock"),
        ({"branch": {"name": "feat/lock"}}, "feat/lock"),
        ({"base_branch": "main"}, None),
        ({"branch": "none"}, None),
        ({"sessions": [{"branch": "old"}]}, None),
        ({"agents": {"git": {"branch": "old"}}}, None),
        ({"previous_session": {"branch": "old"}}, None),
    ],
)
def test_branch_is_the_sessions_own(document: Any, branch: str | None) -> None:
    assert read_document({"goal": "x", **document}, CONTEXT).branch == branch


OLD: dict[str, Any] = {
    "date": "2019-01-01", "started_at": "2019-01-01T08:00:00Z", "last_updated": "2019-01-01T09:00:00Z",
    "branch": "old", "scope": "cellar", "goal": "Old goal", "completed": ["Old task"], "commit": "4be19f2",
    "session_id": "old-one",
}  # fmt: skip


@pytest.mark.parametrize(
    "holder",
    [{"session_history": [OLD]}, {"previous_sessions": [OLD, OLD]}, {"history": {"monday": OLD}}, {"sessions": [OLD]},
     {"past_work": OLD}, {"archive": [OLD]}, {"session_log": [OLD]}, {"phase_history": [OLD]}],
)  # fmt: skip
def test_earlier_entries_are_not_about_the_session(holder: Any) -> None:
    document: dict[str, Any] = {"goal": "New goal", "last_updated": "2025-05-01T10:00:00Z"}
    recognised, plain = read_document({**document, **holder}, CONTEXT), read_document(document, CONTEXT)
    assert recognised == plain


@pytest.mark.parametrize(
    "updated", ["2025-05-01T10:00:00Z", "2025-05-01", "2025-05-09T10:00:00Z", "2025-05-01T08:03:00Z", None]
)
def test_no_idle_time_is_invented(updated: str | None) -> None:
    """The gap between two saves is one sitting, or unknown; after the last save nobody worked."""
    value = {"goal": "x", "started_at": "2025-05-01T08:00:00Z", "last_updated": updated}
    state = state_of({key: part for key, part in value.items() if part is not None})
    time = view.session(state, now=CONTEXT.now).time
    assert [pause.kind for pause in time.pauses if pause.kind == "idle"] == []
    if updated == "2025-05-01T10:00:00Z":
        assert time.working_ms == 2 * HOUR
    if updated == "2025-05-09T10:00:00Z":
        assert time.working_ms == 0


@pytest.mark.parametrize(
    ("value", "is_recognised"),
    [({"mood": "fine"}, False), ({"timestamp": "2025-05-01T10:00:00Z"}, False), ({"todo": "x"}, True), ([], False),
     ({"branch": "main"}, True), ("text", False), (["a task"], True), ({"responses": 3, "status": "idle"}, False)],
)  # fmt: skip
def test_document_with_content_is_recognised(value: Any, is_recognised: bool) -> None:
    assert recognises(value) is is_recognised


# ── later versions ───────────────────────────────────────────────────────────────────────────────────────

FIRST: dict[str, Any] = {
    "working_on": "A shelf", "next_steps": ["Cut", "Sand", "Oil"], "completed": ["Measure"], "blockers": ["No oil"],
    "branch": "shelf", "decisions": ["Oak"], "notes": ["Mind the cat"], "updated_at": "2025-05-01T10:00:00Z",
}  # fmt: skip


def after(first: Any, *later: Any) -> State:
    events = first_events(read_document(first, CONTEXT), first, CONTEXT)
    for version in later:
        events += later_events(version, fold_events(events, "s"), CONTEXT)
    state = fold_events(events, "s")
    assert (state.clashes, state.not_applied) == ([], 0)
    return state


def test_same_document_again_adds_nothing_in_any_order_of_keys() -> None:
    state = fold_events(first_events(read_document(FIRST, CONTEXT), FIRST, CONTEXT), "s")
    assert later_events(FIRST, state, CONTEXT) == []
    assert later_events(dict(reversed(FIRST.items())), state, CONTEXT) == []


def test_later_version_adds_tasks_and_completes_others() -> None:
    later = {
        **FIRST, "next_steps": ["Oil", "Hang"], "completed": ["Measure", "Cut", "No oil"], "blockers": [],
        "decisions": ["Oak", "Two boards"], "notes": ["Mind the cat", "Mind the wall"], "last_commit": "4be19f2",
        "updated_at": "2025-05-03T10:00:00Z",
    }  # fmt: skip
    state = after(FIRST, later)
    assert plan(state) == {
        "Measure": "completed", "Cut": "completed", "Sand": "pending", "Oil": "pending", "Hang": "pending",
        "No oil": "completed",
    }  # fmt: skip
    assert [decision.chosen for decision in state.decisions] == ["Oak", "Two boards"]
    assert [note.text for note in state.notes] == ["Mind the cat", "Mind the wall"]
    assert state.project is not None
    assert (state.project.git_branch, state.project.git_commit) == ("shelf", "4be19f2")
    assert state.extra[EXTRA] == later
    assert not [pause for pause in view.session(state, now=CONTEXT.now).time.pauses if pause.kind == "idle"]


def test_later_version_changes_only_what_the_file_changed() -> None:
    """What was edited here since, and stands in the file as before, stays edited."""
    events = first_events(read_document(FIRST, CONTEXT), FIRST, CONTEXT)
    edited = fold_events([*events, TimedEvent(events[-1].at, SessionEdited(goal="A better shelf"))], "s")
    added = later_events({**FIRST, "next_steps": ["Cut", "Sand", "Oil", "Hang"]}, edited, CONTEXT)
    assert not any(isinstance(event.data, SessionEdited) for event in added)
    assert [event.data.text for event in added if isinstance(event.data, TaskAdded)] == ["Hang"]


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
INNER = LEAVES | st.lists(LEAVES, max_size=3) | st.dictionaries(KEYS, LEAVES, max_size=3)
VALUES = INNER | st.lists(INNER, max_size=3) | st.dictionaries(KEYS, INNER, max_size=3)


@given(st.dictionaries(KEYS, VALUES, max_size=8))
def test_any_document_gives_valid_events_and_is_kept_whole(value: dict[str, Any]) -> None:
    state = state_of(value)
    assert EXTRA in state.extra
    view.session(state, now=state.updated_at)


@given(st.dictionaries(KEYS, VALUES, max_size=5), st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_later_version_adds_once(first: dict[str, Any], later: dict[str, Any]) -> None:
    state = after(first, {**first, **later})
    assert later_events({**first, **later}, state, CONTEXT) == []


# ── what a recovered document was ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", spec_examples.JSON_FILES)
def test_cut_document_is_recognised_and_completed(name: str) -> None:
    """With a third of it left, the format is known, and its document is valid again."""
    raw = spec_examples.JSON_FILES[name]
    for part in (3, 5, 7, 9):
        recognised = recover_document(raw[: len(raw) * part // 10])
        what = identify(recognised.value)
        assert what is not None, part
        assert what.rules.name == name.split(maxsplit=1)[0]
        repaired = complete(recognised.value, what, CONTEXT, cut=True)
        assert isinstance(repaired, tuple), (part, repaired)
        assert not any(problem.severity == "error" for problem in what.rules.problems(repaired.document, what.kind))


def test_hand_made_file_is_in_no_format() -> None:
    assert identify(HAND_MADE) is None
    assert identify({"goal": "x"}) is None
    assert identify([1]) is None


# ── what is the session's own ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "value",
    [
        {"in_progress": ["Write the parser", "Test it"]},
        {"priorities": [{"task": "Write the parser", "status": "in_progress"}]},
        {"todos": [{"content": "Write the parser", "status": "in_progress"}]},
        {"current_tasks": ["Write the parser"]},
    ],
)
def test_entry_at_work_stays_a_task_when_it_is_the_goal(value: dict[str, Any]) -> None:
    state = state_of(value)
    assert view.text_value(state, "goal") == "Write the parser"
    assert plan(state)["Write the parser"] == "in_progress"
    stated = state_of({**value, "goal": "Build a compiler"})
    assert view.text_value(stated, "goal") == "Build a compiler"
    assert plan(stated)["Write the parser"] == "in_progress"


@pytest.mark.parametrize("key", ["last_session", "latestSession", "last_session_info"])
def test_facts_of_the_last_session_are_not_this_sessions(key: str) -> None:
    earlier: dict[str, Any] = {
        "date": "2024-12-01",
        "summary": "Fixed the login",
        "branch": "old",
        "next_steps": ["Write docs"],
    }
    recognised = read_document({"project": "shop", key: earlier}, CONTEXT)
    assert (recognised.goal, recognised.summary, recognised.branch) == ("Work on shop", None, None)
    assert recognised.began == CONTEXT.now
    assert [(task.text, task.status) for task in recognised.tasks] == [("Write docs", "to do")]


@pytest.mark.parametrize("prefix", ["last_session_", "last-session-", "latest session "])
def test_flat_facts_of_the_last_session_are_not_this_sessions(prefix: str) -> None:
    value: dict[str, Any] = {
        "active_task": "Port the importer",
        f"{prefix}summary": "Wrote the parser",
        f"{prefix}date": "2024-12-01",
        f"{prefix}branch": "old",
        f"{prefix}status": "completed",
        f"{prefix}goal": "Build a compiler",
    }
    recognised = read_document(value, CONTEXT)
    assert (recognised.goal, recognised.summary, recognised.branch, recognised.status) == (
        "Port the importer",
        None,
        None,
        None,
    )
    assert recognised.began == recognised.updated == CONTEXT.now
    assert "Wrote the parser" in [note.text for note in recognised.remarks]
    assert read_document({f"{prefix}goal": "Build a compiler"}, CONTEXT).goal == "Build a compiler"


def test_last_save_of_the_session_is_its_own() -> None:
    document: dict[str, Any] = {"goal": "x y", "session_last_saved": "2024-12-01T10:00:00Z"}
    assert format_time(read_document(document, CONTEXT).updated)[:10] == "2024-12-01"


@pytest.mark.parametrize("key", ["active_task", "current_task", "currentTask"])
def test_current_task_is_the_goal_by_id_and_by_text(key: str) -> None:
    listed: list[Any] = [
        {"id": "T1", "title": "Write the parser", "status": "pending"},
        {"id": "T2", "title": "Write the guide"},
    ]
    for name in ("T1", "Write the parser"):
        recognised = read_document({key: name, "tasks": listed}, CONTEXT)
        assert recognised.goal == "Write the parser"
        assert [task.text for task in recognised.tasks] == ["Write the parser", "Write the guide"]
    assert read_document({key: "T7", "tasks": listed}, CONTEXT).goal == "T7"
    alone = read_document({key: "impl-core-commands"}, CONTEXT)
    assert (alone.goal, alone.tasks) == ("impl-core-commands", [])


@pytest.mark.parametrize("key", ["task_progress", "progress", "overallProgress"])
def test_progress_is_read_from_an_object(key: str) -> None:
    assert (
        read_document({"goal": "x y", key: {"completed": 2, "total": 3, "percentage": 66}}, CONTEXT).progress == 0.66
    )


def test_progress_of_one_phase_is_not_the_sessions() -> None:
    assert read_document({"goal": "x y", "phase_2_progress": {"percentage": 66}}, CONTEXT).progress is None


@pytest.mark.parametrize(
    ("status", "reported"),
    [
        ("paused", "taken as the status: paused"),
        ("completed", "not taken as the status: something is left to do"),
        ("in_progress", None),
        ("green", None),
    ],
)
def test_status_is_noted_only_if_adopted(status: str, reported: str | None) -> None:
    assert mapping({"goal": "x y", "status": status, "next_steps": ["Test it"]}).get("$.status") == reported


def test_times_without_a_zone_are_noted_as_local() -> None:
    mapped = mapping(
        {
            "goal": "x y", "started_at": "2025-01-01T10:00:00", "last_updated": "2025-01-01T12:00:00Z",
            "decisions": [{"decision": "Use SQLite", "timestamp": "2025-01-01 11:00"}],
        }
    )  # fmt: skip
    assert "local time" in mapped["$.started_at"]
    assert "local" not in mapped["$.last_updated"]
    assert "local time" in mapped["$.decisions[0]"]


# ── shapes that people give such files ───────────────────────────────────────────────────────────────────

SHAPES: dict[str, tuple[Any, str | None, dict[str, str]]] = {
    "a project with a phase, and an issue by its number": (
        {
            "project": {"name": "orbit", "version": "v0.4.0", "current_phase": "Hardening / maintenance"},
            "task": {"current_issue": "118 (closing)", "current_branch": "main", "priority": "High"},
            "decision": {"next_action": "Look at the updates", "blocker": "", "risk_level": "medium"},
        },
        "Hardening / maintenance",
        {"Look at the updates": "to do"},
    ),
    "a work item that is done": (
        {
            "currentWork": {"activeTaskTitle": "Fill in the weight", "status": "completed"},
            "quickContext": {"businessGoal": "Quicker logging"},
            "taskPipeline": {"completedToday": ["issue-26"], "nextRecommended": "feature-testing"},
        },
        "Quicker logging",
        {"Fill in the weight": "done", "issue-26": "done", "feature-testing": "to do"},
    ),
    "phases by their names": (
        {
            "id": "develop-20240129-a3f2",
            "input": "Add dark mode to the settings",
            "current_phase": "implement",
            "phases": {
                "understand": {"status": "completed"},
                "plan": {"status": "completed"},
                "implement": {"status": "in_progress"},
                "validate": {"status": "pending"},
            },
        },
        "Add dark mode to the settings",
        {"understand": "done", "plan": "done", "implement": "doing", "validate": "to do"},
    ),
    "phases by their numbers": (
        {"project": "text-adventure", "current_phase": "10", "completed_phases": ["00", "01"]},
        "Work on text-adventure",
        {"phase 00": "done", "phase 01": "done"},
    ),
    "features, one of them under review": (
        {
            "phase": "fine-tuning",
            "features": [{"name": "Members", "status": "done"}, {"name": "Warnings", "status": "needs-review"}],
            "backlog_completed": [{"id": "BL-1", "title": "Untangle the services"}],
        },
        "fine-tuning",
        {"Members": "done", "Warnings": "doing", "Untangle the services": "done"},
    ),
    "what was done in this session": (
        {
            "goal": "Move sign-in over",
            "now": "Wire the callback",
            "done_this_session": [{"task": "Created the adapter", "files": ["src/a.ts"]}],
            "next": ["Delete the old one"],
        },
        "Move sign-in over",
        {"Created the adapter": "done", "Wire the callback": "doing", "Delete the old one": "to do"},
    ),
    "nothing but the next step": (
        {"completed_steps": ["MEASURE"], "next_action": "start the string benchmark", "branch": "jit"},
        "start the string benchmark",
        {"MEASURE": "done", "start the string benchmark": "to do"},
    ),
    "a project, and the session before": (
        {"currentProject": "shop", "lastSession": {"summary": "Two features", "nextSteps": ["Archive them"]}},
        "Work on shop",
        {"Archive them": "to do"},
    ),
    "a task with steps of which one is done": (
        {
            "currentTask": {
                "id": "T-4",
                "title": "Quicker start",
                "subtasks": [{"title": "Cache", "completed": True}, {"title": "Warm up", "completed": False}],
            },
            "lastCompletedTask": "T-3 Smaller image",
        },
        "Quicker start",
        {"T-3 Smaller image": "done", "Cache": "done", "Warm up": "to do"},
    ),
    "a workflow whose steps have the time at which they were done": (
        {
            "workflow": {
                "name": "nightly-3",
                "state": {
                    "completed": {"fetch": "2025-01-01T10:00:00Z"},
                    "in_progress": "index",
                    "pending": ["mail"],
                },
            }
        },
        "nightly-3",
        {"fetch": "done", "index": "doing", "mail": "to do"},
    ),
    "a summary, and where to start": (
        {"summary": "We moved the cache.", "next_session": {"start_with": "Measure it", "then": ["Tune it"]}},
        None,
        {"Measure it": "to do", "Tune it": "to do"},
    ),
    "a list of sessions by number": (
        [
            {"session": 1, "goal": "Draw", "done": ["Frame"], "next": ["Colour it"]},
            {"session": 2, "goal": "Paint", "done": ["Base coat"], "next": ["Second coat"]},
        ],
        "Paint",
        {"Base coat": "done", "Second coat": "to do"},
    ),
    "nothing but a log of sessions by date": (
        {
            "project": "easel",
            "sessions": [
                {"date": "2024-12-03", "focus": "Paint", "completed": ["Base coat"]},
                {"date": "2024-12-01", "focus": "Draw", "completed": ["Frame"]},
            ],
        },
        "Paint",
        {"Base coat": "done"},
    ),
    "a sprint by its key": (
        {
            "current_sprint": "S2",
            "sprints": {
                "S1": {"name": "Ground", "status": "completed"},
                "S2": {"name": "Walls", "status": "in_progress"},
            },
        },
        "Walls",
        {"Ground": "done", "Walls": "doing"},
    ),
    "what is to be done, and what to do when all is": (
        {"goal": "A door", "To Be Done": ["Hang it"], "When You Complete These Steps": ["Tell Grace"]},
        "A door",
        {"Hang it": "to do"},
    ),
    "servers and sources, which are no work": (
        {
            "current_phase": "Live predictions",
            "sources_status": {"espn": "active", "odds_api": "active", "reference": "deferred"},
            "last_quality_gate": {"phase": "09", "result": "pass", "checks": ["ruff"]},
        },
        "Live predictions",
        {},
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_goal_and_work_are_read_from_the_shapes_people_use(shape: str) -> None:
    value, goal, work = SHAPES[shape]
    recognised = read_document(value, CONTEXT)
    assert recognised.goal == goal
    assert {task.text: task.status for task in recognised.tasks} == work


def test_checkpoint_gives_files_problems_and_resume_points() -> None:
    recognised = read_document(
        {
            "current_task": "Rewrite the importer",
            "file_changes": [{"path": "a.py", "change": "modified"}],
            "files": {"created": ["b.py"], "modified": ["c.py"], "read": ["d.py"]},
            "problems_encountered": ["an encoding"],
            "resume_points": ["go on in a.py"],
            "risk_level": "medium",
            "last_updated_utc": "2024-12-30T18:14:49Z",
        },
        CONTEXT,
    )
    assert [(file.path, file.action) for file in recognised.files] == [
        ("a.py", "modified"), ("c.py", "modified"), ("b.py", "created"),
    ]  # fmt: skip
    assert [error.message for error in recognised.errors] == ["an encoding"]
    assert [note.text for note in recognised.remarks] == ["go on in a.py"]
    assert format_time(recognised.updated)[:10] == "2024-12-30"


@pytest.mark.parametrize(
    ("value", "minutes"),
    [
        ({"time_spent_minutes": 95}, 95),
        ({"hours_worked": 1.5}, 90),
        ({"time_spent": "1h 35m"}, 95),
        ({"session_duration": "40 minutes"}, 40),
        ({"workingTimeMs": 600_000}, 10),
        ({"session": {"total_time_spent": "2 hours"}}, 120),
        ({"time_spent": 95}, 480),  # of what?
        ({"time_spent": "a while"}, 480),
        ({"estimated_minutes": 30}, 480),
        ({"time_spent_minutes": 9999}, 480),  # no more than there was
        ({"phases": [{"name": "One", "time_spent_minutes": 10}]}, 480),
    ],
)
def test_working_time_is_that_of_the_file(value: dict[str, Any], minutes: int) -> None:
    times = {"started_at": "2025-05-01T22:00:00Z", "last_updated": "2025-05-02T06:00:00Z"}
    state = state_of({"goal": "x y", **times, **value})
    time = view.session(state, now=CONTEXT.now).time
    assert time.working_ms == minutes * MINUTE
    assert [pause.kind for pause in time.pauses if pause.kind == "idle"] == []


@pytest.mark.parametrize(
    ("value", "commits"),
    [
        ({"commits": [{"hash": "deadbee", "message": "Beat\n\nlong"}, "4be19f2: Add the lock"]},
         {"deadbee": "Beat", "4be19f2": "Add the lock"}),
        ({"git": {"commits": ["4be19f2"]}}, {"4be19f2": ""}),
        ({"tasks": [{"title": "Lock", "state": "done", "commit": "4be19f2"}]}, {"4be19f2": ""}),
        ({"commits": ["feedback is welcome"]}, {}),
        ({"commits": 12}, {}),
        ({"history": [{"commits": ["4be19f2"]}]}, {}),
    ],
)  # fmt: skip
def test_commits_of_the_session_are_recorded(value: dict[str, Any], commits: dict[str, str]) -> None:
    state = state_of({"goal": "x y", **value})
    assert {commit.sha: commit.subject for commit in view.session(state, now=CONTEXT.now).commits} == commits
    assert later_events({"goal": "x y", **value}, state, CONTEXT) == []


@pytest.mark.parametrize(
    ("written", "day"),
    [
        ("Nov 4, 2024", "2024-11-04"), ("November 4th, 2024", "2024-11-04"), ("4 November 2024", "2024-11-04"),
        ("Mon, Nov 4, 2024", "2024-11-04"), ("2024-11-04 (evening)", "2024-11-04"),
        ("2024-11-04 10:30 UTC", "2024-11-04"), ("04/11/2024", None), ("Nov 2024", None), ("soon", None),
        ("Feb 31, 2024", None),
    ],
)  # fmt: skip
def test_date_is_read_as_people_write_it_where_it_is_one(written: str, day: str | None) -> None:
    began = read_document({"goal": "x y", "session_date": written}, CONTEXT).began
    assert (format_time(began)[:10] if began != CONTEXT.now else None) == day
    assert read_document({"goal": written}, CONTEXT).goal is None or day is None or "(" in written


def test_error_is_its_message() -> None:
    recognised = read_document(
        {"goal": "x y", "errors": [{"step": "hash", "msg": "3 files unreadable"}, "No disk"]}, CONTEXT
    )
    assert [error.message for error in recognised.errors] == ["3 files unreadable", "No disk"]


def test_later_version_without_times_makes_no_pause() -> None:
    events = first_events(
        read_document({"goal": "x y", "next": ["a b"]}, CONTEXT), {"goal": "x y", "next": ["a b"]}, CONTEXT
    )
    soon = CONTEXT._replace(now=CONTEXT.now + MINUTE)
    state = fold_events(
        [*events, *later_events({"goal": "x y", "done": ["a b"]}, fold_events(events, "s"), soon)], "s"
    )
    assert view.session(state, now=soon.now).time.pauses == []


@pytest.mark.parametrize(
    ("reported", "status"),
    [
        ("[ ] Cut", "to do"), ("[x] Cut", "done"), ("[~] Cut", "doing"), ("[/] Cut", "doing"), ("✅ Cut", "done"),
        ("🚧 Cut", "doing"), ("⛔ Cut", "blocked"), ("Cut ✅", "done"), ("Cut — ✅ COMPLETE", "done"),
        ("[ ] ~~Cut~~", "dropped"), ("[x] ~~Cut~~", "done"), ("~~Cut~~ ✅", "dropped"), ("[ ] Cut ✅", "to do"),
    ],
)  # fmt: skip
def test_sign_of_an_entry_is_its_status(reported: str, status: str) -> None:
    recognised = read_document({"goal": "x y", "todo": [reported, "Sand"]}, CONTEXT)
    assert {task.text.removesuffix(" ✅"): task.status for task in recognised.tasks} == {
        "Cut": status,
        "Sand": "to do",
    }
