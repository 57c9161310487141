"""Secrets in whole documents: every text in them, and values whose key says what they are."""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.secrets.patterns import redact

# What stands after a key is believed to be a password only while it could be one.
_LONGEST_VALUE: Final = 500


class RedactedDocument(NamedTuple):
    value: Json
    counts: dict[str, int]


def redact_document(value: Json) -> RedactedDocument:
    """The document with each secret replaced by `[redacted:KIND]`; the same object where there is none."""
    found: dict[str, int] = {}
    return RedactedDocument(_value(value, None, found), found)


def _value(value: Json, key: str | None, found: dict[str, int]) -> Json:
    if isinstance(value, str):
        return _text(value, key, found)
    if isinstance(value, dict):
        made: dict[str, Json] = {}
        for name, item in value.items():
            made[_key(name, value, made, found)] = _value(item, name, found)
        unchanged = all(
            name == old and item is value[old] for (name, item), old in zip(made.items(), value, strict=True)
        )
        return value if unchanged else made
    if isinstance(value, list):
        entries = [_value(item, key, found) for item in value]
        return value if all(entry is old for entry, old in zip(entries, value, strict=True)) else entries
    return value


def _key(name: str, of: dict[str, Json], made: dict[str, Json], found: dict[str, int]) -> str:
    """The key without its secret, and still a key of its own: two tokens as keys have two values."""
    clean = key = _text(name, None, found)
    number = 1
    while clean != name and (key in made or key in of):
        number += 1
        key = f"{clean} {number}"
    return key


def _text(value: str, key: str | None, found: dict[str, int]) -> str:
    clean = redact(value)
    if clean.counts:
        _count(clean.counts, found)
        value = clean.text  # and what is left may still be what the key says: redacting again changes nothing
    if key and len(value) <= _LONGEST_VALUE and "\n" not in value:
        before = f"{key}: "
        named = redact(before + value)
        if named.counts and named.text.startswith(before):
            _count(named.counts, found)
            return named.text.removeprefix(before)
    return value


def _count(more: dict[str, int], found: dict[str, int]) -> None:
    for kind, count in more.items():
        found[kind] = found.get(kind, 0) + count
