"""The texts of a reply as JSON, without control sequences, shortened to what the agent takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

LONGEST: Final = 9_900  # characters: agents cut what is longer than 10,000, or put it elsewhere
# Patterns, compiled when they are first needed: hooks load this in a hurry.
_ACTING: Final = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
_SURROGATE: Final = "[\ud800-\udfff]"


def fitted(texts: Mapping[str, str | None], *, longest: int = LONGEST, **beside: bool) -> str:
    """The texts that there are as a JSON object, with what is to stand beside them; nothing when there are none.

    The longest one is cut first.
    """
    said = {name: found for name, text in texts.items() if text and (found := clean(text[: 2 * longest]))}
    while said:
        written = msgspec.json.encode({**beside, **said}).decode()
        over = len(written) - longest
        if over <= 0:
            return written
        name = max(said, key=lambda one: len(said[one]))
        said[name] = cut(said[name], len(said[name]) - over)
    return ""


def clean(text: str | None) -> str:
    """Text that does nothing to a terminal, and can be written as UTF-8."""
    return re.sub(_SURROGATE, "\ufffd", re.sub(_ACTING, "", text or "")).strip()


def cut(text: str, longest: int) -> str:
    """The text, or as many of its lines as there is room for, or of its characters if that is too little."""
    if len(text) <= longest:
        return text
    kept = text[: max(longest - 2, 0)]
    whole = kept.rpartition("\n")[0]
    return f"{whole if len(whole) > longest // 2 else kept}\n…"


def written(text: str, longest: int) -> str:
    """As many of the lines as there is room for once they are written as JSON, where quotes take two characters."""
    room = longest
    while True:
        found = cut(text, room)
        size = len(msgspec.json.encode(found).decode())
        if size <= longest + 2:
            return found
        room = min(room - 1, room * longest // size)
