"""Import a hand-made file: what can be recognised becomes a session, and the whole file is kept under `extra`.

Nothing fails on such a file: the notes list what was recognised. A file that is imported again adds to its session,
which is known by the id the file gives itself, or by the project and the file's path. The keys of the events follow
from the content, so the same version is imported once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core import tasks, view
from holdfast.core.canonical import Json, canonical_json, digest
from holdfast.core.errors import Invalid, Refused
from holdfast.core.events import (
    TYPE_OF,
    AliasGiven,
    AwayRecorded,
    DeviceJoined,
    EventData,
    ExtraKept,
    GitPositionNoted,
    SessionAborted,
    SessionCompleted,
    SessionEdited,
    SessionFailed,
    SessionPaused,
    SessionSaved,
    SessionStarted,
    TaskAdded,
    TaskBlocked,
    TaskCompleted,
    TaskDropped,
    TaskStarted,
    WorkRecorded,
)
from holdfast.core.lifecycle import FINISHED, TASK, allows, session_allows
from holdfast.core.secrets.patterns import redact_document
from holdfast.core.state import State
from holdfast.core.times import HOUR
from holdfast.formats.base import FormatNote, ImportContext, TimedEvent
from holdfast.formats.import_ import ImportedDocument, is_own, named_by_us
from holdfast.formats.import_context import import_context
from holdfast.formats.text.json import render_json
from holdfast.formats.unknown.read import Recognised, SalvagedTask, end_of, read_document
from holdfast.sessions import work_trees
from holdfast.sessions.format_names import session_id
from holdfast.store.interface import Draft, Transaction
from holdfast.workspace import projects

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

EXTRA: Final = "salvaged"
NO_GOAL: Final = "Work found in a hand-made file"
_SITTING: Final = 12 * HOUR  # more time between two saves is not one sitting
_STEPS: Final[dict[str, type[TaskStarted | TaskCompleted | TaskBlocked | TaskDropped]]] = {
    "doing": TaskStarted, "done": TaskCompleted, "blocked": TaskBlocked, "dropped": TaskDropped,
}  # fmt: skip
_TASK_STATUS: Final = {"doing": "in_progress", "done": "completed", "blocked": "blocked", "dropped": "dropped"}
# The aliases of such a session: the id the file gives itself, and the file.
_ID: Final = "hand-made"
_FILE: Final = "file"


def import_salvaged(
    ws: Workspace, value: Json, path: str | None = None, *, make_current: bool = False
) -> ImportedDocument:
    """Make a session of a hand-made document, or add to the one made from it before. Raises `Invalid` if empty."""
    if value is None or value in ("", [], {}):
        raise Invalid("the file is empty", hint="holdfast start GOAL begins a session without it.")
    clean, secrets = redact_document(value)
    notes = [FormatNote((), f"removed secrets before storing: {count} {kind}") for kind, count in secrets.items()]
    for kind, count in secrets.items():
        ws.recorder.tally.redacted[kind] = ws.recorder.tally.redacted.get(kind, 0) + count
    store = ws.store()
    with ws.transaction() as transaction:
        project = projects.find_project(store, projects.observe(ws.place, ""))
        context = import_context(ws, project)
        recognised = read_document(clean, context)
        aliases = _aliases(recognised, path, ws.place.root)
        source = digest(render_json(clean))[:32]
        session = _own_id(ws, transaction, source, project.id)
        before = transaction.state(session)
        if before.deleted:
            raise Refused("this session was deleted, and deleted sessions stay deleted", session=session)
        candidates = [before] if before.count else _find_earlier(ws, aliases, project.id)
        # A version that was imported before adds nothing, even if a later one followed it.
        known = [state for state in candidates if transaction.knows(state.session, _key(source, 0))]
        before = (*known, *candidates, before)[0]
        if known or (candidates and view.status_of(before) not in FINISHED):
            session = before.session
            events = [] if known else later_events(clean, before, context)
        else:
            events = first_events(recognised, clean, context, continues=before.session if candidates else None)
        count = _record(ws, transaction, session, events, source)
        _add_aliases(ws, transaction, session, aliases)
        transaction.remember_project(project)
        if make_current and view.status_of(transaction.state(session)) not in FINISHED:
            work_trees.make_current(ws, transaction, session)
    return ImportedDocument(
        session, not candidates or session != before.session, count, 0, [*_mapping(recognised), *notes]
    )


def _own_id(ws: Workspace, transaction: Transaction, source: str, project: str) -> str:
    """The session's id, derived from the content: the same on every machine, different in another project."""
    session = session_id(ws, EXTRA, source, 0)
    known = transaction.state(session).project
    if known is None or known.id == project:
        return session
    return session_id(ws, f"{EXTRA} in {project}", source, 0)


