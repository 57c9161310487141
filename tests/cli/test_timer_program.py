"""A program that maintains `.claude/session-state.json` by the rules of the timer format, next to Holdfast's mirror
of it.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from holdfast import Keeper
from tests.support.command_line import Calling, at, pauses
from tests.support.spec_examples import TIMER_ONE_PAUSE, TIMER_SEVERAL_PAUSES, TIMER_TIMED_OUT

MINUTE = 60_000
FILE = ".claude/session-state.json"


class Program:
    """The program of the format's text: it reads the file, counts, and writes the file back in place."""

    def __init__(self, cli: Calling) -> None:
        self.path = cli.project / FILE

    def read(self) -> dict[str, Any]:
        document = json.loads(self.path.read_text())
        assert isinstance(document, dict)
        return document

    def write(self, document: dict[str, Any]) -> None:
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps(document, indent=2))

    def edit(self, change: Callable[[dict[str, Any]], object]) -> None:
        document = self.read()
        change(document)
        self.write(document)

    def message(self, minute: float, worked: float) -> None:
        """A message, after `worked` minutes of work since the one before."""

        def change(document: dict[str, Any]) -> None:
            document["lastMessageTime"] = at(minute)
            document["actualWorkingMs"] += round(worked * MINUTE)

        self.edit(change)

    def pause(self, kind: str, reason: str, since: float, until: float) -> None:
        def change(document: dict[str, Any]) -> None:
            length = round((until - since) * MINUTE)
            document["pauses"].append(
                {"type": kind, "reason": reason, "startTime": at(since), "endTime": at(until), "durationMs": length}
            )
            document["totalPausedMs"] += length
            document["lastMessageTime"] = at(until)

        self.edit(change)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    calling = Calling(tmp_path, monkeypatch, capsys)
    calling.repository()
    assert calling("mirror", "on", "timer").code == 0
    return calling


@pytest.fixture
def program(cli: Calling) -> Program:
    cli("start", "Create the value object", "--task", "Create value object", "--scope", "Domain", "--at", at(0))
    return Program(cli)


# ── its hours are kept ───────────────────────────────────────────────────────────────────────────────────


def test_hours_counted_by_the_program_are_kept_when_status_is_shown(cli: Calling, program: Program) -> None:
    """27 minutes of messages that Holdfast never saw, in the answer and in the file."""
    program.message(27, worked=27)
    left = program.read()
    session = cli.session("status", "--at", at(27))
    assert (session["time"]["working_ms"], session["time"]["paused_ms"]) == (27 * MINUTE, 0)
    assert program.read() == left


def test_every_minute_counted_after_each_message_is_kept(cli: Calling, program: Program) -> None:
    """With `status` in between, and gaps of any length."""
    for minute, worked in ((4, 4), (13, 9), (27, 14), (60, 33)):
        program.message(minute, worked)
        session = cli.session("status", "--at", at(minute))
        assert session["time"]["working_ms"] == minute * MINUTE
        assert program.read()["actualWorkingMs"] == minute * MINUTE
    assert program.read()["pauses"] == []


def test_short_work_before_a_long_agent_gains_no_idle_pause(cli: Calling, program: Program) -> None:
    """3 minutes of work and an agent of 17 make one task pause."""
    program.pause("AUTO_TASK", "Task agent: explore", 3, 20)
    program.edit(lambda document: document.update(actualWorkingMs=3 * MINUTE))
    left = program.read()
    session = cli.session("status", "--at", at(20))
    assert pauses(session) == [("task", 17)]
    assert session["time"]["working_ms"] == 3 * MINUTE
    assert program.read() == left


def test_pauses_of_the_program_count_at_any_kind_and_length(cli: Calling, program: Program) -> None:
    """Shorter and longer than Holdfast's thresholds; everything between them is work."""
    program.pause("AUTO_IDLE", "User idle", 2, 4)
    program.pause("MANUAL", "coffee", 11, 12)
    program.pause("AUTO_TASK", "Task agent: x", 40, 44)
    program.message(53, worked=46)
    session = cli.session("status", "--at", at(53))
    assert pauses(session) == [("idle", 2), ("manual", 1), ("task", 4)]
    assert session["time"]["working_ms"] == 46 * MINUTE


