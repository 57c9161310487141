"""Sessions sync between devices: what a sync sends, what it requests, and what the remote can read."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.core import view
from holdfast.core.events import (
    AgentCompleted,
    AgentStarted,
    EventErased,
    SessionDeleted,
    SessionEdited,
    SessionPaused,
    SessionResumed,
    TaskAdded,
    TaskCompleted,
)
from holdfast.store.interface import Draft
from tests.support.vault_devices import Device, Shelf, join, named, opened, settle

NAMES = re.compile(
    r"vault|m/[0-9a-f]{16}/[0-9a-f]{40}|k/[0-9a-f]{32}-[0-9a-f]{16}|h/[0-9a-f]{16}\.[0-9a-f]{20}-[0-9]{12}"
    r"|p/[0-9a-f]{16}/[0-9a-f]{40}"
)
SECRET = "a secret that nobody else may read"


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def fleet(tmp_path: Path, shelf: Shelf, *names: str, admin: bool = False) -> list[Device]:
    """These devices in one vault; the first is its founder."""
    devices = [Device(str(tmp_path), name, shelf) for name in names]
    join(devices[0].create_vault(), *devices[1:], admin=admin)
    settle(devices)
    return devices


def asked(shelf: Shelf, kind: str) -> int:
    return sum(1 for name, _ in shelf.asked if name == kind)


def test_note_reaches_the_other_device_after_both_synced(tmp_path: Path, shelf: Shelf) -> None:
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    anna.start("s1")
    anna.note("s1", "hello")
    assert anna.sync().pushed == 2
    assert ben.sync().pulled == 2
    assert ben.notes("s1") == ["hello"]
    ben.note("s1", "and back")
    ben.sync()
    anna.sync()
    assert anna.log() == ben.log()
    assert anna.states() == ben.states()


def test_pending_device_reads_nothing(tmp_path: Path, shelf: Shelf) -> None:
    """A device that is not approved yet reads nothing and is told what to do."""
    (anna,) = fleet(tmp_path, shelf, "anna")
    anna.start("s1")
    anna.sync()
    ben = Device(str(tmp_path), "ben", shelf).ask()
    report = ben.sync()
    assert not ben.log()
    assert any("waits for approval" in note for note in report.notes)


@pytest.mark.parametrize("sessions", [1, 300])
def test_idle_sync_costs_one_listing(tmp_path: Path, shelf: Shelf, sessions: int) -> None:
    """However much there is."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    for number in range(sessions):
        anna.start(f"s{number}")
    settle([anna, ben])
    for device in (anna, ben):
        shelf.asked.clear()
        device.sync()
        assert shelf.asked == [("list", "h/")]


@pytest.mark.parametrize("sessions", [1, 300])
def test_one_event_costs_one_listing_and_one_put(tmp_path: Path, shelf: Shelf, sessions: int) -> None:
    """Sending or reading one event takes as many requests after 300 sessions as after one."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    for number in range(sessions):
        anna.start(f"s{number}")
    settle([anna, ben])
    anna.note("s0", "new")
    before = set(shelf.objects)
    shelf.asked.clear()
    assert anna.sync().pushed == 1
    assert [name for name, _ in shelf.asked] == ["list", "put"]
    new = sorted(name[0] for name in set(shelf.objects) - before)
    assert new == ["h", "p"]
    shelf.asked.clear()
    assert ben.sync().pulled == 1
    assert [name for name, _ in shelf.asked] == ["list", "get", "get"]


def test_shared_session_costs_no_request_when_idle(tmp_path: Path, shelf: Shelf) -> None:
    """The same listing shows that shared and formerly shared sessions did not change."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    gus = Device(str(tmp_path), "gus", shelf)
    anna.start("s1")
    anna.share("s1", gus)
    gus.accept()
    settle([anna, ben, gus], 4)
    for device in (anna, ben, gus):
        shelf.asked.clear()
        device.sync()
        assert shelf.asked == [("list", "h/")], device.name
    anna.revoke("s1", gus)
    settle([anna, ben], 4)
    for device in (anna, ben):
        shelf.asked.clear()
        device.sync()
        assert shelf.asked == [("list", "h/")], device.name


def test_names_and_contents_at_the_remote_reveal_nothing(tmp_path: Path, shelf: Shelf) -> None:
    """The remote has opaque names and no word of any session, device or person."""
    # Names that random bytes do not contain by chance.
    anna, ben = fleet(tmp_path, shelf, "annas-desk", "ben")
    gus = Device(str(tmp_path), "gus-at-the-harbour", shelf)
    anna.start("s1-named", SECRET)
    anna.share("s1-named", gus)
    gus.accept()
    settle([anna, ben, gus])
    for name, data in shelf.objects.items():
        assert NAMES.fullmatch(name), name
        for word in (SECRET, "s1-named", "annas-desk", "gus-at-the-harbour", anna.writer, "example.org"):
            assert word.encode() not in data


