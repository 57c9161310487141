"""Timer files as other programs write them: what is assumed, noted, and refused."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.formats import registry
from holdfast.formats.base import Document
from holdfast.formats.conformance import CONTEXT
from holdfast.formats.entries import is_same
from tests.formats.timer_documents import COMPLEX, INITIAL, TIMED_OUT, TYPICAL, documents

TIMER = registry.format_named("timer")
MINUTE = 60_000


def repaired(document: Json) -> tuple[Document, list[tuple[str, str]]]:
    """The repaired document, and the notes; it is valid and needs no further repair."""
    made, notes = TIMER.repair(document, CONTEXT)
    assert not any(problem.severity == "error" for problem in TIMER.problems(made, "timer"))
    assert is_same(TIMER.repair(made, CONTEXT).document, made)
    return made, [(".".join(map(str, note.place)), note.message) for note in notes]


def without(document: Document, *names: str) -> Document:
    return {key: value for key, value in document.items() if key not in names}


@pytest.mark.parametrize(
    ("example", "notes"),
    [
        (
            TYPICAL,
            [
                ("totalPausedMs", "says 120,000: 720,000 by the pauses"),
                ("actualWorkingMs", "says 2,100,000: 1,407,000 by the pauses"),
            ],
        ),
        (
            COMPLEX,
            [
                ("totalPausedMs", "says 900,000: 1,200,000 by the pauses"),
                ("actualWorkingMs", "says 3,600,000: 4,360,000 by the pauses"),
            ],
        ),
        (
            TIMED_OUT,
            [
                ("totalPausedMs", "says 180,000: 360,000 by the pauses"),
                ("actualWorkingMs", "says 5,400,000: 5,235,000 by the pauses"),
            ],
        ),
        (INITIAL, []),
    ],
)
def test_texts_examples_keep_their_pauses_and_get_their_sums_right(
    example: Document, notes: list[tuple[str, str]]
) -> None:
    made, noted = repaired(example)
    assert noted == notes
    assert without(made, "totalPausedMs", "actualWorkingMs") == without(example, "totalPausedMs", "actualWorkingMs")
    assert list(made) == list(example)


def test_valid_document_with_offsets_and_own_fields_is_left_alone() -> None:
    document = {**INITIAL, "startTime": "2025-11-04T11:00:00+01:00", "started_at": "whatever", "version": "9.9"}
    made, notes = repaired(document)
    assert is_same(made, document)
    assert notes == []


@pytest.mark.parametrize(
    ("name", "other", "value"),
    [
        ("startTime", "started_at", "2025-11-04T10:00:00Z"),
        ("lastMessageTime", "updated_at", "2025-11-04T10:00:00Z"),
        ("sessionId", "session_id", "20251104-domain-task"),
    ],
)
def test_other_names_are_understood_and_keep_their_place(name: str, other: str, value: str) -> None:
    document: Document = {other if key == name else key: item for key, item in INITIAL.items()}
    document[other] = value
    made, notes = repaired(document)
    assert is_same(made, INITIAL)
    assert notes == [(name, f"is called {other} here")]


def test_times_without_a_zone_are_local_with_a_note() -> None:
    context = CONTEXT._replace(offset=lambda _: timedelta(hours=-6))
    made, notes = TIMER.repair({**INITIAL, "startTime": "2025-11-04T04:00:00"}, context)
    assert made["startTime"] == "2025-11-04T10:00:00Z"
    assert notes == [(("startTime",), "a time without a zone is taken as local time")]


@pytest.mark.parametrize("written", [1_762_250_400_000, 1_762_250_400, 1_762_250_400.0, "2025-11-04 10:00Z"])
def test_times_in_other_spellings_are_respelled(written: Json) -> None:
    made, notes = repaired({**INITIAL, "startTime": written})
    assert made["startTime"] == "2025-11-04T10:00:00Z"
    assert [where for where, _ in notes] == ["startTime"]


def test_times_that_are_missing_follow_from_the_totals() -> None:
    whole = {**INITIAL, "lastMessageTime": "2025-11-04T10:04:00Z", "actualWorkingMs": 4 * MINUTE}
    assert repaired(without(whole, "startTime"))[0]["startTime"] == "2025-11-04T10:00:00Z"
    assert repaired(without(whole, "lastMessageTime"))[0]["lastMessageTime"] == "2025-11-04T10:04:00Z"


def test_names_that_are_missing_are_derived() -> None:
    made, notes = repaired(without(INITIAL, "sessionId", "branchName", "scope", "summary"))
    assert made["sessionId"] == "20251104-holdfast-create-value-object"
    assert made["branchName"] == "session/20251104-holdfast-create-value-object"
    assert (made["scope"], made["summary"]) == ("holdfast", "Create value object")
    assert [where for where, _ in notes] == ["sessionId", "branchName", "scope", "summary"]
    made, _ = repaired(without(INITIAL, "sessionId", "task"))
    assert (made["sessionId"], made["task"]) == ("20251104-domain-task", "Starting work on value")


def test_id_without_a_day_gets_the_day_it_began() -> None:
    made, _ = repaired({**INITIAL, "sessionId": "My Session", "branchName": "feature/x"})
    assert (made["sessionId"], made["branchName"]) == ("20251104-my-session", "session/20251104-my-session")


def test_branch_of_another_name_gives_way_to_the_id() -> None:
    made, notes = repaired({**INITIAL, "branchName": "main"})
    assert made["branchName"] == "session/20251104-domain-task"
    assert notes == [("branchName", "'main' is not session/ and the id: taken as session/20251104-domain-task")]


@pytest.mark.parametrize(
    ("status", "meant"),
    [("in_progress", "IN_PROGRESS"), ("active", "IN_PROGRESS"), ("paused", "PAUSED"), ("COMPLETED", "PAUSED")],
)
def test_status_synonyms_are_understood(status: str, meant: str) -> None:
    made, notes = repaired({**INITIAL, "status": status})
    assert made["status"] == meant
    assert [where for where, _ in notes] == ["status"]


def test_what_is_missing_altogether_is_filled_in() -> None:
    made, notes = repaired({"sessionId": "20251104-a-b", "startTime": "2025-11-04T10:00:00Z", "own": 1})
    assert {where for where, _ in notes} == {
        "lastMessageTime", "branchName", "scope", "task", "summary", "pauses", "status", "totalPausedMs",
        "actualWorkingMs", "reminders",
    }  # fmt: skip
    assert (made["task"], made["own"], made["status"]) == ("a b", 1, "IN_PROGRESS")


def test_numbers_flags_and_objects_in_other_spellings_are_read() -> None:
    made, notes = repaired(
        {
            **INITIAL, "actualWorkingMs": "0", "task": {"name": "Create value object"}, "scope": 7,
            "reminders": {"break40min": "true", "warning60min": 0, "own": 1},
        }
    )  # fmt: skip
    assert (made["actualWorkingMs"], made["task"], made["scope"]) == (0, "Create value object", "7")
    assert made["reminders"] == {"break40min": True, "warning60min": False, "own": 1, "timeout90min": False}
    assert {where for where, _ in notes} == {
        "actualWorkingMs", "task", "scope",
        "reminders.break40min", "reminders.warning60min", "reminders.timeout90min",
    }  # fmt: skip


# ── Pauses ───────────────────────────────────────────────────────────────────────────────────────────────


def with_pauses(*pauses: Json, status: str = "IN_PROGRESS", message: str = "10:30") -> Document:
    return {**INITIAL, "status": status, "lastMessageTime": f"2025-11-04T{message}:00Z", "pauses": list(pauses)}


def pause(since: str, until: str | None = None, **more: Json) -> Document:
    end = None if until is None else f"2025-11-04T{until}:00Z"
    return {"type": "MANUAL", "reason": "x", "startTime": f"2025-11-04T{since}:00Z", "endTime": end, **more}


def spans(document: Document) -> list[tuple[str, str | None]]:
    pauses = document["pauses"]
    assert isinstance(pauses, list)
    reported = []
    for item in pauses:
        assert isinstance(item, dict)
        end = item["endTime"]
        reported.append((str(item["startTime"])[11:16], None if end is None else str(end)[11:16]))
    return reported


def test_lengths_that_are_missing_or_wrong_follow_from_the_times() -> None:
    made, notes = repaired(with_pauses(pause("10:05", "10:10"), pause("10:15", "10:20", durationMs=1)))
    assert made["totalPausedMs"] == 10 * MINUTE
    assert ("pauses.0.durationMs", "is missing: 300,000 by its times") in notes
    assert ("pauses.1.durationMs", "says 1: 300,000 by its times") in notes


def test_pauses_are_put_in_order_and_minutes_claimed_twice_count_once() -> None:
    made, notes = repaired(with_pauses(pause("10:15", "10:20"), pause("10:05", "10:17"), pause("09:50", "10:01")))
    assert spans(made) == [("10:00", "10:01"), ("10:05", "10:17"), ("10:17", "10:20")]
    assert made["totalPausedMs"] == 16 * MINUTE
    assert ("pauses", "are put in order of time") in notes


def test_open_pause_before_another_ends_where_that_begins() -> None:
    made, _ = repaired(with_pauses(pause("10:05"), pause("10:10"), status="PAUSED", message="10:10"))
    assert spans(made) == [("10:05", "10:10"), ("10:10", None)]
    assert made["status"] == "PAUSED"


def test_open_pause_of_a_running_session_ended_with_the_last_message() -> None:
    made, _ = repaired(with_pauses(pause("10:05")))
    assert (spans(made), made["status"]) == ([("10:05", "10:30")], "IN_PROGRESS")


def test_open_pause_at_the_end_means_paused() -> None:
    made, notes = repaired(with_pauses(pause("10:30")))
    assert (spans(made), made["status"]) == ([("10:30", None)], "PAUSED")
    assert "status" in {where for where, _ in notes}


def test_open_pause_with_a_length_of_nothing_counts_what_has_passed() -> None:
    made, _ = repaired(with_pauses(pause("10:20", durationMs=0), status="PAUSED"))
    assert (made["totalPausedMs"], made["actualWorkingMs"]) == (10 * MINUTE, 20 * MINUTE)


@pytest.mark.parametrize(
    ("given", "reason", "meant"),
    [
        ("manual", "lunch", ("MANUAL", "lunch")),
        ("auto-idle", None, ("AUTO_IDLE", "User idle")),
        ("timeout", None, ("AUTO_TASK", "Timeout enforced at 90 min working time")),
        (None, "Task agent: x", ("AUTO_TASK", "Task agent: x")),
        (None, "user idle", ("AUTO_IDLE", "user idle")),
        ("odd", None, ("MANUAL", "Paused")),
    ],
)
def test_synonyms_of_pause_types_are_understood(given: Json, reason: Json, meant: tuple[str, str]) -> None:
    made, _ = repaired(with_pauses(pause("10:05", "10:10", type=given, reason=reason)))
    pauses = made["pauses"]
    assert isinstance(pauses, list)
    assert isinstance(pauses[0], dict)
    assert (pauses[0]["type"], pauses[0]["reason"]) == meant


def test_pause_start_follows_from_end_and_length() -> None:
    one: Json = {"type": "MANUAL", "reason": "x", "resumed_at": "2025-11-04T10:10:00Z", "duration_ms": 5 * MINUTE}
    assert spans(repaired(with_pauses(one))[0]) == [("10:05", "10:10")]


# ── What cannot be put right ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ([], "an object"),
        ("text", "an object"),
        (without(INITIAL, "sessionId", "branchName", "task", "summary"), "neither a session nor a task"),
        (without(INITIAL, "startTime", "lastMessageTime"), "startTime is missing"),
        ({**INITIAL, "startTime": "yesterday"}, "startTime"),
        ({**INITIAL, "startTime": []}, "startTime"),
        ({**INITIAL, "startTime": 1e300}, "startTime"),
        ({**INITIAL, "scope": []}, "scope"),
        ({**INITIAL, "pauses": {}}, "pauses"),
        ({**INITIAL, "pauses": ["lunch"]}, r"pauses\[0\]"),
        ({**INITIAL, "pauses": [{"type": "MANUAL"}]}, r"pauses\[0\] does not say when it began"),
        (with_pauses(pause("10:10", "10:05")), "ends before it begins"),
        ({**INITIAL, "reminders": [1]}, "reminders"),
    ],
)
def test_unrepairable_document_is_refused_by_name(document: Json, named: str) -> None:
    with pytest.raises(Invalid, match=named):
        TIMER.repair(document, CONTEXT)


_ODD: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats()
    | st.sampled_from(["", "x", "PAUSED", "2025-11-04", "2025-11-04T10:00", "9999-12-31T23:59:59Z", "20251104-a-b"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
        st.sampled_from(["startTime", "endTime", "type", "reason", "durationMs", "break40min"]), inner, max_size=3
    ),
    max_leaves=6,
)  # fmt: skip


@given(documents(), st.data())
def test_any_damage_is_repaired_or_refused(document: Document, data: st.DataObject) -> None:
    """Never a crash, and never a document with errors: values replaced, taken away, added anywhere."""
    for _ in range(data.draw(st.integers(1, 3))):
        key = data.draw(st.sampled_from([*document, "paused_at", "started_at"]))
        pauses = document.get("pauses")
        if data.draw(st.booleans()):
            document.pop(key, None)
        elif key == "pauses" and isinstance(pauses, list) and pauses and isinstance(pauses[0], dict):
            pauses[0][data.draw(st.sampled_from(["startTime", "endTime", "type", "durationMs"]))] = data.draw(_ODD)
        else:
            document[key] = data.draw(_ODD)
    try:
        made = TIMER.repair(document, CONTEXT).document
    except Invalid:
        return
    assert not any(problem.severity == "error" for problem in TIMER.problems(made, "timer"))
    events = TIMER.changes(None, made, None, CONTEXT)
    assert [event.at for event in events] == sorted(event.at for event in events)
