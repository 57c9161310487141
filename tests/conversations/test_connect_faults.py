"""Connections that were damaged, forgotten or interrupted, and what the doctor says of them."""

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
from tests.support.connect_setup import MINE, Ground, plain

if sys.platform == "win32":
    pytest.skip("modes and links are POSIX's", allow_module_level=True)


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


# ── mending ──────────────────────────────────────────────────────────────────────────────────────────────


def test_connecting_again_mends(ground: Ground) -> None:
    """Hooks somebody took out come back; a script for another Python is written anew; the end is the beginning."""
    before = ground.have_settings()
    ground.connect("claude")
    whole = ground.claude.read_bytes()
    data = json.loads(json.dumps(plain(ground.claude)))
    del data["hooks"]["SessionStart"]
    ground.claude.write_text(json.dumps(data, indent=2))
    hook = ground.home / "hooks" / "hook"
    hook.write_text("#!/bin/sh\n")
    (done,) = ground.connect("claude")
    assert done.is_new
    assert any("script" in note for note in done.notes)
    assert "SessionStart" in plain(ground.claude)["hooks"]
    assert install.is_current(str(ground.home), system=sys.platform)
    assert os.access(hook, os.X_OK)
    ground.claude.write_bytes(whole)
    ground.disconnect("claude")
    assert ground.claude.read_bytes() == before


