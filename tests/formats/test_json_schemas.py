"""The schema checker: what it finds, how it says it, and that it agrees with the standard's own library."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import Invalid
from holdfast.formats import published_schemas, quick_check, schema, timestamps
from holdfast.formats.document_paths import format_place
from tests.formats.timer_documents import COMPLEX, INITIAL, TIMED_OUT, TYPICAL

KINDS = (
    "orchestrator", "timer", "craft", "craft-index", "contract-state", "contract-plan", "contract-registry",
    "contract-history",
)  # fmt: skip

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["id", "status", "agents"],
    "properties": {
        "id": {"type": "string", "pattern": "^[a-z]+-\\d{2}$"},
        "status": {"enum": ["open", "done", None, 1]},
        "version": {"const": "1.0"},
        "share": {"type": "number", "minimum": 0, "maximum": 1},
        "count": {"type": "integer", "minimum": 0},
        "at": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/time"}]},
        "agents": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"$ref": "#/$defs/agent"}},
        "flag": {"type": ["boolean", "null"]},
        "table": {
            "type": "object",
            "patternProperties": {"^n_": {"type": "integer"}},
            "additionalProperties": {"type": "string"},
        },
        "closed": {"type": "object", "properties": {"a": True}, "additionalProperties": False},
        "either": {"anyOf": [{"type": "string", "minLength": 2}, {"$ref": "#/$defs/agent"}]},
    },
    "$defs": {
        "agent": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 5},
                "agent": {"$ref": "#/$defs/agent"},
            },
        },
        "time": {"type": "string", "format": "date-time"},
    },
}
SOUND: dict[str, Any] = {
    "id": "ab-12", "status": "open", "version": "1.0", "share": 0.5, "count": 3, "at": "2026-01-05T08:00:00Z",
    "agents": [{"name": "a", "agent": {"name": "b"}}], "flag": None, "table": {"n_a": 1, "b": "x"},
    "closed": {"a": [1, {"b": None}]}, "either": "xy", "unknown": {"kept": True},
}  # fmt: skip


def inner_reference(value: Any, rules: Any = None) -> dict[str, str]:
    checker = schema.Checker(SCHEMA if rules is None else rules)
    return {format_place(problem.place): problem.message for problem in checker.problems(value)}


def test_sound_document_has_no_problems() -> None:
    assert inner_reference(SOUND) == {}


@pytest.mark.parametrize(
    ("change", "place", "message"),
    [
        ({"id": 5}, "$.id", "must be text, is a whole number"),
        ({"id": "x"}, "$.id", 'must look like ^[a-z]+-\\d{2}$, is "x"'),
        ({"id": "ab-12\n"}, "$.id", 'must look like ^[a-z]+-\\d{2}$, is "ab-12"'),
        ({"id": "ab-١٢"}, "$.id", 'must look like ^[a-z]+-\\d{2}$, is "ab-\\u0661\\u0662"'),
        ({"status": "shut"}, "$.status", 'must be one of "open", "done", null, 1, is "shut"'),
        ({"status": True}, "$.status", 'must be one of "open", "done", null, 1, is true'),
        ({"version": "2.0"}, "$.version", 'must be "1.0", is "2.0"'),
        ({"share": 1.5}, "$.share", "must be at most 1, is 1.5"),
        ({"share": "much"}, "$.share", "must be a number, is text"),
        ({"count": -1}, "$.count", "must be at least 0, is -1"),
        ({"count": "3"}, "$.count", "must be a whole number, is text"),
        ({"count": 3.0}, "$.count", "must be a whole number, is 3.0"),
        ({"count": True}, "$.count", "must be a whole number, is true or false"),
        ({"at": 5}, "$.at", "must be null or text, is 5"),
        ({"at": "soon"}, "$.at", 'must be a time with a zone such as 2026-11-15T09:30:00Z, is "soon"'),
        ({"agents": []}, "$.agents", "must not be empty"),
        ({"agents": [{"name": "a"}] * 3}, "$.agents", "must have at most 2 entries, has 3"),
        ({"agents": [{"name": "a"}, {}]}, "$.agents[1].name", "is missing"),
        ({"agents": [{"name": ""}]}, "$.agents[0].name", "must not be empty"),
        ({"agents": [{"name": "abcdef"}]}, "$.agents[0].name", "must have at most 5 characters, has 6"),
        ({"agents": {}}, "$.agents", "must be a list, is an object"),
        ({"flag": "yes"}, "$.flag", "must be true or false or null, is text"),
        ({"table": {"n_a": "x"}}, "$.table.n_a", "must be a whole number, is text"),
        ({"table": {"b": 1}}, "$.table.b", "must be text, is a whole number"),
        ({"closed": {"z": 1}}, "$.closed.z", "must not be here"),
        ({"either": "x"}, "$.either", "must have at least 2 characters"),
        ({"either": {}}, "$.either.name", "is missing"),
        ({"either": 1}, "$.either", "must be text or an object, is 1"),
    ],
)  # fmt: skip
def test_problems_are_reported_in_words(change: dict[str, Any], place: str, message: str) -> None:
    assert inner_reference({**SOUND, **change}) == {place: message}


def test_all_problems_are_reported_at_once() -> None:
    assert set(inner_reference({"status": 7, "count": "x", "agents": [{}]})) == {
        "$.id", "$.status", "$.count", "$.agents[0].name",
    }  # fmt: skip


def test_example_is_shown_instead_of_a_pattern() -> None:
    rules = {"type": "string", "pattern": "^[0-9a-f]{6}$", "examples": ["abc123"]}
    assert inner_reference("x", rules) == {"$": 'must look like "abc123", is "x"'}


def test_number_of_problems_is_bounded() -> None:
    many = schema.Checker({"items": {"type": "string"}}).problems(list(range(5000)))
    assert len(many) == schema.MAX_PROBLEMS


def test_unknown_keyword_is_refused() -> None:
    with pytest.raises(AssertionError, match="uniqueItems"):
        schema.Checker({"properties": {"a": {"uniqueItems": True}}})


@pytest.mark.parametrize(
    ("text", "any_zone", "utc"),
    [
        ("2026-11-15T09:30:00Z", True, True),
        ("2026-11-15T09:30:00.123456Z", True, True),
        ("2026-11-15T09:30:00-06:00", True, False),
        ("2026-11-15t09:30:00z", True, False),
        ("2026-11-15T09:30:00", False, False),
        ("2026-11-15T09:30Z", False, False),
        ("2026-11-15 09:30:00Z", False, False),
        ("2026-02-30T09:30:00Z", False, False),
        ("2026-11-15T24:30:00Z", False, False),
        ("2026-11-15T09:30:00+0600", False, False),
        ("2026-11-15T09:30:00Z\n", False, False),
        ("2026-11-15", False, False),
    ],
)
def test_times_are_real_and_have_a_zone(text: str, any_zone: bool, utc: bool) -> None:
    assert (inner_reference(text, {"format": "date-time"}) == {}) is any_zone
    assert (inner_reference(text, {"format": "utc-date-time"}) == {}) is utc


@pytest.mark.parametrize("name", ["nosuch", "../schema", "Craft", ""])
def test_only_published_schemas_can_be_asked_for(name: str) -> None:
    with pytest.raises(Invalid, match="no schema"):
        schema.schema_text(name)


@pytest.mark.parametrize("kind", KINDS)
def test_published_schema_is_valid_by_the_standard(kind: str) -> None:
    rules = json.loads(schema.schema_text(kind))
    jsonschema.Draft202012Validator.check_schema(rules)
    assert rules["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert rules["title"]
    assert isinstance(schema.problems_by_schema(None, kind), list)


# ── the judge ────────────────────────────────────────────────────────────────────────────────────────────

JUDGES = jsonschema.FormatChecker(formats=())


@JUDGES.checks("date-time")
def _any_zone(value: object) -> bool:
    shape = r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)"
    return not isinstance(value, str) or (
        re.fullmatch(shape, value, re.ASCII) is not None and timestamps.is_time(value)
    )


@JUDGES.checks("utc-date-time")
def _utc(value: object) -> bool:
    return not isinstance(value, str) or timestamps.is_utc(value)


def judged(value: Any, rules: Any) -> bool:
    return jsonschema.Draft202012Validator(rules, format_checker=JUDGES).is_valid(value)


# No whole numbers written as fractions: there we are stricter on purpose. No newlines and foreign digits: there
# Python's patterns, which the judge uses, differ from the standard's.
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 200), st.sampled_from([0.5, -0.25, 1.5, 120.75]),
    st.text("abz-019:TZ. ", max_size=12),
    st.sampled_from(["2026-01-05T08:00:00Z", "2026-01-05T08:00:00+01:00", "pending", "running", "complete", "1.0"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab_n", max_size=2), inner, max_size=2),
    max_leaves=4,
)


def spots(value: Any) -> list[tuple[Any, Any]]:
    """Every container and key in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [spot for key, part in inner for spot in ((value, key), *spots(part))]


