"""Contract documents as other programs write them: what is repaired, noted, and refused."""

from __future__ import annotations

import copy
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import tasks as tasks_of
from holdfast.core import view
from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.formats.base import Document, RepairedDocument
from holdfast.formats.conformance import CONTEXT
from holdfast.formats.contract import FORMAT
from holdfast.formats.convert import state_of
from holdfast.formats.entries import is_same
from holdfast.formats.remainder import remainder, restore
from tests.formats.contract_documents import documents

NOW: Document = {
    "active_task": "a", "model_in_use": "opus", "started_at": "2025-01-09T10:00:00Z",
    "last_updated": "2025-01-09T15:30:45Z",
}  # fmt: skip
STATE: Document = {"version": "1.0", "feature_id": "oauth-2025-01-09", "current_state": NOW}
LINE: Document = {
    "timestamp": "2025-01-09T10:00:00Z", "command": "plan", "arguments": "x", "model": "opus", "agent": "a",
    "task_id": None, "status": "success", "duration_ms": 5,
}  # fmt: skip


def repaired(value: Json) -> RepairedDocument:
    """A repaired document is strictly valid, needs no further repair, and makes the round trip exactly."""
    result = FORMAT.repair(value, CONTEXT)
    document = result.document
    problems = [problem for kind, part in FORMAT.files(document) for problem in FORMAT.problems(part, kind)]
    problems += FORMAT.problems_together(document)
    assert [problem for problem in problems if problem.severity == "error"] == []
    assert is_same(FORMAT.repair(document, CONTEXT).document, document)
    shown = FORMAT.render(state_of(document, FORMAT, CONTEXT))
    again = restore(shown, remainder(shown, document, FORMAT.identities), FORMAT.identities)
    assert is_same(again, document)
    return result


def state(value: Json) -> tuple[Document, list[str]]:
    result = repaired(value)
    made = result.document["state"]
    assert isinstance(made, dict)
    return made, [".".join(map(str, note.place)) for note in result.notes]


def current(**changes: Json) -> Document:
    return {**STATE, "current_state": {**NOW, **changes}}


def now_of(made: Document) -> Document:
    inner = made["current_state"]
    assert isinstance(inner, dict)
    return inner


# ── state ────────────────────────────────────────────────────────────────────────────────────────────────


def test_bare_state_is_a_document() -> None:
    assert repaired(STATE) == ({"state": STATE}, [])


@pytest.mark.parametrize("version", [1.0, 1, "1", "v1.0", "1.0.0", None])
def test_version_without_quotes_is_read(version: Json) -> None:
    """YAML reads an unquoted 1.0 as a number."""
    made, notes = state({**STATE, "version": version})
    assert made == STATE
    assert notes == ["state.version"]


@pytest.mark.parametrize("version", ["2.0", 2, "1.1"])
def test_newer_version_is_refused_by_name(version: Json) -> None:
    with pytest.raises(Invalid, match=str(version)) as caught:
        FORMAT.repair({**STATE, "version": version}, CONTEXT)
    assert "1.0" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2025-01-09T04:00:00-06:00", "2025-01-09T10:00:00Z"),
        ("2025-01-09T10:00:00", "2025-01-09T10:00:00Z"),
        ("2025-01-09 10:00:00.250", "2025-01-09T10:00:00.250Z"),
        ("2025-01-09", "2025-01-09T00:00:00Z"),
    ],
)
def test_times_are_put_into_utc(written: str, meant: str) -> None:
    made, notes = state(current(started_at=written))
    assert now_of(made)["started_at"] == meant
    assert notes == ["state.current_state.started_at"]


def test_time_without_a_zone_is_local() -> None:
    context = CONTEXT._replace(offset=lambda _: timedelta(hours=-6))
    made = FORMAT.repair(current(started_at="2025-01-09T04:00:00"), context)
    assert now_of(made.document["state"])["started_at"] == "2025-01-09T10:00:00Z"  # type: ignore[arg-type]
    assert made.notes[0].message == "a time without a zone is taken as local time"


