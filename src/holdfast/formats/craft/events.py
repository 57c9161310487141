"""Turn a craft document into events: all of it on import, or the differences between two versions.

Each event gets the time its entry names, or, without one, the time the document was last changed; what ended or
paused the session comes last. Of two versions only differences count: what is missing in the later one was not
dropped. What no event exists for (another spelling, a renamed agent type) stays in the document's remainder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from holdfast.core import tasks as tasks_of
from holdfast.core import view
from holdfast.core.events import (
    TYPE_OF,
    ContextCompressed,
    ContextMeasured,
    DecisionMade,
    EventData,
    FileChanged,
    NoteAdded,
    ProjectFacts,
    SessionAborted,
    SessionCompleted,
    SessionEdited,
    SessionFailed,
    SessionPaused,
    SessionResumed,
    SessionSaved,
    SessionStarted,
    TaskAdded,
    TaskCompleted,
    TaskStarted,
)
from holdfast.core.lifecycle import MOVES, refusal, session_allows
from holdfast.core.state import State, TaskState
from holdfast.core.text import check_relative_path
from holdfast.formats.base import Document, ImportContext, TimedEvent
from holdfast.formats.convert import fold_events
from holdfast.formats.craft import agents, fields, rules
from holdfast.formats.craft.agents import TimeSpan
from holdfast.formats.craft.fields import PERSON
from holdfast.formats.craft.render import project_path
from holdfast.formats.entries import Identities, entries_by_name
from holdfast.sessions.format_names import began

MAX_COMPRESSIONS: Final = 50
_ACTIONS: Final = {"files_created": "created", "files_modified": "modified", "files_deleted": "deleted"}


def import_events(document: Document, alias: str, context: ImportContext) -> list[TimedEvent]:
    begin = min(_or(fields.time(document, "created_at"), context.now), context.now)
    usual = min(max(_or(fields.time(document, "updated_at"), begin), begin), context.now)
    span = TimeSpan(begin, usual, context.now)
    events = sorted(
        [_session_started(document, alias, begin, context), *_content(document, span)], key=lambda event: event.at
    )
    last = max(events[-1].at, usual)
    progress = fields.number(document, "progress")
    if progress is not None and progress != view.progress_of(fold_events(events, alias)):
        events.append(TimedEvent(last, SessionEdited(progress=progress)))
    ending = status_event(str(document.get("status")))
    if ending is not None:
        events.append(TimedEvent(last, ending))
    elif events[-1].at < last:
        events.append(TimedEvent(last, SessionSaved()))
    return events


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _session_started(document: Document, alias: str, begin: int, context: ImportContext) -> TimedEvent:
    return TimedEvent(
        begin,
        SessionStarted(
            goal=str(document.get("goal")),
            project=_project(document, context),
            device=fields.nonblank(document, "device") or context.device,
            devices=_devices(document),
            mode=str(document.get("mode")),
            tags=tuple(dict.fromkeys(fields.texts(fields.obj(document, "metadata"), "tags"))),
            aliases={"craft": alias},
            timer=context.timer,
        ),
    )


def _devices(document: Document) -> tuple[str, ...]:
    """Every device that the document names, including the one that wrote last."""
    names = [fields.nonblank(document, "device"), *fields.texts(fields.obj(document, "teleportation"), "devices")]
    return tuple(dict.fromkeys(name for name in names if name))


def _project(document: Document, context: ImportContext) -> ProjectFacts:
    """The project of the import, with what the document says about it."""
    metadata, project = fields.obj(document, "metadata"), context.project
    path = fields.text(document, "project")
    if path and path != project_path(project.path, project.name):
        name = re.split(r"[/\\]", path.rstrip("/\\"))[-1]
        project = msgspec.structs.replace(project, path=path, name=name or project.name, git_commit=None)
    if "git_branch" in metadata:
        project = msgspec.structs.replace(project, git_branch=fields.text(metadata, "git_branch"))
    if "git_commit" in metadata:
        project = msgspec.structs.replace(project, git_commit=fields.text(metadata, "git_commit"))
    return project


def _content(document: Document, span: TimeSpan) -> Iterator[TimedEvent]:
    done, pending = fields.texts(document, "completed_work"), fields.texts(document, "pending_tasks")
    for number, text in enumerate((*done, *pending), 1):
        yield TimedEvent(span.begin, TaskAdded(id=f"t{number}", text=text))
    tokens = tokens_by_agent(document)
    listed = fields.objects(document, "agents")
    for agent in listed:
        yield from agents.import_events(agent, span, tokens.get(str(agent.get("id"))))
    yield from decision_events(fields.objects(document, "decisions_made"), span)
    changes = fields.objects(document, "files_modified")
    yield from file_events(changes, span)
    for agent in listed:
        yield from artifacts(agent, {}, changes, span)
    for number in range(1, len(done) + 1):
        yield TimedEvent(span.usual, TaskCompleted(id=f"t{number}"))
    yield from _context(document, tokens, span)
    note = fields.nonblank(fields.obj(document, "metadata"), "notes")
    if note is not None:
        yield TimedEvent(span.usual, NoteAdded(text=note))


def _context(document: Document, tokens: dict[str, int], span: TimeSpan) -> Iterator[TimedEvent]:
    usage = fields.obj(document, "context_usage")
    done = {agent.get("id") for agent in fields.objects(document, "agents") if agent.get("status") == "completed"}
    for name, count in tokens.items():
        if name not in done:  # completed agents carry their own count
            yield TimedEvent(span.usual, ContextMeasured(tokens=count, agent=name))
    # Compressions first: the count is what the context holds after them.
    yield from compression_events(fields.integer(usage, "compression_count") or 0, usage, span)
    total = fields.integer(usage, "estimated_tokens") or 0
    if total or tokens:
        yield TimedEvent(span.usual, ContextMeasured(tokens=total))


# ── for imports and changes ──────────────────────────────────────────────────────────────────────────────


def decision_events(entries: Iterable[Document], span: TimeSpan) -> Iterator[TimedEvent]:
    for entry in entries:
        chosen = fields.nonblank(entry, "chosen")
        if chosen is not None:
            yield TimedEvent(
                span.clamped(fields.time(entry, "timestamp")),
                DecisionMade(
                    chosen=chosen,
                    context=fields.nonblank(entry, "context"),
                    options=tuple(item for item in fields.entries(entry, "options") if isinstance(item, str)),
                    why=fields.text(entry, "reasoning"),
                ),
            )


def file_events(entries: Iterable[Document], span: TimeSpan) -> Iterator[TimedEvent]:
    for entry in entries:
        path = fields.text(entry, "path")
        if path is not None and rules.is_inside(path):
            yield TimedEvent(
                span.clamped(fields.time(entry, "timestamp")),
                FileChanged(
                    path=check_relative_path(path),
                    action=str(entry.get("action")),
                    agent=_agent_of(entry),
                    lines_added=fields.integer(entry, "lines_added"),
                    lines_removed=fields.integer(entry, "lines_removed"),
                    hash_before=fields.text(entry, "hash_before"),
                    hash_after=fields.text(entry, "hash_after"),
                ),
            )


def _agent_of(entry: Document) -> str | None:
    agent = fields.text(entry, "agent_id")
    return None if agent == PERSON else agent


def artifacts(agent: Document, known: Document, changes: Iterable[Document], span: TimeSpan) -> Iterator[TimedEvent]:
    """Files in an agent's artifacts that `files_modified` does not have and the earlier version did not name."""
    name = fields.text(agent, "id")
    listed = {(_path(entry.get("path")), entry.get("action")) for entry in changes if _agent_of(entry) == name}
    earlier, touched = fields.obj(known, "artifacts"), fields.obj(agent, "artifacts")
    at = agents.ended_at(agent, span)
    for key, action in _ACTIONS.items():
        before = {_path(path) for path in fields.texts(earlier, key)}
        for path in dict.fromkeys(_path(path) for path in fields.texts(touched, key)):
            if path is not None and path not in before and (path, action) not in listed:
                yield TimedEvent(at, FileChanged(path=path, action=action, agent=name))


