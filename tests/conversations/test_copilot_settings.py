"""The file of hooks that Copilot reads."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast.conversations.adapters.copilot.settings import HOOKS, SETTINGS
from holdfast.core.agent_programs import AGENT_PROGRAMS
from holdfast.workspace.agent_dirs import AgentDirs


@pytest.fixture
def places(tmp_path: Path) -> AgentDirs:
    return AgentDirs(str(tmp_path / "home"), str(tmp_path / "shop"))


def test_hooks_have_their_own_file(places: AgentDirs) -> None:
    """In Copilot's form, for the user or in the repository."""
    (user,) = SETTINGS.changes(places, "user", lambda manner: f"holdfast {manner}")
    (project,) = SETTINGS.changes(places, "project", lambda manner: f"holdfast {manner}")
    assert user.path == os.path.join(places.home, ".copilot", "hooks", "holdfast.json")
    assert project.path == os.path.join(places.project, ".github", "hooks", "holdfast.json")
    assert user.content is not None
    written = json.loads(user.content)
    assert written["version"] == 1
    assert written["hooks"]["Stop"] == [{"type": "command", "bash": "holdfast stir", "timeoutSec": 5}]
    assert set(written["hooks"]) == set(HOOKS)


def test_no_hooks_where_failure_refuses_tool() -> None:
    """Copilot refuses a tool when a hook before it fails."""
    assert not {"PreToolUse", "preToolUse", "PermissionRequest", "permissionRequest"} & set(HOOKS)


def test_answered_events_use_ask() -> None:
    """And no others."""
    assert {event for event, manner in HOOKS.items() if manner == "ask"} == set(AGENT_PROGRAMS["copilot"].occasions)


def test_variable_moves_directory(places: AgentDirs, tmp_path: Path) -> None:
    """COPILOT_HOME is the user's directory."""
    moved = places._replace(environ={"COPILOT_HOME": str(tmp_path / "cp")})
    assert SETTINGS.changes(moved, "user", str)[0].path == str(tmp_path / "cp" / "hooks" / "holdfast.json")
    assert SETTINGS.traces(moved) == (str(tmp_path / "cp"),)


@pytest.mark.parametrize("text", ['{"disableAllHooks": true}', '// mine\n{\n  "disableAllHooks": true\n}'])
def test_switched_off_hooks_are_an_obstacle(places: AgentDirs, text: str) -> None:
    """The setting is named, even after a comment."""
    settings = Path(places.home, ".copilot", "settings.json")
    settings.parent.mkdir(parents=True)
    settings.write_text(text, encoding="utf-8")
    assert str(settings) in SETTINGS.obstacles(places, "user")[0]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"disableAllHooks": "true"}', '{"disableAllHooks": false}'])
def test_other_settings_are_no_obstacle(places: AgentDirs, text: str) -> None:
    """Nor unreadable ones."""
    settings = Path(places.home, ".copilot", "settings.json")
    settings.parent.mkdir(parents=True)
    settings.write_text(text, encoding="utf-8")
    assert SETTINGS.obstacles(places, "user") == ()
    assert SETTINGS.obstacles(places, "project") == ()


def test_windows_hook_is_powershell(places: AgentDirs) -> None:
    """PowerShell runs hooks there; the line is for cmd."""
    (change,) = SETTINGS.changes(
        places._replace(system="win32"), "user", lambda manner: 'call "C:\\Anna\'s\\hook.cmd"'
    )
    assert change.content is not None
    (hook,) = json.loads(change.content)["hooks"]["Stop"]
    assert hook["powershell"] == "cmd.exe /d /c 'call \"C:\\Anna''s\\hook.cmd\"'"
    assert "bash" not in hook
