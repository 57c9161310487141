"""Goose's messages, as they stand in its database and stood in files before: parts of text, tool calls and what came
of them. Only the fields named here are decoded; everything may be missing.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.capture.values import NOTHING
from holdfast.core.decoding import decodable

# Times are whole seconds in some versions and milliseconds in others; seconds reach this in the year 2286.
_SECONDS_END: Final = 10_000_000_000


class Asked(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: msgspec.Raw = NOTHING


class ToolCall(msgspec.Struct, gc=False):
    status: str | None = None
    value: Asked | None = None


class Came(msgspec.Struct, gc=False):
    status: str | None = None
    error: msgspec.Raw = NOTHING
    value: msgspec.Raw = NOTHING


class Result(msgspec.Struct, gc=False):
    is_error: bool | None = msgspec.field(name="isError", default=None)


class Part(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    id: str | None = None
    call: ToolCall | None = msgspec.field(name="toolCall", default=None)
    result: Came | None = msgspec.field(name="toolResult", default=None)


class Seen(msgspec.Struct, gc=False):
    """For whom a message is."""

    person: bool | None = msgspec.field(name="userVisible", default=None)


class Message(msgspec.Struct, gc=False):
    """A line of a file of older versions: a message, or (the first) what the conversation is."""

    role: str | None = None
    created: int | None = None
    id: str | None = None
    content: msgspec.Raw = NOTHING
    working_dir: str | None = None
    description: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    accumulated_input_tokens: int | None = None
    accumulated_output_tokens: int | None = None


PARTS: Final = msgspec.json.Decoder(decodable(list[Part]))
SEEN: Final = msgspec.json.Decoder(decodable(Seen))
RESULT: Final = msgspec.json.Decoder(decodable(Result))
MESSAGE: Final = msgspec.json.Decoder(decodable(Message))


def millis(stamp: object) -> int:
    """A time of Goose's in milliseconds; 0 for what is none."""
    if type(stamp) is not int or not 0 < stamp < _SECONDS_END * 1000:
        return 0
    return stamp * 1000 if stamp < _SECONDS_END else stamp
