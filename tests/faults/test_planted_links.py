"""F13: whatever is planted where Holdfast writes, and however it is swapped meanwhile, its target stays untouched."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.machine.files import make_private_dir, open_private, remove, write_atomic
from tests.support.scale import scale

ROUNDS = scale(100, 1_000, 10_000)
PRECIOUS = b"precious"


@pytest.mark.parametrize("kind", ["symlink", "hard link", "directory link"])
def test_write_atomic_never_writes_through_a_link_swapped_in(tmp_path: Path, kind: str) -> None:
    """A thread swaps the file for a link and back: writes succeed or are refused, and the link's target
    is unchanged.
    """
    victim = tmp_path / "victim"
    if kind == "directory link":
        victim.mkdir()
    else:
        victim.write_bytes(PRECIOUS)
    directory = tmp_path / "room"
    directory.mkdir()
    target = directory / "state.json"
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                target.unlink()
            with contextlib.suppress(OSError):
                if kind == "hard link":
                    os.link(victim, target)
                else:
                    target.symlink_to(victim)

    swapper = threading.Thread(target=swap)
    swapper.start()
    written = refused = 0
    try:
        for number in range(ROUNDS):
            try:
                write_atomic(str(target), f"round {number}".encode())
                written += 1
            except HoldfastError:
                refused += 1
            with contextlib.suppress(HoldfastError):
                os.close(open_private(str(target), os.O_RDWR | os.O_CREAT | os.O_TRUNC))
    finally:
        stop.set()
        swapper.join()
    assert written + refused == ROUNDS
    if kind == "directory link":
        assert list(victim.iterdir()) == []
    else:
        assert victim.read_bytes() == PRECIOUS
    assert [name for name in os.listdir(directory) if name.endswith(".tmp")] == []


def test_writes_within_a_project_never_leave_it_when_a_directory_is_swapped(tmp_path: Path) -> None:
    """A thread swaps a directory for a link that leads outside, and back."""
    project, outside = tmp_path / "project", tmp_path / "outside"
    folder, kept = project / "a" / "b", project / "a" / "kept"
    folder.mkdir(parents=True)
    outside.mkdir()
    (outside / "state.json").write_bytes(PRECIOUS)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                folder.rename(kept)
                folder.symlink_to(outside)
            with contextlib.suppress(OSError):
                folder.unlink()
                kept.rename(folder)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for number in range(ROUNDS):
            path, root = str(folder / "state.json"), str(project)
            with contextlib.suppress(HoldfastError):
                make_private_dir(str(folder / "c"), within=root)
            with contextlib.suppress(HoldfastError):
                write_atomic(path, f"round {number}".encode(), within=root)
            with contextlib.suppress(HoldfastError, OSError):
                remove(path, within=root)
    finally:
        stop.set()
        swapper.join()
    assert os.listdir(outside) == ["state.json"]
    assert (outside / "state.json").read_bytes() == PRECIOUS
