"""F2, F3 and F13 for `connect`, `disconnect`, `uninstall` and `init`: agents' settings are somebody else's.

Killed or refused at any call, each settings file is the old or the new one, whole; trying again finishes it; and
taking it all back leaves every byte and every directory as it was before Holdfast came.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.machine import files
from tests.faults.harness import judge
from tests.faults.harness.figures import tell
from tests.faults.harness.room import Room
from tests.faults.harness.tracing import WATCH, injected, need_strace
from tests.faults.harness.trials import decent, goes_on, judge_state, sampled, undisturbed
from tests.faults.harness.verbs import AGENTS, VERBS, Verb
from tests.faults.program import Desk, tree
from tests.faults.test_errno import faults, judged
from tests.support.scale import scale

CONNECTING = ("connect", "disconnect", "uninstall", "init")
CHOSEN = [pytest.param(verb, id=" ".join(verb.argv)) for verb in VERBS if verb.argv[0] in CONNECTING]
KILLS = scale(3, 10_000, 10_000)
FAULTS = scale(3, 60, 10_000)


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    need_strace()
    with Room() as made:
        yield made


def everything(room: Room) -> dict[str, bytes | None]:
    """What stands in the agents' directories, whatever it is called."""
    found: dict[str, bytes | None] = {}
    for own in judge.AGENTS:
        path = Path(room.root, own)
        if path.exists():
            found |= {own: None, **{f"{own}/{name}": held for name, held in tree(path).items()}}
    found |= {own: Path(room.root, own).read_bytes() for own in judge.ALONE if Path(room.root, own).is_file()}
    return found


def before_holdfast(room: Room, verb: Verb) -> dict[str, bytes | None]:
    room.prepare([step for step in verb.before if step[0] == "write"])
    return everything(room)


def taken_back(room: Room, original: dict[str, bytes | None]) -> None:
    """Disconnected, everything is as it was: no temporary file, no directory, no byte is left."""
    answer = room.run(("disconnect", *AGENTS))
    assert answer.code == 0, answer.err
    assert everything(room) == original
    assert room.run(("uninstall",)).code == 0
    assert everything(room) == original
    assert not [name for name in os.listdir(room.home) if "trial" in name]
    for own in ("hooks", "connections"):
        # What a killed writer left without a name may still be there.
        left = [path.name for path in Path(room.home, own).glob("*")]
        assert all(name.startswith(files.PREFIX) for name in left), left


@pytest.mark.parametrize("verb", CHOSEN)
def test_killed(room: Room, verb: Verb) -> None:
    """Killed at any call that changes a disk."""
    original = before_holdfast(room, verb)
    clean = undisturbed(room, verb)
    chosen = sampled(clean.calls, KILLS, seed=len(verb.name))
    for call in chosen:
        room.prepare(verb.before)
        answer = room.run(verb.argv, strace=("-e", WATCH, "-e", f"inject={call.name}:signal=KILL:when={call.nth}"))
        try:
            assert answer.code == -9, f"it did not come: {answer.code} {answer.err}"
            whole(room, clean.before, clean.after)
            goes_on(room, clean, judge_state(room, clean))
            taken_back(room, original)
        except Exception as error:
            error.add_note(f"{verb.name}, killed at {call.name} number {call.nth}: {call.line}")
            raise
    tell(fault="F2", verb=" ".join(verb.argv), kills=len(chosen))


@pytest.mark.parametrize("verb", CHOSEN)
def test_refused(room: Room, verb: Verb) -> None:
    """Whatever call fails, once or from there on: a sentence, and nothing torn."""
    original = before_holdfast(room, verb)
    clean = undisturbed(room, verb)
    # An empty directory that does not go is no reason to fail.
    found = [fault for fault in faults(clean) if fault.call.name != "rmdir"]
    chosen = sampled(found, FAULTS, seed=len(verb.name))
    for fault in chosen:
        room.prepare(verb.before)
        answer = room.run(verb.argv, strace=("-e", WATCH, "-e", fault.option))
        try:
            assert injected(answer.trace), "the call did not come"
            whole(room, clean.before, clean.after)
            decent(answer, silent=True)
            goes_on(room, clean, judged(room, clean, answer, to_person=True))
            taken_back(room, original)
        except Exception as error:
            error.add_note(f"{verb.name}, {fault.option}: {fault.call.line}")
            error.add_note(f"it ended with {answer.code}: {answer.out} {answer.err}")
            raise
    tell(fault="F3", verb=" ".join(verb.argv), injections=len(chosen))


def whole(room: Room, before: judge.View, after: judge.View) -> None:
    """Each file by itself: what it was, or what it becomes."""
    old, new = dict(before.agents), dict(after.agents)
    for name, held in judge.agents_files(room.root):
        assert held in (old.get(name, held if name not in new else None), new.get(name)), f"{name} is torn"
        assert name in old or name in new, f"{name} was not asked for"


# ── planted links ────────────────────────────────────────────────────────────────────────────────────────


def test_a_link_of_the_persons_own_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dotfiles: the link stays, the file it leads to is edited, and is what it was again."""
    desk = Desk(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    kept = tmp_path / "dotfiles" / "claude.json"
    kept.parent.mkdir()
    kept.write_text('{"model": "opus"}')
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").symlink_to(kept)
    assert desk.call("connect", "claude").code == 0
    assert (tmp_path / ".claude" / "settings.json").is_symlink()
    assert "holdfast" in kept.read_text()
    assert desk.call("disconnect", "claude").code == 0
    assert kept.read_text() == '{"model": "opus"}'
    assert (tmp_path / ".claude" / "settings.json").is_symlink()


@pytest.mark.parametrize("spot", ["hooks/hook", "hooks/ask.py", "connections/claude-user.json", "connections/.lock"])
@pytest.mark.parametrize("kind", ["link", "hard link", "fifo"])
def test_what_is_planted_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spot: str, kind: str) -> None:
    """It is refused in words or replaced; what it leads to is as it was, and the settings are whole."""
    desk = Desk(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / ".claude").mkdir()
    settings = tmp_path / ".claude" / "settings.json"
    settings.write_text('{"model": "opus"}')
    path = desk.home / spot
    path.parent.mkdir(mode=0o700, parents=True)
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "hard link":
        os.link(victim, path)
    else:
        os.mkfifo(path)
    for _ in range(2):
        answer = desk.run("connect", "claude", timeout=30)  # by itself: what hangs can be ended
        assert answer.code in (0, 1, 4, 6), answer
        assert victim.read_bytes() == b"precious"
        assert json.loads(settings.read_text())["model"] == "opus"
        if answer.code:
            assert settings.read_text() == '{"model": "opus"}'
        desk.call("disconnect", "claude")
        desk.call("uninstall")
        assert victim.read_bytes() == b"precious"
    assert files.temporaries(str(tmp_path / ".claude")) == []
    path.unlink(missing_ok=True)
    assert desk.call("connect", "claude").code == 0
    assert desk.call("disconnect", "claude").code == 0
    assert settings.read_text() == '{"model": "opus"}'