def _path(path: object) -> str | None:
    return check_relative_path(path) if isinstance(path, str) and rules.is_inside(path) else None


def compression_events(count: int, usage: Document, span: TimeSpan) -> Iterator[TimedEvent]:
    at = span.clamped(fields.time(usage, "last_compression"))
    for _ in range(min(count, MAX_COMPRESSIONS)):
        yield TimedEvent(at, ContextCompressed())


def tokens_by_agent(document: Document) -> dict[str, int]:
    """Tokens by agent, for valid agent names."""
    usage = fields.obj(fields.obj(document, "context_usage"), "by_agent")
    counts = ((name, fields.integer(usage, name)) for name in usage if fields.is_name(name))
    return {name: count for name, count in counts if count is not None}


def status_event(status: str) -> EventData | None:
    """The event that takes a session in progress to this status."""
    match status:
        case "paused":
            return SessionPaused()
        case "completed":
            return SessionCompleted()
        case "error":
            return SessionFailed(message=fields.UNKNOWN_FAILURE)
        case "aborted":
            return SessionAborted()
    return None


# ── the difference between two versions ──────────────────────────────────────────────────────────────────


def change_events(
    before: Document, after: Document, state: State, context: ImportContext, identities: Identities
) -> list[TimedEvent]:
    updated = fields.time(after, "updated_at")
    # If `updated_at` has not advanced, its editor does not maintain it: the change happened now.
    usual = updated if updated is not None and updated > state.updated_at else context.now
    begin = min(began(state), context.now)
    span = TimeSpan(begin, min(max(usual, begin), context.now), context.now)
    events = sorted(_Changes(before, after, state, span, identities).all(), key=lambda event: event.at)
    last = max([span.usual, *(event.at for event in events)])
    events += [TimedEvent(last, data) for data in _lifecycle_events(before, after, state)]
    _check_allowed(events, state)
    return events


