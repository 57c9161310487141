"""The journal's tables in SQL. Every method runs inside a transaction that the store has opened.

Rights are the server's business; here everything is asked of one vault, which for people with many is one of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from holdfast.core.envelope import Event
from holdfast.core.state import FOLD_VERSION
from holdfast.store.interface import RowKey
from holdfast.store.postgres import erasures, locks
from holdfast.store.postgres.arrivals import Arriving
from holdfast.store.postgres.batch import Gathering, tell_events, tell_words
from holdfast.store.postgres.pipeline import Talk, kept
from holdfast.store.postgres.rows import ORDER, OWN, event_of, row_of
from holdfast.store.snapshots import StoredState
from holdfast.store.summary import SessionSummary

# An event, what its session is then, its words and this installation's time, all at once (rights.sql).
_APPEND: Final = f"SELECT holdfast.append({', '.join(['%s'] * 26)}, %s::text[], %s)"
# Asked in a statement of its own: what was put there while the first one waited counts too.
_BEGIN: Final = "SELECT * FROM holdfast.begin_writing(%s, %s, %s, %s); SELECT holdfast.writes_as(%s, %s)"
# One's own snapshots and those of the session's owner; others who may write could put anything there.
BELIEVED: Final = "person IN (CURRENT_USER, (SELECT s.owner FROM sessions s WHERE s.ref = snapshots.session))"


class WriterTaken(Exception):
    """Another person has put events under this home's writer id since it began."""


