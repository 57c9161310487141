"""Copy everything of one store into another, of whatever kinds they are, and verify that it is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core import view
from holdfast.core.canonical import digest
from holdfast.core.envelope import Event, find_problem
from holdfast.core.errors import Damaged, HoldfastError, Invalid, Refused
from holdfast.core.event_data import collect_erasures
from holdfast.core.fold import fold
from holdfast.core.state import State, freeze
from holdfast.store import derived_checks, origin
from holdfast.store.chain_checks import flaws
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

if TYPE_CHECKING:
    from holdfast.store.sqlite.backup import Backup

OWNER_REPAIRS: Final = "its owner repairs it: holdfast doctor --repair"
OTHERS_DAMAGE: Final = "holdfast doctor --repair sets such events aside"
ANOTHER: Final = "one of the two is your own, the other one came through somebody's share: they are not united"
_HIDDEN: Final = "it is there already, from somebody who does not share it with you"
_OTHERS: Final = "it is there already, and another member's: nothing is added to it, also where they let you write"
IS_OTHERS: Final = "one of the two is your own, the other one is another member's: they are not united"


def refusal(target: Store, session: str) -> str:
    """Why a store does not take in events of a session."""
    return _HIDDEN if target.may_repair(session) else _OTHERS


def partly(number: int, reason: str) -> str:
    """Why a session is not carried over whole."""
    return f"without {number} event{'s' * (number > 1)} that somebody else put there: {reason}; {OTHERS_DAMAGE}"


def left_out(why: Mapping[str, str], state: Callable[[str], State | None]) -> tuple[NotCopied, ...]:
    return tuple(NotCopied(session, reason, _goal(session, state)) for session, reason in why.items())


def _goal(session: str, state: Callable[[str], State | None]) -> str | None:
    try:
        present = state(session)
    except HoldfastError:  # damaged, or unshared since: the reason is told without it
        return None
    return None if present is None else view.text_value(present, "goal") or None


def missing(session: str, events: Iterable[Event]) -> frozenset[str]:
    """The names of what is not there, though what follows it is."""
    return frozenset(
        derived_checks.aside(session, flaw.writer, flaw.seq) for flaw in flaws(events) if flaw.damaged is None
    )


class _Undone(Exception):
    """Ends a transaction that only tried."""


def is_refused(store: Store, events: Iterable[Event]) -> bool:
    """Whether the store does not take in these; nothing of the attempt stays."""
    try:
        with store.transaction() as transaction:
            transaction.receive(events, own_only=True)
            raise _Undone
    except _Undone:
        return False
    except Refused:
        return True


def unite(store: Store, path: str, refuses: RefusalCheck = lambda _session, _events: None) -> CopyResult:
    """Read every event of the backup, check it, and add what is missing: all of it, or nothing.

    Only sessions that are not ours to write in this store, and those that `refuses` gives a reason for, are left out,
    and named.
    """
    from holdfast.store.sqlite import backup as sqlite_backup

    path = os.path.abspath(path)
    with sqlite_backup.reading(path) as backup:
        sessions = backup.sessions()
        for session in sessions:
            _refuse_damage(backup.events(session), session, path)
        left: dict[str, str] = {}
        for session in sessions:
            if store.state(session) is None:
                continue
            if origin.member_of(store, session) != origin.member_of(backup, session) and store.may_repair(session):
                left[session] = IS_OTHERS
                continue
            reason = ANOTHER if origin.differs(store, backup, session) else refuses(session, backup.events(session))
            if reason is not None:
                left[session] = reason
        while True:
            wanted = [session for session in sessions if session not in left]
            try:
                new = _take(store, backup, wanted)
            except Refused:
                refused = [session for session in wanted if is_refused(store, backup.events(session))]
                if not refused:
                    raise
                left |= {session: refusal(store, session) for session in refused}
            else:
                return CopyResult(
                    len(wanted), new, left_out(left, lambda session: fold(backup.events(session), session))
                )


def _take(store: Store, backup: Backup, sessions: list[str]) -> int:
    """Says how many events were new."""
    new = 0
    missed = backup.missing_events()
    with store.transaction() as transaction:
        for session in sessions:
            if transaction.state(session).last is None:
                share = origin.share_of(backup, session)
                if share is None:
                    origin.record_own(transaction, session)
                else:
                    origin.record_share(transaction, session, share)
                origin.record_guests(transaction, session, origin.guests(backup, session))
                member = origin.member_of(backup, session)
                if member is not None:
                    origin.record_members(transaction, session, member)
                streams = origin.member_streams(backup, session)
                if streams:
                    origin.record_member_streams(transaction, session, streams)
            new += transaction.receive(backup.events(session), own_only=True)
            state = transaction.state(session)
            if state.project is not None and not state.deleted:
                transaction.remember_project(state.project)
            if any(session in name for name in missed):
                transaction.record_missing(session, missed & missing(session, store.events(session)))
    return new


def _refuse_damage(events: Iterable[Event], session: str, path: str) -> None:
    for event in events:
        wrong = find_problem(event)
        if wrong is not None:
            raise Damaged(
                f"event {event.seq} of the backup is damaged: {wrong}",
                hint=f"Save what can be saved: holdfast --store sqlite:///{path} doctor --repair. Then restore it.",
                file=path,
                session=session,
            )


# In the target's memory: how far the copy of a source came.
CURSORS: Final = "copy/"
PORTION: Final = 1000
# What is true of one store alone: how far remotes were asked, how far copies came, what nobody looked through yet.
_OWN: Final = ("vault/", CURSORS, UNSEEN, origin.MEMBERS)
_ROUNDS: Final = 10
_DOCTOR: Final = "holdfast doctor --repair saves what can be saved of a store; then copy it again."


class Progress(NamedTuple):
    """How far a copy is: `checking` and `comparing` count sessions, `copying` counts places of the source, from its
    first on.
    """

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
    """Copy everything that the target lacks, but for sessions of others that cannot be; those are named.

    A source with damage that is ours to repair is refused before anything is written. Of sessions that the target
    holds too, those are left as they are that are another member's in the source, unless it has them from there; and
    those that `refuses` gives a reason for.
    """
    if source.url == target.url:
        raise Invalid("a store cannot be copied into itself")
    return _Copy(source, target, on_progress, refuses).done()


class _Copy:
    def __init__(
        self, source: Store, target: Store, on_progress: Callable[[Progress], None], refuses: RefusalCheck
    ) -> None:
        self._source, self._target, self._on_progress, self._refuses = source, target, on_progress, refuses
        self._server = digest(source.url.encode(errors="surrogatepass"))[:32]
        self._members: dict[str, str | None] = {}
        self._new = 0
        # Sessions that cannot be carried, and why. Each copy tries them again: comparing brings what is lacking.
        self._left_out: dict[str, str] = {}
        # Of the others: events that others put there and that are not carried.
        self._unsound: dict[str, UnsoundEvents] = {}

    def done(self) -> CopyResult:
        source, target = self._source, self._target
        self._refuse_damage()
        compared: set[str] = set()
        due: set[str] | None = None  # all
        for _ in range(_ROUNDS):
            for portion in self._carried():
                if due is not None:
                    due |= {arrival.event.session for arrival in portion}
            if due is not None and not due:
                break
            asked = [session for session in source.sessions() if due is None or session in due]
            due = set()
            missed = source.local_state().missing_events
            for number, session in enumerate(asked, 1):
                self._compare(session, missed)
                compared.add(session)
                self._on_progress(Progress("comparing", number, len(asked)))
        _copy_local_state(source, target, self._left_out)
        why = {
            session: partly(len(events_left_out.rows), events_left_out.reason)
            for session, events_left_out in self._unsound.items()
        } | self._left_out
        return CopyResult(len(compared - self._left_out.keys()), self._new, left_out(why, source.state))

    def _refuse_damage(self) -> None:
        sessions = list(self._source.sessions())
        for number, session in enumerate(sessions, 1):
            objection = self._objection(session)
            if objection is not None:
                self._left_out[session] = objection
                continue
            wrong = self._damage(session)
            if wrong is not None and self._source.may_repair(session):
                raise Damaged(f"nothing was copied: {wrong}", hint=_DOCTOR, session=session)
            if wrong is not None:
                self._left_out[session] = f"{wrong}; {OWNER_REPAIRS}"
            self._on_progress(Progress("checking", number, len(sessions)))

    def _objection(self, session: str) -> str | None:
        """Why a session that the target holds under this id is left as it is there."""
        if self._target.state(session) is None:
            return None
        if origin.differs(self._target, self._source, session):
            return ANOTHER
        try:
            return self._refuses(session, self._source.events(session))
        except Damaged:  # said when its damage is looked for
            return None

    # ── what is another member's in the source ───────────────────────────────────────────────────────────

    def _member(self, session: str) -> str | None:
        """The server on which it is another member's, if the source is that, or has it from there."""
        if session not in self._members:
            own = self._source.may_repair(session)
            self._members[session] = origin.member_of(self._source, session) if own else self._server
        return self._members[session]

    def _is_apart(self, memory: origin.StoreMemory, session: str) -> bool:
        """Whether one of the two is another member's and not the other one, which has the id alone in common."""
        return self._member(session) != origin.member_of(memory, session) and self._target.may_repair(session)

    def _receive(self, transaction: Transaction, events: Iterable[Event]) -> int:
        """Take in what may be united. Whoever knows the id of a session can begin one under it on a server, and say
        there what they like in anybody's name: what the target has by itself is kept apart from that.
        """
        apart: set[str] = set()
        asked: set[str] = set()
        wanted: list[Event] = []
        for event in events:
            session = event.session
            if session not in asked:
                member = self._member(session)
                if transaction.state(session).last is not None:
                    if self._is_apart(transaction, session):
                        apart.add(session)
                elif member is not None:
                    origin.record_members(transaction, session, member)
            asked.add(session)
            if session not in apart:
                wanted.append(event)
        self._record_streams(transaction, wanted)
        return transaction.receive(wanted, own_only=True)

    def _record_streams(self, transaction: Transaction, events: Iterable[Event]) -> None:
        """A file keeps no persons apart: note whose streams of an own session are others'."""
        of_others: dict[str, set[str]] = {}
        for session, writer in {(event.session, event.writer) for event in events}:
            if self._member(session) is None and not origin.is_own_stream(self._source, session, writer):
                of_others.setdefault(session, set()).add(writer)
        for session, writers in of_others.items():
            known = origin.member_streams(transaction, session)
            if not writers <= known:
                origin.record_member_streams(transaction, session, known | writers)

    # ── damage ───────────────────────────────────────────────────────────────────────────────────────────

    def _damage(self, session: str) -> str | None:
        try:
            self._look_for_unsound(session)
            for flaw in flaws(self._sound(self._source.events(session))):
                if (
                    flaw.damaged is not None
                ):  # what is missing in the source cannot be copied, but nor is it lost by it
                    return f"{flaw.detail} (of writer {flaw.writer})"
        except Damaged as error:
            return error.message
        return None

    def _look_for_unsound(self, session: str) -> bool:
        """Says whether more has to be left out than was known."""
        known, unsound = self._unsound.get(session), self._source.unsound(session)
        if unsound is None or (known is not None and unsound.rows <= known.rows):
            return False
        self._unsound[session] = unsound
        return True

    def _sound(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            unsound = self._unsound.get(event.session)
            if unsound is None or row_key(event) not in unsound.rows:
                yield event

    # ── the log, in order of arrival ─────────────────────────────────────────────────────────────────────

    def _carried(self) -> Iterator[list[Arrival]]:
        """Every portion that came over, until the source has no more."""
        source, target = self._source, self._target
        name = CURSORS + self._server
        place = _place(target.remembered(name))
        # Of a server that has been used for long, places are large numbers from the first on.
        before = min((arrival.place - 1 for arrival in source.arrived(0, 1)), default=0)
        while portion := source.arrived(place, PORTION):
            wanted = [
                event
                for event in self._sound(arrival.event for arrival in portion)
                if event.session not in self._left_out
            ]
            try:
                with target.transaction() as transaction:
                    reached = _place(transaction.remembered(name))
                    taken = 0
                    if reached <= place:  # else another copy of this source is at work, and this portion is here
                        taken, reached = self._receive(transaction, wanted), portion[-1].place
                        transaction.remember(name, b"%d" % reached)
            except (Refused, Damaged):
                # Of one or several of its sessions. What is taken in of the others meanwhile is no loss.
                if not self._take_one_by_one(wanted):
                    raise
                continue
            self._new += taken
            place = reached
            self._on_progress(Progress("copying", place - before, max(place, source.latest_place()) - before))
            yield portion

    def _take_one_by_one(self, events: list[Event]) -> bool:
        """Each session by itself; says whether more had to be left out."""
        before = len(self._left_out), dict(self._unsound)
        of: dict[str, list[Event]] = {}
        for event in events:
            of.setdefault(event.session, []).append(event)
        for session, some in of.items():
            self._take(session, some)
        return (len(self._left_out), self._unsound) != before

    def _take(self, session: str, events: list[Event]) -> None:
        try:
            with self._target.transaction() as transaction:
                taken = self._receive(transaction, events)
        except Refused:
            self._left_out[session] = refusal(self._target, session)
        except Damaged as error:
            if self._look_for_unsound(session):  # it came in since
                self._take(session, list(self._sound(events)))
                return
            error.session = session
            self._leave_damaged(session, error)
        else:
            self._new += taken

    def _leave_damaged(self, session: str, error: Damaged) -> None:
        """What somebody else must repair, here or there, stops nobody; our own damage does."""
        if self._source.may_repair(session) and self._target.may_repair(session):
            raise error
        self._left_out[session] = f"{error.message}; {OWNER_REPAIRS}"

    # ── the proof ────────────────────────────────────────────────────────────────────────────────────────

    def _compare(self, session: str, missed: frozenset[str]) -> None:
        """Refuse any difference between the two, once what was still lacking is there.

        Something can be: taken out of the target since it was copied, left out by the last copy, or of another source
        that had the same address.
        """
        if session in self._left_out:
            return
        target = self._target
        state, events = _at_one_moment(self._source, session)
        events = list(self._sound(events))
        unsound = target.unsound(session)
        not_counted = frozenset[RowKey]() if unsound is None else unsound.rows
        there = {event.hash for event in target.events(session) if row_key(event) not in not_counted}
        lacking = [event for event in events if event.hash not in there]
        if lacking and there and self._is_apart(target, session):
            self._left_out[session] = IS_OTHERS
            return
        if lacking:
            self._take(session, lacking)
            if session in self._left_out:
                return
        copied, copies = _at_one_moment(target, session)
        copies = [event for event in copies if row_key(event) not in not_counted]
        wrong = _difference(events, copies)
        if unsound is None and wrong is None and freeze(fold(copies, session)) != freeze(copied):
            wrong = "its state in the copy is not what its events add up to"
        same_log = unsound is None and session not in self._unsound and copies == events
        if wrong is None and same_log and freeze(state) != freeze(copied):
            wrong = "its state in the copy is another"
        if wrong is not None:
            error = Damaged(f"the copy of a session differs: {wrong}", hint=_DOCTOR, session=session)
            self._leave_damaged(session, error)
            return
        known = missing(session, copies) & missed
        if known and not known <= target.local_state().missing_events:
            with target.transaction() as transaction:
                transaction.record_missing(session, known)


def _place(kept: bytes | None) -> int:
    """Should the note be unreadable, or another source have stood at its address: what is here is not new."""
    return int(kept) if kept is not None and kept.isdigit() else 0


# ── what stands beside it ────────────────────────────────────────────────────────────────────────────────


def _copy_local_state(source: Store, target: Store, left: Collection[str]) -> None:
    """Projects, work trees and what is kept under names. What the target says already is newer, and stays."""
    local = source.local_state()
    with target.transaction() as transaction:
        present = target.local_state()
        for known in _unknown(local.projects, present.projects):
            transaction.remember_evidence(known)
        for place, session in local.places.items():
            state = transaction.state(session)
            if place not in present.places and state.last is not None and not state.deleted:
                transaction.set_current(place, session)
        for name, value in local.memory.items():
            of_left = name.rpartition("/")[2] in left  # how it came is true of the one that was left out
            if name not in present.memory and not name.startswith(_OWN) and not of_left:
                transaction.remember(name, value)


def _unknown(projects: Iterable[KnownProject], there: Iterable[KnownProject]) -> Iterator[KnownProject]:
    known = {project.id: project for project in there}
    for project in projects:
        if project.id not in known or not set(project.evidence) <= set(known[project.id].evidence):
            yield project


# ── what is the same ─────────────────────────────────────────────────────────────────────────────────────


def _at_one_moment(store: Store, session: str) -> tuple[State, list[Event]]:
    """The state and the events that it is of, though others write."""
    while True:
        before = store.state(session)
        frozen = None if before is None else freeze(before)
        events = list(store.events(session))
        after = store.state(session)
        if frozen == (None if after is None else freeze(after)):
            return after or State(session=session), events


def _difference(events: list[Event], copies: list[Event]) -> str | None:
    """Every event with its data, in the same order, in chains that hold as they held; more may be there."""
    copied = {event.hash: event for event in copies}
    deleted = any(event.type == "session.deleted" for event in copies)
    erased = collect_erasures(copies).hashes
    for event in events:
        copy = copied.get(event.hash)
        if copy is None:
            return f"event {event.seq} of {event.writer} is missing"
        if event.data is None or copy == event:
            continue  # of what was erased, the target may know more
        if copy.data is not None:
            return f"event {event.seq} of {event.writer} is another"
        if not deleted and event.hash not in erased:
            return f"event {event.seq} of {event.writer} is there without its data"
    known = {event.hash for event in events}
    if [event.hash for event in copies if event.hash in known] != [event.hash for event in events]:
        return "its events are in another order"
    # What is missing in the source is missing in the copy; where more is there, other numbers are.
    allowed = [] if len(copies) > len(events) else list(flaws(events))
    for flaw in flaws(copies):
        if flaw not in allowed and (flaw.damaged is not None or len(copies) == len(events)):
            return flaw.detail
    return None
