"""Temporary files of dead writers are recognized and removed; those of living writers are kept."""

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
# Writes a file, and waits for a line of input between writing and renaming.
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
    """A process that is in the middle of writing `state` in the home."""
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


def temporaries_in(directory: Path) -> list[str]:
    return [os.path.basename(path) for path in files.temporaries(str(directory))]


def test_temporary_of_a_killed_writer_is_removed_by_the_next_writer(
    home: Path, writer: subprocess.Popen[str]
) -> None:
    """At once, without the doctor."""
    assert len(temporaries_in(home)) == 1
    writer.kill()
    writer.wait(60)
    assert len(temporaries_in(home)) == 1
    note(home)
    assert temporaries_in(home) == []


def test_temporary_of_a_living_writer_is_kept_at_any_age(home: Path, writer: subprocess.Popen[str]) -> None:
    """A process that was stopped for hours continues and renames its file."""
    (path,) = files.temporaries(str(home))
    os.utime(path, (1, 1))
    assert files.abandoned_temporaries(str(home), NOW) == []
    note(home)
    writer.communicate("go on\n", timeout=60)
    assert writer.returncode == 0
    assert (home / "state").read_bytes() == b"new"
    assert temporaries_in(home) == []


def test_abandoned_temporaries_are_removed_in_the_home_and_next_to_its_store(home: Path, tmp_path: Path) -> None:
    """Not in a project, where they may be another user's."""
    store, project = tmp_path / "elsewhere", tmp_path / "project"
    places = (home, home / "glances", home / "mirrors", store, project)
    for place in places:
        place.mkdir(exist_ok=True)
        (place / _name(_ended_label())).touch()
        (place / (_name(_ended_label()) + "-journal")).touch()
    with Keeper.open(str(project), home=str(home), store=f"sqlite:///{store}/store.db") as keeper:
        keeper.start("the goal")
    assert [len(temporaries_in(place)) for place in places] == [0, 0, 0, 0, 2]


def _own_label() -> str:
    return files.temporary_name().removesuffix(files.SUFFIX).split(".", 2)[2]


def _ended_label() -> str:
    """The label of a process of this machine that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(60)
    numbering, _, started = _own_label().split(".", 2)
    return f"{numbering}.{ended.pid}.{started}"


def _name(label: str) -> str:
    return f"{files.PREFIX}{os.urandom(8).hex()}{label and '.'}{label}{files.SUFFIX}"


def _labels() -> dict[str, tuple[str, bool, bool]]:
    """Labels of writers, and whether their file is abandoned at once and after an hour."""
    numbering, pid, started = _own_label().split(".", 2)
    return {
        "ours": (_own_label(), False, False),
        "dead": (_ended_label(), True, True),
        "number given out again": (f"{numbering}.{pid}.{started}1", True, True),
        "other numbers": (f"{'0' * 12}.{pid}.{started}", False, True),
        "start unknown": (f"{numbering}.{pid}.", False, True),
        "no number": (f"{numbering}.x.{started}", False, True),
        "number too large": (f"{numbering}.{10**30}.{started}", True, True),
        "of an earlier version": ("", False, True),
    }


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_temporary_is_abandoned_when_its_writer_is_dead_or_unknown_for_an_hour(home: Path, ending: str) -> None:
    for what, (label, soon, late) in _labels().items():
        path = home / (_name(label) + ending)
        path.touch()
        os.utime(path, ns=((NOW - HOUR) * 1_000_000,) * 2)
        assert (files.abandoned_temporaries(str(home), NOW) == [str(path)]) is soon, what
        assert (files.abandoned_temporaries(str(home), NOW + 1) == [str(path)]) is late, what
        path.unlink()
