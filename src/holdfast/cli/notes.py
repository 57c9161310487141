"""Print notes about documents: assumptions, losses, and why some could not be read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from holdfast.formats import document_paths

if TYPE_CHECKING:
    from holdfast.cli.call import Call
    from holdfast.core.errors import HoldfastError
    from holdfast.formats.base import FormatNote

_MOST: Final = 50


def named(path: str) -> str:
    return "standard input" if path == "-" else path


def public_path(path: str) -> str:
    """A path as JSON can hold it: a name that is no UTF-8 is escaped, as on the screen."""
    from holdfast.machine.os_errors import display_path

    try:
        path.encode()
    except UnicodeEncodeError:
        return display_path(path)
    return path


def failure(error: HoldfastError, path: str) -> str:
    """Why a file was not read, and what to do, for a line that has named it."""
    from holdfast.formats.discover import reason

    said = f"{named(path)}: {reason(error, path)}"
    return said if error.hint is None else f"{said}. {error.hint}"


def written(paths: Sequence[str]) -> str:
    return f"Written: {', '.join(paths)}"


def together(errors: Iterable[HoldfastError | None]) -> list[HoldfastError]:
    """What went wrong with files that have a line each: the first of it, or invalid input where the codes differ."""
    from holdfast.core.errors import Invalid

    found = [error for error in errors if error is not None]
    if len({error.exit_code for error in found}) > 1:
        return [Invalid(f"{len(found)} files could not be taken, the first: {found[0].message}", file=found[0].file)]
    return found[:1]


def public_notes(notes: Sequence[FormatNote]) -> list[dict[str, str]]:
    return [{"path": document_paths.written(note.place), "message": note.message} for note in notes]


def tell_notes(call: Call, notes: Sequence[FormatNote], *, about: str = "") -> None:
    """On stderr, one line each; a very long list is cut, and says so."""
    for note in notes[:_MOST]:
        call.note(f"{about}{document_paths.written(note.place)}: {note.message}")
    if len(notes) > _MOST:
        call.note(f"{about}and {len(notes) - _MOST} more (all of them with --json)")
