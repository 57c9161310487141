"""The handle of one agent in a session, which is also a context manager around the agent's work."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from holdfast.core import agents
from holdfast.core.display_names import agent_names, id_of
from holdfast.core.errors import Conflict, HoldfastError, Invalid, NotFound
from holdfast.core.events import (
    TYPE_OF,
    AgentAborted,
    AgentCompleted,
    AgentEdited,
    AgentEvent,
    AgentFailed,
    AgentPaused,
    AgentProgressed,
    AgentResumed,
    AgentRetried,
    AgentStarted,
    AgentTimedOut,
    EventData,
    Process,
)
from holdfast.core.failures import CATEGORIES, Category
from holdfast.core.lifecycle import AGENT, allows, refusal
from holdfast.core.model import short_repr
from holdfast.core.registers import find_target
from holdfast.core.state import AgentState, State
from holdfast.core.text import check_identifier, check_text, shorten
from holdfast.core.times import Moment
from holdfast.machine import host
from holdfast.machine.process import identify
from holdfast.machine.wall import as_ms

if TYPE_CHECKING:
    from holdfast.sessions.work import Work

MAX_PID = 2**31 - 1


class AgentHandle:
    """An agent by its id. Several agents may share an id: once a verb chose one of them, the handle stays with it."""

    def __init__(self, session: Work, agent_id: str, ref: str | None = None) -> None:
        self.session = session
        self.id = agent_id
        self.ref = ref

    def __repr__(self) -> str:
        state = self.session._ws.known_state(self.session.id)  # noqa: SLF001 (an agent is part of its session)
        agent = None if state is None else self._find(state)
        known = (None, None) if agent is None else (agent.task, agents.status_of(agent))
        return short_repr(self, self.id, *known)

    def _find(self, state: State) -> AgentState | None:
        return agents.find(state, id_of(agent_names(state.agents.values()), self.id), self.ref)

    def progress(self, fraction: float, *, at: Moment | None = None) -> Self:
        from holdfast.sessions.work import fraction as checked

        return self._record(AgentProgressed, at, progress=checked(fraction))

    def done(self, *, summary: str | None = None, tokens: int | None = None, at: Moment | None = None) -> Self:
        if tokens is not None and not 0 <= tokens <= 10**12:
            raise Invalid("the number of tokens must be from 0 to 1,000,000,000,000")
        return self._record(AgentCompleted, at, summary=summary, tokens=tokens)

    def fail(self, message: str, *, category: str = "logical", at: Moment | None = None) -> Self:
        return self._record(
            AgentFailed, at, message=check_text(message, "the message"), category=known_category(category)
        )

    def time_out(self, message: str, *, at: Moment | None = None) -> Self:
        return self._record(AgentTimedOut, at, message=message)

    def retry(self, *, pid: int | None = None, at: Moment | None = None) -> Self:
        return self._record(AgentRetried, at, pid=pid, process=process(pid))

    def pause(self, *, at: Moment | None = None) -> Self:
        return self._record(AgentPaused, at)

    def resume(self, *, pid: int | None = None, at: Moment | None = None) -> Self:
        return self._record(AgentResumed, at, pid=pid, process=process(pid))

    def abort(self, reason: str | None = None, *, at: Moment | None = None) -> Self:
        return self._record(AgentAborted, at, reason=reason)

    def changed(self, path: str, action: str = "modified", *, at: Moment | None = None) -> Self:
        self.session.changed(path, action, agent=self.id, at=at)
        return self

    def state(self) -> AgentState:
        agent = self._find(self.session.state())
        if agent is None:
            raise self._unknown()
        return agent

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            if self._at_work():
                self.done()
            return
        message = f"{type(error).__name__}: {error}".replace("\0", " ").encode(errors="replace").decode()
        try:
            if self._at_work():
                self.fail(shorten(message, 500), category=category_of(error))
        except HoldfastError as problem:
            # The caller must see the error of the block itself.
            error.add_note(f"Holdfast could not record that agent {self.id} failed: {problem.message}")

    def _at_work(self) -> bool:
        """Whether the agent has not ended yet, so that the end of the block ends it."""
        return agents.status_of(self.state()) in ("running", "paused")

    def _record(self, kind: type[AgentEvent], at: Moment | None, **fields: object) -> Self:
        event = TYPE_OF[kind].name
        refs: list[str] = []

        def build(state: State) -> list[EventData]:
            self.id = id_of(agent_names(state.agents.values()), self.id)
            agent = find_target(state.agents.values(), self.id, event, agents.status_of, self.ref)
            if agent is None:
                raise self._unknown()
            status = agents.status_of(agent)
            if not allows(AGENT, status, event):
                raise refusal(f"agent {self.id}", status, event, self.session.id)
            refs.append(agent.ref)
            return [kind(id=agent.id, ref=agent.ref, **fields)]  # type: ignore[arg-type]

        self.session._record_with(build, at=at)  # noqa: SLF001 (an agent is part of its session)
        self.ref = refs[0]
        return self

    def _unknown(self) -> NotFound:
        return NotFound(
            f"there is no agent {self.id}", hint="holdfast agent list shows the agents.", session=self.session.id
        )


def start(
    session: Work,
    agent_id: str,
    *,
    type: str,  # noqa: A002 (the contract's word)
    task: str | None,
    blocking_on: str | None,
    background: bool,
    pid: int | None,
    pending: bool = False,
    at: Moment | None,
) -> AgentHandle:
    for name in (agent_id, blocking_on):
        if name is not None:
            check_identifier(name, "an agent's id")
    check_text(type, "the agent's type", max_length=100)
    if task is not None:
        check_text(task, "the task")

    def build(state: State) -> list[EventData]:
        planned = agents.find(state, agent_id)
        awaited = None if blocking_on is None else id_of(agent_names(state.agents.values()), blocking_on)
        if awaited is not None and agents.find(state, awaited) is None:
            raise NotFound(f"there is no agent {blocking_on} to wait for", session=session.id)
        if planned is not None and not pending and agents.status_of(planned) == "pending" and planned.process is None:
            # It was only planned; now it starts.
            fields = {"type": type, "task": task, "blocking_on": awaited, "background": background or None}
            changes = {name: value for name, value in fields.items() if value not in (None, getattr(planned, name))}
            edited = [AgentEdited(id=planned.id, ref=planned.ref, **changes)] if changes else []  # type: ignore[arg-type]
            return [*edited, AgentResumed(id=planned.id, ref=planned.ref, pid=pid, process=process(pid))]
        if planned is not None:
            raise Conflict(
                f"agent {agent_id} already exists",
                hint=f"Choose another id, or try it again: holdfast agent retry {agent_id}",
                session=session.id,
            )
        started = AgentStarted(
            id=agent_id, type=type, task=task, blocking_on=awaited, background=background, pending=pending,
            pid=pid, process=process(pid),
        )  # fmt: skip
        return [started]

    agent = agents.find(session._ws.recorder.record(session.id, build, at=as_ms(at)), agent_id)  # noqa: SLF001
    return AgentHandle(session, agent_id, None if agent is None else agent.ref)


def process(pid: int | None) -> Process | None:
    """Identify the process while it runs: its number alone may soon be reused."""
    if pid is not None and not 0 < pid <= MAX_PID:
        raise Invalid(f"{pid} is not a process id")
    if pid is None:
        return None
    identity = identify(pid)
    if identity is None:  # it has ended already, and nothing else is known of it
        return Process(pid, "", host.boot_id(), host.pid_namespace(), host.machine_id())
    return Process(*identity)


def known_category(category: str) -> str:
    if category not in CATEGORIES:
        raise Invalid(f"unknown category {shorten(category, 40)!a}", hint=f"Categories are {', '.join(CATEGORIES)}.")
    return category


def category_of(error: BaseException) -> Category:
    """The category of an exception that ended an agent's block."""
    if isinstance(error, HoldfastError):
        return "transient" if error.retry_helps else "logical"
    if isinstance(error, (TimeoutError, ConnectionError, InterruptedError, KeyboardInterrupt)):
        return "transient"
    if isinstance(error, MemoryError):
        return "resource"
    if isinstance(error, (FileNotFoundError, PermissionError, ImportError)):
        return "configuration"
    if isinstance(error, OSError):
        return "resource"
    return "permanent" if isinstance(error, NotImplementedError) else "logical"
