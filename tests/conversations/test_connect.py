"""Connecting agents and taking it back: every file to the byte."""

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
from tests.support.connect_setup import MINE, Ground

if sys.platform == "win32":
    pytest.skip("modes and links are POSIX's", allow_module_level=True)


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


# ── to the byte ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("scope", ["user", "project"])
def test_all_agents_there_and_back(ground: Ground, scope: str, umask: int) -> None:
    """Everything connected, connected again without a change, disconnected: every file is what it was."""
    names = CONNECTABLE if scope == "user" else NAMES
    ground.have_settings()
    (ground.me / ".claude.json").write_text('{"numStartups": 3, "mcpServers": {"other": {"command": "x"}}}')
    (ground.me / ".codex").mkdir()
    (ground.me / ".codex" / "config.toml").write_bytes(b'model = "gpt"\r\n# mine')
    (ground.project / "opencode.jsonc").write_text('{ // mine\n  "mcp": {},\n}\n')
    (ground.me / ".gemini").mkdir()
    (ground.me / ".gemini" / "settings.json").write_text('{"a":1}')
    (ground.project / ".cursor").mkdir()
    (ground.project / ".cursor" / "hooks.json").write_text('{\r\n  "version": 1\r\n}')
    before = ground.picture()
    old = os.umask(umask)
    try:
        done = ground.connect(*names, scope=scope)
        assert [connected.agent for connected in done] == list(names)
        assert all(connected.is_new for connected in done)
        assert not any(connected.is_new for connected in ground.connect(*names, scope=scope))
        seen = {setup.name: setup for setup in detect.find(ground.keeper, ground.places)}
        assert {name: seen[name].connected for name in names} == dict.fromkeys(names, scope)
        assert {name for name, setup in seen.items() if setup.server is not None} == {
            connected.agent for connected in done if connected.server is not None
        }
        wide = [path for path in ground.home.rglob("*") if path.stat().st_mode & 0o077]
        assert wide == []
        assert len(ground.memory()) == len(names)
        assert all(connected.is_new for connected in ground.disconnect(*names))
    finally:
        os.umask(old)
    assert ground.picture() == before
    assert ground.memory() == []
    assert not any(connected.is_new for connected in ground.disconnect(*CONNECTABLE))


def test_what_is_there_stays(ground: Ground) -> None:
    """Comments, order, other hooks, mode and line ends are untouched: only lines are added."""
    before = ground.have_settings(mode=0o640)
    (done,) = ground.connect("claude")
    after = ground.claude.read_bytes()
    lines = iter(after.splitlines())
    assert all(line in lines for line in before.splitlines())
    assert stat.S_IMODE(ground.claude.stat().st_mode) == 0o640
    assert done.files[0].change == "edited"
    ground.disconnect("claude")
    assert ground.claude.read_bytes() == before
    assert stat.S_IMODE(ground.claude.stat().st_mode) == 0o640


def test_edited_since(ground: Ground) -> None:
    """Somebody's later edit survives; only what is ours goes."""
    ground.have_settings()
    ground.connect("claude")
    ground.claude.write_text(ground.claude.read_text().replace("opus", "sonnet"))
    assert not ground.connect("claude")[0].is_new
    ground.disconnect("claude")
    assert ground.claude.read_text() == MINE.replace("opus", "sonnet")
    assert ground.memory() == []


def test_our_own_file_edited_since(ground: Ground) -> None:
    """A file of ours that somebody changed is not thrown away, and connecting does not write over it."""
    ground.connect("opencode")
    path = Path(detect.changes(str(ground.home), ground.places, "opencode", "user")[0].path)
    path.write_text(path.read_text() + "// mine\n")
    with pytest.raises(Conflict, match=r"holdfast\.js"):
        ground.connect("opencode")
    (done,) = ground.disconnect("opencode")
    (aside,) = (file.aside for file in done.files if file.aside is not None)
    assert Path(aside).read_text().endswith("// mine\n")
    assert not path.exists()


def test_never_over_a_file_that_is_not_ours(ground: Ground) -> None:
    """A stranger's file where ours belongs: exit code 5, its name, and nothing changed for any agent."""
    ground.have_settings()
    path = Path(detect.changes(str(ground.home), ground.places, "copilot", "user")[0].path)
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    before = ground.picture()
    with pytest.raises(Conflict) as caught:
        ground.connect("claude", "copilot")
    assert caught.value.file == str(path)
    assert ground.picture() == before
    ground.disconnect("claude", "copilot")
    assert ground.picture() == before


# ── places of all kinds ──────────────────────────────────────────────────────────────────────────────────


def test_dotfiles(ground: Ground) -> None:
    """A link of one's own is followed and stays, to a file or to one that is not there yet."""
    dotfiles = ground.me / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "claude.json").write_text(MINE)
    ground.claude.parent.mkdir()
    ground.claude.symlink_to(dotfiles / "claude.json")
    (ground.me / ".codex").mkdir()
    (ground.me / ".codex" / "hooks.json").symlink_to("../dotfiles/codex.json")
    before = ground.picture()
    ground.connect("claude", "codex")
    assert ground.claude.is_symlink()
    assert "hooks/hook" in (dotfiles / "codex.json").read_text()
    ground.disconnect("claude", "codex")
    assert ground.picture() == before


