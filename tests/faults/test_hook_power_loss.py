"""F4 for hooks: power cuts while payloads are handed over and drained.

A hook that has returned has synced its file. POSIX does not guarantee that the file's name is durable then, but the
file systems that hooks run on do (ext4, XFS, Btrfs, F2FS, APFS: a new file's name is part of what its own sync
writes); syncing the directory would cost every hook a second wait. So here a file's sync includes its name, and
everything else is as harsh as `harness.disk` makes it: files that a drain removed reappear, half-written files are
torn. A second test removes the sync, and shows that the first one can fail.
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
from tests.faults.harness import invariants
from tests.faults.harness.disk import Disk, State, states
from tests.faults.harness.figures import record_figures
from tests.faults.harness.hook_workload import HOOKS
from tests.faults.harness.recording import Op, record
from tests.faults.harness.tracing import require_strace
from tests.faults.harness.warm_sandbox import empty, write_tree
from tests.faults.sandbox import Sandbox
from tests.support.scale import scale

WORKLOAD = str(Path(__file__).parent / "harness" / "hook_workload.py")
STATES = scale(100, 10_000, 100_000)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[str]:
    require_strace()
    memory = "/dev/shm"
    place = memory if os.path.isdir(memory) and os.access(memory, os.W_OK) else str(tmp_path)
    made = os.path.realpath(tempfile.mkdtemp(prefix="holdfast-spool-", dir=place))
    yield made
    shutil.rmtree(made)


def with_durable_names(ops: list[Op], root: str) -> Iterator[Op]:
    """The recorded workload on a file system on which a new file's sync makes its name durable."""
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
    """A directory in which states of the disk are restored and opened."""

    def __init__(self, disk: Disk, place: Path) -> None:
        self.sandbox = Sandbox(place)
        self.root = str(place)
        self.acked = [(at, int(promise["payload"])) for at, promise in disk.acks]

    def start(self, state: State) -> set[int]:
        """Restart with this state; returns the acknowledged payloads that are missing. Anything doubled or torn is an
        AssertionError.
        """
        empty(self.root)
        write_tree(self.root, state.files)
        recorded = [int(command) for command in commands(self.sandbox).get("all", [])]
        assert len(recorded) == len(set(recorded)), f"recorded twice: {recorded}"
        assert set(recorded) <= set(range(HOOKS))
        assert spool.list_entries(str(self.sandbox.home)) == []
        assert invariants.leftovers(str(self.sandbox.home)) == []
        self.sandbox.assert_sound()
        return {number for at, number in self.acked if at < state.moment} - set(recorded)


def count_losses(ops: list[Op], root: str, where: Path, count: int) -> tuple[int, int]:
    """How many states were tried, and how many of them had lost something acknowledged."""
    disk = Disk(ops, root)
    machine = Machine(disk, where)
    tried = losing = 0
    for state in states(disk, count, seed=4):
        try:
            losing += bool(machine.start(state))
        except Exception as error:
            error.add_note(f"before operation {state.moment} of {disk.length}")
            error.add_note(f"left: { {name: len(content or b'') for name, content in state.files.items()} }")
            raise
        tried += 1
    return tried, losing


def test_payload_survives_a_power_cut(root: str, tmp_path: Path) -> None:
    """Each payload of a hook that had returned is recorded once."""
    ops = list(with_durable_names(record(root, workload=WORKLOAD), root))
    assert sum(op.kind == "ack" for op in ops) == HOOKS
    tried, losing = count_losses(ops, root, tmp_path, STATES)
    assert losing == 0
    record_figures(fault="F4", hooks=HOOKS, states=tried)


def test_missing_sync_of_a_payload_is_detected(root: str, tmp_path: Path) -> None:
    """Without the sync of the file payloads are lost, and the test notices."""
    directory = os.path.join(root, "home", spool.DIRECTORY)
    ops = [op for op in record(root, workload=WORKLOAD) if not (op.kind == "sync" and op.path.startswith(directory))]
    tried, losing = count_losses(ops, root, tmp_path, scale(60, 500, 5_000))
    assert losing > 0
    record_figures(fault="F4", hooks="not synced", states=tried, losing=losing)
