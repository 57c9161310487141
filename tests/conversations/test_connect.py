"""Connecting and disconnecting agents restores every file exactly."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from holdfast.conversations.adapters.index import CONNECTABLE, NAMES
from holdfast.conversations.connect import detect
from holdfast.conversations.connect.apply import connect
from holdfast.core.errors import Conflict, Invalid
from holdfast.keeper.keeper import Keeper
from tests.support.connect_setup import MINE, ConnectSetup

if sys.platform == "win32":
    pytest.skip("modes and links are POSIX's", allow_module_level=True)


@pytest.fixture
def agent_setup(tmp_path: Path) -> ConnectSetup:
    return ConnectSetup(tmp_path)


# ── exact restoration ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("scope", ["user", "project"])
def test_disconnect_of_all_agents_restores_every_file(agent_setup: ConnectSetup, scope: str, umask: int) -> None:
    """After connecting twice."""
    names = CONNECTABLE if scope == "user" else NAMES
    agent_setup.write_settings()
    (agent_setup.me / ".claude.json").write_text('{"numStartups": 3, "mcpServers": {"other": {"command": "x"}}}')
    (agent_setup.me / ".codex").mkdir()
    (agent_setup.me / ".codex" / "config.toml").write_bytes(b'model = "gpt"\r\n# mine')
    (agent_setup.project / "opencode.jsonc").write_text('{ // mine\n  "mcp": {},\n}\n')
    (agent_setup.me / ".gemini").mkdir()
    (agent_setup.me / ".gemini" / "settings.json").write_text('{"a":1}')
    (agent_setup.project / ".cursor").mkdir()
    (agent_setup.project / ".cursor" / "hooks.json").write_text('{\r\n  "version": 1\r\n}')
    before = agent_setup.snapshot()
    old = os.umask(umask)
    try:
        done = agent_setup.connect(*names, scope=scope)
        assert [connected.agent for connected in done] == list(names)
        assert all(connected.is_new for connected in done)
        assert not any(connected.is_new for connected in agent_setup.connect(*names, scope=scope))
        seen = {setup.name: setup for setup in detect.find(agent_setup.keeper, agent_setup.places)}
        assert {name: seen[name].connected for name in names} == dict.fromkeys(names, scope)
        assert {name for name, setup in seen.items() if setup.server is not None} == {
            connected.agent for connected in done if connected.server is not None
        }
        wide = [path for path in agent_setup.home.rglob("*") if path.stat().st_mode & 0o077]
        assert wide == []
        assert len(agent_setup.receipts()) == len(names)
        assert all(connected.is_new for connected in agent_setup.disconnect(*names))
    finally:
        os.umask(old)
    assert agent_setup.snapshot() == before
    assert agent_setup.receipts() == []
    assert not any(connected.is_new for connected in agent_setup.disconnect(*CONNECTABLE))


def test_connect_only_adds_lines(agent_setup: ConnectSetup) -> None:
    """Comments, order, other hooks, mode and line ends stay."""
    before = agent_setup.write_settings(mode=0o640)
    (done,) = agent_setup.connect("claude")
    after = agent_setup.claude.read_bytes()
    lines = iter(after.splitlines())
    assert all(line in lines for line in before.splitlines())
    assert stat.S_IMODE(agent_setup.claude.stat().st_mode) == 0o640
    assert done.files[0].change == "edited"
    agent_setup.disconnect("claude")
    assert agent_setup.claude.read_bytes() == before
    assert stat.S_IMODE(agent_setup.claude.stat().st_mode) == 0o640


def test_disconnect_keeps_later_edits(agent_setup: ConnectSetup) -> None:
    """Only our entries are removed."""
    agent_setup.write_settings()
    agent_setup.connect("claude")
    agent_setup.claude.write_text(agent_setup.claude.read_text().replace("opus", "sonnet"))
    assert not agent_setup.connect("claude")[0].is_new
    agent_setup.disconnect("claude")
    assert agent_setup.claude.read_text() == MINE.replace("opus", "sonnet")
    assert agent_setup.receipts() == []


def test_edited_file_of_ours_is_neither_deleted_nor_overwritten(agent_setup: ConnectSetup) -> None:
    agent_setup.connect("opencode")
    path = Path(detect.changes(str(agent_setup.home), agent_setup.places, "opencode", "user")[0].path)
    path.write_text(path.read_text() + "// mine\n")
    with pytest.raises(Conflict, match=r"holdfast\.js"):
        agent_setup.connect("opencode")
    (done,) = agent_setup.disconnect("opencode")
    (aside,) = (file.aside for file in done.files if file.aside is not None)
    assert Path(aside).read_text().endswith("// mine\n")
    assert not path.exists()


def test_connect_refuses_to_overwrite_a_foreign_file(agent_setup: ConnectSetup) -> None:
    """Exit code 5 with its name, and nothing changed for any agent."""
    agent_setup.write_settings()
    path = Path(detect.changes(str(agent_setup.home), agent_setup.places, "copilot", "user")[0].path)
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    before = agent_setup.snapshot()
    with pytest.raises(Conflict) as caught:
        agent_setup.connect("claude", "copilot")
    assert caught.value.file == str(path)
    assert agent_setup.snapshot() == before
    agent_setup.disconnect("claude", "copilot")
    assert agent_setup.snapshot() == before


# ── kinds of files ───────────────────────────────────────────────────────────────────────────────────────


def test_linked_settings_stay_linked(agent_setup: ConnectSetup) -> None:
    """The link's target is edited, or created if missing."""
    dotfiles = agent_setup.me / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "claude.json").write_text(MINE)
    agent_setup.claude.parent.mkdir()
    agent_setup.claude.symlink_to(dotfiles / "claude.json")
    (agent_setup.me / ".codex").mkdir()
    (agent_setup.me / ".codex" / "hooks.json").symlink_to("../dotfiles/codex.json")
    before = agent_setup.snapshot()
    agent_setup.connect("claude", "codex")
    assert agent_setup.claude.is_symlink()
    assert "hooks/hook" in (dotfiles / "codex.json").read_text()
    agent_setup.disconnect("claude", "codex")
    assert agent_setup.snapshot() == before