def test_count_that_differs_from_the_programs_own_pauses_is_reported(cli: Calling, program: Program) -> None:
    """5 minutes counted where 27 passed without a pause: 27 are work, and the next command reports it."""
    program.message(27, worked=5)
    out = cli("status")
    assert "actualWorkingMs says 300,000: 1,620,000 by the pauses" in out.err
    assert program.read()["actualWorkingMs"] == 27 * MINUTE


def test_count_within_a_second_of_its_times_is_not_reported(cli: Calling, program: Program) -> None:
    """Times may be in whole seconds."""
    program.message(27, worked=27)
    program.edit(lambda document: document.update(actualWorkingMs=27 * MINUTE - 640))
    assert cli("status").err == ""


def test_hours_count_whatever_agent_is_recorded_as_running(cli: Calling, program: Program) -> None:
    """An agent without a recorded end makes no pause of them."""
    cli("agent", "start", "a1", "--type", "explorer", "--at", at(1))
    program.message(28, worked=27)
    assert cli.session("status", "--at", at(28))["time"]["working_ms"] == 28 * MINUTE
    assert program.read()["pauses"] == []


def test_hours_counted_from_an_older_copy_are_kept(cli: Calling, program: Program) -> None:
    """The program had read the file before Holdfast recorded a note and an idle gap."""
    copy = program.read()
    cli("note", "Something happened", "--at", at(20))
    assert pauses(cli.session("status", "--at", at(20))) == [("idle", 20)]
    program.write({**copy, "lastMessageTime": at(15), "actualWorkingMs": 15 * MINUTE})
    session = cli.session("status", "--at", at(20))
    assert session["time"]["working_ms"] == 20 * MINUTE
    assert session["conflicts"] == []


def test_import_and_mirror_count_the_same(cli: Calling, program: Program, tmp_path: Path) -> None:
    """The same file, mirrored, imported, and imported as a later version of itself."""
    first = program.read()
    program.pause("AUTO_TASK", "Task agent: explore", 3, 20)
    program.message(47, worked=30)
    later = program.read()
    mirrored = cli.session("status", "--at", at(47))["time"]
    copy = tmp_path / "copy.json"
    for home, versions in (("new", [later]), ("again", [first, later])):
        cli.patch.setenv("HOLDFAST_HOME", str(tmp_path / home))
        for version in versions:
            copy.write_text(json.dumps(version))
            assert cli("import", str(copy)).code == 0
        imported = cli.session("show", later["sessionId"], "--at", at(47))["time"]
        assert imported == mirrored, home


# ── its pauses end when it reports so ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pause_at", [9, 10])
@pytest.mark.parametrize("message_at", [40, 42])
@pytest.mark.parametrize("looks", [1, 2])
def test_resume_of_the_program_is_kept_after_status_showed_the_pause(
    pause_at: int, message_at: int, looks: int, cli: Calling, program: Program
) -> None:
    """Lunch from the last message or a minute later, and a message at the resume or two minutes later."""
    program.message(9, worked=9)
    cli("status", "--at", at(9))

    def begin(document: dict[str, Any]) -> None:
        document["pauses"].append(
            {"type": "MANUAL", "reason": "lunch", "startTime": at(pause_at), "endTime": None, "durationMs": 0}
        )
        document |= {"status": "PAUSED", "lastMessageTime": at(pause_at), "actualWorkingMs": pause_at * MINUTE}

    def end(document: dict[str, Any]) -> None:
        length = (40 - pause_at) * MINUTE
        document["pauses"][0] |= {"endTime": at(40), "durationMs": length}
        document |= {"status": "IN_PROGRESS", "lastMessageTime": at(message_at), "totalPausedMs": length}
        document["actualWorkingMs"] = message_at * MINUTE - length

    program.edit(begin)
    for _ in range(looks):
        assert cli.session("status", "--at", at(pause_at))["status"] == "paused"
    program.edit(end)
    wrote = program.read()
    session = cli.session("status", "--at", at(message_at))
    assert program.read() == wrote
    assert (session["status"], pauses(session)) == ("in_progress", [("manual", 40 - pause_at)])


