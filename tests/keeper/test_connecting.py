"""Connecting agents and taking it back: every file to the byte, whatever happened in between."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.capture import script, spool
from holdfast.capture.places import Places
from holdfast.capture.registry import NAMES
from holdfast.core.errors import Conflict, Damaged, HoldfastError, Invalid
from holdfast.keeper import doctor_capture
from holdfast.keeper.captures import connecting, found, installing
from holdfast.keeper.captures.connecting import connect, disconnect
from holdfast.keeper.captures.connections import Connections
from holdfast.keeper.keeper import Keeper
from holdfast.machine import errorlog, files

if sys.platform == "win32":
    pytest.skip("modes and links are POSIX's", allow_module_level=True)

MINE = """{
\t// my own settings
\t"model": "opus", /* the big one */
\t"hooks": {
\t\t"Stop": [
\t\t\t{ "hooks": [{ "type": "command", "command": "say done" }] },
\t\t],
\t},
}
"""


class Ground:
    """A person's home with settings in it, a project, and Holdfast's home."""

    def __init__(self, root: Path) -> None:
        self.me, self.project, self.home = root / "me", root / "project", root / "hold fast"
        self.me.mkdir()
        self.project.mkdir()
        self.places = Places(str(self.me), str(self.project), {"PATH": ""}, sys.platform)
        self.keeper = Keeper.open(str(self.project), home=str(self.home))
        self.keeper.places = self.places
        self.claude = self.me / ".claude" / "settings.json"

    def have_settings(self, text: str = MINE, mode: int = 0o644) -> bytes:
        self.claude.parent.mkdir(exist_ok=True)
        self.claude.write_bytes(text.encode())
        self.claude.chmod(mode)
        return text.encode()

    def picture(self) -> dict[str, tuple[int, bytes | str | None]]:
        """Everything there is outside of Holdfast's home: modes, contents, where links lead."""
        seen: dict[str, tuple[int, bytes | str | None]] = {}
        for top in (self.me, self.project):
            for one in sorted(top.rglob("*")):
                info = one.lstat()
                if stat.S_ISLNK(info.st_mode):
                    seen[str(one)] = (0, os.readlink(one))
                else:
                    seen[str(one)] = (stat.S_IMODE(info.st_mode), one.read_bytes() if one.is_file() else None)
        return seen

    def connect(self, *names: str, scope: str = "user") -> list[connecting.Connected]:
        return connect(self.keeper, self.places, names, scope)  # type: ignore[arg-type]

    def disconnect(self, *names: str) -> list[connecting.Connected]:
        return disconnect(self.keeper, self.places, names)

    def memory(self) -> list[str]:
        place = self.home / "connections"
        return sorted(one.name for one in place.iterdir() if one.suffix == ".json") if place.exists() else []


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


# ── to the byte ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("scope", ["user", "project"])
def test_all_agents_there_and_back(ground: Ground, scope: str, umask: int) -> None:
    """All eight connected, connected again without a change, disconnected: every file is what it was."""
    ground.have_settings()
    (ground.me / ".gemini").mkdir()
    (ground.me / ".gemini" / "settings.json").write_text('{"a":1}')
    (ground.project / ".cursor").mkdir()
    (ground.project / ".cursor" / "hooks.json").write_text('{\r\n  "version": 1\r\n}')
    before = ground.picture()
    old = os.umask(umask)
    try:
        done = ground.connect(*NAMES, scope=scope)
        assert [one.agent for one in done] == list(NAMES)
        assert all(one.is_new for one in done)
        assert not any(one.is_new for one in ground.connect(*NAMES, scope=scope))
        assert {one.name: one.connected for one in found.find(ground.keeper, ground.places)} == dict.fromkeys(
            NAMES, scope
        )
        wide = [path for path in ground.home.rglob("*") if path.stat().st_mode & 0o077]
        assert wide == []
        assert len(ground.memory()) == len(NAMES)
        assert all(one.is_new for one in ground.disconnect(*NAMES))
    finally:
        os.umask(old)
    assert ground.picture() == before
    assert ground.memory() == []
    assert not any(one.is_new for one in ground.disconnect(*NAMES))


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
    path = Path(found.paths(str(ground.home), ground.places, "opencode", "user")[0])
    path.write_text(path.read_text() + "// mine\n")
    with pytest.raises(Conflict, match=r"holdfast\.js"):
        ground.connect("opencode")
    (done,) = ground.disconnect("opencode")
    aside = done.files[0].aside
    assert aside is not None
    assert Path(aside).read_text().endswith("// mine\n")
    assert not path.exists()


