"""A session's document, short enough for an agent to read: lists cut to their latest entries, long texts cut.

What was cut is named with its whole size, so that nobody takes a part for the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.core.decoding import decodable
from holdfast.core.model import Session
from holdfast.mcp.answers import LeftOut

# How many entries of a list, and how many characters of a text, as room gets scarce.
_STEPS: Final = ((200, 20_000), (50, 4_000), (20, 1_000), (10, 400), (5, 200), (2, 120), (1, 80), (0, 80))
_MOST_EXTRA: Final = 1_000
_MOST_NAMED: Final = 12  # of what was cut


class Trimmed(NamedTuple):
    session: Session
    left_out: list[LeftOut]


def trim(session: Session, room: int) -> Trimmed:
    """The document in about `room` characters of JSON."""
    whole = msgspec.to_builtins(session)
    if _length(whole) <= room:
        return Trimmed(session, [])
    for entries, longest in _STEPS:
        left: list[LeftOut] = []
        short = _cut(whole, "", entries, longest, left)
        if _length(short["extra"]) > _MOST_EXTRA:
            left.append(LeftOut(what="extra", shown=0, total=len(short["extra"])))
            short["extra"] = {}
        if _length(short) <= room:
            break
    return Trimmed(msgspec.convert(short, decodable(Session)), list(_named(left)))


def _cut(value: Any, path: str, entries: int, longest: int, left: list[LeftOut]) -> Any:
    if isinstance(value, str):
        if len(value) <= longest:
            return value
        left.append(LeftOut(what=f"characters of {path}", shown=longest, total=len(value)))
        return value[: longest - 1] + "…"
    if isinstance(value, list):
        if len(value) > entries:
            left.append(LeftOut(what=path, shown=entries, total=len(value)))
        latest = value[len(value) - entries :] if len(value) > entries else value
        first = len(value) - len(latest)
        return [_cut(one, f"{path}[{first + at}]", entries, longest, left) for at, one in enumerate(latest)]
    if isinstance(value, dict):
        if path == "context.by_agent" and len(value) > entries:
            left.append(LeftOut(what=path, shown=entries, total=len(value)))
            value = dict(list(value.items())[len(value) - entries :])
        return {
            key: one
            if path == "" and key == "extra"
            else _cut(one, f"{path}.{key}".lstrip("."), entries, longest, left)
            for key, one in value.items()
        }
    return value


def _named(left: list[LeftOut]) -> Iterator[LeftOut]:
    """The lists first, then the texts; what is too much to name is counted."""
    ranked = sorted(
        left, key=lambda one: (one.what.startswith("characters"), one.what.count(".") + one.what.count("["))
    )
    yield from ranked[:_MOST_NAMED]
    if len(ranked) > _MOST_NAMED:
        yield LeftOut(what="lists and texts that were cut", shown=_MOST_NAMED, total=len(ranked))


def _length(value: object) -> int:
    return len(msgspec.json.encode(value).decode())
