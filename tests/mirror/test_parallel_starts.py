"""Many sessions started concurrently in one work tree: each is mirrored, even if another replaced it at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.errors import Refused

COUNT = 12


def test_each_of_many_concurrent_starts_is_mirrored(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    with Keeper.open(str(project), home=str(home)) as keeper:
        for name in ("contract", "orchestrator", "craft"):
            keeper.mirrors.switch_on(name)
    words = [sys.executable, "-m", "holdfast", "start", "--replace"]
    environ = {**os.environ, "HOLDFAST_HOME": str(home)}
    running = [
        subprocess.Popen([*words, f"Goal {number}"], cwd=project, env=environ, stdout=subprocess.DEVNULL)
        for number in range(COUNT)
    ]
    assert [popen.wait() for popen in running] == [0] * COUNT
    registry = (project / ".ai-session" / "active-features.yaml").read_text()
    assert registry.count("feature_id:") == COUNT
    assert len(list((project / ".ai-session").glob("*/state.yaml"))) == COUNT
    assert len(list((project / ".claude" / "orchestrator-history").glob("*.json"))) == COUNT - 1
    assert len(list((project / ".craft" / "cache" / "orchestration-sessions").glob("*-*.json"))) == COUNT


def test_mirror_switched_on_later_does_not_show_earlier_sessions(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with Keeper.open(str(project), home=str(tmp_path / "home")) as keeper:
        keeper.mirrors.switch_on("orchestrator")
        keeper.start("First")
        keeper.start("Second", replace=True)
        keeper.mirrors.switch_on("craft")
        assert len(list((project / ".craft" / "cache" / "orchestration-sessions").glob("*-*.json"))) == 1


def test_linked_gitignore_is_not_written_through(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "elsewhere"
    (project / ".git").mkdir(parents=True)
    for name, content in (("HEAD", "ref: refs/heads/main\n"), ("config", "")):
        (project / ".git" / name).write_text(content)
    for name in ("objects", "refs"):
        (project / ".git" / name).mkdir()
    outside.write_text("old\n")
    (project / ".gitignore").symlink_to(outside)
    with Keeper.open(str(project), home=str(tmp_path / "home")) as keeper:
        with pytest.raises(Refused, match=r"\.gitignore is a link"):
            keeper.mirrors.switch_on("timer", gitignore=True)
        assert keeper.mirrors.status() == []
    assert outside.read_text() == "old\n"
