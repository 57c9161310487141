"""Mirrors under faults: obstacles are reported, kills lose nothing, no reader gets a partial file."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.formats import registry
from holdfast.formats.remainder import render_with_remainder
from tests.support.scale import scale

FORMATS = ("orchestrator", "timer", "contract", "craft")
ORCHESTRATOR = ".claude/orchestrator-session.json"
TIMER = ".claude/session-state.json"
CRAFT = ".craft/cache/orchestration-sessions"
FOLDERS = {"orchestrator": ".claude", "timer": ".claude", "contract": ".ai-session", "craft": CRAFT}
root_writes = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere, and Windows has no modes"
)


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    (tmp_path / "project").mkdir()
    with Keeper.open(str(tmp_path / "project"), home=str(tmp_path / "home")) as keeper:
        yield keeper


@pytest.fixture
def project(keeper: Keeper) -> Path:
    return Path(keeper.place.root)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    return tmp_path / "outside"


def assert_mirrors_match(keeper: Keeper, project: Path) -> None:
    """The current session's JSON files equal an export, and its history has every event."""
    session = keeper.session()
    state = keeper.state(session.id)
    for name, path in (("orchestrator", ORCHESTRATOR), ("timer", TIMER), ("craft", f"{CRAFT}/{session.id}.json")):
        assert json.loads((project / path).read_text()) == render_with_remainder(
            state, registry.format_named(name)
        ), name
    assert [mirrored.failure for mirrored in keeper.mirrors.status()] == [None] * 4
    (feature,) = [path for path in (project / ".ai-session").iterdir() if path.is_dir()]
    hashes = [json.loads(line)["x-holdfast"]["hash"] for line in (feature / "history.jsonl").read_text().splitlines()]
    assert hashes == [event.hash for event in keeper.events(session.id)]


def snapshot(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


# ── obstacles ────────────────────────────────────────────────────────────────────────────────────────────


def as_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside, target_is_directory=True)


def as_file(path: Path, _: Path) -> None:
    path.write_text("in the way\n")


