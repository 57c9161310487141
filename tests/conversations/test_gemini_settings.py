"""Gemini CLI's settings, and the obstacles in them."""

from __future__ import annotations

import json
from pathlib import Path

from holdfast.conversations.adapters.gemini.settings import HOOKS, SETTINGS
from holdfast.conversations.connect.agent_settings import HookMode, settings_of
from holdfast.core.agent_programs import AGENT_PROGRAMS
from holdfast.workspace.agent_dirs import AgentDirs


def command(manner: HookMode) -> str:
    return f"holdfast-hook {manner}"


def at(tmp_path: Path, **environ: str) -> AgentDirs:
    return AgentDirs(str(tmp_path / "home"), str(tmp_path / "home" / "shop"), environ)


def trusting(tmp_path: Path, content: str = '{"security": {"folderTrust": {"enabled": false}}}') -> Path:
    settings = tmp_path / "home" / ".gemini" / "settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(content)
    return settings


def test_scope_chooses_file(tmp_path: Path) -> None:
    """Gemini's own files; its variable moves the user's."""
    places = at(tmp_path)
    home, project = tmp_path / "home", tmp_path / "home" / "shop"
    assert SETTINGS.changes(places, "user", command)[0].path == str(home / ".gemini" / "settings.json")
    assert SETTINGS.changes(places, "project", command)[0].path == str(project / ".gemini" / "settings.json")
    moved = at(tmp_path, GEMINI_CLI_HOME=str(tmp_path / "else"))
    assert SETTINGS.changes(moved, "user", command)[0].path == str(tmp_path / "else" / ".gemini" / "settings.json")
    assert settings_of("gemini") is SETTINGS


def test_hook_has_gemini_form(tmp_path: Path) -> None:
    """A group with one command per event, its timeout in milliseconds."""
    (change,) = SETTINGS.changes(at(tmp_path), "user", command)
    assert [entry.at for entry in change.entries] == [("hooks", event) for event in HOOKS]
    assert not any(entry.only for entry in change.entries)
    shapes = {entry.at[1]: entry.value for entry in change.entries}
    assert shapes["SessionStart"] == {
        "hooks": [{"type": "command", "command": "holdfast-hook ask", "name": "holdfast", "timeout": 10_000}]
    }
    assert shapes["PreCompress"] == {
        "matcher": "manual",
        "hooks": [{"type": "command", "command": "holdfast-hook ask", "name": "holdfast", "timeout": 10_000}],
    }


def test_answered_events_use_ask() -> None:
    """And no others."""
    assert {event for event, hook in HOOKS.items() if hook.manner == "ask"} == set(AGENT_PROGRAMS["gemini"].occasions)
    assert {event for event, hook in HOOKS.items() if hook.manner == "stir"} == {
        "BeforeTool",
        "AfterAgent",
        "SessionEnd",
    }


def test_trusted_folder_with_enabled_hooks_has_no_obstacles(tmp_path: Path) -> None:
    trusting(tmp_path)
    assert SETTINGS.obstacles(at(tmp_path), "user") == ()


def test_switched_off_hooks_are_an_obstacle(tmp_path: Path) -> None:
    """As a whole or by our name; the file is named, with or without comments."""
    settings = trusting(
        tmp_path,
        '{ // mine\n "security": {"folderTrust": {"enabled": false}},\n'
        ' "hooksConfig": {"enabled": false, "disabled": ["holdfast"],},\n}',
    )
    obstacles = SETTINGS.obstacles(at(tmp_path), "user")
    assert len(obstacles) == 2
    assert all(str(settings) in name for name in obstacles)
    system = tmp_path / "system.json"
    system.write_text('{"hooksConfig": {"enabled": false}}')
    trusting(tmp_path)
    (managed,) = SETTINGS.obstacles(at(tmp_path, GEMINI_CLI_SYSTEM_SETTINGS_PATH=str(system)), "project")
    assert str(system) in managed


def test_untrusted_folder_is_an_obstacle(tmp_path: Path) -> None:
    """Also one without a decision; the longest matching rule counts."""
    places = at(tmp_path)
    rules = tmp_path / "home" / ".gemini" / "trustedFolders.json"
    rules.parent.mkdir(parents=True)
    assert "yet: start it there" in SETTINGS.obstacles(places, "user")[0]
    home, project = str(tmp_path / "home"), places.project
    for content, words in [
        ({home: "TRUST_FOLDER"}, None),
        ({home: "TRUST_FOLDER", project: "DO_NOT_TRUST"}, "/permissions trust"),
        ({f"{home}/other": "TRUST_PARENT"}, None),
        ({f"{home}/sho": "TRUST_FOLDER"}, "yet: start it there"),
        ({home: "DO_NOT_TRUST", project: "TRUST_FOLDER"}, None),
        ({"a\0b": "TRUST_FOLDER", "": "TRUST_FOLDER", home: 7}, "yet: start it there"),
    ]:
        rules.write_text(json.dumps(content))
        obstacles = SETTINGS.obstacles(places, "user")
        assert bool(obstacles) is (words is not None), content
        assert words is None or words in obstacles[0]
    assert SETTINGS.obstacles(at(tmp_path, GEMINI_CLI_TRUST_WORKSPACE="true"), "user") == ()


def test_unreadable_settings_count_as_empty(tmp_path: Path) -> None:
    for content in ("{", "[]", "\0", "nonsense"):
        trusting(tmp_path, content)
        assert len(SETTINGS.obstacles(at(tmp_path), "user")) == 1
    (tmp_path / "home" / ".gemini" / "settings.json").unlink()
    (tmp_path / "home" / ".gemini" / "settings.json").mkdir()
    assert len(SETTINGS.obstacles(at(tmp_path), "user")) == 1
