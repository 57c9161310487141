"""Read the data of an event, or what replaces it after an erasure.

An erasure can contain replacements for some of the events it names: the same data without the secret. Which of
several erasures counts is a function of the log, the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from holdfast.core.canonical import Json, is_too_deep
from holdfast.core.decode import decodable
from holdfast.core.envelope import Event
from holdfast.core.events import EVENT_TYPES, EventData, EventErased

# The types that erase data of other events.
ERASING = frozenset({"event.erased", "session.deleted"})

_decoders: dict[str, msgspec.json.Decoder[EventData]] = {}


def read_data(event: Event) -> EventData | None:
    """The event's data; None if it was erased, or its type or version is unknown to this program."""
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
    """The combined effect of a session's erasures."""

    # The events whose data is erased.
    hashes: frozenset[str]
    # Replacements for the data of some of them.
    instead: Mapping[str, bytes]


def collect_erasures(events: Iterable[Event]) -> Erasures:
    """Combine the erasures among the given events, which are in log order and count.

    Of several erasures of one event, one without a replacement wins, otherwise the earliest. An erasure that was
    itself erased counts as what replaced it.
    """
    replacements: dict[str, bytes | None] = {}
    for event in reversed([event for event in events if event.type == "event.erased"]):
        data = read_data(_with_replacement(event, replacements))
        if not isinstance(data, EventErased):
            continue
        for hash_ in data.hashes:
            if hash_ not in data.instead:
                replacements[hash_] = None
            elif replacements.get(hash_, b"") is not None:
                replacements[hash_] = _encode(data.instead[hash_])
    return Erasures(
        frozenset(replacements), {hash_: data for hash_, data in replacements.items() if data is not None}
    )


def erased_hashes(erasure: EventErased) -> Iterator[str]:
    """The hash of every event that an erasure names, also within its replacements of other erasures."""
    yield from erasure.hashes
    for data in erasure.instead.values():
        inner = parse_erasure(data)
        if inner is not None:
            yield from erased_hashes(inner)


def parse_erasure(data: Json) -> EventErased | None:
    """The replacement decoded as an erasure; None if it is not one."""
    try:
        return msgspec.convert(data, decodable(EventErased))
    except msgspec.MsgspecError:
        return None


def with_data_or_replacement(event: Event, instead: Mapping[str, bytes]) -> Event:
    """The event with its own data, or with its replacement if that is readable."""
    replaced = _with_replacement(event, instead)
    return replaced if replaced is event or read_data(replaced) is not None else event


def _with_replacement(event: Event, replacements: Mapping[str, bytes | None]) -> Event:
    data = replacements.get(event.hash) if event.data is None else None
    return event if data is None else msgspec.structs.replace(event, data=data)


def _encode(data: Json) -> bytes | None:
    try:
        return msgspec.json.encode(data)
    except (msgspec.MsgspecError, OverflowError, ValueError, RecursionError):
        return None
