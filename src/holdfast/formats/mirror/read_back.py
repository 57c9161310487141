"""Read a mirrored file that somebody changed: an edit of the session it shows, or a new session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core import agents, tasks, view
from holdfast.core.errors import Refused
from holdfast.core.lifecycle import FINAL, FINISHED
from holdfast.core.secrets.patterns import redact_document
from holdfast.core.text import shorten
from holdfast.core.times import SECOND
from holdfast.formats.base import FormatNote
from holdfast.formats.document_paths import is_covered, value_at
from holdfast.formats.entries import is_same
from holdfast.formats.import_ import ImportedDocument, import_document, prepare_document
from holdfast.formats.import_context import configured, import_context
from holdfast.formats.merge import merge_documents
from holdfast.formats.mirror.base_version import (
    MAX_VERSIONS,
    OLDER,
    PENDING,
    KnownVersions,
    RemovedTasks,
    Version,
    find_base,
    is_older,
    known_versions,
    pending_tasks,
)
from holdfast.formats.mirror.edits import (
    BrokenRule,
    MergedEdit,
    broken_rules,
    changed_beginning,
    describe,
    merge_edit,
    was_set_aside,
    without_assumptions,
)
from holdfast.formats.remainder import render_with_remainder as shown_as
from holdfast.sessions.start import replacement_events
from holdfast.sessions.work_trees import make_current
from holdfast.store import origin

# Formats in which every session has a file or a directory named by its id.
_NAMED_BY_ID: Final = frozenset({"contract", "craft"})
# Few sessions are edited at a time in one work tree.
_MAX_CHAINS: Final = 8
# Tasks named in one notice.
_MAX_NAMED: Final = 8

if TYPE_CHECKING:
    from holdfast.core.canonical import Json
    from holdfast.core.envelope import Position
    from holdfast.core.state import State
    from holdfast.formats.base import Document, Format, ImportContext, Place
    from holdfast.store.interface import Store
    from holdfast.workspace.workspace import Workspace


class MirroredFile(NamedTuple):
    """The content of a mirrored file, and what is known of it."""

    value: Json
    rules: Format
    # The session it showed when it was left, if any.
    shown: str | None
    # Whether it was edited while it was the only file of its format, so that a new session in it becomes the current.
    made_current: bool
    # Whether a file was written as of this event.
    was_written: Callable[[str], bool]
    # When it was changed, if known.
    edited: int | None = None
    # Names the file that contains a place of the document.
    file_of: Callable[[Place], str] | None = None


class _RepairedDocument(NamedTuple):
    """The content, without deviations; `notes` are on sums that differ and on values that were set aside."""

    document: Document
    notes: list[FormatNote]


def read_back(ws: Workspace, file: MirroredFile, edit_chains: dict[str, list[str]]) -> ImportedDocument:
    """Record what a mirrored file says.

    `edit_chains` have, by session, the version that a writer started from, then the events of their edits, the last
    one twice if they wrote all that is shown since. They are updated here.
    """
    store = ws.store()
    state = None if file.shown is None else store.state(file.shown)
    context = import_context(ws, state.project if state is not None else None)
    if state is not None:
        changed = _edited_at(file.edited, state, context.now)
        context = context._replace(tasks={task.id for task in state.tasks.values()}, edited=changed)
    rules = configured(file.rules, context.models)
    ours = None if state is None or state.deleted else shown_as(state, rules)
    repaired = _repair(file.value, rules, context)
    document = repaired.document if ours is None else _without_assumptions(file.value, repaired.document, ours, rules)
    if state is None or ours is None or rules.alias(document) != rules.alias(ours):
        if ours is not None and (
            rules.name in _NAMED_BY_ID or not file.made_current or not _names_session(file.value)
        ):
            raise Refused(
                "the id names the session and its file, and cannot be changed",
                hint=f"Change it back to {rules.alias(ours)}.",
                file=None if file.file_of is None else file.file_of(("state",)),
            )
        imported = import_document(ws, file.value, rules, of_project=True)
        return _make_current(ws, imported, rules) if file.made_current else imported
    _refuse_contradictions(file.value, repaired.document, state, rules)
    _refuse(broken_rules(file.value, repaired.document, rules, context), file.file_of)
    edit = _Edit(ws, file._replace(rules=rules), state.session, ours, repaired, edit_chains.get(state.session, ()))
    return edit.record(context, edit_chains)


def _repair(value: Json, rules: Format, context: ImportContext) -> _RepairedDocument:
    repaired = rules.repair(value, context)
    notes = [
        note
        for note in repaired.notes
        if _total_differs(note.place, value, repaired.document, rules)
        or _was_set_aside(note.place, value, repaired.document)
    ]
    return _RepairedDocument(repaired.document, notes)


def _without_assumptions(
    value: Json, repaired: Document, version: Document, rules: Format, *, nulls: bool = False
) -> Document:
    document = without_assumptions(value, repaired, version, rules, nulls=nulls)
    assert isinstance(document, dict)
    return document


class _Edit:
    """An edit of the session that a file shows: finds the version it was made from, and records the difference."""

    def __init__(
        self,
        ws: Workspace,
        file: MirroredFile,
        session: str,
        ours: Document,
        repaired: _RepairedDocument,
        edit_chain: Sequence[str],
    ) -> None:
        self._ws = ws
        self._file = file
        self._session = session
        self._ours = ours
        self._repaired = repaired
        self._edit_chain = edit_chain
        self._events = list(ws.store().events(session))
        # Versions in the store have no secrets, so the edit is compared without its own.
        redacted, _ = redact_document(
            _without_assumptions(file.value, repaired.document, ours, file.rules, nulls=True)
        )
        assert isinstance(redacted, dict)
        self._redacted = redacted
        self._base = find_base(self._events, file.rules, redacted, file.was_written, edit_chain)

    def record(self, context: ImportContext, edit_chains: dict[str, list[str]]) -> ImportedDocument:
        document, notes = self._checked(context)
        merged_edit, last = self._merge(document, context)
        edit_chains.pop(self._session, None)
        if self._base is not None and not merged_edit.conflicts:
            edit_chains[self._session] = self._next_chain(self._base, document, last, merged_edit.events)
            for session in [*edit_chains][:-_MAX_CHAINS]:
                del edit_chains[session]
        notes = [*self._repaired.notes, *notes, *_notes_on_tasks(merged_edit.removed_tasks)]
        return ImportedDocument(self._session, False, merged_edit.events, merged_edit.conflicts, notes)

    def _checked(self, context: ImportContext) -> tuple[Document, list[FormatNote]]:
        """The document to merge, with notes. Refused if it is an old copy, or moves the session's beginning."""
        rules, base = self._file.rules, None if self._base is None else self._base.document
        # What was left out is as it was in the version they had: later changes need not fit theirs.
        version = self._ours if base is None else base
        document = _without_assumptions(self._file.value, self._repaired.document, version, rules)
        document, notes = prepare_document(self._ws, document, rules, context)
        if is_older(document, base, rules):
            raise Refused(OLDER, hint="To compare it with the session: holdfast convert FILE --to craft")
        versions = [self._ours] if base is None else [self._ours, base]
        _refuse(changed_beginning(document, versions, rules), self._file.file_of)
        return document, list(notes)

    def _merge(self, document: Document, context: ImportContext) -> tuple[MergedEdit, Position | None]:
        """Record the difference, as of when the file was changed; gives the position of the last event, too."""
        ws, session, rules, base = self._ws, self._session, self._file.rules, self._base
        if context.edited is not None:
            context = context._replace(now=context.edited)
        store = ws.store()
        guests = origin.guests(store, session)
        versions: Callable[[], KnownVersions] = partial(
            known_versions, self._events, rules, self._file.was_written, self._edit_chain
        )
        if pending_tasks(self._ours) <= pending_tasks(self._redacted):
            versions = KnownVersions  # a list left out as a whole removes nothing
        with ws.transaction(about=session) as transaction:
            merged_edit = merge_edit(
                ws.recorder, transaction, session, document, rules,
                base=None if base is None else base.document, context=context,
                known={event.key for event in self._events if event.writer not in guests},
                after=() if base is None else base.edit_chain[1:],
                versions=versions, edited=True,
            )  # fmt: skip
            state = transaction.state(session)
            if view.status_of(state) in FINISHED and store.current(ws.place.root) == session:
                transaction.set_current(ws.place.root, None)
        return merged_edit, state.last

    def _next_chain(self, base: Version, document: Document, last: Position | None, events: int) -> list[str]:
        store = self._ws.store()
        chain = [*base.edit_chain, *_latest_hashes(store, self._session, last, events)]
        if _is_shown_as(document, store, self._session, self._file.rules):
            chain.append(chain[-1])
        return chain if len(chain) <= MAX_VERSIONS else chain[-1:]


