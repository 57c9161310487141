"""A file with an older version of its document changes nothing, and its content is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Calling

ORCHESTRATOR = ".claude/orchestrator-session.json"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    return Calling(tmp_path, monkeypatch, capsys)


def document(day: int, **facts: Any) -> dict[str, Any]:
    return {
        "schema_version": "1.0", "session_id": "2025-12-20-abc123", "created": "2025-12-20T09:00:00Z",
        "updated": f"2025-12-{day}T09:00:00Z", "project": {"name": "shop", "path": "/shop", "git_branch": "main"},
        "goal": "Build the shop", "mode": "default", "status": "paused", "agents": [], "completed_work": [],
        "pending_tasks": ["Add unit tests"], "decisions_made": [],
        "context_usage": {"estimated_tokens": 10, "percentage": 1, "last_compression": None}, **facts,
    }  # fmt: skip


NEWER = document(
    28, goal="Refined goal", pending_tasks=[],
    completed_work=[{"task": "Add unit tests", "outcome": "done", "files": []}],
)  # fmt: skip
OLDER = document(27)


def assert_newer(session: dict[str, Any]) -> None:
    assert session["goal"] == "Refined goal"
    assert [task["status"] for task in session["tasks"]] == ["completed"]


def test_import_of_an_older_version_changes_nothing(cli: Calling) -> None:
    for name, value in (("newer.json", NEWER), ("older.json", OLDER)):
        (cli.project / name).write_text(json.dumps(value))
    (session,) = cli.document("import", "newer.json")["sessions"]
    again = cli.document("import", "older.json")
    assert any("older than the session known here" in note["message"] for note in again["notes"])
    assert_newer(cli.session("show", session))


def test_older_version_over_a_mirrored_file_goes_to_quarantine(cli: Calling) -> None:
    (cli.project / ".claude").mkdir()
    file = cli.project / ORCHESTRATOR
    file.write_text(json.dumps(NEWER))
    session = cli.session("continue", "--yes")["id"]
    file.write_text(json.dumps(OLDER))
    _, out, err = cli("status")
    assert "older than the session known here" in out + err
    assert_newer(cli.session("show", session))
    assert json.loads(file.read_text())["goal"] == "Refined goal"
    (quarantined,) = file.parent.glob("*.rejected-*")
    assert json.loads(quarantined.read_text()) == OLDER


def test_older_archive_does_not_change_the_current_file(cli: Calling) -> None:
    (cli.project / ".claude" / "orchestrator-history").mkdir(parents=True)
    archive = cli.project / ".claude" / "orchestrator-history" / "2025-12-20-abc123.json"
    archive.write_text(json.dumps(OLDER))
    (cli.project / ORCHESTRATOR).write_text(json.dumps(NEWER))
    session = cli.session("continue", "--yes")["id"]
    cli("status")
    assert_newer(cli.session("show", session))
    assert json.loads((cli.project / ORCHESTRATOR).read_text())["goal"] == "Refined goal"


def test_continue_reports_assumptions_about_the_file(cli: Calling) -> None:
    (cli.project / ".claude").mkdir()
    (cli.project / ORCHESTRATOR).write_text(json.dumps({**NEWER, "updated": "2025-12-28T09:00:00"}))
    _, out, err = cli("continue", "--yes")
    assert "local" in out + err


def test_mirror_on_and_doctor_name_a_tracked_timer_file(cli: Calling) -> None:
    """It would be committed although it is ignored."""
    cli.repository()
    file = cli.project / ".claude" / "session-state.json"
    cli.session("start", "G", "--scope", "api", "--task", "Do it")
    cli.document("mirror", "on", "timer")
    cli.document("mirror", "off", "timer")
    assert file.exists()
    cli.git("add", "-f", ".claude/session-state.json")
    _, out, err = cli("mirror", "on", "timer")
    assert "git rm --cached .claude/session-state.json" in out + err
    checks = {check["name"]: check for check in cli.document("doctor")["checks"]}
    assert checks["mirrors"]["status"] == "warning"
    cli.git("rm", "-q", "--cached", ".claude/session-state.json")
    assert {check["name"]: check for check in cli.document("doctor")["checks"]}["mirrors"]["status"] == "ok"


def test_start_refuses_an_existing_feature_by_its_whole_id(cli: Calling) -> None:
    feature = cli.session("start", "Login", "--feature", "login")["aliases"]["contract"]
    assert cli.refused(5, "start", "Again", "--feature", feature, "--replace")["feature_id"] == feature


def test_history_shows_an_idle_session_as_paused(cli: Calling) -> None:
    from tests.support.command_line import at

    cli.session("start", "G", "--at", at(0))
    (row,) = cli.document("history")["sessions"]
    assert row["status"] == cli.session("status")["status"]