def test_read_only_settings(ground: Ground) -> None:
    """A file one has protected against accidents can be connected, and keeps its mode."""
    ground.have_settings(mode=0o444)
    before = ground.picture()
    ground.connect("claude")
    assert stat.S_IMODE(ground.claude.stat().st_mode) == 0o444
    ground.disconnect("claude")
    assert ground.picture() == before


@pytest.mark.parametrize("text", ['{\n  "hooks": \n', "[]", '{"hooks": []}', '{"hooks": {"Stop": "x"}}'])
def test_settings_that_cannot_be_edited(ground: Ground, text: str) -> None:
    """Malformed settings: exit code 4, file and line named, nothing changed anywhere."""
    ground.have_settings(text)
    before = ground.picture()
    with pytest.raises(Invalid, match=r"settings\.json.*line \d"):
        ground.connect("codex", "claude")
    assert ground.picture() == before
    assert ground.memory() == []


def test_settings_that_are_a_directory(ground: Ground) -> None:
    """What is not a file is refused, and nothing is changed."""
    ground.claude.mkdir(parents=True)
    before = ground.picture()
    with pytest.raises(Invalid, match="a directory"):
        ground.connect("codex", "claude")
    assert ground.picture() == before
    with pytest.raises(Invalid, match="unknown agent"):
        ground.connect("vim")


def test_empty_settings(ground: Ground) -> None:
    """A file with nothing in it is as good as an empty object, and is empty again afterwards."""
    ground.have_settings("")
    ground.connect("claude")
    assert "hooks" in json.loads(ground.claude.read_text())
    ground.disconnect("claude")
    assert ground.claude.read_bytes() == b""


# ── once only ────────────────────────────────────────────────────────────────────────────────────────────


def test_connect_is_refused_when_the_agent_is_connected_already(ground: Ground) -> None:
    """Connected for the user, an agent cannot be connected for a project, nor the other way round."""
    ground.connect("claude", "goose")
    for name in ("claude", "goose"):
        with pytest.raises(Conflict, match="already connected for the user"):
            ground.connect(name, scope="project")
    ground.disconnect("claude")
    ground.connect("claude", scope="project")
    with pytest.raises(Conflict, match="already connected for this project"):
        ground.connect("claude")
    elsewhere = ground.me / "other"
    elsewhere.mkdir()
    with pytest.raises(Conflict, match="already connected for the project"):
        connect(ground.keeper, ground.places._replace(project=str(elsewhere)), ["claude"])


def test_the_plugin_is_enough(ground: Ground) -> None:
    """With Holdfast's own plugin switched on in Claude Code, connecting it would be twice."""
    ground.have_settings('{"enabledPlugins": {"holdfast@market": true}}')
    with pytest.raises(Conflict, match="plugin"):
        ground.connect("claude")
    assert detect.look(ground.keeper, ground.places, "claude").connected == "plugin"
    ground.have_settings('{"enabledPlugins": {"holdfast@market": false}}')
    ground.connect("claude")


def test_a_project_that_is_gone(ground: Ground) -> None:
    """A connection whose project was deleted stands in nobody's way."""
    ground.connect("claude", scope="project")
    for path in sorted(ground.project.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    ground.connect("claude")


# ── the status line ──────────────────────────────────────────────────────────────────────────────────────


def test_the_status_line(ground: Ground) -> None:
    """Whoever has none gets Holdfast's; whoever has one keeps it, and is told."""
    ground.connect("claude")
    line = json.loads(ground.claude.read_text())["statusLine"]["command"]
    assert line.endswith("claude status user || : holdfast")
    ground.disconnect("claude")
    ground.have_settings('{"statusLine": {"type": "command", "command": "mine"}}')
    (done,) = ground.connect("claude")
    assert json.loads(ground.claude.read_text())["statusLine"]["command"] == "mine"
    assert any("status line stays" in note for note in done.notes)


def test_a_directory_made_for_two(ground: Ground) -> None:
    """Connected one after the other and disconnected in either order: whoever goes last takes it away."""
    before = ground.picture()
    for first, last in (("opencode", "claude-desktop"), ("claude-desktop", "opencode")):
        ground.connect("opencode")
        ground.connect("claude-desktop")
        ground.disconnect(first)
        ground.disconnect(last)
        assert ground.picture() == before


def test_the_noted_store_goes_with_the_last_agent(ground: Ground) -> None:
    """Its URL may hold a password: it stays while somebody needs it, and no longer; whatever else was connected."""
    elsewhere = ground.home.parent / "other.db"
    ground.keeper = Keeper.open(str(ground.project), home=str(ground.home), store=f"sqlite:///{elsewhere}")
    noted = ground.home / "hooks" / "store"
    ground.connect("claude", "gemini")
    ground.connect("codex", scope="project")
    assert noted.read_text().endswith("other.db")
    ground.disconnect("claude")
    ground.disconnect("gemini")
    assert noted.exists()
    ground.disconnect("codex")
    assert not noted.exists()
    ground.connect("claude")
    assert noted.exists()
    (ground.home / "connections" / "claude-user.json").unlink()
    ground.disconnect("gemini")  # nothing is remembered, but its hooks are there
    assert noted.exists()
    ground.disconnect("claude")
    assert not noted.exists()