@st.composite
def mutated(draw: st.DrawFn, sound: Any) -> Any:
    value = copy.deepcopy(sound)
    for _ in range(draw(st.integers(0, 3))):
        where = spots(value)
        if not where:
            break
        container, key = draw(st.sampled_from(where))
        if isinstance(container, dict) and draw(st.booleans()):
            del container[key]
        else:
            container[key] = draw(VALUES)
    return value


@given(mutated(SOUND))
@settings(max_examples=300)
def test_judge_agrees(value: Any) -> None:
    """A document has problems exactly when the standard's own library says so."""
    assert (inner_reference(value) == {}) is judged(value, SCHEMA)


DOCUMENTS: dict[str, Any] = {
    "contract-state": {
        "version": "1.0", "feature_id": "a-b-2026-01-05", "current_state": {
            "active_task": None, "model_in_use": "opus", "started_at": "2026-01-05T08:00:00Z",
            "last_updated": "2026-01-05T09:00:00Z",
        },
    },
    "contract-history": {
        "timestamp": "2026-01-05T08:00:00Z", "command": "plan", "arguments": "x", "model": "gemini", "agent": "a",
        "task_id": None, "status": "success", "duration_ms": 5,
    },
    "orchestrator": {
        "schema_version": "1.0", "session_id": "2026-01-05-abc123", "created": "2026-01-05T08:00:00Z",
        "updated": "2026-01-05T09:00:00Z", "project": {"name": "p", "path": "/p", "git_branch": "main"},
        "goal": "Do it.", "mode": "default", "status": "in_progress",
        "agents": [{"id": "a", "type": "code", "task": "t", "status": "in_progress",
                    "started": "2026-01-05T08:00:00Z", "progress": 5, "context_tokens": 1}],
        "completed_work": [{"task": "t", "outcome": "o", "files": ["f"]}], "pending_tasks": ["x"],
        "decisions_made": [{"decision": "d", "rationale": "r", "timestamp": "2026-01-05T08:00:00Z"}],
        "context_usage": {"estimated_tokens": 1, "percentage": 1, "last_compression": None}, "errors": [],
    },
    "timer": TYPICAL,
    "craft": {
        "schema_version": "1.0.0", "session_id": "0b0c7a52-6c1f-4c0e-9d8e-2f0d6f3a1b11",
        "created_at": "2026-01-05T08:00:00.000Z", "updated_at": "2026-01-05T09:00:00.000Z", "device": "d",
        "project": "/p", "goal": "Do it.", "mode": "default", "status": "in_progress", "progress": 0.5,
        "agents": [{
            "id": "a", "type": "code", "status": "error", "started_at": None,
            "completed_at": "2026-01-05T09:00:00.000Z",
            "duration_seconds": 5, "progress": 1, "result": None, "blocking_on": None, "output_summary": None,
            "error": {"category": "logical", "message": "m", "retry_count": 0, "last_retry_at": None},
            "artifacts": {"files_created": ["f"], "files_modified": [], "files_deleted": []},
        }],
        "completed_work": ["t"], "pending_tasks": [],
        "decisions_made": [{"timestamp": "2026-01-05T08:00:00.000Z", "context": "", "options": ["x"], "chosen": "x"}],
        "files_modified": [{
            "path": "f", "action": "created", "agent_id": "a", "timestamp": "2026-01-05T08:00:00.000Z",
            "lines_added": 1, "lines_removed": None, "hash_before": None, "hash_after": "a" * 64,
        }],
        "context_usage": {"estimated_tokens": 1, "compression_count": 0, "by_agent": {"a": 1}},
        "teleportation": {
            "enabled": True, "devices": ["d"], "storage_backend": "s3", "encrypted": True, "sync_status": None,
            "shared_with": ["a@b.c"],
        },
        "metadata": {"git_branch": None, "git_commit": "a" * 40, "craft_version": "1.0.0", "tags": ["x"]},
    },
    "craft-index": {"schema_version": "1.0.0", "sessions": [{
        "session_id": "0b0c7a52-6c1f-4c0e-9d8e-2f0d6f3a1b11", "goal": "g", "status": "paused", "progress": 1,
        "created_at": "2026-01-05T08:00:00.000Z", "updated_at": "2026-01-05T09:00:00.000Z", "device": "d",
        "file": "x.json",
    }]},
}  # fmt: skip


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_documents_to_mutate_are_sound(kind: str) -> None:
    assert schema.problems_by_schema(DOCUMENTS[kind], kind) == []