def test_open_idle_pause_is_one_pause_when_the_next_message_ends_it(cli: Calling, program: Program) -> None:
    """Noticed after 12 minutes, written as open, and ended by a message two minutes later."""
    idle: dict[str, Any] = {"type": "AUTO_IDLE", "reason": "User idle", "startTime": at(0)}
    for minute, status, end in ((12, "PAUSED", None), (14, "IN_PROGRESS", at(14))):
        length = minute * MINUTE
        entry = {**idle, "endTime": end, "durationMs": length}
        program.edit(
            lambda document, entry=entry, minute=minute, status=status: document.update(  # type: ignore[misc]
                pauses=[entry], status=status, totalPausedMs=minute * MINUTE, lastMessageTime=at(minute)
            )
        )
        wrote = program.read()
        session = cli.session("status", "--at", at(minute))
        assert program.read() == wrote
        assert pauses(session) == [("idle", minute)]
    assert session["status"] == "in_progress"


def test_task_pause_that_has_ended_adds_no_pause_when_the_status_stays_paused(cli: Calling, program: Program) -> None:
    """By the format's steps: an entry for the agent's run, PAUSED, and IN_PROGRESS at the next message."""
    program.pause("AUTO_TASK", "Task agent: explore", 0, 17)
    program.edit(lambda document: document.update(status="PAUSED"))
    wrote = program.read()
    assert cli.session("status", "--at", at(17))["status"] == "paused"
    assert program.read() == wrote
    program.message(20, worked=3)
    program.edit(lambda document: document.update(status="IN_PROGRESS"))
    session = cli.session("status", "--at", at(20))
    assert (session["status"], pauses(session), session["time"]["working_ms"]) == (
        "in_progress", [("task", 17)], 3 * MINUTE,
    )  # fmt: skip


def test_pause_that_the_program_made_longer_is_still_one_pause(cli: Calling, program: Program) -> None:
    program.pause("MANUAL", "coffee", 2, 4)
    cli("status", "--at", at(4))
    program.edit(
        lambda document: document.update(
            pauses=[{**document["pauses"][0], "endTime": at(7), "durationMs": 5 * MINUTE}],
            totalPausedMs=5 * MINUTE, lastMessageTime=at(7),
        )
    )  # fmt: skip
    assert pauses(cli.session("status", "--at", at(7))) == [("manual", 5)]
    assert len(program.read()["pauses"]) == 1


# ── deleting the file stops the timer ────────────────────────────────────────────────────────────────────


def test_deleting_the_file_pauses_and_the_next_command_names_both_options(cli: Calling, program: Program) -> None:
    """Any command says it once, `status` always; the file is not written again."""
    program.path.unlink()
    out = cli("history")
    assert f"{FILE} was deleted, so the session is paused" in out.err
    assert "holdfast resume" in out.err
    assert "holdfast stop" in out.err
    out = cli("status")
    assert out.err == ""
    assert "paused since" in out.out
    assert "holdfast resume continues it, holdfast stop ends it" in out.out
    session = cli.session("status")
    assert session["status"] == "paused"
    assert session["time"]["pauses"][-1]["reason"] == "its timer file was deleted"
    assert not program.path.exists()


def test_resume_after_the_file_was_deleted_restores_it(cli: Calling, program: Program) -> None:
    program.path.unlink()
    assert cli.session("resume")["status"] == "in_progress"
    assert program.read()["status"] == "IN_PROGRESS"
    assert cli("status").err == ""


def test_stop_after_the_file_was_deleted_ends_the_session(cli: Calling, program: Program) -> None:
    program.path.unlink()
    assert cli.session("stop")["status"] == "completed"
    assert not program.path.exists()
    assert cli.document("status")["session"] is None


