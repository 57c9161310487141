"""The comments and the order of keys of a YAML text that cannot be parsed, line by line.

Somebody's edit left a bracket open or an indentation wrong. The data is written anew; what people wrote around it is
put back beside the keys it stood beside, and what belonged to no key that is left comes first.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.text import printable

_KEY: Final = re.compile(
    r"""([ ]*)((?:-[ ]+)*)(?:([A-Za-z_][\w-]{0,99})|"([^"\\]{1,100})"|'([^']{1,100})')[ ]*:(?=\s|$)"""
)
# Up to the comment that ends a line: quoted text, or anything but a blank that a number sign follows.
_BEFORE_COMMENT: Final = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"']|["']|\s(?!\s*\#))*+""", re.VERBOSE)
_MOST: Final = 1 << 20

# The keys that lead to a line, and which of the lines with these keys it is.
_Place = tuple[tuple[str, ...], int]


class _Line(NamedTuple):
    place: _Place | None
    text: str


def annotated(text: str, document: Json) -> str:
    """The document as text, with the comments of another text and its order of keys."""
    if len(text) > _MOST:
        return "\n".join(block(document)) + "\n"
    old = list(_lines(text.removeprefix("\ufeff").splitlines()))
    order = {place[0]: number for number, place in reversed([*enumerate(line.place for line in old)]) if place}
    new = list(_lines(block(_ordered(document, order, ()))))
    places = {line.place for line in new}
    above: dict[_Place | None, list[str]] = {}
    after: dict[_Place, str] = {}
    waiting: list[str] = []
    for line in old:
        remark = _remark(line.text)
        if line.place is None and remark is not None:
            waiting.append(remark)
        elif line.place is not None:
            above.setdefault(line.place if line.place in places else None, []).extend(waiting)
            waiting = []
            if remark is not None and line.place in places:
                after[line.place] = remark
            elif remark is not None:
                above.setdefault(None, []).append(remark)
    made = above.get(None, [])
    for line in new:
        space = line.text[: len(line.text) - len(line.text.lstrip(" "))]
        made += [space + remark for remark in above.get(line.place, ()) if line.place is not None]
        made.append(f"{line.text}  {after[line.place]}" if line.place in after else line.text)
    return "\n".join([*made, *waiting]) + "\n"


def _lines(texts: list[str]) -> Iterator[_Line]:
    """Each line, with its place if a key begins it."""
    above: list[tuple[int, str]] = []
    counts: dict[tuple[str, ...], int] = {}
    for text in texts:
        found = _KEY.match(text)
        if found is None:
            yield _Line(None, text)
            continue
        column = len(found[1]) + len(found[2])
        while above and above[-1][0] >= column:
            above.pop()
        keys = (*(key for _, key in above), found[3] or found[4] or found[5])
        above.append((column, keys[-1]))
        counts[keys] = counts.get(keys, 0) + 1
        yield _Line((keys, counts[keys]), text)


def _remark(text: str) -> str | None:
    """The comment that a line ends with, or is."""
    before = _BEFORE_COMMENT.match(text)
    rest = text[before.end() :].strip() if before is not None else ""
    return printable(text.strip() if text.lstrip().startswith("#") else rest) or None


def _ordered(value: Json, order: dict[tuple[str, ...], int], keys: tuple[str, ...]) -> Json:
    if isinstance(value, list):
        return [_ordered(inner, order, keys) for inner in value]
    if not isinstance(value, dict):
        return value
    # Keys that the other text has take their places among each other; those that it lacks stay where they are.
    known = iter(sorted((key for key in value if (*keys, key) in order), key=lambda key: order[(*keys, key)]))
    names = [next(known) if (*keys, key) in order else key for key in value]
    return {key: _ordered(value[key], order, (*keys, key)) for key in names}


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
        from holdfast.formats.text.yaml_edit import edited

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
