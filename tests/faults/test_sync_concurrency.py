"""F7 for sync: several processes in one home, several devices with one folder, one that records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.faults.harness.sync_sandbox import SyncSandbox, assert_kept, converge
from tests.faults.test_sync_hostile_input import KEY
from tests.support.scale import scale

NOTES = scale(200, 1_000, 5_000)
ROUNDS = scale(2, 10, 50)
RECORDING = """
import sys
from holdfast import Keeper
with Keeper.open(sys.argv[1], home=sys.argv[2]) as keeper:
    session = keeper.current()
    for number in range(int(sys.argv[3])):
        session.note(f"recorded {number}")
        print(number, flush=True)
"""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SyncSandbox]:
    with SyncSandbox() as made:
        yield made


def start_json(sandbox: SyncSandbox, device: str, *argv: str) -> subprocess.Popen[bytes]:
    return sandbox.start_process([*argv, "--json"], device)


def wait_for_all(processes: Sequence[subprocess.Popen[bytes]]) -> list[dict[str, object]]:
    ended = [(process.communicate(timeout=240), process.returncode) for process in processes]
    assert [code for _, code in ended] == [0] * len(ended), ended
    return [json.loads(out) for (out, _), _ in ended]


def test_concurrent_syncs_of_one_home_send_everything_once(sandbox: SyncSandbox) -> None:
    """They wait for each other."""
    sandbox.restore_stage("busy")
    alone = sandbox.run_json("a", "sync")
    sandbox.restore_stage("busy")
    before = sandbox.logs()
    answers = wait_for_all([start_json(sandbox, "a", "sync") for _ in range(3)])
    assert sorted(int(str(answer["pushed"])) for answer in answers) == [0, 0, alone["pushed"]]
    assert sum(int(str(answer["pulled"])) for answer in answers) == alone["pulled"]
    converge(sandbox, "ab")
    assert_kept(before, sandbox.logs())


def test_concurrent_syncs_of_several_devices_converge(sandbox: SyncSandbox) -> None:
    sandbox.restore_stage("three")
    before = sandbox.logs()
    for _ in range(ROUNDS):
        for device in "abc":
            sandbox.note(device)
        wait_for_all([start_json(sandbox, device, "sync") for device in "abc"])
    converge(sandbox, "abc")
    assert_kept(before, sandbox.logs())


def test_notes_recorded_during_syncs_arrive_once(sandbox: SyncSandbox) -> None:
    """In order, however often it was synced meanwhile."""
    sandbox.restore_stage("joined")
    recorder = subprocess.Popen(
        [sys.executable, "-c", RECORDING, sandbox.project, sandbox.home, str(NOTES)],
        env=sandbox.environ | {"HOLDFAST_HOME": sandbox.home}, cwd=sandbox.project, stdout=subprocess.PIPE,
    )  # fmt: skip
    syncs = 0
    while recorder.poll() is None:
        sandbox.sync("ab")
        syncs += 1
    acknowledged = recorder.communicate()[0].split()
    assert recorder.returncode == 0
    assert len(acknowledged) == NOTES
    sandbox.sync("ab")
    wanted = [f"recorded {number}" for number in range(NOTES)]
    session = sandbox.session("a")
    for device in "ab":
        notes = [item["text"] for item in sandbox.run_json(device, "show", session)["session"]["notes"]]
        assert [note for note in notes if note.startswith("recorded")] == wanted, f"after {syncs} syncs, at {device}"
    assert sandbox.log("a") == sandbox.log("b")


def test_people_and_remotes_added_concurrently_are_kept(sandbox: SyncSandbox) -> None:
    """And a name is given once."""
    sandbox.restore_stage("joined")
    wait_for_all([start_json(sandbox, "a", "people", "add", f"p{number}@example.org", KEY) for number in range(3)])
    assert len(sandbox.run_json("a", "people", "list")["people"]) == 3
    adding = [
        start_json(sandbox, "a", "remote", "add", "more", f"folder:{sandbox.root}/more{number}")
        for number in range(2)
    ]
    codes = []
    for popen in adding:
        popen.communicate(timeout=240)
        codes.append(popen.returncode)
    assert sorted(codes) == [0, 5]
    assert [item["name"] for item in sandbox.run_json("a", "remote", "list")["remotes"]] == ["home", "more"]
    made = [start_json(sandbox, "g", "device", "show") for _ in range(3)]
    assert len({json.dumps(entry["device"]) for entry in wait_for_all(made)}) == 1
    assert not Path(os.path.join(sandbox.homes["g"], "remotes.json")).exists()