def test_deletion_that_a_background_process_notices_is_still_reported(cli: Calling, program: Program) -> None:
    """By the next command of a person."""
    program.path.unlink()
    with Keeper.open(str(cli.project), home=str(cli.home)) as keeper:
        keeper.collect()
        assert keeper.session().document().status == "paused"
    assert "was deleted, so the session is paused" in cli("history").err
    assert cli("history").err == ""


def test_file_deleted_while_paused_is_not_restored(cli: Calling, program: Program) -> None:
    """Nothing is recorded, and both options are named."""
    cli("pause", "lunch")
    program.path.unlink()
    assert "was deleted" in cli("status").err
    session = cli.session("status")
    assert [pause["reason"] for pause in session["time"]["pauses"] if pause["kind"] == "manual"] == ["lunch"]
    assert not program.path.exists()


def test_file_that_comes_back_unchanged_shows_the_pause(cli: Calling, program: Program) -> None:
    """As after popping a stash: the session stays paused."""
    before = program.read()
    program.path.unlink()
    cli("status")
    program.write(before)
    assert cli.session("status")["status"] == "paused"
    assert program.read()["status"] == "PAUSED"


def test_new_session_in_place_of_a_deleted_file_becomes_current(cli: Calling, program: Program) -> None:
    before = program.read()
    program.path.unlink()
    cli("status")
    name = "20260105-domain-other"
    program.write({**before, "sessionId": name, "branchName": f"session/{name}", "startTime": at(30),
                   "lastMessageTime": at(31), "actualWorkingMs": MINUTE})  # fmt: skip
    session = cli.session("status")
    assert session["aliases"]["timer"] == name
    assert session["status"] in ("in_progress", "paused")
    assert program.read()["sessionId"] == name


def test_file_deleted_while_the_mirror_was_off_does_not_pause(cli: Calling, program: Program) -> None:
    cli("mirror", "off", "timer")
    program.path.unlink()
    assert cli("mirror", "on", "timer").code == 0
    assert "deleted" not in cli("status").err
    assert program.path.exists()


def test_file_that_is_replaced_by_deleting_it_first_is_waited_for(cli: Calling, program: Program) -> None:
    document = program.read()
    document["summary"] = "Going on"
    program.path.unlink()
    writing = threading.Timer(0.05, program.write, [document])
    writing.start()
    session = cli.session("status", "--at", at(1))
    writing.join()
    assert [pause["kind"] for pause in session["time"]["pauses"] if pause["kind"] == "manual"] == []
    assert cli.session("status")["summary"] == "Going on"


# ── `status` ─────────────────────────────────────────────────────────────────────────────────────────────


def test_status_shows_the_task(cli: Calling, program: Program) -> None:
    assert "Task     Create value object" in cli("status").out


def test_status_shows_twelve_idle_minutes_as_paused_since_the_last_activity(cli: Calling, program: Program) -> None:
    """In the headline and in JSON; the next sign of activity ends the pause."""
    cli("note", "Something", "--at", at(3))
    headline = cli("status", "--at", at(15)).out.splitlines()[1]
    assert headline.startswith("paused")
    session = cli.session("status", "--at", at(15))
    assert session["status"] == "paused"
    assert session["time"]["idle_since"] == at(3)
    assert cli.session("status", "--at", at(7))["status"] == "in_progress"
    assert cli.session("note", "On", "--at", at(15))["status"] == "in_progress"
    assert pauses(cli.session("status", "--at", at(15))) == [("idle", 12)]


def test_validate_prints_a_schema_of_draft_7(cli: Calling, program: Program) -> None:
    """For all four formats, also as JSON; a standard validator accepts the mirrored file."""
    for name in ("orchestrator", "timer", "contract", "craft"):
        plain = json.loads(cli("validate", "--schema", name, "--draft", "7").out)
        assert plain == cli.document("validate", "--schema", name, "--draft", "7")["schema"]
        assert plain["$schema"] == "http://json-schema.org/draft-07/schema#"
    newer = json.loads(cli("validate", "--schema", "timer", "--draft", "2020-12").out)
    assert newer == json.loads(cli("validate", "--schema", "timer").out)
    jsonschema.Draft7Validator(json.loads(cli("validate", "--schema", "timer", "--draft", "7").out)).validate(
        program.read()
    )
    assert cli("validate", FILE, "--draft", "7").code == 2


