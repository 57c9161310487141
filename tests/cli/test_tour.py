"""`holdfast tour`, run for real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.cells import width_of


def take(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    env = {
        **os.environ, "TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch), "COLUMNS": "80",
        "HOLDFAST_HOME": str(tmp_path / "untouched"), "PYTHONIOENCODING": "utf-8",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "tour", *words],
        cwd=tmp_path, env=env, capture_output=True, text=True, encoding="utf-8", check=False, timeout=120,
    )  # fmt: skip
    assert list(scratch.iterdir()) == []
    assert not (tmp_path / "untouched").exists()
    return done


def test_tour_shows_the_main_job_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """It kills an agent, resumes, loses nothing, and fits into 80 columns."""
    done = take(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    commands = [line for line in lines if line.startswith("$ ")]
    assert commands[0].startswith("$ holdfast start")
    assert any(line.startswith("$ kill -9") for line in commands)
    assert sum(line.startswith("  checked  ") for line in lines) == 8
    # The scratch directory's path depends on the machine, and around midnight times have dates.
    wide = [line for line in lines if width_of(line) > 80]
    assert [line for line in wide if "holdfast-tour-" not in line and "--at 20" not in line] == []


def test_tour_json_has_every_command_with_its_code(tmp_path: Path) -> None:
    """And the events kept, none lost."""
    done = take(tmp_path, "--json")
    tour = json.loads(done.stdout)["tour"]
    assert done.returncode == 0
    assert {step["exit_code"] for step in tour["steps"]} == {0}
    assert all(check["held"] for check in tour["checks"])
    assert (tour["lost"], tour["held"]) == (0, True)
    assert tour["events"] > 25


def test_tour_stops_at_a_failing_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows why, and exits with 1."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    (tmp_path / "broken").mkdir()
    # A Python that cannot start the commands of the tour.
    (tmp_path / "broken" / "sitecustomize.py").write_text(
        "import os\nif 'HOLDFAST_HOME' in os.environ and 'TOUR_SIGNS' in os.environ: os._exit(9)\n"
    )
    done = take(tmp_path)
    assert done.returncode == 1
    assert "exit code 9" in done.stdout
