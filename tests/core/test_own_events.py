"""Events of our own devices are read as they were written, whatever others record in the session."""

from __future__ import annotations

import pytest

from holdfast.conversations.ingest import routing
from holdfast.core import own_events
from holdfast.core.events import (
    TYPE_OF,
    ConflictResolved,
    EventData,
    SessionArchived,
    SessionPaused,
    SessionResumed,
    SessionUnarchived,
)
from holdfast.core.fold import fold
from holdfast.core.state import PauseMark, State
from holdfast.sessions.start import REPLACED
from tests.support.histories import MINUTE, NOON, POOL, Device, joined, started, together

HISTORIES: dict[str, tuple[EventData, ...]] = {
    "begun": (),
    "taken up again": (SessionPaused(), SessionResumed()),
    "put away": (SessionPaused(reason=REPLACED), SessionArchived()),
    "put away and back": (SessionArchived(), SessionUnarchived()),
}


def ours(writer: str) -> bool:
    return writer in ("w1", "w3")


def own_facts(state: State) -> tuple[int | None, int, bool, PauseMark | None, int | None, routing.Candidate]:
    mark = own_events.latest_mark(state, ours)
    return (
        own_events.started_or_resumed_at(state, ours), own_events.last_activity(state, ours),
        own_events.is_archived_by_us(state, ours),
        None if mark is None else PauseMark(mark.at, mark.kind, mark.reason, writer=mark.writer),
        own_events.last_event_at(state, ours), routing.candidate(state, ours),
    )  # fmt: skip


@pytest.mark.parametrize("history", HISTORIES)
def test_own_events_are_unaffected_by_any_event_of_others(history: str) -> None:
    """Every type of event, by a writer that has seen ours, dated now or a day ahead."""
    laptop = started()
    for data in HISTORIES[history]:
        laptop.wait(MINUTE)
        laptop.record(data)
    before = own_facts(laptop.state())
    own = [*POOL, ConflictResolved(field="goal", chosen="", overruled=(), value="Another")]
    assert {type(data) for data in own} == set(TYPE_OF)
    for data in own:
        for ahead in (MINUTE, 24 * 60 * MINUTE):
            guest = joined(laptop)
            guest.record(data, at=guest.now + ahead)
            assert own_facts(guest.state()) == before, data


def test_own_events_include_all_our_devices_in_log_order() -> None:
    laptop = started()
    laptop.record(SessionArchived())
    tablet = joined(laptop, "w3", "tablet")
    tablet.wait(MINUTE)
    tablet.record(SessionResumed())
    guest = joined(tablet)
    guest.wait(MINUTE)
    guest.record(SessionArchived())
    for events in (together(laptop, tablet, guest), together(guest, tablet, laptop)[::-1]):
        state = fold(events)
        assert own_events.started_or_resumed_at(state, ours) == NOON + MINUTE
        assert not own_events.is_archived_by_us(state, ours)
        assert own_events.has_others(state, ours)
    assert not own_events.has_others(tablet.state(), ours)


def test_own_events_of_another_persons_session_are_empty_until_we_resume_it() -> None:
    theirs = Device("w2")
    theirs.receive(started())
    state = started().state()
    assert own_events.started_or_resumed_at(state, lambda writer: writer == "w2") is None
    assert own_events.last_activity(state, lambda writer: writer == "w2") == 0
    theirs.record(SessionResumed())
    assert own_events.started_or_resumed_at(theirs.state(), lambda writer: writer == "w2") == NOON
