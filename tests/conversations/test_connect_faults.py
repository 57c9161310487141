"""Connections that were damaged, lost or interrupted, and the doctor's checks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.conversations import checks
from holdfast.conversations.adapters.index import NAMES
from holdfast.conversations.connect import detect
from holdfast.conversations.connect.apply import connect
from holdfast.conversations.connect.registry import Connections
from holdfast.conversations.hooks import install, script
from holdfast.core.errors import Conflict, Damaged, HoldfastError
from holdfast.keeper.keeper import Keeper
from holdfast.machine import error_log, files
from holdfast.workspace import spool
from tests.support.connect_setup import MINE, ConnectSetup, plain

if sys.platform == "win32":
    pytest.skip("modes and links are POSIX's", allow_module_level=True)


@pytest.fixture
def agent_setup(tmp_path: Path) -> ConnectSetup:
    return ConnectSetup(tmp_path)


# ── repair ───────────────────────────────────────────────────────────────────────────────────────────────


def test_connecting_again_repairs(agent_setup: ConnectSetup) -> None:
    """Removed hooks return, a script for another Python is rewritten; disconnecting restores the start."""
    before = agent_setup.write_settings()
    agent_setup.connect("claude")
    whole = agent_setup.claude.read_bytes()
    data = json.loads(json.dumps(plain(agent_setup.claude)))
    del data["hooks"]["SessionStart"]
    agent_setup.claude.write_text(json.dumps(data, indent=2))
    hook = agent_setup.home / "hooks" / "hook"
    hook.write_text("#!/bin/sh\n")
    (done,) = agent_setup.connect("claude")
    assert done.is_new
    assert any("script" in note for note in done.notes)
    assert "SessionStart" in plain(agent_setup.claude)["hooks"]
    assert install.is_current(str(agent_setup.home), system=sys.platform)
    assert os.access(hook, os.X_OK)
    agent_setup.claude.write_bytes(whole)
    agent_setup.disconnect("claude")
    assert agent_setup.claude.read_bytes() == before


def test_hooks_of_a_removed_holdfast_are_replaced(agent_setup: ConnectSetup) -> None:
    """Hooks of a deleted home are named and replaced; those of an existing one are left alone."""
    agent_setup.write_settings()
    deleted, other = agent_setup.me / "gone", agent_setup.me / "other"
    for home in (deleted, other):
        connect(Keeper.open(str(agent_setup.project), home=str(home)), agent_setup.places, ["claude"])
    for path in sorted(deleted.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    left = detect.inspect_agent(agent_setup.keeper, agent_setup.places, "claude").leftovers
    assert {(rest.home, rest.missing) for rest in left} == {(str(deleted), True), (str(other), False)}
    check = checks.check_hooks(agent_setup.keeper, None)
    assert (check.status, str(deleted) in check.detail) == ("warning", True)
    agent_setup.connect("claude")
    text = agent_setup.claude.read_text()
    assert str(deleted) not in text
    assert str(other) in text
    agent_setup.disconnect("claude")
    assert str(agent_setup.home) not in agent_setup.claude.read_text()


def test_connection_without_a_receipt_is_removed_by_its_command_lines(agent_setup: ConnectSetup) -> None:
    agent_setup.write_settings()
    before = agent_setup.snapshot()
    agent_setup.connect(*NAMES)
    for item in (agent_setup.home / "connections").glob("*.json"):
        item.unlink()
    agent_setup.disconnect(*NAMES)
    left = agent_setup.snapshot()
    assert {path: seen for path, seen in left.items() if seen[1] is not None and path in before} == {
        path: seen for path, seen in before.items() if seen[1] is not None
    }
    assert not any(b"hooks/hook" in seen[1] for seen in left.values() if isinstance(seen[1], bytes))


def test_damaged_receipt_is_reported(agent_setup: ConnectSetup) -> None:
    agent_setup.connect("codex")
    (agent_setup.home / "connections" / "codex-user.json").write_text("{")
    with pytest.raises(Damaged):
        agent_setup.disconnect("codex")
    assert next(check for check in agent_setup.keeper.doctor()[0] if check.name == "hooks").status == "failed"


# ── kills ────────────────────────────────────────────────────────────────────────────────────────────────

_KILL = """
import os, sys
from holdfast.workspace.agent_dirs import AgentDirs
from holdfast.conversations.connect import registry
from holdfast.conversations.connect.apply import connect
from holdfast.conversations.connect.disconnect import disconnect
from holdfast.conversations.hooks import install
from holdfast.keeper.keeper import Keeper
from holdfast.machine import files
left = int(sys.argv[5])
def counted(owner, name):
    real = getattr(owner, name)
    def call(*args, **more):
        global left
        for _ in (0, 1):  # before it, and after it
            left -= 1
            if left < 0: os._exit(9)
            if _ == 0: made = real(*args, **more)
        return made
    setattr(owner, name, call)
