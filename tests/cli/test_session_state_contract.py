"""The session state contract, point by point, tested with commands only."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast import Keeper
from holdfast.core.errors import HoldfastError, Refused
from holdfast.formats.mirror.contract import feature_files
from holdfast.formats.text.read import read_yaml
from holdfast.formats.text.yaml_edit import comments
from tests.support.command_line import Calling, checked


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    return Calling(tmp_path, monkeypatch, capsys)


@pytest.fixture
def feature(cli: Calling) -> Path:
    """The directory of a mirrored feature."""
    cli.session("start", "Add login")
    cli("mirror", "on", "contract")
    return next((cli.project / ".ai-session").glob("add-login-*"))


# ── active session data is never deleted ─────────────────────────────────────────────────────────────────


def test_delete_refuses_an_unfinished_session_unless_forced(cli: Calling) -> None:
    session = cli.session("start", "Add login")["id"]
    for _ in ("in_progress", "paused"):
        error = cli.refused(1, "delete", session, "--confirm")
        assert "unfinished" in error["message"]
        assert "--force" in error["hint"]
        assert cli.refused(1, "delete", session, "--yes")["kind"] == "refused"
        cli("pause")
    assert cli.document("delete", session, "--confirm", "--force")["deleted"] == session


@pytest.mark.parametrize("end", ["stop", "abort"])
def test_delete_needs_no_force_for_a_finished_session(cli: Calling, end: str) -> None:
    session = cli.session("start", "Add login")["id"]
    cli.session(end)
    assert cli.document("delete", session, "--confirm")["deleted"] == session


def test_delete_refuses_an_unfinished_session_in_the_library(tmp_path: Path) -> None:
    with Keeper.open(str(tmp_path), home=str(tmp_path / "home")) as keeper:
        session = keeper.start("Add login")
        with pytest.raises(Refused, match="unfinished"):
            keeper.delete(session.id)
        assert session.document().status == "in_progress"
        keeper.delete(session.id, force=True)


@pytest.mark.parametrize(("answer", "code"), [("yes", 0), ("no", 1)])
def test_delete_asks_on_a_terminal_and_reports_that_the_session_is_unfinished(
    cli: Calling, answer: str, code: int
) -> None:
    session = cli.session("start", "Add login")["id"]
    here, there = pty.openpty()
    with os.fdopen(here, "wb", buffering=0) as keyboard:
        keyboard.write(f"{answer}\n".encode())
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "delete", session],
            stdin=there, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        os.close(there)
    assert done.returncode == code, done.stderr
    assert "'Add login' is unfinished (in_progress)" in done.stderr


# ── fields of errors ─────────────────────────────────────────────────────────────────────────────────────


def test_errors_of_a_session_name_its_feature(cli: Calling, feature: Path) -> None:
    session = cli.session("status")["id"]
    for words in (
        ["task", "done", "nosuch"],
        ["resume", session, "--at", "2001-01-01T00:00:00Z"],
        ["unarchive", session],
    ):
        done = cli(*words, "--json")
        error = checked(done.out)["error"]
        assert done.code != 0
        assert (error["session"], error["feature_id"]) == (session, feature.name), words
        assert error["details"]


def test_errors_of_contract_files_have_operation_file_feature_and_details(cli: Calling, feature: Path) -> None:
    """For an unreadable state that blocks an update."""
    (feature / "state.yaml").unlink()
    (feature / "state.yaml").mkdir()
    with pytest.raises(HoldfastError) as caught:
        feature_files.read(str(feature.parent), feature.name)
    error = caught.value
    assert (error.operation, error.feature_id) == ("read", feature.name)
    assert error.file == str(feature / "state.yaml")
    assert error.timestamp is not None


def test_errors_of_the_system_have_the_systems_message(cli: Calling) -> None:
    (cli.project / "file").write_text("")
    error = cli.refused(4, "plan", "import", "file/plan.yaml")
    assert error["file"] == "file/plan.yaml"
    assert error["details"] == "ENOTDIR: Not a directory"


def test_problems_of_validate_have_the_same_fields(cli: Calling, feature: Path) -> None:
    state = feature / "state.yaml"
    state.write_text(state.read_text().replace('"sonnet"', '"gpt"'))
    registry = feature.parent / "active-features.yaml"
    registry.write_text(registry.read_text().replace('"active"', '"busy"'))
    result = problems(cli, ".ai-session")
    for file in (state, registry):
        [problem] = result[os.path.relpath(file, cli.project)]
        assert problem["operation"] == "read"
        assert problem["file"] == os.path.relpath(file, cli.project)
        assert problem["feature_id"] == feature.name
        assert problem["details"] == problem["message"]
        assert problem["timestamp"].endswith("Z")


def problems(cli: Calling, path: str) -> dict[str, list[dict[str, Any]]]:
    document = json.loads(cli("validate", path, "--json").out)["files"]
    return {match["path"]: match["problems"] for match in document if match["problems"]}


# ── missing files and misnamed directories ───────────────────────────────────────────────────────────────

REQUIRED_FILES = ("state.yaml", "implementation-plan.yaml", "history.jsonl", "artifacts", "../README.md",
            "../active-features.yaml")  # fmt: skip


@pytest.mark.parametrize("name", REQUIRED_FILES)
def test_validate_reports_missing_files_and_doctor_restores_them(cli: Calling, feature: Path, name: str) -> None:
    cli("mirror", "off", "contract")
    there = (feature / name).resolve()
    before = None if there.is_dir() else there.read_bytes()
    there.rmdir() if before is None else there.unlink()
    assert "missing" in problems(cli, ".ai-session")[os.path.relpath(there, cli.project)][0]["message"]
    checks = {item["name"]: item for item in json.loads(cli("doctor", "--json").out)["checks"]}
    assert "missing" in checks["contract"]["detail"]
    assert cli("doctor", "--repair").code == 0
    assert there.exists()
    assert before is None or there.read_bytes() == before
    assert problems(cli, ".ai-session") == {}


def test_write_restores_a_missing_artifacts_directory(cli: Calling, feature: Path) -> None:
    """Git does not keep empty directories, so clones lack it."""
    (feature / "artifacts").rmdir()
    cli.session("note", "going on")
    assert (feature / "artifacts").is_dir()


def test_validate_checks_the_name_of_a_features_directory(cli: Calling, feature: Path) -> None:
    cli("mirror", "off", "contract")
    moved = feature.rename(feature.parent / "Login")
    result = problems(cli, ".ai-session")
    assert "feature's id" in result[".ai-session/Login"][0]["message"]
    result = problems(cli, ".ai-session/Login")
    assert "feature's id" in result[".ai-session/Login"][0]["message"]
    moved.rename(feature.parent / "login-2026-01-05")
    [problem] = problems(cli, ".ai-session/login-2026-01-05")[".ai-session/login-2026-01-05/state.yaml"]
    assert (problem["path"], problem["severity"]) == ("$.feature_id", "error")
    assert "login-2026-01-05" in problem["message"]


# ── feature ids ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mirrored", [True, False])
def test_start_refuses_an_explicit_feature_that_exists(cli: Calling, mirrored: bool) -> None:
    if mirrored:
        cli("mirror", "on", "contract")
    first = cli.session("start", "Add login", "--feature", "login")
    feature_id = f"login-{first['created_at'][:10]}"
    assert first["aliases"]["contract"] == feature_id
    cli.session("stop")
    error = cli.refused(5, "start", "Other work", "--feature", "login")
    assert (error["operation"], error["feature_id"], error["session"]) == ("create", feature_id, first["id"])
    assert error["file"] == (str(cli.project / ".ai-session" / feature_id) if mirrored else None)
    assert len(cli.document("history")["sessions"]) == 1


@pytest.mark.parametrize("where", ["directory", "registry"])
def test_start_refuses_an_explicit_feature_of_another_program(cli: Calling, where: str) -> None:
    day = cli.session("start", "Elsewhere")["created_at"][:10]
    cli.session("stop")
    home = cli.project / ".ai-session"
    if where == "directory":
        (home / f"login-{day}").mkdir(parents=True)
    else:
        home.mkdir()
        moment = f"{day}T00:00:00Z"
        (home / "active-features.yaml").write_text(
            f"active_features:\n  - feature_id: login-{day}\n    started_at: {moment}\n    last_active: {moment}\n"
            "    status: active\n"
        )
    assert cli.refused(5, "start", "Login", "--feature", "login")["feature_id"] == f"login-{day}"


def test_start_numbers_a_derived_feature_that_exists(cli: Calling) -> None:
    cli("mirror", "on", "contract")
    names = []
    for _ in range(2):
        cli.session("start", "Add login")
        names.append(cli.session("status")["aliases"]["contract"])
        cli.session("stop")
    assert names[1] == names[0].replace("add-login", "add-login-2")


def test_features_of_two_projects_may_have_the_same_slug(cli: Calling) -> None:
    first = cli.session("start", "Add login", "--feature", "login")
    cli.patch.chdir(cli.project.parent)
    (other := cli.project.parent / "other").mkdir()
    second = cli.session("start", "Add login", "--feature", "login", "--project", str(other))
    assert first["aliases"]["contract"] == second["aliases"]["contract"]


# ── comments ─────────────────────────────────────────────────────────────────────────────────────────────

OTHERS = """\
  - feature_id: "other-2026-01-01"  # theirs
    started_at: "2026-01-01T00:00:00Z"
    last_active: "2026-01-01T00:00:00Z"
    status: "paused"
