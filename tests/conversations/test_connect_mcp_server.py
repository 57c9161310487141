"""The MCP server in agents' settings: registered with the hooks, known again, taken back, never anybody else's."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pytest

from holdfast.conversations import checks
from holdfast.conversations.adapters.index import CONNECTABLE
from holdfast.conversations.connect import detect, mcp_entry
from holdfast.conversations.connect.apply import connect
from holdfast.conversations.connect.disconnect import disconnect, uninstall
from holdfast.conversations.hooks import install
from holdfast.core.errors import Failed, Invalid
from holdfast.keeper.keeper import Keeper
from tests.support.connect_setup import Ground, plain

if sys.platform == "win32":
    pytest.skip("modes and links are POSIX's", allow_module_level=True)

WITH_SERVER = ("claude", "codex", "gemini", "opencode", "copilot", "cursor", "claude-desktop")


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


@pytest.fixture
def no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "can_serve", lambda: False)
    monkeypatch.setattr(detect, "can_serve", lambda: False)


def server_of(ground: Ground, name: str) -> detect.McpRegistration | None:
    return detect.look(ground.keeper, ground.places, name).server


# ── what stands there ────────────────────────────────────────────────────────────────────────────────────


def test_server_is_registered_as_each_agent_documents(ground: Ground) -> None:
    """The script in the home, in the form each program reads; it is there and can be executed."""
    ground.connect(*CONNECTABLE)
    script = str(ground.home / "hooks" / "holdfast-mcp")
    assert Path(script).stat().st_mode & 0o777 == 0o700
    usual = {"command": script, "args": []}
    me = ground.me
    assert plain(me / ".claude.json") == {"mcpServers": {"holdfast": {"type": "stdio", **usual}}}
    desktop = me / ("Library/Application Support" if sys.platform == "darwin" else ".config") / "Claude"
    assert plain(desktop / "claude_desktop_config.json") == {"mcpServers": {"holdfast": usual}}
    assert plain(me / ".gemini" / "settings.json")["mcpServers"] == {"holdfast": usual}
    assert plain(me / ".cursor" / "mcp.json") == {"mcpServers": {"holdfast": usual}}
    assert plain(me / ".copilot" / "mcp-config.json")["mcpServers"]["holdfast"] == {
        "type": "local", **usual, "tools": ["*"],
    }  # fmt: skip
    assert plain(me / ".config" / "opencode" / "opencode.json") == {
        "$schema": "https://opencode.ai/config.json",
        "mcp": {"holdfast": {"type": "local", "command": [script], "enabled": True}},
    }
    assert tomllib.loads((me / ".codex" / "config.toml").read_text()) == {
        "mcp_servers": {"holdfast": {"command": script}}
    }
    told = {setup.name for setup in detect.find(ground.keeper, ground.places) if setup.server is not None}
    assert told == set(WITH_SERVER)


def test_what_a_project_shares(ground: Ground) -> None:
    """Nobody's directory is in it, and a clone in which it stands already is not changed by connecting."""
    ground.connect("claude", "codex", "cursor", scope="project")
    entry = {"command": "holdfast", "args": ["mcp"]}
    assert plain(ground.project / ".mcp.json") == {"mcpServers": {"holdfast": {"type": "stdio", **entry}}}
    assert plain(ground.project / ".cursor" / "mcp.json") == {"mcpServers": {"holdfast": entry}}
    codex = tomllib.loads((ground.project / ".codex" / "config.toml").read_text())["mcp_servers"]["holdfast"]
    assert codex.pop("env_vars") == ["HOLDFAST_HOME", "HOLDFAST_STORE", "XDG_DATA_HOME"]
    assert codex == entry
    other = Keeper.open(str(ground.project), home=str(ground.me / "theirs"))
    done = connect(other, ground.places, ["cursor"], "project")[0]
    assert not any(file.change != "unchanged" for file in done.files if file.path.endswith("mcp.json"))
    ground.disconnect("claude", "codex", "cursor")
    assert not (ground.project / ".mcp.json").exists()


def test_entries_of_others_stay(ground: Ground) -> None:
    """Another server called holdfast is left alone, and that is said; so is one of another home that is alive."""
    theirs = {"command": "npx", "args": ["holdfast"]}
    (ground.me / ".claude.json").write_text(json.dumps({"mcpServers": {"holdfast": theirs}}))
    (ground.me / ".codex").mkdir()
    (ground.me / ".codex" / "config.toml").write_text('[mcp_servers.holdfast]\ncommand = "x"\n')
    before = ground.picture()
    for connected in ground.connect("claude", "codex"):
        assert connected.server is None
        assert any("another server called holdfast" in note for note in connected.notes)
    for name in (".claude.json", ".codex/config.toml"):
        assert (ground.me / name).read_bytes() == before[str(ground.me / name)][1]
    assert server_of(ground, "claude") is None
    ground.disconnect("claude", "codex")
    assert ground.picture() == before
    other = Keeper.open(str(ground.project), home=str(ground.me / "other"))
    connect(other, ground.places, ["cursor"])
    (done,) = ground.connect("cursor")
    assert str(ground.me / "other") in (ground.me / ".cursor" / "mcp.json").read_text()
    assert done.server is None