def test_never_over_a_file_that_is_not_ours(ground: Ground) -> None:
    """A stranger's file where ours belongs: exit code 5, its name, and nothing changed for any agent."""
    ground.have_settings()
    path = Path(found.paths(str(ground.home), ground.places, "copilot", "user")[0])
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
    """What is no file is refused, and nothing is changed."""
    ground.claude.mkdir(parents=True)
    before = ground.picture()
    with pytest.raises(Invalid, match="a directory"):
        ground.connect("codex", "claude")
    assert ground.picture() == before
    with pytest.raises(Invalid, match="no agent"):
        ground.connect("vim")


def test_empty_settings(ground: Ground) -> None:
    """A file with nothing in it is as good as an empty object, and is empty again afterwards."""
    ground.have_settings("")
    ground.connect("claude")
    assert "hooks" in json.loads(ground.claude.read_text())
    ground.disconnect("claude")
    assert ground.claude.read_bytes() == b""


# ── once only ────────────────────────────────────────────────────────────────────────────────────────────


def test_nobody_is_heard_twice(ground: Ground) -> None:
    """Connected for the user, an agent cannot be connected for a project, nor the other way round."""
    ground.connect("claude", "goose")
    for name in ("claude", "goose"):
        with pytest.raises(Conflict, match="the user already"):
            ground.connect(name, scope="project")
    ground.disconnect("claude")
    ground.connect("claude", scope="project")
    with pytest.raises(Conflict, match="this project already"):
        ground.connect("claude")
    elsewhere = ground.me / "other"
    elsewhere.mkdir()
    with pytest.raises(Conflict, match="of a project already"):
        connect(ground.keeper, ground.places._replace(project=str(elsewhere)), ["claude"])


def test_the_plugin_is_enough(ground: Ground) -> None:
    """With Holdfast's own plugin switched on in Claude Code, connecting it would be twice."""
    ground.have_settings('{"enabledPlugins": {"holdfast@market": true}}')
    with pytest.raises(Conflict, match="plugin"):
        ground.connect("claude")
    assert found.look(ground.keeper, ground.places, "claude").connected == "plugin"
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


# ── mending ──────────────────────────────────────────────────────────────────────────────────────────────


def test_connecting_again_mends(ground: Ground) -> None:
    """Hooks somebody took out come back; a script for another Python is written anew; the end is the beginning."""
    before = ground.have_settings()
    ground.connect("claude")
    whole = ground.claude.read_bytes()
    data = json.loads(json.dumps(_plain(ground.claude)))
    del data["hooks"]["SessionStart"]
    ground.claude.write_text(json.dumps(data, indent=2))
    hook = ground.home / "hooks" / "hook"
    hook.write_text("#!/bin/sh\n")
    (done,) = ground.connect("claude")
    assert done.is_new
    assert any("script" in note for note in done.notes)
    assert "SessionStart" in _plain(ground.claude)["hooks"]
    assert installing.is_current(str(ground.home), system=sys.platform)
    assert os.access(hook, os.X_OK)
    ground.claude.write_bytes(whole)
    ground.disconnect("claude")
    assert ground.claude.read_bytes() == before


def _plain(path: Path) -> dict[str, dict[str, object]]:
    from holdfast.capture.jsontree import Document

    document = Document(path.read_text(), str(path))
    assert document.root is not None
    value = document.plain(document.root)
    assert isinstance(value, dict)
    return value  # type: ignore[return-value]


