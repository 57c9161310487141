"""The timer format: what it accepts, what an import makes of it, what is shown, and what changes mean."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import view
from holdfast.core.canonical import Json
from holdfast.core.errors import Refused
from holdfast.core.events import (
    AgentCompleted,
    AgentStarted,
    AliasGiven,
    AwayRecorded,
    MessageExchanged,
    ReminderReached,
    SessionCompleted,
    SessionEdited,
    SessionFailed,
    SessionPaused,
    SessionResumed,
    SessionTimedOut,
)
from holdfast.core.fold import fold
from holdfast.core.model import PauseKind
from holdfast.core.state import State
from holdfast.core.times import parse_time
from holdfast.formats import registry
from holdfast.formats.base import Document
from holdfast.formats.conformance import CONTEXT, FormatConformance
from holdfast.formats.convert import fold_events, state_of
from holdfast.formats.entries import is_same
from holdfast.formats.remainder import remainder, restore
from tests.formats.timer_documents import (
    COMPLEX,
    INITIAL,
    TIMED_OUT,
    TYPICAL,
    as_text,
    documents,
    edits,
    plain_documents,
    usual_documents,
)
from tests.support.histories import MINUTE, NOON, History, histories, started

TIMER = registry.format_named("timer")


class TestTimer(FormatConformance):
    rules = TIMER
    documents = documents()
    edits = edits()
    examples = tuple(
        (name, TIMER.repair(document, CONTEXT).document)
        for name, document in [
            ("typical", TYPICAL),
            ("complex", COMPLEX),
            ("timeout", TIMED_OUT),
            ("initial", INITIAL),
        ]
    )


def errors(document: Json) -> list[tuple[str, str]]:
    return [
        (".".join(map(str, problem.place)), problem.message)
        for problem in TIMER.problems(document, "timer")
        if problem.severity == "error"
    ]


def warnings(document: Json) -> list[str]:
    return [
        ".".join(map(str, problem.place))
        for problem in TIMER.problems(document, "timer")
        if problem.severity == "warning"
    ]


def imported(document: Document) -> State:
    return state_of(TIMER.repair(document, CONTEXT).document, TIMER, CONTEXT)


# ── The text's own examples ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("example", "stated", "added", "made", "passed"),
    [
        (TYPICAL, "120,000", "720,000", "2,220,000", "2,127,000"),
        (COMPLEX, "900,000", "1,200,000", "4,500,000", "5,560,000"),
        (TIMED_OUT, "180,000", "360,000", "5,580,000", "5,595,000"),
    ],
)
def test_sums_of_the_texts_examples_are_reported(
    example: Document, stated: str, added: str, made: str, passed: str
) -> None:
    """Each of the three breaks the text's own rule about sums, and nothing else: null for an open pause is fine."""
    assert errors(example) == [
        ("totalPausedMs", f"is {stated}, but the pauses add up to {added}"),
        (
            "actualWorkingMs",
            f"with totalPausedMs makes {made}, but from startTime to the last event {passed} passed",
        ),
    ]


def test_texts_initial_state_is_valid() -> None:
    assert TIMER.problems(INITIAL, "timer") == []
    assert TIMER.is_sound(as_text(INITIAL), "timer")


@pytest.mark.parametrize(
    ("example", "working", "paused", "status", "kinds", "reached"),
    [
        (TYPICAL, 1_407_000, 720_000, "in_progress", ["task"], set()),
        (COMPLEX, 4_360_000, 1_200_000, "paused", ["task", "manual", "manual"], {"break_40", "warning_60"}),
        (TIMED_OUT, 5_235_000, 360_000, "paused", ["idle", "timeout"], {"break_40", "warning_60", "timeout_90"}),
        (INITIAL, 0, 0, "in_progress", [], set()),
    ],
)
def test_what_an_import_makes_of_the_texts_examples(
    example: Document, working: int, paused: int, status: str, kinds: list[PauseKind], reached: set[str]
) -> None:
    """Pauses are authoritative: totals follow from them, and the session is as in the file."""
    state = imported(example)
    work = view.worktime(state, state.updated_at)
    assert (work.working, work.paused, view.status_of(state)) == (working, paused, status)
    assert [rest.kind for rest in work.pauses] == kinds
    assert set(state.time.reached) == reached
    assert view.text_value(state, "goal") == view.text_value(state, "task") == example["task"]
    assert view.text_value(state, "summary") == example["summary"]
    assert view.text_value(state, "branch") == example["branchName"]
    assert TIMER.render(state)["pauses"] == example["pauses"]


