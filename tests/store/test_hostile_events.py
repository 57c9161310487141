"""Foreign events and snapshots with values that no program writes: the store keeps working with all others."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.core import view
from holdfast.core.canonical import MAX_SAFE_INTEGER
from holdfast.core.envelope import Event, StreamHead, hash_of, make_event
from holdfast.core.errors import Damaged
from holdfast.core.fold import fold
from holdfast.core.state import State, Write, freeze, thaw
from holdfast.core.wording import describe_event
from holdfast.store.conformance import BEN, SESSION, START, Ticks, note, put, started, take
from holdfast.store.interface import Filter
from holdfast.store.sqlite import SqliteStore
from holdfast.store.tables import summary


def foreign_event(kind: str, data: bytes, seq: int = 1, **more: Any) -> Event:
    facts: dict[str, Any] = {
        "session": SESSION, "writer": BEN, "seq": seq, "prev": None, "clock": 10**15 + seq, "at": START,
        "actor": "ben", "type": kind, "version": 1, "data": data, "salt": bytes(16), **more,
    }  # fmt: skip
    return make_event(**facts)


HOSTILE = {
    "a number of a thousand digits": ("conflict.found", b'{"field":"x","value":1' + b"0" * 1000 + b"}"),
    "a number beyond 64 bits": ("conflict.found", b'{"field":"goal","stood":[1' + b"0" * 20 + b"]}"),
    "more than all": ("session.edited", b'{"progress":1e308,"cost_usd":-1e308}'),
    "less than nothing": ("session.edited", b'{"progress":-1e308}'),
    "an agent beyond all": ("agent.progressed", b'{"id":"x","progress":1e308}'),
    "a choice of more than all": (
        "conflict.resolved", b'{"field":"progress","chosen":"","overruled":[],"value":1e308}'
    ),
    "nested": ("extra.kept", b'{"name":"x","value":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "a percentage of a thousand digits": ("session.edited", b'{"progress":1' + b"0" * 1000 + b"}"),
    "no UTF-8": ("note.added", b'{"text":"\xff"}'),
    "an alias of a megabyte": ("alias.given", b'{"format":"craft","id":"' + b"x" * 1_000_000 + b'"}'),
}  # fmt: skip


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=list(HOSTILE))
def test_session_keeps_working_after_a_hostile_event(tmp_path: Path, hostile: tuple[str, bytes]) -> None:
    """The event arrived by sync: listings, snapshots and later events are unaffected."""
    with closing(SqliteStore(str(tmp_path / "store.db"), writer=lambda: "a" * 32, wall=Ticks())) as store:
        put(store, SESSION, started())
        theirs = foreign_event(*hostile)
        assert take(store, [theirs]) == 1
        put(store, SESSION, *(note(f"more {number}") for number in range(40)))
        state = store.state(SESSION)
        assert state is not None
        assert thaw(freeze(state)) == state == fold(list(store.events(SESSION)), SESSION)
        assert [0 <= row.progress <= 1 for row in store.rows(Filter())] == [True]
        assert list(store.check()) == []
        assert describe_event(theirs) is not None
        assert view.session(state, START).id == SESSION


@pytest.mark.parametrize(
    "changed",
    [{"seen": (StreamHead("w", 2**64, "00"),)}, {"seen": (StreamHead("w", 0, "00"),)}, {"body": "zz"}, {"body": ""},
     {"prev": "00"}, {"prev": "AB" * 32}, {"data": None}, {"writer": ""}, {"writer": "x" * 201}],
)  # fmt: skip
def test_receive_refuses_events_that_a_server_would_refuse(tmp_path: Path, changed: dict[str, Any]) -> None:
    """Both kinds of store accept the same events, so one can be copied to the other."""
    made = msgspec.structs.replace(foreign_event("note.added", b'{"text":"x"}'), **changed)
    made = msgspec.structs.replace(made, hash=hash_of(made))
    with closing(SqliteStore(str(tmp_path / "store.db"), writer=lambda: "a" * 32, wall=Ticks())) as store:
        put(store, SESSION, started())
        with pytest.raises(Damaged, match="an event was refused"):
            take(store, [made])


def test_redaction_counts_stay_within_a_safe_integer() -> None:
    """Whatever thousands of events claim."""
    many = [
        foreign_event("note.added", b'{"text":"x","redacted":{"key":%d}}' % MAX_SAFE_INTEGER, seq=number)
        for number in range(1, 2100)
    ]
    state = fold(many, SESSION)
    assert thaw(freeze(state)) == state
    assert state.redacted == {"key": MAX_SAFE_INTEGER}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, -1.0, 7])
def test_progress_of_a_foreign_snapshot_is_clamped(value: float) -> None:
    """In a team's store, readers use the snapshots of a session's owner, which may contain NaN."""
    state = State(session=SESSION, registers={"progress": [Write(value, BEN, 1, "00", START)]})
    assert 0 <= view.progress_of(state) <= 1
    assert 0 <= summary(state).progress <= 1
    assert 0 <= view.session(state, START).progress <= 1


@pytest.mark.parametrize("moment", [2**63 - 1, -(2**63)])
def test_listing_times_fit_every_store(moment: int) -> None:
    state = State(session=SESSION, created_at=moment, updated_at=-moment)
    listed = summary(state)
    assert -(2**53) < listed.created_at < 2**53
    assert -(2**53) < listed.updated_at < 2**53
    assert 0 <= listed.working_ms < 2**53
