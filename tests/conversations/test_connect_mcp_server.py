"""The MCP server in agents' settings: registered with the hooks, recognized, removed, never anybody else's."""

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
from tests.support.connect_setup import ConnectSetup, plain

if sys.platform == "win32":
    pytest.skip("modes and links are POSIX's", allow_module_level=True)

WITH_SERVER = ("claude", "codex", "gemini", "opencode", "copilot", "cursor", "claude-desktop")


@pytest.fixture
def agent_setup(tmp_path: Path) -> ConnectSetup:
    return ConnectSetup(tmp_path)


@pytest.fixture
def no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "mcp_is_installed", lambda: False)
    monkeypatch.setattr(detect, "mcp_is_installed", lambda: False)


def server_of(agent_setup: ConnectSetup, name: str) -> detect.McpRegistration | None:
    return detect.inspect_agent(agent_setup.keeper, agent_setup.places, name).server


# ── entries ──────────────────────────────────────────────────────────────────────────────────────────────


def test_server_is_registered_as_each_agent_documents(agent_setup: ConnectSetup) -> None:
    """The executable script in the home, in the form that each program reads."""
    agent_setup.connect(*CONNECTABLE)
    script = str(agent_setup.home / "hooks" / "holdfast-mcp")
    assert Path(script).stat().st_mode & 0o777 == 0o700
    usual = {"command": script, "args": []}
    me = agent_setup.me
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
    with_server = {
        setup.name for setup in detect.find(agent_setup.keeper, agent_setup.places) if setup.server is not None
    }
    assert with_server == set(WITH_SERVER)


def test_project_entry_contains_no_personal_path(agent_setup: ConnectSetup) -> None:
    """Connecting a clone that has it changes nothing."""
    agent_setup.connect("claude", "codex", "cursor", scope="project")
    entry = {"command": "holdfast", "args": ["mcp"]}
    assert plain(agent_setup.project / ".mcp.json") == {"mcpServers": {"holdfast": {"type": "stdio", **entry}}}
    assert plain(agent_setup.project / ".cursor" / "mcp.json") == {"mcpServers": {"holdfast": entry}}
    codex = tomllib.loads((agent_setup.project / ".codex" / "config.toml").read_text())["mcp_servers"]["holdfast"]
    assert codex.pop("env_vars") == ["HOLDFAST_HOME", "HOLDFAST_STORE", "XDG_DATA_HOME"]
    assert codex == entry
    other = Keeper.open(str(agent_setup.project), home=str(agent_setup.me / "theirs"))
    done = connect(other, agent_setup.places, ["cursor"], "project")[0]
    assert not any(file.change != "unchanged" for file in done.files if file.path.endswith("mcp.json"))
    agent_setup.disconnect("claude", "codex", "cursor")
    assert not (agent_setup.project / ".mcp.json").exists()


def test_foreign_server_entries_stay(agent_setup: ConnectSetup) -> None:
    """Another server named holdfast, or one of another existing home; both are reported."""
    theirs = {"command": "npx", "args": ["holdfast"]}
    (agent_setup.me / ".claude.json").write_text(json.dumps({"mcpServers": {"holdfast": theirs}}))
    (agent_setup.me / ".codex").mkdir()
    (agent_setup.me / ".codex" / "config.toml").write_text('[mcp_servers.holdfast]\ncommand = "x"\n')
    before = agent_setup.snapshot()
    for connected in agent_setup.connect("claude", "codex"):
        assert connected.server is None
        assert any("another server called holdfast" in note for note in connected.notes)
    for name in (".claude.json", ".codex/config.toml"):
        assert (agent_setup.me / name).read_bytes() == before[str(agent_setup.me / name)][1]
    assert server_of(agent_setup, "claude") is None
    agent_setup.disconnect("claude", "codex")
    assert agent_setup.snapshot() == before
    other = Keeper.open(str(agent_setup.project), home=str(agent_setup.me / "other"))
    connect(other, agent_setup.places, ["cursor"])
    (done,) = agent_setup.connect("cursor")
    assert str(agent_setup.me / "other") in (agent_setup.me / ".cursor" / "mcp.json").read_text()
    assert done.server is None


