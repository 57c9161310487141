"""Documents of the orchestrator format as they are met in the wild: put right with a note, or refused by place."""

from __future__ import annotations

import copy
import json
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core import view
from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.times import parse_time
from holdfast.formats import registry
from holdfast.formats.base import Document, ImportContext, Place, RepairedDocument
from holdfast.formats.conformance import CONTEXT
from holdfast.formats.convert import state_of
from holdfast.formats.document_paths import value_at
from holdfast.formats.remainder import remainder, restore
from tests.formats.orchestrator_documents import documents

RULES = registry.format_named("orchestrator")

PLAIN: Document = {
    "schema_version": "1.0",
    "session_id": "2025-12-27-abc123",
    "created": "2025-12-27T10:30:00Z",
    "updated": "2025-12-27T11:45:00Z",
    "project": {"name": "aiterm", "path": "/p/aiterm", "git_branch": "dev"},
    "goal": "Add sensitivity analysis",
    "mode": "default",
    "status": "in_progress",
    "agents": [
        {"id": "code-1", "type": "code", "task": "Implement", "status": "in_progress",
         "started": "2025-12-27T10:32:00Z", "progress": 60, "context_tokens": 3200},
    ],
    "completed_work": [{"task": "Design", "outcome": "3 methods", "files": ["a.R"]}],
    "pending_tasks": ["Add unit tests"],
    "decisions_made": [{"decision": "Bootstrap", "rationale": "Fast", "timestamp": "2025-12-27T10:31:00Z"}],
    "context_usage": {"estimated_tokens": 25000, "percentage": 20, "last_compression": None},
    "errors": [],
}  # fmt: skip


def with_(place: Place, value: Json) -> Document:
    """The plain document with another value at a place."""
    document = copy.deepcopy(PLAIN)
    *way, last = place
    inner: Json = document
    for step in way:
        inner = value_at(inner, (step,))
    if isinstance(inner, dict):
        inner[str(last)] = value
    else:
        assert isinstance(inner, list)
        assert isinstance(last, int)
        inner[last] = value
    return document


def without(*places: Place) -> Document:
    document = copy.deepcopy(PLAIN)
    for *way, last in places:
        inner = value_at(document, tuple(way))
        assert isinstance(inner, dict)
        del inner[str(last)]
    return document


def repaired(document: Json, context: ImportContext = CONTEXT) -> RepairedDocument:
    """Put right: then it is valid, and makes the round trip."""
    made = RULES.repair(document, context)
    assert [problem for problem in RULES.problems(made.document, "orchestrator") if problem.severity == "error"] == []
    assert RULES.repair(made.document, context) == RepairedDocument(made.document, [])
    shown = RULES.render(state_of(made.document, RULES, context))
    assert restore(shown, remainder(shown, made.document, RULES.identities), RULES.identities) == made.document
    return made


def noted(made: RepairedDocument) -> list[Place]:
    return [note.place for note in made.notes]


def test_valid_document_is_left_as_it_is() -> None:
    assert repaired(PLAIN) == RepairedDocument(PLAIN, [])


# ── what is put right ────────────────────────────────────────────────────────────────────────────────────


def test_missing_version_is_assumed_with_a_note() -> None:
    made = repaired(without(("schema_version",)))
    assert made.document == PLAIN
    assert noted(made) == [("schema_version",)]


@pytest.mark.parametrize("version", [1, 1.0, "1", "1.0.0", "v1.0"])
def test_other_spellings_of_the_version_are_read(version: Json) -> None:
    assert repaired(with_(("schema_version",), version)).document == PLAIN


@pytest.mark.parametrize("version", ["2.0", 2, "1.1", "2.0.0-beta"])
def test_unsupported_version_is_refused_by_name(version: Json) -> None:
    with pytest.raises(Invalid) as refused:
        RULES.repair(with_(("schema_version",), version), CONTEXT)
    assert str(version) in refused.value.message
    assert "schema_version" in refused.value.message
    assert "1.0" in (refused.value.hint or "")


def test_started_at_and_paused_at_are_the_times_of_the_session() -> None:
    document = {"started_at" if key == "created" else "paused_at" if key == "updated" else key: value
                for key, value in PLAIN.items()}  # fmt: skip
    made = repaired(document)
    assert made.document == PLAIN
    assert list(made.document) == list(PLAIN)
    assert noted(made) == [("started_at",), ("paused_at",)]


