"""F4: power cuts, by rebuilding what they could leave on the disk.

A workload over the whole life of a home is recorded with strace: first start, commands, one long process with
checkpoints in between, two processes in turn, large notes, settings, a backup, an erasing. From the recorded calls
the states are built that a power cut could leave at any moment; `harness.disk` defines what a file system may do.
Each state is restored in memory and opened with the code under test, as after a reboot:

- every event that had been acknowledged by then is there, and so are settings and backups;

- nothing is reported damaged, the chain and everything derived is consistent, erased data stays erased;

- an eighth of the states is not checked first, but continues with the next command.

Each state is counted once, however often it is generated. Two more tests show that this one can fail.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.faults.harness.disk import Disk, states
from tests.faults.harness.figures import record_figures
from tests.faults.harness.power import Machine
from tests.faults.harness.recording import Op, record
from tests.faults.harness.tracing import require_strace
from tests.support.scale import scale

SHARDS = scale(1, 20, 100)
STATES = scale(600, 100_000, 1_000_000) // SHARDS


@pytest.fixture
def root(tmp_path: os.PathLike[str]) -> Iterator[str]:
    require_strace()
    memory = "/dev/shm"
    place = memory if os.path.isdir(memory) and os.access(memory, os.W_OK) else str(tmp_path)
    made = os.path.realpath(tempfile.mkdtemp(prefix="holdfast-life-", dir=place))
    yield made
    shutil.rmtree(made)


@pytest.mark.parametrize("seed", range(SHARDS))
def test_acknowledged_changes_survive_a_power_cut(root: str, seed: int) -> None:
    """And the next command works."""
    disk = Disk(record(root), root)
    with Machine(disk) as machine:
        for number, state in enumerate(states(disk, STATES, seed)):
            try:
                machine.start(state)
            except Exception as error:
                error.add_note(f"state {number} of seed {seed}, before operation {state.moment} of {disk.length}")
                error.add_note("\n".join(_operations_before(disk.ops, state.moment)))
                error.add_note(f"left: { {name: len(content or b'') for name, content in state.files.items()} }")
                raise
        assert machine.checked >= STATES * 0.9, f"generated only {machine.checked} different states"
        record_figures(fault="F4", states=machine.checked, extended=machine.extended, operations=disk.length)


def test_weaker_synchronous_setting_is_detected(root: str) -> None:
    """With `synchronous=NORMAL` acknowledged events are lost."""
    violations = _violations(record(root, synchronous="NORMAL"), root)
    lost = sum(count for what, count in violations.items() if "acknowledged events are lost" in what)
    named = sum(count for what, count in violations.items() if "its last events cannot be read" in what)
    assert lost > 0
    # The store even detects some of the losses: the journal has later transactions after the torn one.
    assert lost + named == violations.total(), f"other than losses: {violations}"
    record_figures(fault="F4", synchronous="NORMAL", states=_CONTROL, lost=lost, named=named)


def test_missing_sync_of_a_directory_is_detected(root: str) -> None:
    """Without the syncs of directories whole files are lost."""
    folders = {root, os.path.join(root, "home"), os.path.join(root, "project")}
    ops = [op for op in record(root) if op.kind != "sync" or op.path not in folders]
    assert sum(count for what, count in _violations(ops, root).items() if "the whole store is lost" in what) > 0


_CONTROL = scale(200, 2_000, 20_000)


def _violations(ops: list[Op], root: str) -> Counter[str]:
    disk = Disk(ops, root)
    violations: Counter[str] = Counter()
    with Machine(disk) as machine:
        for state in states(disk, _CONTROL, seed=0):
            try:
                machine.start(state)
            except Exception as error:
                violations[f"{type(error).__name__}: {error}"] += 1
    return violations


def _operations_before(ops: list[Op], moment: int) -> list[str]:
    return [
        f"{'>' if at == moment else ' '} {at} {op.kind} {op.path} {op.other} {op.offset} {len(op.data)}"
        for at, op in enumerate(ops)
        if moment - 30 <= at <= moment
    ]
