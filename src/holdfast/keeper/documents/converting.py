"""Converting a file from one format to another, without the store; what the target cannot say is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.errors import HoldfastError
from holdfast.formats.conversion import converted
from holdfast.formats.interface import Document, Format, Note
from holdfast.keeper.documents.ground import ground
from holdfast.keeper.documents.sources import Source

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper


class Conversion(NamedTuple):
    document: Document
    notes: list[Note]


def convert(keeper: Keeper, source: Source, target: Format, *, carry: bool, one_file: bool) -> Conversion:
    """As tolerant as an import, and says as much."""
    here = ground(keeper)
    try:
        document, notes = source.rules.tidy(source.value, here)
    except HoldfastError as error:
        error.file = error.file or source.path
        raise
    made, losses = converted(document, source.rules, target, here, carry=carry, one_file=one_file)
    return Conversion(made, [*source.notes, *notes, *losses])