@pytest.mark.parametrize("kind", DOCUMENTS)
@given(data=st.data())
@settings(max_examples=100)
def test_judge_agrees_about_the_published_schemas(kind: str, data: st.DataObject) -> None:
    value = data.draw(mutated(DOCUMENTS[kind]))
    rules = json.loads(schema.schema_text(kind))
    assert (schema.problems_by_schema(value, kind) == []) is judged(value, rules)


@pytest.mark.parametrize("kind", DOCUMENTS)
@given(data=st.data())
@settings(max_examples=200)
def test_quick_check_and_schema_give_the_same_verdict(kind: str, data: st.DataObject) -> None:
    """The type made from a schema accepts a document exactly when the schema has no problem with it."""
    value = data.draw(mutated(DOCUMENTS[kind]))
    accepted = quick_check.decoded(msgspec.json.encode(value), kind) is not None
    assert accepted is (schema.problems_by_schema(value, kind) == [])


# ── what is published ────────────────────────────────────────────────────────────────────────────────────

# The first digits of the SHA-256 of each schema as it was published, in draft-07 and in 2020-12.
PUBLISHED = {
    "orchestrator": ("87f50baaa87b8e56", "ed0ca4d098e280be"),
    "timer": ("c403fd50554c92e0", "bc67e5d0d94c8216"),
    "contract": ("b22d70b2f98049dd", "7c2a11995f7a9b4e"),
    "craft": ("e645a257c60450ad", "f3f3dbd20738597a"),
    "contract-state": ("06b09f1a3d3e6c7f", "c09c21934995deee"),
    "contract-plan": ("32da39941730ebd0", "7fc7c9f7fdcc955c"),
    "contract-registry": ("6242f5f96d9b5125", "d11ff67f8fc920b2"),
    "contract-history": ("2d2942ae9c1ae70c", "dec853cc8184adfa"),
    "craft-index": ("c1abd0276864d993", "764d8a15b3373814"),
}