def test_timeout_example_waits_for_a_resume() -> None:
    """The forced pause is the canonical timeout, and still lasts an hour later."""
    state = imported(TIMED_OUT)
    later = view.worktime(state, state.updated_at + 60 * MINUTE)
    assert (later.pauses[-1].kind, later.pauses[-1].until) == ("timeout", None)
    assert later.pauses[-1].length == 60 * MINUTE


# ── What is wrong with a document ────────────────────────────────────────────────────────────────────────

SOUND: Document = {
    **INITIAL,
    "status": "PAUSED",
    "lastMessageTime": "2025-11-04T10:30:00Z",
    "actualWorkingMs": 20 * MINUTE,
    "totalPausedMs": 10 * MINUTE,
    "pauses": [
        {"type": "AUTO_IDLE", "reason": "User idle", "startTime": "2025-11-04T10:05:00Z",
         "endTime": "2025-11-04T10:15:00Z", "durationMs": 600_000},
        {"type": "MANUAL", "reason": "lunch", "startTime": "2025-11-04T10:30:00Z", "endTime": None, "durationMs": 0},
    ],
}  # fmt: skip


def changed(place: tuple[str | int, ...], value: Json, document: Document = SOUND) -> Document:
    """A copy with another value at a place."""
    copy: Document = json.loads(json.dumps(document))
    inner: Json = copy
    for item in place[:-1]:
        assert isinstance(inner, (dict, list))
        inner = inner[item]  # type: ignore[index]
    assert isinstance(inner, (dict, list))
    inner[place[-1]] = value  # type: ignore[index]
    return copy


def test_sound_document_passes_rules_and_quick_check() -> None:
    assert TIMER.problems(SOUND, "timer") == []
    assert TIMER.is_sound(as_text(SOUND), "timer")


@pytest.mark.parametrize(
    ("place", "value", "reported"),
    [
        (("sessionId",), "20251104-domain-other", {"branchName"}),
        (("sessionId",), "20251304-domain-task", {"sessionId", "branchName"}),
        (("branchName",), "20251104-domain-task", {"branchName"}),
        (("status",), "IN_PROGRESS", {"status"}),
        (("status",), "STOPPED", {"status"}),
        (("startTime",), "2025-11-04 10:00:00Z", {"startTime"}),
        (("startTime",), "2025-02-30T10:00:00Z", {"startTime"}),
        (("startTime",), "2025-11-04T10:00:00", {"startTime"}),
        (("startTime",), "2025-11-04T10:06:00Z", {"pauses.0.startTime", "actualWorkingMs"}),
        (("lastMessageTime",), "2025-11-04T09:59:00Z", {"lastMessageTime"}),
        (("lastMessageTime",), "2025-11-04T10:31:00Z", {"pauses.1.durationMs", "actualWorkingMs"}),
        (("actualWorkingMs",), 20 * MINUTE + 1, {"actualWorkingMs"}),
        (("actualWorkingMs",), -1, {"actualWorkingMs"}),
        (("actualWorkingMs",), float(20 * MINUTE), {"actualWorkingMs"}),
        (("totalPausedMs",), True, {"totalPausedMs"}),
        (("totalPausedMs",), 10 * MINUTE - 1, {"totalPausedMs", "actualWorkingMs"}),
        (("pauses", 0, "type"), "IDLE", {"pauses.0.type"}),
        (("pauses", 0, "endTime"), None, {"pauses.0.endTime", "pauses.0.durationMs"}),
        (("pauses", 0, "endTime"), "2025-11-04T10:04:00Z", {"pauses.0.endTime"}),
        (("pauses", 0, "endTime"), "2025-11-04T10:14:00Z", {"pauses.0.durationMs"}),
        (("pauses", 0, "endTime"), 5, {"pauses.0.endTime"}),
        (("pauses", 1, "startTime"), "2025-11-04T10:14:59Z", {"pauses.1.startTime", "pauses.1.durationMs"}),
        (("reminders", "break40min"), "false", {"reminders.break40min"}),
        (("summary",), None, {"summary"}),
    ],
)
def test_each_rule_is_enforced_with_its_place(place: tuple[str | int, ...], value: Json, reported: set[str]) -> None:
    document = changed(place, value)
    assert {where for where, _ in errors(document)} == reported
    assert not TIMER.is_sound(as_text(document), "timer")


