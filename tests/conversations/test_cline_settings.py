"""The hook files that Cline runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.conversations.adapters.cline.hooks import EVENTS
from holdfast.conversations.adapters.cline.settings import HOOKS, OURS, SETTINGS
from holdfast.core.agent_programs import AGENT_PROGRAMS
from holdfast.workspace.agent_dirs import AgentDirs


@pytest.fixture
def places(tmp_path: Path) -> AgentDirs:
    return AgentDirs(str(tmp_path / "home"), str(tmp_path / "shop"))


def test_each_event_has_a_file(places: AgentDirs) -> None:
    """Named after the event, executable and recognizable as ours."""
    changes = SETTINGS.changes(places, "user", lambda manner: f"holdfast {manner}")
    top = os.path.join(places.home, "Documents", "Cline", "Hooks")
    assert [change.path for change in changes] == [os.path.join(top, event) for event in HOOKS]
    assert set(HOOKS) == EVENTS
    for change, manner in zip(changes, HOOKS.values(), strict=True):
        assert change.executable
        assert change.content is not None
        assert OURS.encode() in change.content
        assert change.content.endswith(f"\nholdfast {manner}\n".encode())
    project = SETTINGS.changes(places, "project", str)
    assert {os.path.dirname(change.path) for change in project} == {
        os.path.join(places.project, ".clinerules", "hooks")
    }


def test_answered_events_use_ask() -> None:
    """And no others."""
    assert {event for event, manner in HOOKS.items() if manner == "ask"} == set(AGENT_PROGRAMS["cline"].occasions)


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell runs it")
def test_hook_file_runs_command(places: AgentDirs, tmp_path: Path) -> None:
    """It passes its input to the command, and the command's output back."""
    change = SETTINGS.changes(places, "project", lambda manner: "cat")[0]
    script = tmp_path / "TaskStart"
    assert change.content is not None
    script.write_bytes(change.content)
    script.chmod(0o700)
    done = subprocess.run([script], input=b'{"hookName": "agent_start"}', capture_output=True, timeout=30, check=True)
    assert (done.stdout, done.stderr) == (b'{"hookName": "agent_start"}', b"")


def test_windows_hooks_are_powershell(places: AgentDirs) -> None:
    """With a note that PowerShell may refuse to run them."""
    windows = places._replace(system="win32")
    change = SETTINGS.changes(windows, "user", lambda manner: 'call "C:\\Anna\'s\\hook.cmd"')[0]
    assert change.path.endswith("TaskStart.ps1")
    assert change.content == f"# {OURS}\r\ncmd.exe /d /c 'call \"C:\\Anna''s\\hook.cmd\"'\r\n".encode()
    assert "ExecutionPolicy" in SETTINGS.obstacles(windows, "user")[0]


def test_clinerules_file_is_an_obstacle(places: AgentDirs) -> None:
    """If `.clinerules` is a file, a project has no place for hooks."""
    assert SETTINGS.obstacles(places, "project") == ()
    Path(places.project).mkdir()
    Path(places.project, ".clinerules").write_text("Be kind.", encoding="utf-8")
    assert ".clinerules" in SETTINGS.obstacles(places, "project")[0]
    assert SETTINGS.obstacles(places, "user") == ()
