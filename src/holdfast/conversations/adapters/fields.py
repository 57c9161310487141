"""Read fields of payloads and of JSON lines: typed, bounded, and never raising for what is in them.

What is missing or of another type counts as absent. JSON stays bytes until it is known to matter, which keeps reading
years of transcripts quick. Fields nobody knows are kept without anybody's words.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from holdfast.conversations.adapters.base import Payload
from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.times import LATEST, parse_time

T = TypeVar("T")

NULL: Final = msgspec.Raw(b"null")
# Everything that decoding JSON can raise.
DECODE_ERRORS: Final = (msgspec.MsgspecError, ValueError, RecursionError)
MAX_NUMBER: Final = 10**12
MAX_ID_LENGTH: Final = 200
_EMPTY: Final[Payload] = {}


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────


def decode(decoder: msgspec.json.Decoder[T], raw: msgspec.Raw | bytes | str) -> T | None:
    """The decoded value; None where the JSON is broken or of another type."""
    try:
        return decoder.decode(raw)
    except DECODE_ERRORS:
        return None


def decode_any(raw: msgspec.Raw | bytes | str) -> Json:
    """The decoded value, whatever its type; None where it is not JSON."""
    try:
        value: Json = msgspec.json.decode(raw)
    except DECODE_ERRORS:
        return None
    return value


# ── fields ───────────────────────────────────────────────────────────────────────────────────────────────


def get_text(payload: Payload, *names: str) -> str | None:
    """The first of these fields that holds text which is not blank."""
    for name in names:
        value = payload.get(name)
        if type(value) is str and value.strip():
            return value
    return None


def get_string(payload: Payload, *names: str) -> str | None:
    """The first of these fields that holds text, even empty text."""
    for name in names:
        value = payload.get(name)
        if type(value) is str:
            return value
    return None


def get_conversation(payload: Payload, *names: str) -> str | None:
    """The program's own id of the conversation, if it can be one: a printable line of limited length."""
    value = get_text(payload, *names)
    return value if value is not None and len(value) <= MAX_ID_LENGTH and value.isprintable() else None


def get_int(payload: Payload, *names: str) -> int | None:
    """The first of these fields that can be a number of tokens, bytes or milliseconds."""
    for name in names:
        value = payload.get(name)
        if type(value) in (int, float) and 0 <= value <= MAX_NUMBER:  # type: ignore[operator]
            return int(value)  # type: ignore[arg-type]
    return None


def get_float(payload: Payload, *names: str) -> float | None:
    """The first of these fields that can be an amount, such as a price."""
    for name in names:
        value = payload.get(name)
        if type(value) in (int, float) and 0 <= value <= MAX_NUMBER:  # type: ignore[operator]
            return float(value)  # type: ignore[arg-type]
    return None


def get_flag(payload: Payload, name: str) -> bool:
    return payload.get(name) is True


def get_object(payload: Payload, *names: str) -> Payload:
    """The first of these fields that is an object; an empty one otherwise."""
    for name in names:
        value = payload.get(name)
        if type(value) is dict:
            return value
    return _EMPTY


def get_objects(payload: Payload, *names: str) -> Iterator[Payload]:
    """The objects in the first of these fields that is a list."""
    for name in names:
        value: Json = payload.get(name)
        if type(value) is list:
            for item in value:
                if type(item) is dict:
                    yield item
            return


# ── times ────────────────────────────────────────────────────────────────────────────────────────────────

# Agents write millions of times, and the same hours come again and again.
_hours: dict[str, int] = {}


def parse_timestamp(written: str | None) -> int | None:
    """A time as a program writes it, in milliseconds; None for anything else."""
    if written is None:
        return None
    if len(written) == 24 and written[23] == "Z" and written[16] == ":" and written[19] == ".":
        # Parsing a calendar date costs more than the rest of a line.
        hour = _hours.get(written[:14])
        if hour is None:
            hour = _parse_hour(written[:14])
        minute, second = written[14:16], written[17:19] + written[20:23]
        if hour is not None and minute.isdecimal() and second.isdecimal() and written.isascii():
            return hour + min(int(minute), 59) * 60_000 + min(int(second), 59_999)
    try:
        return parse_time(written)
    except Invalid:
        return None


