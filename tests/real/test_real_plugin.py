"""The plugin in the real Claude Code: it passes validation, and records."""

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

real_programs.skip_unless_requested()
pytestmark = real_programs.needs("claude")

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "plugins" / "claude-code"


def alone(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Claude Code without a network, with its own home and project."""
    project = tmp_path / "shop"
    project.mkdir(exist_ok=True)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "HOLDFAST_HOME": str(tmp_path / "holdfast")}
    return subprocess.run(
        ["unshare", "-rn", *real_programs.command("claude"), *words], cwd=project, env=environ,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("words", [[str(PLUGIN)], [str(ROOT)], ["--profile", "directory", str(PLUGIN)]])
def test_plugin_passes_validation(words: list[str], tmp_path: Path) -> None:
    """Plugin, marketplace and directory, in strict mode."""
    done = alone(tmp_path, "plugin", "validate", "--strict", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stdout.lower(), done.stdout


def test_plugin_records_a_conversation(tmp_path: Path) -> None:
    """Prompt, conversation and end; nothing after uninstalling."""
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
    session = json.loads(done.stdout)["session"]
    assert isinstance(session, dict)
    return session
