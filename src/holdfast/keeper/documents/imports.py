"""Importing files and whole directories: each is taken in for itself, and one that cannot be read stops no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import HoldfastError, Invalid
from holdfast.formats.interface import Note
from holdfast.formats.text.nodes import Unread as NoDocument
from holdfast.keeper.documents.importing import Taken, take_in
from holdfast.keeper.documents.sources import Source, sources

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper


class Imported(NamedTuple):
    """What became of one file."""

    path: str
    format: str | None
    session: str | None
    # `new`, `united` (something was added to a session that was here), `known` (nothing new), or `not read`.
    result: str
    events: int
    notes: list[Note]
    error: HoldfastError | None = None


def import_files(keeper: Keeper, paths: Sequence[str], name: str | None, *, salvage: bool) -> list[Imported]:
    """Every session in these files and directories. Raises only where a path is not there at all."""
    found: list[Imported] = []
    for one in sources(paths, name):
        if isinstance(one, Source):
            taken = _take(keeper, one)
            # With --salvage, what a format refuses is kept as well.
            salvaged = salvage and isinstance(taken.error, Invalid)
            found.append(_salvage(keeper, one.path, one.value, taken.error) if salvaged else taken)
        elif salvage and isinstance(one.error, Invalid) and not isinstance(one.error, NoDocument):
            found.append(_salvage(keeper, one.path, one.value))
        else:
            found.append(Imported(one.path, name, None, "not read", 0, [], one.error))
    return found


def _take(keeper: Keeper, source: Source) -> Imported:
    try:
        taken = take_in(keeper, source.value, source.rules)
    except HoldfastError as error:
        return Imported(source.path, source.rules.name, None, "not read", 0, source.notes, error)
    notes = [*source.notes, *taken.notes]
    return Imported(source.path, source.rules.name, taken.session, _result(taken), taken.events, notes)


def _salvage(keeper: Keeper, path: str, value: Json, refused: HoldfastError | None = None) -> Imported:
    from holdfast.keeper.documents.salvaging import take_in_salvaged

    try:
        taken = take_in_salvaged(keeper, value, path)
    except HoldfastError as error:
        error.hint = error.hint or "holdfast start GOAL begins a session without it."
        return Imported(path, None, None, "not read", 0, [], error)
    notes = taken.notes if refused is None else [Note((), refused.message), *taken.notes]
    return Imported(path, None, taken.session, _result(taken), taken.events, notes)


def _result(taken: Taken) -> str:
    return "new" if taken.new else "united" if taken.events else "known"