@pytest.mark.parametrize("name", sorted(INITIAL))
def test_each_field_is_required(name: str) -> None:
    document = {key: value for key, value in SOUND.items() if key != name}
    assert (name, "is missing") in errors(document)
    assert not TIMER.is_sound(as_text(document), "timer")


@pytest.mark.parametrize(
    ("place", "value", "reported"),
    [
        (("task",), "Create", "task"),
        (("task",), "Wire install command to use cases", "task"),
        (("summary",), "one\ntwo", "summary"),
        (("startTime",), "2025-11-04T11:00:00+01:00", "startTime"),
        (("pauses", 0, "endTime"), "2025-11-04T04:15:00-06:00", "pauses.0.endTime"),
        (("reminders", "warning60min"), True, "reminders.warning60min"),
    ],
)
def test_what_is_only_preferred_is_a_warning(place: tuple[str | int, ...], value: Json, reported: str) -> None:
    document = changed(place, value)
    assert errors(document) == []
    assert warnings(document) == [reported]
    assert not TIMER.is_sound(as_text(document), "timer")


def test_due_reminder_and_missing_pause_are_warnings() -> None:
    late = changed(("lastMessageTime",), "2025-11-04T10:40:00Z", {**INITIAL, "actualWorkingMs": 40 * MINUTE})
    assert (errors(late), warnings(late)) == ([], ["reminders.break40min"])
    assert warnings({**INITIAL, "status": "PAUSED"}) == ["status"]


def test_missing_field_does_not_hide_a_wrong_sum() -> None:
    document = {key: value for key, value in TYPICAL.items() if key != "summary"}
    assert {where for where, _ in errors(document)} == {"summary", "totalPausedMs", "actualWorkingMs"}


@given(documents() | plain_documents())
def test_quick_look_agrees_with_the_slow_one(document: Document) -> None:
    raw = as_text(document)
    if TIMER.is_sound(raw, "timer"):
        assert TIMER.problems(json.loads(raw), "timer") == []


