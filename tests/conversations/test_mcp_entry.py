"""The MCP server's entry in agents' settings: how it is recognized, and the script that starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversations.adapters.index import CONNECTABLE
from holdfast.conversations.connect import mcp_entry
from holdfast.conversations.connect.agent_settings import settings_of
from holdfast.conversations.hooks.script import ScriptSetup
from holdfast.workspace.agent_dirs import AgentDirs

posix = pytest.mark.skipif(sys.platform == "win32", reason="the script is for POSIX shells")
SYSTEMS = ("linux", "darwin", "win32")


@pytest.mark.parametrize("system", SYSTEMS)
@given(home=st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1))
def test_entry_of_a_home_is_recognized(system: str, home: str) -> None:
    """In each agent's form, with its home; nothing else is."""
    made = mcp_entry.server(home, "user", python="C:\\python.exe", system=system)
    for entry in (made.entry, {"command": [made.command, *made.args], "enabled": False, "timeout": 3}):
        assert mcp_entry.home_of(mcp_entry.call_of(entry)) == home
        assert not mcp_entry.is_shared(mcp_entry.call_of(entry))
    for text in (made.command, *made.args, *map(str, made)):
        assert mcp_entry.home_of(text) is None


def test_shared_entry_names_no_personal_path() -> None:
    """`holdfast mcp` only; no person's server is mistaken for it."""
    made = mcp_entry.server("/home/me", "project", python="/usr/bin/python3", system="linux")
    assert made.entry == {"command": "holdfast", "args": ["mcp"]}
    assert mcp_entry.is_shared(mcp_entry.call_of(made.entry))
    assert mcp_entry.home_of(mcp_entry.call_of(made.entry)) is None
    others: list[object] = [{"command": "holdfast"}, {"command": "holdfast mcp"}, {"args": ["mcp"]}, [], None]
    for other in others:
        assert not mcp_entry.is_shared(mcp_entry.call_of(other))


@pytest.mark.parametrize(
    ("words", "known"),
    [
        ("holdfast mcp", True),
        ("/opt/venv/bin/holdfast mcp", True),
        ("C:\\venv\\holdfast.exe mcp", True),
        ("/usr/bin/python3.12 -P -m holdfast mcp", True),
        ("env HOLDFAST_HOME=/x holdfast mcp", True),
        ("uvx --from holdfast[mcp] holdfast mcp", True),
        ("pipx run holdfast mcp", True),
        ("holdfast", False),
        ("holdfast hook claude", False),
        ("npx holdfast mcp", False),
        ("python -m mcp", False),
        ("uvx other mcp", False),
        ("env mcp", False),
        ("/home/me/hooks/holdfast-mcp", False),
    ],
)
def test_manual_entry_is_recognized(words: str, known: bool) -> None:
    """`holdfast mcp` from anywhere, by any launcher."""
    command, *args = words.split()
    assert mcp_entry.by_hand(mcp_entry.call_of({"command": command, "args": args})) is known
    assert mcp_entry.by_hand(mcp_entry.call_of({"command": [command, *args]})) is known
    assert mcp_entry.program(mcp_entry.call_of({"command": command, "args": args})) == command