"""


@pytest.mark.parametrize("how", ["a value", "torn"])
@pytest.mark.parametrize("name", ["state.yaml", "implementation-plan.yaml", "../active-features.yaml"])
def test_comments_survive_a_rejected_edit(cli: Calling, feature: Path, name: str, how: str) -> None:
    """The file goes to quarantine and is written again from the log."""
    cli.session("task", "add", "Form", "--id", "form")
    file = (feature / name).resolve()
    plain = file.read_text() + (OTHERS if "active" in name else "")
    field = {"state.yaml": "started_at", "implementation-plan.yaml": "status", "active-features.yaml": "status"}
    first, second = "# by hand\n", "  # looked at"
    lines = [f"{line}{second}" if f" {field[file.name]}:" in line else line for line in plain.splitlines()]
    edited = first + "\n".join(lines) + "\n"
    file.write_text(edited)
    cli.session("status")
    kept = file.read_text()
    assert kept == edited
    at = next(number for number, line in enumerate(lines) if second in line)
    lines[at] = lines[at].replace(": ", ": [" if how == "torn" else ": nosuch", 1)
    file.write_text(first + "\n".join(lines) + "\n")
    cli.session("status")
    assert list(file.parent.glob(f"{file.name}.rejected-*"))
    assert sorted(comments(file.read_text())) == sorted(comments(kept))
    if (name, how) == ("../active-features.yaml", "torn"):
        assert features_in(file.read_text()) == features_in(kept)
    else:
        assert file.read_text() == kept


def features_in(text: str) -> dict[str, Any]:
    result: Any = read_yaml(text.encode(), "").value
    return {entry["feature_id"]: entry for entry in result["active_features"]}


def test_comments_survive_a_repair(cli: Calling, feature: Path) -> None:
    cli("mirror", "off", "contract")
    state = feature / "state.yaml"
    plain = "# by hand\n" + state.read_text()
    state.write_text(plain.replace("feature_id: ", "feature_id: ["))
    assert cli("doctor", "--repair").code == 0
    assert state.read_text() == plain


# ── plans ────────────────────────────────────────────────────────────────────────────────────────────────

PLAN = """\
feature: {id: "shop-2026-01-05", name: "Shop", description: "Shop", created_at: "2026-01-05T08:00:00Z"}
phases:
  - phase_id: "build"
    name: "Build"
    tasks:
