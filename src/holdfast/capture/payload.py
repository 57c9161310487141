"""Reading payloads as they come: whatever is missing or of another type than it should be is simply not there."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final

from holdfast.capture.interface import Payload
from holdfast.capture.private import without
from holdfast.core.canonical import Json

MOST: Final = 10**12
LONGEST_ID: Final = 200
_NOTHING: Final[Payload] = {}


def word(payload: Payload, *names: str) -> str | None:
    """The first of these fields that holds text with something in it."""
    for name in names:
        value = payload.get(name)
        if type(value) is str and value.strip():
            return value
    return None


def text(payload: Payload, *names: str) -> str | None:
    """The first of these fields that is text, even if there is nothing in it."""
    for name in names:
        value = payload.get(name)
        if type(value) is str:
            return value
    return None


def conversation_of(payload: Payload, *names: str) -> str | None:
    """The program's own id of the conversation, if it can be one: a line of text that can be shown."""
    value = word(payload, *names)
    return value if value is not None and len(value) <= LONGEST_ID and value.isprintable() else None


def number(payload: Payload, *names: str) -> int | None:
    """The first of these fields that holds a number that can be one of tokens, bytes or milliseconds."""
    for name in names:
        value = payload.get(name)
        if type(value) in (int, float) and 0 <= value <= MOST:  # type: ignore[operator]
            return int(value)  # type: ignore[arg-type]
    return None


def amount(payload: Payload, *names: str) -> float | None:
    for name in names:
        value = payload.get(name)
        if type(value) in (int, float) and 0 <= value <= MOST:  # type: ignore[operator]
            return float(value)  # type: ignore[arg-type]
    return None


def flag(payload: Payload, name: str) -> bool:
    return payload.get(name) is True


def part(payload: Payload, *names: str) -> Payload:
    """The first of these fields that is an object; an empty one otherwise."""
    for name in names:
        value = payload.get(name)
        if type(value) is dict:
            return value
    return _NOTHING


def parts(payload: Payload, *names: str) -> Iterator[Payload]:
    """The objects in the first of these fields that is a list."""
    for name in names:
        value: Json = payload.get(name)
        if type(value) is list:
            for one in value:
                if type(one) is dict:
                    yield one
            return


def rest(payload: Payload, known: Container[str]) -> dict[str, Json]:
    """The fields nobody here knows, without anybody's words: the only way into `Heard.rest`, for every agent."""
    return without({name: value for name, value in payload.items() if name not in known})