def _aliases(recognised: Recognised, path: str | None, root: str) -> dict[str, str]:
    aliases = {} if recognised.alias is None else {_ID: recognised.alias}
    if path is not None and path != "-":
        absolute, root = os.path.realpath(path), os.path.realpath(root)
        inside = absolute.startswith(os.path.join(root, ""))
        aliases[_FILE] = (os.path.relpath(absolute, root) if inside else absolute).replace(os.sep, "/")
    return {name: alias for name, alias in aliases.items() if view.is_lookup_name(alias)}


def _key(source: str, number: int) -> str:
    return f"file:{EXTRA}:{source}:{number}"


def _find_earlier(ws: Workspace, aliases: dict[str, str], project: str) -> list[State]:
    """Sessions made from this file, by its own id or its path; one that has not ended comes first."""
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


def _record(ws: Workspace, transaction: Transaction, session: str, events: list[TimedEvent], source: str) -> int:
    recorder, count = ws.recorder, 0
    for number, (at, data) in enumerate(events):
        state = transaction.state(session)
        if state.count and transaction.writer() not in state.heads:
            transaction.record(session, Draft(DeviceJoined(device=ws.device()), at, recorder.actor))
        draft = Draft(recorder.prepare(data), at, recorder.actor, _key(source, number))
        count += transaction.record(session, draft) is not None
    return count


def _add_aliases(ws: Workspace, transaction: Transaction, session: str, aliases: dict[str, str]) -> None:
    """Add the file's aliases to the session's: the next version may have another id."""
    state = transaction.state(session)
    for name, alias in aliases.items():
        if alias in state.aliases.values():
            continue
        taken = sum(kind.startswith(name) for kind in state.aliases)
        alias_given = AliasGiven(format=f"{name}-{taken + 1}" if taken else name, id=alias)
        transaction.record(session, Draft(alias_given, state.updated_at, ws.recorder.actor))


def _mapping(recognised: Recognised) -> list[FormatNote]:
    if not recognised.notes:
        return [FormatNote((), "nothing in it was recognised; the whole file is kept under extra")]
    return (
        recognised.notes
        if recognised.goal is not None
        else [*recognised.notes, FormatNote((), f"has no goal, taken as: {NO_GOAL}")]
    )


# ── the events ───────────────────────────────────────────────────────────────────────────────────────────


def first_events(
    document: Recognised, value: Json, context: ImportContext, continues: str | None = None
) -> list[TimedEvent]:
    """The events of a new session: what was recognised, and the whole document."""
    project = msgspec.structs.replace(
        context.project,
        git_branch=document.branch or context.project.git_branch,
        # On another branch, the commit here is not that of the session.
        git_commit=document.commit or (None if document.branch else context.project.git_commit),
    )
    started = SessionStarted(
        goal=document.goal or NO_GOAL, project=project, device=context.device, model=document.model,
        scope=document.scope, tags=document.tags, timer=context.timer, continues=continues,
    )  # fmt: skip
    body: list[EventData] = [
        *_span(document, document.began, document.updated, context), *_edits(None, document), *_plan(document.tasks),
        *document.files, *document.errors, *document.remarks,
    ]  # fmt: skip
    return [
        TimedEvent(document.began, started),
        *sorted([*document.decisions, *document.commits], key=lambda event: event.at),
        *(TimedEvent(document.updated, data) for data in body), TimedEvent(document.updated, _kept(value)),
        TimedEvent(document.updated, _ending(document) or _pause_since(document, context)),
    ]  # fmt: skip


