"""Import a hand-made file: what can be recognised becomes a session, and all of it is kept under `extra`.

A file that is imported again adds to the session it made: a session is known by the id that the file gives itself, or
by the project and the file's path in it. The keys of the events follow from what the file holds, so the same version
is imported once.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from holdfast.core import view
from holdfast.core.canonical import Json, digest
from holdfast.core.errors import Invalid, Refused
from holdfast.core.events import AliasGiven, DeviceJoined
from holdfast.core.lifecycle import FINISHED
from holdfast.core.secrets.patterns import redact_document
from holdfast.core.state import State
from holdfast.formats.base import FormatNote, TimedEvent
from holdfast.formats.import_ import ImportedDocument, is_own, named_by_us
from holdfast.formats.import_context import import_context
from holdfast.formats.text.json import written
from holdfast.formats.unknown.read import Recognised, reading
from holdfast.formats.unknown.salvage import EXTRA, NO_GOAL, additions, beginning
from holdfast.sessions import work_trees
from holdfast.sessions.format_names import session_id
from holdfast.store.interface import Draft, Transaction
from holdfast.workspace import projects

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

# The aliases of such a session: the id the file gives itself, and the file.
_ID: Final = "hand-made"
_FILE: Final = "file"


def take_in_salvaged(
    ws: Workspace, value: Json, path: str | None = None, *, make_current: bool = False
) -> ImportedDocument:
    """Make a session of a hand-made document, or add to the one it made before. Raises `Invalid` when it is empty."""
    if value is None or value in ("", [], {}):
        raise Invalid("there is nothing in it", hint="holdfast start GOAL begins a session without it.")
    clean, secrets = redact_document(value)
    notes = [
        FormatNote((), f"secrets were cut out before anything was stored: {count} {kind}")
        for kind, count in secrets.items()
    ]
    for kind, count in secrets.items():
        ws.recorder.tally.redacted[kind] = ws.recorder.tally.redacted.get(kind, 0) + count
    store = ws.store()
    with ws.transaction() as transaction:
        project = projects.find_project(store, projects.observe(ws.place, ""))
        here = import_context(ws, project)
        found = reading(clean, here)
        aliases = _aliases(found, path, ws.place.root)
        source = digest(written(clean))[:32]
        session = _own_id(ws, transaction, source, project.id)
        before = transaction.state(session)
        if before.deleted:
            raise Refused("this session was deleted, and deleted sessions stay deleted", session=session)
        candidates = [before] if before.count else _made_before(ws, aliases, project.id)
        # A version that was imported before says nothing new, even if another one followed it.
        known = [state for state in candidates if transaction.knows(state.session, _key(source, 0))]
        before = (*known, *candidates, before)[0]
        if known or (candidates and view.status_of(before) not in FINISHED):
            session = before.session
            heard = [] if known else additions(clean, before, here)
        else:
            heard = beginning(found, clean, here, continues=before.session if candidates else None)
        count = _record(ws, transaction, session, heard, source)
        _name(ws, transaction, session, aliases)
        transaction.remember_project(project)
        if make_current and view.status_of(transaction.state(session)) not in FINISHED:
            work_trees.make_current(ws, transaction, session)
    return ImportedDocument(
        session, not candidates or session != before.session, count, 0, [*_mapping(found), *notes]
    )


def _own_id(ws: Workspace, transaction: Transaction, source: str, project: str) -> str:
    """The id of a session made of this content: the same on every machine, and another one in another project."""
    session = session_id(ws, EXTRA, source, 0)
    known = transaction.state(session).project
    if known is None or known.id == project:
        return session
    return session_id(ws, f"{EXTRA} in {project}", source, 0)


def _aliases(found: Recognised, path: str | None, root: str) -> dict[str, str]:
    aliases = {} if found.alias is None else {_ID: found.alias}
    if path is not None and path != "-":
        whole, root = os.path.realpath(path), os.path.realpath(root)
        inside = whole.startswith(os.path.join(root, ""))
        aliases[_FILE] = (os.path.relpath(whole, root) if inside else whole).replace(os.sep, "/")
    return {name: alias for name, alias in aliases.items() if view.is_lookup_name(alias)}


def _key(source: str, number: int) -> str:
    return f"file:{EXTRA}:{source}:{number}"


def _made_before(ws: Workspace, aliases: dict[str, str], project: str) -> list[State]:
    """The sessions that this file made, by its own id, else by its path; one that has not ended first."""
    store = ws.store()
    for name, alias in aliases.items():
        states = [
            state for session in store.find(alias)
            if is_own(store, session) and (state := store.state(session)) is not None
            and state.project is not None and state.project.id == project
            and any(kind.startswith(name) and known == alias for kind, known in state.aliases.items())
            and named_by_us(ws, session, alias)
        ]  # fmt: skip
        if states:
            return sorted(states, key=lambda state: (view.status_of(state) in FINISHED, -(state.created_at or 0)))
    return []


def _record(ws: Workspace, transaction: Transaction, session: str, heard: list[TimedEvent], source: str) -> int:
    recorder, count = ws.recorder, 0
    for number, (at, data) in enumerate(heard):
        state = transaction.state(session)
        if state.count and transaction.writer() not in state.heads:
            transaction.record(session, Draft(DeviceJoined(device=ws.device()), at, recorder.actor))
        draft = Draft(recorder.prepare(data), at, recorder.actor, _key(source, number))
        count += transaction.record(session, draft) is not None
    return count


def _name(ws: Workspace, transaction: Transaction, session: str, aliases: dict[str, str]) -> None:
    """Give the session the file's names, beside those it has: the next version may have another id."""
    state = transaction.state(session)
    for name, alias in aliases.items():
        if alias in state.aliases.values():
            continue
        taken = sum(kind.startswith(name) for kind in state.aliases)
        given = AliasGiven(format=f"{name}-{taken + 1}" if taken else name, id=alias)
        transaction.record(session, Draft(given, state.updated_at, ws.recorder.actor))


def _mapping(found: Recognised) -> list[FormatNote]:
    if not found.notes:
        return [FormatNote((), "nothing in it is recognised; it is kept whole under extra")]
    return (
        found.notes if found.goal is not None else [*found.notes, FormatNote((), f"has no goal, taken as: {NO_GOAL}")]
    )