@pytest.mark.parametrize("obstacle", [as_link, as_file])
@pytest.mark.parametrize("name", FORMATS)
def test_mirror_reports_a_link_or_file_in_place_of_its_directory(
    name: str, obstacle: Callable[[Path, Path], None], keeper: Keeper, project: Path, outside: Path
) -> None:
    """The command works; nothing is written elsewhere; with the obstacle removed, the files appear."""
    directory = project / FOLDERS[name]
    keeper.mirrors.switch_on(name)
    shutil.rmtree(directory, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    obstacle(directory, outside)
    session = keeper.start("Build the shop")
    session.note("on")
    assert session.document().notes[0].text == "on"
    assert any(name in sentence and "could not be written" in sentence for sentence in keeper.notices)
    (mirror,) = keeper.mirrors.status()
    assert mirror.failure
    check = next(check for check in keeper.doctor()[0] if check.name == "mirrors")
    assert (check.status, name in check.detail) == ("warning", True)
    assert list(outside.iterdir()) == []
    directory.unlink()
    keeper.notices.clear()
    assert session.document().notes[0].text == "on"
    (mirror,) = keeper.mirrors.status()
    assert (mirror.failure, bool(mirror.paths), keeper.notices) == (None, True, [])


def test_mirror_does_not_follow_a_link_planted_later(keeper: Keeper, project: Path, outside: Path) -> None:
    """The directory is moved away and replaced by a link, with files behind it that look like ours."""
    for name in FORMATS:
        keeper.mirrors.switch_on(name)
    session = keeper.start("Build the shop")
    for folder in (".claude", ".craft", ".ai-session"):
        shutil.copytree(project / folder, outside / folder)
        os.rename(project / folder, project / f"{folder}-away")
        (project / folder).symlink_to(outside / folder, target_is_directory=True)
    (outside / ORCHESTRATOR).write_text("{broken")
    before = snapshot(outside)
    session.decide("Brick")
    session.document()
    assert snapshot(outside) == before
    assert len([mirrored for mirrored in keeper.mirrors.status() if mirrored.failure]) == 4
    for folder in (".claude", ".craft", ".ai-session"):
        (project / folder).unlink()
        os.rename(project / f"{folder}-away", project / folder)
    session.decide("Stone")
    assert_mirrors_match(keeper, project)


def link_to(path: Path, outside: Path) -> None:
    (outside / "theirs.json").write_text("theirs\n")
    path.symlink_to(outside / "theirs.json")


def fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def directory(path: Path, _: Path) -> None:
    path.mkdir()


@pytest.mark.skipif(sys.platform == "win32", reason="links and FIFOs as Unix has them")
@pytest.mark.parametrize("plant", [link_to, fifo, directory])
@pytest.mark.parametrize("path", [ORCHESTRATOR, TIMER, f"{CRAFT}/index.json", ".ai-session/active-features.yaml"])
def test_mirror_reports_something_else_in_place_of_its_file(
    path: str, plant: Callable[[Path, Path], None], keeper: Keeper, project: Path, outside: Path
) -> None:
    for name in FORMATS:
        keeper.mirrors.switch_on(name)
    session = keeper.start("Build the shop")
    (project / path).unlink()
    plant(project / path, outside)
    before = snapshot(outside)
    session.note("on")
    assert session.document().notes[0].text == "on"
    assert any("could not be written" in sentence for sentence in keeper.notices)
    assert [bool(mirrored.failure) for mirrored in keeper.mirrors.status()].count(True) == 1
    assert snapshot(outside) == before
    if (project / path).is_dir() and not (project / path).is_symlink():
        (project / path).rmdir()
    else:
        (project / path).unlink()
    session.note("free")
    assert_mirrors_match(keeper, project)


@root_writes
@pytest.mark.parametrize("folder", [".claude", CRAFT, ".ai-session"])
def test_mirror_recovers_from_an_unwritable_directory(folder: str, keeper: Keeper, project: Path) -> None:
    for name in FORMATS:
        keeper.mirrors.switch_on(name)
    session = keeper.start("Build the shop")
    (project / folder).chmod(0o500)
    try:
        session.note("on")
        assert session.document().notes[0].text == "on"
        assert any(mirrored.failure for mirrored in keeper.mirrors.status())
    finally:
        (project / folder).chmod(0o700)
    session.note("free")
    assert_mirrors_match(keeper, project)


def test_mirror_recovers_from_failing_writes(keeper: Keeper, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like a full disk, but only for the project: the log has everything, and the files follow."""
    for name in FORMATS:
        keeper.mirrors.switch_on(name)
    session = keeper.start("Build the shop")
    before = snapshot(project)
    real = os.write

    def full(fd: int, data: bytes) -> int:
        if os.readlink(f"/proc/self/fd/{fd}").startswith(str(project)):
            raise OSError(28, "No space left on device")
        return real(fd, data)

    if not Path("/proc/self/fd").exists():
        pytest.skip("which file is written is known from /proc")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        session.decide("Brick")
        assert [decision.chosen for decision in session.document().decisions] == ["Brick"]
        assert all(mirrored.failure for mirrored in keeper.mirrors.status())
        after = {path: data for path, data in snapshot(project).items() if not path.endswith(".lock")}
        assert after == {path: data for path, data in before.items() if not path.endswith(".lock")}
    session.decide("Stone")
    assert_mirrors_match(keeper, project)


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("unshare") is None, reason="needs Linux's unshare")
def test_mirror_recovers_from_a_full_disk(tmp_path: Path) -> None:
    """The project is on a small file system that is filled; the home has space."""
    if subprocess.run(["unshare", "-Urm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system does not permit user namespaces: no small file system can be mounted")
    script = """
import sys, os, json
from pathlib import Path
from holdfast import Keeper
import subprocess
place = Path(sys.argv[1]); disk = place / "disk"; disk.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=True)
with Keeper.open(str(disk), home=str(place / "home")) as keeper:
    for name in ("orchestrator", "timer", "contract", "craft"): keeper.mirrors.switch_on(name)
    session = keeper.start("Build the shop")
    with (disk / "fill").open("ab", buffering=0) as file:
        for size in (1 << 16, 4096, 256, 1):
            try:
                while file.write(bytes(size)): pass
            except OSError: pass
    session.decide("Brick")
    notices = list(keeper.notices)
    before = (disk / ".claude/orchestrator-session.json").read_text()
    (disk / "fill").unlink()
    keeper.notices.clear()
    chosen = [decision.chosen for decision in session.document().decisions]
    after = json.loads((disk / ".claude/orchestrator-session.json").read_text())
    print(json.dumps([notices, json.loads(before)["decisions_made"], chosen, after["decisions_made"][0]["decision"],
                      [mirror.failure for mirror in keeper.mirrors.status()], keeper.notices]))
"""
    done = subprocess.run(
        ["unshare", "-Urm", sys.executable, "-c", script, str(tmp_path)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    notices, before, chosen, after, failures, later_notices = json.loads(done.stdout)
    assert notices
    assert before == []
    assert (chosen, after, failures, later_notices) == (["Brick"], "Brick", [None] * 4, [])


# ── killed ───────────────────────────────────────────────────────────────────────────────────────────────


WORKER = """
import sys
from holdfast import Keeper
with Keeper.open(sys.argv[1], home=sys.argv[2]) as keeper:
    session = keeper.session()
    print("ready", flush=True)
    number = 0
    while True:
        session.decide(f"{sys.argv[3]}-{number}")
        print(number, flush=True)
        number += 1
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
@pytest.mark.parametrize("seed", range(scale(3, 10, 40)))
def test_mirrors_match_after_kills_at_random(seed: int, keeper: Keeper, project: Path) -> None:
    """After one read everything is equal again; what was acknowledged is there, and nothing twice."""
    for name in FORMATS:
        keeper.mirrors.switch_on(name)
    session = keeper.start("Build the shop")
    rng = random.Random(seed)
    acknowledged: list[str] = []
    for life in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", WORKER, str(project), keeper.home.path, str(life)],
            stdout=subprocess.PIPE, text=True,
        ) as worker:  # fmt: skip
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0.0, 0.25))
            worker.send_signal(signal.SIGKILL)
            acknowledged += [f"{life}-{line.strip()}" for line in worker.stdout if line.strip()]
        chosen = [decision.chosen for decision in session.document().decisions]
        assert [name for name in chosen if name in acknowledged] == acknowledged
        assert len(set(chosen)) == len(chosen)
        assert_mirrors_match(keeper, project)
        assert list(project.rglob("*.rejected-*")) == []
    assert keeper.notices == []


