"""Craft documents as they are met in the wild: what import makes of each deviation, and what it says of it."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.formats import document_paths
from holdfast.formats.base import Document, ImportContext, RepairedDocument
from holdfast.formats.conformance import CONTEXT
from holdfast.formats.convert import state_of
from holdfast.formats.craft import FORMAT
from holdfast.formats.entries import is_same
from holdfast.formats.remainder import remainder, restore
from tests.formats.craft_documents import anything, documents, example


def repaired(document: Json, context: ImportContext = CONTEXT) -> RepairedDocument:
    """What is left is valid, needs no repair, and makes the round trip."""
    made = FORMAT.repair(document, context)
    assert [problem for problem in FORMAT.broken(made.document, "craft") if problem.severity == "error"] == []
    again = FORMAT.repair(made.document, context)
    assert is_same(again.document, made.document)
    assert again.notes == []
    state = state_of(made.document, FORMAT, context)
    assert state.clashes == []
    assert state.not_applied == 0
    shown = FORMAT.render(state)
    kept = remainder(shown, made.document, FORMAT.identities)
    assert is_same(restore(shown, kept, FORMAT.identities), made.document)
    return made


def notes(made: RepairedDocument) -> list[tuple[str, str]]:
    return [(document_paths.format_place(note.place), note.message) for note in made.notes]


def valid() -> Document:
    return FORMAT.repair(example(), CONTEXT).document


def obj(value: Json) -> dict[str, Json]:
    assert isinstance(value, dict)
    return value


def entry(document: Document, key: str, place: int = 0) -> Document:
    kept_value = document[key]
    assert isinstance(kept_value, list)
    return obj(kept_value[place])


def with_agent(**change: Json) -> Document:
    document = valid()
    entry(document, "agents").update(change)
    return document


def test_example_of_the_text_is_imported_with_two_notes() -> None:
    made = repaired(example())
    instead = f"kept as an alias, the id becomes {made.document['session_id']}"
    assert notes(made) == [
        (
            "$.files_modified[0].hash_after",
            "has 40 characters; a SHA-256 has 64 hexadecimal digits; kept as hash_after_as_found",
        ),
        ("$.session_id", f"'abc12345-def6-7890-ghij-klmnopqrstuv' is not a UUID of version 4: {instead}"),
    ]
    assert FORMAT.alias(made.document) == "abc12345-def6-7890-ghij-klmnopqrstuv"
    file = entry(made.document, "files_modified")
    assert file["hash_after"] is None
    assert file["hash_after_as_found"] == "a1b2c3d4e5f6789012345678901234567890abcd"


def test_same_foreign_id_gives_the_same_session_wherever_it_is_read() -> None:
    elsewhere = CONTEXT._replace(device="iMac", now=CONTEXT.now + 1)
    assert repaired(example()).document == repaired(example(), elsewhere).document


def test_id_in_capital_letters_is_the_same_id() -> None:
    plain = "0b0c7a52-6c1f-4c0e-9d8e-2f0d6f3a1b11"
    made = repaired({**valid(), "session_id": plain.upper(), "metadata": {}})
    assert made.document["session_id"] == plain
    assert notes(made) == [("$.session_id", "is written in lower case")]


@pytest.mark.parametrize(
    ("change", "key", "value", "note"),
    [
        ({"schema_version": None}, "schema_version", "1.0.0", "is missing; taken as 1.0.0"),
        ({"schema_version": "1.0"}, "schema_version", "1.0.0", "'1.0' is taken as 1.0.0"),
        ({"schema_version": 1}, "schema_version", "1.0.0", "'1' is taken as 1.0.0"),
        ({"status": "complete"}, "status", "completed", "'complete' is taken as completed"),
        ({"status": "In Progress"}, "status", "in_progress", "'In Progress' is taken as in_progress"),
        ({"status": "failed"}, "status", "error", "'failed' is taken as error"),
        ({"mode": "Default"}, "mode", "default", "'Default' is taken as default"),
        ({"mode": None}, "mode", "default", "is missing; taken as default"),
        ({"progress": "0.65"}, "progress", 0.65, "0.65 is taken as 0.65"),
        ({"progress": "65%"}, "progress", 0.65, "65% is taken as 0.65"),
        ({"progress": 65}, "progress", 0.65, "65 is taken as 0.65"),
        ({"progress": None}, "progress", 0.4, "is missing; taken as 0.4"),
        ({"device": None}, "device", "workbench", "is missing; taken as workbench"),
        ({"project": None}, "project", "/home/ada/holdfast", "is missing; taken as /home/ada/holdfast"),
        ({"decisions_made": None}, "decisions_made", [], "is missing; taken as empty"),
        (
            {"created_at": "2026-01-17T08:30:00-06:00"},
            "created_at",
            "2026-01-17T14:30:00.000Z",
            "2026-01-17T08:30:00-06:00 is written in UTC: 2026-01-17T14:30:00.000Z",
        ),
        (
            {"created_at": 1_768_660_200},
            "created_at",
            "2026-01-17T14:30:00.000Z",
            "is a number; taken as seconds since 1970",
        ),
        (
            {"created_at": None, "started_at": "2026-01-17T14:30:00Z"},
            "created_at",
            "2026-01-17T14:30:00Z",
            "is missing; taken from started_at",
        ),
        (
            {"updated_at": None, "paused_at": "2026-01-17T14:50:00Z"},
            "updated_at",
            "2026-01-17T14:50:00Z",
            "is missing; taken from paused_at",
        ),
        ({"pending_tasks": "Ship it"}, "pending_tasks", ["Ship it"], "is not a list; taken as one"),
    ],
)
def test_single_deviation_is_repaired_and_noted(change: Document, key: str, value: Json, note: str) -> None:
    document: Document = {
        name: kept_value for name, kept_value in {**valid(), **change}.items() if kept_value is not None
    }
    made = repaired(document)
    assert made.document[key] == value
    assert notes(made) == [(f"$.{key}", note)]


def test_time_without_a_zone_is_local_with_a_note() -> None:
    context = CONTEXT._replace(offset=lambda _: timedelta(hours=2))
    made = repaired({**valid(), "created_at": "2026-01-17T16:30:00"}, context)
    assert made.document["created_at"] == "2026-01-17T14:30:00.000Z"
    assert ("$.created_at", "a time without a zone is taken as local time") in notes(made)


def test_objects_where_texts_belong_are_what_they_say_and_are_kept() -> None:
    work: Json = [{"task": "Design", "outcome": "3 methods", "files": ["a.py"]}, "Tests"]
    made = repaired({**valid(), "completed_work": work})
    assert made.document["completed_work"] == ["Design", "Tests"]
    assert made.document["completed_work_as_found"] == work
    assert notes(made) == [("$.completed_work[0]", "is not text; taken as 'Design'")]


def test_text_in_place_of_an_object_is_its_main_field() -> None:
    document: Document = {
        **valid(), "decisions_made": ["Use JWT"], "files_modified": ["src/a.py"], "agents": ["arch-1"],
        "context_usage": {"estimated_tokens": "25000"},
    }  # fmt: skip
    made = repaired(document).document
    assert entry(made, "decisions_made")["chosen"] == "Use JWT"
    assert entry(made, "decisions_made")["timestamp"] == made["updated_at"]
    assert (entry(made, "files_modified")["path"], entry(made, "files_modified")["agent_id"]) == (
        "src/a.py",
        "person",
    )
    assert (entry(made, "agents")["id"], entry(made, "agents")["status"]) == ("arch-1", "pending")
    assert obj(made["context_usage"])["estimated_tokens"] == 25000


def test_orchestrator_words_are_understood() -> None:
    document: Document = {
        "schema_version": "1.0", "session_id": "2025-12-27-abc123", "created": "2025-12-27T10:30:00Z",
        "updated": "2025-12-27T11:45:00Z", "goal": "Add it", "project": {"name": "a", "path": "/a"},
        "agents": [{"id": "arch-1", "type": "arch", "status": "complete", "started": "2025-12-27T10:30:00Z",
                    "completed": "2025-12-27T10:32:00Z", "result_summary": "ok"}],
        "decisions_made": [{"decision": "Bootstrap", "rationale": "Best", "timestamp": "2025-12-27T10:31:00Z"}],
    }  # fmt: skip
    made = repaired(document).document
    assert (made["created_at"], made["updated_at"]) == ("2025-12-27T10:30:00Z", "2025-12-27T11:45:00Z")
    assert made["project"] == "/a"
    one = entry(made, "agents")
    assert (one["status"], one["completed_at"], one["output_summary"]) == ("completed", "2025-12-27T10:32:00Z", "ok")
    assert (entry(made, "decisions_made")["chosen"], entry(made, "decisions_made")["reasoning"]) == (
        "Bootstrap",
        "Best",
    )
    assert FORMAT.alias(made) == "2025-12-27-abc123"


@pytest.mark.parametrize(
    ("document", "place", "note"),
    [
        (with_agent(duration_seconds=90), "$.agents[0].duration_seconds", "90 contradicts the times, which say 135"),
        (
            with_agent(result="failure"),
            "$.agents[0].result",
            "failure contradicts status completed, which is used",
        ),
        (
            with_agent(blocking_on="nobody"),
            "$.agents[0].blocking_on",
            "names 'nobody', which is not an agent of the session; kept as blocking_on_as_found",
        ),
        (
            with_agent(id="Arch One!"),
            "$.agents[0].id",
            "'Arch One!' is in use or not a valid id; taken as arch-one",
        ),
        (with_agent(error="boom"), "$.agents[0].error", "is plain text; taken as the message of a logical error"),
        (
            with_agent(completed_at="2026-01-17T14:00:00Z", duration_seconds=None),
            "$.agents[0].completed_at",
            "is earlier than started_at, and taken as equal to it; kept as completed_at_as_found",
        ),
    ],
)
def test_contradictions_are_resolved_and_noted(document: Document, place: str, note: str) -> None:
    assert notes(repaired(document)) == [(place, note)]


def test_agents_with_words_of_other_formats_are_understood() -> None:
    kept_value = {
        "in_progress": ("running", None), "complete": ("completed", None), "failed": ("error", None),
        "aborted": ("error", "aborted"), "paused": ("pending", None), "interrupted": ("error", None),
        "timed out": ("timeout", None),
    }  # fmt: skip
    for word, (status, result) in kept_value.items():
        made = repaired(with_agent(status=word, result=None, completed_at=None, duration_seconds=None)).document
        assert (entry(made, "agents")["status"], entry(made, "agents")["result"]) == (status, result), word


def test_duplicate_agent_ids_are_made_unique() -> None:
    document = valid()
    entry(document, "agents", 1)["id"] = "arch-1"
    made = repaired(document).document
    assert [entry(made, "agents", place)["id"] for place in (0, 1)] == ["arch-1", "arch-1-2"]


def test_circle_of_waiting_agents_is_cut_open() -> None:
    document = with_agent(blocking_on="code-1")
    entry(document, "agents", 1)["blocking_on"] = "arch-1"
    made = repaired(document).document
    assert [entry(made, "agents", place)["blocking_on"] for place in (0, 1)] == ["code-1", None]


def test_absolute_path_inside_the_project_is_made_relative_and_others_are_kept_aside() -> None:
    document = valid()
    first = entry(document, "files_modified")
    document["files_modified"] = [
        {**first, "path": "/Users/dt/projects/my-app/src/a.ts"},
        {**first, "path": "/etc/hosts"},
        {**first, "path": "../sibling"},
    ]
    made = repaired(document).document
    assert entry(made, "files_modified")["path"] == "src/a.ts"
    aside = made["files_elsewhere"]
    assert isinstance(aside, list)
    assert [obj(item)["path"] for item in aside] == ["/etc/hosts", "../sibling"]


def test_unknown_keys_stay_as_they_are() -> None:
    made = repaired({**valid(), "schema_version": None, "x": {"y": [1, {"z": None}]}})
    assert made.document["x"] == {"y": [1, {"z": None}]}


def test_goal_alone_is_a_session() -> None:
    made = repaired({"goal": "Ship it"})
    assert made.document["created_at"] == "2027-01-15T08:00:00.000Z"
    assert made.document["status"] == "in_progress"
    assert FORMAT.alias(made.document) == made.document["session_id"]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], r"\$ must be an object"),
        ({"agents": []}, r"\$\.session_id and \$\.goal are missing"),
        (
            {**valid(), "schema_version": "2.1.0"},
            r"\$\.schema_version is 2\.1\.0, which this version of Holdfast does not support",
        ),
        ({**valid(), "schema_version": 3}, r"\$\.schema_version is 3"),
    ],
)
def test_what_cannot_be_coped_with_is_refused_by_name(document: Json, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        FORMAT.repair(document, CONTEXT)


@given(documents(), st.data())
def test_import_repairs_or_refuses_any_damaged_document(document: Document, data: st.DataObject) -> None:
    """Any value anywhere may be replaced by anything, or be gone: what comes out is valid, or nothing does."""
    for _ in range(data.draw(st.integers(1, 4))):
        document = _spoilt(document, data)
    refused = ""
    try:
        repaired(document)
    except Invalid as error:
        refused = error.message
    assert refused == "" or refused.startswith("$")


def _spoilt(document: Document, data: st.DataObject) -> Document:
    changed = msgspec.json.decode(msgspec.json.encode(document))
    here = changed
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        if not keys:
            return obj(changed)
        key = data.draw(st.sampled_from(keys))
        if isinstance(here[key], (dict, list)) and here[key] and data.draw(st.booleans()):
            here = here[key]
            continue
        if isinstance(here, dict) and data.draw(st.booleans()):
            del here[key]
        else:
            here[key] = data.draw(anything)
        return obj(changed)
