"""Connecting that fails half-way, entries people wrote or added to, and what the doctor says: each broke once."""

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
from tests.support.connect_setup import Ground, plain

if sys.platform == "win32":
    pytest.skip("modes and links are POSIX's", allow_module_level=True)

HAND = {"command": "holdfast", "args": ["mcp"]}


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def doctor(ground: Ground) -> Check:
    return checks.check_hooks(ground.keeper, None)


def server_of(ground: Ground, name: str) -> detect.McpRegistration | None:
    return detect.look(ground.keeper, ground.places, name).server


# ── what a person added below our table ──────────────────────────────────────────────────────────────────

BELOW = (
    '\n[mcp_servers.holdfast.env]\nA = "b" # mine\n\n[mcp_servers.holdfast.tools.record]\napproval_mode = "approve"\n'
    "seconds = 1.50\nsince = 2026-10-06\n"
)


@pytest.mark.parametrize("remembered", [True, False])
def test_tables_below_our_codex_server_stay(ground: Ground, *, remembered: bool) -> None:
    """Connecting again changes no byte of them, remembered or not; disconnecting takes them along, and says so."""
    path = ground.me / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text('model = "gpt"\n')
    ground.connect("codex")
    path.write_text(path.read_text() + BELOW)
    edited = path.read_bytes()
    if not remembered:
        (ground.home / "connections" / "codex-user.json").unlink()
    for _ in range(2):
        (done,) = ground.connect("codex")
        assert done.server == str(path)
        assert path.read_bytes() == edited
    path.write_text(path.read_text() + "\n[other]\n")
    (done,) = ground.disconnect("codex")
    assert tomllib.loads(path.read_text()) == {"model": "gpt", "other": {}}
    assert [note for note in done.notes if note.endswith("were removed with it: env, tools.")]


def test_subtables_stay_when_the_server_of_a_removed_holdfast_is_replaced(ground: Ground) -> None:
    """What starts the server is renewed; numbers, dates and tables that were added are what they were."""
    gone = ground.me / "gone"
    connect(Keeper.open(str(ground.project), home=str(gone)), ground.places, ["codex", "cursor"])
    path, other = ground.me / ".codex" / "config.toml", ground.me / ".cursor" / "mcp.json"
    path.write_text(path.read_text() + "startup_timeout_sec = 2.5\n" + BELOW)
    data = json.loads(other.read_text())
    data["mcpServers"]["holdfast"]["env"] = {"A": "b"}
    other.write_text(json.dumps(data))
    before = tomllib.loads(path.read_text())["mcp_servers"]["holdfast"]
    gone.rename(ground.me / "moved")
    script = str(ground.home / "hooks" / "holdfast-mcp")
    for _ in range(2):
        ground.connect("codex", "cursor")
        assert tomllib.loads(path.read_text())["mcp_servers"]["holdfast"] == before | {"command": script}
        assert plain(other)["mcpServers"]["holdfast"] == {"command": script, "args": [], "env": {"A": "b"}}
    ground.disconnect("codex", "cursor")
    assert not path.read_text().strip()


# ── all or nothing ───────────────────────────────────────────────────────────────────────────────────────


def test_links_in_a_circle_stop_connecting_before_anything_is_written(ground: Ground) -> None:
    """Where Cursor's servers should stand there is no file to be had: its hooks are not written either."""
    path = ground.me / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.symlink_to(path)
    before = ground.picture()
    with pytest.raises(HoldfastError, match=r"mcp\.json"):
        ground.connect("claude", "cursor")
    assert ground.picture() == before
    assert ground.memory() == []
    assert detect.look(ground.keeper, ground.places, "cursor").connected is None
    assert doctor(ground).detail == "no agent is connected"


def test_a_file_where_a_directory_has_to_be_stops_connecting(ground: Ground) -> None:
    """The other agents get nothing either."""
    (ground.me / ".cursor").write_text("")
    before = ground.picture()
    with pytest.raises(HoldfastError, match="cursor"):
        ground.connect("claude", "cursor")
    assert ground.picture() == before