def test_each_device_has_one_head(tmp_path: Path, shelf: Shelf) -> None:
    """A new head replaces the previous one, and every pack is referenced by one."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    anna.start("s1")
    for number in range(5):
        anna.note("s1", str(number))
        ben.sync()
        anna.sync()
    assert len([name for name in shelf.objects if name.startswith("h/")]) == 2
    assert {name for name in shelf.objects if name.startswith("p/")} == named(anna)


def test_concurrent_pauses_do_not_count_twice(tmp_path: Path, shelf: Shelf) -> None:
    """Both devices pause and resume without knowing of each other."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    minute = 60_000
    anna.start("s1")
    started = anna.time
    settle([anna, ben])
    ben.time = anna.time = started + 2 * minute
    anna.record("s1", SessionPaused())
    ben.time = started + 10 * minute
    ben.record("s1", SessionPaused())
    anna.time = started + 20 * minute
    anna.record("s1", SessionResumed())
    ben.time = started + 30 * minute
    ben.record("s1", SessionResumed())
    settle([anna, ben])
    now = started + 31 * minute
    shown = []
    for device in (anna, ben):
        state = device.state("s1")
        assert state is not None
        time = view.worktime(state, now)
        assert time.working + time.paused == time.elapsed == 31 * minute
        spans = sorted((pause.since, pause.until) for pause in time.pauses)
        assert all(before[1] is not None and before[1] <= after[0] for before, after in pairwise(spans))
        shown.append((time, view.session(state, now)))
    assert shown[0] == shown[1]


def test_concurrent_agents_and_tasks_with_equal_ids_are_kept_as_conflicts(tmp_path: Path, shelf: Shelf) -> None:
    """Two devices use the same ids at once."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    anna.start("s1")
    settle([anna, ben])
    for device in (anna, ben):
        device.record(
            "s1", AgentStarted(id="a1", type="coder", task=device.name), TaskAdded(id="t1", text=device.name),
            AgentCompleted(id="a1", summary=device.name), TaskCompleted(id="t1"),
            SessionEdited(goal=f"{device.name}'s goal"),
        )  # fmt: skip
    settle([anna, ben])
    shown = []
    for device in (anna, ben):
        state = device.state("s1")
        assert state is not None
        session = view.session(state, anna.time)
        assert {agent.task for agent in session.agents} == {"anna", "ben"}
        assert {agent.status for agent in session.agents} == {"completed"}
        assert {task.text for task in session.tasks} == {"anna", "ben"}
        assert "goal" in {conflict.field for conflict in session.conflicts}
        shown.append(session)
    assert shown[0] == shown[1]


# ── erasing ──────────────────────────────────────────────────────────────────────────────────────────────


def decrypted_contents(device: Device) -> bytes:
    """Everything that the keys of a device open at the remote."""
    return b"".join(
        event.data or b""
        for stretches in opened(device).values()
        for stretch in stretches
        for event in stretch.events
    )


def test_deleted_session_is_removed_from_every_pack_and_store(tmp_path: Path, shelf: Shelf) -> None:
    """After all have synced, no word of it is left."""
    anna, ben, cleo = fleet(tmp_path, shelf, "anna", "ben", "cleo", admin=True)
    gus = Device(str(tmp_path), "gus", shelf)
    anna.start("s1", SECRET)
    anna.start("s2")
    anna.share("s1", gus)
    gus.accept()
    settle([anna, ben, cleo, gus])
    for number in range(20):
        for device in (anna, ben, gus):
            device.note("s1", f"{SECRET} {number}")
            device.sync()
    settle([anna, ben, cleo, gus])
    assert SECRET.encode() in decrypted_contents(anna)
    ben.time += 1000
    ben.store.erase("s1", Draft(SessionDeleted(), ben.time, "ben"))
    settle([ben, anna, cleo, gus])
    for device in (anna, ben, cleo):
        assert SECRET.encode() not in decrypted_contents(device)
        assert SECRET.encode() not in device.files()
    assert SECRET.encode() not in gus.files()
    assert anna.log() == ben.log() == cleo.log()
    for device in (anna, ben, cleo, gus):
        shelf.asked.clear()
        device.sync()
        assert shelf.asked == [("list", "h/")], device.name


def test_erased_event_is_removed_from_merged_packs_and_ended_shares(tmp_path: Path, shelf: Shelf) -> None:
    """Its data leaves packs that were merged since, and a share that nobody reads any more."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben", admin=True)
    gus = Device(str(tmp_path), "gus", shelf)
    anna.start("s1")
    anna.note("s1", SECRET)
    anna.share("s1", gus)
    gus.accept()
    for number in range(40):
        anna.note("s1", str(number))
        anna.sync()
    settle([anna, ben, gus])
    anna.revoke("s1", gus)
    settle([anna, ben])
    (event,) = [event for event in ben.events("s1") if SECRET.encode() in (event.data or b"")]
    ben.record("s1", EventErased(hashes=(event.hash,)))
    settle([ben, anna])
    for device in (anna, ben):
        assert SECRET.encode() not in decrypted_contents(device)
        assert SECRET.encode() not in device.files()
        assert len(device.notes("s1")) == 40
    packs = {name for name in shelf.objects if name.startswith("p/")}
    assert packs == named(anna)


def test_erased_event_is_removed_from_packs_of_removed_devices_and_earlier_writers(
    tmp_path: Path, shelf: Shelf
) -> None:
    anna, ben, cleo = fleet(tmp_path, shelf, "anna", "ben", "cleo")
    anna.start("s1")
    old = cleo.copy(str(tmp_path / "cleo.copy"))
    cleo.sync()
    for device in (ben, cleo):
        device.sync()
        device.note("s1", SECRET) if device.state("s1") else device.start("s1", SECRET)
        device.sync()
    settle([anna, ben, cleo])
    cleo.put_back(old)
    cleo.sync()
    anna.remove(ben)
    settle([anna, cleo])
    assert SECRET.encode() in decrypted_contents(anna)
    anna.time += 1000
    anna.store.erase("s1", Draft(SessionDeleted(), anna.time, "anna"))
    settle([anna, cleo])
    assert SECRET.encode() not in decrypted_contents(anna)
    assert SECRET.encode() not in anna.files()
    assert SECRET.encode() not in cleo.files()
    packs = {name for name in shelf.objects if name.startswith("p/")}
    assert packs == named(anna)
