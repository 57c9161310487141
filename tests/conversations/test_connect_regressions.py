"""Regression tests: connecting that fails midway, entries written or extended by people, and the doctor's checks."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from holdfast.conversations import checks
from holdfast.conversations.connect import detect, file_plan
from holdfast.conversations.connect.apply import connect
from holdfast.conversations.connect.disconnect import uninstall
from holdfast.core.errors import Failed, HoldfastError
from holdfast.keeper.keeper import Keeper
from holdfast.machine import files
from holdfast.workspace.followers import Check
from tests.support.connect_setup import ConnectSetup, plain

if sys.platform == "win32":
    pytest.skip("modes and links are POSIX's", allow_module_level=True)

HAND = {"command": "holdfast", "args": ["mcp"]}


@pytest.fixture
def agent_setup(tmp_path: Path) -> ConnectSetup:
    return ConnectSetup(tmp_path)


def doctor(agent_setup: ConnectSetup) -> Check:
    return checks.check_hooks(agent_setup.keeper, None)


def server_of(agent_setup: ConnectSetup, name: str) -> detect.McpRegistration | None:
    return detect.inspect_agent(agent_setup.keeper, agent_setup.places, name).server


# ── additions below our table ────────────────────────────────────────────────────────────────────────────

BELOW = (
    '\n[mcp_servers.holdfast.env]\nA = "b" # mine\n\n[mcp_servers.holdfast.tools.record]\napproval_mode = "approve"\n'
    "seconds = 1.50\nsince = 2026-10-06\n"
)


@pytest.mark.parametrize("remembered", [True, False])
def test_tables_below_our_codex_server_stay(agent_setup: ConnectSetup, *, remembered: bool) -> None:
    """Connecting again changes no byte of them, with or without a receipt; disconnecting removes and reports them."""
    path = agent_setup.me / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text('model = "gpt"\n')
    agent_setup.connect("codex")
    path.write_text(path.read_text() + BELOW)
    edited = path.read_bytes()
    if not remembered:
        (agent_setup.home / "connections" / "codex-user.json").unlink()
    for _ in range(2):
        (done,) = agent_setup.connect("codex")
        assert done.server == str(path)
        assert path.read_bytes() == edited
    path.write_text(path.read_text() + "\n[other]\n")
    (done,) = agent_setup.disconnect("codex")
    assert tomllib.loads(path.read_text()) == {"model": "gpt", "other": {}}
    assert [note for note in done.notes if note.endswith("were removed with it: env, tools.")]


def test_subtables_stay_when_the_server_of_a_removed_holdfast_is_replaced(agent_setup: ConnectSetup) -> None:
    """The command is renewed; added numbers, dates and tables stay."""
    deleted = agent_setup.me / "gone"
    connect(Keeper.open(str(agent_setup.project), home=str(deleted)), agent_setup.places, ["codex", "cursor"])
    path, other = agent_setup.me / ".codex" / "config.toml", agent_setup.me / ".cursor" / "mcp.json"
    path.write_text(path.read_text() + "startup_timeout_sec = 2.5\n" + BELOW)
    data = json.loads(other.read_text())
    data["mcpServers"]["holdfast"]["env"] = {"A": "b"}
    other.write_text(json.dumps(data))
    before = tomllib.loads(path.read_text())["mcp_servers"]["holdfast"]
    deleted.rename(agent_setup.me / "moved")
    script = str(agent_setup.home / "hooks" / "holdfast-mcp")
    for _ in range(2):
        agent_setup.connect("codex", "cursor")
        assert tomllib.loads(path.read_text())["mcp_servers"]["holdfast"] == before | {"command": script}
        assert plain(other)["mcpServers"]["holdfast"] == {"command": script, "args": [], "env": {"A": "b"}}
    agent_setup.disconnect("codex", "cursor")
    assert not path.read_text().strip()


# ── all or nothing ───────────────────────────────────────────────────────────────────────────────────────


def test_links_in_a_circle_stop_connecting_before_anything_is_written(agent_setup: ConnectSetup) -> None:
    """Cursor's server file cannot be created: its hooks are not written either."""
    path = agent_setup.me / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.symlink_to(path)
    before = agent_setup.snapshot()
    with pytest.raises(HoldfastError, match=r"mcp\.json"):
        agent_setup.connect("claude", "cursor")
    assert agent_setup.snapshot() == before
    assert agent_setup.receipts() == []
    assert detect.inspect_agent(agent_setup.keeper, agent_setup.places, "cursor").connected is None
    assert doctor(agent_setup).detail == "no agent is connected"