def _is_shown_as(document: Document, store: Store, session: str, rules: Format) -> bool:
    """Whether the session is shown exactly as a document has it, apart from computed values."""
    state = store.state(session)
    now = None if state is None or state.deleted else shown_as(state, rules)
    return now is not None and is_same(merge_documents(now, now, document, rules).document, now)


def _notes_on_tasks(left_out: RemovedTasks) -> Iterator[FormatNote]:
    dropped = [moved.text for moved in left_out.moved if moved.became is None]
    if left_out.kept:
        yield _note(left_out.kept, "left out, but may have been added after the file was read: still pending")
    if dropped:
        yield _note(dropped, "removed from the pending tasks and dropped; to undo that: holdfast task reopen ID")
    for text, became in left_out.moved:
        if became is not None:
            yield _note([text], f"removed from the pending tasks, done as {shorten(became, 60)!r}")


def _note(texts: Sequence[str], outcome: str) -> FormatNote:
    more = f" and {len(texts) - _MAX_NAMED} more" if len(texts) > _MAX_NAMED else ""
    named = ", ".join(repr(shorten(text, 60)) for text in texts[:_MAX_NAMED])
    return FormatNote((PENDING,), f"{named}{more} {'was' if len(texts) == 1 else 'were'} {outcome}")


def _total_differs(place: Place, value: Json, repaired: Document, rules: Format) -> bool:
    """Whether somebody's total differs from what their entries add up to. If times are in whole seconds, less than
    one second is no difference.
    """
    theirs, ours = value_at(value, place), value_at(repaired, place)
    return (
        is_covered(rules.checked, place)
        and isinstance(theirs, int)
        and isinstance(ours, int)
        and abs(theirs - ours) >= SECOND
    )


