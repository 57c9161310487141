"""The verbs of the work in a session: agents, tasks, decisions, changed files, context and hills."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from holdfast.core import tasks, view
from holdfast.core.display_names import agent_names, id_of, task_names
from holdfast.core.errors import Conflict, HoldfastError, Invalid, NotFound
from holdfast.core.events import (
    TYPE_OF,
    ContextCompressed,
    ContextMeasured,
    DecisionMade,
    EventData,
    FileChanged,
    HillMoved,
    PhaseAdded,
    TaskAdded,
    TaskBlocked,
    TaskCompleted,
    TaskDropped,
    TaskEvent,
    TaskReopened,
    TaskStarted,
)
from holdfast.core.lifecycle import TASK, allows, refusal
from holdfast.core.model import Session
from holdfast.core.registers import find_target
from holdfast.core.reminders import crossed_limit
from holdfast.core.state import State
from holdfast.core.text import MAX_NAME_LENGTH, check_identifier, check_relative_path, check_text, shorten
from holdfast.core.times import MINUTE, Moment
from holdfast.machine import files
from holdfast.machine.git.worktree import WorkTree
from holdfast.machine.wall import as_ms
from holdfast.workspace.recorder import BuildEvents

if TYPE_CHECKING:
    from holdfast.sessions.agents import AgentHandle
    from holdfast.workspace.workspace import Workspace


class ObservedFile(NamedTuple):
    hash: str | None
    lines_added: int | None
    lines_removed: int | None


def observe(place: WorkTree, path: str, action: str, notices: list[str]) -> ObservedFile:
    """The hash and line counts of a file in the project; counts that git cannot give are left out with a notice."""
    full = os.path.join(place.root, *path.split("/"))
    inside = os.path.realpath(os.path.dirname(full))
    root = os.path.realpath(place.root)
    if inside != root and not inside.startswith(root + os.sep):
        raise Invalid(
            f"{path[:80]!a} leads outside the project", hint="A directory in the path is a link.", file=path
        )
    file_hash = None if action == "deleted" else files.hash_file(full)
    counted = None
    if place.git:
        from holdfast.machine.git.reader import GitReader

        try:
            counted = GitReader(place.root).numstat(path)
        except HoldfastError as error:
            notices.append(f"Recorded without line counts, because git failed: {error.message}.")
    return ObservedFile(file_hash, *(counted if counted is not None else (None, None)))


MAX_TOKENS = 10**12
ACTIONS = ("created", "modified", "deleted")


def document(ws: Workspace, session: str, *, at: int | None = None) -> Session:
    """The session as the public contract describes it, as of now or of a moment."""
    return described(ws, ws.state(session, at=at), ws.now() if at is None else at)


def described(ws: Workspace, state: State, now: int) -> Session:
    """The same from a state that is already loaded."""
    document = view.session(state, now)
    document.over = ws.is_over(state, at=now)
    document.time.reminder = None if document.ended_at else crossed_limit(state, now, ws.limit_rule)
    document.sync = ws.sync_of(state)
    if document.waiting and now > ws.now() - MINUTE:  # only the present shows which programs run
        from holdfast.sessions.resume import still_waiting

        document.waiting = still_waiting(state, document.waiting)
    return document


class Work:
    """A session by its id, with the verbs of the work in it. Holds no state: the store does."""

    def __init__(self, ws: Workspace, session: str) -> None:
        self._ws = ws
        self.id = session
        # The task that the last verb changed (its event's ref), for surfaces to report.
        self.moved: str | None = None

    def state(self, *, at: Moment | None = None) -> State:
        return self._ws.state(self.id, at=as_ms(at))

    def document(self, *, at: Moment | None = None) -> Session:
        """The session as the public contract describes it, as of now or of a moment."""
        return document(self._ws, self.id, at=as_ms(at))

    def described(self, state: State, now: int) -> Session:
        """The same from a state that is already loaded."""
        return described(self._ws, state, now)

    def _record(self, *datas: EventData, at: Moment | None = None) -> Self:
        return self._record_with(lambda _: datas, at=at)

    def _record_with(self, build: BuildEvents, *, at: Moment | None = None) -> Self:
        self._ws.recorder.record(self.id, build, at=as_ms(at))
        return self

    # ── work ─────────────────────────────────────────────────────────────────────────────────────────────

    def agent(
        self,
        agent_id: str,
        *,
        type: str,  # noqa: A002 (the contract's word)
        task: str | None = None,
        blocking_on: str | None = None,
        background: bool = False,
        pid: int | Literal["own"] | None = "own",
        at: Moment | None = None,
    ) -> AgentHandle:
        """Start an agent. As a context manager, it completes at the end of the block, or fails with the exception.

        `pid` is the process that does the work: this one, another one, or none to be watched.
        """
        from holdfast.sessions.agents import start

        if pid == "own":
            pid = os.getpid()
        return start(
            self, agent_id, type=type, task=task, blocking_on=blocking_on, background=background, pid=pid, at=at
        )

    def add_agent(
        self,
        agent_id: str,
        *,
        type: str,  # noqa: A002 (the contract's word)
        task: str | None = None,
        blocking_on: str | None = None,
        at: Moment | None = None,
    ) -> AgentHandle:
        """Plan an agent: it is pending until it is started under this id."""
        from holdfast.sessions.agents import start

        return start(
            self, agent_id, type=type, task=task, blocking_on=blocking_on, background=False, pid=None, pending=True,
            at=at,
        )  # fmt: skip

    def find_agent(self, agent_id: str) -> AgentHandle:
        from holdfast.sessions.agents import AgentHandle

        return AgentHandle(self, check_identifier(agent_id, "an agent's id"))

    def add_task(
        self,
        words: str,
        *,
        task_id: str | None = None,
        phase: str | None = None,
        agent: str | None = None,
        at: Moment | None = None,
    ) -> str:
        """Add a task to the plan; returns its id."""
        from holdfast.core.secrets.patterns import redact

        ids: list[str] = []

        def build(state: State) -> list[EventData]:
            chosen = tasks.next_id(state) if task_id is None else check_identifier(task_id, "a task's id")
            if tasks.find(state, chosen) is not None:
                raise Conflict(f"task {chosen} already exists", session=self.id)
            ids.append(chosen)
            added: list[EventData] = []
            # Ids are stored unredacted, so the phase's id is redacted here like its name.
            phase_id = (
                None if phase is None else redact(check_text(phase, "the phase", max_length=MAX_NAME_LENGTH)).text
            )
            if phase is not None and phase_id is not None and phase_id not in state.phases:
                added.append(PhaseAdded(id=phase_id, name=phase))
            by = None if agent is None else _agent_id(state, agent)
            return [*added, TaskAdded(id=chosen, text=check_text(words, "the task"), phase=phase, agent=by)]

        self._record_with(build, at=at)
        return ids[0]

    def start_task(
        self, task_id: str, *, outcome: str | None = None, artifacts: Sequence[str] = (), at: Moment | None = None
    ) -> Self:
        return self._task(TaskStarted, task_id, outcome, artifacts, at)

    def finish_task(
        self, task_id: str, *, outcome: str | None = None, artifacts: Sequence[str] = (), at: Moment | None = None
    ) -> Self:
        return self._task(TaskCompleted, task_id, outcome, artifacts, at)

    def block_task(
        self, task_id: str, *, outcome: str | None = None, artifacts: Sequence[str] = (), at: Moment | None = None
    ) -> Self:
        return self._task(TaskBlocked, task_id, outcome, artifacts, at)

    def reopen_task(
        self, task_id: str, *, outcome: str | None = None, artifacts: Sequence[str] = (), at: Moment | None = None
    ) -> Self:
        return self._task(TaskReopened, task_id, outcome, artifacts, at)

    def drop_task(
        self, task_id: str, *, outcome: str | None = None, artifacts: Sequence[str] = (), at: Moment | None = None
    ) -> Self:
        return self._task(TaskDropped, task_id, outcome, artifacts, at)

    def _task(
        self, kind: type[TaskEvent], task_id: str, outcome: str | None, artifacts: Sequence[str], at: Moment | None
    ) -> Self:
        check_identifier(task_id, "a task's id")
        paths = tuple(check_relative_path(path) for path in artifacts)

        def build(state: State) -> list[EventData]:
            event = TYPE_OF[kind].name
            own = id_of(task_names(state.tasks.values()), task_id)
            task = find_target(state.tasks.values(), own, event, tasks.status_of)
            if task is None:
                raise NotFound(
                    f"there is no task {task_id}", hint="holdfast task list shows the tasks.", session=self.id
                )
            status = tasks.status_of(task)
            self.moved = task.ref
            if not allows(TASK, status, event):
                raise refusal(f"task {task_id}", status, event, self.id)
            return [kind(id=task.id, ref=task.ref, outcome=outcome, artifacts=paths)]

        return self._record_with(build, at=at)

    def decide(
        self,
        chosen: str,
        *,
        context: str | None = None,
        options: Sequence[str] = (),
        why: str | None = None,
        at: Moment | None = None,
    ) -> Self:
        check_text(chosen, "the decision")
        return self._record(DecisionMade(chosen=chosen, context=context, options=tuple(options), why=why), at=at)

    def changed(
        self, path: str, action: str = "modified", *, agent: str | None = None, at: Moment | None = None
    ) -> Self:
        """Record a change to a file of the project, with its hash as it is now. Contents are never kept."""
        from holdfast.workspace import projects

        if action not in ACTIONS:
            raise Invalid(f"unknown kind of change {shorten(action, 40)!a}", hint=f"Kinds are {', '.join(ACTIONS)}.")
        normalized = check_relative_path(path)
        if agent is not None:
            check_identifier(agent, "an agent's id")
        observed = observe(self._ws.place, normalized, action, self._ws.notices)

        def build(state: State) -> Iterator[EventData]:
            if state.project is not None and state.project.id not in projects.project_ids(
                self._ws.store(), self._ws.place
            ):
                raise Invalid(
                    f"the session belongs to another project ({state.project.name})",
                    hint="Record its files from there: --project DIR",
                    session=self.id,
                )
            before = next((change.hash_after for change in reversed(state.files) if change.path == normalized), None)
            by = None if agent is None else _agent_id(state, agent)
            yield FileChanged(
                path=normalized, action=action, agent=by, lines_added=observed.lines_added,
                lines_removed=observed.lines_removed,
                hash_before=None if action == "created" else before, hash_after=observed.hash,
            )  # fmt: skip

        return self._record_with(build, at=at)

    def measure_context(
        self, tokens: int, *, window: int | None = None, agent: str | None = None, at: Moment | None = None
    ) -> Self:
        if agent is not None:
            check_identifier(agent, "an agent's id")
        tokens = int(number(tokens, "the number of tokens", 0, MAX_TOKENS))
        if window is not None:
            window = int(number(window, "the window", 1, MAX_TOKENS))

        def build(state: State) -> list[EventData]:
            by = None if agent is None else _agent_id(state, agent)
            return [ContextMeasured(tokens=tokens, window=window, agent=by)]

        return self._record_with(build, at=at)

    def compress(self, to: int | None = None, *, at: Moment | None = None) -> Self:
        left = None if to is None else int(number(to, "the number of tokens", 0, MAX_TOKENS))
        return self._record(ContextCompressed(tokens=left), at=at)

    def hill(self, scope: str, position: int, *, at: Moment | None = None) -> Self:
        check_text(scope, "the scope", max_length=MAX_NAME_LENGTH)
        place = int(number(position, "the position on the hill", 0, 10))
        return self._record(HillMoved(scope=scope, position=place), at=at)


def _agent_id(state: State, name: str) -> str:
    """The id of an agent given by its id or by its shown name."""
    return id_of(agent_names(state.agents.values()), check_identifier(name, "an agent's id"))


def fraction(value: float) -> float:
    return float(number(value, "progress", 0, 1))


def number(value: float, name: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not low <= value <= high:
        raise Invalid(f"{name} must be a number from {low:,.10g} to {high:,.10g}, not {str(value)[:40]}")
    return value
