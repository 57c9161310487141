"""Everything of one store into another, of whatever kinds they are; and then the proof that it is there.

Events go in portions, in the order in which the source got to know them. Each portion is one transaction of the
target, and how far it came stands in the target's memory with it: a copy that was cut off goes on from there. Nothing
is taken away: what the target holds already, of these sessions or of others, is united with what comes.

On a server some sessions are other people's: one that the target does not let us write, or that is damaged and for
its owner to repair, is left out and named, and everything else is carried. What others put into a session of ours and
no copy may take over (`Store.unsound`) is left out of it, and the session is named.

The source may go on being used. What comes in meanwhile is copied too; only where it never rests, its very last
events are left for the next copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, NamedTuple

from holdfast.core.canonical import digest
from holdfast.core.errors import Damaged, Invalid, Refused
from holdfast.core.event import Event
from holdfast.core.fold import fold
from holdfast.core.reading import erasures
from holdfast.core.state import State, freeze
from holdfast.store import origin
from holdfast.store.interface import UNSEEN, Arrival, Copied, Known, RowKey, Store, Unsound, row_key
from holdfast.store.leaving import ANOTHER, OWNER_REPAIRS, left_out, missing, partly, refusal
from holdfast.store.verify import flaws

# In the target's memory: how far the copy of a source came.
CURSORS: Final = "copy/"
PORTION: Final = 1000
# What is true of one store alone: how far remotes were asked, how far copies came, what nobody looked through yet.
_OWN: Final = ("vault/", CURSORS, UNSEEN)
_ROUNDS: Final = 10
_DOCTOR: Final = "holdfast doctor --repair saves what can be saved of a store; then copy it again."


class Progress(NamedTuple):
    """How far a copy is: `checking` and `comparing` count sessions, `copying` counts places of the source, from its
    first on.
    """

    doing: str
    done: int
    of: int


def copy(source: Store, target: Store, *, told: Callable[[Progress], None] = lambda _: None) -> Copied:
    """Copy everything that the target lacks, but for sessions of others that cannot be; those are named.

    A source with damage that is ours to repair is refused before anything is written.
    """
    if source.url == target.url:
        raise Invalid("a store cannot be copied into itself")
    return _Copy(source, target, told).done()


class _Copy:
    def __init__(self, source: Store, target: Store, told: Callable[[Progress], None]) -> None:
        self._source, self._target, self._told = source, target, told
        self._new = 0
        # Sessions that cannot be carried, and why. Each copy tries them again: comparing brings what is lacking.
        self._left: dict[str, str] = {}
        # Of the others: events that others put there and that are not carried.
        self._unsound: dict[str, Unsound] = {}

    def done(self) -> Copied:
        source, target = self._source, self._target
        self._refuse_damage()
        compared: set[str] = set()
        due: set[str] | None = None  # all
        for _ in range(_ROUNDS):
            for portion in self._carried():
                if due is not None:
                    due |= {one.event.session for one in portion}
            if due is not None and not due:
                break
            asked = [one for one in source.sessions() if due is None or one in due]
            due = set()
            missed = source.beside().missed
            for number, session in enumerate(asked, 1):
                self._compare(session, missed)
                compared.add(session)
                self._told(Progress("comparing", number, len(asked)))
        _carry_beside(source, target, self._left)
        why = {
            session: partly(len(found.rows), found.reason) for session, found in self._unsound.items()
        } | self._left
        return Copied(len(compared - self._left.keys()), self._new, left_out(why, source.state))

    def _refuse_damage(self) -> None:
        sessions = list(self._source.sessions())
        for number, session in enumerate(sessions, 1):
            if self._target.state(session) is not None and origin.differs(self._target, self._source, session):
                self._left[session] = ANOTHER
                continue
            wrong = self._damage(session)
            if wrong is not None and self._source.may_repair(session):
                raise Damaged(f"nothing was copied: {wrong}", hint=_DOCTOR, session=session)
            if wrong is not None:
                self._left[session] = f"{wrong}; {OWNER_REPAIRS}"
            self._told(Progress("checking", number, len(sessions)))

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
        before, found = self._unsound.get(session), self._source.unsound(session)
        if found is None or (before is not None and found.rows <= before.rows):
            return False
        self._unsound[session] = found
        return True

    def _sound(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            found = self._unsound.get(event.session)
            if found is None or row_key(event) not in found.rows:
                yield event

    # ── the log, in order of arrival ─────────────────────────────────────────────────────────────────────

    def _carried(self) -> Iterator[list[Arrival]]:
        """Every portion that came over, until the source has no more."""
        source, target = self._source, self._target
        name = CURSORS + digest(source.url.encode(errors="surrogatepass"))[:32]
        place = _place(target.remembered(name))
        # Of a server that has been used for long, places are large numbers from the first on.
        before = min((one.place - 1 for one in source.arrived(0, 1)), default=0)
        while portion := source.arrived(place, PORTION):
            wanted = [event for event in self._sound(one.event for one in portion) if event.session not in self._left]
            try:
                with target.transaction() as transaction:
                    reached = _place(transaction.remembered(name))
                    taken = 0
                    if reached <= place:  # else another copy of this source is at work, and this portion is here
                        taken, reached = transaction.receive(wanted), portion[-1].place
                        transaction.remember(name, b"%d" % reached)
            except (Refused, Damaged):
                # Of one or several of its sessions. What is taken in of the others meanwhile is no loss.
                if not self._take_one_by_one(wanted):
                    raise
                continue
            self._new += taken
            place = reached
            self._told(Progress("copying", place - before, max(place, source.latest_place()) - before))
            yield portion

    def _take_one_by_one(self, events: list[Event]) -> bool:
        """Each session by itself; says whether more had to be left out."""
        before = len(self._left), dict(self._unsound)
        of: dict[str, list[Event]] = {}
        for event in events:
            of.setdefault(event.session, []).append(event)
        for session, some in of.items():
            self._take(session, some)
        return (len(self._left), self._unsound) != before

    def _take(self, session: str, events: list[Event]) -> None:
        try:
            with self._target.transaction() as transaction:
                taken = transaction.receive(events)
        except Refused:
            self._left[session] = refusal(self._target, session)
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
        self._left[session] = f"{error.message}; {OWNER_REPAIRS}"

    # ── the proof ────────────────────────────────────────────────────────────────────────────────────────

    def _compare(self, session: str, missed: frozenset[str]) -> None:
        """Refuse any difference between the two, once what was still lacking is there.

        Something can be: taken out of the target since it was copied, left out by the last copy, or of another source
        that had the same address.
        """
        if session in self._left:
            return
        target = self._target
        state, events = _at_one_moment(self._source, session)
        events = list(self._sound(events))
        unsound = target.unsound(session)
        not_counted = frozenset[RowKey]() if unsound is None else unsound.rows
        there = {event.hash for event in target.events(session) if row_key(event) not in not_counted}
        lacking = [event for event in events if event.hash not in there]
        if lacking:
            self._take(session, lacking)
            if session in self._left:
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
        if known and not known <= target.beside().missed:
            with target.transaction() as transaction:
                transaction.miss(session, known)


def _place(kept: bytes | None) -> int:
    """Should the note be unreadable, or another source have stood at its address: what is here is not new."""
    return int(kept) if kept is not None and kept.isdigit() else 0


# ── what stands beside it ────────────────────────────────────────────────────────────────────────────────


def _carry_beside(source: Store, target: Store, left: Collection[str]) -> None:
    """Projects, work trees and what is kept under names. What the target says already is newer, and stays."""
    found = source.beside()
    with target.transaction() as transaction:
        there = target.beside()
        for known in _unknown(found.projects, there.projects):
            transaction.know_evidence(known)
        for place, session in found.places.items():
            state = transaction.state(session)
            if place not in there.places and state.last is not None and not state.deleted:
                transaction.set_current(place, session)
        for name, value in found.memory.items():
            of_left = name.rpartition("/")[2] in left  # how it came is true of the one that was left out
            if name not in there.memory and not name.startswith(_OWN) and not of_left:
                transaction.remember(name, value)


def _unknown(projects: Iterable[Known], there: Iterable[Known]) -> Iterator[Known]:
    known = {one.id: one for one in there}
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
    erased = erasures(copies).hashes
    for event in events:
        there = copied.get(event.hash)
        if there is None:
            return f"event {event.seq} of {event.writer} is missing"
        if event.data is None or there == event:
            continue  # of what was erased, the target may know more
        if there.data is not None:
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