kept = registry.Connections
for owner, name in ((kept, "remember"), (kept, "forget"), (files, "write_atomic"), (files, "make_private_dir"),
                    (os, "unlink"), (os, "rmdir"), (os, "chmod"), (os, "rename")):
    counted(owner, name)
me, project, home, what = sys.argv[1:5]
places = AgentDirs(me, project, {"PATH": ""}, sys.platform)
names = ["claude", "codex", "goose", "cline", "claude-desktop"]
verb = {"connect": connect, "disconnect": disconnect}[what]
verb(Keeper.open(project, home=home), places, names)
"""


_KILLED = ("claude", "codex", "goose", "cline", "claude-desktop")


def _killed(agent_setup: ConnectSetup, what: str, after: int) -> int:
    words = [str(agent_setup.me), str(agent_setup.project), str(agent_setup.home), what, str(after)]
    return subprocess.run([sys.executable, "-c", _KILL, *words], check=False).returncode


@pytest.mark.parametrize("after", range(1, 190, 24))
@pytest.mark.parametrize("what", ["connect", "disconnect"])
def test_connect_killed_at_any_step_can_be_repeated_and_undone(
    agent_setup: ConnectSetup, what: str, after: int
) -> None:
    """The next connect succeeds, and the next disconnect restores every byte."""
    agent_setup.write_settings()
    (agent_setup.me / ".claude.json").write_text('{\n  "numStartups": 3\n}')
    (agent_setup.me / ".codex").mkdir()
    (agent_setup.me / ".codex" / "config.toml").write_text('model = "gpt"')
    before = agent_setup.snapshot()
    if what == "disconnect":
        agent_setup.connect(*_KILLED)
    assert _killed(agent_setup, what, after) in (0, 9)
    agent_setup.connect(*_KILLED)
    seen = detect.find(agent_setup.keeper, agent_setup.places)
    assert {setup.name for setup in seen if setup.connected} == set(_KILLED)
    assert {setup.name for setup in seen if setup.server} == {"claude", "codex", "claude-desktop"}
    agent_setup.disconnect(*_KILLED)
    assert agent_setup.snapshot() == before
    assert _killed(agent_setup, "connect", after) in (0, 9)
    agent_setup.disconnect(*_KILLED)
    assert agent_setup.snapshot() == before


def test_concurrent_change_of_settings_is_not_overwritten(
    agent_setup: ConnectSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent_setup.write_settings()
    real = Connections.remember

    def remember(self: Connections, connection: object) -> None:
        real(self, connection)  # type: ignore[arg-type]
        agent_setup.claude.write_text('{"model": "new"}')

    monkeypatch.setattr(Connections, "remember", remember)
    with pytest.raises(Conflict, match="just now"):
        agent_setup.connect("claude")
    monkeypatch.undo()
    assert agent_setup.claude.read_text() == '{"model": "new"}'
    agent_setup.disconnect("claude")
    assert agent_setup.claude.read_text() == '{"model": "new"}'


def test_concurrent_connects_add_everything_once(agent_setup: ConnectSetup) -> None:
    agent_setup.write_settings()
    words = [str(agent_setup.me), str(agent_setup.project), str(agent_setup.home), "connect", "100000"]
    running = [subprocess.Popen([sys.executable, "-c", _KILL, *words]) for _ in range(4)]
    assert [popen.wait() for popen in running] == [0] * 4
    assert not agent_setup.connect(*_KILLED)[0].is_new
    agent_setup.disconnect(*_KILLED)
    assert agent_setup.claude.read_text() == MINE


def test_full_disk_leaves_settings_unchanged(agent_setup: ConnectSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    agent_setup.write_settings()
    before = agent_setup.snapshot()

    def full(path: str, data: bytes, **more: object) -> None:
        raise HoldfastError("the disk is full", file=path)

    monkeypatch.setattr(files, "write_atomic", full)
    with pytest.raises(HoldfastError, match="full"):
        agent_setup.connect("claude")
    monkeypatch.undo()
    assert agent_setup.snapshot() == before
    agent_setup.disconnect("claude")
    assert agent_setup.snapshot() == before


# ── the doctor ───────────────────────────────────────────────────────────────────────────────────────────


def test_doctor_reports_each_state_of_hooks(agent_setup: ConnectSetup) -> None:
    """Not connected, fine, script missing, entries missing, obstacles: each with a message and a fix."""
    assert checks.check_hooks(agent_setup.keeper, None).detail == "no agent is connected"
    agent_setup.connect("claude", "opencode")
    check = checks.check_hooks(agent_setup.keeper, None)
    assert (check.status, check.detail) == ("ok", "connected: claude, opencode")
    assert {
        check.status
        for check in agent_setup.keeper.doctor()[0]
        if check.name in ("modes", "hooks", "spool", "capture")
    } == {"ok"}
    (agent_setup.home / "hooks" / "hook").unlink()
    check = checks.check_hooks(agent_setup.keeper, None)
    assert check.status == "warning"
    assert str(check.fix).startswith("holdfast connect claude opencode, or holdfast uninstall")
    agent_setup.connect("claude", "opencode")
    settings = json.loads(agent_setup.claude.read_text())
    agent_setup.claude.write_text(json.dumps(settings | {"disableAllHooks": True}))
    assert "disableAllHooks" in checks.check_hooks(agent_setup.keeper, None).detail
    agent_setup.claude.write_text("{}")
    check = checks.check_hooks(agent_setup.keeper, None)
    assert "missing from the settings: claude" in check.detail
    assert check.fix is not None
    assert check.fix.startswith("holdfast connect claude")


def test_doctor_reports_problems_of_the_spool(agent_setup: ConnectSetup) -> None:
    """Old payloads, unreadable payloads, and logged errors of hooks."""
    home = str(agent_setup.home)
    assert checks.check_spool(agent_setup.keeper, None).status == "ok"
    assert checks.check_hook_errors(agent_setup.keeper, None).status == "ok"
    path = spool.add_payload(home, "claude", "user", 1, b"{}")
    assert "1 payload" in checks.check_spool(agent_setup.keeper, None).detail
    os.utime(path, (0, 0))
    assert "more than an hour" in checks.check_spool(agent_setup.keeper, None).detail
    spool.quarantine(home, spool.list_entries(home)[0])
    assert "1 payload of agents could not be understood" in checks.check_spool(agent_setup.keeper, None).detail
    error_log.note(home, "hook", "something\x1b[2J")
    check = checks.check_hook_errors(agent_setup.keeper, None)
    assert check.status == "warning"
    assert "something\\x1b" in check.detail


def test_installed_hooks_deliver_payloads(agent_setup: ConnectSetup) -> None:
    """The command line in the settings, run as the agent does."""
    agent_setup.connect("claude")
    hooks = plain(agent_setup.claude)["hooks"]
    line = hooks["PostToolUse"][0]["hooks"][0]["command"]  # type: ignore[index]
    assert script.is_call(line)
    done = subprocess.run(["sh", "-c", line], input=b'{"a": 1}', capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    (kept,) = spool.list_entries(str(agent_setup.home))
    assert (kept.agent, kept.source, kept.parent) == ("claude", "user", os.getpid())
