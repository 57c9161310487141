"""A kept session: the verbs a person, a program or an agent uses on it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Self

from holdfast.core import tasks, view
from holdfast.core.errors import Conflict, Invalid, NotFound
from holdfast.core.lifecycle import TASK, allows, refusal
from holdfast.core.model import Session
from holdfast.core.modes import MODES
from holdfast.core.state import State
from holdfast.core.text import LONGEST_NAME, clean, identifier, relative_path, shorten
from holdfast.core.times import text
from holdfast.core.vocabulary import (
    TYPE_OF,
    AwayRecorded,
    ContextCompressed,
    ContextMeasured,
    Data,
    DecisionMade,
    FileChanged,
    HillMoved,
    MessageExchanged,
    NoteAdded,
    OfTask,
    PhaseAdded,
    SessionAborted,
    SessionCompleted,
    SessionEdited,
    SessionFailed,
    SessionPaused,
    SessionSaved,
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
    from holdfast.keeper.resuming import Resumed
    from holdfast.keeper.stopping import Stopped

MOST_TOKENS = 10**12
ACTIONS = ("created", "modified", "deleted")


class KeptSession:
    """One session, by its id. Nothing is kept in here: every question is answered from the store.

    Verbs record and give the session back; `document` shows what it has become.
    """

    def __init__(self, keeper: Keeper, session: str) -> None:
        self.keeper = keeper
        self.id = session

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────

    def state(self, *, at: int | None = None) -> State:
        return self.keeper.state(self.id, at=at)

    def document(self, *, at: int | None = None) -> Session:
        """The session as the public contract describes it, as of now or of a moment."""
        return view.session(self.state(at=at), self.keeper.now() if at is None else at)

    def briefing(self, *, reader: str = "agent", max_chars: int = 10_000, at: int | None = None) -> str:
        """The text that lets a person or an agent go on where the session stopped."""
        from holdfast.keeper.briefing import briefing

        return briefing(
            self.document(at=at), reader=reader, max_chars=max_chars, ground=self.ground(),
            now=self.keeper.now() if at is None else at,
        )  # fmt: skip

    def ground(self) -> Resumed:
        """What became of the agents and files of the session, without recording anything."""
        from holdfast.keeper.resuming import look

        return look(self.state(), self.keeper.place.root)

    # ── the session itself ───────────────────────────────────────────────────────────────────────────────

    def _record(self, *datas: Data, at: int | None = None) -> Self:
        return self._record_with(lambda _: datas, at=at)

    def _record_with(self, build: Build, *, at: int | None = None) -> Self:
        self.keeper.recorder.record(self.id, build, at=at)
        return self

    def pause(self, reason: str | None = None, *, at: int | None = None) -> Self:
        return self._record(SessionPaused(reason=reason), at=at)

    def resume(self, *, force: bool = False, at: int | None = None) -> Resumed:
        """Go on here: settle what a crash left behind, and make the session current."""
        from holdfast.keeper.resuming import resume

        return resume(self, force=force, at=at)

    def save(self, *, at: int | None = None) -> Self:
        return self._record(SessionSaved(), at=at)

    def complete(
        self,
        *,
        summary: str | None = None,
        outcome: str | None = None,
        reason: str | None = None,
        at: int | None = None,
    ) -> Self:
        return self._end(SessionCompleted(summary=summary, outcome=outcome, reason=reason), at)

    def stop(
        self, *, keep: bool = False, discard: bool = False, reason: str | None = None, at: int | None = None
    ) -> Stopped:
        """Complete the session; keep or discard its branch where it has one, and say what became of it."""
        from holdfast.keeper.stopping import stop

        return stop(self, keep=keep, discard=discard, reason=reason, at=at)

    def abort(self, reason: str | None = None, *, at: int | None = None) -> Self:
        return self._end(SessionAborted(reason=reason), at)

    def fail(self, message: str, *, category: str | None = None, at: int | None = None) -> Self:
        if category is not None:
            from holdfast.keeper.agent import known_category

            known_category(category)
        return self._record(SessionFailed(message=clean(message, "the message"), category=category), at=at)

    def _end(self, data: Data, at: int | None) -> Self:
        from holdfast.keeper.stopping import ended_with

        store, place = self.keeper.store(), self.keeper.place.root
        with store.transaction() as transaction:
            self.keeper.recorder.within(transaction, self.id, lambda state: [*ended_with(state), data], at=at)
            if store.current(place) == self.id:
                transaction.set_current(place, None)
        return self

    def edit(
        self,
        *,
        goal: str | None = None,
        mode: str | None = None,
        progress: float | None = None,
        scope: str | None = None,
        summary: str | None = None,
        tags: Sequence[str] = (),
        model: str | None = None,
        cost_usd: float | None = None,
        at: int | None = None,
    ) -> Self:
        if mode is not None and mode not in MODES:
            raise Invalid(f"there is no mode {shorten(mode, 40)!a}", hint=f"Modes are {', '.join(MODES)}.")
        for name, value in (("goal", goal), ("scope", scope), ("summary", summary), ("model", model)):
            if value is not None:
                clean(value, f"the {name}")
        for tag in tags:
            clean(tag, "the tag", longest=LONGEST_NAME)
        edited = SessionEdited(
            goal=goal, mode=mode, progress=None if progress is None else fraction(progress), scope=scope,
            summary=summary, tags=tuple(tags), model=model,
            cost_usd=None if cost_usd is None else _number(cost_usd, "the cost", 0, 1e9),
        )  # fmt: skip
        if edited == SessionEdited():
            raise Invalid("nothing was given to change", hint="For instance: holdfast edit --progress 0.5")
        return self._record(edited, at=at)

    def note(self, words: str, *, at: int | None = None) -> Self:
        return self._record(NoteAdded(text=clean(words, "the note")), at=at)

    def message(self, role: str = "user", *, at: int | None = None) -> Self:
        if role not in ("user", "assistant"):
            raise Invalid(f"{shorten(role, 40)!a} is no role", hint="It is user or assistant.")
        return self._record(MessageExchanged(role=role), at=at)

    def away(self, since: int, until: int, reason: str | None = None, *, at: int | None = None) -> Self:
        """A pause nobody recorded at the time."""

        def build(state: State) -> list[Data]:
            if since >= until:
                raise Invalid("the pause must end after it begins")
            start = state.time.start
            if since < start:
                raise Invalid(f"the session began at {text(start)}, after the pause would", session=self.id)
            if until > max(self.keeper.now(), state.updated_at, at or 0):
                raise Invalid("the pause would end in the future", hint="Use holdfast pause for one that begins now.")
            return [AwayRecorded(since=since, until=until, reason=reason)]

        return self._record_with(build, at=at)

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
            by = None if agent is None else identifier(agent, "an agent's id")
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
            task = tasks.find(state, task_id)
            if task is None:
                raise NotFound(f"there is no task {task_id}", hint="holdfast task list shows them.", session=self.id)
            status, event = tasks.status_of(task), TYPE_OF[kind].name
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
        seen = observe(self.keeper.place, tidy, action)

        def build(state: State) -> Iterator[Data]:
            if (
                state.project is not None
                and projects.known(self.keeper.store(), self.keeper.place) != state.project.id
            ):
                raise Invalid(
                    f"the session belongs to another project ({state.project.name})",
                    hint="Record its files from there: --project DIR",
                    session=self.id,
                )
            before = next((change.hash_after for change in reversed(state.files) if change.path == tidy), None)
            yield FileChanged(
                path=tidy, action=action, agent=agent, lines_added=seen.lines_added, lines_removed=seen.lines_removed,
                hash_before=None if action == "created" else before, hash_after=seen.hash,
            )  # fmt: skip

        return self._record_with(build, at=at)

    def measure_context(
        self, tokens: int, *, window: int | None = None, agent: str | None = None, at: int | None = None
    ) -> Self:
        if agent is not None:
            identifier(agent, "an agent's id")
        tokens = int(_number(tokens, "the number of tokens", 0, MOST_TOKENS))
        if window is not None:
            window = int(_number(window, "the window", 1, MOST_TOKENS))
        return self._record(ContextMeasured(tokens=tokens, window=window, agent=agent), at=at)

    def compress(self, to: int | None = None, *, at: int | None = None) -> Self:
        left = None if to is None else int(_number(to, "the number of tokens", 0, MOST_TOKENS))
        return self._record(ContextCompressed(tokens=left), at=at)

    def hill(self, scope: str, position: int, *, at: int | None = None) -> Self:
        clean(scope, "the scope", longest=LONGEST_NAME)
        place = int(_number(position, "the position on the hill", 0, 10))
        return self._record(HillMoved(scope=scope, position=place), at=at)


def fraction(value: float) -> float:
    return float(_number(value, "progress", 0, 1))


def _number(value: float, what: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not low <= value <= high:
        raise Invalid(f"{what} must be a number from {low:,.10g} to {high:,.10g}, not {str(value)[:40]}")
    return value
