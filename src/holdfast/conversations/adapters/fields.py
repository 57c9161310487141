"""JSON that stays bytes until it is known that it matters: what keeps the reading of years of transcripts quick. Read
late, and nothing where it is not of the kind that is expected.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final, TypeVar

import msgspec

from holdfast.conversations.adapters.base import Payload
from holdfast.conversations.adapters.private_text import without
from holdfast.core.canonical import Json

T = TypeVar("T")

NOTHING: Final = msgspec.Raw(b"null")
# All that reading JSON raises for what is in it.
WRONG: Final = (msgspec.MsgspecError, ValueError, RecursionError)


def read(decoder: msgspec.json.Decoder[T], raw: msgspec.Raw | bytes | str) -> T | None:
    """What is there, if it is of the kind that is expected."""
    try:
        return decoder.decode(raw)
    except WRONG:
        return None


def value(raw: msgspec.Raw | bytes | str) -> Json:
    """What is there, whatever it is; None where it is not JSON."""
    try:
        found: Json = msgspec.json.decode(raw)
    except WRONG:
        return None
    return found


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
            for item in value:
                if type(item) is dict:
                    yield item
            return


def rest(payload: Payload, known: Container[str]) -> dict[str, Json]:
    """The fields nobody here knows, without anybody's words: the only way into `Heard.rest`, for every agent."""
    return without({name: value for name, value in payload.items() if name not in known})