def test_file_in_place_of_a_directory_stops_connecting(agent_setup: ConnectSetup) -> None:
    """For the other agents too."""
    (agent_setup.me / ".cursor").write_text("")
    before = agent_setup.snapshot()
    with pytest.raises(HoldfastError, match="cursor"):
        agent_setup.connect("claude", "cursor")
    assert agent_setup.snapshot() == before


def test_write_protected_file_stops_connecting(agent_setup: ConnectSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system forbids writing although the mode allows it. A read-only mode alone is no obstacle."""
    path = agent_setup.me / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text("")
    path.chmod(0o444)
    agent_setup.connect("codex")
    agent_setup.disconnect("codex")
    path.chmod(0o644)
    before = agent_setup.snapshot()
    real = os.access
    monkeypatch.setattr(os, "access", lambda one, mode, **more: real(one, mode, **more) and str(one) != str(path))
    with pytest.raises(Failed, match="protects it") as caught:
        agent_setup.connect("codex")
    assert "nothing was changed" in str(caught.value.hint)
    monkeypatch.undo()
    assert agent_setup.snapshot() == before
    monkeypatch.setattr(
        os, "access", lambda one, mode, **more: real(one, mode, **more) and str(one) != str(path.parent)
    )
    with pytest.raises(Failed, match="nothing can be written in"):
        agent_setup.connect("codex")
    monkeypatch.undo()
    agent_setup.connect("codex")
    connected = agent_setup.snapshot()
    hooks = path.parent / "hooks.json"
    hooks.write_text(hooks.read_text() + "\n")
    monkeypatch.setattr(os, "access", lambda one, mode, **more: real(one, mode, **more) and str(one) != str(hooks))
    with pytest.raises(Failed, match="protects it"):
        agent_setup.disconnect("codex")
    assert len(uninstall(agent_setup.keeper, agent_setup.places).problems) == 1
    assert path.read_bytes() == connected[str(path)][1]


@pytest.mark.parametrize("known", [False, True])
def test_failed_connect_is_rolled_back(
    agent_setup: ConnectSetup, monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    """The second agent's last file cannot be written: all files and receipts are as before."""
    agent_setup.write_settings()
    if known:
        connect(agent_setup.keeper, agent_setup.places, ["claude", "codex"], server=False)
    before, memory = agent_setup.snapshot(), agent_setup.receipts()
    real = files.write_atomic

    def write(path: str, data: bytes, **how: Any) -> None:
        if path.endswith("config.toml"):
            raise Failed("cannot write config.toml: Operation not permitted", file=path)
        real(path, data, **how)

    monkeypatch.setattr(files, "write_atomic", write)
    with pytest.raises(Failed, match="not permitted") as caught:
        agent_setup.connect("claude", "codex")
    monkeypatch.undo()
    assert "was undone" in str(caught.value.hint)
    assert (agent_setup.snapshot(), agent_setup.receipts()) == (before, memory)
    assert (detect.inspect_agent(agent_setup.keeper, agent_setup.places, "codex").connected == "user") is known
    assert doctor(agent_setup).status == ("warning" if known else "ok")  # Codex does not trust its hooks yet
    agent_setup.connect("claude", "codex")
    agent_setup.disconnect("claude", "codex")
    assert agent_setup.claude.read_text() == agent_setup.write_settings().decode()


def test_error_names_files_that_could_not_be_restored(
    agent_setup: ConnectSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hooks stay: the error names the file, `agents` and the doctor report what is missing."""
    real = files.write_atomic

    def write(path: str, data: bytes, **how: Any) -> None:
        if path.endswith("mcp.json"):
            raise Failed("cannot write mcp.json: Operation not permitted", hint="Look at it.", file=path)
        real(path, data, **how)

    def resist(*_: object, **__: object) -> None:
        raise Failed("no")

    monkeypatch.setattr(files, "write_atomic", write)
    monkeypatch.setattr(file_plan, "_remove", resist)
    with pytest.raises(Failed, match=r"mcp\.json") as caught:
        agent_setup.connect("cursor")
    monkeypatch.undo()
    hooks = agent_setup.me / ".cursor" / "hooks.json"
    hint = str(caught.value.hint)
    assert hint.startswith("Look at it. ")
    assert f"is still in {hooks}" in hint
    assert "holdfast disconnect cursor" in hint
    seen = detect.inspect_agent(agent_setup.keeper, agent_setup.places, "cursor")
    assert (seen.connected, seen.server) == ("user", None)
    check = doctor(agent_setup)
    assert check.status == "warning"
    assert f"is missing from {agent_setup.me / '.cursor' / 'mcp.json'}" in check.detail
    assert str(check.fix).startswith("holdfast connect cursor")
    agent_setup.disconnect("cursor")
    assert agent_setup.snapshot() == {}


# ── manual entries ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["holdfast", "memory"])
def test_server_added_by_hand_is_recognized(agent_setup: ConnectSetup, name: str) -> None:
    """The guide's entry for plugin users is the server: no second one is added, and it stays."""
    path, toml = agent_setup.me / ".claude.json", agent_setup.me / ".codex" / "config.toml"
    path.write_text(json.dumps({"mcpServers": {name: {"type": "stdio", **HAND, "env": {}}}}))
    toml.parent.mkdir()
    toml.write_text(f'[mcp_servers.{name}]\ncommand = "uvx"\nargs = ["--from", "holdfast[mcp]", "holdfast", "mcp"]\n')
    settings = agent_setup.me / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(
        json.dumps({"mcpServers": {name: {"command": "/x/python3.12", "args": ["-m", *HAND["args"]]}}})
    )
    assert server_of(agent_setup, "gemini") is None  # python -m mcp is another program
    settings.write_text(
        json.dumps({"mcpServers": {name: {"command": "/x/python3.12", "args": ["-m", "holdfast", "mcp"]}}})
    )
    before = agent_setup.snapshot()
    assert server_of(agent_setup, "claude") == detect.McpRegistration("user", str(path), "holdfast", name)
    for connected in agent_setup.connect("claude", "codex", "gemini"):
        assert connected.server is not None
        assert connected.server_name == name
        assert [
            note
            for note in connected.notes
            if f"already starts the MCP server, as {name}: that entry is yours" in note
        ]
    assert path.read_bytes() == before[str(path)][1]
    assert toml.read_bytes() == before[str(toml)][1]
    assert list(plain(settings)["mcpServers"]) == [name]
    for connected in agent_setup.disconnect("claude", "codex", "gemini"):
        assert [note for note in connected.notes if "that entry is yours, and stays" in note]
    assert agent_setup.snapshot() == before
    agent_setup.connect("claude")
    assert any(
        "that entry is yours" in note
        for note in uninstall(agent_setup.keeper, agent_setup.places).connections[0].notes
    )
    assert agent_setup.snapshot() == before


def test_server_added_by_hand_to_claude_desktop_counts_as_connected(agent_setup: ConnectSetup) -> None:
    """Without a receipt; the doctor only checks its program."""
    change = detect.server(str(agent_setup.home), agent_setup.places, "claude-desktop", "user")
    assert change is not None
    path = Path(change.path)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"mcpServers": {"holdfast": HAND}}))
    (done,) = agent_setup.connect("claude-desktop")
    assert (done.is_new, done.revived, done.files) == (False, False, [])
    assert agent_setup.receipts() == []
    check = doctor(agent_setup)
    assert check.status == "warning"
    assert "fix your entry" in str(check.fix)
    program = agent_setup.me / "holdfast"
    program.write_text("")
    path.write_text(json.dumps({"mcpServers": {"holdfast": {"command": str(program), "args": ["mcp"]}}}))
    assert doctor(agent_setup).detail == "claude-desktop can start the MCP server"
    (done,) = agent_setup.disconnect("claude-desktop")
    assert not done.is_new
    assert done.notes