def test_hooks_of_a_holdfast_that_is_gone(ground: Ground) -> None:
    """Entries whose home is gone are named, and replaced by connecting; those of a living one are left alone."""
    ground.have_settings()
    gone, other = ground.me / "gone", ground.me / "other"
    for home in (gone, other):
        connect(Keeper.open(str(ground.project), home=str(home)), ground.places, ["claude"])
    for path in sorted(gone.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    left = found.look(ground.keeper, ground.places, "claude").leftovers
    assert {(one.home, one.gone) for one in left} == {(str(gone), True), (str(other), False)}
    check = doctor_capture.hooks(ground.keeper, None)
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
    for one in (ground.home / "connections").glob("*.json"):
        one.unlink()
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
    assert ground.keeper.doctor()[0][-3].status == "failed"


# ── killed at any moment ─────────────────────────────────────────────────────────────────────────────────

_KILL = """
import os, sys
from holdfast.capture.places import Places
from holdfast.keeper.captures import connecting, connections, installing, steps
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
kept = connections.Connections
for owner, name in ((kept, "remember"), (kept, "forget"), (files, "write_atomic"), (files, "make_private_dir"),
                    (os, "unlink"), (os, "rmdir"), (os, "chmod"), (os, "rename")):
    counted(owner, name)
me, project, home, what = sys.argv[1:5]
places = Places(me, project, {"PATH": ""}, sys.platform)
getattr(connecting, what)(Keeper.open(project, home=home), places, ["claude", "goose", "cline"])
"""


def _killed(ground: Ground, what: str, after: int) -> int:
    words = [str(ground.me), str(ground.project), str(ground.home), what, str(after)]
    return subprocess.run([sys.executable, "-c", _KILL, *words], check=False).returncode


@pytest.mark.parametrize("after", range(1, 140, 9))
@pytest.mark.parametrize("what", ["connect", "disconnect"])
def test_killed_between_any_two_steps(ground: Ground, what: str, after: int) -> None:
    """Whenever it is killed, the next connect connects, and the next disconnect restores every byte."""
    ground.have_settings()
    before = ground.picture()
    if what == "disconnect":
        ground.connect("claude", "goose", "cline")
    assert _killed(ground, what, after) in (0, 9)
    ground.connect("claude", "goose", "cline")
    assert {one.name for one in found.find(ground.keeper, ground.places) if one.connected} == {
        "claude",
        "goose",
        "cline",
    }
    ground.disconnect("claude", "goose", "cline")
    assert ground.picture() == before
    assert _killed(ground, "connect", after) in (0, 9)
    ground.disconnect("claude", "goose", "cline")
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
    assert [one.wait() for one in running] == [0] * 4
    assert not ground.connect("claude", "goose", "cline")[0].is_new
    ground.disconnect("claude", "goose", "cline")
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
    assert doctor_capture.hooks(ground.keeper, None).detail == "no agent is connected"
    ground.connect("claude", "opencode")
    check = doctor_capture.hooks(ground.keeper, None)
    assert (check.status, check.detail) == ("ok", "claude, opencode can be heard")
    assert {
        one.status for one in ground.keeper.doctor()[0] if one.name in ("modes", "hooks", "spool", "capture")
    } == {"ok"}
    (ground.home / "hooks" / "hook").unlink()
    check = doctor_capture.hooks(ground.keeper, None)
    assert (check.status, check.fix) == ("warning", "holdfast connect claude opencode")
    ground.connect("claude", "opencode")
    settings = json.loads(ground.claude.read_text())
    ground.claude.write_text(json.dumps(settings | {"disableAllHooks": True}))
    assert "disableAllHooks" in doctor_capture.hooks(ground.keeper, None).detail
    ground.claude.write_text("{}")
    check = doctor_capture.hooks(ground.keeper, None)
    assert "gone from its settings: claude" in check.detail
    assert check.fix is not None
    assert check.fix.startswith("holdfast connect claude")


def test_the_doctor_on_the_spool(ground: Ground) -> None:
    """Payloads that wait too long, payloads nobody understood, and troubles of hooks are named."""
    home = str(ground.home)
    assert doctor_capture.waiting(ground.keeper, None).status == "ok"
    assert doctor_capture.troubles(ground.keeper, None).status == "ok"
    path = spool.hand_over(home, "claude", "user", 1, b"{}")
    assert "1 payload" in doctor_capture.waiting(ground.keeper, None).detail
    os.utime(path, (0, 0))
    assert "more than an hour" in doctor_capture.waiting(ground.keeper, None).detail
    spool.put_aside(home, spool.waiting(home)[0])
    assert "nothing could be made of 1 payload" in doctor_capture.waiting(ground.keeper, None).detail
    errorlog.note(home, "hook", "something\x1b[2J")
    check = doctor_capture.troubles(ground.keeper, None)
    assert check.status == "warning"
    assert "something\\x1b" in check.detail


def test_real_hooks_are_heard(ground: Ground) -> None:
    """The command line that stands in the settings, run as the agent does, leaves its payload in the spool."""
    ground.connect("claude")
    hooks = _plain(ground.claude)["hooks"]
    line = hooks["PostToolUse"][0]["hooks"][0]["command"]  # type: ignore[index]
    assert script.is_call(line)
    done = subprocess.run(["sh", "-c", line], input=b'{"a": 1}', capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    (kept,) = spool.waiting(str(ground.home))
    assert (kept.agent, kept.source, kept.parent) == ("claude", "user", os.getpid())
