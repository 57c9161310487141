"""The work of a document: what is done and what is left, found again among the session's tasks by its words."""

from __future__ import annotations

from itertools import chain

import msgspec

from holdfast.core import tasks as tasks_of
from holdfast.core import view
from holdfast.core.canonical import Json
from holdfast.core.errors import Refused
from holdfast.core.events import (
    TYPE_OF,
    ContextCompressed,
    ContextMeasured,
    DecisionMade,
    ErrorNoted,
    EventData,
    ProjectFacts,
    SessionAborted,
    SessionCompleted,
    SessionEdited,
    SessionPaused,
    SessionResumed,
    SessionSaved,
    SessionStarted,
    TaskAdded,
    TaskCompleted,
    TaskEdited,
    TaskStarted,
)
from holdfast.core.lifecycle import FINISHED, SESSION, allows, refusal
from holdfast.core.modes import MODES
from holdfast.core.state import State, TaskState
from holdfast.formats.base import Document, ImportContext, TimedEvent
from holdfast.formats.orchestrator import fields
from holdfast.formats.orchestrator.agents import Agents
from holdfast.formats.orchestrator.error_entries import Mishaps, read
from holdfast.formats.orchestrator.event_order import ERRORS, FIRST, LAST, EventOrder
from holdfast.formats.orchestrator.fields import names, objects, part, when, whole, words
from holdfast.formats.orchestrator.render import done, shown_agents, shown_text, to_do
from holdfast.sessions import format_names


class PlanTasks:
    def __init__(self, story: EventOrder, state: State | None) -> None:
        self._story = story
        self._taken = {task.id for task in state.tasks.values()} if state is not None else set[str]()
        self._open = to_do(state) if state is not None else []
        self._done = done(state) if state is not None else []

    def tell(self, before: Document | None, after: Document, added_at: int, moment: int) -> None:
        """New work, and what was finished. `added_at` is for tasks nobody dated."""
        known = objects(before, "completed_work")
        tasks = self._tasks_of(known)
        for name, entry in objects(after, "completed_work").items():
            if name not in known:
                self._finished(entry, added_at, moment)
            else:
                self._told_again(known[name], entry, tasks.get(name), moment)
        listed = names(before, "pending_tasks")
        for name, text in names(after, "pending_tasks").items():
            if name not in listed and isinstance(text, str):
                self._story.tell(added_at, TaskAdded(id=self._next_id(), text=text))

    def _finished(self, entry: dict[str, Json], added_at: int, moment: int) -> None:
        text = words(entry, "task") or ""
        task = self._take(text)
        if task is None:
            name, ref = self._next_id(), None
            self._story.tell(added_at, TaskAdded(id=name, text=text))
        else:
            name, ref = task.id, task.ref
            if tasks_of.status_of(task) == "blocked":
                self._story.tell(moment, TaskStarted(id=name, ref=ref))
        self._story.tell(
            moment, TaskCompleted(id=name, ref=ref, outcome=words(entry, "outcome"), artifacts=_files(entry))
        )

    def _tasks_of(self, entries: dict[str, dict[str, Json]]) -> dict[str, TaskState]:
        """Which completed task each entry shows; of several of the same words, each one its own."""
        left = list(self._done)
        found: dict[str, TaskState] = {}
        for name, entry in entries.items():
            task = next((rest for rest in left if shown_text(rest) == words(entry, "task")), None)
            if task is not None:
                left.remove(task)
                found[name] = task
        return found

    def _told_again(
        self, before: dict[str, Json], after: dict[str, Json], task: TaskState | None, moment: int
    ) -> None:
        """Another outcome or more files of work that was done: a correction, it was done when it was done."""
        outcome, files = words(after, "outcome"), _files(after)
        if outcome in (None, words(before, "outcome")) and set(files) <= set(_files(before)):
            return
        if task is not None:
            new = tuple(path for path in files if path not in task.artifacts)
            said = outcome if outcome not in (None, words(before, "outcome")) else None
            self._story.tell(moment, TaskEdited(id=task.id, ref=task.ref, outcome=said, artifacts=new))

    def _take(self, text: str) -> TaskState | None:
        """The open task of these words; nobody copies them without changing a capital or a space."""
        alike = [task for task in self._open if _plain(shown_text(task)) == _plain(text)]
        found = next((task for task in alike if shown_text(task) == text), alike[0] if alike else None)
        if found is not None:
            self._open.remove(found)
        return found

    def _next_id(self) -> str:
        number = len(self._taken) + 1
        while f"t{number}" in self._taken:
            number += 1
        self._taken.add(f"t{number}")
        return f"t{number}"


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _files(entry: dict[str, Json]) -> tuple[str, ...]:
    files = entry.get("files")
    return tuple(file for file in files if isinstance(file, str)) if isinstance(files, list) else ()