def test_read_only_settings_can_be_connected(agent_setup: ConnectSetup) -> None:
    """They keep their mode."""
    agent_setup.write_settings(mode=0o444)
    before = agent_setup.snapshot()
    agent_setup.connect("claude")
    assert stat.S_IMODE(agent_setup.claude.stat().st_mode) == 0o444
    agent_setup.disconnect("claude")
    assert agent_setup.snapshot() == before


@pytest.mark.parametrize("text", ['{\n  "hooks": \n', "[]", '{"hooks": []}', '{"hooks": {"Stop": "x"}}'])
def test_malformed_settings_stop_connecting(agent_setup: ConnectSetup, text: str) -> None:
    """Exit code 4 with file and line, and nothing changed."""
    agent_setup.write_settings(text)
    before = agent_setup.snapshot()
    with pytest.raises(Invalid, match=r"settings\.json.*line \d"):
        agent_setup.connect("codex", "claude")
    assert agent_setup.snapshot() == before
    assert agent_setup.receipts() == []


def test_directory_in_place_of_settings_is_refused(agent_setup: ConnectSetup) -> None:
    """Nothing is changed."""
    agent_setup.claude.mkdir(parents=True)
    before = agent_setup.snapshot()
    with pytest.raises(Invalid, match="a directory"):
        agent_setup.connect("codex", "claude")
    assert agent_setup.snapshot() == before
    with pytest.raises(Invalid, match="unknown agent"):
        agent_setup.connect("vim")


def test_empty_settings_count_as_an_empty_object(agent_setup: ConnectSetup) -> None:
    """They are empty again after disconnecting."""
    agent_setup.write_settings("")
    agent_setup.connect("claude")
    assert "hooks" in json.loads(agent_setup.claude.read_text())
    agent_setup.disconnect("claude")
    assert agent_setup.claude.read_bytes() == b""


