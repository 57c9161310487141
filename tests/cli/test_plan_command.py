"""`holdfast plan import` and `holdfast plan show`, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main

PLAN = """\
## Design
- [x] Choose the index (id: choose)
- [ ] Compare the others

## Build
- [ ] Write it (id: write)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "60")
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    (tmp_path / "project" / "plan.md").write_text(PLAN)
    assert main(["start", "Plan things"]) == 0
    capsys.readouterr()
    return tmp_path / "project"


def output(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(list(words)) == code
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    answer = json.loads(output(capsys, *words, "--json"))
    assert answer["holdfast"] == 1
    return answer


def test_import_reports_what_is_new(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of it, nothing, then what was ticked meanwhile."""
    assert output(capsys, "plan", "import", "plan.md") == "Added 2 phases and 3 tasks\n"
    assert output(capsys, "plan", "import", "plan.md") == "Nothing new in the plan\n"
    (project / "plan.md").write_text(PLAN.replace("[ ] Write", "[x] Write"))
    result = document(capsys, "plan", "import", "plan.md")
    assert (result["added"], result["moved"]) == ({"phases": 0, "tasks": 0}, 1)


def test_show_lists_the_plan_by_phase(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With counts and marks, tasks without a phase last; the document has phases and tasks."""
    assert "no plan yet" in output(capsys, "plan", "show")
    output(capsys, "plan", "import", "plan.md")
    output(capsys, "task", "add", "Of no phase", "--id", "loose")
    output(capsys, "task", "start", "write")
    output(capsys, "task", "block", "design-2", "--outcome", "nobody knows")
    assert output(capsys, "plan", "show") == (
        "Design  1 of 2\n"
        "  [x] choose    Choose the index\n"
        "  [!] design-2  Compare the others  (nobody knows)\n"
        "\n"
        "Build  0 of 1\n"
        "  [>] write  Write it\n"
        "\n"
        "Tasks  0 of 1\n"
        "  [ ] loose  Of no phase\n"
    )
    result = document(capsys, "plan", "show")
    assert [phase["id"] for phase in result["phases"]] == ["design", "build"]
    assert [task["id"] for task in result["tasks"]] == ["choose", "design-2", "write", "loose"]


def test_file_that_is_no_plan_changes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Missing is 3, invalid is 4 with its line."""
    (project / "bad.yaml").write_text("tasks:\n- task_id: ../x\n  description: x\n")
    before = document(capsys, "log")
    assert main(["plan", "import", "missing.md"]) == 3
    assert main(["plan", "import", "bad.yaml"]) == 4
    assert "line 2" in capsys.readouterr().err
    assert document(capsys, "log") == before