def test_started_at_and_completed_at_are_the_times_of_an_agent() -> None:
    agent: Json = {"id": "a", "type": "t", "task": "x", "status": "complete",
             "started_at": "2025-12-27T10:32:00Z", "completed_at": "2025-12-27T10:40:00Z"}  # fmt: skip
    made = repaired(with_(("agents", 0), agent))
    assert value_at(made.document, ("agents", 0, "started")) == "2025-12-27T10:32:00Z"
    assert value_at(made.document, ("agents", 0, "completed")) == "2025-12-27T10:40:00Z"
    assert noted(made) == [("agents", 0, "started_at"), ("agents", 0, "completed_at")]


def test_local_offset_is_written_in_utc() -> None:
    made = repaired(with_(("created",), "2025-12-27T04:30:00-06:00"))
    assert made.document == PLAIN
    (note,) = made.notes
    assert note.place == ("created",)
    assert "-06:00" in note.message
    assert "2025-12-27T10:30:00Z" in note.message


def test_time_without_a_zone_is_local_time() -> None:
    """As the text's own program writes it: no zone, and microseconds."""
    there = CONTEXT._replace(offset=lambda _: timedelta(hours=-6))
    made = repaired(with_(("updated",), "2025-12-27T05:45:00.250999"), there)
    assert made.document["updated"] == "2025-12-27T11:45:00.250Z"
    (note,) = made.notes
    assert "local time" in note.message


def test_zone_offset_at_that_time_counts() -> None:
    summer = parse_time("2026-03-29T01:00:00Z")
    there = CONTEXT._replace(offset=lambda ms: timedelta(hours=2 if ms >= summer else 1))
    document = with_(("updated",), "2026-03-29T03:30:00")
    assert repaired(document, there).document["updated"] == "2026-03-29T01:30:00Z"


def test_times_counted_since_1970_are_read() -> None:
    assert repaired(with_(("updated",), 1766835900)).document == PLAIN
    assert repaired(with_(("updated",), 1766835900000)).document == PLAIN


@pytest.mark.parametrize(
    ("reported", "meant"),
    [("completed", "complete"), ("COMPLETED", "complete"), ("done", "complete"), ("In Progress", "in_progress"),
     ("active", "in_progress"), ("cancelled", "aborted"), ("error", "paused")],
)  # fmt: skip
def test_other_words_for_the_status_are_read(reported: str, meant: str) -> None:
    made = repaired(with_(("status",), reported))
    assert made.document["status"] == meant
    assert noted(made) == [("status",)]


@pytest.mark.parametrize(
    ("reported", "meant"),
    [("completed", "complete"), ("running", "in_progress"), ("error", "failed"), ("timeout", "failed"),
     ("queued", "pending")],
)  # fmt: skip
def test_other_words_for_the_status_of_an_agent_are_read(reported: str, meant: str) -> None:
    made = repaired(with_(("agents", 0, "status"), reported))
    assert value_at(made.document, ("agents", 0, "status")) == meant
    assert noted(made) == [("agents", 0, "status")]


def test_strings_where_objects_belong() -> None:
    document = with_(("completed_work",), ["Design"])
    document["decisions_made"] = ["Bootstrap"]
    document["project"] = "/p/aiterm"
    document["agents"] = ["Implement it"]
    made = repaired(document)
    assert made.document["completed_work"] == [{"task": "Design"}]
    assert made.document["decisions_made"] == [{"decision": "Bootstrap", "timestamp": PLAIN["updated"]}]
    assert made.document["project"] == {"name": "aiterm", "path": "/p/aiterm", "git_branch": None}
    assert value_at(made.document, ("agents", 0, "task")) == "Implement it"
    assert ("completed_work", 0) in noted(made)
    assert ("decisions_made", 0) in noted(made)
    state = state_of(made.document, RULES, CONTEXT)
    assert [task.text for task in view.session(state, state.updated_at).tasks] == ["Design", "Add unit tests"]


def test_objects_where_strings_belong() -> None:
    entry: Json = {"description": "Add unit tests", "priority": 1}
    made = repaired(with_(("pending_tasks",), [entry]))
    assert made.document == {**PLAIN, "pending_tasks_as_found": [entry]}
    (note,) = made.notes
    assert "priority" in note.message


