"""The contract: `--at`, and working time by example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Calling, at, pauses

MINUTE = 60_000


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    return Calling(tmp_path, monkeypatch, capsys)


def record(cli: Calling, *story: tuple[float, str]) -> dict[str, Any]:
    """Records one thing after the other, each at its minute; returns the session after the last."""
    session: dict[str, Any] = {}
    for minute, words in story:
        session = cli.session(*words.split(), "--at", at(minute))
    return session


def working(session: dict[str, Any]) -> float:
    return float(session["time"]["working_ms"]) / MINUTE


def messages_every_four_minutes(until: float, since: float = 0, step: float = 4) -> list[tuple[float, str]]:
    """Messages close enough together for nobody to be idle."""
    count = int((until - since) / step)
    return [(since + step * number, "message") for number in range(1, count + 1)]


# ── times ────────────────────────────────────────────────────────────────────────────────────────────────


def test_at_sets_the_time_of_the_event(cli: Calling) -> None:
    """In any RFC 3339 spelling."""
    session = cli.session("start", "G", "--at", "2026-01-05T09:00:00+01:00")
    assert session["created_at"] == at(0)
    assert session["time"]["elapsed_ms"] == 0
    session = cli.session("note", "x", "--at", "2026-01-05t08:01:00.5z")
    assert session["notes"][0]["at"] == at(1 + 0.5 / 60)
    events = cli.document("log")["events"]
    assert [event["at"] for event in events] == [at(0), at(1 + 0.5 / 60)]


def test_at_works_before_and_after_the_command(cli: Calling) -> None:
    assert cli.session("--at", at(0), "start", "G")["created_at"] == at(0)
    assert cli.session("--at=" + at(1), "pause")["time"]["elapsed_ms"] == MINUTE


@pytest.mark.parametrize(
    "words",
    ["pause", "save", "note x", "message", "stop", "abort", "fail x", "edit --progress 0.5", "decide x", "hill s 1",
     "task add x", "agent start b --type t", "agent done a", "file f --action deleted", "context --tokens 1",
     "compress", "resume", "archive @", "away --from 2026-01-05T08:01:00Z --to 2026-01-05T08:02:00Z",
     "start H --replace", "delete @ --confirm --force"],
)  # fmt: skip
def test_at_before_the_last_event_is_invalid(cli: Calling, words: str) -> None:
    """Exit 4 for every verb; the hint names `away`, and nothing changes."""
    record(cli, (0, "start G"), (5, "agent start a --type t"), (10, "message"))
    before = cli.document("log")["events"]
    error = cli.refused(4, *words.split(), "--at", at(9.99))
    assert "away" in error["hint"]
    assert cli.document("log")["events"] == before


def test_at_equal_to_the_last_event_is_accepted(cli: Calling) -> None:
    record(cli, (0, "start G"), (10, "message"), (10, "message"))


@pytest.mark.parametrize("words", [["start", "G"], ["note", "x"], ["pause"], ["stop"]])
def test_at_more_than_a_day_ahead_is_invalid(cli: Calling, words: list[str]) -> None:
    if words[0] != "start":
        cli.session("start", "G")
    cli.refused(4, *words, "--at", "2199-01-01T00:00:00Z")


def test_at_less_than_a_day_ahead_is_accepted(cli: Calling) -> None:
    """Clocks of machines differ, and later events must not be refused for it."""
    from holdfast.core.times import DAY, format_time
    from holdfast.machine.wall import Wall

    ahead = Wall().now() + DAY - 60_000
    cli.session("start", "G", "--at", format_time(ahead))
    session = cli.session("note", "and on")
    assert session["notes"][0]["at"] == format_time(ahead)


def test_at_with_a_clock_time_means_today(cli: Calling) -> None:
    """In this machine's zone."""
    from holdfast.core.times import DAY, parse_time
    from holdfast.machine.wall import Wall

    created = parse_time(cli.session("start", "G", "--at", "00:00")["created_at"])
    assert 0 <= Wall().now() - created < DAY
    cli.refused(4, "note", "x", "--at", "24:00")
    cli.refused(4, "note", "x", "--at", "8")


