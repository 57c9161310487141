"""JSON as the dashboard sends it: like everywhere, and with pieces of pages in it, which are text like any other."""

from __future__ import annotations

import msgspec
from markupsafe import Markup


def encoded(content: object) -> bytes:
    return msgspec.json.encode(content, enc_hook=_plain)


def _plain(value: object) -> object:
    if isinstance(value, Markup):
        return str.__str__(value)
    raise TypeError(f"{type(value).__name__} is not a JSON type")
