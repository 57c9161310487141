"""Holdfast's plugin for Goose, and the obstacles that are detected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.conversations.adapters.goose.settings import BEFORE, HOOKS, SETTINGS, data, plugin
from holdfast.conversations.connect.agent_settings import HookMode
from holdfast.core.agent_programs import AGENT_PROGRAMS
from holdfast.workspace.agent_dirs import AgentDirs


@pytest.fixture
def places(tmp_path: Path) -> AgentDirs:
    return AgentDirs(str(tmp_path / "home"), str(tmp_path / "shop"))


def command(manner: HookMode) -> str:
    return f"holdfast {manner}"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_plugin_is_two_files(places: AgentDirs) -> None:
    """A manifest and the hooks, in their own directory."""
    top = Path(places.home, ".agents", "plugins", "holdfast")
    manifest, hooks = SETTINGS.changes(places, "user", command)
    assert (manifest.path, hooks.path) == (str(top / "plugin.json"), str(top / "hooks" / "hooks.json"))
    assert manifest.content is not None
    assert hooks.content is not None
    assert not manifest.entries
    assert json.loads(manifest.content)["name"] == "holdfast"
    written = json.loads(hooks.content)["hooks"]
    assert set(written) == set(HOOKS)
    assert written["Stop"] == [{"hooks": [{"type": "command", "command": "holdfast stir", "timeout": 5}]}]
    assert written["PreToolUse"][0]["matcher"] == BEFORE
    assert {event for event, manner in HOOKS.items() if manner == "ask"} == set(AGENT_PROGRAMS["goose"].occasions)


def test_scopes_and_variable_choose_directory(places: AgentDirs, tmp_path: Path) -> None:
    """A project has its plugin in the project; Goose's variable moves the user's directory."""
    assert plugin(places, "project") == str(Path(places.project, ".agents", "plugins", "holdfast"))
    moved = places._replace(environ={"GOOSE_PATH_ROOT": str(tmp_path / "root")})
    assert plugin(moved, "user") == str(tmp_path / "root" / ".agents" / "plugins" / "holdfast")
    assert data(moved) == str(tmp_path / "root" / "data")
    assert data(places) == str(Path(places.home, ".local", "share", "goose"))
    assert "Block" in data(places._replace(system="win32"))


def test_installed_plugin_has_no_obstacles(places: AgentDirs) -> None:
    assert SETTINGS.obstacles(places, "user") == ()
    assert SETTINGS.obstacles(places, "project") == ()


def test_nearest_settings_decide(places: AgentDirs) -> None:
    """The project can enable a plugin the user disabled, and its local settings can disable it again."""
    write(Path(places.home, ".config", "goose", "settings.json"), '{"disabledPlugins": ["holdfast"]}')
    (sentence,) = SETTINGS.obstacles(places, "user")
    assert "disabledPlugins" in sentence
    write(Path(places.project, ".config", "goose", "settings.json"), '{"enabledPlugins": ["holdfast"]}')
    assert SETTINGS.obstacles(places, "user") == ()
    local = Path(places.project, ".config", "goose", "settings.local.json")
    write(local, '{"disabledPlugins": ["holdfast"]}')
    assert str(local) in SETTINGS.obstacles(places, "user")[0]


def test_plugin_list_may_disable_plugin(places: AgentDirs) -> None:
    """Goose lists plugins by directory; a disabled one is named."""
    config = Path(places.home, ".config", "goose", "config.yaml")
    write(config, f"GOOSE_MODEL: x\nplugins:\n  {plugin(places, 'user')}:\n    enabled: false\n")
    (sentence,) = SETTINGS.obstacles(places, "user")
    assert str(config) in sentence
    assert SETTINGS.obstacles(places, "project") == ()
    write(config, f"plugins:\n  {plugin(places, 'user')}:\n    enabled: true\n")
    assert SETTINGS.obstacles(places, "user") == ()


@pytest.mark.parametrize(
    "text", ["plugins: [", "plugins: 3", "plugins: !!python/object:x.Y {}", "plugins:\n\t- a", ""]
)
def test_broken_settings_count_as_empty(places: AgentDirs, text: str) -> None:
    """Nothing in them is executed."""
    write(Path(places.home, ".config", "goose", "config.yaml"), text)
    write(Path(places.home, ".config", "goose", "settings.json"), text)
    assert SETTINGS.obstacles(places, "user") == ()


def test_windows_without_sh_is_an_obstacle(places: AgentDirs) -> None:
    """Goose runs hooks with sh on every system."""
    assert "sh" in SETTINGS.obstacles(places._replace(system="win32"), "user")[0]