def test_a_protected_file_stops_connecting(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode allows its owner to write, the system does not: nothing is written. Read-only alone is no obstacle."""
    path = ground.me / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text("")
    path.chmod(0o444)
    ground.connect("codex")
    ground.disconnect("codex")
    path.chmod(0o644)
    before = ground.picture()
    real = os.access
    monkeypatch.setattr(os, "access", lambda one, mode, **more: real(one, mode, **more) and str(one) != str(path))
    with pytest.raises(Failed, match="protects it") as caught:
        ground.connect("codex")
    assert "nothing was changed" in str(caught.value.hint)
    monkeypatch.undo()
    assert ground.picture() == before
    monkeypatch.setattr(
        os, "access", lambda one, mode, **more: real(one, mode, **more) and str(one) != str(path.parent)
    )
    with pytest.raises(Failed, match="nothing can be written in"):
        ground.connect("codex")
    monkeypatch.undo()
    ground.connect("codex")
    connected = ground.picture()
    hooks = path.parent / "hooks.json"
    hooks.write_text(hooks.read_text() + "\n")
    monkeypatch.setattr(os, "access", lambda one, mode, **more: real(one, mode, **more) and str(one) != str(hooks))
    with pytest.raises(Failed, match="protects it"):
        ground.disconnect("codex")
    assert len(uninstall(ground.keeper, ground.places).problems) == 1
    assert path.read_bytes() == connected[str(path)][1]


@pytest.mark.parametrize("known", [False, True])
def test_a_connect_that_fails_half_way_is_taken_back(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    """The last file of the second agent cannot be written: every byte and what is remembered is as before."""
    ground.have_settings()
    if known:
        connect(ground.keeper, ground.places, ["claude", "codex"], server=False)
    before, memory = ground.picture(), ground.memory()
    real = files.write_atomic

    def write(path: str, data: bytes, **how: Any) -> None:
        if path.endswith("config.toml"):
            raise Failed("cannot write config.toml: Operation not permitted", file=path)
        real(path, data, **how)

    monkeypatch.setattr(files, "write_atomic", write)
    with pytest.raises(Failed, match="not permitted") as caught:
        ground.connect("claude", "codex")
    monkeypatch.undo()
    assert "was undone" in str(caught.value.hint)
    assert (ground.picture(), ground.memory()) == (before, memory)
    assert (detect.look(ground.keeper, ground.places, "codex").connected == "user") is known
    assert doctor(ground).status == ("warning" if known else "ok")  # Codex has yet to trust its hooks
    ground.connect("claude", "codex")
    ground.disconnect("claude", "codex")
    assert ground.claude.read_text() == ground.have_settings().decode()


def test_error_names_files_that_could_not_be_restored(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hooks stay against our will: the error names the file, `agents` and the doctor tell what is missing."""
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
        ground.connect("cursor")
    monkeypatch.undo()
    hooks = ground.me / ".cursor" / "hooks.json"
    hint = str(caught.value.hint)
    assert hint.startswith("Look at it. ")
    assert f"is still in {hooks}" in hint
    assert "holdfast disconnect cursor" in hint
    seen = detect.look(ground.keeper, ground.places, "cursor")
    assert (seen.connected, seen.server) == ("user", None)
    check = doctor(ground)
    assert check.status == "warning"
    assert f"is missing from {ground.me / '.cursor' / 'mcp.json'}" in check.detail
    assert str(check.fix).startswith("holdfast connect cursor")
    ground.disconnect("cursor")
    assert ground.picture() == {}


# ── by hand ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["holdfast", "memory"])
def test_a_server_added_by_hand_is_known(ground: Ground, name: str) -> None:
    """The entry the guide tells plugin users to add is the server: no second one, and it stays."""
    path, toml = ground.me / ".claude.json", ground.me / ".codex" / "config.toml"
    path.write_text(json.dumps({"mcpServers": {name: {"type": "stdio", **HAND, "env": {}}}}))
    toml.parent.mkdir()
    toml.write_text(f'[mcp_servers.{name}]\ncommand = "uvx"\nargs = ["--from", "holdfast[mcp]", "holdfast", "mcp"]\n')
    settings = ground.me / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(
        json.dumps({"mcpServers": {name: {"command": "/x/python3.12", "args": ["-m", *HAND["args"]]}}})
    )
    assert server_of(ground, "gemini") is None  # python -m mcp is another program
    settings.write_text(
        json.dumps({"mcpServers": {name: {"command": "/x/python3.12", "args": ["-m", "holdfast", "mcp"]}}})
    )
    before = ground.picture()
    assert server_of(ground, "claude") == detect.McpRegistration("user", str(path), "holdfast", name)
    for connected in ground.connect("claude", "codex", "gemini"):
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
    for connected in ground.disconnect("claude", "codex", "gemini"):
        assert [note for note in connected.notes if "that entry is yours, and stays" in note]
    assert ground.picture() == before
    ground.connect("claude")
    assert any("that entry is yours" in note for note in uninstall(ground.keeper, ground.places).connections[0].notes)
    assert ground.picture() == before


def test_a_server_added_by_hand_to_claude_desktop(ground: Ground) -> None:
    """It counts as connected, nothing is remembered of it, and the doctor has nothing to mend but its program."""
    change = detect.server(str(ground.home), ground.places, "claude-desktop", "user")
    assert change is not None
    path = Path(change.path)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"mcpServers": {"holdfast": HAND}}))
    (done,) = ground.connect("claude-desktop")
    assert (done.is_new, done.revived, done.files) == (False, False, [])
    assert ground.memory() == []
    check = doctor(ground)
    assert check.status == "warning"
    assert "fix your entry" in str(check.fix)
    program = ground.me / "holdfast"
    program.write_text("")
    path.write_text(json.dumps({"mcpServers": {"holdfast": {"command": str(program), "args": ["mcp"]}}}))
    assert doctor(ground).detail == "claude-desktop can start the MCP server"
    (done,) = ground.disconnect("claude-desktop")
    assert not done.is_new
    assert done.notes


