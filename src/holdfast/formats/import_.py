"""Import a document of one of the four formats as a session, or merge it into the one it came from.

The session keeps the document's id as an alias, and everything the model has no field for, so that an export gives
the document again. Importing the same document twice, or on two machines, has no further effect: the session's id and
the keys of its events are derived from the document.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core import view
from holdfast.core.canonical import Json, digest
from holdfast.core.errors import HoldfastError, Invalid, Refused
from holdfast.core.events import DeviceJoined, SessionStarted
from holdfast.core.lifecycle import FINISHED
from holdfast.core.secrets.patterns import redact_document
from holdfast.core.state import State
from holdfast.core.times import SECOND, parse_time
from holdfast.formats.base import Document, Format, FormatNote, ImportContext
from holdfast.formats.discover import SourceDocument, find_sources
from holdfast.formats.import_context import import_context
from holdfast.formats.mirror.base_version import OLDER, is_older, nearest_version
from holdfast.formats.mirror.edits import merge_edit
from holdfast.formats.remainder import remainder_event, render_with_remainder
from holdfast.formats.text.json import render_json
from holdfast.formats.text.nodes import NotADocument as NoDocument
from holdfast.sessions import work_trees
from holdfast.sessions.format_names import session_id
from holdfast.store import origin
from holdfast.store.interface import Draft, Filter, Store, Transaction
from holdfast.workspace import projects

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace


class ImportedDocument(NamedTuple):
    """The result for one document: its session, whether that is new here, and the number of events added."""

    session: str
    new: bool
    events: int
    conflicts: int
    notes: list[FormatNote]


def import_document(
    ws: Workspace, value: Json, rules: Format, *, make_current: bool = False, of_project: bool = False
) -> ImportedDocument:
    """Import a document. Raises `Invalid` when that is impossible; nothing is recorded then.

    It changes no session of another project; `of_project`: it must not even belong to one.
    """
    facts = projects.observe(ws.place, "")
    context = import_context(ws, facts)
    document, notes = prepare_document(ws, value, rules, context)
    store = ws.store()
    with ws.transaction() as transaction:
        project = projects.find_project(store, facts)
        context = context._replace(project=project)
        known = find_known(ws, rules, rules.alias(document), project.id, document, context)
        if known is None:
            session, events = _begin(ws, transaction, document, rules, context)
            conflicts = 0
        else:
            session = known
            state_before = transaction.state(session)
            if state_before.deleted:
                raise Refused("this session was deleted, and deleted sessions stay deleted", session=session)
            if of_project:
                _refuse_other_project(ws, state_before)
            events_known = list(store.events(session))
            base = nearest_version(events_known, rules, document)
            if is_older(document, base, rules):
                return ImportedDocument(session, False, 0, 0, [*notes, FormatNote((), OLDER)])
            merged = merge_edit(
                ws.recorder, transaction, session, document, rules, base=base, context=context,
                known={event.key for event in events_known},
            )  # fmt: skip
            if merged.events:
                _refuse_other_project(ws, state_before)
            events, conflicts = merged.events, merged.conflicts
        transaction.remember_project(project)
        state = transaction.state(session)
        if make_current and view.status_of(state) not in FINISHED:
            work_trees.make_current(ws, transaction, session)
    return ImportedDocument(session, known is None, events, conflicts, notes)


def _refuse_other_project(ws: Workspace, state: State) -> None:
    """Ids are not secret: a file in a repository must not read or change a session of another project."""
    store, project = ws.store(), state.project
    if project is None or projects.is_same_project(store, ws.place, project):
        return
    elsewhere_only = projects.has_only_path(project) and not projects.directories(store, project)
    # On another device the path may differ: the directory's name is all there is to compare.
    name = os.path.basename(ws.place.main)
    if elsewhere_only and not ws.place.git and os.path.basename(project.path or name) == name:
        return
    raise Refused(
        "the file has the id of a session of another project",
        hint="If it belongs to that session, import it there: holdfast --project DIR import FILE",
        session=state.session,
    )


def prepare_document(
    ws: Workspace, value: Json, rules: Format, context: ImportContext
) -> tuple[Document, list[FormatNote]]:
    """The document as it may be stored: repaired, and without secrets."""
    document, notes = rules.repair(value, context)
    clean, removed = redact_document(document)
    assert isinstance(clean, dict)
    for kind, count in removed.items():
        ws.recorder.tally.redacted[kind] = ws.recorder.tally.redacted.get(kind, 0) + count
        notes = [*notes, FormatNote((), f"removed secrets before storing: {count} {kind}")]
    return clean, notes


def find_known(
    ws: Workspace, rules: Format, alias: str, project: str, document: Document, context: ImportContext
) -> str | None:
    """The session of a document, if the store has it: by its id, its alias, or the id we would give it."""
    store = ws.store()
    began = rules.changes(None, document, None, context)[0].at
    own = session_id(ws, rules.name, alias, began)
    if store.state(own) is not None:
        return own
    for match in store.find(alias):
        state = store.state(match) if is_own(store, match) else None
        if state is None or state.aliases.get(rules.name) != alias or not named_by_us(ws, match, alias):
            continue
        if state.project is not None and state.project.id == project:
            return match
    if rules.name == "craft":
        return None
    for row in store.rows(Filter(projects=(project,), since=began - SECOND)):
        # The id is not enough: two sessions of one day may have the same goal.
        near = abs(parse_time(row.created_at) - began) < SECOND
        state = store.state(row.id) if near and is_own(store, row.id) else None
        has_alias = state is not None and state.aliases.get(rules.name) is not None
        if has_alias and not named_by_us(ws, row.id, alias):
            continue
        if state is not None and rules.alias(render_with_remainder(state, rules)) == alias:
            return row.id
    return None


def named_by_us(ws: Workspace, session: str, alias: str) -> bool:
    """Did one of our devices give the session this alias? A guest's must not attract our documents."""
    if not os.path.lexists(ws.home.remotes):
        return True
    from holdfast.sessions.ownership import own_device_test
    from holdfast.workspace.keys.device_keys import is_certified

    is_ours = own_device_test(ws)
    writers = (
        event.writer
        for event in ws.store().events(session)
        if event.type in ("session.started", "alias.given") and alias.encode() in (event.data or b"")
    )
    return any(is_ours(writer) or not is_certified(writer) for writer in writers)


