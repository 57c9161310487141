"""A transaction from begin to commit: all of it happens, or nothing; and whether a commit without an answer was
done.

The line is gone, not necessarily the transaction: the server may still be at it. Whoever takes the installation's
lock knows that it is over; then the event that was recorded last is there, and everything with it, or it is not.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import psycopg

from holdfast.core.envelope import Event
from holdfast.core.errors import HoldfastError, Refused, Unreachable
from holdfast.machine.wall import monotonic
from holdfast.store.interface import UNSEEN, KnownProject
from holdfast.store.postgres.errors import is_cut
from holdfast.store.postgres.locks import INSTALLATION
from holdfast.store.postgres.pipeline import Talk
from holdfast.store.postgres.tables import WriterTaken
from holdfast.store.transaction_base import Writing

if TYPE_CHECKING:
    from holdfast.store.postgres.store import PostgresStore

PATIENCE = 20.0  # seconds for the server to come back
_PAUSE: Final = 0.25
GRACE = 2000  # milliseconds for the server to be done with what was cut off
_WRITE: Final = "write to the store"
# Of our own role, and only where it has what it had: after a restart the number may be anybody's.
_END_IT: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE pid = %s AND locktype = 'advisory' AND objsubid = 2"
    " AND classid = %s::oid AND objid = %s::oid AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_FIND: Final = (
    "SELECT 1 FROM events e JOIN sessions s ON s.ref = e.session"
    " WHERE s.vault = %s AND s.id = %s AND e.clock = %s AND e.hash = %s"
)


def confirm(store: PostgresStore, last: Event | None, backend: int) -> None:
    """Return if the transaction with this event happened; else raise, with what is known of it."""
    if last is None:
        raise Unreachable(
            "the server was cut off while it saved; what was to be kept is there, or is not",
            hint="When it is back, do it again: twice does no harm.",
            operation=_WRITE, file=store.url,
        )  # fmt: skip
    if not _is_done(store, last, backend):
        raise Unreachable(
            "the server was cut off before it saved; nothing was recorded",
            hint="Do it again.", operation=_WRITE, file=store.url,
        )  # fmt: skip


def _is_done(store: PostgresStore, last: Event, backend: int) -> bool:
    until = monotonic() + PATIENCE
    waited = False
    while True:
        try:
            return store.asked(lambda talk: _look(store, talk, last, backend if waited else None), _WRITE)  # noqa: B023
        except HoldfastError as error:
            if monotonic() > until or not error.retry_helps:
                raise Unreachable(
                    "the server was cut off while it saved; whether it did is not known",
                    hint="When it is back, look before you repeat it: holdfast log",
                    operation=_WRITE, file=store.url,
                ) from None  # fmt: skip
        waited = True
        time.sleep(_PAUSE)


def _look(store: PostgresStore, talk: Talk, last: Event, end: int | None) -> bool:
    lock = (INSTALLATION, store.settle_in() % 2**31)
    if end is not None:
        # It does not come to an end by itself: its client, that is us, will never say another word.
        talk.ask(_END_IT, (end, *lock))
    talk.tell("BEGIN")
    talk.tell(f"SET LOCAL lock_timeout = {GRACE}")
    talk.tell("SELECT pg_advisory_xact_lock(%s, %s::integer)", lock)
    recorded = talk.one(_FIND, (store.vault, last.session, last.clock, bytes.fromhex(last.hash)))
    talk.tell("COMMIT")
    if recorded is not None:
        talk.tell("SELECT pg_notify(%s, '')", (f"holdfast_{store.vault}",))
    return recorded is not None


WRITE: Final = "write to the store"


class PostgresTransaction(Writing):
    def __init__(self, store: PostgresStore, *, patience: float | None = None, about: str | None = None) -> None:
        super().__init__(store.journal, store.tables)
        self._store = store
        self._tables = store.tables
        self._patience = patience
        self._about = about
        self._talk: Talk | None = None

    def __enter__(self) -> Self:
        store = self._store
        try:
            try:
                self._talk = store.connected(self._begin(store.settle_in()))
            except WriterTaken:
                self._talk = store.connected(self._begin(store.settle_in(anew=True)))
        except Exception as error:  # noqa: BLE001 (told in a person's words)
            raise (store.spoken(error, WRITE) or error) from None
        store.active = self._talk
        self._journal.begin()
        return self

    def _begin(self, here: int) -> Callable[[Talk], Talk]:
        statements = "BEGIN"
        if self._patience is not None:
            statements += f"; SET LOCAL lock_timeout = {max(1, int(self._patience * 1000))}"

        def begin(talk: Talk) -> Talk:
            self._tables.begin_writing(talk, statements, here, self._journal.writer(), self._about)
            talk.begin()
            return talk

        return begin

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        talk, store = self._talk, self._store
        assert talk is not None
        committing = False
        if error is None:
            try:
                self._journal.flush()
                self._note_time()
                committing = True
                talk.commit(f"holdfast_{store.vault}")
            except BaseException as failed:  # noqa: BLE001 (raised again below)
                error = failed
        last, self._talk, store.active = self._tables.last, None, None
        self._tables.end_writing()
        if error is None:
            self._journal.erased = False
            store.lines.give_back(talk.line)
            return
        self._journal.forget()
        self._tables.forget()
        self._hang_up(talk)
        if not committing or not is_cut(error):
            raise (store.spoken(error, WRITE) or error) from None

        confirm(store, last, talk.backend)

    def _note_time(self) -> None:
        last = self._tables.last
        if last is not None and last is not self._tables.noted:
            self._tables.note_time(last.at)

    def _hang_up(self, talk: Talk) -> None:
        with contextlib.suppress(psycopg.Error):
            talk.end()
        with contextlib.suppress(psycopg.Error):
            if not talk.line.closed:
                talk.line.execute("ROLLBACK")
        self._store.lines.give_back(talk.line)

    # ── what is done with it ─────────────────────────────────────────────────────────────────────────────

    def receive(self, events: Iterable[Event], *, own_only: bool = False) -> int:
        taken = list(events)
        self._tables.lock(event.session for event in taken)
        place = self._tables.latest_place()
        new = self._journal.receive(taken)
        if new and own_only:
            # Asked once they are in: whose the rows are that they went into can change no more.
            self._refuse_those_of_others({event.session for event in taken} & self._journal.being_changed())
        if new and self._tables.remembered(UNSEEN) is None:
            self._tables.remember(UNSEEN, b"%d" % place)
        return new

    def _refuse_those_of_others(self, sessions: Iterable[str]) -> None:
        others = sorted(self._tables.not_own(sessions))
        if others:
            raise Refused(
                f"session {others[0][:8]} is another member's on the server: nothing is added to it",
                hint="Whoever knows the id of a session can take it there first. Ids are no secret.",
                operation=WRITE, file=self._store.url, session=others[0],
            )  # fmt: skip

    def record_missing(self, session: str, names: Iterable[str]) -> None:
        self._tables.record_missing(session, names)

    def set_current(self, place: str, session: str | None) -> None:
        self._tables.point(place, session)

    def remember_evidence(self, known: KnownProject) -> None:
        self._tables.know(known)