class _Changes:
    def __init__(
        self, before: Document, after: Document, state: State, span: TimeSpan, identities: Identities
    ) -> None:
        self._before, self._after, self._state, self._span = before, after, state, span
        self._identities = identities

    def all(self) -> Iterator[TimedEvent]:
        yield from self._edits()
        yield from self._tasks()
        yield from self._agents()
        yield from decision_events(self._new("decisions_made"), self._span)
        yield from file_events(self._new("files_modified"), self._span)
        yield from self._context()
        yield from self._notes()

    def _edits(self) -> Iterator[TimedEvent]:
        before, after = self._before, self._after
        goal, mode, progress = (
            fields.nonblank(after, "goal"),
            fields.text(after, "mode"),
            fields.number(after, "progress"),
        )
        old = set(fields.texts(fields.obj(before, "metadata"), "tags"))
        tags = fields.texts(fields.obj(after, "metadata"), "tags")
        edit = SessionEdited(
            goal=None if goal == before.get("goal") else goal,
            mode=None if mode == before.get("mode") else mode,
            progress=None if progress == fields.number(before, "progress") else progress,
            tags=tuple(dict.fromkeys(tag for tag in tags if tag not in old)),
        )
        if edit != SessionEdited():
            yield TimedEvent(self._span.usual, edit)

    # ── tasks ────────────────────────────────────────────────────────────────────────────────────────────

    def _tasks(self) -> Iterator[TimedEvent]:
        at = self._span.usual
        ids = _Ids(self._state)
        open_tasks: dict[str, list[TaskState]] = {}
        for task in self._state.tasks.values():
            if tasks_of.status_of(task) not in ("completed", "dropped"):
                open_tasks.setdefault(task.text, []).append(task)
        for text in self._new_texts("completed_work"):
            planned = open_tasks.get(text)
            if planned:
                yield from _completion(planned.pop(0), at)
            else:
                name = ids.next()
                yield TimedEvent(at, TaskAdded(id=name, text=text))
                yield TimedEvent(at, TaskCompleted(id=name))
        for text in self._new_texts("pending_tasks"):
            yield TimedEvent(at, TaskAdded(id=ids.next(), text=text))

    # ── agents, context ──────────────────────────────────────────────────────────────────────────────────

    def _agents(self) -> Iterator[TimedEvent]:
        known = fields.shown_agents(self._state)
        earlier = {agent.get("id"): agent for agent in fields.objects(self._before, "agents")}
        tokens = tokens_by_agent(self._after)
        changes = fields.objects(self._after, "files_modified")
        for agent in fields.objects(self._after, "agents"):
            name = str(agent.get("id"))
            earlier_entry = earlier.get(name)
            if earlier_entry is None or name not in known:
                yield from agents.import_events(agent, self._span, tokens.get(name))
            elif earlier_entry != agent:
                yield from agents.change_events(
                    earlier_entry, agent, known[name], self._span, self._new_tokens(name, tokens)
                )
            if earlier_entry != agent:
                yield from artifacts(agent, earlier_entry or {}, changes, self._span)

    def _new_tokens(self, name: str, tokens: dict[str, int]) -> int | None:
        """Tokens of an agent, if they changed."""
        return tokens.get(name) if tokens.get(name) != tokens_by_agent(self._before).get(name) else None

    def _context(self) -> Iterator[TimedEvent]:
        before, after = fields.obj(self._before, "context_usage"), fields.obj(self._after, "context_usage")
        earlier = tokens_by_agent(self._before)
        for name, tokens in tokens_by_agent(self._after).items():
            if earlier.get(name) != tokens:
                yield TimedEvent(self._span.usual, ContextMeasured(tokens=tokens, agent=name))
        new_compressions = (fields.integer(after, "compression_count") or 0) - (
            fields.integer(before, "compression_count") or 0
        )
        yield from compression_events(max(new_compressions, 0), after, self._span)
        total = fields.integer(after, "estimated_tokens")
        if total is not None and total != fields.integer(before, "estimated_tokens"):
            yield TimedEvent(self._span.usual, ContextMeasured(tokens=total))

    def _notes(self) -> Iterator[TimedEvent]:
        old = fields.nonblank(fields.obj(self._before, "metadata"), "notes")
        new = fields.nonblank(fields.obj(self._after, "metadata"), "notes")
        if new is not None and new != old:
            added = new[len(old) :].lstrip("\n") if old is not None and new.startswith(f"{old}\n") else new
            yield TimedEvent(self._span.usual, NoteAdded(text=added if added.strip() else new))

    # ── lists ────────────────────────────────────────────────────────────────────────────────────────────

    def _new(self, key: str) -> list[Document]:
        """Objects in a list that were not there before."""
        known = dict(entries_by_name(fields.entries(self._before, key), (key,), self._identities))
        now = entries_by_name(fields.entries(self._after, key), (key,), self._identities)
        return [entry for name, entry in now if name not in known and isinstance(entry, dict)]

    def _new_texts(self, key: str) -> list[str]:
        known = dict(entries_by_name(fields.entries(self._before, key), (key,), self._identities))
        now = entries_by_name(fields.entries(self._after, key), (key,), self._identities)
        return [entry for name, entry in now if name not in known and isinstance(entry, str) and entry.strip()]