def test_own_server_entry_stays_with_a_persons_entry(ground: Ground) -> None:
    """What we registered before a person added theirs is still kept, renewed and taken out."""
    ground.connect("cursor")
    path = ground.me / ".cursor" / "mcp.json"
    data = json.loads(path.read_text())
    data["mcpServers"]["mine"] = HAND
    path.write_text(json.dumps(data))
    (done,) = ground.connect("cursor")
    assert (done.server, done.notes) == (str(path), ())
    ground.disconnect("cursor")
    assert plain(path) == {"mcpServers": {"mine": HAND}}


# ── the doctor ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("script", ["holdfast-mcp", "holdfast-mcp.py"])
def test_the_doctor_does_not_blame_python_for_a_server_that_is_missing(ground: Ground, script: str) -> None:
    """The script of the server is gone: that one is named, by `agents` and by the doctor."""
    ground.connect("gemini")
    path = ground.home / "hooks" / script
    path.unlink()
    seen = server_of(ground, "gemini")
    assert seen is not None
    assert seen.missing == str(path)
    check = doctor(ground)
    assert f"calls {path}, which is missing" in check.detail
    assert check.fix == "holdfast connect gemini"


def test_the_doctor_names_another_script_that_is_missing(ground: Ground) -> None:
    """What hooks need to wait for an answer is gone, though nobody registered a server."""
    connect(ground.keeper, ground.places, ["gemini"], server=False)
    (ground.home / "hooks" / "ask.py").unlink()
    assert f"missing: {ground.home / 'hooks' / 'ask.py'}, which Holdfast wrote" in doctor(ground).detail
    (ground.home / "hooks" / "ask.py").write_text("")
    assert "another Python" in doctor(ground).detail


def test_the_doctor_after_an_uninstall_that_was_stopped(ground: Ground) -> None:
    """A directory stands where the servers were: hooks are left, and that is not well."""
    ground.connect("cursor")
    path = ground.me / ".cursor" / "mcp.json"
    path.unlink()
    path.mkdir()
    assert len(uninstall(ground.keeper, ground.places).problems) == 1
    check = doctor(ground)
    assert check.status == "warning"
    assert f"cursor is connected through {path}" in check.detail
    assert "holdfast disconnect cursor" in str(check.fix)
    path.rmdir()
    assert "is missing from" in doctor(ground).detail
    assert uninstall(ground.keeper, ground.places).problems == []
    assert doctor(ground).detail == "no agent is connected"


def test_the_doctor_does_not_miss_a_server_that_was_given_up(ground: Ground) -> None:
    """Connected again without it, in a file that was edited in between: nothing is missing."""
    ground.connect("gemini")
    path = ground.me / ".gemini" / "settings.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"theme": "dark"}))
    connect(ground.keeper, ground.places, ["gemini"], server=False)
    assert "MCP server" not in doctor(ground).detail
