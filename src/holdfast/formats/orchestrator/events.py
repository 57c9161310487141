"""Turn an orchestrator document into events: all of it on import, or the differences between two versions."""

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
from holdfast.formats.orchestrator.agents import (
    ERRORS,
    FIRST,
    LAST,
    AgentEvents,
    ErrorEntries,
    EventTimeline,
    read_error,
)
from holdfast.formats.orchestrator.fields import by_name, get_object, integer, nonblank, objects_by_name, time_of
from holdfast.formats.orchestrator.render import completed_tasks, open_tasks, shown_agents, shown_text
from holdfast.sessions import format_names


class TaskEvents:
    """Completed and pending work, matched with the session's tasks by text."""

    def __init__(self, timeline: EventTimeline, state: State | None) -> None:
        self._timeline = timeline
        self._taken = {task.id for task in state.tasks.values()} if state is not None else set[str]()
        self._open = open_tasks(state) if state is not None else []
        self._done = completed_tasks(state) if state is not None else []

    def add(self, before: Document | None, after: Document, added_at: int, moment: int) -> None:
        """Add new and completed tasks. `added_at` is for tasks without a date."""
        known = objects_by_name(before, "completed_work")
        tasks = self._tasks_of(known)
        for name, entry in objects_by_name(after, "completed_work").items():
            if name not in known:
                self._finished(entry, added_at, moment)
            else:
                self._correct_completed(known[name], entry, tasks.get(name), moment)
        listed = by_name(before, "pending_tasks")
        for name, text in by_name(after, "pending_tasks").items():
            if name not in listed and isinstance(text, str):
                self._timeline.add(added_at, TaskAdded(id=self._next_id(), text=text))

    def _finished(self, entry: dict[str, Json], added_at: int, moment: int) -> None:
        text = nonblank(entry, "task") or ""
        task = self._take(text)
        if task is None:
            name, ref = self._next_id(), None
            self._timeline.add(added_at, TaskAdded(id=name, text=text))
        else:
            name, ref = task.id, task.ref
            if tasks_of.status_of(task) == "blocked":
                self._timeline.add(moment, TaskStarted(id=name, ref=ref))
        self._timeline.add(
            moment, TaskCompleted(id=name, ref=ref, outcome=nonblank(entry, "outcome"), artifacts=_files(entry))
        )

    def _tasks_of(self, entries: dict[str, dict[str, Json]]) -> dict[str, TaskState]:
        """The completed task that each entry shows; entries of the same text show different tasks."""
        unmatched = list(self._done)
        tasks: dict[str, TaskState] = {}
        for name, entry in entries.items():
            task = next((rest for rest in unmatched if shown_text(rest) == nonblank(entry, "task")), None)
            if task is not None:
                unmatched.remove(task)
                tasks[name] = task
        return tasks

    def _correct_completed(
        self, before: dict[str, Json], after: dict[str, Json], task: TaskState | None, moment: int
    ) -> None:
        """Another outcome or more files of completed work is a correction, not another completion."""
        outcome, files = nonblank(after, "outcome"), _files(after)
        if outcome in (None, nonblank(before, "outcome")) and set(files) <= set(_files(before)):
            return
        if task is not None:
            new = tuple(path for path in files if path not in task.artifacts)
            new_outcome = outcome if outcome not in (None, nonblank(before, "outcome")) else None
            self._timeline.add(moment, TaskEdited(id=task.id, ref=task.ref, outcome=new_outcome, artifacts=new))

    def _take(self, text: str) -> TaskState | None:
        """The open task of this text; case and spaces may differ."""
        same_text = [task for task in self._open if _plain(shown_text(task)) == _plain(text)]
        match = next((task for task in same_text if shown_text(task) == text), same_text[0] if same_text else None)
        if match is not None:
            self._open.remove(match)
        return match

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


def document_events(
    before: Document | None, after: Document, state: State | None, context: ImportContext
) -> list[TimedEvent]:
    if before is None or state is None:
        return _import_events(after, context)
    return _change_events(before, after, state, context)


# ── import ───────────────────────────────────────────────────────────────────────────────────────────────


def _import_events(document: Document, context: ImportContext) -> list[TimedEvent]:
    created = time_of(document, "created")
    timeline = EventTimeline(context.now if created is None else created, context.now)
    end = timeline.bounded(max(_moments(document), default=context.now))
    began = timeline.add(
        context.now if created is None else created,
        SessionStarted(
            goal=nonblank(document, "goal") or "work",
            project=_project(document, context),
            device=context.device,
            mode=nonblank(document, "mode") or "default",
            status="created" if document.get("status") == "created" else "in_progress",
            aliases={"orchestrator": nonblank(document, "session_id") or ""},
            timer=context.timer,
        ),
        FIRST,
    )
    _add_entries(timeline, None, document, None, added_at=began, moment=end)
    match document.get("status"):
        case "paused":
            timeline.add(end, SessionPaused(), LAST)
        case "complete":
            timeline.add(end, SessionCompleted(), LAST)
        case "aborted":
            timeline.add(end, SessionAborted(), LAST)
        case _ if timeline.latest < end:
            timeline.add(end, SessionSaved(), LAST)
    return timeline.events()


def _moments(document: Document) -> list[int]:
    """Every time in the document; the latest of them is its last save."""
    times = [time_of(document, "created"), time_of(document, "updated")]
    times += chain.from_iterable(
        (time_of(agent, "started"), time_of(agent, "completed"))
        for agent in objects_by_name(document, "agents").values()
    )
    times += [time_of(decision, "timestamp") for decision in objects_by_name(document, "decisions_made").values()]
    times += [read_error(entry, 0).at for entry in by_name(document, "errors").values()]
    times.append(time_of(get_object(document, "context_usage"), "last_compression"))
    return [at for at in times if at is not None]