def changes(before: Document | None, after: Document, state: State | None, ground: ImportContext) -> list[TimedEvent]:
    if before is None or state is None:
        return _whole(after, ground)
    return _between(before, after, state, ground)


# ── everything ───────────────────────────────────────────────────────────────────────────────────────────


def _whole(document: Document, ground: ImportContext) -> list[TimedEvent]:
    created = when(document, "created")
    story = EventOrder(ground.now if created is None else created, ground.now)
    end = story.bounded(max(_moments(document), default=ground.now))
    began = story.tell(
        ground.now if created is None else created,
        SessionStarted(
            goal=words(document, "goal") or "work",
            project=_project(document, ground),
            device=ground.device,
            mode=words(document, "mode") or "default",
            status="created" if document.get("status") == "created" else "in_progress",
            aliases={"orchestrator": words(document, "session_id") or ""},
            timer=ground.timer,
        ),
        FIRST,
    )
    _tell(story, None, document, None, added_at=began, moment=end)
    match document.get("status"):
        case "paused":
            story.tell(end, SessionPaused(), LAST)
        case "complete":
            story.tell(end, SessionCompleted(), LAST)
        case "aborted":
            story.tell(end, SessionAborted(), LAST)
        case _ if story.latest < end:
            story.tell(end, SessionSaved(), LAST)
    return story.heard()


def _moments(document: Document) -> list[int]:
    """Every time the document tells: nothing in it happened after it was last saved, whatever that says."""
    told = [when(document, "created"), when(document, "updated")]
    told += chain.from_iterable(
        (when(agent, "started"), when(agent, "completed")) for agent in objects(document, "agents").values()
    )
    told += [when(decision, "timestamp") for decision in objects(document, "decisions_made").values()]
    told += [read(entry, 0).at for entry in names(document, "errors").values()]
    told.append(when(part(document, "context_usage"), "last_compression"))
    return [at for at in told if at is not None]


def _project(document: Document, ground: ImportContext) -> ProjectFacts:
    """The project it was found in, as the document describes it."""
    told = part(document, "project")
    path, branch = words(told, "path"), words(told, "git_branch")
    # Of another checkout we know no commit.
    elsewhere = path != ground.project.path or branch != ground.project.git_branch
    return msgspec.structs.replace(
        ground.project,
        name=words(told, "name") or ground.project.name,
        path=path,
        git_branch=branch,
        git_commit=None if elsewhere else ground.project.git_commit,
    )


# ── what is new in it ────────────────────────────────────────────────────────────────────────────────────