def _was_set_aside(place: Place, value: Json, repaired: Document) -> bool:
    holder = value_at(repaired, place[:-1])
    return isinstance(holder, dict) and was_set_aside(str(place[-1]), value_at(value, place), holder)


def _latest_hashes(store: Store, session: str, last: Position | None, count: int) -> list[str]:
    """The hashes of the last `count` events of one writer, up to its last one then."""
    if last is None or not count:
        return []
    _, writer, until, _ = last
    return [
        event.hash for event in store.events(session) if event.writer == writer and until - count < event.seq <= until
    ]


def _names_session(value: Json) -> bool:
    """Whether a single-session file names a session at all."""
    ids = [value.get(key) for key in ("session_id", "sessionId")] if isinstance(value, dict) else []
    return any(isinstance(name, str) and name.strip() for name in ids)


def _refuse(broken: BrokenRule | None, file_of: Callable[[Place], str] | None) -> None:
    if broken is not None:
        raise Refused(
            describe(broken),
            hint="holdfast validate lists everything that is wrong with a file.",
            file=None if file_of is None else file_of(broken.place),
        )


def _refuse_contradictions(value: Json, document: Document, state: State, rules: Format) -> None:
    """Refuse a status that contradicts an end: an agent or task that ended cannot become unfinished again.

    An import reads such a document leniently. Here somebody changed a status that is final, and has to know.
    """
    ended = {
        f"agents.{agent.id}.status" for agent in state.agents.values() if agents.status_of(agent) in FINAL["agent"]
    }
    ended |= {f"tasks.{task.id}.status" for task in state.tasks.values() if tasks.status_of(task) in FINAL["task"]}
    read = dict(_statuses(document, rules))
    plan = value.get("plan") if isinstance(value, dict) else None
    for phase in _objects(plan.get("phases")) if isinstance(plan, dict) else ():
        for task in _objects(phase.get("tasks")):
            if task.get("completed_at") is not None:
                read[f"tasks.{task.get('task_id')}.status"] = "completed"
    for field, status in _statuses(value, rules):
        if field in ended and field in read and read[field] != status:
            kind, name, _ = field.split(".", 2)
            raise Refused(
                f"the {kind[:-1]} {name} is {str(read[field]).replace('_', ' ')} and cannot become "
                f"{str(status).replace('_', ' ')[:20]}",
                hint=f"To reopen it: holdfast task reopen {name}" if kind == "tasks" else None,
            )


def _statuses(document: Json, rules: Format) -> Iterator[tuple[str, Json]]:
    """The status of every agent and task as a document spells it, by its canonical field."""
    if not isinstance(document, dict):
        return
    places: list[tuple[Place, Json]] = [
        (("agents", str(entry.get("id")), "status"), entry.get("status"))
        for entry in _objects(document.get("agents"))
    ]
    plan = document.get("plan")
    for phase in _objects(plan.get("phases")) if isinstance(plan, dict) else ():
        place = ("plan", "phases", str(phase.get("phase_id")), "tasks")
        places += [
            ((*place, str(entry.get("task_id")), "status"), entry.get("status"))
            for entry in _objects(phase.get("tasks"))
        ]
    for where, status in places:
        field = rules.field(where, status) if isinstance(status, str) else None
        if field is not None:
            yield field


def _objects(value: Json) -> list[dict[str, Json]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _edited_at(edited: int | None, state: State, now: int) -> int:
    """When a change that names no time was made: the file's time, unless that clock cannot be right."""
    return edited if edited is not None and state.time.start <= edited <= now else now


def _make_current(ws: Workspace, imported: ImportedDocument, rules: Format) -> ImportedDocument:
    """Make a session current that somebody started by writing its file, if it is unfinished."""
    store = ws.store()
    state = store.state(imported.session)
    current = store.current(ws.place.root)
    assert state is not None
    if view.status_of(state) in FINISHED or current == imported.session or rules.name in ("craft", "contract"):
        return imported
    earlier = None if current is None else store.state(current)
    with ws.transaction() as transaction:
        unfinished = earlier is not None and not earlier.deleted and view.status_of(earlier) not in FINISHED
        if earlier is not None and unfinished and not ws.is_read_only(earlier.session):
            ws.recorder.within(transaction, earlier.session, replacement_events)
            ws.note(
                f"The {rules.name} file contains another session, {imported.session[:8]}, which is now current. "
                f"The previous one was paused and archived: holdfast resume {earlier.session[:8]}"
            )
        make_current(ws, transaction, imported.session)
    return imported
