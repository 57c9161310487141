"""Run a command as an agent: it queues while enough agents run, is retried, and trips a circuit breaker."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core import agents, view
from holdfast.core.errors import Conflict, HoldfastError, Invalid, Refused
from holdfast.core.events import (
    TYPE_OF,
    AgentAborted,
    AgentCompleted,
    AgentEvent,
    AgentFailed,
    AgentResumed,
    AgentRetried,
    AgentStarted,
    AgentTimedOut,
    CommandRan,
    EventData,
    Process,
)
from holdfast.core.failures import CATEGORIES, Attempt, Category, category_of, circuit, delay_before
from holdfast.core.lifecycle import AGENT, allows, refusal, session_allows
from holdfast.core.modes import limits
from holdfast.core.secrets.patterns import redact
from holdfast.core.state import AgentState, State
from holdfast.core.text import check_identifier, check_text, shorten
from holdfast.core.times import SECOND
from holdfast.machine.command import CommandOutcome, SignalReceived, StopSignals, run_command, signal_name
from holdfast.machine.disk import free_space
from holdfast.machine.process import ProcessIdentity, liveness
from holdfast.machine.wall import monotonic
from holdfast.sessions import run_deferred
from holdfast.sessions.agents import process

if TYPE_CHECKING:
    from holdfast.store.interface import Transaction
    from holdfast.workspace.workspace import Workspace


def _attempts(same_type: Sequence[AgentState]) -> list[Attempt]:
    """The attempts of these agents, in the order in which they ended."""
    ended = [Attempt(at, succeeded=False) for agent in same_type for at in agent.failed_attempts]
    ended += [
        Attempt(agent.ended_at, succeeded=True)
        for agent in same_type
        if agent.ended_at is not None and agents.status_of(agent) == "completed"
    ]
    return sorted(ended, key=lambda attempt: attempt.ended_at)


def _earlier_agents(own: AgentState | None, state: State) -> Iterator[AgentState]:
    """The agents before this one in the session; all of them while it is not recorded yet."""
    return itertools.takewhile(lambda agent: agent is not own, state.agents.values())


def _is_queued(agent: AgentState) -> bool:
    """Whether it is queued and its process is alive."""
    return (
        agents.status_of(agent) == "pending"
        and agent.process is not None
        and liveness(_identity(agent.process)) == "alive"
    )


def _identity(process: Process) -> ProcessIdentity:
    return ProcessIdentity(process.pid, process.started, process.boot, process.namespace, process.machine)


TYPE: Final = "command"  # the type of agents started without one
MAX_TASK_LENGTH: Final = 200
MAX_COMMAND_LENGTH: Final = 4_000
MAX_RETRIES: Final = 100
WITHIN = "HOLDFAST_WITHIN"  # the agents a command runs in, outermost first
MAX_SECONDS: Final = 10_000_000.0

_MIN_POLL_SECONDS, _MAX_POLL_SECONDS = 0.05, 1.0  # seconds between two checks of the queue
_GRACE_SECONDS = 2.0  # seconds: a process that has ended may belong to a run that is just recording its end
_FULL_DISK = 64 * 1024  # bytes left


class RunResult(NamedTuple):
    """The exit code, the agent, and the error that kept something from being recorded. `later`: the server was away,
    and what happened is kept here until it is back.
    """

    code: int
    agent_id: str
    unrecorded: HoldfastError | None = None
    later: bool = False


def run(
    ws: Workspace,
    session: str,
    argv: Sequence[str],
    *,
    agent_id: str | None = None,
    type: str | None = None,  # noqa: A002 (the contract's word)
    task: str | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    categories: Mapping[int, Category] | None = None,
    announce: Callable[[str], None] = lambda _: None,
    environ: Mapping[str, str] | None = None,
    sleep: Callable[[float], None] | None = None,
) -> RunResult:
    """Run a command as an agent of the session; its output goes where ours goes, its code is the result.

    It waits while as many agents run as the mode allows. Only transient failures are tried again, `retries` times
    (default: the mode's). `categories` gives categories of exit codes; `announce` is called on waits and retries.
    `environ` is the environment of the command (default: ours); in it the command learns which agents it is part of,
    so that a run inside a run does not wait for the one around it.
    """
    if not argv or not argv[0]:
        raise Invalid("there is no command to run", hint="Write it after --: holdfast run -- COMMAND")
    if timeout is not None and not 0 < timeout <= MAX_SECONDS:
        raise Invalid("the timeout must be a number of seconds above 0")
    if retries is not None and not 0 <= retries <= MAX_RETRIES:
        raise Invalid(f"the number of retries must be from 0 to {MAX_RETRIES}")
    if agent_id is not None:
        check_identifier(agent_id, "an agent's id")
    if task is not None:
        check_text(task, "the task")
    kind = check_text(TYPE if type is None else type, "the agent's type", max_length=100)
    with StopSignals(sleep) as signals:
        command_run = _Run(
            ws, session, list(argv), agent_id, kind, task, timeout, retries, dict(categories or {}), announce,
            signals, environ,
        )  # fmt: skip
        return command_run.execute()


def categories_from(words: Sequence[str]) -> dict[int, Category]:
    """Parse words of `--category CODE=KIND`, one exit code each."""
    categories: dict[int, Category] = {}
    for word in words:
        code, _, kind = word.partition("=")
        known = next((literal_type for literal_type in CATEGORIES if literal_type == kind), None)
        if known is None or not (code.isascii() and code.isdigit()) or len(code) > 3 or not 1 <= int(code) <= 255:
            raise Invalid(
                f"{shorten(word, 40)!a} is not CODE=KIND",
                hint=f"For example 75=transient: a code from 1 to 255 and one of {', '.join(CATEGORIES)}.",
            )
        categories[int(code)] = known
    return categories


class _Run:
    """One command from its place in the queue to its last attempt."""

    def __init__(
        self,
        ws: Workspace,
        session: str,
        argv: list[str],
        agent_id: str | None,
        type_: str,
        task: str | None,
        timeout: float | None,
        retries: int | None,
        categories: dict[int, Category],
        announce: Callable[[str], None],
        signals: StopSignals,
        environ: Mapping[str, str] | None,
    ) -> None:
        self._ws = ws
        self._session = session
        self._argv = argv
        self._type = type_
        self._timeout = timeout
        self._categories = categories
        self._announce = announce
        self._signals = signals
        self._environ = environ
        self._within = tuple(name for name in (environ or {}).get(WITHIN, "").split(",") if name)
        self._begun = False
        self._unrecorded: HoldfastError | None = None
        self._later = False
        self._numbers = itertools.count()
        self._dead_since: dict[tuple[str, Process], float] = {}
        # Redacted before it is shortened: half a secret would not be recognised.
        redacted = redact(_command_line(argv))
        self._secrets = redacted.counts
        self._command = (
            redacted.text
            if len(redacted.text) <= MAX_COMMAND_LENGTH
            else redacted.text[: MAX_COMMAND_LENGTH - 1] + "…"
        )
        self.id, self._ref, self._retries = self._queue(
            agent_id, shorten(redacted.text, MAX_TASK_LENGTH) if task is None else task, retries
        )

    def execute(self) -> RunResult:
        code = 0
        for attempt in itertools.count(1):
            try:
                self._signals.wait(delay_before(attempt) / SECOND)
                outcome = self._start(AgentResumed if attempt == 1 else AgentRetried)
            except SignalReceived as stop:
                self._record(
                    AgentAborted(id=self.id, ref=self._ref, reason=f"{signal_name(stop.number)} while it waited")
                )
                return self._result(128 + stop.number)
            except HoldfastError as error:
                if attempt == 1:
                    self._record(self._not_started_event(error))
                    raise
                self._announce(f"{self.id} is not retried: {error.message}")
                return self._result(code)
            code = outcome.code
            category = self._end(outcome)
            if category != "transient" or attempt > self._retries or self._unrecorded is not None:
                break
            wait = delay_before(attempt + 1) // SECOND
            self._announce(f"{self.id}: try {attempt + 1} of {self._retries + 1} in {wait} s")
        return self._result(code)

    def _result(self, code: int) -> RunResult:
        return RunResult(code, self.id, self._unrecorded, self._later)

    # ── the queue ────────────────────────────────────────────────────────────────────────────────────────

    def _queue(self, agent_id: str | None, task: str, retries: int | None) -> tuple[str, str, int]:
        """Record the agent as pending, with this process until its own has started."""
        chosen: list[tuple[str, int]] = []

        def build(state: State) -> list[EventData]:
            on_probation = self._circuit(state, None)
            allowed = limits(view.text_value(state, "mode") or "").retries if retries is None else retries
            taken = {agent.id for agent in state.agents.values()}
            if agent_id is not None and agent_id in taken:
                raise Conflict(
                    f"agent {agent_id} already exists",
                    hint="Choose another id, or leave --agent out.",
                    session=self._session,
                )
            free = (f"run-{number}" for number in itertools.count(1))
            name = agent_id or next(name for name in free if name not in taken)
            chosen.append((name, 0 if on_probation else allowed))
            own = os.getpid()
            return [
                AgentStarted(
                    id=name, type=self._type, task=task, pending=True, pid=own, process=process(own),
                    redacted=self._secrets,
                )
            ]  # fmt: skip

        state = self._ws.recorder.record(self._session, build)
        name, times = chosen[0]
        own = agents.find(state, name)
        assert own is not None
        return name, own.ref, times

    def _start(self, kind: type[AgentResumed | AgentRetried]) -> CommandOutcome:
        """Wait for a turn, take it, and run the command to its end."""
        pause, announced = _MIN_POLL_SECONDS, False
        while True:
            waiting_for = self._ahead(
                self._ws.state(self._session), kind
            )  # read without a transaction, which would block other writers
            if not waiting_for:
                with ExitStack() as turn:
                    transaction = turn.enter_context(self._ws.transaction(about=self._session))
                    waiting_for = self._ahead(transaction.state(self._session), kind)
                    if not waiting_for:
                        return self._take_turn(turn, transaction, kind)
            if not announced:
                self._announce(f"{self.id} waits for its turn, behind {shorten(', '.join(waiting_for), 80)}")
                announced = True
            self._signals.wait(pause)
            pause = min(pause * 1.5, _MAX_POLL_SECONDS)

    def _take_turn(
        self, turn: ExitStack, transaction: Transaction, kind: type[AgentResumed | AgentRetried]
    ) -> CommandOutcome:
        def started(pid: int) -> None:
            self._begun = True
            event = kind(id=self.id, ref=self._ref, pid=pid, process=process(pid))
            at, key = self._ws.now(), self._next_key()
            try:
                with turn:  # committed before the command runs, so that it blocks nobody
                    self._ws.recorder.within(
                        transaction, self._session, lambda _: [event], keys=run_deferred.numbered_keys(key)
                    )
            except HoldfastError as error:
                self._not_recorded(error, key, at, [event])

        self._begun = False
        environ = None if self._environ is None else {**self._environ, WITHIN: ",".join([*self._within, self.id])}
        return run_command(self._argv, timeout=self._timeout, started=started, env=environ)

    def _ahead(self, state: State, kind: type[AgentEvent]) -> list[str]:
        """The agents to wait for; none when it is our turn. Raises where the turn can never come."""
        event, session = TYPE_OF[kind].name, self._session
        status = view.status_of(state)
        if not session_allows(status, event):
            raise refusal("the session", status, event, session)
        own = agents.find(state, self.id, self._ref)
        status = "deleted" if own is None else agents.status_of(own)
        if own is None or not allows(AGENT, status, event):
            raise Refused(f"agent {self.id} was {status} by someone else in the meantime", session=session)
        if kind is AgentResumed and self._circuit(state, own):
            self._retries = 0
        queue = [agent for agent in _earlier_agents(own, state) if _is_queued(agent)] if kind is AgentResumed else []
        at_work = (
            agent for agent in agents.running(state) if agent.id not in self._within and self._is_at_work(agent)
        )
        waiting_for = [agent.id for agent in [*at_work, *queue]]
        return waiting_for if len(waiting_for) >= limits(view.text_value(state, "mode") or "").agents else []

    def _is_at_work(self, agent: AgentState) -> bool:
        """Whether an agent recorded as running still runs: no, if its process ended more than a moment ago."""
        if agent.process is None or liveness(_identity(agent.process)) != "dead":
            return True
        first = self._dead_since.setdefault((agent.ref, agent.process), monotonic())
        return monotonic() - first < _GRACE_SECONDS

    def _circuit(self, state: State, own: AgentState | None) -> bool:
        """Refuse while agents of this type have failed too often; True when this one is the trial that decides."""
        now = max(self._ws.now(), state.updated_at)
        same_type = [agent for agent in state.agents.values() if agent.type == self._type and agent is not own]
        breaker = circuit(_attempts(same_type), now)
        failures = f"agents of type {self._type!a} failed three times in a row"
        if breaker.state == "open" and breaker.until is not None:
            remaining = -(-(breaker.until - now) // SECOND)
            raise Refused(
                f"{failures}; the next one may start in {remaining} s",
                hint="See what failed: holdfast agent list. Other types are not blocked.",
                session=self._session,
            )
        if breaker.state != "half-open":
            return False
        at_work = [agent for agent in agents.running(state) if agent is not own and self._is_at_work(agent)]
        queue = [agent for agent in _earlier_agents(own, state) if _is_queued(agent)]
        trying = [agent.id for agent in [*at_work, *queue] if agent.type == self._type]
        if trying:
            raise Refused(
                f"{failures}; {trying[0]} is testing whether they work again",
                hint="Wait for its end.",
                session=self._session,
            )
        return True

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────

    def _end(self, outcome: CommandOutcome) -> Category | None:
        """Record how an attempt ended; gives the category of its failure, None if it did not fail by itself."""
        number = self._signals.received()
        end: AgentEvent
        category: Category | None = None
        if outcome.code == 0:
            end = AgentCompleted(id=self.id, ref=self._ref)
        elif number is not None:
            end = AgentAborted(id=self.id, ref=self._ref, reason=f"stopped by {signal_name(number)}")
        else:
            category = self._category(outcome)
            message = (
                f"{self._name()} {outcome.message}" if self._begun else without_undecodable_bytes(outcome.message)
            )
            if not self._begun or outcome.timed_out or outcome.signal is not None:
                self._announce(message)  # the command cannot have recorded its end itself
            if outcome.timed_out and category == "transient":
                end = AgentTimedOut(id=self.id, ref=self._ref, message=message)
            else:
                end = AgentFailed(id=self.id, ref=self._ref, category=category, message=message)
        command = CommandRan(
            command=self._command, code=outcome.code, agent=self.id, duration_ms=outcome.duration_ms,
            redacted=self._secrets,
        )  # fmt: skip
        self._record(command, end)
        return category

    def _category(self, outcome: CommandOutcome) -> Category:
        chosen = self._categories.get(outcome.code)
        if chosen is not None:
            return chosen
        free = free_space(self._ws.place.root)
        full = free is not None and free < _FULL_DISK
        return category_of(
            outcome.code,
            signal=outcome.signal,
            timed_out=outcome.timed_out,
            out_of_resources=outcome.out_of_memory or full,
        )

    def _not_started_event(self, error: HoldfastError) -> AgentEvent:
        """The event that ends an agent whose command never started."""
        if isinstance(error, Refused):
            return AgentAborted(id=self.id, ref=self._ref, reason=error.message)
        category: Category = "configuration" if isinstance(error, Invalid) else "resource"
        return AgentFailed(id=self.id, ref=self._ref, category=category, message=error.message)

    def _record(self, *events: EventData) -> None:
        """Record what the agent's state allows; remember the error where it cannot be written."""
        at, key = self._ws.now(), self._next_key()
        try:
            self._ws.recorder.record(
                self._session, lambda state: run_deferred.still_allowed(state, self.id, self._ref, events),
                keys=run_deferred.numbered_keys(key),
            )  # fmt: skip
        except HoldfastError as error:
            self._not_recorded(error, key, at, events)

    def _next_key(self) -> str:
        return f"run:{self._ref}:{next(self._numbers)}"

    def _not_recorded(self, error: HoldfastError, key: str, at: int, events: Sequence[EventData]) -> None:
        """Keep the events for later if the server is away; report any other error."""
        if run_deferred.store_for_later(
            self._ws, error, session=self._session, agent=self.id, ref=self._ref, key=key, at=at,
            events=events,
        ):  # fmt: skip
            self._later = True
        else:
            self._unrecorded = self._unrecorded or error

    def _name(self) -> str:
        return shorten(without_undecodable_bytes(os.path.basename(self._argv[0]) or self._argv[0]), 60)


def _command_line(argv: Sequence[str]) -> str:
    """The command as typed in a shell."""
    return without_undecodable_bytes(shlex.join(argv))


def without_undecodable_bytes(word: str) -> str:
    """The text without undecodable bytes, which only the command needs."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
