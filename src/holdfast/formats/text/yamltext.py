"""YAML as Holdfast writes it: block style, text in quotes, key order kept; and over a text that people have edited.

What is written is YAML 1.2 and reads back as the same data. Text always stands in double quotes, as JSON spells it:
nobody's `no` becomes false, and no time becomes anything but text. Where a file is there already, only what differs
is changed in it, and every comment stays.
"""

from __future__ import annotations

import json
import math
import re
from typing import Final

from holdfast.core.canonical import Json

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}\Z")
# Words that YAML 1.1 or 1.2 reads as something other than text.
_NO_KEYS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
# What YAML does not allow as it stands, or what some program takes for a line end or a mark.
_UNSAFE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
# A key longer than this must be announced, because YAML looks no further for its colon.
_LONGEST_KEY: Final = 1000
STEP: Final = 2


def written(document: Json, *, over: str | None = None) -> str:
    """The document as text. `over` is what stands in the file now."""
    if over is not None and over.strip():
        from holdfast.formats.text.yamlcomments import annotated
        from holdfast.formats.text.yamledit import edited

        return edited(over, document) or annotated(over, document)
    return "\n".join(block(document)) + "\n"


def block(value: Json, indent: int = 0) -> list[str]:
    """A value as lines in block style, each indented."""
    if not is_block(value):
        return [" " * indent + inline(value)]
    if isinstance(value, dict):
        return [line for key, inner in value.items() for line in entry(key, inner, indent)]
    assert isinstance(value, (list, tuple))
    return [line for inner in value for line in item(inner, indent)]


def entry(key: str, value: Json, indent: int) -> list[str]:
    """One key of an object, with its value."""
    space = " " * indent
    if len(key) > _LONGEST_KEY:
        head, mark = [f"{space}? {quoted(key)}"], f"{space}:"
    else:
        head, mark = [], f"{space}{_key(key)}:"
    if is_block(value):
        return [*head, mark, *block(value, indent + STEP)]
    return [*head, f"{mark} {inline(value)}"]


def item(value: Json, indent: int) -> list[str]:
    """One entry of a list."""
    first, *rest = block(value, indent + STEP)
    return [f"{' ' * indent}- {first[indent + STEP :]}", *rest]


def is_block(value: Json) -> bool:
    """Does it take lines of its own?"""
    return isinstance(value, (dict, list, tuple)) and len(value) > 0


def inline(value: Json) -> str:
    """A value on one line; lists and objects as JSON writes them."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case int():
            return str(value)
        case float():
            return _number(value)
        case dict():
            return "{" + ", ".join(f"{quoted(key)}: {inline(inner)}" for key, inner in value.items()) + "}"
    return "[" + ", ".join(map(inline, value)) + "]"


def quoted(text: str) -> str:
    plain = json.dumps(text, ensure_ascii=False)
    return plain if plain.isascii() and "\x7f" not in plain else _UNSAFE.sub(lambda m: f"\\u{ord(m[0]):04x}", plain)


def _key(key: str) -> str:
    return key if _PLAIN_KEY.match(key) and key.lower() not in _NO_KEYS else quoted(key)


def _number(value: float) -> str:
    if math.isinf(value) or math.isnan(value):
        return {"inf": ".inf", "-inf": "-.inf"}.get(str(value), ".nan")
    mantissa, mark, exponent = repr(value).partition("e")
    # `1e16` is a number to some readers and text to others; `1.0e+16` is one to all.
    return mantissa if not mark else f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}"
