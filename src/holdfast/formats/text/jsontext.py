"""JSON documents as text: two spaces, key order kept, letters as they are, control characters as escapes."""

from __future__ import annotations

import json

import msgspec

from holdfast.core.canonical import Json
from holdfast.core.text import escaped_json


def written(value: Json) -> bytes:
    try:
        return escaped_json(msgspec.json.format(msgspec.json.encode(value), indent=2)) + b"\n"
    except (OverflowError, UnicodeEncodeError, msgspec.MsgspecError):  # lone surrogates, absurd numbers
        text = json.dumps(value, indent=2, ensure_ascii=False)
        return escaped_json(text.encode("utf-8", "backslashreplace")) + b"\n"
