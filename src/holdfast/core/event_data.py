"""What an event says, and what it may still say when its own data is erased.

An erasure may bring, for some of the events it names, the data as it may stand: the same without the secret. It then
counts in the erased event's place. What of several erasures counts is a function of the log, the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from holdfast.core.canonical import Json, is_too_deep
from holdfast.core.decode import decodable
from holdfast.core.envelope import Event
from holdfast.core.events import EVENT_TYPES, EventData, EventErased

_decoders: dict[str, msgspec.json.Decoder[EventData]] = {}


def read_data(event: Event) -> EventData | None:
    """What the event says; None when it was erased, or is of a type or version this program does not know."""
    kind = EVENT_TYPES.get(event.type)
    if kind is None or event.data is None or event.v > kind.version or is_too_deep(event.data):
        return None
    decoder = _decoders.get(event.type)
    if decoder is None:
        decoder = _decoders[event.type] = msgspec.json.Decoder(decodable(kind.data))
    try:
        return decoder.decode(event.data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


class Erasures(NamedTuple):
    """What the erasures of a session come to."""

    # The events whose data is erased.
    hashes: frozenset[str]
    # Of some of them: the data that stands instead.
    instead: Mapping[str, bytes]


def collect_erasures(events: Iterable[Event]) -> Erasures:
    """Of the events that count, in log order; only the erasures among them matter.

    Of several that name one event the strictest counts: one that puts nothing in its place. Otherwise the earliest.
    An erasure that was itself erased says what a later one says in its place.
    """
    stands: dict[str, bytes | None] = {}
    for event in reversed([event for event in events if event.type == "event.erased"]):
        data = read_data(_with(event, stands))
        if not isinstance(data, EventErased):
            continue
        for name in data.hashes:
            if name not in data.instead:
                stands[name] = None
            elif stands.get(name, b"") is not None:
                stands[name] = _written(data.instead[name])
    return Erasures(frozenset(stands), {name: data for name, data in stands.items() if data is not None})


def erased_hashes(erasure: EventErased) -> Iterator[str]:
    """Every event that an erasure names, also in what it puts in the place of another erasure, at any depth."""
    yield from erasure.hashes
    for data in erasure.instead.values():
        inner = parse_erasure(data)
        if inner is not None:
            yield from erased_hashes(inner)


def parse_erasure(data: Json) -> EventErased | None:
    """What stands in the place of an erasure, as an erasure; None when it is none."""
    try:
        return msgspec.convert(data, decodable(EventErased))
    except msgspec.MsgspecError:
        return None


def with_remaining_data(event: Event, instead: Mapping[str, bytes]) -> Event:
    """The event as it counts: with its own data, or what may stand in its place where that can be read."""
    found = _with(event, instead)
    return found if found is event or read_data(found) is not None else event


def _with(event: Event, instead: Mapping[str, bytes | None]) -> Event:
    data = instead.get(event.hash) if event.data is None else None
    return event if data is None else msgspec.structs.replace(event, data=data)


def _written(data: Json) -> bytes | None:
    try:
        return msgspec.json.encode(data)
    except (msgspec.MsgspecError, OverflowError, ValueError, RecursionError):
        return None
