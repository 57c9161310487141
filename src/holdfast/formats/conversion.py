"""From one format to another without the store, and back.

What the target cannot say is found by going there and back again: whatever comes home otherwise than it left is a
loss. The loss report names it; with `carry` it rides along in the target, under Holdfast's own key, and converting
back restores it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.state import State
from holdfast.core.text import shorten
from holdfast.formats import naming, places
from holdfast.formats.folding import folded
from holdfast.formats.interface import Document, Format, Ground, Note
from holdfast.formats.remainder import losses, remainder, restored

KEY: Final = "kept"
_LONGEST_SHOWN: Final = 60


class Converted(NamedTuple):
    document: Document
    losses: list[Note]


def state_of(document: Document, source: Format, ground: Ground) -> State:
    """What a (tidy) document says, as a state."""
    heard = source.changes(None, document, None, ground)
    return folded(heard, naming.imported_id(source.name, source.alias(document), heard[0].at))


def converted(
    document: Document, source: Format, target: Format, ground: Ground, *, carry: bool = False, one_file: bool = False
) -> Converted:
    """A tidy document of one format as one of another; as much as goes into one file, if that is to hold it."""
    luggage = carried(document, source)
    shown = target.render(state_of(document, source, ground))
    if target.name in luggage:
        # It came through other programs: what they made of it counts only if it is still a document of the format.
        with suppress(Invalid):
            shown = target.tidy(restored(shown, luggage[target.name], target.identities), ground).document
    if one_file:
        shown = target.alone(shown)
    home = source.render(state_of(shown, target, ground))
    kept = remainder(home, document, source.identities)
    lost = [] if carry else [Note(place, _said(value, target)) for place, value in losses(kept)]
    if carry and kept is not None:
        luggage = {name: other for name, other in luggage.items() if name != target.name}
        shown = _loaded(shown, target, {**luggage, source.name: kept})
    return Converted(shown, lost)


def carried(document: Document, source: Format) -> dict[str, Json]:
    """What a document carries for other formats, by their names."""
    held = places.at(document, (*source.carries_at, KEY))
    if not isinstance(held, str):
        return {}
    try:
        found = msgspec.json.decode(held)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _loaded(document: Document, target: Format, luggage: dict[str, Json]) -> Document:
    """The document with its luggage. As text: key order and the spelling of numbers must survive any program."""
    return _with(document, (*target.carries_at, KEY), _text(luggage))


def _text(luggage: dict[str, Json]) -> str:
    import json

    return json.dumps(luggage, ensure_ascii=False, separators=(",", ":"))


def _with(document: Document, place: tuple[str | int, ...], value: Json) -> Document:
    first, *rest = place
    assert isinstance(first, str)
    if not rest:
        return {**document, first: value}
    inner = document.get(first)
    return {**document, first: _with(inner if isinstance(inner, dict) else {}, tuple(rest), value)}


def _said(value: Json, target: Format) -> str:
    written = value if isinstance(value, str) else _text({"": value})[4:-1]
    return f"{target.name} cannot say it: {shorten(written, _LONGEST_SHOWN)}"