# ── read while written ───────────────────────────────────────────────────────────────────────────────────


READER = """
import sys, json
paths, count = sys.argv[2:], int(sys.argv[1])
print("ready", flush=True)
for number in range(count):
    for path in paths:
        with open(path, "rb") as file:
            data = file.read()
        if not data.endswith(b"\\n") or number % 16 == 0 and path.endswith(".json"):
            json.loads(data)
print("done", flush=True)
"""


def test_reader_never_sees_a_torn_or_missing_mirror(keeper: Keeper, project: Path) -> None:
    for name in FORMATS:
        keeper.mirrors.switch_on(name)
    session = keeper.start("Build the shop")
    (feature,) = [path for path in (project / ".ai-session").iterdir() if path.is_dir()]
    watched = [
        project / ORCHESTRATOR, project / TIMER, project / CRAFT / f"{session.id}.json",
        project / CRAFT / "index.json",
        feature / "state.yaml", feature / "implementation-plan.yaml", project / ".ai-session/active-features.yaml",
    ]  # fmt: skip
    times = scale(20_000, 1_000_000, 10_000_000) // len(watched) + 1
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(times), *map(str, watched)], stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        written = 0
        while reader.poll() is None:
            session.edit(goal=f"Build the shop, take {written}")
            written += 1
        assert reader.stdout.read() == "done\n"
    assert reader.returncode == 0
    assert written > 1
    assert_mirrors_match(keeper, project)


def test_doctor_removes_temporary_mirrors_of_killed_writers(keeper: Keeper, project: Path) -> None:
    """Our own old files; files of other programs are reported and stay; new files stay."""
    keeper.mirrors.switch_on("orchestrator")
    keeper.start("Build the shop")
    ours, theirs, new = (project / ".claude" / f".holdfast-{name}.tmp" for name in ("a", "b", "c"))
    for path in (ours, new):
        path.write_bytes((project / ORCHESTRATOR).read_bytes())
    theirs.write_text("theirs")
    long_ago = time.time() - 7200
    for path in (ours, theirs):
        os.utime(path, (long_ago, long_ago))
    _, done = keeper.doctor(repair=True)
    assert [path.exists() for path in (ours, theirs, new)] == [False, True, True]
    assert any(str(ours) in sentence for sentence in done)
    assert any(str(theirs) in sentence for sentence in done)
