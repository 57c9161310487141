"""Is the log whole? The rules by which a chain of events is checked, for every kind of store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from holdfast.core.envelope import Event, body_of, find_problem, hash_of


class Flaw(NamedTuple):
    """What is wrong, and with which event of which stream."""

    writer: str
    seq: int
    detail: str
    # The event itself is wrong, not its neighbours: repairing sets it aside.
    damaged: Event | None = None


def flaws(events: Iterable[Event]) -> Iterator[Flaw]:
    """Every flaw in the streams of one session, given in log order."""
    streams: dict[str, list[Event]] = {}
    for event in events:
        streams.setdefault(event.writer, []).append(event)
    for writer, stream in streams.items():
        stream.sort(key=lambda event: (event.seq, event.clock, event.hash))
        yield from _stream(writer, stream)


def unentitled_erasure(event: Event) -> Flaw:
    """What is wrong with an erasure of what its author may not erase."""
    detail = f"event {event.seq} erases what another person put there: nothing is erased by it"
    return Flaw(event.writer, event.seq, detail, event)


def mended(event: Event, before: Iterable[str], is_named: Callable[[str], bool]) -> Iterator[Event]:
    """What a damaged event may have been. The log says most things twice: a digest can be computed again, a hash
    stands before, or the next event repeats it. The event's own hash says which guess is none.

    `before` are the hashes of the events before it in its stream; `is_named` knows what an event is said to follow.
    """
    if event.data is not None and event.salt is not None:
        yield msgspec.structs.replace(event, body=body_of(event.data, event.salt))
    for name in before:
        yield msgspec.structs.replace(event, prev=name)
    yield msgspec.structs.replace(event, prev=None)
    computed = hash_of(event)
    if is_named(computed):
        yield msgspec.structs.replace(event, hash=computed)


def forks(events: Iterable[Event]) -> Iterator[Flaw]:
    """Where a stream goes on twice: two copies of one home wrote. Each is whole by itself, and both count."""
    places: dict[str, dict[int, list[Event]]] = {}
    for event in events:
        places.setdefault(event.writer, {}).setdefault(event.seq, []).append(event)
    for writer, numbers in places.items():
        for seq, there in sorted(numbers.items()):
            if len(there) > 1 and len({event.hash for event in there if find_problem(event) is None}) > 1:
                yield Flaw(
                    writer, seq, f"two copies of one home went on from event {seq - 1} of {writer}; both are kept"
                )
                break


def _stream(writer: str, stream: list[Event]) -> Iterator[Flaw]:
    hashes: dict[int, set[str | None]] = {0: {None}}
    expected = 1
    for event in stream:
        wrong = find_problem(event)
        if wrong is not None:
            yield Flaw(writer, event.seq, f"event {event.seq} is damaged: {wrong}", event)
            if hash_of(event) != event.hash:
                continue  # what it says of its place cannot be trusted either
        elif event.hash in hashes.get(event.seq, ()):
            yield Flaw(writer, event.seq, f"event {event.seq} is there twice", event)
        if event.seq > expected:
            last = event.seq - 1
            which = f"event {expected} is" if last == expected else f"events {expected} to {last} are"
            yield Flaw(writer, expected, f"{which} missing")
        elif wrong is None and event.prev not in hashes.get(event.seq - 1, {event.prev}):
            yield Flaw(writer, event.seq, f"event {event.seq} does not follow event {event.seq - 1}")
        hashes.setdefault(event.seq, set()).add(event.hash)
        expected = max(expected, event.seq + 1)