@pytest.mark.parametrize("name", published_schemas.NAMES)
def test_schema_is_the_published_one_to_the_byte(name: str) -> None:
    """Programs validate with these schemas, so a table or file that changes one of them is noticed."""
    texts = [published_schemas.schema_of(name, draft) for draft in published_schemas.DRAFTS]
    assert tuple(hashlib.sha256(text).hexdigest()[:16] for text in texts) == PUBLISHED[name]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith(("craft", "contract"))])
def test_schema_from_a_table_equals_the_published_file(kind: str) -> None:
    """A difference from the published schema is shown line by line."""
    published = Path(__file__).parent / "published" / f"{kind}.json"
    assert schema.schema_text(kind).decode().splitlines() == published.read_text("utf-8").splitlines()


# ── draft-07 ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", published_schemas.NAMES)
def test_draft_7_schema_is_valid_and_uses_nothing_newer(name: str) -> None:
    """By its own metaschema; no keyword of later drafts, nothing next to a reference, no format of our own."""
    rules = json.loads(published_schemas.schema_of(name, "7"))
    jsonschema.Draft7Validator.check_schema(rules)
    assert rules["$schema"] == "http://json-schema.org/draft-07/schema#"
    text = json.dumps(rules)
    assert not re.search(r"\$defs|\$id|prefixItems|unevaluated|dependent|\$anchor|\$dynamic", text)
    for reference in _references(rules):
        assert set(reference) == {"$ref"}
        at: Any = rules
        for step in reference["$ref"].removeprefix("#/").split("/"):
            at = at[step]


def _references(value: Any) -> list[dict[str, Any]]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    here = [value] if isinstance(value, dict) and isinstance(value.get("$ref"), str) else []
    return [*here, *(inner_reference for item in inner for inner_reference in _references(item))]


@pytest.mark.parametrize("kind", DOCUMENTS)
@given(data=st.data())
@settings(max_examples=60)
def test_draft_7_schema_judges_like_the_published_one(kind: str, data: st.DataObject) -> None:
    """Without a list of formats: an invalid time fails the pattern."""
    value = data.draw(mutated(DOCUMENTS[kind]))
    rules, older = (json.loads(published_schemas.schema_of(kind, draft)) for draft in ("2020-12", "7"))
    assert jsonschema.Draft7Validator(older).is_valid(value) is judged(value, rules)


def test_draft_7_schema_accepts_the_texts_examples() -> None:
    """Ongoing pauses among them, whose end is null."""
    judge = jsonschema.Draft7Validator(json.loads(published_schemas.schema_of("timer", "7")))
    for example in (TYPICAL, COMPLEX, TIMED_OUT, INITIAL):
        assert judge.is_valid(example)
        assert not judge.is_valid({**example, "startTime": "yesterday"})
