"""F4 for hooks: power cuts while payloads are handed over and taken in.

A hook that has returned has synced its file. That the file's name lasts with it is not what POSIX says, but what the
file systems do that hooks run on (ext4, XFS, Btrfs, F2FS, APFS: a new file's name is part of what its own sync
writes); syncing the directory would cost every hook a second wait. So here a file's sync keeps its name, too, and
everything else is as harsh as `harness.disk` makes it: what a drain unlinked comes back, half-written files are torn.
A second test takes that away again, and shows that the first one can fail.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.workspace import spool
from tests.faults.connected_agent import commands
from tests.faults.harness import judge
from tests.faults.harness.disk import Disk, State, states
from tests.faults.harness.figures import tell
from tests.faults.harness.hook_life import HOOKS
from tests.faults.harness.recording import Op, record
from tests.faults.harness.room import empty, write_tree
from tests.faults.harness.tracing import need_strace
from tests.faults.program import Desk
from tests.support.scale import scale

LIFE = str(Path(__file__).parent / "harness" / "hook_life.py")
STATES = scale(100, 10_000, 100_000)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[str]:
    need_strace()
    memory = "/dev/shm"
    place = memory if os.path.isdir(memory) and os.access(memory, os.W_OK) else str(tmp_path)
    made = os.path.realpath(tempfile.mkdtemp(prefix="holdfast-spool-", dir=place))
    yield made
    shutil.rmtree(made)


def names_last(ops: list[Op], root: str) -> Iterator[Op]:
    """The recorded life on a file system on which a new file's sync keeps its name."""
    directory = os.path.join(root, "home", spool.DIRECTORY)
    new: set[str] = set()
    for op in ops:
        yield op
        if op.kind == "create" and os.path.dirname(op.path) == directory:
            new.add(op.path)
        elif op.kind == "sync" and op.path in new:
            new.discard(op.path)
            yield Op("sync", directory)


class Machine:
    """Where states of the disk are put back and opened."""

    def __init__(self, disk: Disk, place: Path) -> None:
        self.desk = Desk(place)
        self.root = str(place)
        self.acked = [(at, int(promise["payload"])) for at, promise in disk.acks]

    def start(self, state: State) -> set[int]:
        """Power is back: what was promised and is not there. Anything doubled or torn is an AssertionError."""
        empty(self.root)
        write_tree(self.root, state.files)
        found = [int(command) for command in commands(self.desk).get("all", [])]
        assert len(found) == len(set(found)), f"told twice: {found}"
        assert set(found) <= set(range(HOOKS))
        assert spool.list_entries(str(self.desk.home)) == []
        assert judge.leftovers(str(self.desk.home)) == []
        self.desk.sound()
        return {number for at, number in self.acked if at < state.moment} - set(found)


def lost(ops: list[Op], root: str, where: Path, count: int) -> tuple[int, int]:
    """States that were tried, and how many of them had lost something that was promised."""
    disk = Disk(ops, root)
    machine = Machine(disk, where)
    tried = losing = 0
    for state in states(disk, count, seed=4):
        try:
            losing += bool(machine.start(state))
        except Exception as error:
            error.add_note(f"before operation {state.moment} of {disk.length}")
            error.add_note(f"left: { {name: len(held or b'') for name, held in state.files.items()} }")
            raise
        tried += 1
    return tried, losing


def test_what_a_hook_handed_over_survives_a_power_cut(root: str, tmp_path: Path) -> None:
    """Whatever is left on the disk, each payload of a hook that had returned is an event, once."""
    ops = list(names_last(record(root, life=LIFE), root))
    assert sum(op.kind == "ack" for op in ops) == HOOKS
    tried, losing = lost(ops, root, tmp_path, STATES)
    assert losing == 0
    tell(fault="F4", hooks=HOOKS, states=tried)


def test_a_payload_that_is_not_synced_is_found_out(root: str, tmp_path: Path) -> None:
    """Without the sync of the file payloads are lost, and this test sees it."""
    directory = os.path.join(root, "home", spool.DIRECTORY)
    ops = [op for op in record(root, life=LIFE) if not (op.kind == "sync" and op.path.startswith(directory))]
    tried, losing = lost(ops, root, tmp_path, scale(60, 500, 5_000))
    assert losing > 0
    tell(fault="F4", hooks="not synced", states=tried, losing=losing)
