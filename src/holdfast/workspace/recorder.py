"""Append strictly: what the present state does not allow is refused, and nothing is written.

Every verb of the library ends here. Text is checked and secrets are cut out before anything is stored; the lines
of working time are looked at with every sign of activity.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import msgspec

from holdfast.core import view
from holdfast.core.errors import HoldfastError, Invalid, NotFound
from holdfast.core.events import (
    FREE_TEXT,
    SECRET_RULES,
    TYPE_OF,
    DeviceJoined,
    EventData,
    ExtraKept,
    ReminderReached,
    SessionTimedOut,
    is_activity,
)
from holdfast.core.lifecycle import MOVES, refusal, session_allows
from holdfast.core.reminders import LimitRule, Line, due_lines, limit_of
from holdfast.core.state import State
from holdfast.core.text import MAX_NAME_LENGTH, check_text
from holdfast.core.times import DAY
from holdfast.machine.wall import Wall, local_text
from holdfast.store.interface import UNSEEN, Draft, Store, Transaction

BuildEvents = Callable[[State], Iterable[EventData]]


class OpenTransaction(Protocol):
    def __call__(self, *, about: str) -> AbstractContextManager[Transaction]: ...


# Measurements and bookkeeping: they travel with what is recorded next. After anything else, a sync happens by itself.
_NOT_SENT_ALONE = frozenset({
    "message.exchanged", "command.ran", "context.measured", "extra.kept", "ground.noted", "device.joined",
    "native.linked", "alias.given", "reminder.reached", "conversation.updated",
})  # fmt: skip
# With these, and with a pause or an end, where the work is by then: others may follow it there.
_FOLLOWED = frozenset({
    "agent.started", "agent.completed", "agent.failed", "agent.timed_out", "decision.made", "session.paused",
    "session.timed_out", "session.completed", "session.failed", "session.aborted", "conflict.resolved",
    "session.saved", "session.resumed", "file.changed",
})  # fmt: skip
_LEAVING = frozenset(
    event for event, move in MOVES.items() if move.table == "session" and move.status != "in_progress"
)


class LimitReached(NamedTuple):
    """A line of working time that was crossed (milliseconds); whether that paused the session, until a `resume`."""

    line: Line
    limit: int
    pauses: bool
    only_resume: bool


class Tally:
    """What came of recording besides events, until somebody has asked for it."""

    def __init__(self) -> None:
        # Secrets removed, by kind, and working-time lines crossed: the surface tells.
        self.redacted: dict[str, int] = {}
        self.reached: list[LimitReached] = []
        # The store knows by which rules on secrets it is written from now on: said once.
        self.noted_rules = False
        # Something was recorded that other devices should soon know of.
        self.matters = False


class Recorder:
    """Who records, where, and by which clock."""

    def __init__(
        self,
        transaction: OpenTransaction,
        *,
        actor: str,
        device: Callable[[], str],
        wall: Wall,
        git_position: Callable[[State, bool], EventData | None] = lambda _state, _here: None,
        allowed: Callable[[str], None] = lambda _session: None,
        limit_rule: Callable[[], LimitRule] = LimitRule,
    ) -> None:
        self._transaction = transaction
        self.actor = check_text(actor, "the actor's name", max_length=MAX_NAME_LENGTH)
        self.device = device
        self.wall = wall
        self._git_position = git_position
        # Raises where a person may not record: in what others share to be read.
        self._allowed = allowed
        self._limit_rule = limit_rule
        self.tally = Tally()

    def through(
        self, transaction: OpenTransaction, git_position: Callable[[State, bool], EventData | None]
    ) -> Recorder:
        """The same recorder for another way to write."""
        other = copy.copy(self)
        other._transaction = transaction  # noqa: SLF001 (it is one of us)
        other._git_position = git_position  # noqa: SLF001
        return other

    def record(
        self, session: str, build: BuildEvents, *, at: int | None = None, keys: Iterator[str] | None = None
    ) -> State:
        """Append what `build` makes of the present state, all of it or nothing; gives the new state."""
        with self._transaction(about=session) as transaction:
            return self.within(transaction, session, build, at=at, keys=keys)

    def within(
        self,
        transaction: Transaction,
        session: str,
        build: BuildEvents,
        *,
        at: int | None = None,
        here: bool = False,
        keys: Iterator[str] | None = None,
    ) -> State:
        """The same, as part of a transaction that does more. `here`: that makes the session current in this place."""
        try:
            return self._within(transaction, session, build, at=at, here=here, keys=keys)
        except HoldfastError as error:
            error.session = error.session or session
            raise

    def _within(
        self,
        transaction: Transaction,
        session: str,
        build: BuildEvents,
        *,
        at: int | None,
        here: bool,
        keys: Iterator[str] | None,
    ) -> State:
        state = transaction.state(session)
        if not state.count or state.deleted:
            raise NotFound("there is no such session", session=session)
        self._allowed(session)
        writer = transaction.writer()
        latest = state.latest.get(writer)
        moment = self.moment(at, latest, session)
        noted = False
        for data in build(state):
            if not noted and TYPE_OF[type(data)].name in _FOLLOWED:
                noted = True
                self._note_git_position(transaction, state, moment, writer, here=here)
            key = None if keys is None else next(keys)
            self._append(transaction, state, self.prepare(data), moment, writer, key)
        return state

    def note_git_position(self, transaction: Transaction, session: str) -> None:
        """Tell a session where its work is by now, if it is in this place: as of the last that was recorded here."""
        state, writer = transaction.state(session), transaction.writer()
        if writer in state.latest:
            self._note_git_position(transaction, state, state.latest[writer], writer, here=False)

    def _note_git_position(self, transaction: Transaction, state: State, at: int, writer: str, *, here: bool) -> None:
        news = self._git_position(state, here)
        if news is not None:
            self._append(transaction, state, news, at, writer)

    def append_reported(
        self,
        transaction: Transaction,
        session: str,
        events: Iterable[tuple[int, EventData]],
        *,
        keys: Iterator[str] | None,
        actor: str | None = None,
    ) -> State:
        """Append what a document or an agent tells, each at its own time: as strictly as anything a person says."""
        state = transaction.state(session)
        if not state.count or state.deleted:
            raise NotFound("there is no such session", session=session)
        writer = transaction.writer()
        active = False
        for at, data in events:
            active |= is_activity(TYPE_OF[type(data)], data)
            key = None if keys is None else next(keys)
            moment = max(min(at, self.wall.now()), state.time.start)
            self._append(transaction, state, self.prepare(data), moment, writer, key, reported=True, actor=actor)
        # Only at the end: what a document tells belongs together, and a limit reached in between must not break it.
        if active:
            self._remind(transaction, state, state.updated_at)
        return state

    def moment(self, asked: int | None, latest: int | None, session: str | None = None) -> int:
        """When it happened. Implicitly now, never before what this device already said; explicitly as asked."""
        now = self.wall.now()
        if asked is None:
            return now if latest is None else max(now, latest)
        if asked > now + DAY:
            raise Invalid(
                f"{local_text(asked)} is more than 24 hours ahead",
                hint="Check the date given to --at.",
                session=session,
            )
        if latest is not None and asked < latest:
            raise Invalid(
                f"{local_text(asked)} is before the session's last event ({local_text(latest)})",
                hint="What was forgotten is corrected with: holdfast away --from TIME --to TIME",
                session=session,
            )
        return asked

    def _append(
        self,
        transaction: Transaction,
        state: State,
        data: EventData,
        at: int,
        writer: str,
        key: str | None = None,
        *,
        reported: bool = False,
        actor: str | None = None,
    ) -> None:
        session = state.session
        kind = TYPE_OF[type(data)]
        status = view.status_of(state)
        if not session_allows(status, kind.name):
            raise refusal("the session", status, kind.name, session)
        if writer not in state.heads:
            transaction.record(session, Draft(DeviceJoined(device=self.device()), at, self.actor))
        if status == "in_progress" and kind.name in _LEAVING:
            # Crossed by then, though nobody needs the reminder any more.
            for line in due_lines(state, at, self._limit_rule):
                transaction.record(session, Draft(ReminderReached(line=line), at, self.actor))
        transaction.record(session, Draft(data, at, actor or self.actor, key))
        self.tally.matters = self.tally.matters or kind.name not in _NOT_SENT_ALONE
        if is_activity(kind, data) and not reported:
            self._remind(transaction, state, at)

    def _remind(self, transaction: Transaction, state: State, at: int) -> None:
        """Record the lines of working time that were crossed; the last one may pause the session."""
        if view.status_of(state) != "in_progress":
            return
        for line in due_lines(state, at, self._limit_rule):
            transaction.record(state.session, Draft(ReminderReached(line=line), at, self.actor))
            rule = self._limit_rule()
            pauses = line == "timeout_90" and rule.pauses
            self.tally.reached.append(LimitReached(line, limit_of(state, line), pauses, rule.only_resume))
            if pauses:
                transaction.record(state.session, Draft(SessionTimedOut(), at, self.actor))
                self.tally.matters = True

    def prepare(self, data: EventData) -> EventData:
        """The data as it may be stored: text checked, secrets replaced and counted."""
        ready = _prepared(data)
        for kind, count in ready.redacted.items():
            self.tally.redacted[kind] = self.tally.redacted.get(kind, 0) + count
        return ready


# By which rules the events of a store were redacted that were recorded in it.
_WRITTEN_BY = "arrivals/rules"


def follows_secret_rules(store: Store | Transaction) -> bool:
    """Whether this store is written by today's rules on secrets, and was before."""
    return store.remembered(_WRITTEN_BY) == b"%d" % SECRET_RULES