class PostgresTables(Arriving):
    """Whatever is asked and told goes over `talk`, which the store sets for as long as it has a line."""

    def __init__(self, vault: int, installation: Callable[[], int | None]) -> None:
        super().__init__(vault, installation)
        self._sessions: dict[str, int] = {}
        # The version at which each was last derived from all its events; later ones only added to it.
        self._anew: dict[str, int] = {}
        # Within a transaction that writes: what is locked until its end.
        self.writing = False
        self._locked: set[int] = set()
        # The event that was recorded last: found again, everything around it is there too.
        self.last: Event | None = None
        self._gathering = Gathering()
        # Keys that were asked for, or given out, in this transaction: with the lock, nobody else adds one.
        self._keys: dict[tuple[str, str], bool] = {}
        # The event whose time was noted for this installation.
        self.noted: Event | None = None
        # What the session was that the transaction is about, when it began.
        self._first: dict[str, int] = {}

    def begin_writing(self, talk: Talk, begin: str, here: int, writer: str, about: str | None) -> None:
        """Begin a transaction, and be given the right to write: to the session that it is about too."""
        lock = None if about is None else locks.number(about)
        *row, is_ours = talk.opening(f"{begin}; {_BEGIN}", (here, self.vault, about, lock, self.vault, writer))
        if not is_ours:
            raise WriterTaken
        self.talk = talk
        self.writing = True
        _, ref, version, anew = row
        self._locked = set() if lock is None else {lock}
        self._first.clear()
        if about is not None:
            self._first[about] = version or 0
            if ref is not None:
                self._sessions[about], self._anew[about] = ref, anew
        self.last = self.noted = None

    def end_writing(self) -> None:
        self.writing = False
        self._first.clear()
        self._keys.clear()
        self._gathering.clear()

    def forget(self) -> None:
        """After a rollback the numbers given to new sessions are nobody's."""
        self._sessions.clear()

    # ── numbers for names ────────────────────────────────────────────────────────────────────────────────

    def lock(self, sessions: Iterable[str]) -> None:
        """Nobody else writes to these sessions until the transaction is over. Always taken in the same order."""
        if not self.writing:
            return
        for number in sorted({locks.number(session) for session in sessions} - self._locked):
            self.talk.tell("SELECT pg_advisory_xact_lock(%s, %s)", (locks.SESSION, number))
            self._locked.add(number)

    def ref(self, session: str) -> int | None:
        known = self._sessions.get(session)
        if known is None:
            known = self.talk.one("SELECT ref FROM sessions WHERE vault = %s AND id = %s", (self.vault, session))
            if known is not None:
                self._sessions[session] = known
        return known

    def _ref_for_writing(self, session: str) -> int:
        known = self.ref(session)
        if known is None:
            sql = "INSERT INTO sessions (vault, id) VALUES (%s, %s) RETURNING ref"
            known = self._sessions[session] = int(self.talk.one(sql, (self.vault, session)))
        return known

    def not_own(self, sessions: Iterable[str]) -> set[str]:
        """Those of these that are not whoever asks's own: others', or not there."""
        asked = set(sessions)
        sql = "SELECT id FROM sessions WHERE vault = %s AND id = ANY(%s::text[]) AND owner = CURRENT_USER"
        return asked - {str(id_) for (id_,) in self.talk.ask(sql, (self.vault, sorted(asked)))}

    # ── the log ──────────────────────────────────────────────────────────────────────────────────────────

    def version(self, session: str) -> int:
        if session in self._first:
            return self._first.pop(session)
        number = locks.number(session)
        if self.writing and number not in self._locked:
            self._locked.add(number)
            sql = "SELECT * FROM holdfast.begin_session(%s, %s, %s)"
            rows = self.talk.ask(sql, (self.vault, session, number))
        else:
            sql = "SELECT ref, version, anew FROM sessions WHERE vault = %s AND id = %s"
            rows = self.talk.ask(sql, (self.vault, session))
        for ref, version, anew in rows:
            self._sessions[session], self._anew[session] = ref, anew
            return int(version)
        return 0

    def note_time(self, at: int) -> None:
        """When this installation recorded something last."""
        self.talk.tell("UPDATE installations SET at = %s WHERE ref = %s", (at, self._installation()))

    def has_key(self, session: str, key: str) -> bool:
        if (session, key) not in self._keys:
            recorded = self._recorded_keys(session, (key,))
            if not self.writing:
                return bool(recorded)
            self._keys[session, key] = bool(recorded)
        return self._keys[session, key]

    def expect(self, session: str, keys: Iterable[str]) -> None:
        wanted = sorted({key for key in keys if (session, key) not in self._keys})
        if self.writing and wanted:
            recorded = self._recorded_keys(session, wanted)
            self._keys.update({(session, key): key in recorded for key in wanted})

    def _recorded_keys(self, session: str, keys: Sequence[str]) -> set[str]:
        self.lock((session,))
        ref = self.ref(session)
        if ref is None or not keys:
            return set()
        sql = "SELECT key FROM events WHERE session = %s AND key = ANY(%s::text[])"
        return {key for (key,) in self.talk.ask(sql, (ref, [kept(key) for key in keys]))}

    def recorded_by(self, session: str, key: str) -> set[str]:
        self.lock((session,))
        sql = (
            "SELECT e.writer FROM events e JOIN sessions s ON s.ref = e.session"
            " WHERE e.session = %s AND e.key = %s AND e.put_by IN (CURRENT_USER, s.owner)"
        )
        return {str(writer) for (writer,) in self.talk.ask(sql, (self.ref(session), key))}

    def has_any_key(self, session: str, keys: Sequence[str]) -> bool:
        return bool(self._recorded_keys(session, keys))

    def missing(self, session: str, events: Sequence[Event]) -> list[Event]:
        self.lock((session,))
        ref = self.ref(session)
        if ref is None:
            return list(events)
        clocks, hashes = [event.clock for event in events], [bytes.fromhex(event.hash) for event in events]
        rows = self.talk.ask(
            "SELECT hash FROM events WHERE session = %s AND clock = ANY(%s::bigint[]) AND hash = ANY(%s::bytea[])",
            (ref, clocks, hashes),
        )
        there = {bytes(stored) for (stored,) in rows}
        return [event for event, own in zip(events, hashes, strict=True) if own not in there]

    def insert(self, events: Sequence[Event]) -> None:
        if not events:
            return
        session = events[0].session
        self.lock((session,))
        ref = self._ref_for_writing(session)
        self.last = events[-1]
        self._keys.update({(session, event.key): True for event in events if event.key is not None})
        if len(events) > 1:
            tell_events(self.talk, ref, events)
            return
        if not self._gathering.takes(session):
            self.talk.settle()
        self._gathering.events += events
        self.talk.later = lambda: self._gathering.tell(self.talk, ref)

    def tail(self, session: str, clock: int) -> Iterator[tuple[Event, bool]]:
        ref = self.ref(session)
        if ref is None:
            return
        rows = self.talk.ask(
            f"SELECT {OWN}, e.double FROM events e WHERE e.session = %s AND e.clock >= %s {ORDER}",  # noqa: S608
            (ref, clock),
        )
        for *row, double in rows:
            yield event_of(session, row), bool(double)

    def stream(self, session: str, writer: str, first: int, last: int) -> list[Event]:
        self.lock((session,))
        rows = self.talk.ask(
            f"SELECT {OWN} FROM events e WHERE e.session = %s AND e.writer = %s AND e.seq BETWEEN %s AND %s"  # noqa: S608
            " ORDER BY e.seq, e.clock, e.hash",
            (self.ref(session), writer, first, last),
        )
        return [event_of(session, row) for row in rows]

    def erasures(self, session: str) -> Iterator[Event]:
        return (erasure.event for erasure in erasures.obeyed(self.talk, self.ref(session), session))

    def unentitled(self, session: str) -> list[Event]:
        """Erasures of what another person put there, by somebody who does not own the session: nobody obeys them."""
        ref = self.ref(session)
        return erasures.unentitled(self.talk, ref, session, erasures.erasures(self.talk, ref, session))

    def put_by_others(self, session: str) -> dict[RowKey, str]:
        """Who put which event there, but for one's own."""
        sql = "SELECT clock, hash, put_by FROM events WHERE session = %s AND put_by <> CURRENT_USER"
        rows = self.talk.ask(sql, (self.ref(session),))
        return {(clock, bytes(own).hex()): person for clock, own, person in rows}

    def take_out(self, events: Iterable[Event]) -> None:
        for event in events:
            self.talk.tell(
                "DELETE FROM events WHERE session = %s AND clock = %s AND hash = %s",
                (self.ref(event.session), event.clock, bytes.fromhex(event.hash)),
            )
        self._keys.clear()

    def mark_duplicates(self, session: str) -> bool:
        marked = self.talk.ask(
            "WITH ranked AS (SELECT e.clock, e.hash, CAST(row_number() OVER"
            " (PARTITION BY e.key ORDER BY e.clock, e.writer, e.seq, e.hash) > 1 AS integer) AS due"
            " FROM events e WHERE e.session = %s AND e.key IS NOT NULL)"
            " UPDATE events e SET double = due FROM ranked r"
            " WHERE e.session = %s AND e.clock = r.clock AND e.hash = r.hash AND e.double <> due RETURNING e.double",
            (self.ref(session), self.ref(session)),
        )
        return any(double for (double,) in marked)

    def leave(self, session: str) -> None:
        self.talk.tell("SELECT holdfast.leave(%s)", (session,))

    def drop_words(self, session: str) -> None:
        self.talk.tell("DELETE FROM words WHERE session = %s", (self.ref(session),))

    # ── derived ──────────────────────────────────────────────────────────────────────────────────────────

    def only_added(self, session: str, version: int) -> bool:
        return version >= self._anew[session]

    def save(self, session: str, version: int, summary: SessionSummary, *, anew: bool) -> None:
        ref = self._ref_for_writing(session)
        archived = None if summary.archived is None else int(summary.archived)
        shown = (version, *summary[2:10], archived, int(summary.deleted))
        if self._gathering.is_of(session) and len(self._gathering.events) == 1:
            (event,), words = self._gathering.events, self._gathering.words
            self._gathering.clear()
            self.talk.later, self.noted = None, event
            self.talk.tell(_APPEND, (*row_of(ref, event), *shown, words, self._installation()))
            return
        # Indexed columns apart: a row whose indexes need not follow is written to the same page.
        self.talk.tell(
            "UPDATE sessions SET version = %s, updated_at = %s, ended_at = %s, goal = %s, status = %s, progress = %s,"
            " name = %s, device = %s, working_ms = %s, archived = %s, deleted = %s,"
            " latest = currval('holdfast.places'), anew = CASE WHEN %s THEN abs(%s) ELSE anew END WHERE ref = %s",
            (*shown, anew, version, ref),
        )

    def save_names(self, session: str, summary: SessionSummary, aliases: Iterable[str]) -> None:
        ref = self._ref_for_writing(session)
        self.talk.tell(
            "UPDATE sessions SET project = %s, created_at = %s"
            " WHERE ref = %s AND (project <> %s OR created_at <> %s)",
            (summary.project, summary.created_at, ref, summary.project, summary.created_at),
        )
        due = set() if summary.deleted else set(aliases)
        stored = {row[0] for row in self.talk.ask("SELECT holdfast.aliases_of(%s)", (ref,))}
        if stored - due:  # one by one they cannot be named (asking.sql)
            self.talk.tell("DELETE FROM aliases WHERE session = %s", (ref,))
            stored = set()
        for alias in due - stored:
            self.talk.tell("INSERT INTO aliases (alias, session) VALUES (%s, %s)", (alias, ref))

    def add_words(self, session: str, words: list[str]) -> None:
        if self._gathering.is_of(session):
            self._gathering.words += words
        else:
            tell_words(self.talk, self._ref_for_writing(session), words)

    def snapshots(self, session: str) -> Iterator[StoredState]:
        rows = self.talk.ask(
            f"SELECT count, state FROM snapshots WHERE session = %s AND {BELIEVED} AND fold = %s"  # noqa: S608
            " ORDER BY count DESC LIMIT 1",
            (self.ref(session), FOLD_VERSION),
        )
        for count, frozen in rows:
            yield StoredState(count, bytes(frozen))
        if rows:  # the newest is nearly always the one that is wanted
            rest = self.talk.ask(
                f"SELECT count, state FROM snapshots WHERE session = %s AND {BELIEVED} AND fold = %s"  # noqa: S608
                " AND count < %s ORDER BY count DESC",
                (self.ref(session), FOLD_VERSION, rows[0][0]),
            )
            for count, frozen in rest:
                yield StoredState(count, bytes(frozen))

    def save_snapshot(
        self, session: str, snapshot: StoredState, clock: int, keep: Callable[[list[int]], set[int]]
    ) -> None:
        ref = self._ref_for_writing(session)
        self.talk.tell(
            "INSERT INTO snapshots (session, count, clock, fold, state) VALUES (%s, %s, %s, %s, %s)"
            " ON CONFLICT (session, person, count) DO UPDATE"
            " SET clock = excluded.clock, fold = excluded.fold, state = excluded.state",
            (ref, snapshot.events, clock, FOLD_VERSION, snapshot.frozen),
        )
        own = "session = %s AND person = CURRENT_USER"
        counts = [row[0] for row in self.talk.ask(f"SELECT count FROM snapshots WHERE {own}", (ref,))]  # noqa: S608
        for count in set(counts) - keep(counts):
            self.talk.tell(f"DELETE FROM snapshots WHERE {own} AND count = %s", (ref, count))  # noqa: S608

    def drop_snapshots(self, session: str, clock: int) -> None:
        self.talk.tell("DELETE FROM snapshots WHERE session = %s AND clock >= %s", (self.ref(session), clock))

    def erase_data(self, session: str, hashes: Iterable[str] | None) -> bool:
        ref = self.ref(session)
        sql = (
            "WITH gone AS (UPDATE events SET data = NULL, salt = NULL"
            " WHERE session = %s AND coalesce(data, salt) IS NOT NULL AND {} RETURNING 1) SELECT count(*) FROM gone"
        )
        if hashes is None:
            self.talk.tell("DELETE FROM aliases WHERE session = %s", (ref,))
            # What a repair set aside holds text; notes of what is missing hold none.
            self.talk.tell("DELETE FROM aside WHERE session = %s AND found <> ''", (ref,))
            self.leave(session)
            dropped = self.talk.one(sql.format("type <> 'session.deleted'"), (ref,))
        else:
            rows = erasures.erasable(self.talk, ref, session, hashes)
            which = "(clock, hash) IN (SELECT * FROM unnest(%s::bigint[], %s::bytea[]))"
            given = (ref, [clock for clock, _ in rows], [own for _, own in rows])
            dropped = self.talk.one(sql.format(which), given) if rows else 0
        if dropped:
            self.talk.tell("DELETE FROM snapshots WHERE session = %s", (ref,))
            self.drop_words(session)
        return bool(dropped)
