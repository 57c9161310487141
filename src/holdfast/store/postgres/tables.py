"""The journal's tables in SQL, for one vault. Every method runs inside a transaction that the store has opened.

The server enforces rights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from holdfast.core.envelope import Event
from holdfast.core.state import FOLD_VERSION
from holdfast.store.interface import RowKey
from holdfast.store.postgres.event_rows import (
    COLUMNS,
    ORDER,
    EventBatch,
    erasable_rows,
    erasures,
    event_of,
    obeyed_erasures,
    row_of,
    send_events,
    send_words,
    unentitled_erasures,
)
from holdfast.store.postgres.installation import InstallationTables
from holdfast.store.postgres.pipeline import SESSION_LOCK, StatementPipeline, encode_text, lock_number
from holdfast.store.tables import NUMBER_INDEXED, WRITTEN_COLUMNS, SessionSummary, StoredState

# An event, its session's row, its words and this installation's time in one statement (rights.sql).
_APPEND: Final = f"SELECT holdfast.append({', '.join(['%s'] * (16 + len(WRITTEN_COLUMNS)))}, %s::text[], %s)"
_SAVE: Final = (
    f"UPDATE sessions SET version = %s, {', '.join(f'{name} = %s' for name in WRITTEN_COLUMNS)},"  # noqa: S608
    " latest = currval('holdfast.places'), anew = CASE WHEN %s THEN abs(%s) ELSE anew END WHERE ref = %s"
)
# The second statement sees what was recorded while the first one waited for its locks.
_BEGIN: Final = "SELECT * FROM holdfast.begin_writing(%s, %s, %s, %s); SELECT holdfast.writes_as(%s, %s)"
# Only one's own snapshots and those of the session's owner are trusted; other writers could store anything there.
TRUSTED: Final = "person IN (CURRENT_USER, (SELECT s.owner FROM sessions s WHERE s.ref = snapshots.session))"


class WriterTaken(Exception):
    """Another person recorded events under this home's writer id meanwhile."""


