"""Clean and shorten texts: those of agents for the log, and ours for the agents that read them.

The log gets text without what cannot be stored, of limited length, and ids in the closed alphabet. Agents get JSON
without control sequences, cut to what they take.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Final

import msgspec

from holdfast.core.canonical import Json, digest
from holdfast.core.text import shorten

MAX_GOAL_LENGTH: Final = 200
MAX_TEXT_LENGTH: Final = 2_000
MAX_REPLY_LENGTH: Final = 9_900  # characters: agents cut what is longer than 10,000, or put it elsewhere
# Patterns, compiled when they are first needed: hooks load this in a hurry.
_UNSTORABLE: Final = "[\ud800-\udfff\0]"
_CONTROLS: Final = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
_SURROGATE: Final = "[\ud800-\udfff]"
_ID: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z"
_WRAPPED: Final = r"(?s)<([a-z][a-z0-9_-]*)\b[^>]*>.*?</\1>"
# What a prompt begins with that a program wrote, not the person.
_PROGRAMS: Final = r"\s*<(?:task-notification|system-reminder|command-|local-command-|teammate-message|hook_context)"
_MAX_DEPTH: Final = 12
_MAX_KEPT_SIZE: Final = 8_192


# ── for the log ──────────────────────────────────────────────────────────────────────────────────────────


def plain(text: str, longest: int = MAX_TEXT_LENGTH) -> str:
    """The text without characters that cannot be stored, cut to a length."""
    text = text[: longest + 1]
    if not text.isascii() or "\0" in text:
        text = re.sub(_UNSTORABLE, "\ufffd", text)
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def goal_of(prompt: str) -> str | None:
    """The goal that a prompt states, in one line; None when it states none: a bare slash command, blank text."""
    # What programs wrap around the person's words (`<system-reminder>…`) is none of them.
    words = re.sub(_WRAPPED, " ", prompt[:20_000]) if "<" in prompt else prompt[:20_000]
    if not words.strip():
        if re.match(_PROGRAMS, prompt):
            return None
        words = prompt
    line = shorten(plain(words, 4 * MAX_GOAL_LENGTH), MAX_GOAL_LENGTH)
    # Commands, and Holdfast's own whatever follows: they begin a session themselves, or none.
    if not line or re.match(r"/(?:[\w:-]+(?: .{0,40})?\Z|(?:holdfast:)?(?:session|orchestrate)\b|holdfast:)", line):
        return None
    return line


def id_of(name: str) -> str:
    """An id for something an agent program named: that name itself, if it has only characters that ids allow."""
    return name if re.match(_ID, name) else "x" + digest(name.encode(errors="surrogatepass"))[:12]


def bounded(value: Json, depth: int = 0) -> Json:
    """An unknown value, limited in depth and length so that it can be kept."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        if depth >= _MAX_DEPTH:
            return "…"
        return {plain(name, 200): bounded(item, depth + 1) for name, item in list(value.items())[:100]}
    if isinstance(value, list):
        return "…" if depth >= _MAX_DEPTH else [bounded(item, depth + 1) for item in value[:100]]
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, int) and abs(value) > 2**53:
        return str(value)[:60]
    return value


def is_small(value: Json) -> bool:
    """Whether a value is small enough to be kept next to the log's own facts."""
    return len(msgspec.json.encode(value)) <= _MAX_KEPT_SIZE


# ── for agents ───────────────────────────────────────────────────────────────────────────────────────────


def reply_json(texts: Mapping[str, str | None], *, longest: int = MAX_REPLY_LENGTH, **flags: bool) -> str:
    """A JSON object of the flags and those texts that are not empty; empty when no text is left.

    The longest text is cut first.
    """
    cleaned = {name: without_controls(text[: 2 * longest]) for name, text in texts.items() if text}
    cleaned = {name: text for name, text in cleaned.items() if text}
    while cleaned:
        encoded = msgspec.json.encode({**flags, **cleaned}).decode()
        excess = len(encoded) - longest
        if excess <= 0:
            return encoded
        name = max(cleaned, key=lambda name: len(cleaned[name]))
        cleaned[name] = cut(cleaned[name], len(cleaned[name]) - excess)
    return ""


def without_controls(text: str | None) -> str:
    """Text that does nothing to a terminal, and can be written as UTF-8."""
    return re.sub(_SURROGATE, "\ufffd", re.sub(_CONTROLS, "", text or "")).strip()


def cut(text: str, longest: int) -> str:
    """The text, cut after as many whole lines as fit; within a line if that leaves too little."""
    if len(text) <= longest:
        return text
    start = text[: max(longest - 2, 0)]
    lines = start.rpartition("\n")[0]
    return f"{lines if len(lines) > longest // 2 else start}\n…"


def cut_for_json(text: str, longest: int) -> str:
    """The text, cut so that it fits once it is written as JSON, where quotes take two characters."""
    room = longest
    while True:
        shortened = cut(text, room)
        size = len(msgspec.json.encode(shortened).decode())
        if size <= longest + 2:
            return shortened
        room = min(room - 1, room * longest // size)
