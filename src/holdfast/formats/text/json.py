"""Write JSON documents (two spaces, key order kept, control characters escaped) and read plain ones quickly."""

from __future__ import annotations

import json
import re
from typing import Final

import msgspec

from holdfast.core import limits
from holdfast.core.canonical import MAX_DEPTH, Json
from holdfast.core.text import MAX_TEXT_LENGTH, escaped_json


def render_json(value: Json) -> bytes:
    try:
        return escaped_json(msgspec.json.format(msgspec.json.encode(value), indent=2)) + b"\n"
    except (OverflowError, UnicodeEncodeError, msgspec.MsgspecError):  # lone surrogates, absurd numbers
        text = json.dumps(value, indent=2, ensure_ascii=False)
        return escaped_json(text.encode("utf-8", "backslashreplace")) + b"\n"


LIMIT: Final = limits.MAX_DOCUMENT_SIZE
_KEY: Final = re.compile(rb'"\s*:')
_DIGITS_ALIKE: Final = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_NUMBER: Final = b"0" * 30  # the strict reader may refuse it
_NOT_PLAIN: Final = (b"\\u002", b"\\u003", b"\\u0000", b"\r")
_MAX_PLAIN_PARTS: Final = 50_000
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def parse_plain(raw: bytes) -> Json:
    r"""The data in a JSON text that the strict reader would accept without notes. May return None at any time.

    A duplicate key is lost in decoding. So possible keys are counted in the text and again in the re-encoded data:
    equal counts mean that none was lost. Only quotes and colons spelled `\u0022` and `\u003a` could fool the count,
    so text with those is not plain; nor is text that no event can hold: with a NUL, or longer than the limit.
    """
    if (
        len(raw) > MAX_TEXT_LENGTH
        or any(sign in raw for sign in _NOT_PLAIN)
        or _LONG_NUMBER in raw.translate(_DIGITS_ALIKE)
    ):
        return None
    spaced = b" :" in raw or b"\n:" in raw or b"\t:" in raw
    keys = len(_KEY.findall(raw)) if spaced else raw.count(b'":')
    try:
        value: Json = _decode(raw)
        if _encode(value).count(b'":') != keys:
            return None
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return None
    opened = raw.count(b"[") + raw.count(b"{")
    if opened + raw.count(b",") > _MAX_PLAIN_PARTS or (opened > MAX_DEPTH and _depth(value) > MAX_DEPTH):
        return None
    return value


def _depth(value: Json) -> int:
    level: list[Json] = [value]
    depth = 0
    while level:
        level = [
            inner
            for part in level
            if isinstance(part, (dict, list))
            for inner in (part.values() if isinstance(part, dict) else part)
            if isinstance(inner, (dict, list))
        ]
        depth += 1
    return depth
