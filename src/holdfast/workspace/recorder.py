"""Append events strictly: what the present state does not allow is refused, and nothing is written.

Every verb of the library records through this module. Text is checked and secrets are removed before anything is
stored; limits of working time are checked with every sign of activity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol, Self

import msgspec

from holdfast.core import view
from holdfast.core.errors import HoldfastError, Invalid, NotFound
from holdfast.core.events import (
    SECRET_RULES,
    TYPE_OF,
    DeviceJoined,
    EventData,
    ReminderReached,
    SessionTimedOut,
    is_activity,
)
from holdfast.core.lifecycle import MOVES, refusal, session_allows
from holdfast.core.reminders import Limit, LimitRule, due_limits, limit_ms
from holdfast.core.state import State
from holdfast.core.text import MAX_NAME_LENGTH, check_text
from holdfast.core.times import DAY
from holdfast.core.wording import reminder
from holdfast.machine.wall import Wall, local_text
from holdfast.store.interface import UNSEEN, Draft, Store, Transaction

NoticeKind = Literal["failed", "secrets", "limit", "other"]
BuildEvents = Callable[[State], Iterable[EventData]]


class OpenTransaction(Protocol):
    def __call__(self, *, about: str) -> AbstractContextManager[Transaction]: ...


_LEAVING = frozenset(
    event for event, move in MOVES.items() if move.table == "session" and move.status != "in_progress"
)


class LimitReached(NamedTuple):
    """A limit of working time that was crossed, in milliseconds; whether it paused the session, until a `resume`."""

    name: Limit
    limit: int
    pauses: bool
    only_resume: bool


class Notice(str):
    """A sentence, and its kind: something besides the verb failed, secrets were removed, or a limit was crossed."""

    __slots__ = ("kind",)
    kind: NoticeKind

    def __new__(cls, sentence: str, kind: NoticeKind = "other") -> Self:
        notice = super().__new__(cls, sentence)
        notice.kind = kind
        return notice


class Tally:
    """Results of recording besides events, until a surface shows them."""

    def __init__(self) -> None:
        # Removed secrets by kind, and crossed limits of working time, for the surface to show.
        self.redacted: dict[str, int] = {}
        self.reached: list[LimitReached] = []
        # Whether the store has recorded by which rules secrets are removed.
        self.noted_rules = False
        # Whether something was recorded that should be synced soon.
        self.needs_sync = False

    def take_notices(self) -> list[Notice]:
        """The removed secrets and the last limit that was crossed; each is returned once."""
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(self.redacted.items()))
        notices = [Notice(f"Removed secrets before storing: {kinds}.", "secrets")] if kinds else []
        notices += [Notice(reminder(*crossed), "limit") for crossed in self.reached[-1:]]
        self.redacted.clear()
        self.reached.clear()
        return notices


class Recorder:
    """Records events for one actor and device, by one clock."""

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
        # Raises in sessions that others share with this person to read only.
        self._allowed = allowed
        self._limit_rule = limit_rule
        self.tally = Tally()

    def with_transaction(
        self, transaction: OpenTransaction, git_position: Callable[[State, bool], EventData | None]
    ) -> Recorder:
        """A copy of this recorder that opens its transactions differently."""
        other = object.__new__(type(self))  # the module `copy` takes a millisecond to load
        vars(other).update(vars(self))
        other._transaction = transaction
        other._git_position = git_position
        return other

    def record(
        self, session: str, build: BuildEvents, *, at: int | None = None, keys: Iterator[str] | None = None
    ) -> State:
        """Append the events that `build` derives from the present state, all or none; return the new state."""
        with self._transaction(about=session) as transaction:
            return self.within(transaction, session, build, at=at, keys=keys)

    def within(
        self,
        transaction: Transaction,
        session: str,
        build: BuildEvents,
        *,
        at: int | None = None,
        make_current: bool = False,
        keys: Iterator[str] | None = None,
    ) -> State:
        """The same within a larger transaction. `make_current`: the session becomes current in this work tree."""
        try:
            return self._within(transaction, session, build, at=at, make_current=make_current, keys=keys)
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
        make_current: bool,
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
            if not noted and TYPE_OF[type(data)].with_position:
                noted = True
                self._note_git_position(transaction, state, moment, writer, is_current=make_current)
            key = None if keys is None else next(keys)
            self._append(transaction, state, self.prepare(data), moment, writer, key)
        return state

    def note_git_position(self, transaction: Transaction, session: str) -> None:
        """Record the git position of a session in this work tree, as of its last event of this device."""
        state, writer = transaction.state(session), transaction.writer()
        if writer in state.latest:
            self._note_git_position(transaction, state, state.latest[writer], writer, is_current=False)

    def _note_git_position(
        self, transaction: Transaction, state: State, at: int, writer: str, *, is_current: bool
    ) -> None:
        news = self._git_position(state, is_current)
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
        """Append events from a document or an agent, each at its own time, as strictly as those of a person."""
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
        # Only at the end, so that a limit reached in between does not split the events of a document.
        if active:
            self._remind(transaction, state, state.updated_at)
        return state

    def moment(self, requested: int | None, latest: int | None, session: str | None = None) -> int:
        """The time of the event: now, never before this device's last event, or the time asked for."""
        now = self.wall.now()
        if requested is None:
            return now if latest is None else max(now, latest)
        if requested > now + DAY:
            raise Invalid(
                f"{local_text(requested)} is more than 24 hours ahead",
                hint="Check the date given to --at.",
                session=session,
            )
        if latest is not None and requested < latest:
            raise Invalid(
                f"{local_text(requested)} is before the session's last event ({local_text(latest)})",
                hint="To record a pause afterwards: holdfast away --from TIME --to TIME",
                session=session,
            )
        return requested

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
            # Limits crossed by then, although the reminder is not needed any more.
            for limit in due_limits(state, at, self._limit_rule):
                transaction.record(session, Draft(ReminderReached(line=limit), at, self.actor))
        transaction.record(session, Draft(data, at, actor or self.actor, key))
        self.tally.needs_sync = self.tally.needs_sync or kind.syncs
        if is_activity(kind, data) and not reported:
            self._remind(transaction, state, at)

    def _remind(self, transaction: Transaction, state: State, at: int) -> None:
        """Record the limits of working time that were crossed; the last one may pause the session."""
        if view.status_of(state) != "in_progress":
            return
        for limit in due_limits(state, at, self._limit_rule):
            transaction.record(state.session, Draft(ReminderReached(line=limit), at, self.actor))
            rule = self._limit_rule()
            pauses = limit == "timeout_90" and rule.pauses
            self.tally.reached.append(LimitReached(limit, limit_ms(state, limit), pauses, rule.only_resume))
            if pauses:
                transaction.record(state.session, Draft(SessionTimedOut(), at, self.actor))
                self.tally.needs_sync = True

    def prepare(self, data: EventData) -> EventData:
        """The data to store: text checked, secrets replaced and counted."""
        prepared = _prepared(data)
        for kind, count in prepared.redacted.items():
            self.tally.redacted[kind] = self.tally.redacted.get(kind, 0) + count
        return prepared


# The version of the rules by which events recorded in a store were redacted.
_WRITTEN_BY = "arrivals/rules"


def follows_secret_rules(store: Store | Transaction) -> bool:
    """Whether this store records the current rules on secrets."""
    return store.remembered(_WRITTEN_BY) == b"%d" % SECRET_RULES


def note_secret_rules(store: Store, transaction: Transaction) -> None:
    """Record the current rules on secrets. Earlier events are then scanned once before they leave the device."""
    if not follows_secret_rules(transaction):
        transaction.remember(_WRITTEN_BY, b"%d" % SECRET_RULES)
        if store.latest_place():
            transaction.remember(UNSEEN, b"0")


def _prepared(data: EventData) -> EventData:
    changes: dict[str, object] = {}
    counts: dict[str, int] = {}
    for name in TYPE_OF[type(data)].text_fields:
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
