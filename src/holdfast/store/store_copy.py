"""Copy everything of one store into another, of whatever kinds, and verify that it arrived."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from holdfast.core import view
from holdfast.core.canonical import digest
from holdfast.core.envelope import Event
from holdfast.core.errors import Damaged, HoldfastError, Invalid, Refused
from holdfast.core.event_data import collect_erasures
from holdfast.core.fold import fold
from holdfast.core.state import State, freeze
from holdfast.store import checks, origin
from holdfast.store.checks import flaws
from holdfast.store.interface import (
    UNSEEN,
    Arrival,
    CopyResult,
    KnownProject,
    NotCopied,
    RefusalCheck,
    RowKey,
    Store,
    Transaction,
    UnsoundEvents,
    row_key,
)

OWNER_REPAIRS: Final = "its owner repairs it: holdfast doctor --repair"
OTHERS_DAMAGE: Final = "holdfast doctor --repair sets such events aside"
ANOTHER: Final = "one of the two is your own, the other one was shared with you: the two are not merged"
_HIDDEN: Final = "a session with this id already exists there; another person owns it and does not share it with you"
_OTHERS: Final = "a session of another member with this id already exists there; nothing is added to it"
IS_OTHERS: Final = "one of the two is your own, the other one belongs to another member: the two are not merged"


def refusal(target: Store, session: str) -> str:
    """Why a store does not take in events of a session."""
    return _HIDDEN if target.may_repair(session) else _OTHERS


def partly(number: int, reason: str) -> str:
    """Why a session is not copied as a whole."""
    return f"without {number} event{'s' * (number > 1)} that another person recorded: {reason}; {OTHERS_DAMAGE}"


def left_out(reasons: Mapping[str, str], state: Callable[[str], State | None]) -> tuple[NotCopied, ...]:
    return tuple(NotCopied(session, reason, _goal(session, state)) for session, reason in reasons.items())


def _goal(session: str, state: Callable[[str], State | None]) -> str | None:
    try:
        present = state(session)
    except HoldfastError:  # damaged, or not shared any more
        return None
    return None if present is None else view.text_value(present, "goal") or None


def missing(session: str, events: Iterable[Event]) -> frozenset[str]:
    """The names of events that are missing although later ones are there."""
    return frozenset(
        checks.missing_event_name(session, flaw.writer, flaw.seq) for flaw in flaws(events) if flaw.damaged is None
    )


class _TrialRollback(Exception):
    """Raised to roll back a transaction that was only tried."""


def is_refused(store: Store, events: Iterable[Event]) -> bool:
    """Whether the store refuses these events; the attempt leaves no trace."""
    try:
        with store.transaction() as transaction:
            transaction.receive(events, own_only=True)
            raise _TrialRollback
    except _TrialRollback:
        return False
    except Refused:
        return True


# Names in the target's memory: how far the copy of a source got.
CURSORS: Final = "copy/"
PORTION: Final = 1000
# Names in memory that are true of one store alone: cursors of remotes and of copies, and the like.
# How a session came is copied with its first event; a file could say anything about sessions that are here.
_OWN: Final = ("vault/", CURSORS, UNSEEN, origin.RECORDS)
_ROUNDS: Final = 10
_DOCTOR: Final = "holdfast doctor --repair saves what can be saved of a store; then copy it again."


class Progress(NamedTuple):
    """How far a copy got: `checking` and `comparing` count sessions, `copying` counts places of the source."""

    doing: str
    done: int
    of: int


def copy(
    source: Store,
    target: Store,
    *,
    on_progress: Callable[[Progress], None] = lambda _: None,
    refuses: RefusalCheck = lambda _session, _events: None,
) -> CopyResult:
    """Copy everything that the target lacks; sessions that cannot be copied are returned with their reasons.

    A source with damage that the caller can repair is refused before anything is written. Sessions that the target
    holds already stay as they are there if they are another member's in the source, unless the target has them from
    there, or if `refuses` gives a reason.
    """
    if source.url == target.url:
        raise Invalid("a store cannot be copied into itself")
    return _Copy(source, target, on_progress, refuses).run()


class _Copy:
    def __init__(
        self, source: Store, target: Store, on_progress: Callable[[Progress], None], refuses: RefusalCheck
    ) -> None:
        self._source, self._target, self._on_progress, self._refuses = source, target, on_progress, refuses
        self._server = digest(source.url.encode(errors="surrogatepass"))[:32]
        self._members: dict[str, str | None] = {}
        self._new = 0
        # Sessions that cannot be copied, and why. Each copy tries them again: comparing copies what is missing.
        self._left_out: dict[str, str] = {}
        # In the other sessions, events of other people that are not copied.
        self._unsound: dict[str, UnsoundEvents] = {}

    def run(self) -> CopyResult:
        source, target = self._source, self._target
        self._refuse_damage()
        compared: set[str] = set()
        due: set[str] | None = None  # all
        for _ in range(_ROUNDS):
            for portion in self._copy_portions():
                if due is not None:
                    due |= {arrival.event.session for arrival in portion}
            if due is not None and not due:
                break
            sessions = [session for session in source.sessions() if due is None or session in due]
            due = set()
            missed = source.local_state().missing_events
            for number, session in enumerate(sessions, 1):
                self._compare(session, missed)
                compared.add(session)
                self._on_progress(Progress("comparing", number, len(sessions)))
        _copy_local_state(source, target, self._left_out)
        partial = {session: partly(len(unsound.rows), unsound.reason) for session, unsound in self._unsound.items()}
        reasons = partial | self._left_out
        return CopyResult(len(compared - self._left_out.keys()), self._new, left_out(reasons, source.state))

    def _refuse_damage(self) -> None:
        sessions = list(self._source.sessions())
        for number, session in enumerate(sessions, 1):
            reason = self._why_not_copied(session)
            if reason is not None:
                self._left_out[session] = reason
                continue
            difference = self._find_damage(session)
            if difference is not None and self._source.may_repair(session):
                raise Damaged(f"nothing was copied: {difference}", hint=_DOCTOR, session=session)
            if difference is not None:
                self._left_out[session] = f"{difference}; {OWNER_REPAIRS}"
            self._on_progress(Progress("checking", number, len(sessions)))

    def _why_not_copied(self, session: str) -> str | None:
        """Why a session that the target holds already stays as it is there."""
        if self._target.state(session) is None:
            return None
        if origin.differs(self._target, self._source, session):
            return ANOTHER
        try:
            return self._refuses(session, self._source.events(session))
        except Damaged:  # reported when damage is looked for
            return None

    # ── sessions of other members ────────────────────────────────────────────────────────────────────────

    def _member(self, session: str) -> str | None:
        """The server on which the session is another member's, if the source is that server or has it from there."""
        if session not in self._members:
            own = self._source.may_repair(session)
            self._members[session] = origin.member_of(self._source, session) if own else self._server
        return self._members[session]

    def _is_unrelated(self, memory: origin.StoreMemory, session: str) -> bool:
        """Whether only one of the two is another member's: then they have nothing but the id in common."""
        return self._member(session) != origin.member_of(memory, session) and self._target.may_repair(session)

    def _receive(self, transaction: Transaction, events: Iterable[Event]) -> int:
        """Receive the events that may be united. Anyone who knows the id of a session can begin one with it on a
        server, and record anything there in any name: that never reaches the target's own session.
        """
        unrelated: set[str] = set()
        begun: set[str] = set()
        receivable: list[Event] = []
        for event in events:
            session = event.session
            if session not in begun:
                member = self._member(session)
                if transaction.state(session).last is not None:
                    if self._is_unrelated(transaction, session):
                        unrelated.add(session)
                else:
                    origin.copy_record(self._source, transaction, session)
                    if member is not None:
                        origin.record_members(transaction, session, member)
            begun.add(session)
            if session not in unrelated:
                receivable.append(event)
        self._record_streams(transaction, receivable)
        return transaction.receive(receivable, own_only=True)

    def _record_streams(self, transaction: Transaction, events: Iterable[Event]) -> None:
        """Note which streams of own sessions are other people's, since a file does not tell people apart."""
        of_others: dict[str, set[str]] = {}
        for session, writer in {(event.session, event.writer) for event in events}:
            if self._member(session) is None and not origin.is_own_stream(self._source, session, writer):
                of_others.setdefault(session, set()).add(writer)
        for session, writers in of_others.items():
            known = origin.member_streams(transaction, session)
            if not writers <= known:
                origin.record_member_streams(transaction, session, known | writers)

    # ── damage ───────────────────────────────────────────────────────────────────────────────────────────

    def _find_damage(self, session: str) -> str | None:
        try:
            self._update_unsound(session)
            for flaw in flaws(self._without_unsound(self._source.events(session))):
                if flaw.damaged is not None:  # missing events are no reason: copying loses nothing
                    return f"{flaw.detail} (of writer {flaw.writer})"
        except Damaged as error:
            return error.message
        return None

    def _update_unsound(self, session: str) -> bool:
        """Whether more has to be left out than was known."""
        known, unsound = self._unsound.get(session), self._source.unsound(session)
        if unsound is None or (known is not None and unsound.rows <= known.rows):
            return False
        self._unsound[session] = unsound
        return True

    def _without_unsound(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            unsound = self._unsound.get(event.session)
            if unsound is None or row_key(event) not in unsound.rows:
                yield event

    # ── the log, in order of arrival ─────────────────────────────────────────────────────────────────────

    def _copy_portions(self) -> Iterator[list[Arrival]]:
        """Copy portion after portion until the source has no more; yields each."""
        source, target = self._source, self._target
        name = CURSORS + self._server
        place = _cursor_position(target.remembered(name))
        # On a server that has been in use for long, even the first place is a large number.
        before = min((arrival.place - 1 for arrival in source.arrived(0, 1)), default=0)
        while portion := source.arrived(place, PORTION):
            included = [
                event
                for event in self._without_unsound(arrival.event for arrival in portion)
                if event.session not in self._left_out
            ]
            try:
                with target.transaction() as transaction:
                    reached = _cursor_position(transaction.remembered(name))
                    received = 0
                    if reached <= place:  # otherwise another copy of this source has brought this portion meanwhile
                        received, reached = self._receive(transaction, included), portion[-1].place
                        transaction.remember(name, b"%d" % reached)
            except (Refused, Damaged):
                # Some sessions in the portion are refused: copy the others one by one.
                if not self._copy_session_by_session(included):
                    raise
                continue
            self._new += received
            place = reached
            self._on_progress(Progress("copying", place - before, max(place, source.latest_place()) - before))
            yield portion

    def _copy_session_by_session(self, events: list[Event]) -> bool:
        """Receive each session by itself; returns whether more had to be left out."""
        before = len(self._left_out), dict(self._unsound)
        of: dict[str, list[Event]] = {}
        for event in events:
            of.setdefault(event.session, []).append(event)
        for session, of_session in of.items():
            self._copy_events(session, of_session)
        return (len(self._left_out), self._unsound) != before

    def _copy_events(self, session: str, events: list[Event]) -> None:
        try:
            with self._target.transaction() as transaction:
                received = self._receive(transaction, events)
        except Refused:
            self._left_out[session] = refusal(self._target, session)
        except Damaged as error:
            if self._update_unsound(session):  # recorded since then
                self._copy_events(session, list(self._without_unsound(events)))
                return
            error.session = session
            self._leave_out_damaged(session, error)
        else:
            self._new += received

    def _leave_out_damaged(self, session: str, error: Damaged) -> None:
        """Leave out damage that somebody else must repair, in source or target; raise if it is the caller's own."""
        if self._source.may_repair(session) and self._target.may_repair(session):
            raise error
        self._left_out[session] = f"{error.message}; {OWNER_REPAIRS}"

    # ── comparing ────────────────────────────────────────────────────────────────────────────────────────

    def _compare(self, session: str, missed: frozenset[str]) -> None:
        """Copy what is still missing in the target, then refuse any difference.

        Events can be missing because they were removed from the target, left out by the last copy, or are of another
        source that had the same address.
        """
        if session in self._left_out:
            return
        target = self._target
        state, events = _consistent_state(self._source, session)
        events = list(self._without_unsound(events))
        unsound = target.unsound(session)
        not_counted = frozenset[RowKey]() if unsound is None else unsound.rows
        present = {event.hash for event in target.events(session) if row_key(event) not in not_counted}
        uncopied = [event for event in events if event.hash not in present]
        if uncopied and present and self._is_unrelated(target, session):
            self._left_out[session] = IS_OTHERS
            return
        if uncopied:
            self._copy_events(session, uncopied)
            if session in self._left_out:
                return
        copied, copies = _consistent_state(target, session)
        copies = [event for event in copies if row_key(event) not in not_counted]
        difference = _difference(events, copies)
        if unsound is None and difference is None and freeze(fold(copies, session)) != freeze(copied):
            difference = "its state in the copy does not match its events"
        same_log = unsound is None and session not in self._unsound and copies == events
        if difference is None and same_log and freeze(state) != freeze(copied):
            difference = "its state in the copy differs from it"
        if difference is not None:
            error = Damaged(f"the copy of a session differs: {difference}", hint=_DOCTOR, session=session)
            self._leave_out_damaged(session, error)
            return
        known = missing(session, copies) & missed
        if known and not known <= target.local_state().missing_events:
            with target.transaction() as transaction:
                transaction.record_missing(session, known)


def _cursor_position(value: bytes | None) -> int:
    """The cursor; 0 if it is unreadable, since events that are here already are simply not new."""
    return int(value) if value is not None and value.isdigit() else 0


# ── local state ──────────────────────────────────────────────────────────────────────────────────────────


def _copy_local_state(source: Store, target: Store, left_out: Collection[str]) -> None:
    """Copy projects, work trees and memory. What the target has already is newer, and stays."""
    local = source.local_state()
    with target.transaction() as transaction:
        present = target.local_state()
        for known in _new_evidence(local.projects, present.projects):
            transaction.remember_evidence(known)
        for place, session in local.places.items():
            state = transaction.state(session)
            if place not in present.places and state.last is not None and not state.deleted:
                transaction.set_current(place, session)
        for name, value in local.memory.items():
            is_of_left_out = name.rpartition("/")[2] in left_out  # what is kept of a session that was not copied
            if name not in present.memory and not name.startswith(_OWN) and not is_of_left_out:
                transaction.remember(name, value)


def _new_evidence(projects: Iterable[KnownProject], present: Iterable[KnownProject]) -> Iterator[KnownProject]:
    known = {project.id: project for project in present}
    for project in projects:
        if project.id not in known or not set(project.evidence) <= set(known[project.id].evidence):
            yield project


# ── differences ──────────────────────────────────────────────────────────────────────────────────────────


def _consistent_state(store: Store, session: str) -> tuple[State, list[Event]]:
    """The state and exactly the events that it was folded from, while others may write."""
    while True:
        before = store.state(session)
        frozen = None if before is None else freeze(before)
        events = list(store.events(session))
        after = store.state(session)
        if frozen == (None if after is None else freeze(after)):
            return after or State(session=session), events


def _difference(events: list[Event], copies: list[Event]) -> str | None:
    """How the copies differ: every event must be there with its data, in the same order, with chains that are no less
    whole. More events may be there.
    """
    copied = {event.hash: event for event in copies}
    deleted = any(event.type == "session.deleted" for event in copies)
    erased = collect_erasures(copies).hashes
    for event in events:
        copy = copied.get(event.hash)
        if copy is None:
            return f"event {event.seq} of {event.writer} is missing"
        if event.data is None or copy == event:
            continue  # of an erased event, the target may still have the data
        if copy.data is not None:
            return f"event {event.seq} of {event.writer} differs"
        if not deleted and event.hash not in erased:
            return f"event {event.seq} of {event.writer} lost its data"
    known = {event.hash for event in events}
    if [event.hash for event in copies if event.hash in known] != [event.hash for event in events]:
        return "its events are in another order"
    # What is missing in the source may be missing in the copy; with more events there, other numbers are missing.
    allowed = [] if len(copies) > len(events) else list(flaws(events))
    for flaw in flaws(copies):
        if flaw not in allowed and (flaw.damaged is not None or len(copies) == len(events)):
            return flaw.detail
    return None
