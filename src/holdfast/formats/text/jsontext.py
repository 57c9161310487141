"""JSON documents as text: two spaces, key order kept, non-ASCII letters as they are, a newline at the end."""

from __future__ import annotations

import json

import msgspec

from holdfast.core.canonical import Json


def written(value: Json) -> bytes:
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
    except (OverflowError, UnicodeEncodeError, msgspec.MsgspecError):  # lone surrogates, absurd numbers
        return json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
