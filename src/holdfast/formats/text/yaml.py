"""Write YAML, also over a text that can no longer be parsed, whose comments and order of keys are kept.

If an edit left a bracket open or an indentation wrong, the data is written as new text and comments are put back next
to their keys; those of keys that no longer exist come first.
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
# Everything before the comment at the end of a line: quoted text, or anything but a blank before `#`.
_BEFORE_COMMENT: Final = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"']|["']|\s(?!\s*\#))*+""", re.VERBOSE)
_MAX_LENGTH: Final = 1 << 20

# The keys that lead to a line, and its number among lines with these keys.
_Place = tuple[tuple[str, ...], int]


class _Line(NamedTuple):
    place: _Place | None
    text: str


def annotate(text: str, document: Json) -> str:
    """The document as text, with the comments and the order of keys of another text."""
    if len(text) > _MAX_LENGTH:
        return "\n".join(block(document)) + "\n"
    old = list(_lines(text.removeprefix("\ufeff").splitlines()))
    order = {place[0]: number for number, place in reversed([*enumerate(line.place for line in old)]) if place}
    new = list(_lines(block(_order_keys(document, order, ()))))
    places = {line.place for line in new}
    above: dict[_Place | None, list[str]] = {}
    after: dict[_Place, str] = {}
    waiting: list[str] = []
    for line in old:
        comment = _comment(line.text)
        if line.place is None and comment is not None:
            waiting.append(comment)
        elif line.place is not None:
            above.setdefault(line.place if line.place in places else None, []).extend(waiting)
            waiting = []
            if comment is not None and line.place in places:
                after[line.place] = comment
            elif comment is not None:
                above.setdefault(None, []).append(comment)
    made = above.get(None, [])
    for line in new:
        space = line.text[: len(line.text) - len(line.text.lstrip(" "))]
        made += [space + comment for comment in above.get(line.place, ()) if line.place is not None]
        made.append(f"{line.text}  {after[line.place]}" if line.place in after else line.text)
    return "\n".join([*made, *waiting]) + "\n"


def _lines(texts: list[str]) -> Iterator[_Line]:
    """Each line, with its place if it starts with a key."""
    above: list[tuple[int, str]] = []
    counts: dict[tuple[str, ...], int] = {}
    for text in texts:
        match = _KEY.match(text)
        if match is None:
            yield _Line(None, text)
            continue
        column = len(match[1]) + len(match[2])
        while above and above[-1][0] >= column:
            above.pop()
        keys = (*(key for _, key in above), match[3] or match[4] or match[5])
        above.append((column, keys[-1]))
        counts[keys] = counts.get(keys, 0) + 1
        yield _Line((keys, counts[keys]), text)


def _comment(text: str) -> str | None:
    """The comment of a line."""
    before = _BEFORE_COMMENT.match(text)
    rest = text[before.end() :].strip() if before is not None else ""
    return printable(text.strip() if text.lstrip().startswith("#") else rest) or None


def _order_keys(value: Json, order: dict[tuple[str, ...], int], keys: tuple[str, ...]) -> Json:
    if isinstance(value, list):
        return [_order_keys(inner, order, keys) for inner in value]
    if not isinstance(value, dict):
        return value
    # Keys of the other text are put in its order; all others keep their position.
    known = iter(sorted((key for key in value if (*keys, key) in order), key=lambda key: order[(*keys, key)]))
    names = [next(known) if (*keys, key) in order else key for key in value]
    return {key: _order_keys(value[key], order, (*keys, key)) for key in names}


_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}\Z")
# Words that YAML 1.1 or 1.2 reads as something other than text.
_NO_KEYS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
# Characters that YAML does not allow unescaped, or that some programs take for a line end or a mark.
_UNSAFE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
# A longer key needs `?` before it, because YAML looks no further for its colon.
_MAX_KEY_LENGTH: Final = 1000
STEP: Final = 2


def render_yaml(document: Json, *, over: str | None = None) -> str:
    """The document as text. `over` is the present text of the file."""
    if over is not None and over.strip():
        from holdfast.formats.text.yaml_edit import edit_text

        return edit_text(over, document) or annotate(over, document)
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
    if len(key) > _MAX_KEY_LENGTH:
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
    """Whether it is written on separate lines."""
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
    # `1e16` is text to some readers; `1.0e+16` is a number to all.
    return mantissa if not mark else f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}"
