"""The clock only moves forward, and the order of the log is the same on every device, whatever clocks peers write."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.canonical import MAX_SAFE_INTEGER
from holdfast.core.clock import MAX_CLOCK, adjusted_clocks, keeps_written_clock, log_position, tick
from holdfast.core.envelope import Event, StreamHead, make_event
from holdfast.core.fold import apply, fold, in_log_order, skip_duplicate
from holdfast.core.registers import current_value, disputes
from holdfast.core.state import State, freeze
from tests.core.clocked_histories import (
    ABSURD,
    SESSION,
    START,
    UNSTORABLE,
    Author,
    ancestors,
    model_clocks,
    model_order,
    random_history,
)


def test_clock_follows_the_wall_clock_while_that_is_ahead() -> None:
    assert tick(5, 1_000_000) == 1_000_000


def test_clock_advances_by_one_when_the_wall_clock_is_behind() -> None:
    """After a clock was set back, or behind a peer with a fast clock."""
    assert tick(1_000_000, 5) == 1_000_001
    assert tick(1_000_000, 1_000_000) == 1_000_001


def test_clock_starts_above_zero() -> None:
    """Even on a machine whose wall clock says 1970 or earlier."""
    assert tick(0, 0) == 1
    assert tick(0, -(10**18)) == 1
    assert tick(-50, -50) == 1


def test_clock_advances_by_one_beyond_the_bound() -> None:
    """No wall clock leads past the bound; a session that is past it still advances."""
    assert tick(0, 10**30) == MAX_CLOCK
    assert tick(MAX_CLOCK, 0) == MAX_CLOCK + 1
    assert tick(MAX_CLOCK + 1, 10**30) == MAX_CLOCK + 2
    assert MAX_CLOCK + 10**12 < MAX_SAFE_INTEGER  # this many events may follow


@given(st.lists(st.integers(-(10**16), 10**16), max_size=30), st.integers(0, MAX_CLOCK + 10**6))
def test_clock_always_advances(walls: list[int], last: int) -> None:
    """For any wall clock, an event's clock is later than all known before it."""
    for wall in walls:
        following = tick(last, wall)
        assert following > last
        assert following >= min(wall, MAX_CLOCK)
        last = following


# ── effective clocks ─────────────────────────────────────────────────────────────────────────────────────


def event(writer: str, seq: int, clock: int, prev: Event | None = None, *seen: Event) -> Event:
    return make_event(
        session=SESSION, writer=writer, seq=seq, prev=prev.hash if prev else None, clock=clock, at=START, actor="a",
        type="note.added", version=1, data=b'{"text":"x"}', salt=bytes(16), seen=tuple(item.head for item in seen),
    )  # fmt: skip


def test_clock_beyond_the_bound_is_replaced_by_one_after_its_causes() -> None:
    """Literal examples: with causes, without causes, and with unknown causes."""
    first = event("a", 1, 100)
    other = event("b", 1, 70)
    beyond = event("b", 2, MAX_SAFE_INTEGER, other, first)
    after = event("b", 3, MAX_SAFE_INTEGER, beyond)
    behind = event("a", 2, 50, first, after)
    alone = event("c", 1, MAX_CLOCK + 1)
    log = [first, other, beyond, after, behind, alone]
    assert adjusted_clocks(log) == {beyond.hash: 101, after.hash: 102, behind.hash: 103, alone.hash: 1}
    assert [item.hash for item in in_log_order(log)] == [
        item.hash for item in (alone, other, first, beyond, after, behind)
    ]
    assert adjusted_clocks([beyond, after]) == {beyond.hash: 1, after.hash: 2}
    assert adjusted_clocks([other, beyond]) == {beyond.hash: 71}
    assert adjusted_clocks([event("a", 1, MAX_CLOCK)]) == {}