def test_own_server_entry_stays_with_a_persons_entry(agent_setup: ConnectSetup) -> None:
    """Ours, registered earlier, is still renewed and removed."""
    agent_setup.connect("cursor")
    path = agent_setup.me / ".cursor" / "mcp.json"
    data = json.loads(path.read_text())
    data["mcpServers"]["mine"] = HAND
    path.write_text(json.dumps(data))
    (done,) = agent_setup.connect("cursor")
    assert (done.server, done.notes) == (str(path), ())
    agent_setup.disconnect("cursor")
    assert plain(path) == {"mcpServers": {"mine": HAND}}


# ── the doctor ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("script", ["holdfast-mcp", "holdfast-mcp.py"])
def test_doctor_names_a_missing_server_script(agent_setup: ConnectSetup, script: str) -> None:
    """So does `agents`."""
    agent_setup.connect("gemini")
    path = agent_setup.home / "hooks" / script
    path.unlink()
    seen = server_of(agent_setup, "gemini")
    assert seen is not None
    assert seen.missing == str(path)
    check = doctor(agent_setup)
    assert f"calls {path}, which is missing" in check.detail
    assert check.fix == "holdfast connect gemini"


def test_doctor_names_a_missing_script_of_answering_hooks(agent_setup: ConnectSetup) -> None:
    """Even without a registered server."""
    connect(agent_setup.keeper, agent_setup.places, ["gemini"], server=False)
    (agent_setup.home / "hooks" / "ask.py").unlink()
    assert f"missing: {agent_setup.home / 'hooks' / 'ask.py'}, which Holdfast wrote" in doctor(agent_setup).detail
    (agent_setup.home / "hooks" / "ask.py").write_text("")
    assert "another Python" in doctor(agent_setup).detail


def test_doctor_warns_after_an_interrupted_uninstall(agent_setup: ConnectSetup) -> None:
    """A directory is in place of the servers, and hooks are left."""
    agent_setup.connect("cursor")
    path = agent_setup.me / ".cursor" / "mcp.json"
    path.unlink()
    path.mkdir()
    assert len(uninstall(agent_setup.keeper, agent_setup.places).problems) == 1
    check = doctor(agent_setup)
    assert check.status == "warning"
    assert f"cursor is connected through {path}" in check.detail
    assert "holdfast disconnect cursor" in str(check.fix)
    path.rmdir()
    assert "is missing from" in doctor(agent_setup).detail
    assert uninstall(agent_setup.keeper, agent_setup.places).problems == []
    assert doctor(agent_setup).detail == "no agent is connected"


def test_doctor_does_not_miss_a_server_that_was_removed(agent_setup: ConnectSetup) -> None:
    """By connecting again without it, in a file edited meanwhile."""
    agent_setup.connect("gemini")
    path = agent_setup.me / ".gemini" / "settings.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"theme": "dark"}))
    connect(agent_setup.keeper, agent_setup.places, ["gemini"], server=False)
    assert "MCP server" not in doctor(agent_setup).detail