class _Ids:
    """Free ids for new tasks."""

    def __init__(self, state: State) -> None:
        self._taken = {task.id for task in state.tasks.values()}

    def next(self) -> str:
        number = len(self._taken) + 1
        while f"t{number}" in self._taken:
            number += 1
        self._taken.add(f"t{number}")
        return f"t{number}"


def _completion(task: TaskState, at: int) -> Iterator[TimedEvent]:
    if tasks_of.status_of(task) == "blocked":
        yield TimedEvent(at, TaskStarted(id=task.id, ref=task.ref))
    yield TimedEvent(at, TaskCompleted(id=task.id, ref=task.ref))


def _lifecycle_events(before: Document, after: Document, state: State) -> Iterator[EventData]:
    """Events that take the session to the status of the later version."""
    status = str(after.get("status"))
    if status == before.get("status"):
        return
    current = view.status_of(state)
    if status == "in_progress":
        yield SessionResumed()
        return
    if current == "created" and status != "aborted":
        yield SessionResumed()
    move = status_event(status)
    if move is not None and status != current:
        yield move


def _check_allowed(events: list[TimedEvent], state: State) -> None:
    """Raise `Refused` when the session's status does not allow these events."""
    status = view.status_of(state)
    for item in events:
        type_name = TYPE_OF[type(item.data)].name
        if not session_allows(status, type_name):
            raise refusal("the session", status, type_name, state.session)
        move = MOVES.get(type_name)
        if move is not None and move.table == "session":
            status = move.status
