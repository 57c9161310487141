"""JSON that stays bytes until it is known that it matters: what keeps the reading of years of transcripts quick. Read
late, and nothing where it is not of the kind that is expected.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

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
    """What is there, whatever it is; None where it is no JSON."""
    try:
        found: Json = msgspec.json.decode(raw)
    except WRONG:
        return None
    return found