def test_other_names_for_keys_are_read_in_their_place() -> None:
    odd: Document = {
        "current_task": "a", "model": "opus", "started": "2025-01-09T10:00:00Z", "updated_at": "2025-01-09T15:30:45Z",
        "mine": 1,
    }  # fmt: skip
    made, _ = state({**STATE, "current_state": odd})
    assert list(now_of(made)) == ["active_task", "model_in_use", "started_at", "last_updated", "mine"]


def test_keys_of_current_state_may_be_next_to_it() -> None:
    made, _ = state({"version": "1.0", "feature_id": "oauth-2025-01-09", **NOW, "owner": "me"})
    assert made == {"version": "1.0", "feature_id": "oauth-2025-01-09", "owner": "me", "current_state": NOW}


def test_model_of_another_family_keeps_its_real_name() -> None:
    made, _ = state(current(model_in_use="gpt-5"))
    assert now_of(made)["model_in_use"] == "sonnet"
    assert view.text_value(state_of({"state": made}, FORMAT, CONTEXT), "model") == "gpt-5"
    mapped = FORMAT.repair(current(model_in_use="gpt-5"), CONTEXT._replace(models={"gpt-5": "gemini"}))
    assert now_of(mapped.document["state"])["model_in_use"] == "gemini"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("OAuth Login", "oauth-login-2025-01-09"),
        ("oauth_login-20241231", "oauth-login-2024-12-31"),
        ("oauth", "oauth-2025-01-09"),
        ("oauth-2025-02-30", "oauth-2025-02-30-2025-01-09"),
    ],
)
def test_feature_id_is_made_of_what_is_there(written: str, meant: str) -> None:
    made, _ = state({**STATE, "feature_id": written})
    assert made["feature_id"] == meant


def test_feature_without_any_name_is_refused() -> None:
    with pytest.raises(Invalid, match="nothing names the feature"):
        FORMAT.repair({"version": "1.0", "current_state": NOW}, CONTEXT)


def test_session_that_began_at_no_time_is_refused() -> None:
    with pytest.raises(Invalid, match="the start of the session is missing"):
        FORMAT.repair({"feature_id": "oauth", "current_state": {}}, CONTEXT)


@pytest.mark.parametrize("time", ["yesterday", 17, "2025-13-01T00:00:00Z", [], True])
def test_invalid_time_is_refused_with_its_place(time: Json) -> None:
    with pytest.raises(Invalid, match="started_at"):
        FORMAT.repair(current(started_at=time), CONTEXT)


def test_feature_id_alone_gives_the_date() -> None:
    made, _ = state({"feature_id": "oauth-2025-01-09", "current_state": {}})
    assert now_of(made)["started_at"] == "2025-01-09T00:00:00Z"


def test_time_does_not_run_backwards() -> None:
    made, notes = state(current(last_updated="2025-01-09T09:00:00Z"))
    assert now_of(made)["last_updated"] == NOW["started_at"]
    assert notes == ["state.current_state.last_updated"]


# ── plan ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_bare_plan_is_enough() -> None:
    result = repaired({
        "feature": {"name": "OAuth", "created_at": "2025-01-09T10:00:00Z"},
        "phases": [
            {"name": "First steps", "tasks": ["Read the RFC", {"id": 7, "title": "Write it", "status": "done"}]},
            {
                "id": "two",
                "tasks": [{"task_id": "x/y", "status": "In Progress", "files": "a.py"}, {"status": "skipped"}],
            },
        ],
    })  # fmt: skip
    state = state_of(result.document, FORMAT, CONTEXT)
    assert FORMAT.alias(result.document) == "oauth-2025-01-09"
    assert view.text_value(state, "goal") == "OAuth"
    assert state.phases == {"first-steps": "First steps", "two": "two"}
    assert [(task.id, task.text, tasks_of.status_of(task)) for task in state.tasks.values()] == [
        ("t1", "Read the RFC", "pending"),
        ("7", "Write it", "completed"),
        ("x-y", "x-y", "in_progress"),
        ("t4", "t4", "dropped"),
    ]
    assert result.notes[0].message == "there is no state.yaml: it was derived from the plan"


def test_tasks_need_no_phases() -> None:
    result = repaired({"state": STATE, "plan": {"feature": "OAuth", "tasks": [{"id": "a", "text": "Begin"}]}})
    state = state_of(result.document, FORMAT, CONTEXT)
    assert [(task.id, task.phase) for task in state.tasks.values()] == [("a", None)]


