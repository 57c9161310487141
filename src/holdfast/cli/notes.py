"""Notes on documents: assumptions made and losses accepted, for programs and for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from holdfast.formats.places import written

if TYPE_CHECKING:
    from holdfast.cli.call import Call
    from holdfast.formats.interface import Note

_MOST: Final = 50


def public_notes(notes: Sequence[Note]) -> list[dict[str, str]]:
    return [{"path": written(note.place), "message": note.message} for note in notes]


def tell_notes(call: Call, notes: Sequence[Note], *, about: str = "") -> None:
    """On stderr, one line each; a very long list is cut, and says so."""
    for note in notes[:_MOST]:
        call.note(f"{about}{written(note.place)}: {note.message}")
    if len(notes) > _MOST:
        call.note(f"{about}and {len(notes) - _MOST} more (all of them with --json)")
