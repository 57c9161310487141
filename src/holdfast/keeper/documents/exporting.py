"""Exporting: a session as a document of one of the four formats, as of its last event."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core import view
from holdfast.core.errors import Conflict, NotFound
from holdfast.core.lifecycle import FINISHED
from holdfast.formats.contract import Contract
from holdfast.formats.interface import Document, Format, Note
from holdfast.formats.keeping import shown
from holdfast.machine import files

if TYPE_CHECKING:
    from holdfast.core.state import State
    from holdfast.keeper.keeper import Keeper


def exported(keeper: Keeper, state: State, rules: Format) -> tuple[Document, list[Note]]:
    """The document, and what there is to say about it."""
    notes: list[Note] = []
    status = view.status_of(state)
    if rules.name == "timer" and status in FINISHED:
        notes.append(Note(("status",), f"the timer format knows no session that is {status}: shown as it was then"))
    if isinstance(rules, Contract) and (renamed := rules.model_note(state)) is not None:
        notes.append(Note(("state", "current_state", "model_in_use"), renamed))
    path = keeper.path_of(state) if rules.located else None
    return shown(state, rules, keeper.travel_of(state), path), notes


def is_layout(path: str | None, rules: Format) -> bool:
    """Would a document of this format be written there as several files? So it is with contract's directories."""
    named = path is not None and path != "-" and not path.lower().endswith((".yaml", ".yml"))
    return rules.name == "contract" and named


def put(path: str, document: Document, rules: Format) -> list[str]:
    """Write a document to a file; one of contract to a directory, as its whole layout. Gives the paths written."""
    above = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(above):
        where = files.shown(os.path.dirname(path.rstrip("/")) or above)
        raise NotFound(
            f"there is no directory {where}",
            hint="Make it first, or name another place.",
            operation="write",
            file=path,
        )
    if is_layout(path, rules):
        from holdfast.mirror.contract.exported import put_layout

        return put_layout(path, document)
    if os.path.isdir(path):
        raise Conflict(f"{files.shown(path)} is a directory", hint="Name the file that is to be written.", file=path)
    files.write_atomic(path, rules.write(document))
    return [path]
