"""Convert documents between formats, by way of a state in memory."""

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
from holdfast.formats.remainder import losses, remainder, restore
from holdfast.sessions import format_names

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

_WRITER = "0" * 32


def fold_events(events: Iterable[TimedEvent], session: str) -> State:
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


CARRIED_KEY: Final = "kept"
_MAX_SHOWN_LENGTH: Final = 60


class Conversion(NamedTuple):
    document: Document
    # On what the target cannot express, and on repairs of the source.
    notes: list[FormatNote]


def state_of(document: Document, source: Format, context: ImportContext) -> State:
    """The state of a (repaired) document."""
    events = source.changes(None, document, None, context)
    return fold_events(events, format_names.imported_id(source.name, source.alias(document), events[0].at))


def convert_document(
    document: Document,
    source: Format,
    target: Format,
    context: ImportContext,
    *,
    carry: bool = False,
    one_file: bool = False,
) -> Conversion:
    """A repaired document in another format; only what fits into one file if `one_file`."""
    carried = carried_values(document, source)
    shown = target.render(state_of(document, source, context))
    used = False
    if target.name in carried:
        # It passed through other programs: what they left of it counts only if it is still valid.
        with suppress(Invalid):
            shown = target.repair(restore(shown, carried[target.name], target.identities), context).document
            used = True
    if one_file:
        shown = target.single_file(shown)
    shown_back = source.render(state_of(shown, target, context))
    if not carry:
        return Conversion(shown, _find_losses(shown_back, document, carried, source, target, used=used))
    not_expressed = remainder(shown_back, document, source.identities)
    if not_expressed is not None:
        carried = {name: other for name, other in carried.items() if name != target.name}
        shown = _with_carried(shown, target, {**carried, source.name: not_expressed})
    return Conversion(shown, [])


def _find_losses(
    shown_back: Document, document: Document, carried: dict[str, Json], source: Format, target: Format, *, used: bool
) -> list[FormatNote]:
    """Notes on what the target cannot express, except what was carried for it."""
    bare = _without_value(document, (*source.carries_at, CARRIED_KEY)) if carried else document
    lost = [
        FormatNote(place, _cannot_express(value, target))
        for place, value in losses(remainder(shown_back, bare, source.identities))
    ]
    for name in carried:
        if name == target.name and not used:
            lost.append(FormatNote(source.carries_at, f"the data carried for {name} no longer fits and was not used"))
        elif name != target.name:
            lost.append(
                FormatNote(source.carries_at, f"the data carried for {name} is dropped; use --carry to keep it")
            )
    return lost


def carried_values(document: Document, source: Format) -> dict[str, Json]:
    """What a document carries for other formats, by their names."""
    text = document_paths.value_at(document, (*source.carries_at, CARRIED_KEY))
    if not isinstance(text, str):
        return {}
    try:
        carried = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return {}
    return carried if isinstance(carried, dict) else {}


def _with_carried(document: Document, target: Format, carried: dict[str, Json]) -> Document:
    """The document with what it carries, as text, so that key order and spelling of numbers survive any program."""
    return _with_value(document, (*target.carries_at, CARRIED_KEY), _json_text(carried))


def _json_text(carried: dict[str, Json]) -> str:
    import json

    return json.dumps(carried, ensure_ascii=False, separators=(",", ":"))


def _with_value(document: Document, place: tuple[str | int, ...], value: Json) -> Document:
    first, *rest = place
    assert isinstance(first, str)
    if not rest:
        return {**document, first: value}
    inner = document.get(first)
    return {**document, first: _with_value(inner if isinstance(inner, dict) else {}, tuple(rest), value)}


def _without_value(document: Document, place: tuple[str | int, ...]) -> Document:
    """The document without the value at a place, and without objects that become empty."""
    first, *rest = place
    assert isinstance(first, str)
    inner = document.get(first)
    if rest and isinstance(inner, dict):
        rest_of_value = _without_value(inner, tuple(rest))
        if rest_of_value:
            return {**document, first: rest_of_value}
    return {key: value for key, value in document.items() if key != first}


def _cannot_express(value: Json, target: Format) -> str:
    written = value if isinstance(value, str) else _json_text({"": value})[4:-1]
    return f"{target.name} cannot express it: {shorten(written, _MAX_SHOWN_LENGTH)}"


def convert(ws: Workspace, source: SourceDocument, target: Format, *, carry: bool, one_file: bool) -> Conversion:
    """Convert a document: as tolerant as an import, with notes."""
    context = import_context(ws)
    try:
        document, notes = source.rules.repair(source.value, context)
    except HoldfastError as error:
        error.file = error.file or source.path
        raise
    converted = convert_document(document, source.rules, target, context, carry=carry, one_file=one_file)
    return converted._replace(notes=[*source.notes, *notes, *converted.notes])
