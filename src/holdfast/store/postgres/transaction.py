"""Begin and commit a transaction, and find out after a lost connection whether it was committed.

The connection is lost, but the server may still be at work. Taking the installation's lock shows that the transaction
is over; then either the event that was recorded last is stored, and everything with it, or nothing is.
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
from holdfast.store.journal import JournalTransaction
from holdfast.store.postgres.errors import is_cut
from holdfast.store.postgres.pipeline import INSTALLATION_LOCK, StatementPipeline
from holdfast.store.postgres.tables import PostgresTables, WriterTaken

if TYPE_CHECKING:
    from holdfast.store.postgres.store import PostgresStore

PATIENCE = 20.0  # seconds for the server to come back
_PAUSE: Final = 0.25
GRACE_MS = 2000  # for the server to finish a transaction whose connection was lost
WRITE: Final = "write to the store"
# Only a process of our own role that holds our lock: after a restart the process id may be any process's.
_TERMINATE: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE pid = %s AND locktype = 'advisory' AND objsubid = 2"
    " AND classid = %s::oid AND objid = %s::oid AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_FIND_EVENT: Final = (
    "SELECT 1 FROM events e JOIN sessions s ON s.ref = e.session"
    " WHERE s.vault = %s AND s.id = %s AND e.clock = %s AND e.hash = %s"
)


def require_committed(store: PostgresStore, last: Event | None, backend: int) -> None:
    """Return if the transaction with this event was committed; else raise with what is known about it."""
    if last is None:
        raise Unreachable(
            "the connection to the server was lost while saving; whether it was saved is not known",
            hint="Once the server is back, run it again; repeating it is safe.",
            operation=WRITE, file=store.url,
        )  # fmt: skip
    if not _is_recorded(store, last, backend):
        raise Unreachable(
            "the connection to the server was lost before saving; nothing was recorded",
            hint="Run it again.", operation=WRITE, file=store.url,
        )  # fmt: skip


def _is_recorded(store: PostgresStore, last: Event, backend: int) -> bool:
    until = monotonic() + PATIENCE
    waited = False
    while True:
        try:
            end = backend if waited else None
            return store.run_query(lambda pipeline: _find_event(store, pipeline, last, end), WRITE)  # noqa: B023
        except HoldfastError as error:
            if monotonic() > until or not error.retry_helps:
                raise Unreachable(
                    "the connection to the server was lost while saving; whether it was recorded is not known",
                    hint="Once the server is back, check first: holdfast log",
                    operation=WRITE, file=store.url,
                ) from None  # fmt: skip
        waited = True
        time.sleep(_PAUSE)


def _find_event(store: PostgresStore, pipeline: StatementPipeline, last: Event, end: int | None) -> bool:
    lock = (INSTALLATION_LOCK, store.register_installation() % 2**31)
    if end is not None:
        # That process would wait for its client, this process, for ever.
        pipeline.query(_TERMINATE, (end, *lock))
    pipeline.send("BEGIN")
    pipeline.send(f"SET LOCAL lock_timeout = {GRACE_MS}")
    pipeline.send("SELECT pg_advisory_xact_lock(%s, %s::integer)", lock)
    recorded = pipeline.value(_FIND_EVENT, (store.vault, last.session, last.clock, bytes.fromhex(last.hash)))
    pipeline.send("COMMIT")
    if recorded is not None:
        pipeline.send("SELECT pg_notify(%s, '')", (f"holdfast_{store.vault}",))
    return recorded is not None


class PostgresTransaction(JournalTransaction[PostgresTables]):
    def __init__(self, store: PostgresStore, *, patience: float | None = None, about: str | None = None) -> None:
        super().__init__(store.journal, store.tables)
        self._store = store
        self._patience = patience
        self._about = about
        self._pipeline: StatementPipeline | None = None

    def __enter__(self) -> Self:
        store = self._store
        try:
            try:
                self._pipeline = store.with_connection(self._begin(store.register_installation()))
            except WriterTaken:
                self._pipeline = store.with_connection(self._begin(store.register_installation(again=True)))
        except Exception as error:  # noqa: BLE001 (explained below)
            raise (store.explain(error, WRITE) or error) from None
        store.active = self._pipeline
        self._journal.begin()
        return self

    def _begin(self, installation: int) -> Callable[[StatementPipeline], StatementPipeline]:
        statements = "BEGIN"
        if self._patience is not None:
            statements += f"; SET LOCAL lock_timeout = {max(1, int(self._patience * 1000))}"

        def begin(pipeline: StatementPipeline) -> StatementPipeline:
            self._tables.begin_writing(pipeline, statements, installation, self._journal.writer(), self._about)
            pipeline.begin()
            return pipeline

        return begin

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pipeline, store = self._pipeline, self._store
        assert pipeline is not None
        committing = False
        if error is None:
            try:
                self._journal.flush()
                self._note_time()
                committing = True
                pipeline.commit(f"holdfast_{store.vault}")
            except BaseException as failed:  # noqa: BLE001 (raised again below)
                error = failed
        last, self._pipeline, store.active = self._tables.last, None, None
        self._tables.end_writing()
        if error is None:
            self._journal.erased = False
            store.pool.put_back(pipeline.connection)
            return
        self._journal.forget()
        self._tables.forget()
        self._abandon(pipeline)
        if not committing or not is_cut(error):
            raise (store.explain(error, WRITE) or error) from None

        require_committed(store, last, pipeline.backend)

    def _note_time(self) -> None:
        last = self._tables.last
        if last is not None and last is not self._tables.noted:
            self._tables.note_time(last.at)

    def _abandon(self, pipeline: StatementPipeline) -> None:
        with contextlib.suppress(psycopg.Error):
            pipeline.end()
        with contextlib.suppress(psycopg.Error):
            if not pipeline.connection.closed:
                pipeline.connection.execute("ROLLBACK")
        self._store.pool.put_back(pipeline.connection)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────

    def receive(self, events: Iterable[Event], *, own_only: bool = False) -> int:
        events_list = list(events)
        self._tables.lock(event.session for event in events_list)
        place = self._tables.latest_place()
        new = self._journal.receive(events_list)
        if new and own_only:
            # Checked after the insert: from then on the owners of the sessions' rows cannot change.
            self._refuse_those_of_others({event.session for event in events_list} & self._journal.being_changed())
        if new and self._tables.remembered(UNSEEN) is None:
            self._tables.remember(UNSEEN, b"%d" % place)
        return new

    def _refuse_those_of_others(self, sessions: Iterable[str]) -> None:
        others = sorted(self._tables.not_own(sessions))
        if others:
            raise Refused(
                f"session {others[0][:8]} belongs to another member on the server; its events were not added",
                hint="Ids are not secret: anyone who knows one can use it there first.",
                operation=WRITE, file=self._store.url, session=others[0],
            )  # fmt: skip

    def record_missing(self, session: str, names: Iterable[str]) -> None:
        self._tables.record_missing(session, names)

    def set_current(self, place: str, session: str | None) -> None:
        self._tables.set_current(place, session)

    def remember_evidence(self, known: KnownProject) -> None:
        self._tables.remember_evidence(known)