def _project(document: Document, context: ImportContext) -> ProjectFacts:
    """The project of the import, with what the document says about it."""
    project = get_object(document, "project")
    path, branch = nonblank(project, "path"), nonblank(project, "git_branch")
    # The commit of another checkout is unknown.
    elsewhere = path != context.project.path or branch != context.project.git_branch
    return msgspec.structs.replace(
        context.project,
        name=nonblank(project, "name") or context.project.name,
        path=path,
        git_branch=branch,
        git_commit=None if elsewhere else context.project.git_commit,
    )


# ── new entries ──────────────────────────────────────────────────────────────────────────────────────────


def _add_entries(
    timeline: EventTimeline,
    before: Document | None,
    after: Document,
    state: State | None,
    *,
    added_at: int,
    moment: int,
) -> None:
    known = by_name(before, "errors")
    entries = enumerate(by_name(after, "errors").items())
    errors = ErrorEntries([read_error(entry, position) for position, (name, entry) in entries if name not in known])

    agents = AgentEvents(timeline, errors, moment)
    earlier = objects_by_name(before, "agents")
    shown = {} if state is None else shown_agents(state)
    default = added_at
    for name, entry in objects_by_name(after, "agents").items():
        if name not in earlier or name not in shown:
            default = max(default, agents.import_agent(entry, default))
        else:
            agents.change_agent(earlier[name], entry, shown[name])

    TaskEvents(timeline, state).add(before, after, added_at, moment)

    decided = by_name(before, "decisions_made")
    for name, entry in objects_by_name(after, "decisions_made").items():
        if name not in decided:
            at = time_of(entry, "timestamp")
            chosen = DecisionMade(chosen=nonblank(entry, "decision") or "?", why=nonblank(entry, "rationale"))
            timeline.add(moment if at is None else at, chosen)

    _add_usage(timeline, before, after, moment)
    for error in errors.left():
        noted = ErrorNoted(message=error.message, category=error.category, agent=error.agent)
        timeline.add(moment if error.at is None else error.at, noted, ERRORS, error.position)


def _add_usage(timeline: EventTimeline, before: Document | None, after: Document, moment: int) -> None:
    usage_before, usage_after = get_object(before or {}, "context_usage"), get_object(after, "context_usage")
    compressed = time_of(usage_after, "last_compression")
    if compressed is not None and compressed != time_of(usage_before, "last_compression"):
        timeline.add(compressed, ContextCompressed())
    tokens = integer(usage_after, "estimated_tokens")
    if tokens is None or tokens == (integer(usage_before, "estimated_tokens") or 0):
        if before is not None or not _agents_count(after):
            return
        tokens = 0  # zero is explicit here: the agents' own counts would add up to more
    window = fields.context_window(tokens, usage_after.get("percentage")) if before is None else None
    timeline.add(moment, ContextMeasured(tokens=tokens, window=window))


def _agents_count(document: Document) -> bool:
    return any(integer(agent, "context_tokens") for agent in objects_by_name(document, "agents").values())


# ── changes between two versions ─────────────────────────────────────────────────────────────────────────


def _change_events(before: Document, after: Document, state: State, context: ImportContext) -> list[TimedEvent]:
    timeline = EventTimeline(format_names.began(state), context.now)
    moment = timeline.bounded(_changed_at(before, after, context))
    goal, mode = nonblank(after, "goal"), nonblank(after, "mode")
    edited = SessionEdited(
        goal=goal if goal != nonblank(before, "goal") else None,
        mode=mode if mode in MODES and mode != nonblank(before, "mode") else None,
    )
    if edited != SessionEdited():
        timeline.add(moment, edited)
    _add_entries(timeline, before, after, state, added_at=moment, moment=moment)
    status = view.status_of(state)
    if after.get("status") != before.get("status"):
        for data in _status_change_events(status, str(after.get("status")), state.session):
            timeline.add(max(moment, timeline.latest), data, LAST)
    elif timeline and status in FINISHED:
        raise refusal("the session", status, "session.edited", state.session)
    return timeline.events()


def _changed_at(before: Document, after: Document, context: ImportContext) -> int:
    """When it was changed: `updated` if that has advanced, else now."""
    updated_before, updated_after = time_of(before, "updated"), time_of(after, "updated")
    return (
        updated_after
        if updated_after is not None and (updated_before is None or updated_after > updated_before)
        else context.now
    )


_MOVES: dict[str, type[SessionResumed | SessionPaused | SessionCompleted | SessionAborted]] = {
    "in_progress": SessionResumed, "paused": SessionPaused, "complete": SessionCompleted, "aborted": SessionAborted,
}  # fmt: skip


def _status_change_events(status: str, new_status: str, session: str) -> list[EventData]:
    """The events from one session status to another, resumed first where there is no direct transition."""
    if new_status not in _MOVES or status in FINISHED:
        if status in FINISHED:
            raise refusal("the session", status, "session.resumed", session)
        raise Refused(
            f"the session is {status.replace('_', ' ')} and cannot be {new_status[:20]!a}",
            hint=f"A status is one of {', '.join(_MOVES)}.",
            session=session,
        )
    final = _MOVES[new_status]()
    kind = TYPE_OF[type(final)].name
    if allows(SESSION, status, kind):
        return [final]
    if allows(SESSION, status, "session.resumed"):
        return [SessionResumed(), final]
    raise refusal("the session", status, kind, session)