def test_cyclic_causes_are_ordered_without_error() -> None:
    """Only damaged rows can have cycles, since a hash cannot contain itself."""
    one, two = event("a", 1, MAX_SAFE_INTEGER), event("b", 1, MAX_SAFE_INTEGER)
    import msgspec

    one = msgspec.structs.replace(one, seen=(StreamHead("b", 1, two.hash),), prev=one.hash)
    two = msgspec.structs.replace(two, seen=(StreamHead("a", 1, one.hash),))
    assert len(in_log_order([one, two])) == 2
    assert fold([one, two]) == fold([two, one])


def test_long_stream_with_absurd_clocks_is_ordered_without_recursion() -> None:
    """Equal or decreasing clocks, in a stream longer than the interpreter's stack."""
    for clocks in (lambda seq: MAX_SAFE_INTEGER, lambda seq: 10_000 - seq):
        log: list[Event] = []
        for seq in range(1, 5001):
            log.append(event("a", seq, clocks(seq), log[-1] if log else None))
        assert [item.seq for item in in_log_order(reversed(log))] == list(range(1, 5001))


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 14))
def test_log_order_matches_the_model(chance: random.Random, size: int) -> None:
    """All of a history or any part of it, in any order of arrival, and never against causality."""
    history = random_history(chance, events=size, clocks=(*ABSURD, *UNSTORABLE))
    for log in (history, chance.sample(history, k=chance.randint(1, size))):
        clocks, shuffled = model_clocks(log), chance.sample(log, k=len(log))
        assert adjusted_clocks(shuffled) == {
            item.hash: clocks[item.hash] for item in log if clocks[item.hash] != item.clock
        }
        ordered = sorted(log, key=lambda one: log_position(one, adjusted_clocks(shuffled)))
        assert ordered == model_order(log)
        places = {item.hash: number for number, item in enumerate(ordered)}
        assert all(places[cause] < places[item.hash] for item in log for cause in ancestors(item, log))
        assert freeze(fold(shuffled)) == freeze(fold(log))


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(2, 14))
def test_event_stays_behind_all_its_honest_writer_had_seen(chance: random.Random, size: int) -> None:
    """Whatever arrives later."""
    history = random_history(chance, events=size)
    author = Author("w9", honest=True)
    streams = {
        writer: [entry for entry in history if entry.writer == writer]
        for writer in {entry.writer for entry in history}
    }
    own: list[tuple[Event, set[str]]] = []
    while any(streams.values()):
        stream = chance.choice([stream for stream in streams.values() if stream])
        for _ in range(min(len(stream), chance.randint(1, 4))):  # streams arrive from their beginning
            author.receive([stream.pop(0)])
        before = set(author.known)
        made = author.write(chance, ())
        assert model_order(author.known.values())[-1] == made
        assert made.hash not in adjusted_clocks(author.known.values())
        own.append((made, before))
    ordered = [item.hash for item in in_log_order(author.known.values())]
    places = {name: number for number, name in enumerate(ordered)}
    for made, before in own:
        assert all(places[name] < places[made.hash] for name in before & places.keys())
    last = next((made for made, _ in reversed(own) if made.type in ("session.edited", "session.started")), None)
    if last is not None and own[-1][0] == last and last.type == "session.edited":
        assert current_value(author.state().registers["goal"]) == f"goal {len(author.known) - 1}"
        assert not [
            dispute for dispute in disputes(author.state()) if dispute.field == "goal" and dispute.chosen is None
        ]


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 14))
def test_incremental_fold_equals_full_fold_while_clocks_are_unadjusted(chance: random.Random, size: int) -> None:
    """As long as every event counts with the clock it was written with."""
    history = sorted(random_history(chance, events=size), key=lambda one: one.written)
    counting = {item.hash for item in in_log_order(history)}
    state = State(session=SESSION)
    for number, entry in enumerate(history, start=1):
        if not keeps_written_clock(state, entry):
            break
        (apply if entry.hash in counting else skip_duplicate)(state, entry)
        whole = fold(history[:number])
        assert whole.moved == {}
        assert (whole.last, whole.heads, whole.seen) == (state.last, state.heads, state.seen)
    else:
        assert state == fold(history)