def parse_millis(value: object) -> int | None:
    """A time that a program writes as a number of milliseconds; None for anything else."""
    number = value if type(value) is int or type(value) is float else 0
    return int(number) if 0 < number < LATEST else None


def _parse_hour(written: str) -> int | None:
    if len(_hours) > 10_000:
        _hours.clear()
    try:
        _hours[written] = parse_time(f"{written}00:00Z")
    except Invalid:
        return None
    return _hours[written]


# ── unknown fields ───────────────────────────────────────────────────────────────────────────────────────

# The last words of names under which fields carry what a person typed, an agent answered, a file holds or a tool
# printed. `last_assistant_message` and `finalMessage` are messages, `message_id` is an id. In the singular, as far as
# dropping an s makes it.
_PRIVATE_WORDS: Final = frozenset({
    # of the person
    "attachment", "clipboard", "comment", "description", "email", "feedback", "goal", "image", "instruction",
    "message", "objective", "prompt", "queries", "query", "question", "request", "screenshot", "selection", "task",
    "text", "utterance", "words",
    # of the agent
    "answer", "chunk", "completion", "conversation", "delta", "dialog", "dialogue", "histories", "history",
    "reasoning", "replies", "reply", "response", "summaries", "summary", "thinking", "thought", "transcript",
    # of tools
    "arg", "argument", "command", "error", "input", "json", "log", "output", "parameter", "preview", "result",
    "stderr", "stdin", "stdout",
    # of files
    "bodies", "body", "content", "diff", "hunk", "line", "memories", "memory", "patch", "patches", "snippet",
    "string",
})  # fmt: skip
# Names whose last word says nothing by itself, or that are written as one word.
_PRIVATE_NAMES: Final = frozenset({
    "additionalcontext", "errordetails", "llmcontent", "newsource", "oldsource", "originalfile", "returndisplay",
    "systemprompt", "textresultforllm", "toolargs", "toolinput", "tooloutput", "toolresponse", "toolresult",
    "updatedfile", "userid", "userprompt",
})  # fmt: skip
_WORD: Final = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+"  # compiled when it is first needed: hooks load this module
_NAME_END: Final = 200  # characters of a name that are examined, from its end
_MAX_DEPTH: Final = 20


def unknown_fields(payload: Payload, known: Container[str]) -> dict[str, Json]:
    """The unknown fields without private text. Every agent's `HookEvent.rest` is made by this function alone."""
    return without_private({name: value for name, value in payload.items() if name not in known})


def is_private(name: str) -> bool:
    """Whether a field of this name holds text that a person, an agent, a tool or a file contributed."""
    words = [word.lower() for word in re.findall(_WORD, name[-_NAME_END:])]
    if not words:
        return False
    last = words[-1]
    return last in _PRIVATE_WORDS or last.removesuffix("s") in _PRIVATE_WORDS or "".join(words) in _PRIVATE_NAMES


def without_private(fields: Mapping[str, Json], depth: int = 0) -> dict[str, Json]:
    """The fields without what is private in them; what is nested too deeply to be examined is left out as well."""
    return {name: _without_private_in(value, depth) for name, value in fields.items() if not _is_private(name, value)}


def _without_private_in(value: Json, depth: int) -> Json:
    if type(value) is dict:
        return without_private(value, depth + 1) if depth < _MAX_DEPTH else {}
    if type(value) is list:
        return [_without_private_in(item, depth + 1) for item in value] if depth < _MAX_DEPTH else []
    return value


def _is_private(name: str, value: Json) -> bool:
    """Whether a value is private: never a number or a flag, whatever its name, such as a count of input tokens."""
    return type(value) in (str, list, dict) and is_private(name)