def _tell(
    story: EventOrder, before: Document | None, after: Document, state: State | None, *, added_at: int, moment: int
) -> None:
    known = names(before, "errors")
    entries = enumerate(names(after, "errors").items())
    mishaps = Mishaps([read(entry, position) for position, (name, entry) in entries if name not in known])

    agents = Agents(story, mishaps, moment)
    earlier = objects(before, "agents")
    there = {} if state is None else shown_agents(state)
    otherwise = added_at
    for name, entry in objects(after, "agents").items():
        if name not in earlier or name not in there:
            otherwise = max(otherwise, agents.begun(entry, otherwise))
        else:
            agents.changed(earlier[name], entry, there[name])

    PlanTasks(story, state).tell(before, after, added_at, moment)

    decided = names(before, "decisions_made")
    for name, entry in objects(after, "decisions_made").items():
        if name not in decided:
            at = when(entry, "timestamp")
            chosen = DecisionMade(chosen=words(entry, "decision") or "?", why=words(entry, "rationale"))
            story.tell(moment if at is None else at, chosen)

    _tell_usage(story, before, after, moment)
    for mishap in mishaps.left():
        noted = ErrorNoted(message=mishap.message, category=mishap.category, agent=mishap.agent)
        story.tell(moment if mishap.at is None else mishap.at, noted, ERRORS, mishap.position)


def _tell_usage(story: EventOrder, before: Document | None, after: Document, moment: int) -> None:
    was, now = part(before or {}, "context_usage"), part(after, "context_usage")
    compressed = when(now, "last_compression")
    if compressed is not None and compressed != when(was, "last_compression"):
        story.tell(compressed, ContextCompressed())
    tokens = whole(now, "estimated_tokens")
    if tokens is None or tokens == (whole(was, "estimated_tokens") or 0):
        if before is not None or not _agents_count(after):
            return
        tokens = 0  # said, although the agents' own counts say more
    window = fields.window(tokens, now.get("percentage")) if before is None else None
    story.tell(moment, ContextMeasured(tokens=tokens, window=window))


def _agents_count(document: Document) -> bool:
    return any(whole(agent, "context_tokens") for agent in objects(document, "agents").values())


# ── the difference ───────────────────────────────────────────────────────────────────────────────────────


def _between(before: Document, after: Document, state: State, ground: ImportContext) -> list[TimedEvent]:
    story = EventOrder(format_names.began(state), ground.now)
    moment = story.bounded(_noticed(before, after, ground))
    goal, mode = words(after, "goal"), words(after, "mode")
    edited = SessionEdited(
        goal=goal if goal != words(before, "goal") else None,
        mode=mode if mode in MODES and mode != words(before, "mode") else None,
    )
    if edited != SessionEdited():
        story.tell(moment, edited)
    _tell(story, before, after, state, added_at=moment, moment=moment)
    status = view.status_of(state)
    if after.get("status") != before.get("status"):
        for data in _moves(status, str(after.get("status")), state.session):
            story.tell(max(moment, story.latest), data, LAST)
    elif story and status in FINISHED:
        raise refusal("the session", status, "session.edited", state.session)
    return story.heard()


def _noticed(before: Document, after: Document, ground: ImportContext) -> int:
    """When it was changed: when it says so, if that is news; else we know of it now."""
    was, now = when(before, "updated"), when(after, "updated")
    return now if now is not None and (was is None or now > was) else ground.now


_MOVES: dict[str, type[SessionResumed | SessionPaused | SessionCompleted | SessionAborted]] = {
    "in_progress": SessionResumed, "paused": SessionPaused, "complete": SessionCompleted, "aborted": SessionAborted,
}  # fmt: skip


def _moves(status: str, wanted: str, session: str) -> list[EventData]:
    """From one status of the session to another, by way of work where there is no direct way."""
    if wanted not in _MOVES or status in FINISHED:
        if status in FINISHED:
            raise refusal("the session", status, "session.resumed", session)
        raise Refused(
            f"the session is {status.replace('_', ' ')} and cannot be {wanted[:20]!a}",
            hint=f"A status is one of {', '.join(_MOVES)}.",
            session=session,
        )
    final = _MOVES[wanted]()
    kind = TYPE_OF[type(final)].name
    if allows(SESSION, status, kind):
        return [final]
    if allows(SESSION, status, "session.resumed"):
        return [SessionResumed(), final]
    raise refusal("the session", status, kind, session)