def is_own(store: Store, session: str) -> bool:
    """Is the session ours? Imports never go into a session of somebody else."""
    return origin.share_of(store, session) is None and store.may_repair(session)


def _begin(
    ws: Workspace, transaction: Transaction, document: Document, rules: Format, context: ImportContext
) -> tuple[str, int]:
    events = rules.changes(None, document, None, context)
    first = events[0].data
    assert isinstance(first, SessionStarted)
    session = session_id(ws, rules.name, rules.alias(document), events[0].at)
    source = digest(render_json(document))[:32]
    actor = ws.recorder.actor
    for number, (at, data) in enumerate(events):
        draft = Draft(ws.recorder.prepare(data), at, actor, f"file:{rules.name}:{source}:{number}")
        transaction.record(session, draft)
    state = transaction.state(session)
    if first.device != context.device:
        # Further events happen on this device.
        transaction.record(session, Draft(DeviceJoined(device=context.device), state.updated_at, actor))
    # The document's project path is kept until something happens to the session here.
    rest = remainder_event(state, rules, document, always=bool(rules.located))
    if rest is not None:
        transaction.record(session, Draft(rest, state.updated_at, actor, f"file:{rules.name}:{source}:rest"))
    return session, state.count


class Imported(NamedTuple):
    """The result for one file."""

    path: str
    format: str | None
    session: str | None
    # `new`, `united` (events were added to an existing session), `known` (nothing new), or `not read`.
    result: str
    events: int
    notes: list[FormatNote]
    error: HoldfastError | None = None


def import_files(ws: Workspace, paths: Sequence[str], name: str | None, *, salvage: bool) -> list[Imported]:
    """Import every session in these files and directories. Raises only if a path does not exist."""
    results: list[Imported] = []
    for source in find_sources(paths, name):
        if isinstance(source, SourceDocument):
            imported = _take(ws, source)
            # With --salvage, documents that a format refuses are kept as well.
            salvaged = salvage and isinstance(imported.error, Invalid)
            results.append(_salvage(ws, source.path, source.value, imported.error) if salvaged else imported)
        elif salvage and isinstance(source.error, Invalid) and not isinstance(source.error, NoDocument):
            results.append(_salvage(ws, source.path, source.value))
        else:
            results.append(Imported(source.path, name, None, "not read", 0, [], source.error))
    return results


def _take(ws: Workspace, source: SourceDocument) -> Imported:
    try:
        imported = import_document(ws, source.value, source.rules)
    except HoldfastError as error:
        return Imported(source.path, source.rules.name, None, "not read", 0, source.notes, error)
    notes = [*source.notes, *imported.notes]
    return Imported(source.path, source.rules.name, imported.session, _result(imported), imported.events, notes)


def _salvage(ws: Workspace, path: str, value: Json, refused: HoldfastError | None = None) -> Imported:
    from holdfast.formats.salvage import import_salvaged

    try:
        imported = import_salvaged(ws, value, path)
    except HoldfastError as error:
        error.hint = error.hint or "holdfast start GOAL begins a session without it."
        return Imported(path, None, None, "not read", 0, [], error)
    notes = imported.notes if refused is None else [FormatNote((), refused.message), *imported.notes]
    return Imported(path, None, imported.session, _result(imported), imported.events, notes)


def _result(imported: ImportedDocument) -> str:
    return "new" if imported.new else "united" if imported.events else "known"
