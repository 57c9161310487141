"""Documents that a specification allows and an import could not take: found by doing what an import does, unrecorded.

Text with a NUL in it or beyond all length is allowed by every schema, and no event may hold it. Where it stands in
a field that only rides along, it is kept as it is and nothing is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holdfast.core.canonical import Json, canonical
from holdfast.core.errors import HoldfastError
from holdfast.core.secret_documents import redact_document
from holdfast.core.text import LONGEST_TEXT, clean
from holdfast.core.vocabulary import FREE_TEXT, Data, ExtraKept
from holdfast.formats.interface import Document, Format, Ground, Place, Problem


def untakeable(value: Json, rules: Format, ground: Ground) -> list[Problem]:
    """What an import of this document would stumble over; nothing when it would be taken in."""
    try:
        document, _ = redact_document(rules.tidy(value, ground).document)
        assert isinstance(document, dict)
        heard = rules.changes(None, document, None, ground)
    except HoldfastError as error:
        return [Problem((), error.message)]
    found: list[Problem] = []
    told: set[str] = set()
    for _, data in heard:
        for text, message in _wrong(data):
            if text not in told:
                told.add(text)
                found += _placed(document, text, message)
    return sorted(set(found), key=lambda one: tuple(map(str, one.place)))


def suspect(value: Json) -> bool:
    """Is there text in it that no event may hold? A quick look, for long lists."""
    return any(_is_bad(text) for _, text in _texts(value, ()))


def _wrong(data: Data) -> Iterator[tuple[str, str]]:
    """Each text of an event that it may not hold, and why; the event's own name where it is something else."""
    if type(data) is ExtraKept:
        return
    sound = True
    for name in data.__struct_fields__:
        held = getattr(data, name) if name in FREE_TEXT else None
        for text in (held,) if isinstance(held, str) else held if isinstance(held, tuple) else ():
            try:
                clean(text, "the text", empty=True)
            except HoldfastError as error:
                sound = False
                yield text, error.message
    if sound:
        try:
            canonical(msgspec.to_builtins(data))
        except HoldfastError as error:
            yield "", error.message


def _placed(document: Document, text: str, message: str) -> list[Problem]:
    """Where the text stands. One that was put together from others stands where one of them is as bad."""
    if not text:
        return [Problem((), message)]
    bad = [(place, one) for place, one in _texts(document, ()) if _is_bad(one)]
    places = [place for place, one in bad if one == text] or [place for place, one in bad if one in text]
    return [Problem(place, message.replace("the text ", "", 1)) for place in places] or [Problem((), message)]


def _is_bad(text: str) -> bool:
    return "\0" in text or len(text) > LONGEST_TEXT


def _texts(value: Json, place: Place) -> Iterator[tuple[Place, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, (*place, key))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _texts(inner, (*place, position))
