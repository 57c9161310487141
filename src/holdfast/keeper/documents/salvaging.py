"""Taking in a hand-made file: what can be recognised in it becomes a session, and all of it is kept under `extra`.

The same file taken in twice is taken in once: the session's id and the keys of its events follow from what the file
holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core import view
from holdfast.core.canonical import Json, digest
from holdfast.core.errors import Refused
from holdfast.core.lifecycle import FINISHED
from holdfast.core.secret_documents import redact_document
from holdfast.formats.interface import Note
from holdfast.formats.strangers.salvaging import EXTRA, salvaged
from holdfast.formats.text.jsontext import written
from holdfast.keeper import projects
from holdfast.keeper.documents.ground import ground
from holdfast.keeper.documents.importing import Taken, session_id
from holdfast.store.interface import Draft

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper


def take_in_salvaged(keeper: Keeper, value: Json, *, make_current: bool = False) -> Taken:
    """Make a session of a hand-made document. Raises `Invalid` when nothing in it is recognised."""
    clean, secrets = redact_document(value)
    notes: list[Note] = []
    for kind, count in secrets.items():
        keeper.recorder.redacted[kind] = keeper.recorder.redacted.get(kind, 0) + count
        notes.append(Note((), f"secrets were cut out before anything was stored: {count} {kind}"))
    source = digest(written(clean))[:32]
    seen = projects.observe(keeper.place, "")
    # Asked before anything is opened: what cannot be recognised leaves no trace.
    mapping = salvaged(clean, ground(keeper, seen)).notes
    store = keeper.store()
    session = session_id(keeper, EXTRA, source, 0)
    with keeper.transaction() as transaction:
        known = transaction.state(session)
        if known.deleted:
            raise Refused("this session was deleted, and what is deleted stays so", session=session)
        if not known.count:
            project = projects.found(store, seen)
            heard = salvaged(clean, ground(keeper, project)).heard
            for number, (at, data) in enumerate(heard):
                ready = keeper.recorder.prepare(data)
                key = f"file:{EXTRA}:{source}:{number}"
                transaction.record(session, Draft(ready, at, keeper.recorder.actor, key))
            transaction.know_project(project)
            events = len(heard)
        else:
            events = 0
        if make_current and view.status_of(transaction.state(session)) not in FINISHED:
            keeper.make_current(transaction, session)
    return Taken(session, events > 0, events, 0, [*mapping, *notes])