class PostgresTables(InstallationTables):
    """Uses `pipeline`, which the store sets while it has a connection."""

    def __init__(self, vault: int, installation: Callable[[], int | None]) -> None:
        super().__init__(vault, installation)
        self._sessions: dict[str, int] = {}
        # The version at which each session was last folded from all its events; later versions only added to it.
        self._rebuilt: dict[str, int] = {}
        # Within a transaction that writes, the locks that it holds.
        self.writing = False
        self._locked: set[int] = set()
        # The event that was recorded last: if it is stored, so is everything in its transaction.
        self.last: Event | None = None
        self._batch = EventBatch()
        # Whether keys are recorded, for this transaction: under the session's lock, no other process adds one.
        self._keys: dict[tuple[str, str], bool] = {}
        # The event whose time was stored for this installation.
        self.noted: Event | None = None
        # The version of the session that the transaction is about, when it began.
        self._initial_versions: dict[str, int] = {}

    def begin_writing(
        self, pipeline: StatementPipeline, begin: str, installation: int, writer: str, about: str | None
    ) -> None:
        """Begin a transaction and take the locks to write, that of the session `about` included."""
        lock = None if about is None else lock_number(about)
        *row, is_ours = pipeline.run_batch(
            f"{begin}; {_BEGIN}", (installation, self.vault, about, lock, self.vault, writer)
        )
        if not is_ours:
            raise WriterTaken
        self.pipeline = pipeline
        self.writing = True
        _, ref, version, rebuilt = row
        self._locked = set() if lock is None else {lock}
        self._initial_versions.clear()
        if about is not None:
            self._initial_versions[about] = version or 0
            if ref is not None:
                self._sessions[about], self._rebuilt[about] = ref, rebuilt
        self.last = self.noted = None

    def end_writing(self) -> None:
        self.writing = False
        self._initial_versions.clear()
        self._keys.clear()
        self._batch.clear()

    def forget(self) -> None:
        """After a rollback the numbers of new sessions are free again."""
        self._sessions.clear()

    # ── locks and numbers ────────────────────────────────────────────────────────────────────────────────

    def lock(self, sessions: Iterable[str]) -> None:
        """Lock these sessions for writing until the transaction ends, always in the same order."""
        if not self.writing:
            return
        for number in sorted({lock_number(session) for session in sessions} - self._locked):
            self.pipeline.send("SELECT pg_advisory_xact_lock(%s, %s)", (SESSION_LOCK, number))
            self._locked.add(number)

    def ref(self, session: str) -> int | None:
        known = self._sessions.get(session)
        if known is None:
            known = self.pipeline.value(
                "SELECT ref FROM sessions WHERE vault = %s AND id = %s", (self.vault, session)
            )
            if known is not None:
                self._sessions[session] = known
        return known

    def _ref_for_writing(self, session: str) -> int:
        known = self.ref(session)
        if known is None:
            sql = "INSERT INTO sessions (vault, id) VALUES (%s, %s) RETURNING ref"
            known = self._sessions[session] = int(self.pipeline.value(sql, (self.vault, session)))
        return known

    def not_own(self, sessions: Iterable[str]) -> set[str]:
        """Those of these sessions that do not belong to the caller."""
        candidates = set(sessions)
        sql = "SELECT id FROM sessions WHERE vault = %s AND id = ANY(%s::text[]) AND owner = CURRENT_USER"
        return candidates - {str(id_) for (id_,) in self.pipeline.query(sql, (self.vault, sorted(candidates)))}

    # ── the log ──────────────────────────────────────────────────────────────────────────────────────────

    def version(self, session: str) -> int:
        if session in self._initial_versions:
            return self._initial_versions.pop(session)
        number = lock_number(session)
        if self.writing and number not in self._locked:
            self._locked.add(number)
            sql = "SELECT * FROM holdfast.begin_session(%s, %s, %s)"
            rows = self.pipeline.query(sql, (self.vault, session, number))
        else:
            sql = "SELECT ref, version, anew FROM sessions WHERE vault = %s AND id = %s"
            rows = self.pipeline.query(sql, (self.vault, session))
        for ref, version, rebuilt in rows:
            self._sessions[session], self._rebuilt[session] = ref, rebuilt
            return int(version)
        return 0

    def note_time(self, at: int) -> None:
        """Store when this installation last recorded something."""
        self.pipeline.send("UPDATE installations SET at = %s WHERE ref = %s", (at, self._installation()))

    def has_key(self, session: str, key: str) -> bool:
        if (session, key) not in self._keys:
            recorded = self._recorded_keys(session, (key,))
            if not self.writing:
                return bool(recorded)
            self._keys[session, key] = bool(recorded)
        return self._keys[session, key]

    def expect(self, session: str, keys: Iterable[str]) -> None:
        unknown = sorted({key for key in keys if (session, key) not in self._keys})
        if self.writing and unknown:
            recorded = self._recorded_keys(session, unknown)
            self._keys.update({(session, key): key in recorded for key in unknown})

    def _recorded_keys(self, session: str, keys: Sequence[str]) -> set[str]:
        self.lock((session,))
        ref = self.ref(session)
        if ref is None or not keys:
            return set()
        sql = "SELECT key FROM events WHERE session = %s AND key = ANY(%s::text[])"
        return {key for (key,) in self.pipeline.query(sql, (ref, [encode_text(key) for key in keys]))}

    def recorded_by(self, session: str, key: str) -> set[str]:
        self.lock((session,))
        sql = (
            "SELECT e.writer FROM events e JOIN sessions s ON s.ref = e.session"
            " WHERE e.session = %s AND e.key = %s AND e.put_by IN (CURRENT_USER, s.owner)"
        )
        return {str(writer) for (writer,) in self.pipeline.query(sql, (self.ref(session), key))}

    def has_any_key(self, session: str, keys: Sequence[str]) -> bool:
        return bool(self._recorded_keys(session, keys))

    def missing(self, session: str, events: Sequence[Event]) -> list[Event]:
        self.lock((session,))
        ref = self.ref(session)
        if ref is None:
            return list(events)
        clocks, hashes = [event.clock for event in events], [bytes.fromhex(event.hash) for event in events]
        rows = self.pipeline.query(
            "SELECT hash FROM events WHERE session = %s AND clock = ANY(%s::bigint[]) AND hash = ANY(%s::bytea[])",
            (ref, clocks, hashes),
        )
        stored_hashes = {bytes(stored) for (stored,) in rows}
        return [event for event, own in zip(events, hashes, strict=True) if own not in stored_hashes]

    def insert(self, events: Sequence[Event]) -> None:
        if not events:
            return
        session = events[0].session
        self.lock((session,))
        ref = self._ref_for_writing(session)
        self.last = events[-1]
        self._keys.update({(session, event.key): True for event in events if event.key is not None})
        if len(events) > 1:
            send_events(self.pipeline, ref, events)
            return
        if not self._batch.accepts(session):
            self.pipeline.flush()
        self._batch.events += events
        self.pipeline.deferred = lambda: self._batch.send(self.pipeline, ref)

    def tail(self, session: str, clock: int) -> Iterator[tuple[Event, bool]]:
        ref = self.ref(session)
        if ref is None:
            return
        rows = self.pipeline.query(
            f"SELECT {COLUMNS}, e.double FROM events e WHERE e.session = %s AND e.clock >= %s {ORDER}",  # noqa: S608
            (ref, clock),
        )
        for *row, double in rows:
            yield event_of(session, row), bool(double)

    def stream(self, session: str, writer: str, first: int, last: int) -> list[Event]:
        self.lock((session,))
        rows = self.pipeline.query(
            f"SELECT {COLUMNS} FROM events e WHERE e.session = %s AND e.writer = %s AND e.seq BETWEEN %s AND %s"  # noqa: S608
            " ORDER BY e.seq, e.clock, e.hash",
            (self.ref(session), writer, first, last),
        )
        return [event_of(session, row) for row in rows]

    def erasures(self, session: str) -> Iterator[Event]:
        return (erasure.event for erasure in obeyed_erasures(self.pipeline, self.ref(session), session))

    def unentitled_erasures(self, session: str) -> list[Event]:
        """Erasures of another person's events by somebody who does not own the session: they are not obeyed."""
        ref = self.ref(session)
        return unentitled_erasures(self.pipeline, ref, session, erasures(self.pipeline, ref, session))

    def put_by_others(self, session: str) -> dict[RowKey, str]:
        """Who recorded which event, without one's own."""
        sql = "SELECT clock, hash, put_by FROM events WHERE session = %s AND put_by <> CURRENT_USER"
        rows = self.pipeline.query(sql, (self.ref(session),))
        return {(clock, bytes(own).hex()): person for clock, own, person in rows}

    def remove(self, events: Iterable[Event]) -> None:
        for event in events:
            self.pipeline.send(
                "DELETE FROM events WHERE session = %s AND clock = %s AND hash = %s",
                (self.ref(event.session), event.clock, bytes.fromhex(event.hash)),
            )
        self._keys.clear()

    def mark_duplicates(self, session: str) -> bool:
        marked = self.pipeline.query(
            "WITH ranked AS (SELECT e.clock, e.hash, CAST(row_number() OVER"
            " (PARTITION BY e.key ORDER BY e.clock, e.writer, e.seq, e.hash) > 1 AS integer) AS due"
            " FROM events e WHERE e.session = %s AND e.key IS NOT NULL)"
            " UPDATE events e SET double = due FROM ranked r"
            " WHERE e.session = %s AND e.clock = r.clock AND e.hash = r.hash AND e.double <> due RETURNING e.double",
            (self.ref(session), self.ref(session)),
        )
        return any(double for (double,) in marked)

    def clear_places(self, session: str) -> None:
        self.pipeline.send("SELECT holdfast.leave(%s)", (session,))

    def drop_words(self, session: str) -> None:
        self.pipeline.send("DELETE FROM words WHERE session = %s", (self.ref(session),))

    # ── derived ──────────────────────────────────────────────────────────────────────────────────────────

    def only_added(self, session: str, version: int) -> bool:
        return version >= self._rebuilt[session]

    def save(self, session: str, version: int, summary: SessionSummary, *, rebuilt: bool) -> None:
        ref = self._ref_for_writing(session)
        values = (int(value) if isinstance(value, bool) else value for value in summary[NUMBER_INDEXED:])
        listed = (version, *values)
        if self._batch.is_of(session) and len(self._batch.events) == 1:
            (event,), words = self._batch.events, self._batch.words
            self._batch.clear()
            self.pipeline.deferred, self.noted = None, event
            self.pipeline.send(_APPEND, (*row_of(ref, event), *listed, words, self._installation()))
            return
        # Indexed columns apart: a row whose indexes need not follow is written to the same page.
        self.pipeline.send(_SAVE, (*listed, rebuilt, version, ref))

    def save_names(self, session: str, summary: SessionSummary, aliases: Iterable[str]) -> None:
        ref = self._ref_for_writing(session)
        self.pipeline.send(
            "UPDATE sessions SET project = %s, created_at = %s"
            " WHERE ref = %s AND (project <> %s OR created_at <> %s)",
            (summary.project, summary.created_at, ref, summary.project, summary.created_at),
        )
        current = set() if summary.deleted else set(aliases)
        stored = {row[0] for row in self.pipeline.query("SELECT holdfast.aliases_of(%s)", (ref,))}
        if stored - current:  # single aliases cannot be deleted by name (asking.sql)
            self.pipeline.send("DELETE FROM aliases WHERE session = %s", (ref,))
            stored = set()
        for alias in current - stored:
            self.pipeline.send("INSERT INTO aliases (alias, session) VALUES (%s, %s)", (alias, ref))

    def add_words(self, session: str, words: list[str]) -> None:
        if self._batch.is_of(session):
            self._batch.words += words
        else:
            send_words(self.pipeline, self._ref_for_writing(session), words)

    def snapshots(self, session: str) -> Iterator[StoredState]:
        rows = self.pipeline.query(
            f"SELECT count, state FROM snapshots WHERE session = %s AND {TRUSTED} AND fold = %s"  # noqa: S608
            " ORDER BY count DESC LIMIT 1",
            (self.ref(session), FOLD_VERSION),
        )
        for count, frozen in rows:
            yield StoredState(count, bytes(frozen))
        if rows:  # the newest is nearly always the one that is wanted
            rest = self.pipeline.query(
                f"SELECT count, state FROM snapshots WHERE session = %s AND {TRUSTED} AND fold = %s"  # noqa: S608
                " AND count < %s ORDER BY count DESC",
                (self.ref(session), FOLD_VERSION, rows[0][0]),
            )
            for count, frozen in rest:
                yield StoredState(count, bytes(frozen))

    def save_snapshot(
        self, session: str, snapshot: StoredState, clock: int, keep: Callable[[list[int]], set[int]]
    ) -> None:
        ref = self._ref_for_writing(session)
        self.pipeline.send(
            "INSERT INTO snapshots (session, count, clock, fold, state) VALUES (%s, %s, %s, %s, %s)"
            " ON CONFLICT (session, person, count) DO UPDATE"
            " SET clock = excluded.clock, fold = excluded.fold, state = excluded.state",
            (ref, snapshot.events, clock, FOLD_VERSION, snapshot.frozen),
        )
        own = "session = %s AND person = CURRENT_USER"
        counts = [row[0] for row in self.pipeline.query(f"SELECT count FROM snapshots WHERE {own}", (ref,))]  # noqa: S608
        for count in set(counts) - keep(counts):
            self.pipeline.send(f"DELETE FROM snapshots WHERE {own} AND count = %s", (ref, count))  # noqa: S608

    def drop_snapshots(self, session: str, clock: int) -> None:
        self.pipeline.send("DELETE FROM snapshots WHERE session = %s AND clock >= %s", (self.ref(session), clock))

    def erase_data(self, session: str, hashes: Iterable[str] | None) -> bool:
        ref = self.ref(session)
        sql = (
            "WITH gone AS (UPDATE events SET data = NULL, salt = NULL"
            " WHERE session = %s AND coalesce(data, salt) IS NOT NULL AND {} RETURNING 1) SELECT count(*) FROM gone"
        )
        if hashes is None:
            self.pipeline.send("DELETE FROM aliases WHERE session = %s", (ref,))
            # Quarantined events hold text; notes of missing events hold none.
            self.pipeline.send("DELETE FROM aside WHERE session = %s AND found <> ''", (ref,))
            self.clear_places(session)
            dropped = self.pipeline.value(sql.format("type <> 'session.deleted'"), (ref,))
        else:
            rows = erasable_rows(self.pipeline, ref, session, hashes)
            condition = "(clock, hash) IN (SELECT * FROM unnest(%s::bigint[], %s::bytea[]))"
            values = (ref, [clock for clock, _ in rows], [own for _, own in rows])
            dropped = self.pipeline.value(sql.format(condition), values) if rows else 0
        if dropped:
            self.pipeline.send("DELETE FROM snapshots WHERE session = %s", (ref,))
            self.drop_words(session)
        return bool(dropped)
