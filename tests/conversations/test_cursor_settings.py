"""Cursor's hooks file, and what makes Cursor refuse it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.conversations.adapters.cursor.settings import HOOKS, KNOWN, SETTINGS
from holdfast.conversations.connect.agent_settings import HookMode, SettingsEntry, settings_of
from holdfast.core.agent_programs import AGENT_PROGRAMS
from holdfast.workspace.agent_dirs import AgentDirs


def command(manner: HookMode) -> str:
    return f"holdfast-hook {manner}"


def at(tmp_path: Path) -> AgentDirs:
    return AgentDirs(str(tmp_path / "home"), str(tmp_path / "shop"))


def test_scope_chooses_file(tmp_path: Path) -> None:
    """User and project each have their own."""
    places = at(tmp_path)
    assert SETTINGS.changes(places, "user", command)[0].path == str(tmp_path / "home" / ".cursor" / "hooks.json")
    assert SETTINGS.changes(places, "project", command)[0].path == str(tmp_path / "shop" / ".cursor" / "hooks.json")
    assert settings_of("cursor") is SETTINGS


def test_hooks_file_has_cursor_form(tmp_path: Path) -> None:
    """A version, which Cursor requires, and a command with its timeout in seconds for each event."""
    (change,) = SETTINGS.changes(at(tmp_path), "user", command)
    assert change.entries[0] == SettingsEntry(("version",), 1, only=True)
    assert [entry.at for entry in change.entries[1:]] == [("hooks", event) for event in HOOKS]
    shapes = {entry.at[1]: entry.value for entry in change.entries[1:]}
    assert shapes["stop"] == {"command": "holdfast-hook stir", "timeout": 5}
    assert shapes["sessionStart"] == {"command": "holdfast-hook ask", "timeout": 10}


def test_answered_events_use_ask() -> None:
    """All of them are Cursor's events."""
    assert {event for event, manner in HOOKS.items() if manner == "ask"} == set(AGENT_PROGRAMS["cursor"].occasions)
    assert set(HOOKS) <= KNOWN


def test_duplicate_events_have_no_hook() -> None:
    """Commands are reported by the tool and files by their own event, so the duplicates get no hook."""
    assert "afterShellExecution" not in HOOKS
    assert {"postToolUse", "afterFileEdit"} <= set(HOOKS)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"version": 1, "hooks": {"stop": [{"command": "x"}]}}, None),
        ({"hooks": {}}, None),
        ({"version": "1", "hooks": {}}, "version"),
        ({"version": 0}, "version"),
        ({"version": 1, "hooks": {"onStop": []}}, "onStop"),
        ({"version": 1, "hooks": {"stop": [{"command": "curl http://x"}]}}, "//"),
        ({"version": 1, "hooks": {"stop": [7, {"command": 7}]}}, None),
        ([], None),
    ],
)
def test_refused_file_is_an_obstacle(tmp_path: Path, content: object, words: str | None) -> None:
    """The cause is named."""
    path = tmp_path / "home" / ".cursor" / "hooks.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))
    obstacles = SETTINGS.obstacles(at(tmp_path), "user")
    assert bool(obstacles) is (words is not None)
    assert words is None or words in obstacles[0]
    assert SETTINGS.obstacles(at(tmp_path), "project") == ()
