"""F13 and F14 for capture: hooks never write through what is planted in the home, and what they create is private."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from holdfast.machine import error_log
from holdfast.workspace import spool
from tests.faults.connected_agent import HANGING, SILENT, WAYS, Hooked, Way, command_payload, prompt_payload
from tests.faults.sandbox import tree

PRECIOUS = b"precious"
# Paths that hooks, drains and status lines write to.
SPOTS = ("spool", "errors.log", "opened", "glances", "store.db", "writer.json")
KINDS = ("link to a file", "link to a directory", "link to nothing", "hard link", "fifo", "directory")


def plant(spot: Path, kind: str, victim: Path) -> None:
    """Put something else at the path of one of our files or directories."""
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
def test_hook_never_writes_through_what_is_planted_in_the_home(tmp_path: Path, spot: str, kind: str) -> None:
    """It is silent and does not block, and the target of a link is unchanged."""
    hooked = Hooked(tmp_path)
    victim = tmp_path / "victim"
    plant(hooked.home / spot, kind, victim)
    assert hooked.run_hook(command_payload("talk-1/0", cwd=hooked.project), "tell") == SILENT
    assert hooked.run_hook(b"nonsense", "tell") == SILENT
    assert hooked.run_hook(b"", "python") == SILENT  # which is logged
    assert hooked.run_hook(prompt_payload(cwd=hooked.project), "python") == SILENT
    answer = hooked.run("status", timeout=HANGING)
    assert answer.code in (0, 1, 4, 6), answer
    assert "Traceback" not in answer.err
    assert (victim / "inner").read_bytes() == PRECIOUS
    assert not (victim / "nothing").exists() or (victim / "nothing").is_dir()
    if kind != "link to a directory":  # a link of the user to their own directory is their choice
        assert sorted(os.listdir(victim)) == ["inner"]


@pytest.mark.parametrize("kind", ["link to a file", "link to nothing", "hard link", "fifo"])
@pytest.mark.parametrize("way", WAYS[:1] + WAYS[3:])
def test_hook_ignores_what_is_planted_in_the_spool(tmp_path: Path, kind: str, way: Way) -> None:
    """Links, pipes and directories among the payloads are skipped; hooks choose another name."""
    hooked = Hooked(tmp_path)
    victim = tmp_path / "victim"
    target = hooked.home / "spool" / "claude.user.1.7"
    plant(target, kind, victim)
    assert hooked.run_hook(command_payload("talk-1/0", cwd=hooked.project), way) == SILENT
    assert hooked.commands() == {"talk-1": ["0"]}
    assert (victim / "inner").read_bytes() == PRECIOUS
    assert sorted(os.listdir(victim)) == ["inner"]


def test_guessed_payload_name_does_not_redirect_a_hook(tmp_path: Path) -> None:
    """Somebody plants a link under the name of the next payload."""
    hooked = Hooked(tmp_path)
    victim = tmp_path / "victim"
    victim.write_bytes(PRECIOUS)
    # The shell's process id is part of the name, so the link is certainly in its way.
    plant_then = (
        'ln -s "$1" "$2/spool/claude.user.$PPID.$$"; ln "$1" "$2/spool/claude.user.$PPID.$$.1"; shift 2; exec "$@"'
    )
    done = subprocess.run(
        ["sh", "-c", plant_then, "sh", str(victim), str(hooked.home), *hooked.hook_command("tell")],
        input=command_payload("talk-1/0", cwd=hooked.project), capture_output=True, check=False, env=hooked.environ,
        cwd=hooked.project, timeout=HANGING,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == SILENT
    assert victim.read_bytes() == PRECIOUS
    assert hooked.commands()["talk-1"] == ["0"]
    assert victim.read_bytes() == PRECIOUS


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_hook_files_are_private(tmp_path: Path, mask: int) -> None:
    """Whatever the umask: payloads, spool, quarantine, session starts, status cache, error log."""
    hooked = Hooked(tmp_path)
    os.rmdir(hooked.home / "spool")
    before = ("sh", "-c", f'umask {mask:04o}; exec "$@"', "sh")
    start = (
        prompt_payload(cwd=hooked.project)
        .replace(b"UserPromptSubmit", b"SessionStart")
        .replace(b'"prompt"', b'"model"')
    )
    for number, way in enumerate(WAYS):
        for payload in (
            start,
            command_payload(f"talk-1/{number}", cwd=hooked.project),
            b"nonsense",
            b"",
            prompt_payload(cwd=hooked.project),
        ):
            hooked.run_hook(payload, way, before=before)
            assert wrong_modes(hooked.home) == [], way
    for entry in spool.list_entries(str(hooked.home)):
        os.utime(entry.path, (1_794_000_000, 1_794_000_000))
    (hooked.home / "glances").mkdir(mode=0o700, exist_ok=True)
    status = [*before, hooked.hook, "claude", "status", "user"]
    subprocess.run(status, input=start, env=hooked.environ, cwd=hooked.project, check=True, capture_output=True)
    hooked.drain()
    error_log.note(str(hooked.home), "test", "x")
    assert wrong_modes(hooked.home) == []
    assert {"spool", "errors.log", "glances"} <= set(os.listdir(hooked.home))
    assert sorted(hooked.commands()["talk-1"]) == ["0", "1", "2", "3"]


def wrong_modes(place: Path) -> list[str]:
    wrong = []
    for path in place.rglob("*"):
        try:
            info = path.lstat()
        except FileNotFoundError:  # a process in the background closed the store
            continue
        due = 0o700 if stat.S_ISDIR(info.st_mode) or path.name in ("hook", "holdfast-mcp") else 0o600
        if stat.S_IMODE(info.st_mode) != due:
            wrong.append(f"{path.relative_to(place)} is {stat.S_IMODE(info.st_mode):04o}")
    return wrong


def test_hook_writes_only_to_the_home(tmp_path: Path) -> None:
    hooked = Hooked(tmp_path)
    for way in WAYS:
        assert hooked.run_hook(command_payload(f"talk-1/{way}", cwd=hooked.project), way) == SILENT
    hooked.drain()
    assert tree(hooked.project) == {}
    assert sorted(os.listdir(tmp_path)) == ["home", "project"]
