"""Bugs that people met, one test each, named after what went wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.core.times import HOUR, MINUTE, format_time
from holdfast.machine.wall import Wall
from tests.support.command_line import Calling, at


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    return Calling(tmp_path, monkeypatch, capsys)


def process(cli: Calling, *words: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "holdfast", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, cwd=cli.project)


def test_status_at_a_past_time_ignored_the_session_current_then(cli: Calling) -> None:
    """`--at` shows the session that was current then; before any, none."""
    first = cli.session("start", "A", "--at", at(0))["id"]
    cli("stop", "--at", at(4))
    assert cli.session("status", "--at", at(2))["id"] == first
    second = cli.session("start", "B", "--at", at(10))["id"]
    assert cli.session("status", "--at", at(2))["id"] == first
    assert cli.session("status", "--at", at(11))["id"] == second
    assert cli.document("status", "--at", at(-5))["session"] is None
    assert cli.document("log", "--at", at(2))["events"][0]["session"] == first
    assert cli.session("show", "@", "--at", at(2))["status"] == "in_progress"


def test_exit_code_of_255_was_taken_for_a_signal(cli: Calling) -> None:
    """ssh and others use it for any failure: logical, and not retried."""
    cli("start", "G")
    assert process(cli, "run", "--retries", "2", "--", "sh", "-c", "echo ran; exit 255").stdout == "ran\n"
    assert cli.session("status")["agents"][0]["error"]["category"] == "logical"


def test_nested_run_waited_for_the_outer_one(cli: Calling) -> None:
    """It is part of the agent that waits for it."""
    cli("start", "G", "--mode", "debug")
    inner = [sys.executable, "-m", "holdfast", "run", "--type", "inner", "--", "echo", "nested"]
    done = process(cli, "run", "--type", "outer", "--", *inner)
    assert (done.returncode, done.stdout) == (0, "nested\n")
    assert [agent["status"] for agent in cli.session("status")["agents"]] == ["completed", "completed"]


def test_recording_a_file_ran_a_program_configured_in_the_repository(cli: Calling, tmp_path: Path) -> None:
    """Counting lines must run no filter."""
    cli.repository()
    (cli.project / "f").write_text("one\n")
    cli.git("add", ".")
    cli.git("commit", "-q", "-m", "f")
    trap = tmp_path / "trapped"
    cli.git("config", "filter.x.clean", f"touch {trap}; cat")
    cli.git("config", "filter.x.required", "true")
    (cli.project / ".gitattributes").write_text("* filter=x\n")
    (cli.project / "f").write_text("one\ntwo\n")
    cli("start", "G")
    change = cli.session("file", "f", "--action", "modified")["files"][0]
    assert (change["lines_added"], change["lines_removed"]) == (1, 0)
    assert not trap.exists()


def test_archiving_by_age_could_not_be_undone(cli: Calling) -> None:
    """`unarchive` and `archive` work on sessions archived by age."""
    session = cli.session("start", "old", "--at", at(0))["id"]
    cli("stop", "--at", at(1))
    assert cli.document("history")["sessions"][0]["archived"] is True
    assert cli("unarchive", session).code == 0
    assert cli.document("history")["sessions"][0]["archived"] is False
    assert cli("unarchive", session).code == 5
    assert cli("archive", session).code == 0
    assert cli.document("history")["sessions"][0]["archived"] is True


def test_history_and_status_disagreed_about_the_hours_of_an_open_session(cli: Calling) -> None:
    """Both count up to now."""
    cli("start", "G", "--at", format_time(Wall().now() - 4 * MINUTE))
    worked = cli.session("status")["time"]["working_ms"]
    assert 0 <= cli.document("history")["sessions"][0]["working_ms"] - worked < MINUTE


def test_errors_of_run_were_printed_twice(cli: Calling) -> None:
    """Standard output is the command's alone."""
    for words in (["run", "--json"], ["run", "--json", "--nope", "--", "true"], ["run", "--json", "--", "true"]):
        done = process(cli, *words)
        assert done.returncode in (2, 3)
        assert done.stdout == ""
        assert done.stderr.startswith('{"holdfast":1,"error"')


def test_file_of_another_project_was_recorded(cli: Calling, tmp_path: Path) -> None:
    """A session resumed in another directory accepts only files of its own project."""
    session = cli.session("start", "B")["id"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "y.txt").write_text("hi")
    cli.patch.chdir(other)
    assert cli("resume", session, "--quiet").code == 0
    cli.refused(4, "file", "y.txt", "--action", "created")


def test_agent_that_died_before_it_was_recorded_stayed_running(cli: Calling) -> None:
    """A missing process is dead, not unknown."""
    result = subprocess.Popen([sys.executable, "-c", ""])
    result.wait()
    cli("start", "G")
    cli("agent", "start", "a", "--type", "t", "--pid", str(result.pid))
    assert cli.document("resume")["interrupted"] == ["a"]


def test_file_that_is_no_backup_was_called_a_damaged_store(cli: Calling) -> None:
    """The message is about the backup, and the code is invalid input."""
    cli("start", "G")
    Path("b.db").write_text("garbage")
    assert "backup" in cli.refused(4, "restore", "b.db")["message"]
    assert cli("backup", "whole.db").code == 0
    whole = Path("whole.db").read_bytes()
    Path("cut.db").write_bytes(whole[: len(whole) // 2])
    assert "backup" in cli.refused(4, "restore", "cut.db")["message"]


def test_broken_settings_in_a_repository_stopped_all_work_there(cli: Calling) -> None:
    """They are ignored, and `doctor` says so."""
    (cli.project / ".holdfast.toml").write_text("[[[")
    assert cli("start", "G").code == 0
    checks = {check["name"]: check["status"] for check in cli.document("doctor")["checks"]}
    assert checks["settings"] == "warning"


def test_time_in_the_future_was_accepted_without_a_warning(cli: Calling) -> None:
    """Up to a day ahead is allowed; the warning says what follows."""
    cli("start", "G")
    result = cli("note", "later", "--at", format_time(Wall().now() + 3 * HOUR))
    assert (result.code, "in the future" in result.err) == (0, True)


def test_help_was_no_command(cli: Calling) -> None:
    """`holdfast help` and `holdfast help COMMAND` are what people try first."""
    assert "holdfast start" in cli("help", "start").out
    assert cli("help").code == 0


def test_doctor_approved_of_a_missing_store(cli: Calling) -> None:
    """A home that has written events and has no store is a warning."""
    cli("start", "G")
    for name in os.listdir(cli.home):
        if name.startswith("store.db"):
            (cli.home / name).unlink()
    checks = {check["name"]: check["status"] for check in cli.document("doctor")["checks"]}
    assert checks["store"] == "warning"


def test_failed_run_of_a_retried_agent_was_listed_as_completed(cli: Calling) -> None:
    """Each run shows its own end."""
    cli("start", "G", "--at", at(0))
    cli("agent", "start", "a", "--type", "t", "--at", at(1))
    cli("agent", "fail", "a", "--category", "transient", "--message", "no", "--at", at(2))
    cli("agent", "retry", "a", "--at", at(3))
    cli("agent", "done", "a", "--at", at(4))
    rows = [line.split()[-1] for line in cli("timeline").out.splitlines() if "  a  " in line]
    assert rows == ["error", "completed"]
