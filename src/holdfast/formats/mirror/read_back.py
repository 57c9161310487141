"""Read a mirrored file that somebody changed: an edit of the session it shows, or a new session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from holdfast.core import agents, tasks, view
from holdfast.core.errors import Refused
from holdfast.core.lifecycle import FINAL, FINISHED
from holdfast.core.secrets.patterns import redact_document
from holdfast.core.text import shorten
from holdfast.core.times import SECOND
from holdfast.formats.base import FormatNote
from holdfast.formats.document_paths import at, covered
from holdfast.formats.entries import same
from holdfast.formats.import_ import ImportedDocument, import_document, prepare
from holdfast.formats.import_context import configured, import_context
from holdfast.formats.merge import merged
from holdfast.formats.mirror.base_version import (
    MAX_VERSIONS,
    OLDER,
    PENDING,
    KnownVersions,
    RemovedTasks,
    find_base,
    is_older,
    known_versions,
    pending,
)
from holdfast.formats.mirror.edits import (
    BrokenRule,
    broken_rules,
    describe,
    merge_edit,
    moved_beginning,
    set_aside,
    without_assumptions,
)
from holdfast.formats.remainder import render_with_remainder as shown_as
from holdfast.sessions.start import put_away
from holdfast.sessions.work_trees import make_current
from holdfast.store import origin

# Formats in which every session has a file or a directory named by its id.
_NAMED_BY_ID: Final = frozenset({"contract", "craft"})
# Few sessions are edited at a time in one work tree.
_MAX_LINES: Final = 8
# Tasks named in one notice.
_MAX_NAMED: Final = 8

if TYPE_CHECKING:
    from holdfast.core.canonical import Json
    from holdfast.core.envelope import Position
    from holdfast.core.state import State
    from holdfast.formats.base import Document, Format, Place
    from holdfast.store.interface import Store
    from holdfast.workspace.workspace import Workspace


def read_back(
    ws: Workspace,
    value: Json,
    rules: Format,
    *,
    shown: str | None,
    written: Callable[[str], bool],
    lines: dict[str, list[str]],
    made_current: bool,
    edited: int | None = None,
    file_of: Callable[[Place], str] | None = None,
) -> ImportedDocument:
    """Record what a mirrored file says.

    `shown` is the session the file showed when it was left, if any. A new session can be `made_current`. `written`
    says of an event whether a file was written as of it. `lines` are, by session, the version a writer had and the
    events of their edits, the last one twice if they wrote all that is shown since; they are updated here. `edited`
    is when the file was changed, if known. `file_of` names the file that contains a place of the document.
    """
    store = ws.store()
    state = None if shown is None else store.state(shown)
    context = import_context(ws, state.project if state is not None else None)
    if state is not None:
        changed = _moment(edited, state, context.now)
        context = context._replace(tasks={task.id for task in state.tasks.values()}, edited=changed)
    rules = configured(rules, context.models)
    ours = None if state is None or state.deleted else shown_as(state, rules)
    tidied = rules.tidy(value, context)
    differing = [
        note
        for note in tidied.notes
        if _differs(note.place, value, tidied.document, rules) or _set_aside(note.place, value, tidied.document)
    ]
    document: Json = tidied.document
    if ours is not None:
        tidy, document = document, without_assumptions(value, document, ours, rules)
    assert isinstance(document, dict)
    if shown is None or state is None or ours is None or rules.alias(document) != rules.alias(ours):
        if ours is not None and (rules.name in _NAMED_BY_ID or not made_current or not _names_session(value)):
            raise Refused(
                "the id names the session and its file, and cannot be changed",
                hint=f"Change it back to {rules.alias(ours)}.",
                file=None if file_of is None else file_of(("state",)),
            )
        imported = import_document(ws, value, rules, of_project=True)
        return _made_current(ws, imported, rules) if made_current else imported
    assert isinstance(tidy, dict)
    _refuse_contradictions(value, tidy, state, rules)
    _refuse(broken_rules(value, tidy, rules, context), file_of)
    events = list(store.events(shown))
    redacted, _ = redact_document(without_assumptions(value, tidy, ours, rules, nulls=True))
    assert isinstance(redacted, dict)
    version = find_base(events, rules, redacted, written, lines.get(shown, ()))
    base = None if version is None else version.document
    if base is not None:
        # What was left out is as it was in the version they had: later changes need not fit theirs.
        document = without_assumptions(value, tidy, base, rules)
    document, notes = prepare(ws, document, rules, context)
    if is_older(document, base, rules):
        raise Refused(OLDER, hint="To compare it with the session: holdfast convert FILE --to craft")
    _refuse(moved_beginning(document, [ours] if base is None else [ours, base], rules), file_of)
    context = context._replace(now=changed)
    guests = origin.guests(store, shown)
    versions: Callable[[], KnownVersions] = partial(known_versions, events, rules, written, lines.get(shown, ()))
    if pending(ours) <= pending(redacted):
        versions = KnownVersions  # a list left out as a whole removes nothing
    with ws.transaction(about=shown) as transaction:
        merged_edit = merge_edit(
            ws.recorder, transaction, shown, document, rules, base=base, context=context,
            known={event.key for event in events if event.writer not in guests},
            after=() if version is None else version.line[1:],
            versions=versions, edited=True,
        )  # fmt: skip
        last = transaction.state(shown).last
        if view.status_of(transaction.state(shown)) in FINISHED and store.current(ws.place.root) == shown:
            transaction.set_current(ws.place.root, None)
    lines.pop(shown, None)
    if version is not None and not merged_edit.conflicts:
        line = [*version.line, *_latest(store, shown, last, merged_edit.events)]
        if _is_shown_as(document, store, shown, rules):
            line.append(line[-1])
        lines[shown] = line if len(line) <= MAX_VERSIONS else line[-1:]
        for session in [*lines][:-_MAX_LINES]:
            del lines[session]
    return ImportedDocument(
        shown,
        False,
        merged_edit.events,
        merged_edit.conflicts,
        [*differing, *notes, *_notes_of(merged_edit.removed_tasks)],
    )


def _is_shown_as(document: Document, store: Store, session: str, rules: Format) -> bool:
    """Whether the session is shown exactly as a document has it, apart from computed values."""
    state = store.state(session)
    now = None if state is None or state.deleted else shown_as(state, rules)
    return now is not None and same(merged(now, now, document, rules).document, now)


def _notes_of(left_out: RemovedTasks) -> Iterator[FormatNote]:
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


def _differs(place: Place, value: Json, made: Document, rules: Format) -> bool:
    """Whether somebody's total differs from what their entries add up to. If times are in whole seconds, less than
    one second is no difference.
    """
    theirs, counted = at(value, place), at(made, place)
    return (
        covered(rules.checked, place)
        and isinstance(theirs, int)
        and isinstance(counted, int)
        and abs(theirs - counted) >= SECOND
    )


def _set_aside(place: Place, value: Json, made: Document) -> bool:
    holder = at(made, place[:-1])
    return isinstance(holder, dict) and set_aside(str(place[-1]), at(value, place), holder)


def _latest(store: Store, session: str, last: Position | None, count: int) -> list[str]:
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
        meant = rules.field(where, status) if isinstance(status, str) else None
        if meant is not None:
            yield meant


def _objects(value: Json) -> list[dict[str, Json]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _moment(edited: int | None, state: State, now: int) -> int:
    """When a change without a time of its own was made: the file's time, unless that clock cannot be right."""
    return edited if edited is not None and state.time.start <= edited <= now else now


def _made_current(ws: Workspace, imported: ImportedDocument, rules: Format) -> ImportedDocument:
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
            ws.recorder.within(transaction, earlier.session, put_away)
            ws.note(
                f"The {rules.name} file contains another session, {imported.session[:8]}, "
                f"which is now the current one. The previous one was put away: holdfast resume {earlier.session[:8]}"
            )
        make_current(ws, transaction, imported.session)
    return imported