def test_at_shows_a_past_state(cli: Calling) -> None:
    """With `show` and `log`; before its start the session does not exist."""
    record(cli, (0, "start G"), (1, "task add x"), (2, "agent start a --type t"), (3, "note n"), (4, "stop"))
    session = cli.document("history")["sessions"][0]["id"]
    then = cli.session("show", session, "--at", at(2))
    assert (then["status"], len(then["tasks"]), len(then["agents"]), then["notes"]) == ("in_progress", 1, 1, [])
    assert then["time"]["elapsed_ms"] == 2 * MINUTE
    assert then["agents"][0]["duration_ms"] == 0
    assert len(cli.document("log", session, "--at", at(3))["events"]) == 4
    cli.refused(3, "show", session, "--at", at(-1))
    assert cli.session("show", session)["status"] == "completed"


# ── working time ─────────────────────────────────────────────────────────────────────────────────────────


def test_gap_of_five_minutes_is_work(cli: Calling) -> None:
    session = record(cli, (0, "start G"), (5, "message"), (10, "message"))
    assert (working(session), pauses(session)) == (10, [])


def test_longer_gap_is_one_idle_pause_between_its_signs(cli: Calling) -> None:
    """Recorded at the later sign, and counted once."""
    session = record(cli, (0, "start G"), (2, "message"), (2 + 5 + 1 / 60, "message"), (8, "message"))
    assert session["status"] == "in_progress"
    assert working(session) == pytest.approx(8 - 5 - 1 / 60)
    assert session["time"]["pauses"] == [
        {"kind": "idle", "reason": None, "started_at": at(2), "ended_at": at(2 + 5 + 1 / 60), "duration_ms": 301_000}
    ]


def test_idle_pause_is_open_since_the_last_activity(cli: Calling) -> None:
    """Looking is not activity."""
    record(cli, (0, "start G"), (2, "message"))
    assert cli.session("status", "--at", at(7))["time"]["idle_since"] is None
    for minute in (8, 20, 60):
        session = cli.session("status", "--at", at(minute))
        assert session["time"]["idle_since"] == at(2)
        assert session["time"]["pauses"][0]["ended_at"] is None
        assert pauses(session) == [("idle", minute - 2)]
    session = record(cli, (70, "message"))
    assert pauses(session) == [("idle", 68)]


@pytest.mark.parametrize(
    "sign",
    ["message --role assistant", "note x", "decide x", "task add x", "file f --action deleted", "context --tokens 5",
     "save", "hill s 3", "edit --progress 0.1", "compress", "agent start b --type t --background"],
)  # fmt: skip
def test_every_recorded_event_is_activity(cli: Calling, sign: str) -> None:
    session = record(cli, (0, "start G"), (4, sign), (8, "message"))
    assert pauses(session) == []


def test_foreground_agent_up_to_ten_minutes_is_work(cli: Calling) -> None:
    """Nobody is idle while it runs."""
    session = record(cli, (0, "start G"), (1, "agent start a --type t"), (11, "agent done a"))
    assert (working(session), pauses(session)) == (11, [])


def test_foreground_agent_longer_than_ten_minutes_is_one_task_pause(cli: Calling) -> None:
    """Over its whole run."""
    session = record(
        cli, (0, "start G"), (1, "agent start a --type t --task Build"), (12, "agent done a"), (13, "message")
    )
    assert pauses(session) == [("task", 11)]
    assert "Build" in session["time"]["pauses"][0]["reason"]
    assert working(session) == 2


def test_task_pause_is_open_while_the_agent_runs(cli: Calling) -> None:
    record(cli, (0, "start G"), (1, "agent start a --type t"))
    assert pauses(cli.session("status", "--at", at(11))) == []
    session = cli.session("status", "--at", at(31))
    assert (pauses(session), session["time"]["pauses"][0]["ended_at"]) == ([("task", 30)], None)


