"""Temporary files: those of dead writers are known and removed, those of living ones are left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.machine import files

NOW = 1_794_000_000_000
HOUR = 3_600_000
# Writes a file, and stays between the writing and the name until somebody says something.
WRITER = """
import os, sys
from holdfast.machine import files
rename = os.rename
def wait_first(*words, **more):
    print(flush=True)
    sys.stdin.readline()
    return rename(*words, **more)
os.rename = wait_first
files.write_atomic(sys.argv[1], b"new")
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def writer(home: Path) -> Iterator[subprocess.Popen[str]]:
    """A process in the middle of writing `state` in the home."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(home / "state")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "\n"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)


def note(home: Path) -> None:
    with Keeper.open(str(home.parent), home=str(home)) as keeper:
        if keeper.existing_store() is None:
            keeper.start("the goal")
        else:
            keeper.session().note("a note")


def left(directory: Path) -> list[str]:
    return [os.path.basename(path) for path in files.temporaries(str(directory))]


def test_what_a_killed_process_left_is_removed_by_the_next_that_writes(
    home: Path, writer: subprocess.Popen[str]
) -> None:
    """At once: nobody has to wait for an hour, or to call the doctor."""
    assert len(left(home)) == 1
    writer.kill()
    writer.wait(60)
    assert len(left(home)) == 1
    note(home)
    assert left(home) == []


def test_what_a_living_process_writes_is_left_alone_however_long_it_takes(
    home: Path, writer: subprocess.Popen[str]
) -> None:
    """A process that is stopped for hours goes on afterwards, and its file gets its name."""
    (path,) = files.temporaries(str(home))
    os.utime(path, (1, 1))
    assert files.abandoned_temporaries(str(home), NOW) == []
    note(home)
    writer.communicate("go on\n", timeout=60)
    assert writer.returncode == 0
    assert (home / "state").read_bytes() == b"new"
    assert left(home) == []


def test_leftovers_are_removed_in_the_home_and_next_to_its_store(home: Path, tmp_path: Path) -> None:
    """But in no project, where what was written may be somebody else's."""
    store, project = tmp_path / "elsewhere", tmp_path / "project"
    places = (home, home / "glances", home / "mirrors", store, project)
    for place in places:
        place.mkdir(exist_ok=True)
        (place / _name(_of_nobody())).touch()
        (place / (_name(_of_nobody()) + "-journal")).touch()
    with Keeper.open(str(project), home=str(home), store=f"sqlite:///{store}/store.db") as keeper:
        keeper.start("the goal")
    assert [len(left(place)) for place in places] == [0, 0, 0, 0, 2]


def _own() -> str:
    return files.temporary_name().removesuffix(files.SUFFIX).split(".", 2)[2]


def _of_nobody() -> str:
    """A process of this machine that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(60)
    numbering, _, started = _own().split(".", 2)
    return f"{numbering}.{ended.pid}.{started}"


def _name(label: str) -> str:
    return f"{files.PREFIX}{os.urandom(8).hex()}{label and '.'}{label}{files.SUFFIX}"


def _labels() -> dict[str, tuple[str, bool, bool]]:
    """What names say of their writers, and whether the file is abandoned: right away, and after an hour."""
    numbering, pid, started = _own().split(".", 2)
    return {
        "ours": (_own(), False, False),
        "dead": (_of_nobody(), True, True),
        "number given out again": (f"{numbering}.{pid}.{started}1", True, True),
        "other numbers": (f"{'0' * 12}.{pid}.{started}", False, True),
        "start unknown": (f"{numbering}.{pid}.", False, True),
        "no number": (f"{numbering}.x.{started}", False, True),
        "number too large": (f"{numbering}.{10**30}.{started}", True, True),
        "of an earlier version": ("", False, True),
    }


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_abandoned_files_are_known_by_their_writers(home: Path, ending: str) -> None:
    """Dead for certain, alive for certain, or not to be known: then an hour without a write decides."""
    for what, (label, soon, late) in _labels().items():
        path = home / (_name(label) + ending)
        path.touch()
        os.utime(path, ns=((NOW - HOUR) * 1_000_000,) * 2)
        assert (files.abandoned_temporaries(str(home), NOW) == [str(path)]) is soon, what
        assert (files.abandoned_temporaries(str(home), NOW + 1) == [str(path)]) is late, what
        path.unlink()
