"""Codex's hooks file after connecting, and the obstacles that are detected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.conversations.adapters.base import Scope
from holdfast.conversations.adapters.codex import settings
from holdfast.conversations.adapters.codex import settings as codex_settings
from holdfast.conversations.adapters.codex.hooks import EVENTS
from holdfast.conversations.adapters.codex.settings import HOOKS, SETTINGS
from holdfast.conversations.connect.agent_settings import HookMode
from holdfast.core.canonical import Json
from holdfast.workspace.agent_dirs import AgentDirs

MATCHER = ".*(spawn_agent|request_user_input).*"
STOP = "sha256:251b176774bee849f31ce54ebedaf45fe1dbaf122995bdf95787fdf7765b093b"
SESSION_END = "sha256:9eb4e92cdb23c198bbdd66af4483a07f1dfd6db3db812ee79b80c7db364ae0d9"
PRE_TOOL_USE = "sha256:bac3d02dc3de91038a8e9144b268cdba7913a814a622c6b73d6b1a98b820075e"


@pytest.fixture
def places(tmp_path: Path) -> AgentDirs:
    (tmp_path / "home" / ".codex").mkdir(parents=True)
    (tmp_path / "shop").mkdir()
    return AgentDirs(str(tmp_path / "home"), str(tmp_path / "shop"))


def command(manner: HookMode) -> str:
    return f"holdfast {manner}"


def connect(places: AgentDirs, scope: Scope = "user") -> str:
    """The content of the file with our entries."""
    (change,) = SETTINGS.changes(places, scope, command)
    written: dict[str, dict[str, list[Json]]] = {}
    for entry in change.entries:
        written.setdefault(entry.at[0], {}).setdefault(entry.at[1], []).append(entry.value)
    Path(change.path).parent.mkdir(parents=True, exist_ok=True)
    Path(change.path).write_text(json.dumps(written), encoding="utf-8")
    return change.path


def config(places: AgentDirs, text: str) -> None:
    Path(places.home, ".codex", "config.toml").write_text(text, encoding="utf-8")


def trusted(path: str) -> str:
    hooks = settings._hooks(path)
    return "".join(f"[hooks.state.'{path}:{':'.join(hook.key)}']\ntrusted_hash = '{hook.hash}'\n" for hook in hooks)


def test_every_event_has_a_hook(places: AgentDirs) -> None:
    """Every known event, and no other."""
    assert set(HOOKS) == set(EVENTS)
    (change,) = SETTINGS.changes(places, "user", command)
    assert change.path == str(Path(places.home, ".codex", "hooks.json"))
    assert {entry.at for entry in change.entries} == {("hooks", event) for event in EVENTS}
    assert all(not entry.only for entry in change.entries)


def test_hooks_file_has_codex_form(places: AgentDirs) -> None:
    """A group with one command and its timeout; only some tools are reported before use."""
    written = json.loads(Path(connect(places)).read_text(encoding="utf-8"))["hooks"]
    assert written["Stop"] == [{"hooks": [{"type": "command", "command": "holdfast stir", "timeout": 5}]}]
    assert written["PreToolUse"][0]["matcher"] == MATCHER
    assert written["SessionEnd"][0]["hooks"][0]["timeout"] == 3  # Codex allows no more
    assert written["SessionStart"][0]["hooks"][0]["command"] == "holdfast ask"


def test_scopes_and_variable_choose_file(places: AgentDirs) -> None:
    """A project has its file in the project; CODEX_HOME moves the user's."""
    assert SETTINGS.changes(places, "project", command)[0].path == str(Path(places.project, ".codex", "hooks.json"))
    moved = places._replace(environ={"CODEX_HOME": str(Path(places.home, "elsewhere"))})
    assert SETTINGS.changes(moved, "user", command)[0].path == str(Path(places.home, "elsewhere", "hooks.json"))


def test_hook_hash_equals_codex_hash() -> None:
    """Frozen: Codex 0.166 reports these hashes (`hooks/list` of its app server)."""
    assert settings.hook_hash("stop", {"type": "command", "command": 'holdfast é "x"'}) == STOP
    assert settings.hook_hash("session_end", {"command": "holdfast stir", "timeout": 3}) == SESSION_END
    assert settings.hook_hash("pre_tool_use", {"command": "holdfast tell", "timeout": 5}, MATCHER) == PRE_TOOL_USE