def test_background_agent_does_not_change_the_persons_time(cli: Calling) -> None:
    session = record(
        cli, (0, "start G"), (1, "agent start a --type t --background"), (31, "agent done a"), (32, "message")
    )
    assert pauses(session) == [("idle", 30)]


def test_manual_pause_ends_by_resume_or_the_persons_message(cli: Calling) -> None:
    """Other activity changes nothing, and no idle pause is added."""
    session = record(
        cli, (0, "start G"), (2, "pause lunch"), (10, "message --role assistant"), (20, "note x"), (32, "message"),
        (33, "message"),
    )  # fmt: skip
    assert pauses(session) == [("manual", 30)]
    assert session["time"]["pauses"][0]["reason"] == "lunch"
    assert working(session) == 3


def test_manual_pause_outranks_task_pause_outranks_idle(cli: Calling) -> None:
    """Pauses never overlap."""
    session = record(
        cli, (0, "start G"), (1, "agent start a --type t"), (5, "pause"), (20, "resume"), (30, "agent done a"),
        (40, "message"),
    )  # fmt: skip
    # Resuming cuts the run: the rest is not longer than the threshold.
    assert pauses(session) == [("task", 4), ("manual", 15), ("idle", 10)]
    assert working(session) == 11


def test_away_adds_a_past_pause(cli: Calling) -> None:
    """It counts nothing twice."""
    record(cli, (0, "start G"), *messages_every_four_minutes(20))
    session = cli.session("away", "--from", at(5), "--to", at(15), "phone", "--at", at(20))
    assert pauses(session) == [("manual", 10)]
    assert session["time"]["pauses"][0]["reason"] == "phone"
    assert working(session) == 10
    again = cli.session("away", "--from", at(10), "--to", at(18), "--at", at(20))
    assert working(again) == 7


@pytest.mark.parametrize(
    ("since", "until"), [(5, 5), (6, 5), (-1, 5), (5, 10_000_000)], ids=["empty", "backwards", "before", "future"]
)
def test_away_refuses_impossible_spans(cli: Calling, since: float, until: float) -> None:
    record(cli, (0, "start G"), *messages_every_four_minutes(20))
    end = at(until) if until < 1000 else "2199-01-01T00:00:00Z"
    cli.refused(4, "away", "--from", at(since), "--to", end, "--at", at(20))


def test_worked_turns_pauses_into_work(cli: Calling) -> None:
    """Also in a finished session; outside of its time it is invalid."""
    session = cli.session("start", "G", "--at", at(0))["id"]
    cli.session("message", "--at", at(5))
    cli.session("pause", "Lunch", "--at", at(10))
    cli.session("resume", "--at", at(70))
    cli.document("stop", "--at", at(72))
    assert cli.session("show", session)["time"]["working_ms"] == 12 * 60_000
    corrected = cli.session("worked", "--from", at(20), "--to", at(70), "no lunch", "--session", session)
    assert corrected["time"]["working_ms"] == 62 * 60_000
    assert corrected["time"]["elapsed_ms"] == corrected["time"]["working_ms"] + corrected["time"]["paused_ms"]
    cli.session("away", "--from", at(30), "--to", at(40), "--session", session)
    assert cli.session("show", session)["time"]["working_ms"] == 52 * 60_000
    for since, until in ((-5, 5), (60, 80)):
        cli.refused(4, "worked", "--from", at(since), "--to", at(until), "--session", session)


def test_away_needs_both_ends(cli: Calling) -> None:
    """A missing one is exit 2, an invalid time exit 4."""
    cli.session("start", "G")
    cli.refused(2, "away", "--from", "08:00")
    cli.refused(4, "away", "--from", "soon", "--to", "later")


# ── reminders and the timeout ────────────────────────────────────────────────────────────────────────────