@given(plain_documents(), st.data())
def test_quick_check_detects_any_damage(document: Document, data: st.DataObject) -> None:
    """A value replaced anywhere: what is then called sound has no problems, and what has problems is not sound."""
    key = data.draw(st.sampled_from(sorted(document)))
    spoiled: list[Json] = [None, True, 0, 1, -1, 1.0, 1e3, "", "PAUSED", "2025-11-04T10:00:00Z", [], {}, [{}], 2**70]
    document[key] = data.draw(st.sampled_from(spoiled))
    raw = as_text(document)
    assert TIMER.is_sound(raw, "timer") == (TIMER.problems(json.loads(raw), "timer") == [])


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff", b"null", b"[" * 100_000])
def test_no_text_is_too_broken_for_the_quick_look(raw: bytes) -> None:
    assert not TIMER.is_sound(raw, "timer")


def test_it_is_recognised_by_its_own_names() -> None:
    assert TIMER.detects(TYPICAL) == "timer"
    assert TIMER.detects({"working_on": "x", "next_steps": [], "notes": "", "git_branch": "main"}) is None
    assert TIMER.detects({"session_id": "x", "status": "paused", "schema_version": "1.0"}) is None
    assert TIMER.detects([]) is None


# ── Time comes out as it went in ─────────────────────────────────────────────────────────────────────────


@given(documents())
def test_imported_session_has_the_working_time_of_its_document(document: Document) -> None:
    """Working, paused and elapsed time, the pauses and their kinds, to the millisecond."""
    state = state_of(document, TIMER, CONTEXT)
    work = view.worktime(state, state.updated_at)
    assert work.working == document["actualWorkingMs"]
    assert work.paused == document["totalPausedMs"]
    shown = TIMER.render(state)
    assert shown["status"] == document["status"]
    assert _meant(shown) == _meant(document)


def _meant(document: Document) -> list[tuple[str, int, int | None]]:
    """The pauses that have a length or last, as they were meant."""
    reported = []
    pauses = document["pauses"]
    assert isinstance(pauses, list)
    for pause in pauses:
        assert isinstance(pause, dict)
        kind, since, until = str(pause["type"]), parse_time(str(pause["startTime"])), pause.get("endTime")
        end = None if until is None else parse_time(str(until))
        # A session that is paused without a pause is shown with one that has just begun.
        if end != since and not (end is None and pause["reason"] == "Paused"):
            reported.append((kind, since, end))
    return reported


# ── Any state is shown as a valid document ───────────────────────────────────────────────────────────────


@given(histories())
def test_whatever_was_recorded_is_shown_as_a_valid_document(history: History) -> None:
    """Also of sessions nobody could have: wild clocks, forged events, no beginning."""
    state = fold(history.events)
    shown = TIMER.render(state)
    assert [problem for problem in TIMER.problems(shown, "timer") if problem.severity == "error"] == []
    assert TIMER.changes(shown, shown, state, CONTEXT) == []


@given(histories(hostile=False))
def test_what_devices_recorded_is_shown_as_a_valid_document(history: History) -> None:
    shown = TIMER.render(fold(history.events))
    assert [problem for problem in TIMER.problems(shown, "timer") if problem.severity == "error"] == []


def test_invalid_id_is_not_shown() -> None:
    device = started()
    device.record(AliasGiven(format="timer", id="my session"))
    assert TIMER.render(device.state())["sessionId"] == "20261115-shop-add-login"


def test_ended_session_is_shown_as_of_its_end_with_its_clock_stopped() -> None:
    device = started()
    device.wait(3 * MINUTE)
    device.record(SessionCompleted())
    device.wait(60 * MINUTE)
    device.record(AliasGiven(format="orchestrator", id="2026-11-15-aaaaaa"))
    shown = TIMER.render(device.state())
    assert (shown["status"], shown["actualWorkingMs"], shown["pauses"]) == ("PAUSED", 3 * MINUTE, [])
    assert shown["lastMessageTime"] == "2026-11-15T12:03:00Z"


def test_failed_session_is_shown_as_paused() -> None:
    device = started()
    device.record(SessionFailed(message="no disk"))
    assert TIMER.render(device.state())["status"] == "PAUSED"


def test_each_kind_of_pause_is_rendered() -> None:
    device = started()
    device.wait(7 * MINUTE)
    device.record(AgentStarted(id="a1", type="coder", task="explore"))
    device.wait(11 * MINUTE)
    device.record(AgentCompleted(id="a1"))
    device.record(SessionPaused())
    device.wait(MINUTE)
    device.record(SessionResumed())
    device.record(SessionTimedOut())
    shown = TIMER.render(device.state())
    pauses = shown["pauses"]
    assert isinstance(pauses, list)
    assert [(pause["type"], pause["reason"], pause["endTime"]) for pause in pauses if isinstance(pause, dict)] == [
        ("AUTO_IDLE", "User idle", "2026-11-15T12:07:00Z"),
        ("AUTO_TASK", "Task agent: explore", "2026-11-15T12:18:00Z"),
        ("MANUAL", "Paused", "2026-11-15T12:19:00Z"),
        ("AUTO_TASK", "Timeout enforced at 90 min working time", None),
    ]
    assert (shown["totalPausedMs"], shown["actualWorkingMs"], shown["status"]) == (19 * MINUTE, 0, "PAUSED")


def test_times_between_seconds_are_shown_with_milliseconds() -> None:
    device = started(NOON + 5)
    assert TIMER.render(device.state())["startTime"] == "2026-11-15T12:00:00.005Z"


# ── Pauses that the file says have begun ─────────────────────────────────────────────────────────────────


def opened(kind: str, reason: str) -> Document:
    pause: Json = {
        "type": kind, "reason": reason, "startTime": "2025-11-04T10:30:00Z", "endTime": None, "durationMs": 0,
    }  # fmt: skip
    return {
        **INITIAL, "status": "PAUSED", "lastMessageTime": "2025-11-04T10:30:00Z", "actualWorkingMs": 30 * MINUTE,
        "pauses": [pause],
    }  # fmt: skip


BEGAN = parse_time("2025-11-04T10:30:00Z")


@pytest.mark.parametrize(
    ("kind", "reason", "canonical", "status"),
    [
        ("MANUAL", "lunch", "manual", "paused"),
        ("AUTO_TASK", "Timeout enforced at 90 min working time", "timeout", "paused"),
        ("AUTO_TASK", "Task agent: explore", "task", "in_progress"),
        ("AUTO_IDLE", "User idle", "idle", "in_progress"),
    ],
)
def test_open_pause_stays_open_and_grows(kind: str, reason: str, canonical: str, status: str) -> None:
    """At once, three minutes later although that is below every threshold of ours, and an hour later."""
    state = imported(opened(kind, reason))
    assert view.status_of(state) == status
    for later in (0, 3 * MINUTE, 60 * MINUTE):
        work = view.worktime(state, BEGAN + later)
        assert [(rest.kind, rest.until, rest.length) for rest in work.pauses] == [(canonical, None, later)]
        assert work.working == 30 * MINUTE


def test_open_task_pause_is_an_agent_at_work() -> None:
    state = imported(opened("AUTO_TASK", "Task agent: explore"))
    (agent,) = state.agents.values()
    assert (agent.task, agent.background, agent.started_at) == ("explore", False, BEGAN)


@pytest.mark.parametrize("kind", ["AUTO_IDLE", "AUTO_TASK", "MANUAL"])
def test_pause_of_no_length_leaves_the_status_paused_when_it_ends_with_the_last_message(kind: str) -> None:
    start = INITIAL["startTime"]
    pause: Json = {"type": kind, "reason": "x", "startTime": start, "endTime": start, "durationMs": 0}
    shown = TIMER.render(imported({**INITIAL, "status": "PAUSED", "pauses": [pause]}))
    assert shown["status"] == "PAUSED"
    assert TIMER.render(imported(shown)) == shown
    _, later = after(INITIAL, status="PAUSED", pauses=[pause])
    assert later["status"] == "PAUSED"


# ── What another program changes ─────────────────────────────────────────────────────────────────────────


def after(document: Document, **more: Json) -> tuple[list[tuple[int, object]], Document]:
    """The events of a change, and the file shown once they are taken in."""
    later = {**document, **more}
    state = imported(document)
    events = TIMER.changes(document, later, state, CONTEXT)
    counted = TIMER.counted(document, later, state, CONTEXT)
    then = fold_events([*TIMER.changes(None, document, None, CONTEXT), *events, *counted], state.session)
    assert then.clashes == []
    return [(event.at - BEGAN, event.data) for event in events], TIMER.render(then)


def test_later_message_is_a_sign_and_all_time_up_to_it_is_work() -> None:
    for minute in (4, 6, 27):
        events, shown = after(INITIAL, lastMessageTime=f"2025-11-04T10:{minute:02}:00Z")
        assert events == [((minute - 30) * MINUTE, MessageExchanged())]
        assert (shown["actualWorkingMs"], shown["pauses"]) == (minute * MINUTE, [])


def test_earlier_message_and_other_totals_are_no_change() -> None:
    events, _ = after(SOUND, lastMessageTime="2025-11-04T10:20:00Z", actualWorkingMs=1, totalPausedMs=2)
    assert events == []


@pytest.mark.parametrize(
    ("kind", "reason", "event"),
    [
        ("MANUAL", "lunch", SessionPaused(reason="lunch")),
        ("AUTO_TASK", "Timeout enforced at 90 min working time", SessionTimedOut()),
        ("AUTO_TASK", "Task agent: explore", AgentStarted(id="timer-task-1", type="task", task="explore")),
    ],
)
def test_pause_begun_elsewhere_begins_here(kind: str, reason: str, event: object) -> None:
    before = {**opened(kind, reason), "pauses": [], "status": "IN_PROGRESS"}
    now = opened(kind, reason)
    events, shown = after(before, pauses=now["pauses"], status="PAUSED")
    assert (0, event) in events
    assert (shown["status"], shown["pauses"]) == ("PAUSED", now["pauses"])


@pytest.mark.parametrize(
    ("kind", "reason", "event"),
    [
        ("MANUAL", "lunch", SessionResumed()),
        ("AUTO_TASK", "Timeout enforced at 90 min working time", SessionResumed()),
        ("AUTO_TASK", "Task agent: explore", AgentCompleted(id="timer-task-1")),
        (
            "AUTO_IDLE",
            "User idle",
            AwayRecorded(since=BEGAN, until=BEGAN + 4 * MINUTE, reason="User idle", kind="idle"),
        ),
    ],
)
def test_pause_ended_elsewhere_ends_here(kind: str, reason: str, event: object) -> None:
    """However short it was: the other program recorded it."""
    before = opened(kind, reason)
    ended: Json = {
        "type": kind, "reason": reason, "startTime": "2025-11-04T10:30:00Z", "endTime": "2025-11-04T10:34:00Z",
        "durationMs": 4 * MINUTE,
    }  # fmt: skip
    events, shown = after(before, pauses=[ended], status="IN_PROGRESS", lastMessageTime="2025-11-04T10:34:00Z")
    assert (4 * MINUTE, event) in events
    assert (shown["status"], shown["pauses"]) == ("IN_PROGRESS", [ended])
    assert (shown["actualWorkingMs"], shown["totalPausedMs"]) == (30 * MINUTE, 4 * MINUTE)


def test_pause_that_is_over_is_recorded_with_its_kind() -> None:
    over: Json = {
        "type": "AUTO_TASK", "reason": "Task agent: x", "startTime": "2025-11-04T10:01:00Z",
        "endTime": "2025-11-04T10:03:00Z", "durationMs": 2 * MINUTE,
    }  # fmt: skip
    events, shown = after(INITIAL, pauses=[over], lastMessageTime="2025-11-04T10:03:00Z")
    assert isinstance(events[0][1], AwayRecorded)
    assert events[0][1].kind == "task"
    assert (shown["pauses"], shown["actualWorkingMs"]) == ([over], MINUTE)


def test_edited_texts_and_reminders_become_events() -> None:
    flags: Json = {"break40min": True, "warning60min": False, "timeout90min": False}
    events, shown = after(INITIAL, summary="Went well", scope="CLI", reminders=flags)
    assert [data for _, data in events] == [
        SessionEdited(scope="CLI", summary="Went well"),
        ReminderReached(line="break_40"),
    ]
    assert (shown["summary"], shown["scope"], shown["reminders"]) == ("Went well", "CLI", flags)


def test_status_alone_pauses_and_resumes() -> None:
    events, _ = after(INITIAL, status="PAUSED")
    assert [data for _, data in events] == [SessionPaused()]
    events, shown = after({**INITIAL, "status": "PAUSED"}, status="IN_PROGRESS")
    assert [data for _, data in events] == [SessionResumed()]
    assert shown["status"] == "IN_PROGRESS"


@pytest.mark.parametrize("kind", ["AUTO_IDLE", "AUTO_TASK"])
def test_status_stays_paused_after_an_automatic_pause_when_a_later_message_leaves_it(kind: str) -> None:
    pause: Json = {
        "type": kind, "reason": "x", "startTime": INITIAL["startTime"], "endTime": "2025-11-04T10:20:00Z",
        "durationMs": 20 * MINUTE,
    }  # fmt: skip
    before = {
        **INITIAL, "status": "PAUSED", "pauses": [pause], "lastMessageTime": "2025-11-04T10:20:00Z",
        "totalPausedMs": 20 * MINUTE,
    }  # fmt: skip
    _, shown = after(before, lastMessageTime="2025-11-04T10:23:00Z", actualWorkingMs=3 * MINUTE)
    assert (shown["status"], shown["pauses"], shown["actualWorkingMs"]) == ("PAUSED", [pause], 3 * MINUTE)


def test_own_agent_is_not_ended_by_the_end_of_a_pause() -> None:
    """The file says the person is back; whether the agent is done only the agent says."""
    device = started()
    device.record(AgentStarted(id="a1", type="coder", task="explore"))
    device.wait(11 * MINUTE)
    device.record(AliasGiven(format="timer", id="20261115-shop-login"))
    state = device.state()
    before = TIMER.render(state)
    pauses = json.loads(json.dumps(before["pauses"]))
    pauses[0]["endTime"] = "2026-11-15T12:11:30Z"
    events = TIMER.changes(before, {**before, "pauses": pauses, "status": "IN_PROGRESS"}, state, CONTEXT)
    assert [event.data for event in events] == [MessageExchanged()]


def test_what_cannot_have_happened_is_refused() -> None:
    state = imported(SOUND)
    for place, value in (
        (("pauses", 0, "endTime"), None),
        (("pauses", 0, "endTime"), "2025-11-04T10:14:00Z"),
    ):
        with pytest.raises(Refused):
            TIMER.changes(SOUND, changed(place, value), state, CONTEXT)
    device = started()
    device.record(SessionCompleted())
    shown = TIMER.render(device.state())
    with pytest.raises(Refused, match="completed"):
        TIMER.changes(shown, {**shown, "status": "IN_PROGRESS"}, device.state(), CONTEXT)


@given(edits())
def test_clock_stays_as_the_other_program_left_it(pair: tuple[Document, Document]) -> None:
    """Running or stopped alike; every pause of theirs is one here, and all that is none of them is work."""
    before, later = pair
    state = state_of(before, TIMER, CONTEXT)
    events = [*TIMER.changes(before, later, state, CONTEXT), *TIMER.counted(before, later, state, CONTEXT)]
    then = fold_events([*TIMER.changes(None, before, None, CONTEXT), *events], state.session)
    shown = TIMER.render(then)
    assert shown["status"] == later["status"]
    work = view.worktime(then, then.updated_at)
    message = parse_time(str(later["lastMessageTime"]))
    if then.updated_at == CONTEXT.now:  # when the file was changed: nothing in it says when it went on
        assert (before["status"], later["status"]) == ("PAUSED", "IN_PROGRESS")
        assert message == parse_time(str(before["lastMessageTime"]))
        return
    assert work.elapsed == int(str(later["actualWorkingMs"])) + int(str(later["totalPausedMs"]))
    # A message cuts an agent's run, and each piece is judged by itself.
    meant = [
        (since, until)
        for kind, since, until in _meant(later)
        if kind != "AUTO_TASK" or not since < message < (until or message)
    ]
    is_cut = len(meant) < len(_meant(later))
    # Where the status alone paused it, nothing says since when.
    if not is_cut and not any(entry["status"] == "PAUSED" and all(_ended(entry)) for entry in pair):
        assert work.working == later["actualWorkingMs"]
    for since, until in meant:
        end = then.updated_at if until is None else until
        resting = sum(max(0, min(end, rest.since + rest.length) - max(since, rest.since)) for rest in work.pauses)
        assert resting == end - since


def _ended(document: Document) -> Iterator[bool]:
    pauses = document["pauses"]
    assert isinstance(pauses, list)
    yield from (isinstance(pause, dict) and pause.get("endTime") is not None for pause in pauses)


def test_places_mean_canonical_fields() -> None:
    assert TIMER.field(("summary",), "x") == ("summary", "x")
    assert TIMER.field(("status",), "PAUSED") == ("status", "paused")
    assert TIMER.field(("lastMessageTime",), "x") is None


@given(usual_documents())
def test_message_later_leaves_what_was_kept_valid(document: Document) -> None:
    """What a document says beyond the model comes back after a change too, and the whole is still valid."""
    events = TIMER.changes(None, document, None, CONTEXT)
    state = state_of(document, TIMER, CONTEXT)
    kept = remainder(TIMER.render(state), document, TIMER.identities)
    more = fold_events([*events, events[-1]._replace(at=state.updated_at + 9 * MINUTE, data=MessageExchanged())], "s")
    shown = restore(TIMER.render(more), kept, TIMER.identities)
    assert errors(shown) == []
    assert not is_same(shown, document)