def test_no_obstacles_before_connecting(places: AgentDirs) -> None:
    """Trust matters only once there are hooks."""
    assert SETTINGS.obstacles(places, "user") == ()


def test_untrusted_hooks_are_an_obstacle(places: AgentDirs) -> None:
    """Untrusted or changed hooks are named; trusted ones are fine."""
    path = connect(places)
    (sentence,) = SETTINGS.obstacles(places, "user")
    assert "/hooks" in sentence
    config(places, trusted(path))
    assert SETTINGS.obstacles(places, "user") == ()
    text = Path(path).read_text(encoding="utf-8")
    Path(path).write_text(text.replace("holdfast stir", "holdfast stir --moved"), encoding="utf-8")
    assert SETTINGS.obstacles(places, "user") == (sentence,)


def test_other_hooks_are_ignored(places: AgentDirs) -> None:
    """Even though they shift the numbers of ours."""
    path = connect(places)
    whole = json.loads(Path(path).read_text(encoding="utf-8"))
    whole["hooks"]["Stop"].insert(0, {"hooks": [{"type": "command", "command": "say done"}]})
    Path(path).write_text(json.dumps(whole), encoding="utf-8")
    config(places, trusted(path))
    assert f"{path}:stop:1:0" in trusted(path)
    assert f"{path}:stop:0:0" not in trusted(path)
    assert SETTINGS.obstacles(places, "user") == ()


def test_disabled_hooks_are_an_obstacle(places: AgentDirs) -> None:
    """Even if trusted."""
    path = connect(places)
    config(places, trusted(path) + "enabled = false\n")
    (sentence,) = SETTINGS.obstacles(places, "user")
    assert "enable" in sentence


@pytest.mark.parametrize("name", ["hooks", "codex_hooks"])
def test_switched_off_hooks_are_an_obstacle(places: AgentDirs, name: str) -> None:
    """The feature switch has two names."""
    config(places, f"[features]\n{name} = false\n")
    (sentence,) = SETTINGS.obstacles(places, "user")
    assert "[features]" in sentence


def test_untrusted_project_is_an_obstacle(places: AgentDirs) -> None:
    """Unless the project or the repository around it is trusted."""
    path = connect(places, "project")
    config(places, trusted(path))
    (sentence,) = SETTINGS.obstacles(places, "project")
    assert "project" in sentence
    config(places, f"[projects.'{places.project}']\ntrust_level = 'trusted'\n{trusted(path)}")
    assert SETTINGS.obstacles(places, "project") == ()
    inner = Path(places.project, "inner")
    inner.mkdir()
    config(places, f"[projects.'{places.project}']\ntrust_level = 'trusted'\n")
    assert SETTINGS.obstacles(places._replace(project=str(inner)), "project") == ()
    config(places, f"[projects.'{places.project}']\ntrust_level = 'untrusted'\n{trusted(path)}")
    assert len(SETTINGS.obstacles(places, "project")) == 1


def test_managed_machine_is_an_obstacle(places: AgentDirs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If only managed hooks are allowed, ours never run."""
    monkeypatch.setattr(codex_settings, "_MANAGED", {"linux": str(tmp_path)})
    (tmp_path / "requirements.toml").write_text("allow_managed_hooks_only = true\n", encoding="utf-8")
    (sentence,) = SETTINGS.obstacles(places, "user")
    assert "requirements.toml" in sentence


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[features", b"hooks = 3", b"features = []\nprojects = 1", b""])
def test_broken_settings_count_as_empty(places: AgentDirs, content: bytes) -> None:
    path = connect(places)
    Path(places.home, ".codex", "config.toml").write_bytes(content)
    assert len(SETTINGS.obstacles(places, "user")) == 1
    for broken in (b"{", b"[]", b'{"hooks": 3}', b'{"hooks": {"Stop": [1, {"hooks": [2, {"command": 3}]}]}}'):
        Path(path).write_bytes(broken)
        assert SETTINGS.obstacles(places, "user") == ()
    Path(path).unlink()
    Path(path).mkdir()
    assert SETTINGS.obstacles(places, "user") == ()