"""
TIMES = {
    "pending": (None, None), "in_progress": ("2026-01-05T08:00:00Z", None), "blocked": ("2026-01-05T09:00:00Z", None),
    "completed": ("2026-01-05T10:00:00Z", "2026-01-05T11:00:00Z"),
}  # fmt: skip


@pytest.mark.parametrize("before", [None, *TIMES])
def test_plan_import_keeps_artifacts_and_times(cli: Calling, before: str | None) -> None:
    """For any status, new and existing tasks; a second import changes nothing."""
    cli.session("start", "Shop")
    if before is not None:
        for status in TIMES:
            cli.session("task", "add", status, "--id", status, "--phase", "build")
            verb = {"in_progress": "start", "blocked": "block", "completed": "done"}.get(before)
            if verb is not None and before == status:
                cli.session("task", verb, status)
    tasks: list[dict[str, Any]] = [
        {"task_id": status, "description": status, "agent": "a", "status": status, "started_at": started,
         "completed_at": completed, "artifacts": [f"src/{status}.py"]}
        for status, (started, completed) in TIMES.items()
    ]  # fmt: skip
    (cli.project / "plan.yaml").write_text(PLAN + "".join(f"      - {json.dumps(task)}\n" for task in tasks))
    session = {task["id"]: task for task in cli.session("plan", "import", "plan.yaml")["tasks"]}
    for task in tasks:
        kept = session[task["task_id"]]
        assert (kept["status"], kept["artifacts"]) == (task["status"], task["artifacts"])
        if before != task["task_id"]:
            times = [None if at is None else at.replace("Z", ".000Z") for at in TIMES[task["task_id"]]]
            assert [kept["started_at"], kept["completed_at"]] == times
    events = len(cli.document("log")["events"])
    cli.session("plan", "import", "plan.yaml")
    assert len(cli.document("log")["events"]) == events


def test_plan_import_refuses_an_invalid_time(cli: Calling) -> None:
    cli.session("start", "Shop")
    (cli.project / "plan.yaml").write_text(PLAN + '      - {task_id: a, description: b, started_at: "soon"}\n')
    error = cli.refused(4, "plan", "import", "plan.yaml")
    assert "'soon' is not a time" in error["message"]


# ── history ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["in one batch", "later", "restored"])
def test_history_lines_have_the_task_and_model_of_their_own_time(cli: Calling, how: str) -> None:
    """Recorded in a batch, mirrored later, or restored by the doctor."""
    if how == "in one batch":
        cli("mirror", "on", "contract")
    with Keeper.open(str(cli.project), home=str(cli.home)) as keeper:
        session = keeper.start("Shop", model="opus")
        with keeper.batch():
            session.add_task("One", task_id="one")
            session.start_task("one").note("in one").finish_task("one")
            session.edit(model="gemini-3").note("in between")
            session.add_task("Two", task_id="two")
            session.start_task("two").note("in two")
    if how == "later":
        cli("mirror", "on", "contract")
    history = next((cli.project / ".ai-session").glob("shop-*/history.jsonl"), None)
    if how == "restored":
        cli("mirror", "on", "contract")
        history = next((cli.project / ".ai-session").glob("shop-*/history.jsonl"))
        kept = history.read_text().splitlines(keepends=True)
        history.write_text("".join(line for line in kept if "note.added" not in line))
        assert cli("doctor", "--repair").code == 0
    assert history is not None
    lines = [json.loads(line) for line in history.read_text().splitlines()]
    entries = [
        (line["arguments"], line["task_id"], line["model"]) for line in lines if line["command"] == "note.added"
    ]
    assert entries == [("in one", "one", "opus"), ("in between", None, "gemini"), ("in two", "two", "gemini")]
