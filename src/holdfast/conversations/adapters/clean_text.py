"""Text from agents made fit to be kept: short, without what cannot be stored, and ids in the closed alphabet."""

from __future__ import annotations

import re
from math import isfinite
from typing import Final

import msgspec

from holdfast.core.canonical import Json, digest
from holdfast.core.text import shorten

LONGEST_GOAL: Final = 200
LONGEST_TEXT: Final = 2_000
# Patterns, compiled when they are first needed: hooks load this in a hurry.
_UNFIT: Final = "[\ud800-\udfff\0]"
_ID: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z"
_WRAPPED: Final = r"(?s)<([a-z][a-z0-9_-]*)\b[^>]*>.*?</\1>"
# What a prompt begins with that a program wrote, not the person.
_PROGRAMS: Final = r"\s*<(?:task-notification|system-reminder|command-|local-command-|teammate-message|hook_context)"
_DEEPEST: Final = 12
_LONGEST_KEPT: Final = 8_192


def plain(text: str, longest: int = LONGEST_TEXT) -> str:
    """The text without characters that cannot be stored, cut to a length."""
    text = text[: longest + 1]
    if not text.isascii() or "\0" in text:
        text = re.sub(_UNFIT, "\ufffd", text)
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def goal_of(prompt: str) -> str | None:
    """The goal that a prompt states, in one line; None when it states none: a bare slash command, a mere blank."""
    # What programs wrap around the person's words (`<system-reminder>…`) is none of them.
    words = re.sub(_WRAPPED, " ", prompt[:20_000]) if "<" in prompt else prompt[:20_000]
    if not words.strip():
        if re.match(_PROGRAMS, prompt):
            return None
        words = prompt
    line = shorten(plain(words, 4 * LONGEST_GOAL), LONGEST_GOAL)
    # Commands, and Holdfast's own whatever follows: they begin a session themselves, or none.
    if not line or re.match(r"/(?:[\w:-]+(?: .{0,40})?\Z|(?:holdfast:)?(?:session|orchestrate)\b|holdfast:)", line):
        return None
    return line


def id_of(name: str) -> str:
    """An id of the closed alphabet for what an agent program calls something: its own word wherever that will do."""
    return name if re.match(_ID, name) else "x" + digest(name.encode(errors="surrogatepass"))[:12]


def kept(value: Json, depth: int = 0) -> Json:
    """A value nobody here knows, as it may be kept: bounded in depth and length."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        if depth >= _DEEPEST:
            return "…"
        return {plain(name, 200): kept(item, depth + 1) for name, item in list(value.items())[:100]}
    if isinstance(value, list):
        return "…" if depth >= _DEEPEST else [kept(item, depth + 1) for item in value[:100]]
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, int) and abs(value) > 2**53:
        return str(value)[:60]
    return value


def fits(value: Json) -> bool:
    """Whether a value is small enough to be kept beside the log's own facts."""
    return len(msgspec.json.encode(value)) <= _LONGEST_KEPT
