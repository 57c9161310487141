"""F7 for what travels: several processes at one home, several devices at one folder, one that records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.faults.harness.travel import Travel, converge, kept
from tests.faults.test_travel_hostile import KEY
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
def room() -> Iterator[Travel]:
    with Travel() as made:
        yield made


def begun(room: Travel, device: str, *argv: str) -> subprocess.Popen[bytes]:
    return room.cold([*argv, "--json"], device)


def all_well(processes: Sequence[subprocess.Popen[bytes]]) -> list[dict[str, object]]:
    ended = [(process.communicate(timeout=240), process.returncode) for process in processes]
    assert [code for _, code in ended] == [0] * len(ended), ended
    return [json.loads(out) for (out, _), _ in ended]


def test_several_syncs_at_once_in_one_home(room: Travel) -> None:
    """They wait for each other: what one has sent, the next does not send again."""
    room.reach("busy")
    alone = room.done("a", "sync")
    room.reach("busy")
    before = room.logs()
    told = all_well([begun(room, "a", "sync") for _ in range(3)])
    assert sorted(int(str(line["pushed"])) for line in told) == [0, 0, alone["pushed"]]
    assert sum(int(str(line["pulled"])) for line in told) == alone["pulled"]
    converge(room, "ab")
    kept(before, room.logs())


def test_several_devices_at_once_at_one_folder(room: Travel) -> None:
    """Everybody syncs at the same moment, again and again, and in the end all have the same."""
    room.reach("three")
    before = room.logs()
    for _ in range(ROUNDS):
        for device in "abc":
            room.note(device)
        all_well([begun(room, device, "sync") for device in "abc"])
    converge(room, "abc")
    kept(before, room.logs())


def test_syncing_while_another_process_records(room: Travel) -> None:
    """Each note is at the other device afterwards, once and in order, however often it was synced meanwhile."""
    room.reach("joined")
    recorder = subprocess.Popen(
        [sys.executable, "-c", RECORDING, room.project, room.home, str(NOTES)],
        env=room.environ | {"HOLDFAST_HOME": room.home}, cwd=room.project, stdout=subprocess.PIPE,
    )  # fmt: skip
    syncs = 0
    while recorder.poll() is None:
        room.sync("ab")
        syncs += 1
    told = recorder.communicate()[0].split()
    assert recorder.returncode == 0
    assert len(told) == NOTES
    room.sync("ab")
    wanted = [f"recorded {number}" for number in range(NOTES)]
    session = room.session("a")
    for device in "ab":
        notes = [item["text"] for item in room.done(device, "show", session)["session"]["notes"]]
        assert [note for note in notes if note.startswith("recorded")] == wanted, f"after {syncs} syncs, at {device}"
    assert room.log("a") == room.log("b")


def test_what_is_added_at_once_stays(room: Travel) -> None:
    """People and remotes that are added at the same moment are all there, and a name is given once."""
    room.reach("joined")
    all_well([begun(room, "a", "people", "add", f"p{number}@example.org", KEY) for number in range(3)])
    assert len(room.done("a", "people", "list")["people"]) == 3
    adding = [begun(room, "a", "remote", "add", "more", f"folder:{room.root}/more{number}") for number in range(2)]
    codes = []
    for popen in adding:
        popen.communicate(timeout=240)
        codes.append(popen.returncode)
    assert sorted(codes) == [0, 5]
    assert [item["name"] for item in room.done("a", "remote", "list")["remotes"]] == ["home", "more"]
    made = [begun(room, "g", "device", "show") for _ in range(3)]
    assert len({json.dumps(entry["device"]) for entry in all_well(made)}) == 1
    assert not Path(os.path.join(room.homes["g"], "remotes.json")).exists()
