"""`connect`, `disconnect`, `agents` and `uninstall` as people and scripts call them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.table import COMMANDS
from holdfast.conversations.adapters.index import CONNECTABLE, NAMES
from holdfast.conversations.hooks import install
from tests.support.command_line import Calling


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return Calling(tmp_path, monkeypatch, capsys)


@pytest.fixture
def settings(empty_home: Path) -> Path:
    """Claude Code's settings in a temporary home."""
    path = empty_home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text('{\n    "model": "opus"\n}\n')
    return path


def test_connect_reports_what_it_changes(cli: Calling, settings: Path) -> None:
    """The document lists files and results; people see the new lines and the next step."""
    (one,) = cli.document("connect", "claude")["connections"]
    assert (one["agent"], one["scope"], one["obstacles"]) == ("claude", "user", [])
    servers = settings.parents[1] / ".claude.json"
    assert one["files"] == [
        {"path": str(settings), "change": "edited"},
        {"path": str(servers), "change": "created"},
    ]
    assert one["server"] == str(servers)
    (again,) = cli.document("connect", "claude")["connections"]
    assert [file["change"] for file in again["files"]] == ["unchanged", "unchanged"]
    cli.document("disconnect", "claude")
    output = cli("connect", "claude", "goose").out
    assert f"edited {settings}" in output
    assert '+ "hooks": {' in output
    assert "holdfast backfill claude goose" in output
    assert "already" in cli("connect", "claude").out
    assert cli("connect", "claude", "--quiet").out == ""


def test_disconnect_restores_the_file(cli: Calling, settings: Path) -> None:
    """A second time there is nothing to do."""
    before = settings.read_bytes()
    cli("connect", "claude")
    (one,) = cli.document("disconnect", "claude")["connections"]
    assert {"path": str(settings), "change": "restored"} in one["files"]
    assert settings.read_bytes() == before
    assert not (settings.parents[1] / ".claude.json").exists()
    assert "was not connected" in cli("disconnect", "claude").out


def test_connect_exit_codes(cli: Calling, settings: Path) -> None:
    """An unknown agent or broken settings are invalid input; connecting in a second scope is a conflict."""
    assert "opencode" in cli.refused(4, "connect", "vim")["hint"]
    assert cli.refused(4, "disconnect", "vim")
    assert cli.refused(2, "connect")
    assert cli.refused(4, "connect", "claude", "--scope", "planet")
    settings.write_text('{\n"model": \n}')
    error = cli.refused(4, "connect", "goose", "claude")
    assert error["file"] == str(settings)
    assert "line 3" in error["message"]
    settings.write_text("{}")
    cli("connect", "claude")
    assert "disconnect" in cli.refused(5, "connect", "claude", "--scope", "project")["hint"]


def test_agents_lists_every_agent(cli: Calling, settings: Path, tmp_path: Path) -> None:
    """Program, traces of use, connection, server, and obstacles."""
    program = tmp_path / "bin" / "codex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    cli("connect", "claude", "goose")
    document = {item["name"]: item for item in cli.document("agents")["agents"]}
    assert len(document) == 9
    assert document["claude"]["server"] == {
        "scope": "user", "path": str(settings.parents[1] / ".claude.json"), "missing": None,
    }  # fmt: skip
    assert document["goose"]["server"] is None
    assert (document["claude"]["title"], document["claude"]["found"], document["claude"]["connected"]) == (
        "Claude Code",
        True,
        "user",
    )
    assert (document["codex"]["program"], document["codex"]["connected"]) == (str(program), None)
    assert (document["goose"]["found"], document["goose"]["connected"]) == (False, "user")
    assert (document["cline"]["found"], document["cline"]["program"]) == (False, None)
    data = json.loads(settings.read_text())
    settings.write_text(json.dumps(data | {"disableAllHooks": True}))
    (obstacle,) = {item["name"]: item for item in cli.document("agents")["agents"]}["claude"]["obstacles"]
    assert "disableAllHooks" in obstacle
    output = cli("agents").out
    assert "disableAllHooks" in output
    assert "holdfast connect codex" in output