# ── one connection ───────────────────────────────────────────────────────────────────────────────────────


def test_connect_is_refused_when_the_agent_is_connected_already(agent_setup: ConnectSetup) -> None:
    """For the user, it cannot be connected for a project, or the reverse."""
    agent_setup.connect("claude", "goose")
    for name in ("claude", "goose"):
        with pytest.raises(Conflict, match="already connected for the user"):
            agent_setup.connect(name, scope="project")
    agent_setup.disconnect("claude")
    agent_setup.connect("claude", scope="project")
    with pytest.raises(Conflict, match="already connected for this project"):
        agent_setup.connect("claude")
    elsewhere = agent_setup.me / "other"
    elsewhere.mkdir()
    with pytest.raises(Conflict, match="already connected for the project"):
        connect(agent_setup.keeper, agent_setup.places._replace(project=str(elsewhere)), ["claude"])


def test_connect_is_refused_when_the_plugin_is_enabled(agent_setup: ConnectSetup) -> None:
    """Claude Code would run hooks twice."""
    agent_setup.write_settings('{"enabledPlugins": {"holdfast@market": true}}')
    with pytest.raises(Conflict, match="plugin"):
        agent_setup.connect("claude")
    assert detect.inspect_agent(agent_setup.keeper, agent_setup.places, "claude").connected == "plugin"
    agent_setup.write_settings('{"enabledPlugins": {"holdfast@market": false}}')
    agent_setup.connect("claude")


def test_connection_of_a_deleted_project_is_ignored(agent_setup: ConnectSetup) -> None:
    agent_setup.connect("claude", scope="project")
    for path in sorted(agent_setup.project.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    agent_setup.connect("claude")


# ── the status line ──────────────────────────────────────────────────────────────────────────────────────


def test_status_line_is_added_only_if_there_is_none(agent_setup: ConnectSetup) -> None:
    """An existing one stays, with a note."""
    agent_setup.connect("claude")
    line = json.loads(agent_setup.claude.read_text())["statusLine"]["command"]
    assert line.endswith("claude status user || : holdfast")
    agent_setup.disconnect("claude")
    agent_setup.write_settings('{"statusLine": {"type": "command", "command": "mine"}}')
    (done,) = agent_setup.connect("claude")
    assert json.loads(agent_setup.claude.read_text())["statusLine"]["command"] == "mine"
    assert any("status line stays" in note for note in done.notes)


def test_last_disconnected_agent_removes_the_shared_directory(agent_setup: ConnectSetup) -> None:
    """In either order."""
    before = agent_setup.snapshot()
    for first, last in (("opencode", "claude-desktop"), ("claude-desktop", "opencode")):
        agent_setup.connect("opencode")
        agent_setup.connect("claude-desktop")
        agent_setup.disconnect(first)
        agent_setup.disconnect(last)
        assert agent_setup.snapshot() == before


def test_stored_url_is_removed_with_the_last_agent(agent_setup: ConnectSetup) -> None:
    """It may contain a password, and is kept only while it is needed."""
    elsewhere = agent_setup.home.parent / "other.db"
    agent_setup.keeper = Keeper.open(
        str(agent_setup.project), home=str(agent_setup.home), store=f"sqlite:///{elsewhere}"
    )
    noted = agent_setup.home / "hooks" / "store"
    agent_setup.connect("claude", "gemini")
    agent_setup.connect("codex", scope="project")
    assert noted.read_text().endswith("other.db")
    agent_setup.disconnect("claude")
    agent_setup.disconnect("gemini")
    assert noted.exists()
    agent_setup.disconnect("codex")
    assert not noted.exists()
    agent_setup.connect("claude")
    assert noted.exists()
    (agent_setup.home / "connections" / "claude-user.json").unlink()
    agent_setup.disconnect("gemini")  # no receipt, but its hooks exist
    assert noted.exists()
    agent_setup.disconnect("claude")
    assert not noted.exists()
