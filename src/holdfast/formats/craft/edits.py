"""What happened between two versions of a document that another program edited, as events.

Only differences speak. What is left out was not dropped; what the model has no event for (another spelling, a kind
of agent renamed) stays in the document's remainder.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core import tasks as tasks_of
from holdfast.core import view
from holdfast.core.events import (
    TYPE_OF,
    ContextMeasured,
    EventData,
    NoteAdded,
    SessionEdited,
    SessionResumed,
    TaskAdded,
    TaskCompleted,
    TaskStarted,
)
from holdfast.core.lifecycle import MOVES, refusal, session_allows
from holdfast.core.state import State, TaskState
from holdfast.formats.base import Document, ImportContext, TimedEvent
from holdfast.formats.craft import agents, events, fields, names
from holdfast.formats.craft.agents import TimeSpan
from holdfast.formats.entries import Identities, named
from holdfast.sessions.format_names import began


def changed(
    before: Document, after: Document, state: State, ground: ImportContext, identities: Identities
) -> list[TimedEvent]:
    said = fields.moment(after, "updated_at")
    # A file whose own time has not moved on was changed since by someone who does not keep that field.
    usual = said if said is not None and said > state.updated_at else ground.now
    begin = min(began(state), ground.now)
    span = TimeSpan(begin, min(max(usual, begin), ground.now), ground.now)
    heard = sorted(_Differences(before, after, state, span, identities).all(), key=lambda one: one.at)
    last = max([span.usual, *(event.at for event in heard)])
    heard += [TimedEvent(last, data) for data in _moves(before, after, state)]
    _possible(heard, state)
    return heard


class _Differences:
    def __init__(
        self, before: Document, after: Document, state: State, span: TimeSpan, identities: Identities
    ) -> None:
        self._before, self._after, self._state, self._span = before, after, state, span
        self._identities = identities

    def all(self) -> Iterator[TimedEvent]:
        yield from self._edits()
        yield from self._tasks()
        yield from self._agents()
        yield from events.decisions(self._new("decisions_made"), self._span)
        yield from events.files(self._new("files_modified"), self._span)
        yield from self._context()
        yield from self._notes()

    def _edits(self) -> Iterator[TimedEvent]:
        before, after = self._before, self._after
        goal, mode, progress = (
            fields.said(after, "goal"),
            fields.text(after, "mode"),
            fields.number(after, "progress"),
        )
        old = set(fields.texts(fields.part(before, "metadata"), "tags"))
        tags = fields.texts(fields.part(after, "metadata"), "tags")
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
                yield from _done(planned.pop(0), at)
            else:
                name = ids.next()
                yield TimedEvent(at, TaskAdded(id=name, text=text))
                yield TimedEvent(at, TaskCompleted(id=name))
        for text in self._new_texts("pending_tasks"):
            yield TimedEvent(at, TaskAdded(id=ids.next(), text=text))

    # ── agents, context ──────────────────────────────────────────────────────────────────────────────────

    def _agents(self) -> Iterator[TimedEvent]:
        known = names.shown_agents(self._state)
        earlier = {agent.get("id"): agent for agent in fields.parts(self._before, "agents")}
        tokens = events.by_agent(self._after)
        changes = fields.parts(self._after, "files_modified")
        for agent in fields.parts(self._after, "agents"):
            name = str(agent.get("id"))
            was = earlier.get(name)
            if was is None or name not in known:
                yield from agents.story(agent, self._span, tokens.get(name))
            elif was != agent:
                yield from agents.changed(was, agent, known[name], self._span, self._fresh(name, tokens))
            if was != agent:
                yield from events.artifacts(agent, was or {}, changes, self._span)

    def _fresh(self, name: str, tokens: dict[str, int]) -> int | None:
        """Tokens of an agent, where they are news or nobody counted them."""
        return tokens.get(name) if tokens.get(name) != events.by_agent(self._before).get(name) else None

    def _context(self) -> Iterator[TimedEvent]:
        before, after = fields.part(self._before, "context_usage"), fields.part(self._after, "context_usage")
        counted = events.by_agent(self._before)
        for name, tokens in events.by_agent(self._after).items():
            if counted.get(name) != tokens:
                yield TimedEvent(self._span.usual, ContextMeasured(tokens=tokens, agent=name))
        more = (fields.whole(after, "compression_count") or 0) - (fields.whole(before, "compression_count") or 0)
        yield from events.compressions(max(more, 0), after, self._span)
        total = fields.whole(after, "estimated_tokens")
        if total is not None and total != fields.whole(before, "estimated_tokens"):
            yield TimedEvent(self._span.usual, ContextMeasured(tokens=total))

    def _notes(self) -> Iterator[TimedEvent]:
        old = fields.said(fields.part(self._before, "metadata"), "notes")
        new = fields.said(fields.part(self._after, "metadata"), "notes")
        if new is not None and new != old:
            added = new[len(old) :].lstrip("\n") if old is not None and new.startswith(f"{old}\n") else new
            yield TimedEvent(self._span.usual, NoteAdded(text=added if added.strip() else new))

    # ── lists ────────────────────────────────────────────────────────────────────────────────────────────

    def _new(self, key: str) -> list[Document]:
        """Entries of a list that were not there before."""
        known = dict(named(fields.entries(self._before, key), (key,), self._identities))
        now = named(fields.entries(self._after, key), (key,), self._identities)
        return [entry for name, entry in now if name not in known and isinstance(entry, dict)]

    def _new_texts(self, key: str) -> list[str]:
        known = dict(named(fields.entries(self._before, key), (key,), self._identities))
        now = named(fields.entries(self._after, key), (key,), self._identities)
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


def _done(task: TaskState, at: int) -> Iterator[TimedEvent]:
    if tasks_of.status_of(task) == "blocked":
        yield TimedEvent(at, TaskStarted(id=task.id, ref=task.ref))
    yield TimedEvent(at, TaskCompleted(id=task.id, ref=task.ref))


def _moves(before: Document, after: Document, state: State) -> Iterator[EventData]:
    """The session's own lifecycle."""
    status = str(after.get("status"))
    if status == before.get("status"):
        return
    current = view.status_of(state)
    if status == "in_progress":
        yield SessionResumed()
        return
    if current == "created" and status != "aborted":
        yield SessionResumed()
    move = events.moved(status)
    if move is not None and status != current:
        yield move


def _possible(heard: list[TimedEvent], state: State) -> None:
    """Raises `Refused` when the session, as it stands, allows no such change."""
    status = view.status_of(state)
    for item in heard:
        event = TYPE_OF[type(item.data)].name
        if not session_allows(status, event):
            raise refusal("the session", status, event, state.session)
        move = MOVES.get(event)
        if move is not None and move.table == "session":
            status = move.status