def test_connect_no_mcp_omits_the_server(cli: Calling, settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its extra the agent is connected too, with a hint how to install it."""
    servers = settings.parents[1] / ".claude.json"
    (one,) = cli.document("connect", "claude", "--no-mcp")["connections"]
    assert (one["server"], one["notes"], servers.exists()) == (None, [], False)
    assert {agent["name"]: agent["server"] for agent in cli.document("agents")["agents"]}["claude"] is None
    assert "created" in cli("connect", "claude").out
    assert "yes" in cli("agents").out
    monkeypatch.setattr(install, "mcp_is_installed", lambda: False)
    assert "pip install 'holdfast[mcp]'" in cli("connect", "claude").out
    assert not servers.exists()
    assert "holdfast[mcp]" in cli.refused(1, "connect", "claude-desktop")["hint"]


@pytest.mark.usefixtures("settings")
def test_connect_shows_the_place_of_the_server(cli: Calling, empty_home: Path) -> None:
    """On one line, however many lines are new, and also where the person configured it."""
    output = cli("connect", "claude", "opencode").out
    assert f"  server holdfast in {empty_home / '.claude.json'}\n" in output
    assert f"  server holdfast in {empty_home / '.config' / 'opencode' / 'opencode.json'}\n" in output
    assert "server holdfast" not in cli("connect", "codex", "--no-mcp").out
    program = empty_home / "holdfast"
    program.write_text("")
    theirs = empty_home / ".cursor" / "mcp.json"
    theirs.parent.mkdir()
    theirs.write_text(json.dumps({"mcpServers": {"mine": {"command": str(program), "args": ["mcp"]}}}))
    output = cli("connect", "cursor").out
    assert f"  server mine in {theirs}\n" in output
    assert "that entry is yours" in output
    assert "by hand" in cli("agents").out
    assert "that entry is yours, and stays" in cli("disconnect", "cursor").out


def test_failed_connect_leaves_no_connection(cli: Calling, empty_home: Path) -> None:
    """Links form a circle; `agents` and `doctor` know of no connection."""
    servers = empty_home / ".cursor" / "mcp.json"
    servers.parent.mkdir()
    servers.symlink_to(servers)
    assert cli.refused(1, "connect", "cursor")["file"] == str(servers)
    assert [path.name for path in servers.parent.iterdir()] == ["mcp.json"]
    assert {item["name"]: item["connected"] for item in cli.document("agents")["agents"]}["cursor"] is None


def test_connect_accepts_every_connectable_agent() -> None:
    """Hooks and backfill accept the eight agents that have them."""
    declared = {command.name: command.params for command in COMMANDS}
    offered = {name: next(item.choices for item in declared[name] if item.name in ("agents", "agent"))
               for name in ("connect", "disconnect", "hook", "backfill")}  # fmt: skip
    assert offered["connect"] == offered["disconnect"] == (*CONNECTABLE, "git")  # git only for the trailer
    assert offered["hook"] == offered["backfill"] == NAMES


def test_claude_desktop_is_connected_and_disconnected_by_name(cli: Calling, empty_home: Path) -> None:
    """It has no hooks, no backfill and no project scope."""
    config = empty_home / ".config" / "Claude" / "claude_desktop_config.json"
    config.parent.mkdir(parents=True)
    config.write_text('{"globalShortcut": ""}')
    assert "holdfast connect claude-desktop" in cli("agents").out
    output = cli("connect", "claude-desktop").out
    assert "Claude Desktop  connected for you, with the MCP server and nothing else" in output
    assert "project" not in output
    assert f"server holdfast in {config}" in output
    assert "already, for you, with the MCP server" in cli("connect", "claude-desktop").out
    assert "backfill" not in output
    assert cli.refused(4, "connect", "claude-desktop", "--scope", "project")
    assert cli.refused(4, "backfill", "claude-desktop")
    document = {item["name"]: item for item in cli.document("agents")["agents"]}["claude-desktop"]
    assert (document["connected"], document["server"]["path"]) == ("user", str(config))
    cli("disconnect", "claude-desktop")
    assert config.read_text() == '{"globalShortcut": ""}'


def test_agents_reports_a_missing_hook_script(cli: Calling, settings: Path) -> None:
    """With the file and the command that restores it."""
    cli("connect", "claude")
    (cli.home / "hooks" / "hook").unlink()
    output = cli("agents").out
    assert "for you, script missing" in output
    assert "settings.json" in output
    assert "holdfast connect claude" in output
    missing = {item["name"]: item["script_missing"] for item in cli.document("agents")["agents"]}
    assert [name for name, entry in missing.items() if entry] == ["claude"]
    output = cli("connect", "claude").out
    assert "Claude Code  connected for you" in output
    assert "was created now" in output
    assert "script missing" not in cli("agents").out
    assert "for you" in cli("agents").out
    assert str(settings) in output


def test_uninstall_removes_everything_but_the_data(cli: Calling, settings: Path) -> None:
    before = settings.read_bytes()
    cli("start", "a goal")
    cli("connect", "claude", "codex", "cline")
    output = cli("uninstall").out
    assert f"stays in {cli.home}" in output
    assert "pip uninstall holdfast" in output
    assert settings.read_bytes() == before
    assert cli.session("status")["goal"] == "a goal"
    document = cli.document("uninstall")
    assert (document["connections"], document["removed"], document["problems"]) == ([], [], [])
    cli("connect", "claude")
    settings.write_text("{")
    done = cli("uninstall")
    assert done.code == 1
    assert str(settings) in done.err


def test_doctor_names_obstacles_of_a_connected_agent(cli: Calling, settings: Path) -> None:
    cli("connect", "claude")
    checks = {item["name"]: item for item in cli.document("doctor")["checks"]}
    assert {checks[name]["status"] for name in ("hooks", "spool", "capture", "modes")} == {"ok"}
    data = json.loads(settings.read_text())
    settings.write_text(json.dumps(data | {"disableAllHooks": True}))
    checks = {item["name"]: item for item in cli.document("doctor")["checks"]}
    assert checks["hooks"]["status"] == "warning"


@pytest.mark.skipif(sys.platform == "win32", reason="the script is for POSIX shells")
def test_hooks_use_the_store_they_were_connected_with(tmp_path: Path) -> None:
    """The agent does not have the shell's variables."""
    project, person = tmp_path / "project", tmp_path / "person"
    for directory in (project, person):
        directory.mkdir()
    holdfast = [sys.executable, "-m", "holdfast"]
    bare = {"HOME": str(person), "PATH": os.environ["PATH"], "HOLDFAST_HOME": str(tmp_path / "home")}
    environ = bare | {"HOLDFAST_STORE": f"sqlite:///{tmp_path}/team.db"}
    subprocess.run([*holdfast, "connect", "claude"], cwd=project, env=environ, check=True, capture_output=True)
    settings = json.loads((person / ".claude" / "settings.json").read_text())
    command = settings["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"]
    payload = {"session_id": "t", "cwd": str(project), "hook_event_name": "UserPromptSubmit", "prompt": "Add OAuth"}
    subprocess.run(["/bin/sh", "-c", command], input=json.dumps(payload).encode(), env=bare, cwd=project, check=True)
    done = subprocess.run([*holdfast, "status", "--json"], cwd=project, env=environ, check=True, capture_output=True)
    assert json.loads(done.stdout)["session"]["goal"] == "Add OAuth"
    assert not (tmp_path / "home" / "store.db").exists()
    subprocess.run([*holdfast, "uninstall"], cwd=project, env=environ, check=True, capture_output=True)
    assert not (tmp_path / "home" / "hooks").exists()


def test_disconnect_ignores_a_broken_file_without_our_entries(tmp_path: Path) -> None:
    """Codex was never connected."""
    project, person = tmp_path / "project", tmp_path / "person"
    (person / ".codex").mkdir(parents=True)
    project.mkdir()
    (person / ".codex" / "hooks.json").write_text("{bad")
    environ = {"HOME": str(person), "PATH": os.environ["PATH"], "HOLDFAST_HOME": str(tmp_path / "home")}
    for words in (["connect", "claude"], ["disconnect", "claude", "codex"], ["uninstall"]):
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *words], cwd=project, env=environ, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert (person / ".codex" / "hooks.json").read_text() == "{bad"
    assert not (person / ".claude").exists()