@pytest.mark.parametrize(
    ("key", "entry"),
    [
        ("pending_tasks", {"task": "one", "priority": "high", "owner": "anna"}),
        ("completed_work", {"task": " ", "owner": "anna"}),
        ("decisions_made", {"decision": "", "rationale": "It was late"}),
    ],
)
def test_import_keeps_extra_fields_of_list_entries(key: str, entry: Json) -> None:
    made = repaired(with_((key,), [entry]))
    assert made.document[f"{key}_as_found"] == [entry]


@pytest.mark.parametrize("entry", [None, "", "  ", {}, {"task": " "}, {"task": None}])
def test_import_keeps_no_entry_that_is_empty(entry: Json) -> None:
    assert "completed_work_as_found" not in repaired(with_(("completed_work",), [entry or ""])).document


def test_import_adds_to_entries_kept_before_and_replaces_those_of_the_same_task() -> None:
    document = with_(("pending_tasks",), [{"task": "one", "owner": "bob"}, "two", {"task": "three", "owner": "eve"}])
    document["pending_tasks_as_found"] = [{"task": "one", "owner": "anna"}, {"task": "two", "owner": "carl"}]
    assert repaired(document).document["pending_tasks_as_found"] == [
        {"task": "one", "owner": "bob"}, {"task": "two", "owner": "carl"}, {"task": "three", "owner": "eve"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("place", "reported", "meant"),
    [
        (("agents", 0, "progress"), "60%", 60),
        (("agents", 0, "progress"), 0.6, 60),
        (("agents", 0, "progress"), 60.0, 60),
        (("agents", 0, "progress"), 140, 100),
        (("agents", 0, "context_tokens"), "3,200", 3200),
        (("context_usage", "estimated_tokens"), "~25000", 25000),
        (("context_usage", "percentage"), "20%", 20),
        (("context_usage", "percentage"), 120, 100),
    ],
)
def test_numbers_are_read_where_they_can_mean_no_other(place: Place, reported: Json, meant: int) -> None:
    made = repaired(with_(place, reported))
    assert value_at(made.document, place) == meant
    assert set(noted(made)) == {place}


@pytest.mark.parametrize(
    ("key", "value"),
    [("agents", []), ("completed_work", []), ("pending_tasks", []), ("decisions_made", []), ("errors", []),
     ("mode", "default"), ("status", "in_progress"), ("updated", "2025-12-27T10:32:00Z"),
     ("created", "2025-12-27T00:00:00Z"), ("goal", "Session 2025-12-27-abc123"),
     ("project", {"name": "holdfast", "path": "/home/ada/holdfast", "git_branch": "main"}),
     ("context_usage", {"estimated_tokens": 0, "percentage": 0, "last_compression": None})],
)  # fmt: skip
def test_missing_values_are_derived_with_a_note(key: str, value: Json) -> None:
    for document in (without((key,)), with_((key,), None)):
        made = repaired(document)
        assert made.document[key] == value
        assert noted(made) == [(key,)]
        assert {name: item for name, item in made.document.items() if name != key} == without((key,))


def test_foreign_id_becomes_the_same_valid_id_each_time() -> None:
    one = repaired(with_(("session_id",), "sess_42")).document["session_id"]
    assert one == repaired(with_(("session_id",), "sess_42")).document["session_id"]
    assert str(one).startswith("2025-12-27-")
    assert repaired(with_(("session_id",), "2025-12-27-ABC123")).document == PLAIN
    assert "sess_42" in repaired(with_(("session_id",), "sess_42")).notes[0].message


def test_ids_of_agents_are_made_fit_and_unique() -> None:
    agent: dict[str, Json] = {"type": "code", "task": "x", "status": "pending"}
    made = repaired(with_(("agents",), [{"id": "Code 1!", **agent}, {"id": "code-1", **agent}, agent]))
    agents = made.document["agents"]
    assert isinstance(agents, list)
    assert [value_at(agent, ("id",)) for agent in agents] == ["code-1", "code-1-2", "agent-3"]
    assert noted(made) == [("agents", 0, "id"), ("agents", 1, "id"), ("agents", 2, "id")]


def test_agent_with_an_end_has_ended_and_not_before_it_began() -> None:
    made = repaired(with_(("agents", 0, "completed"), "2025-12-27T10:00:00Z"))
    assert value_at(made.document, ("agents", 0, "status")) == "complete"
    assert value_at(made.document, ("agents", 0, "completed")) == "2025-12-27T10:32:00Z"


def test_save_before_the_start_is_repaired() -> None:
    made = repaired(with_(("updated",), "2025-12-27T10:00:00Z"))
    assert made.document["updated"] == "2025-12-27T10:30:00Z"
    assert noted(made) == [("updated",)]


def test_unknown_fields_keep_their_place() -> None:
    document: Document = {"x-first": 1, **with_(("status",), "completed"), "started_at": None, "zz": {"b": [1.0]}}
    agent = value_at(document, ("agents", 0))
    assert isinstance(agent, dict)
    agent["mood"] = "fine"
    made = repaired(document)
    assert list(made.document) == list(document)
    assert made.document["zz"] == {"b": [1.0]}
    assert value_at(made.document, ("agents", 0, "mood")) == "fine"


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value", [None, [], "text", 1, [PLAIN]])
def test_what_is_no_object_is_refused(value: Json) -> None:
    with pytest.raises(Invalid):
        RULES.repair(value, CONTEXT)


def test_who_names_neither_session_nor_goal_is_refused() -> None:
    with pytest.raises(Invalid, match="neither"):
        RULES.repair(without(("session_id",), ("goal",)), CONTEXT)


@pytest.mark.parametrize(
    ("place", "value", "path"),
    [
        (("created",), "yesterday", "$.created"),
        (("updated",), {}, "$.updated"),
        (("status",), "asleep", "$.status"),
        (("agents", 0), 7, "$.agents[0]"),
        (("agents", 0, "status"), "asleep", "$.agents[0].status"),
        (("agents", 0, "started"), "2025-02-30T10:00:00Z", "$.agents[0].started"),
        (("agents", 0, "progress"), "most of it", "$.agents[0].progress"),
        (("pending_tasks", 0), {"priority": 1}, "$.pending_tasks[0]"),
        (("context_usage",), [], "$.context_usage"),
        (("goal",), {"a": 1}, "$.goal"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(place: Place, value: Json, path: str) -> None:
    with pytest.raises(Invalid) as refused:
        RULES.repair(with_(place, value), CONTEXT)
    assert refused.value.message.startswith(path + " ")
    assert refused.value.hint


_ODD: st.SearchStrategy[Json] = st.sampled_from(
    [None, "", "x", " ", "completed", "60%", -1, 1.5, 10**30, float("inf"), True, [], {}, [None], [{}], ["x"],
     {"a": {}}, {"id": 3}, "2025-12-27T10:30:00", "2025-12-27", "0001-01-01T00:00:00+23:59", "\ud800", 1e300]
)  # fmt: skip


@given(documents(), st.data())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_document_is_repaired_or_refused(document: Document, data: st.DataObject) -> None:
    """Values replaced and keys left out at random: never anything but a valid document or a clear refusal."""
    broken: Json = json.loads(json.dumps(document))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.sampled_from(_places(broken)))
        *way, last = place
        inner = value_at(broken, tuple(way))
        if isinstance(inner, dict) and data.draw(st.booleans()):
            inner.pop(str(last))
        elif isinstance(inner, dict):
            inner[str(last)] = data.draw(_ODD)
        elif isinstance(inner, list):
            assert isinstance(last, int)
            inner[last] = data.draw(_ODD)
    try:
        made = RULES.repair(broken, CONTEXT)
    except Invalid:
        return
    assert [problem for problem in RULES.problems(made.document, "orchestrator") if problem.severity == "error"] == []
    state = state_of(made.document, RULES, CONTEXT)
    assert state.clashes == []
    assert state.not_applied == 0
    shown = RULES.render(state)
    assert [problem for problem in RULES.problems(shown, "orchestrator") if problem.severity == "error"] == []


def _places(value: Json, place: Place = ()) -> list[Place]:
    inner: list[tuple[str | int, Json]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [(*place, key) for key, _ in inner] + [f for key, item in inner for f in _places(item, (*place, key))]