def test_duplicate_ids_are_made_unique() -> None:
    phase: Document = {"phase_id": "p", "name": "P", "tasks": [{"task_id": "a"}, {"task_id": "a"}]}
    state = state_of(repaired({"state": STATE, "plan": {"phases": [phase, phase]}}).document, FORMAT, CONTEXT)
    assert list(state.phases) == ["p", "p-2"]
    assert [task.id for task in state.tasks.values()] == ["a", "a-2", "a-3", "a-4"]


def test_unknown_status_is_refused_with_its_place() -> None:
    plan: Json = {"phases": [{"phase_id": "p", "tasks": [{"task_id": "a", "status": "purple"}]}]}
    with pytest.raises(Invalid, match=r"phases\[0\]\.tasks\[0\]\.status"):
        FORMAT.repair({"state": STATE, "plan": plan}, CONTEXT)


# ── registry and history ─────────────────────────────────────────────────────────────────────────────────


def test_entry_is_filled_from_the_state() -> None:
    result = repaired({"state": STATE, "entry": {"feature_id": "oauth-2025-01-09", "status": "done"}})
    assert result.document["entry"] == {
        "feature_id": "oauth-2025-01-09", "status": "completed", "started_at": "2025-01-09T10:00:00Z",
        "last_active": "2025-01-09T15:30:45Z",
    }  # fmt: skip


def test_history_lines_are_repaired_or_left_out() -> None:
    bare: Document = {"time": "2025-01-09T11:00:00+01:00", "cmd": "build", "args": ["-j", 2], "status": "failed"}
    odd: list[Json] = [LINE, bare, {**LINE, "error": None}, {**LINE, "error": "but"}, "text", {"command": "x"}]
    result = repaired({"state": STATE, "history": odd})
    assert result.document["history"] == [
        LINE,
        {
            "timestamp": "2025-01-09T10:00:00Z", "command": "build", "arguments": "-j 2", "status": "failure",
            "model": "opus", "agent": "person", "task_id": None, "duration_ms": 0, "error": "not said",
        },
        LINE,
        {**LINE, "x-error": "but"},
    ]  # fmt: skip
    assert sum("left out" in note.message for note in result.notes) == 4


# ── anything ─────────────────────────────────────────────────────────────────────────────────────────────

ODD: list[Json] = [
    None,
    "",
    " ",
    "x",
    5,
    2.5,
    True,
    [],
    {},
    ["x"],
    {"x": 1},
    "done",
    "2025-01-09T10:00:00+02:00",
    "2025",
]


@given(st.data())
def test_any_document_is_repaired_or_refused(data: st.DataObject) -> None:
    document = copy.deepcopy(data.draw(documents()))
    for _ in range(data.draw(st.integers(1, 3))):
        spots = _spots(document)
        if not spots:
            break
        where, key = data.draw(st.sampled_from(spots))
        if data.draw(st.booleans()):
            where[key] = data.draw(st.sampled_from(ODD))
        else:
            del where[key]
    try:
        FORMAT.repair(document, CONTEXT)
    except Invalid:
        return
    repaired(document)


def _spots(value: Json) -> list[tuple[dict[str, Json], str]]:
    if isinstance(value, dict):
        return [(value, key) for key in value] + [spot for inner in value.values() for spot in _spots(inner)]
    return [spot for inner in value for spot in _spots(inner)] if isinstance(value, list) else []


def test_import_reports_an_active_task_that_the_plan_has_not_and_invents_none() -> None:
    plan: Document = {"feature": {"id": "oauth-2025-01-09", "name": "x", "created_at": "2025-01-09T10:00:00Z"},
                      "phases": []}  # fmt: skip
    result = repaired({"state": current(active_task="nosuch"), "plan": plan})
    made = result.document["state"]
    assert isinstance(made, dict)
    assert (now_of(made)["active_task"], now_of(made)["active_task_as_found"]) == (None, "nosuch")
    assert any("'nosuch'" in note.message for note in result.notes)
    assert state_of(result.document, FORMAT, CONTEXT).tasks == {}
