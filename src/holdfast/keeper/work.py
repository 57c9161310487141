"""Work: what agents and people do in a session, recorded verb by verb."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Self

from holdfast.core import tasks, twins, view
from holdfast.core.errors import Conflict, Invalid, NotFound
from holdfast.core.lifecycle import TASK, allows, refusal
from holdfast.core.model import Session
from holdfast.core.reminders import standing
from holdfast.core.short_names import agent_names, id_of, task_names
from holdfast.core.state import State
from holdfast.core.text import LONGEST_NAME, clean, identifier, relative_path, shorten
from holdfast.core.times import MINUTE
from holdfast.core.vocabulary import (
    TYPE_OF,
    ContextCompressed,
    ContextMeasured,
    Data,
    DecisionMade,
    FileChanged,
    HillMoved,
    OfTask,
    PhaseAdded,
    TaskAdded,
    TaskBlocked,
    TaskCompleted,
    TaskDropped,
    TaskReopened,
    TaskStarted,
)
from holdfast.keeper.recording import Build

if TYPE_CHECKING:
    from holdfast.keeper.agent import KeptAgent
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.plan import Plan

MOST_TOKENS = 10**12
ACTIONS = ("created", "modified", "deleted")


class Work:
    """A session by its id, and the verbs of the work in it. Nothing is kept in here: the store answers."""

    def __init__(self, keeper: Keeper, session: str) -> None:
        self.keeper = keeper
        self.id = session
        # For the surface to tell: the task that the last verb was about, by the event that made it.
        self.moved: str | None = None

    def state(self, *, at: int | None = None) -> State:
        return self.keeper.state(self.id, at=at)

    def document(self, *, at: int | None = None) -> Session:
        """The session as the public contract describes it, as of now or of a moment."""
        return self.described(self.state(at=at), self.keeper.now() if at is None else at)

    def described(self, state: State, now: int) -> Session:
        """The same of a state of it that is at hand already."""
        document = view.session(state, now)
        document.over = self.keeper.is_over(state, at=now)
        document.time.reminder = None if document.ended_at else standing(state, now, self.keeper.limit_rule)
        document.sync = self.keeper.sync_of(state)
        if document.waiting and now > self.keeper.now() - MINUTE:  # of the past, nobody knows what ran then
            from holdfast.keeper.waits import still_waiting

            document.waiting = still_waiting(state, document.waiting)
        return document

    def _record(self, *datas: Data, at: int | None = None) -> Self:
        return self._record_with(lambda _: datas, at=at)

    def _record_with(self, build: Build, *, at: int | None = None) -> Self:
        self.keeper.recorder.record(self.id, build, at=at)
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
        at: int | None = None,
    ) -> KeptAgent:
        """Start an agent. As a context manager, it completes at the end of the block, or fails with the exception.

        `pid` is the process that does the work: this one, another one, or none that could be watched.
        """
        from holdfast.keeper.agent import start

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
        at: int | None = None,
    ) -> KeptAgent:
        """Plan an agent: it is pending until it is started under this id."""
        from holdfast.keeper.agent import start

        return start(
            self, agent_id, type=type, task=task, blocking_on=blocking_on, background=False, pid=None, pending=True,
            at=at,
        )  # fmt: skip

    def find_agent(self, agent_id: str) -> KeptAgent:
        from holdfast.keeper.agent import KeptAgent

        return KeptAgent(self, identifier(agent_id, "an agent's id"))

    def add_task(
        self,
        words: str,
        *,
        task_id: str | None = None,
        phase: str | None = None,
        agent: str | None = None,
        at: int | None = None,
    ) -> str:
        """Add a task to the plan; gives its id."""
        from holdfast.core.secrets import redact

        given: list[str] = []

        def build(state: State) -> list[Data]:
            chosen = tasks.next_id(state) if task_id is None else identifier(task_id, "a task's id")
            if tasks.find(state, chosen) is not None:
                raise Conflict(f"there is a task {chosen} already", session=self.id)
            given.append(chosen)
            added: list[Data] = []
            # An id is stored as it is, so it is cleaned here as its name will be.
            phase_id = None if phase is None else redact(clean(phase, "the phase", longest=LONGEST_NAME)).text
            if phase is not None and phase_id is not None and phase_id not in state.phases:
                added.append(PhaseAdded(id=phase_id, name=phase))
            by = None if agent is None else _agent_id(state, agent)
            return [*added, TaskAdded(id=chosen, text=clean(words, "the task"), phase=phase, agent=by)]

        self._record_with(build, at=at)
        return given[0]

    def start_task(
        self, task_id: str, *, outcome: str | None = None, artifacts: Sequence[str] = (), at: int | None = None
    ) -> Self:
        return self._task(TaskStarted, task_id, outcome, artifacts, at)

    def finish_task(
        self, task_id: str, *, outcome: str | None = None, artifacts: Sequence[str] = (), at: int | None = None
    ) -> Self:
        return self._task(TaskCompleted, task_id, outcome, artifacts, at)

    def block_task(
        self, task_id: str, *, outcome: str | None = None, artifacts: Sequence[str] = (), at: int | None = None
    ) -> Self:
        return self._task(TaskBlocked, task_id, outcome, artifacts, at)

    def reopen_task(
        self, task_id: str, *, outcome: str | None = None, artifacts: Sequence[str] = (), at: int | None = None
    ) -> Self:
        return self._task(TaskReopened, task_id, outcome, artifacts, at)

    def drop_task(
        self, task_id: str, *, outcome: str | None = None, artifacts: Sequence[str] = (), at: int | None = None
    ) -> Self:
        return self._task(TaskDropped, task_id, outcome, artifacts, at)

    def _task(
        self, kind: type[OfTask], task_id: str, outcome: str | None, artifacts: Sequence[str], at: int | None
    ) -> Self:
        identifier(task_id, "a task's id")
        paths = tuple(relative_path(path) for path in artifacts)

        def build(state: State) -> list[Data]:
            event = TYPE_OF[kind].name
            own = id_of(task_names(state.tasks.values()), task_id)
            task = twins.meant(state.tasks.values(), own, event, tasks.status_of)
            if task is None:
                raise NotFound(f"there is no task {task_id}", hint="holdfast task list shows them.", session=self.id)
            status = tasks.status_of(task)
            self.moved = task.ref
            if not allows(TASK, status, event):
                raise refusal(f"task {task_id}", status, event, self.id)
            return [kind(id=task.id, ref=task.ref, outcome=outcome, artifacts=paths)]

        return self._record_with(build, at=at)

    def import_plan(self, plan: Plan, *, at: int | None = None) -> Self:
        """Add the phases and tasks of a plan; what is there already stays as it is."""
        return self._record_with(plan.missing_from, at=at)

    def decide(
        self,
        chosen: str,
        *,
        context: str | None = None,
        options: Sequence[str] = (),
        why: str | None = None,
        at: int | None = None,
    ) -> Self:
        clean(chosen, "the decision")
        return self._record(DecisionMade(chosen=chosen, context=context, options=tuple(options), why=why), at=at)

    def changed(
        self, path: str, action: str = "modified", *, agent: str | None = None, at: int | None = None
    ) -> Self:
        """Record a change to a file of the project, with its hash as it is now. Contents are never kept."""
        from holdfast.keeper import projects
        from holdfast.keeper.changes import observe

        if action not in ACTIONS:
            raise Invalid(f"{shorten(action, 40)!a} is no kind of change", hint=f"It is {', '.join(ACTIONS)}.")
        tidy = relative_path(path)
        if agent is not None:
            identifier(agent, "an agent's id")
        seen = observe(self.keeper.place, tidy, action, self.keeper.told)

        def build(state: State) -> Iterator[Data]:
            if state.project is not None and state.project.id not in projects.known(
                self.keeper.store(), self.keeper.place
            ):
                raise Invalid(
                    f"the session belongs to another project ({state.project.name})",
                    hint="Record its files from there: --project DIR",
                    session=self.id,
                )
            before = next((change.hash_after for change in reversed(state.files) if change.path == tidy), None)
            by = None if agent is None else _agent_id(state, agent)
            yield FileChanged(
                path=tidy, action=action, agent=by, lines_added=seen.lines_added, lines_removed=seen.lines_removed,
                hash_before=None if action == "created" else before, hash_after=seen.hash,
            )  # fmt: skip

        return self._record_with(build, at=at)

    def measure_context(
        self, tokens: int, *, window: int | None = None, agent: str | None = None, at: int | None = None
    ) -> Self:
        if agent is not None:
            identifier(agent, "an agent's id")
        tokens = int(number(tokens, "the number of tokens", 0, MOST_TOKENS))
        if window is not None:
            window = int(number(window, "the window", 1, MOST_TOKENS))

        def build(state: State) -> list[Data]:
            by = None if agent is None else _agent_id(state, agent)
            return [ContextMeasured(tokens=tokens, window=window, agent=by)]

        return self._record_with(build, at=at)

    def compress(self, to: int | None = None, *, at: int | None = None) -> Self:
        left = None if to is None else int(number(to, "the number of tokens", 0, MOST_TOKENS))
        return self._record(ContextCompressed(tokens=left), at=at)

    def hill(self, scope: str, position: int, *, at: int | None = None) -> Self:
        clean(scope, "the scope", longest=LONGEST_NAME)
        place = int(number(position, "the position on the hill", 0, 10))
        return self._record(HillMoved(scope=scope, position=place), at=at)


def _agent_id(state: State, given: str) -> str:
    """The id of the agent that somebody names, by its id or by what it is shown as."""
    return id_of(agent_names(state.agents.values()), identifier(given, "an agent's id"))


def fraction(value: float) -> float:
    return float(number(value, "progress", 0, 1))


def number(value: float, what: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not low <= value <= high:
        raise Invalid(f"{what} must be a number from {low:,.10g} to {high:,.10g}, not {str(value)[:40]}")
    return value