def note_secret_rules(store: Store, transaction: Transaction) -> None:
    """From now on it is. What was written by others has to be looked through once, before it leaves the device."""
    if not follows_secret_rules(transaction):
        transaction.remember(_WRITTEN_BY, b"%d" % SECRET_RULES)
        if store.latest_place():
            transaction.remember(UNSEEN, b"0")


_free_text: dict[type[EventData], tuple[str, ...]] = {}


def _prepared(data: EventData) -> EventData:
    if type(data) is ExtraKept:
        return data  # a document is redacted as a whole, before it is taken apart
    names = _free_text.get(type(data))
    if names is None:
        names = tuple(name for name in data.__struct_fields__ if name in FREE_TEXT)
        _free_text[type(data)] = names
    changes: dict[str, object] = {}
    counts: dict[str, int] = {}
    for name in names:
        value = getattr(data, name)
        if type(value) is str:
            cleaned = _without_secrets(value, name, counts)
            if cleaned is not value:
                changes[name] = cleaned
        elif type(value) is tuple and value:
            changes[name] = tuple(_without_secrets(item, name, counts) for item in value)
    if counts:
        changes["redacted"] = counts
    return msgspec.structs.replace(data, **changes) if changes else data


def _without_secrets(value: str, name: str, counts: dict[str, int]) -> str:
    from holdfast.core.secrets.patterns import redact

    redacted = redact(check_text(value, f"the {name}", empty=True))
    for kind, count in redacted.counts.items():
        counts[kind] = counts.get(kind, 0) + count
    return redacted.text if redacted.counts else value