def test_entry_without_a_valid_command_is_no_server() -> None:
    for entry in ({}, {"url": "http://127.0.0.1/mcp"}, {"command": 1}, None):
        assert not mcp_entry.by_hand(mcp_entry.call_of(entry))


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("name", CONNECTABLE)
def test_entry_is_in_the_documented_settings_of_each_agent(name: str, system: str) -> None:
    """In both scopes."""
    places = AgentDirs("/me", "/work", {"PATH": ""}, system)
    desktop = {"linux": ".config/Claude", "darwin": "Library/Application Support/Claude",
               "win32": "AppData/Roaming/Claude"}[system]  # fmt: skip
    where = {
        "claude": ("/me/.claude.json", "/work/.mcp.json", "mcpServers"),
        "codex": ("/me/.codex/config.toml", "/work/.codex/config.toml", "mcp_servers"),
        "gemini": ("/me/.gemini/settings.json", "/work/.gemini/settings.json", "mcpServers"),
        "opencode": ("/me/.config/opencode/opencode.json", "/work/opencode.json", "mcp"),
        "copilot": ("/me/.copilot/mcp-config.json", None, "mcpServers"),
        "cursor": ("/me/.cursor/mcp.json", "/work/.cursor/mcp.json", "mcpServers"),
        "claude-desktop": (f"/me/{desktop}/claude_desktop_config.json", None, "mcpServers"),
    }.get(name)
    made = mcp_entry.Server("holdfast", ("mcp",))
    changes = [settings_of(name).server(places, scope, made) for scope in ("user", "project")]
    if where is None:
        assert changes == [None, None]
        return
    for change, path in zip(changes, where, strict=False):
        assert (change and change.path) == path
        if change is not None:
            entry = next(entry for entry in change.entries if entry.at == (where[2], "holdfast"))
            assert mcp_entry.is_shared(mcp_entry.call_of(entry.value))
            assert all(entry.only for entry in change.entries)


def test_moved_settings_are_followed(tmp_path: Path) -> None:
    """By variables; an existing file under its other name is used."""
    environ = {"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x", "COPILOT_HOME": "/p", "XDG_CONFIG_HOME": str(tmp_path)}
    places = AgentDirs("/me", "/work", environ, "linux")

    def path(name: str) -> str:
        change = settings_of(name).server(places, "user", mcp_entry.SHARED)
        assert change is not None
        return change.path

    assert path("claude") == "/c/.claude.json"
    assert path("codex") == "/x/config.toml"
    assert path("copilot") == "/p/mcp-config.json"
    other = tmp_path / "opencode" / "opencode.jsonc"
    assert path("opencode") == str(other.with_suffix(".json"))
    other.parent.mkdir()
    other.touch()
    assert path("opencode") == str(other)


@posix
def test_script_starts_the_server_for_its_home(tmp_path: Path) -> None:
    """With home and store of the connection, never with modules of the project."""
    home, stub, project = tmp_path / "a 'home'", tmp_path / "stub", tmp_path / "project"
    (stub / "holdfast" / "cli").mkdir(parents=True)
    (stub / "holdfast" / "__init__.py").touch()
    (stub / "holdfast" / "cli" / "__init__.py").touch()
    (stub / "holdfast" / "cli" / "entry.py").write_text(
        "import json, os, sys\n"
        "def main(words):\n"
        "    print(json.dumps([words, os.environ['HOLDFAST_HOME'], os.environ.get('HOLDFAST_STORE'), os.getcwd()]))\n"
    )
    project.mkdir()
    (project / "json.py").write_text("raise SystemExit('hostile')")
    hooks = home / "hooks"
    hooks.mkdir(parents=True)
    made = ScriptSetup(str(home), sys.executable, (str(stub),), str(stub / "holdfast"))
    (hooks / mcp_entry.PYTHON).write_text(mcp_entry.serving_python(made, str(hooks / "store")))
    script = hooks / mcp_entry.SCRIPT
    script.write_text(mcp_entry.serving_script(made))
    script.chmod(0o700)

    def started() -> list[object]:
        environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(stub), "HOLDFAST_HOME": "/another"}
        done = subprocess.run([str(script)], cwd=project, env=environ, capture_output=True, check=True)
        arguments = json.loads(done.stdout)
        assert isinstance(arguments, list)
        return arguments

    assert started() == [["mcp"], str(home), None, str(project)]
    (hooks / "store").write_text("sqlite:///team.db")
    assert started() == [["mcp"], str(home), "sqlite:///team.db", str(project)]
    missing = made._replace(package=str(tmp_path / "gone"))
    script.write_text(mcp_entry.serving_script(missing))
    done = subprocess.run([str(script)], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"holdfast connect" in done.stderr