def test_reminders_come_at_forty_and_sixty_minutes_of_work(cli: Calling) -> None:
    """At the first activity beyond the limit, once each, on standard error."""
    record(cli, (0, "start G"), *messages_every_four_minutes(36))
    assert cli.session("status", "--at", at(40))["time"]["reminders"]["break_40"] is False
    crossed = cli("message", "--at", at(40))
    assert "40 minutes" in crossed.err
    session = cli.session("status")
    assert session["time"]["reminders"] == {"break_40": True, "warning_60": False, "timeout_90": False}
    session = record(cli, *messages_every_four_minutes(60, 40))
    assert session["time"]["reminders"] == {"break_40": True, "warning_60": True, "timeout_90": False}
    lines = [event["data"]["line"] for event in cli.document("log", "--type", "reminder.reached")["events"]]
    assert lines == ["break_40", "warning_60"]


def test_pauses_do_not_count_towards_reminders(cli: Calling) -> None:
    session = record(cli, (0, "start G"), (10, "message"), (100, "message"), (104, "message"))
    assert session["time"]["reminders"]["break_40"] is False


def test_ninety_minutes_pause_nothing_by_default(cli: Calling) -> None:
    """Each limit reminds once until the next break."""
    session = record(cli, (0, "start G"), *messages_every_four_minutes(240))
    assert (session["status"], working(session), pauses(session)) == ("in_progress", 240, [])
    assert session["time"]["reminder"] == "timeout_90"
    session = record(cli, (270, "message"), *messages_every_four_minutes(314, 270))
    assert (working(session), pauses(session), session["time"]["reminder"]) == (284, [("idle", 30)], "break_40")
    lines = [event["data"]["line"] for event in cli.document("log", "--type", "reminder.reached")["events"]]
    assert lines == ["break_40", "warning_60", "timeout_90", "break_40"]
    assert cli.document("log", "--type", "session.timed_out")["events"] == []


def test_ninety_minutes_pause_the_session_once_when_chosen(cli: Calling) -> None:
    """The pause ends by the person's message and never comes again."""
    cli.document("config", "set", "timer.timeout_action", "pause")
    session = record(cli, (0, "start G"), *messages_every_four_minutes(92))
    assert session["status"] == "paused"
    assert session["time"]["reminders"] == {"break_40": True, "warning_60": True, "timeout_90": True}
    assert pauses(session) == [("timeout", 0)]
    session = record(cli, (100, "message --role assistant"))
    assert (session["status"], pauses(session)) == ("paused", [("timeout", 8)])
    session = record(cli, (112, "message"), *messages_every_four_minutes(320, 112))
    assert (session["status"], pauses(session)) == ("in_progress", [("timeout", 20)])
    assert session["time"]["reminders"]["timeout_90"] is True
    assert len(cli.document("log", "--type", "session.timed_out")["events"]) == 1


def test_pause_and_end_record_reached_reminders(cli: Calling) -> None:
    """They are activity; the pause stays a manual one."""
    for verb in ("pause", "stop", "fail"):
        record(cli, (0, "start G --replace"), *messages_every_four_minutes(88))
        session = record(cli, (92, verb + (" x" if verb == "fail" else "")))
        assert session["time"]["reminders"] == {"break_40": True, "warning_60": True, "timeout_90": True}
        assert [kind for kind, _ in pauses(session)] == (["manual"] if verb == "pause" else [])
        if verb != "stop":
            cli.session("abort", "--at", at(93))


def test_reminders_stay_when_away_reduces_the_working_time(cli: Calling) -> None:
    record(cli, (0, "start G"), *messages_every_four_minutes(44))
    session = cli.session("away", "--from", at(0), "--to", at(30), "--at", at(44))
    assert working(session) == 14
    assert session["time"]["reminders"]["break_40"] is True


def test_thresholds_are_settings_of_the_session(cli: Calling) -> None:
    """They are fixed at its start."""
    for name, value in (("idle", "1"), ("task", "2"), ("break", "3"), ("warning", "4"), ("timeout", "5")):
        cli.document("config", "set", f"timer.{name}_minutes", value)
    session = record(cli, (0, "start G"), *messages_every_four_minutes(3, 0, 1))
    assert session["time"]["reminders"]["break_40"] is True
    cli.document("config", "set", "timer.idle_minutes", "60")
    session = record(cli, (6, "message"))
    assert pauses(session) == [("idle", 3)]
