"""F13 and F14 for capture: what is planted where hooks write stays as it is, and what they make is their owner's."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from holdfast.machine import error_log
from holdfast.workspace import spool
from tests.faults.connected_agent import HANGING, SILENT, WAYS, Hooked, Way, asked, ran
from tests.faults.program import tree

PRECIOUS = b"precious"
# Where hooks, drains and status lines put something.
SPOTS = ("spool", "errors.log", "opened", "glances", "store.db", "writer.json")
KINDS = ("link to a file", "link to a directory", "link to nothing", "hard link", "fifo", "directory")


def plant(spot: Path, kind: str, victim: Path) -> None:
    """Put something else where a file or directory of ours belongs."""
    victim.mkdir()
    (victim / "inner").write_bytes(PRECIOUS)
    if spot.is_dir() and not spot.is_symlink():
        for path in spot.iterdir():
            path.unlink()
        spot.rmdir()
    else:
        spot.unlink(missing_ok=True)
    match kind:
        case "link to a file":
            spot.symlink_to(victim / "inner")
        case "link to a directory":
            spot.symlink_to(victim)
        case "link to nothing":
            spot.symlink_to(victim / "nothing")
        case "hard link":
            os.link(victim / "inner", spot)
        case "fifo":
            os.mkfifo(spot)
        case "directory":
            spot.mkdir(mode=0o700)


@pytest.mark.parametrize("spot", SPOTS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_planted_in_the_home(tmp_path: Path, spot: str, kind: str) -> None:
    """Hooks stay silent, nobody hangs, and what a link leads to is as it was."""
    hooked = Hooked(tmp_path)
    victim = tmp_path / "victim"
    plant(hooked.home / spot, kind, victim)
    assert hooked.say(ran("talk-1/0", cwd=hooked.project), "tell") == SILENT
    assert hooked.say(b"nonsense", "tell") == SILENT
    assert hooked.say(b"", "python") == SILENT  # which is noted
    assert hooked.say(asked(cwd=hooked.project), "python") == SILENT
    answer = hooked.run("status", timeout=HANGING)
    assert answer.code in (0, 1, 4, 6), answer
    assert "Traceback" not in answer.err
    assert (victim / "inner").read_bytes() == PRECIOUS
    assert not (victim / "nothing").exists() or (victim / "nothing").is_dir()
    if kind != "link to a directory":  # a directory of the person's own behind their own link is one they chose
        assert sorted(os.listdir(victim)) == ["inner"]


@pytest.mark.parametrize("kind", ["link to a file", "link to nothing", "hard link", "fifo"])
@pytest.mark.parametrize("way", WAYS[:1] + WAYS[3:])
def test_what_is_planted_in_the_spool(tmp_path: Path, kind: str, way: Way) -> None:
    """Links, pipes and directories among the payloads are passed over; hooks find another name."""
    hooked = Hooked(tmp_path)
    victim = tmp_path / "victim"
    target = hooked.home / "spool" / "claude.user.1.7"
    plant(target, kind, victim)
    assert hooked.say(ran("talk-1/0", cwd=hooked.project), way) == SILENT
    assert hooked.commands() == {"talk-1": ["0"]}
    assert (victim / "inner").read_bytes() == PRECIOUS
    assert sorted(os.listdir(victim)) == ["inner"]


def test_a_race_for_the_names_of_payloads(tmp_path: Path) -> None:
    """Whoever guesses the name of the next payload and plants a link there reaches nothing by it."""
    hooked = Hooked(tmp_path)
    victim = tmp_path / "victim"
    victim.write_bytes(PRECIOUS)
    # The shell has the number that its name is made of before it looks: so it is certain to meet the link.
    plant_then = (
        'ln -s "$1" "$2/spool/claude.user.$PPID.$$"; ln "$1" "$2/spool/claude.user.$PPID.$$.1"; shift 2; exec "$@"'
    )
    done = subprocess.run(
        ["sh", "-c", plant_then, "sh", str(victim), str(hooked.home), *hooked.words("tell")],
        input=ran("talk-1/0", cwd=hooked.project), capture_output=True, check=False, env=hooked.environ,
        cwd=hooked.project, timeout=HANGING,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == SILENT
    assert victim.read_bytes() == PRECIOUS
    assert hooked.commands()["talk-1"] == ["0"]
    assert victim.read_bytes() == PRECIOUS


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_everything_is_private(tmp_path: Path, mask: int) -> None:
    """Whatever the umask: payloads, the spool, what is put aside, openings, glances, the error log."""
    hooked = Hooked(tmp_path)
    os.rmdir(hooked.home / "spool")
    before = ("sh", "-c", f'umask {mask:04o}; exec "$@"', "sh")
    start = asked(cwd=hooked.project).replace(b"UserPromptSubmit", b"SessionStart").replace(b'"prompt"', b'"model"')
    for number, way in enumerate(WAYS):
        for given in (
            start,
            ran(f"talk-1/{number}", cwd=hooked.project),
            b"nonsense",
            b"",
            asked(cwd=hooked.project),
        ):
            hooked.say(given, way, before=before)
            assert wide(hooked.home) == [], way
    for entry in spool.list_entries(str(hooked.home)):
        os.utime(entry.path, (1_794_000_000, 1_794_000_000))
    (hooked.home / "glances").mkdir(mode=0o700, exist_ok=True)
    status = [*before, hooked.hook, "claude", "status", "user"]
    subprocess.run(status, input=start, env=hooked.environ, cwd=hooked.project, check=True, capture_output=True)
    hooked.take_in()
    error_log.note(str(hooked.home), "test", "x")
    assert wide(hooked.home) == []
    assert {"spool", "errors.log", "glances"} <= set(os.listdir(hooked.home))
    assert sorted(hooked.commands()["talk-1"]) == ["0", "1", "2", "3"]


def wide(place: Path) -> list[str]:
    found = []
    for path in place.rglob("*"):
        info = path.lstat()
        due = 0o700 if stat.S_ISDIR(info.st_mode) or path.name in ("hook", "holdfast-mcp") else 0o600
        if stat.S_IMODE(info.st_mode) != due:
            found.append(f"{path.relative_to(place)} is {stat.S_IMODE(info.st_mode):04o}")
    return found


def test_nothing_of_the_project_is_touched(tmp_path: Path) -> None:
    """All of it happens in the home."""
    hooked = Hooked(tmp_path)
    for way in WAYS:
        assert hooked.say(ran(f"talk-1/{way}", cwd=hooked.project), way) == SILENT
    hooked.take_in()
    assert tree(hooked.project) == {}
    assert sorted(os.listdir(tmp_path)) == ["home", "project"]
