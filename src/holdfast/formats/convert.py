"""Converts documents between formats, by way of a state in memory."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.core.canonical import Json
from holdfast.core.envelope import Event
from holdfast.core.errors import HoldfastError, Invalid
from holdfast.core.events import TYPE_OF
from holdfast.core.fold import apply
from holdfast.core.state import State
from holdfast.core.text import shorten
from holdfast.formats import document_paths
from holdfast.formats.base import Document, Format, FormatNote, ImportContext, TimedEvent
from holdfast.formats.discover import SourceDocument
from holdfast.formats.import_context import import_context
from holdfast.formats.remainder import losses, remainder, restored
from holdfast.sessions import format_names

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

_WRITER = "0" * 32


def folded(events: Iterable[TimedEvent], session: str) -> State:
    """The state these events add up to, in the order given."""
    state = State(session=session)
    for seq, (at, data) in enumerate(events, 1):
        kind = TYPE_OF[type(data)]
        event = Event(
            v=kind.version, session=session, writer=_WRITER, seq=seq, clock=seq, at=at, seen=(), key=None, actor="",
            type=kind.name, body="", prev=None, hash=f"{seq:064x}", data=b"", salt=b"",
        )  # fmt: skip
        apply(state, event, data)
    return state


KEY: Final = "kept"
_MAX_SHOWN_LENGTH: Final = 60


class Converted(NamedTuple):
    document: Document
    losses: list[FormatNote]


def state_of(document: Document, source: Format, context: ImportContext) -> State:
    """The state of a (tidy) document."""
    events = source.changes(None, document, None, context)
    return folded(events, format_names.imported_id(source.name, source.alias(document), events[0].at))


def converted(
    document: Document,
    source: Format,
    target: Format,
    context: ImportContext,
    *,
    carry: bool = False,
    one_file: bool = False,
) -> Converted:
    """A tidy document in another format; only what fits into one file if `one_file`."""
    luggage = carried(document, source)
    shown = target.render(state_of(document, source, context))
    used = False
    if target.name in luggage:
        # It passed through other programs: what they left of it counts only if it is still valid.
        with suppress(Invalid):
            shown = target.tidy(restored(shown, luggage[target.name], target.identities), context).document
            used = True
    if one_file:
        shown = target.single_file(shown)
    back = source.render(state_of(shown, target, context))
    if not carry:
        return Converted(shown, _lost(back, document, luggage, source, target, used=used))
    kept = remainder(back, document, source.identities)
    if kept is not None:
        luggage = {name: other for name, other in luggage.items() if name != target.name}
        shown = _with_luggage(shown, target, {**luggage, source.name: kept})
    return Converted(shown, [])


def _lost(
    back: Document, document: Document, luggage: dict[str, Json], source: Format, target: Format, *, used: bool
) -> list[FormatNote]:
    """Notes on what the target cannot express, except what was carried for it."""
    bare = _without(document, (*source.carries_at, KEY)) if luggage else document
    lost = [
        FormatNote(place, _cannot_express(value, target))
        for place, value in losses(remainder(back, bare, source.identities))
    ]
    for name in luggage:
        if name == target.name and not used:
            lost.append(FormatNote(source.carries_at, f"what was carried for {name} no longer fits and was not used"))
        elif name != target.name:
            lost.append(
                FormatNote(source.carries_at, f"what is carried for {name} is left behind; use --carry to keep it")
            )
    return lost


def carried(document: Document, source: Format) -> dict[str, Json]:
    """What a document carries for other formats, by their names."""
    text = document_paths.at(document, (*source.carries_at, KEY))
    if not isinstance(text, str):
        return {}
    try:
        luggage = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return {}
    return luggage if isinstance(luggage, dict) else {}


def _with_luggage(document: Document, target: Format, luggage: dict[str, Json]) -> Document:
    """The document with its luggage, as text, so that key order and spelling of numbers survive any program."""
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


def _without(document: Document, place: tuple[str | int, ...]) -> Document:
    """The document without the value at a place, and without objects that become empty."""
    first, *rest = place
    assert isinstance(first, str)
    inner = document.get(first)
    if rest and isinstance(inner, dict):
        left = _without(inner, tuple(rest))
        if left:
            return {**document, first: left}
    return {key: value for key, value in document.items() if key != first}


def _cannot_express(value: Json, target: Format) -> str:
    written = value if isinstance(value, str) else _text({"": value})[4:-1]
    return f"{target.name} cannot express it: {shorten(written, _MAX_SHOWN_LENGTH)}"


class Conversion(NamedTuple):
    document: Document
    notes: list[FormatNote]


def convert(ws: Workspace, source: SourceDocument, target: Format, *, carry: bool, one_file: bool) -> Conversion:
    """Convert a document: as tolerant as an import, with notes."""
    here = import_context(ws)
    try:
        document, notes = source.rules.tidy(source.value, here)
    except HoldfastError as error:
        error.file = error.file or source.path
        raise
    made, losses = converted(document, source.rules, target, here, carry=carry, one_file=one_file)
    return Conversion(made, [*source.notes, *notes, *losses])