def test_server_of_a_removed_holdfast_is_replaced(ground: Ground) -> None:
    """It is named by the doctor and by `agents`, replaced by connecting, and taken out by disconnecting."""
    gone = ground.me / "gone"
    connect(Keeper.open(str(ground.project), home=str(gone)), ground.places, ["codex", "claude-desktop"])
    (ground.me / ".codex" / "hooks.json").unlink()
    for path in sorted(gone.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    gone.rmdir()
    left = detect.look(ground.keeper, ground.places, "codex").leftovers
    assert [(rest.home, rest.missing) for rest in left] == [(str(gone), True)]
    check = checks.check_hooks(ground.keeper, None)
    assert (check.status, str(gone) in check.detail) == ("warning", True)
    (done,) = ground.connect("codex")
    assert done.server == str(ground.me / ".codex" / "config.toml")
    assert str(gone) not in (ground.me / ".codex" / "config.toml").read_text()
    ground.disconnect("codex", "claude-desktop")
    assert not any(str(gone) in str(seen) for _, seen in ground.picture().values() if seen is not None)


# ── edited since ─────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_person_added_to_the_entry_stays(ground: Ground) -> None:
    """A time limit, trust, tools: connecting again keeps them, and disconnecting takes the whole entry out."""
    before = {"theme": "dark", "tipsHistory": {"a": 1}}
    ground.connect("claude", "gemini", "codex")
    for path in (ground.me / ".claude.json", ground.me / ".gemini" / "settings.json"):
        data = json.loads(path.read_text())
        data["mcpServers"]["holdfast"]["timeout"] = 600
        data["mcpServers"]["other"] = {"command": "x"}
        path.write_text(json.dumps(data | before, indent=2))
    hooks = json.loads((ground.me / ".gemini" / "settings.json").read_text())
    del hooks["hooks"]["SessionEnd"]  # mended by connecting, in the same file
    (ground.me / ".gemini" / "settings.json").write_text(json.dumps(hooks))
    toml = ground.me / ".codex" / "config.toml"
    toml.write_text(toml.read_text() + 'enabled = false\n\n[projects."/x"]\ntrust_level = "trusted"\n')
    ground.connect("claude", "gemini", "codex")
    for path in (ground.me / ".claude.json", ground.me / ".gemini" / "settings.json"):
        assert json.loads(path.read_text())["mcpServers"]["holdfast"]["timeout"] == 600
    assert tomllib.loads(toml.read_text())["mcp_servers"]["holdfast"]["enabled"] is False
    ground.disconnect("claude", "gemini", "codex")
    assert plain(ground.me / ".claude.json") == {"mcpServers": {"other": {"command": "x"}}} | before
    assert plain(ground.me / ".gemini" / "settings.json") == {"mcpServers": {"other": {"command": "x"}}} | before
    assert toml.read_text().strip() == '[projects."/x"]\ntrust_level = "trusted"'


def test_an_agent_that_writes_its_file_anew(ground: Ground) -> None:
    """Claude Code rewrites its file all the time: ours is found in it, and only ours goes."""
    path = ground.me / ".claude.json"
    path.write_text('{"numStartups": 1}')
    ground.connect("claude")
    data = json.loads(path.read_text()) | {"numStartups": 2, "projects": {"/x": {"mcpServers": {}}}}
    path.write_text(json.dumps(data, indent=2))
    ground.disconnect("claude")
    assert plain(path) == {"numStartups": 2, "projects": {"/x": {"mcpServers": {}}}}


def test_an_entry_of_their_own_elsewhere(ground: Ground) -> None:
    """`holdfast mcp`, as a person wrote it into their own settings, is theirs."""
    own = {"mcpServers": {"mine": {"command": "holdfast", "args": ["mcp"]}}}
    (ground.me / ".claude.json").write_text(json.dumps(own))
    ground.connect("claude")
    ground.disconnect("claude")
    assert plain(ground.me / ".claude.json") == own


@pytest.mark.parametrize("text", ["mcp_servers = {}", "model = ", "[mcp_servers]\nother = 1\n[mcp_servers.other]"])
def test_settings_of_codex_that_cannot_be_edited(ground: Ground, text: str) -> None:
    """Broken or unfit TOML stops everything before anything is written; without the server it is not looked at."""
    path = ground.me / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(text)
    before = ground.picture()
    with pytest.raises(Invalid, match=r"config\.toml"):
        ground.connect("claude", "codex")
    assert ground.picture() == before
    connect(ground.keeper, ground.places, ["codex"], server=False)
    assert path.read_text() == text


# ── without it ───────────────────────────────────────────────────────────────────────────────────────────


def test_without_the_server(ground: Ground) -> None:
    """It is left out when it is not wanted, taken out where it stood, and can be had again."""
    names = tuple(name for name in WITH_SERVER if name != "claude-desktop")
    ground.have_settings()
    before = ground.picture()
    connect(ground.keeper, ground.places, names, server=False)
    bare = ground.picture()
    assert not any(server_of(ground, name) for name in names)
    ground.connect(*names)
    assert all(server_of(ground, name) for name in names)
    done = connect(ground.keeper, ground.places, names, server=False)
    assert all(connected.is_new for connected in done)
    assert ground.picture() == bare
    ground.connect(*names)
    ground.disconnect(*names)
    assert ground.picture() == before


@pytest.mark.usefixtures("no_extra")
def test_without_the_extra(ground: Ground) -> None:
    """Agents are connected all the same and the note says how to get it; Claude Desktop would get nothing."""
    (done, goose) = ground.connect("claude", "goose")
    assert done.server is None
    assert any("pip install 'holdfast[mcp]'" in note for note in done.notes)
    assert goose.notes == ()
    assert not (ground.me / ".claude.json").exists()
    with pytest.raises(Failed) as caught:
        ground.connect("claude-desktop")
    assert caught.value.hint == "pip install 'holdfast[mcp]' (from a clone: pip install '.[mcp]')"
    (ground.me / ".config" / "Claude").mkdir(parents=True)
    seen = detect.find(ground.keeper, ground.places)
    assert not any("claude-desktop" in command for command in detect.commands(seen))


def test_claude_desktop_is_of_a_person(ground: Ground) -> None:
    """It has no project and nothing but the server."""
    with pytest.raises(Invalid, match="no project settings"):
        ground.connect("claude-desktop", scope="project")
    with pytest.raises(Invalid, match="nothing but"):
        connect(ground.keeper, ground.places, ["claude-desktop"], server=False)
    assert ground.memory() == []
    (done,) = ground.connect("claude-desktop")
    assert done.is_new
    assert not ground.connect("claude-desktop")[0].is_new
    assert checks.check_hooks(ground.keeper, None).detail == "claude-desktop can start the MCP server"


# ── what is missing ──────────────────────────────────────────────────────────────────────────────────────


def test_the_doctor_on_a_server_that_is_missing(ground: Ground) -> None:
    """The program an entry starts is not there: the file is named, and what mends it."""
    ground.connect("gemini")
    (ground.home / "hooks" / "holdfast-mcp").unlink()
    seen = server_of(ground, "gemini")
    assert seen is not None
    assert seen.missing == str(ground.home / "hooks" / "holdfast-mcp")
    check = checks.check_hooks(ground.keeper, None)
    assert (check.status, check.fix) == ("warning", "holdfast connect gemini")
    ground.connect("gemini")
    assert server_of(ground, "gemini") == detect.McpRegistration("user", str(ground.me / ".gemini" / "settings.json"))
    ground.disconnect("gemini")
    ground.connect("cursor", scope="project")
    seen = server_of(ground, "cursor")
    assert seen is not None
    assert (seen.scope, seen.missing) == ("project", "holdfast")
    check = checks.check_hooks(ground.keeper, None)
    assert check.status == "warning"
    assert "PATH" in str(check.fix)


def test_uninstall_removes_servers_that_are_not_remembered(ground: Ground) -> None:
    """With the memory lost, no file names the script any more, and the script is gone."""
    ground.connect(*CONNECTABLE)
    for path in (ground.home / "connections").glob("*.json"):
        path.unlink()
    assert uninstall(ground.keeper, ground.places).problems == []
    assert not any(b"holdfast-mcp" in seen for _, seen in ground.picture().values() if isinstance(seen, bytes))
    assert not (ground.home / "hooks").exists()
    assert not any(connected.is_new for connected in disconnect(ground.keeper, ground.places, CONNECTABLE))


def test_on_windows(ground: Ground) -> None:
    """There, agents start Python itself; it is known again and taken out."""
    places = ground.places._replace(system="win32")
    change = detect.server("C:\\home", places, "cursor", "user")
    assert change is not None
    text = mcp_entry.called(change.entries[0].value)
    assert mcp_entry.home_of(text) == "C:\\home"
    path = Path(change.path)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"mcpServers": {"holdfast": change.entries[0].value}}))
    assert detect.all_ours("C:\\home", "user")(detect.installed_server(change))