def test_hooks_of_a_removed_holdfast_are_replaced(ground: Ground) -> None:
    """Entries whose home is gone are named, and replaced by connecting; those of a living one are left alone."""
    ground.have_settings()
    gone, other = ground.me / "gone", ground.me / "other"
    for home in (gone, other):
        connect(Keeper.open(str(ground.project), home=str(home)), ground.places, ["claude"])
    for path in sorted(gone.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    left = detect.look(ground.keeper, ground.places, "claude").leftovers
    assert {(rest.home, rest.missing) for rest in left} == {(str(gone), True), (str(other), False)}
    check = checks.check_hooks(ground.keeper, None)
    assert (check.status, str(gone) in check.detail) == ("warning", True)
    ground.connect("claude")
    text = ground.claude.read_text()
    assert str(gone) not in text
    assert str(other) in text
    ground.disconnect("claude")
    assert str(ground.home) not in ground.claude.read_text()


def test_a_forgotten_connection(ground: Ground) -> None:
    """Even if nothing is remembered, what is ours is found by its command line and taken out."""
    ground.have_settings()
    before = ground.picture()
    ground.connect(*NAMES)
    for item in (ground.home / "connections").glob("*.json"):
        item.unlink()
    ground.disconnect(*NAMES)
    left = ground.picture()
    assert {path: seen for path, seen in left.items() if seen[1] is not None and path in before} == {
        path: seen for path, seen in before.items() if seen[1] is not None
    }
    assert not any(b"hooks/hook" in seen[1] for seen in left.values() if isinstance(seen[1], bytes))


def test_a_damaged_memory(ground: Ground) -> None:
    """What is remembered and cannot be read is said, not passed over."""
    ground.connect("codex")
    (ground.home / "connections" / "codex-user.json").write_text("{")
    with pytest.raises(Damaged):
        ground.disconnect("codex")
    assert next(check for check in ground.keeper.doctor()[0] if check.name == "hooks").status == "failed"


# ── killed at any moment ─────────────────────────────────────────────────────────────────────────────────

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


def _killed(ground: Ground, what: str, after: int) -> int:
    words = [str(ground.me), str(ground.project), str(ground.home), what, str(after)]
    return subprocess.run([sys.executable, "-c", _KILL, *words], check=False).returncode


@pytest.mark.parametrize("after", range(1, 190, 24))
@pytest.mark.parametrize("what", ["connect", "disconnect"])
def test_killed_between_any_two_steps(ground: Ground, what: str, after: int) -> None:
    """Whenever it is killed, the next connect connects, and the next disconnect restores every byte."""
    ground.have_settings()
    (ground.me / ".claude.json").write_text('{\n  "numStartups": 3\n}')
    (ground.me / ".codex").mkdir()
    (ground.me / ".codex" / "config.toml").write_text('model = "gpt"')
    before = ground.picture()
    if what == "disconnect":
        ground.connect(*_KILLED)
    assert _killed(ground, what, after) in (0, 9)
    ground.connect(*_KILLED)
    seen = detect.find(ground.keeper, ground.places)
    assert {setup.name for setup in seen if setup.connected} == set(_KILLED)
    assert {setup.name for setup in seen if setup.server} == {"claude", "codex", "claude-desktop"}
    ground.disconnect(*_KILLED)
    assert ground.picture() == before
    assert _killed(ground, "connect", after) in (0, 9)
    ground.disconnect(*_KILLED)
    assert ground.picture() == before


def test_changed_under_our_hands(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that an agent writes while we connect are not overwritten."""
    ground.have_settings()
    real = Connections.remember

    def remember(self: Connections, connection: object) -> None:
        real(self, connection)  # type: ignore[arg-type]
        ground.claude.write_text('{"model": "new"}')

    monkeypatch.setattr(Connections, "remember", remember)
    with pytest.raises(Conflict, match="just now"):
        ground.connect("claude")
    monkeypatch.undo()
    assert ground.claude.read_text() == '{"model": "new"}'
    ground.disconnect("claude")
    assert ground.claude.read_text() == '{"model": "new"}'


def test_two_at_once(ground: Ground) -> None:
    """Several processes that connect at the same time end with everything there once."""
    ground.have_settings()
    words = [str(ground.me), str(ground.project), str(ground.home), "connect", "100000"]
    running = [subprocess.Popen([sys.executable, "-c", _KILL, *words]) for _ in range(4)]
    assert [popen.wait() for popen in running] == [0] * 4
    assert not ground.connect(*_KILLED)[0].is_new
    ground.disconnect(*_KILLED)
    assert ground.claude.read_text() == MINE


def test_a_full_disk(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written leaves the settings as they were."""
    ground.have_settings()
    before = ground.picture()

    def full(path: str, data: bytes, **more: object) -> None:
        raise HoldfastError("the disk is full", file=path)

    monkeypatch.setattr(files, "write_atomic", full)
    with pytest.raises(HoldfastError, match="full"):
        ground.connect("claude")
    monkeypatch.undo()
    assert ground.picture() == before
    ground.disconnect("claude")
    assert ground.picture() == before


# ── what the doctor says ─────────────────────────────────────────────────────────────────────────────────


def test_the_doctor_on_hooks(ground: Ground) -> None:
    """Nothing connected, all well, script gone, entries gone, obstacles: each has its sentence and its fix."""
    assert checks.check_hooks(ground.keeper, None).detail == "no agent is connected"
    ground.connect("claude", "opencode")
    check = checks.check_hooks(ground.keeper, None)
    assert (check.status, check.detail) == ("ok", "connected: claude, opencode")
    assert {
        check.status for check in ground.keeper.doctor()[0] if check.name in ("modes", "hooks", "spool", "capture")
    } == {"ok"}
    (ground.home / "hooks" / "hook").unlink()
    check = checks.check_hooks(ground.keeper, None)
    assert check.status == "warning"
    assert str(check.fix).startswith("holdfast connect claude opencode, or holdfast uninstall")
    ground.connect("claude", "opencode")
    settings = json.loads(ground.claude.read_text())
    ground.claude.write_text(json.dumps(settings | {"disableAllHooks": True}))
    assert "disableAllHooks" in checks.check_hooks(ground.keeper, None).detail
    ground.claude.write_text("{}")
    check = checks.check_hooks(ground.keeper, None)
    assert "missing from the settings: claude" in check.detail
    assert check.fix is not None
    assert check.fix.startswith("holdfast connect claude")


def test_the_doctor_on_the_spool(ground: Ground) -> None:
    """Payloads that wait too long, payloads nobody understood, and troubles of hooks are named."""
    home = str(ground.home)
    assert checks.check_spool(ground.keeper, None).status == "ok"
    assert checks.check_hook_errors(ground.keeper, None).status == "ok"
    path = spool.add_payload(home, "claude", "user", 1, b"{}")
    assert "1 payload" in checks.check_spool(ground.keeper, None).detail
    os.utime(path, (0, 0))
    assert "more than an hour" in checks.check_spool(ground.keeper, None).detail
    spool.quarantine(home, spool.list_entries(home)[0])
    assert "1 payload of agents could not be understood" in checks.check_spool(ground.keeper, None).detail
    error_log.note(home, "hook", "something\x1b[2J")
    check = checks.check_hook_errors(ground.keeper, None)
    assert check.status == "warning"
    assert "something\\x1b" in check.detail


def test_installed_hooks_deliver_payloads(ground: Ground) -> None:
    """The command line that stands in the settings, run as the agent does, leaves its payload in the spool."""
    ground.connect("claude")
    hooks = plain(ground.claude)["hooks"]
    line = hooks["PostToolUse"][0]["hooks"][0]["command"]  # type: ignore[index]
    assert script.is_call(line)
    done = subprocess.run(["sh", "-c", line], input=b'{"a": 1}', capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    (kept,) = spool.list_entries(str(ground.home))
    assert (kept.agent, kept.source, kept.parent) == ("claude", "user", os.getpid())
