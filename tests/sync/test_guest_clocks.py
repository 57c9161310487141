"""A guest's clock has no influence: neither in the shared session nor in the owner's other sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.canonical import MAX_SAFE_INTEGER
from holdfast.core.clock import MAX_CLOCK
from holdfast.core.events import SessionEdited, SessionPaused, SessionResumed
from holdfast.core.registers import current_value, disputes
from holdfast.core.view import status_of
from tests.support.vault_devices import Device, Shelf, join, settle


@pytest.fixture
def devices(tmp_path: Path) -> Iterator[tuple[Device, Device, Device]]:
    """Laptop and desktop of one person, and a guest's device; one session is shared, one private."""
    shelf = Shelf()
    laptop, desktop, guest = (Device(str(tmp_path), name, shelf) for name in ("laptop", "desktop", "guest"))
    laptop.create_vault()
    join(laptop, desktop)
    for session in ("shared", "private"):
        laptop.start(session)
        laptop.note(session, "first")
    laptop.share("shared", guest)
    guest.accept()
    settle([laptop, desktop, guest], 2)
    yield laptop, desktop, guest
    for device in (laptop, desktop, guest):
        device.close()


@pytest.mark.parametrize("clock", [MAX_SAFE_INTEGER, MAX_CLOCK + 1, MAX_CLOCK, MAX_CLOCK - 1, 1])
def test_edits_and_pauses_of_the_owner_take_effect_after_any_guest_clock(
    devices: tuple[Device, Device, Device], monkeypatch: pytest.MonkeyPatch, clock: int
) -> None:
    """Both devices of the owner edit and pause in turn, in both sessions, after the guest's event arrived."""
    laptop, desktop, guest = devices
    with monkeypatch.context() as patching:
        patching.setattr("holdfast.store.journal.tick", lambda _last, _wall: clock)
        guest.record("shared", SessionEdited(goal="The guest's"))
    guest.store.close()
    guest.store = guest._opened()  # the state that a hostile program computes does not matter
    settle([guest, laptop, desktop], 2)
    assert any(event.clock == clock for event in laptop.events("shared"))
    for turn in range(2):
        for device, data in ((laptop, SessionPaused()), (desktop, SessionResumed())):
            for session in ("shared", "private"):
                device.record(session, data)
                device.record(session, SessionEdited(goal=f"{device.name} {turn}"))
            settle([device, laptop, desktop, guest], 1)
            for session in ("shared", "private"):
                for item in (laptop, desktop):
                    state = item.state(session)
                    assert state is not None
                    assert current_value(state.registers["goal"]) == f"{device.name} {turn}"
                    assert status_of(state) == ("paused" if device is laptop else "in_progress")
                    assert [conflict for conflict in disputes(state) if conflict.chosen is None] == []
    assert max(event.clock for event in laptop.events("private")) < MAX_CLOCK - 1
    settle([guest, laptop, desktop], 2)
    assert laptop.log() == desktop.log()
    assert guest.events("shared") == laptop.events("shared")
    assert guest.state("shared") == laptop.state("shared")
    findings = list(laptop.store.check())
    assert {finding.check for finding in findings} == ({"clocks"} if clock > 1 else set())
    assert all(finding.session == "shared" for finding in findings)
    assert clock == 1 or any(guest.writer in finding.detail and str(clock) in finding.detail for finding in findings)