def test_server_of_a_removed_holdfast_is_replaced(agent_setup: ConnectSetup) -> None:
    """Doctor and `agents` name it, connect replaces it, disconnect removes it."""
    deleted = agent_setup.me / "gone"
    connect(Keeper.open(str(agent_setup.project), home=str(deleted)), agent_setup.places, ["codex", "claude-desktop"])
    (agent_setup.me / ".codex" / "hooks.json").unlink()
    for path in sorted(deleted.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    deleted.rmdir()
    left = detect.inspect_agent(agent_setup.keeper, agent_setup.places, "codex").leftovers
    assert [(rest.home, rest.missing) for rest in left] == [(str(deleted), True)]
    check = checks.check_hooks(agent_setup.keeper, None)
    assert (check.status, str(deleted) in check.detail) == ("warning", True)
    (done,) = agent_setup.connect("codex")
    assert done.server == str(agent_setup.me / ".codex" / "config.toml")
    assert str(deleted) not in (agent_setup.me / ".codex" / "config.toml").read_text()
    agent_setup.disconnect("codex", "claude-desktop")
    assert not any(str(deleted) in str(seen) for _, seen in agent_setup.snapshot().values() if seen is not None)


# ── later edits ──────────────────────────────────────────────────────────────────────────────────────────


def test_additions_to_our_entry_stay_when_connecting_again(agent_setup: ConnectSetup) -> None:
    """A timeout, trust, tools; disconnecting removes the whole entry."""
    before = {"theme": "dark", "tipsHistory": {"a": 1}}
    agent_setup.connect("claude", "gemini", "codex")
    for path in (agent_setup.me / ".claude.json", agent_setup.me / ".gemini" / "settings.json"):
        data = json.loads(path.read_text())
        data["mcpServers"]["holdfast"]["timeout"] = 600
        data["mcpServers"]["other"] = {"command": "x"}
        path.write_text(json.dumps(data | before, indent=2))
    hooks = json.loads((agent_setup.me / ".gemini" / "settings.json").read_text())
    del hooks["hooks"]["SessionEnd"]  # repaired by connecting, in the same file
    (agent_setup.me / ".gemini" / "settings.json").write_text(json.dumps(hooks))
    toml = agent_setup.me / ".codex" / "config.toml"
    toml.write_text(toml.read_text() + 'enabled = false\n\n[projects."/x"]\ntrust_level = "trusted"\n')
    agent_setup.connect("claude", "gemini", "codex")
    for path in (agent_setup.me / ".claude.json", agent_setup.me / ".gemini" / "settings.json"):
        assert json.loads(path.read_text())["mcpServers"]["holdfast"]["timeout"] == 600
    assert tomllib.loads(toml.read_text())["mcp_servers"]["holdfast"]["enabled"] is False
    agent_setup.disconnect("claude", "gemini", "codex")
    assert plain(agent_setup.me / ".claude.json") == {"mcpServers": {"other": {"command": "x"}}} | before
    assert plain(agent_setup.me / ".gemini" / "settings.json") == {"mcpServers": {"other": {"command": "x"}}} | before
    assert toml.read_text().strip() == '[projects."/x"]\ntrust_level = "trusted"'


def test_entry_is_recognized_after_the_agent_rewrote_its_file(agent_setup: ConnectSetup) -> None:
    """Claude Code does that all the time; only our entry is removed."""
    path = agent_setup.me / ".claude.json"
    path.write_text('{"numStartups": 1}')
    agent_setup.connect("claude")
    data = json.loads(path.read_text()) | {"numStartups": 2, "projects": {"/x": {"mcpServers": {}}}}
    path.write_text(json.dumps(data, indent=2))
    agent_setup.disconnect("claude")
    assert plain(path) == {"numStartups": 2, "projects": {"/x": {"mcpServers": {}}}}


def test_personal_entry_in_another_file_stays(agent_setup: ConnectSetup) -> None:
    """`holdfast mcp`, written by a person."""
    own = {"mcpServers": {"mine": {"command": "holdfast", "args": ["mcp"]}}}
    (agent_setup.me / ".claude.json").write_text(json.dumps(own))
    agent_setup.connect("claude")
    agent_setup.disconnect("claude")
    assert plain(agent_setup.me / ".claude.json") == own


@pytest.mark.parametrize("text", ["mcp_servers = {}", "model = ", "[mcp_servers]\nother = 1\n[mcp_servers.other]"])
def test_invalid_codex_settings_stop_connecting(agent_setup: ConnectSetup, text: str) -> None:
    """Before anything is written; without the server the file is not read."""
    path = agent_setup.me / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(text)
    before = agent_setup.snapshot()
    with pytest.raises(Invalid, match=r"config\.toml"):
        agent_setup.connect("claude", "codex")
    assert agent_setup.snapshot() == before
    connect(agent_setup.keeper, agent_setup.places, ["codex"], server=False)
    assert path.read_text() == text


# ── without it ───────────────────────────────────────────────────────────────────────────────────────────


def test_server_can_be_left_out(agent_setup: ConnectSetup) -> None:
    """It is then removed if present, and can be added again."""
    names = tuple(name for name in WITH_SERVER if name != "claude-desktop")
    agent_setup.write_settings()
    before = agent_setup.snapshot()
    connect(agent_setup.keeper, agent_setup.places, names, server=False)
    bare = agent_setup.snapshot()
    assert not any(server_of(agent_setup, name) for name in names)
    agent_setup.connect(*names)
    assert all(server_of(agent_setup, name) for name in names)
    done = connect(agent_setup.keeper, agent_setup.places, names, server=False)
    assert all(connected.is_new for connected in done)
    assert agent_setup.snapshot() == bare
    agent_setup.connect(*names)
    agent_setup.disconnect(*names)
    assert agent_setup.snapshot() == before


@pytest.mark.usefixtures("no_extra")
def test_missing_extra_leaves_out_the_server(agent_setup: ConnectSetup) -> None:
    """A note says how to get it; Claude Desktop would get nothing."""
    (done, goose) = agent_setup.connect("claude", "goose")
    assert done.server is None
    assert any("pip install 'holdfast[mcp]'" in note for note in done.notes)
    assert goose.notes == ()
    assert not (agent_setup.me / ".claude.json").exists()
    with pytest.raises(Failed) as caught:
        agent_setup.connect("claude-desktop")
    assert caught.value.hint == "pip install 'holdfast[mcp]' (from a clone: pip install '.[mcp]')"
    (agent_setup.me / ".config" / "Claude").mkdir(parents=True)
    seen = detect.find(agent_setup.keeper, agent_setup.places)
    assert not any("claude-desktop" in command for command in detect.commands(seen))


def test_claude_desktop_has_user_scope_and_the_server_only(agent_setup: ConnectSetup) -> None:
    with pytest.raises(Invalid, match="no project settings"):
        agent_setup.connect("claude-desktop", scope="project")
    with pytest.raises(Invalid, match="supports only the MCP server"):
        connect(agent_setup.keeper, agent_setup.places, ["claude-desktop"], server=False)
    assert agent_setup.receipts() == []
    (done,) = agent_setup.connect("claude-desktop")
    assert done.is_new
    assert not agent_setup.connect("claude-desktop")[0].is_new
    assert checks.check_hooks(agent_setup.keeper, None).detail == "claude-desktop can start the MCP server"


# ── what is missing ──────────────────────────────────────────────────────────────────────────────────────


def test_doctor_names_a_server_whose_program_is_missing(agent_setup: ConnectSetup) -> None:
    """With the file and the fix."""
    agent_setup.connect("gemini")
    (agent_setup.home / "hooks" / "holdfast-mcp").unlink()
    seen = server_of(agent_setup, "gemini")
    assert seen is not None
    assert seen.missing == str(agent_setup.home / "hooks" / "holdfast-mcp")
    check = checks.check_hooks(agent_setup.keeper, None)
    assert (check.status, check.fix) == ("warning", "holdfast connect gemini")
    agent_setup.connect("gemini")
    assert server_of(agent_setup, "gemini") == detect.McpRegistration(
        "user", str(agent_setup.me / ".gemini" / "settings.json")
    )
    agent_setup.disconnect("gemini")
    agent_setup.connect("cursor", scope="project")
    seen = server_of(agent_setup, "cursor")
    assert seen is not None
    assert (seen.scope, seen.missing) == ("project", "holdfast")
    check = checks.check_hooks(agent_setup.keeper, None)
    assert check.status == "warning"
    assert "PATH" in str(check.fix)


def test_uninstall_removes_servers_that_are_not_remembered(agent_setup: ConnectSetup) -> None:
    """Without receipts, no file names the script any more, and it is deleted."""
    agent_setup.connect(*CONNECTABLE)
    for path in (agent_setup.home / "connections").glob("*.json"):
        path.unlink()
    assert uninstall(agent_setup.keeper, agent_setup.places).problems == []
    assert not any(b"holdfast-mcp" in seen for _, seen in agent_setup.snapshot().values() if isinstance(seen, bytes))
    assert not (agent_setup.home / "hooks").exists()
    assert not any(connected.is_new for connected in disconnect(agent_setup.keeper, agent_setup.places, CONNECTABLE))


def test_windows_entry_starts_python(agent_setup: ConnectSetup) -> None:
    """It is recognized and removed."""
    places = agent_setup.places._replace(system="win32")
    change = detect.server("C:\\home", places, "cursor", "user")
    assert change is not None
    text = mcp_entry.call_of(change.entries[0].value)
    assert mcp_entry.home_of(text) == "C:\\home"
    path = Path(change.path)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"mcpServers": {"holdfast": change.entries[0].value}}))
    assert detect.entry_test("C:\\home", "user")(detect.installed_server(change))