def later_events(value: Json, state: State, context: ImportContext) -> list[TimedEvent]:
    """The events a later version of the document adds. What it leaves out is not removed."""
    document_kept = _kept(value)
    earlier = state.extra.get(EXTRA)
    if document_kept.value == earlier:
        return []
    # Of several equal goals the first counts, and the log does not keep the order of keys.
    before, document = read_document(_in_order(earlier), context), read_document(_in_order(value), context)
    new: list[EventData] = [*_edits(before, document), *_plan(document.tasks, before.tasks, state)]
    if (document.branch, document.commit) != (before.branch, before.commit):
        known = state.project.git_branch if state.project is not None else None
        new.append(GitPositionNoted(branch=document.branch or known, commit=document.commit))
    for old, new_ones in ((before.decisions, document.decisions), (before.commits, document.commits)):
        new += _more((event.data for event in new_ones), (event.data for event in old))
    new += [*_more(document.files, before.files), *_more(document.errors, before.errors)]
    new += [*_more(document.remarks, before.remarks), document_kept]
    status = view.status_of(state)
    ending = _ending(document) if document.status != before.status else None
    if ending is not None and session_allows(status, TYPE_OF[type(ending)].name):
        new.append(ending)
    at = max(document.updated, state.updated_at)
    worked_since = None if document.worked is None else max(document.worked - (before.worked or 0), 0)
    span = _span(document._replace(worked=worked_since), state.updated_at, at, context)
    watched = span if status == "in_progress" else ()
    return [TimedEvent(at, data) for data in (*watched, *new)]


def _in_order(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _in_order(value[key]) for key in sorted(value)}
    return [_in_order(entry) for entry in value] if isinstance(value, list) else value


def _more(events: Iterable[EventData], known: Iterable[EventData]) -> list[EventData]:
    before = set(map(repr, known))
    return [data for data in events if repr(data) not in before]


def _span(document: Recognised, since: int, until: int, context: ImportContext) -> Iterator[EventData]:
    """The work time between two saves. A file does not show pauses, so the gap is not idle time.

    The duration the file states counts. Without one, a single sitting is working time and a longer span is not.
    """
    worked = until - since if until - since <= _SITTING else 0
    if document.worked is not None:
        worked = min(document.worked, until - since)
    if not document.exact:
        worked = 0
        if until - since <= context.timer.idle:
            return  # shorter than a pause
    if worked > 0:
        yield WorkRecorded(since=since, until=since + worked)
    if since + worked < until:
        reason = "the file does not say when work was done"
        yield AwayRecorded(since=since + worked, until=until, reason=reason)


def _edits(before: Recognised | None, document: Recognised) -> Iterator[EventData]:
    earlier = before or document._replace(summary=None, progress=None)
    for name in ("goal", "summary", "progress", "model", "scope"):
        value = getattr(document, name)
        if value is not None and value != getattr(earlier, name):
            yield SessionEdited(**{name: value})
    if set(document.tags) - set(earlier.tags):
        yield SessionEdited(tags=document.tags)


def _plan(
    listed: list[SalvagedTask], known: Iterable[SalvagedTask] = (), state: State | None = None
) -> Iterator[EventData]:
    """New tasks, and changes of the others. A task is identified by its text."""
    by_text = {} if state is None else {task.text.casefold(): task for task in state.tasks.values()}
    used = {task.id for task in by_text.values()}
    before = {task.text.casefold(): task.status for task in known}
    number = 0
    for task in listed:
        name = task.text.casefold()
        if before.get(name) == task.status:
            continue
        old = by_text.get(name)
        if old is not None:
            yield from _moves(task, old.id, old.ref, tasks.status_of(old))
            continue
        while (number := number + 1) and f"t{number}" in used:
            pass
        yield TaskAdded(id=f"t{number}", text=task.text)
        yield from _moves(task, f"t{number}", None, "pending")


def _moves(task: SalvagedTask, name: str, ref: str | None, present: str) -> Iterator[EventData]:
    step = _STEPS.get(task.status)
    if step is None or present == _TASK_STATUS[task.status]:
        return
    if present == "blocked" and step is TaskCompleted:
        yield TaskStarted(id=name, ref=ref)
        present = "in_progress"
    if allows(TASK, present, TYPE_OF[step].name):
        yield step(id=name, ref=ref, outcome=task.outcome, artifacts=task.files)


def _ending(document: Recognised) -> EventData | None:
    match end_of(document.status, document.tasks):
        case "failed":
            return SessionFailed(message=document.status or "failed")
        case "paused":
            return SessionPaused()
        case "completed":
            return SessionCompleted()
        case "aborted":
            return SessionAborted()
    return None


def _pause_since(document: Recognised, context: ImportContext) -> EventData:
    """A pause since the file was saved: no work since is known, and it is not idle time either."""
    if context.now - document.updated <= context.timer.idle:
        return SessionSaved()
    return SessionPaused(reason="read from a file")


def _kept(value: Json) -> ExtraKept:
    try:
        canonical_json({"value": value})
    except Invalid:  # a number or text the log cannot represent
        text = render_json(value).decode("utf-8", "replace").replace("\0", "\ufffd")
        return ExtraKept(name=EXTRA, value=text)
    return ExtraKept(name=EXTRA, value=value)
