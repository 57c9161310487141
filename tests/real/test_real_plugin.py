"""The plugin in the real Claude Code: it finds nothing wrong with it, and is recorded through it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.conversations.hooks.install import install
from tests.real import real_programs

real_programs.wanted()
pytestmark = real_programs.needs("claude")

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "plugins" / "claude-code"


def alone(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Claude Code without a network, in a home of its own and a project of its own."""
    project = tmp_path / "shop"
    project.mkdir(exist_ok=True)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "HOLDFAST_HOME": str(tmp_path / "holdfast")}
    return subprocess.run(
        ["unshare", "-rn", *real_programs.command("claude"), *words], cwd=project, env=environ,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("words", [[str(PLUGIN)], [str(ROOT)], ["--profile", "directory", str(PLUGIN)]])
def test_claude_code_finds_nothing_wrong(words: list[str], tmp_path: Path) -> None:
    """Plugin, marketplace and the directory's own checks pass in the strict reading of the real program."""
    done = alone(tmp_path, "plugin", "validate", "--strict", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stdout.lower(), done.stdout


def test_claude_code_is_recorded_through_the_plugin(tmp_path: Path) -> None:
    """Installed in the real program, hooks record a prompt, the conversation and its end; uninstalling ends it."""
    home = tmp_path / "holdfast"
    install(str(home), system=sys.platform)
    for words in (["marketplace", "add", str(ROOT)], ["install", "holdfast@holdfast"]):
        done = alone(tmp_path, "plugin", *words)
        assert done.returncode == 0, done.stdout + done.stderr
    alone(tmp_path, "-p", "Add a search box to the shop")
    session = status(tmp_path)
    assert session["goal"] == "Add a search box to the shop"
    assert [item["agent"] for item in session["native"]] == ["claude"]
    for words in (["uninstall", "holdfast@holdfast"], ["marketplace", "remove", "holdfast"]):
        assert alone(tmp_path, "plugin", *words).returncode == 0
    settings = tmp_path / ".claude" / "settings.json"
    assert "holdfast@holdfast" not in settings.read_text(encoding="utf-8")
    alone(tmp_path, "-p", "Nobody hears this")
    assert len(status(tmp_path)["native"]) == 1


def status(tmp_path: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "status", "--json"], cwd=tmp_path / "shop", capture_output=True,
        check=True, env=os.environ | {"HOLDFAST_HOME": str(tmp_path / "holdfast")},
    )  # fmt: skip
    found = json.loads(done.stdout)["session"]
    assert isinstance(found, dict)
    return found