@pytest.mark.parametrize("example", [TIMER_ONE_PAUSE, TIMER_SEVERAL_PAUSES, TIMER_TIMED_OUT])
def test_resumed_example_of_the_format_runs_again_and_reports_the_absence(example: bytes, cli: Calling) -> None:
    """Worked and paused times are the example's own, and the year since is no pause."""
    path = cli.project / "example.json"
    path.write_bytes(example)
    cli("import", "example.json")
    before = cli.session("show", json.loads(example)["sessionId"], "--at", json.loads(example)["lastMessageTime"])
    shown = cli("resume", json.loads(example)["sessionId"]).out
    assert re.search(r"^Time: +[^\n]* worked, (?:6|12|20) min paused, \d+ d [^\n]*away$", shown, re.MULTILINE), shown
    session = cli.session("status")
    assert (session["status"], session["time"]["pauses"][-1]["ended_at"] is not None) == ("in_progress", True)
    assert session["time"]["working_ms"] - before["time"]["working_ms"] < MINUTE
    line = next(line for line in cli("status").out.splitlines() if line.startswith("Time"))
    assert " away" in line
    assert not re.search(r"\d d[^,]* paused", line)


def test_resumed_task_pause_of_an_imported_file_runs_again(cli: Calling) -> None:
    """Although its agent will never report an end."""
    document = json.loads(TIMER_ONE_PAUSE)
    last = document["lastMessageTime"]
    pause = {"type": "AUTO_TASK", "reason": "Task agent: x", "startTime": last, "endTime": None, "durationMs": 0}
    document |= {"status": "PAUSED", "actualWorkingMs": 2_127_000, "totalPausedMs": 0, "pauses": [pause]}
    (cli.project / "file.json").write_text(json.dumps(document))
    cli("import", "file.json")
    session = cli.session("resume", document["sessionId"])
    assert all(pause["ended_at"] is not None for pause in session["time"]["pauses"])
    assert "Agent at work" not in cli("status").out


@pytest.mark.parametrize("reads", [True, False], ids=["reads the file each time", "writes from memory"])
def test_idle_detection_by_the_formats_steps_loses_no_counted_minute(
    reads: bool, cli: Calling, program: Program
) -> None:
    """When idle: an ended entry, and PAUSED. At the next message: close an open pause, then IN_PROGRESS."""
    memory = program.read()
    minute = 0.0
    for step, (later, looks) in enumerate([(4, True), (20, True), (23, True), (27, False), (40, True), (44, True)]):
        document = program.read() if reads else memory
        gap = (later - minute) * MINUTE
        if gap > 5 * MINUTE:
            document["pauses"].append({"type": "AUTO_IDLE", "reason": "User idle", "startTime": at(minute),
                                       "endTime": at(later), "durationMs": gap})  # fmt: skip
            document["totalPausedMs"] += gap
            document["status"] = "PAUSED"
        else:
            open_pause = next((pause for pause in document["pauses"] if pause["endTime"] is None), None)
            if open_pause is not None:
                open_pause |= {"endTime": at(later), "durationMs": gap}
                document["totalPausedMs"] += gap
            else:
                document["actualWorkingMs"] += gap
            document["status"] = "IN_PROGRESS"
        document["lastMessageTime"] = at(later)
        memory, minute = document, later
        program.write(document)
        if looks:
            session = cli.session("status", "--at", at(later))
            assert session["time"]["working_ms"] == document["actualWorkingMs"], step
            assert session["time"]["paused_ms"] == document["totalPausedMs"], step
            assert session["status"] == ("paused" if document["status"] == "PAUSED" else "in_progress"), step
            assert session["conflicts"] == []
            assert program.read()["status"] == document["status"]
