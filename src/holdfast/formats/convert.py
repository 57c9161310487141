"""What a document tells, folded into a state in memory: for conversion, which knows no store."""

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


def folded(heard: Iterable[TimedEvent], session: str) -> State:
    """The state these events add up to, in the order given."""
    state = State(session=session)
    for seq, (at, data) in enumerate(heard, 1):
        kind = TYPE_OF[type(data)]
        event = Event(
            v=kind.version, session=session, writer=_WRITER, seq=seq, clock=seq, at=at, seen=(), key=None, actor="",
            type=kind.name, body="", prev=None, hash=f"{seq:064x}", data=b"", salt=b"",
        )  # fmt: skip
        apply(state, event, data)
    return state


KEY: Final = "kept"
_LONGEST_SHOWN: Final = 60


class Converted(NamedTuple):
    document: Document
    losses: list[FormatNote]


def state_of(document: Document, source: Format, context: ImportContext) -> State:
    """What a (tidy) document says, as a state."""
    heard = source.changes(None, document, None, context)
    return folded(heard, format_names.imported_id(source.name, source.alias(document), heard[0].at))


def converted(
    document: Document,
    source: Format,
    target: Format,
    context: ImportContext,
    *,
    carry: bool = False,
    one_file: bool = False,
) -> Converted:
    """A tidy document of one format as one of another; as much as goes into one file, if that is to hold it."""
    luggage = carried(document, source)
    shown = target.render(state_of(document, source, context))
    used = False
    if target.name in luggage:
        # It came through other programs: what they made of it counts only if it is still a document of the format.
        with suppress(Invalid):
            shown = target.tidy(restored(shown, luggage[target.name], target.identities), context).document
            used = True
    if one_file:
        shown = target.single_file(shown)
    home = source.render(state_of(shown, target, context))
    if not carry:
        return Converted(shown, _lost(home, document, luggage, source, target, used=used))
    kept = remainder(home, document, source.identities)
    if kept is not None:
        luggage = {name: other for name, other in luggage.items() if name != target.name}
        shown = _loaded(shown, target, {**luggage, source.name: kept})
    return Converted(shown, [])


def _lost(
    home: Document, document: Document, luggage: dict[str, Json], source: Format, target: Format, *, used: bool
) -> list[FormatNote]:
    """What the target cannot say. What rode along for it has arrived, and is none of that."""
    bare = _without(document, (*source.carries_at, KEY)) if luggage else document
    lost = [
        FormatNote(place, _said(value, target)) for place, value in losses(remainder(home, bare, source.identities))
    ]
    for name in luggage:
        if name == target.name and not used:
            lost.append(FormatNote(source.carries_at, f"what rode along for {name} fits no longer, and was not used"))
        elif name != target.name:
            lost.append(
                FormatNote(source.carries_at, f"what rides along for {name} stays behind; --carry takes it along")
            )
    return lost


def carried(document: Document, source: Format) -> dict[str, Json]:
    """What a document carries for other formats, by their names."""
    held = document_paths.at(document, (*source.carries_at, KEY))
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


def _without(document: Document, place: tuple[str | int, ...]) -> Document:
    """The document without what stands at a place, nor an object around it that held nothing else."""
    first, *rest = place
    assert isinstance(first, str)
    inner = document.get(first)
    if rest and isinstance(inner, dict):
        left = _without(inner, tuple(rest))
        if left:
            return {**document, first: left}
    return {key: value for key, value in document.items() if key != first}


def _said(value: Json, target: Format) -> str:
    written = value if isinstance(value, str) else _text({"": value})[4:-1]
    return f"{target.name} cannot say it: {shorten(written, _LONGEST_SHOWN)}"


class Conversion(NamedTuple):
    document: Document
    notes: list[FormatNote]


def convert(ws: Workspace, source: SourceDocument, target: Format, *, carry: bool, one_file: bool) -> Conversion:
    """As tolerant as an import, and says as much."""
    here = import_context(ws)
    try:
        document, notes = source.rules.tidy(source.value, here)
    except HoldfastError as error:
        error.file = error.file or source.path
        raise
    made, losses = converted(document, source.rules, target, here, carry=carry, one_file=one_file)
    return Conversion(made, [*source.notes, *notes, *losses])
