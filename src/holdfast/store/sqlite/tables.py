"""The journal's tables in SQL. Every method runs inside a transaction that the store has opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import apsw
import msgspec

from holdfast.core.canonical import MAX_SAFE_INTEGER, digest
from holdfast.core.decode import decodable
from holdfast.core.envelope import Event, StreamHead
from holdfast.core.errors import Damaged
from holdfast.core.state import FOLD_VERSION
from holdfast.store.interface import Arrival, KnownProject, LocalState
from holdfast.store.sqlite.errors import SAVES
from holdfast.store.tables import NUMBER_INDEXED, WRITTEN_COLUMNS, SessionSummary, StoredState

_OWN = "e.seq, e.clock, e.at, e.v, e.type, e.actor, e.key, e.seen, e.body, e.prev, e.hash, e.data, e.salt"
COLUMNS = f"w.id, {_OWN}"
_SAVE = f"UPDATE sessions SET version = ?, {', '.join(f'{name} = ?' for name in WRITTEN_COLUMNS)} WHERE ref = ?"  # noqa: S608
NO_PLACE = f"(typeof(value) <> 'integer' OR value NOT BETWEEN 0 AND {MAX_SAFE_INTEGER})"
_heads = msgspec.json.Decoder(decodable(tuple[StreamHead, ...]))
_write_heads = msgspec.json.Encoder().encode


class SqliteTables:
    def __init__(self, connection: apsw.Connection) -> None:
        self._run = connection.execute
        self._run_many = connection.executemany
        self._sessions: dict[str, int] = {}
        self._writers: dict[str, int] = {}
        # The place of the last event where SQLite cannot know it, because that event was removed.
        self._place: int | None = None
        self._place_is_current = True

    def forget(self) -> None:
        """After a rollback the numbers given to new sessions and writers are free again."""
        self._sessions.clear()
        self._writers.clear()
        self._place = None

    # ── numbers for names ────────────────────────────────────────────────────────────────────────────────

    def ref(self, session: str) -> int | None:
        known = self._sessions.get(session)
        if known is None:
            known = self._one("SELECT ref FROM sessions WHERE id = ?", (session,))
            if known is not None:
                self._sessions[session] = known
        return known

    def _ref_for_writing(self, session: str) -> int:
        known = self.ref(session)
        if known is None:
            known = self._one("INSERT INTO sessions (id) VALUES (?) RETURNING ref", (session,))
            assert known is not None
            self._sessions[session] = known
        return known

    def _writer(self, writer: str) -> int:
        known = self._writers.get(writer)
        if known is None:
            known = self._one("SELECT ref FROM writers WHERE id = ?", (writer,))
            if known is None:
                known = self._one("INSERT INTO writers (id) VALUES (?) RETURNING ref", (writer,))
            assert known is not None
            self._writers[writer] = known
        return known

    def _one(self, sql: str, values: tuple[Any, ...] = ()) -> int | None:
        row: tuple[Any, ...]
        for row in self._run(sql, values):
            value: int | None = row[0]
            return value
        return None

    # ── the log ──────────────────────────────────────────────────────────────────────────────────────────

    def version(self, session: str) -> int:
        return self._one("SELECT version FROM sessions WHERE id = ?", (session,)) or 0

    def begin(self) -> None:
        """A transaction has begun: others may have written meanwhile."""
        self._place_is_current = False

    def _find_place(self) -> None:
        """Determine the place of the next event: nearly always behind the last row."""
        place = next(self._run("SELECT (SELECT value FROM facts WHERE name = 'place')"))[0]
        if place is not None and not (type(place) is int and 0 <= place <= MAX_SAFE_INTEGER):
            raise Damaged("the store is damaged (the position of the next event is not a number)", hint=SAVES)
        self._place = place if place is not None and place > self.latest_place() else None
        self._place_is_current = True

    def reserve_places(self) -> None:
        """Called before events are removed, so that their places are not given out again."""
        self._run(
            "INSERT INTO facts (name, value) VALUES ('place', ?1) ON CONFLICT DO UPDATE SET value = max(value, ?1)",
            (self.latest_place(),),
        )

    def has_key(self, session: str, key: str) -> bool:
        return bool(self._one("SELECT 1 FROM events WHERE session = ? AND key = ? LIMIT 1", (self.ref(session), key)))

    def recorded_by(self, session: str, key: str) -> set[str]:
        sql = "SELECT w.id FROM events e JOIN writers w ON w.ref = e.writer WHERE e.session = ? AND e.key = ?"
        return {str(writer) for (writer,) in self._run(sql, (self.ref(session), key))}

    def has_any_key(self, session: str, keys: Sequence[str]) -> bool:
        return any(self.has_key(session, key) for key in keys)

    def expect(self, session: str, keys: Iterable[str]) -> None:
        """One lookup for all keys would gain nothing here."""

    def missing(self, session: str, events: Sequence[Event]) -> list[Event]:
        ref = self.ref(session)
        if ref is None:
            return list(events)
        sql = "SELECT 1 FROM events WHERE session = ? AND clock = ? AND hash = ?"
        return [event for event in events if not self._one(sql, (ref, event.clock, bytes.fromhex(event.hash)))]

    def insert(self, events: Sequence[Event]) -> None:
        if not self._place_is_current:
            self._find_place()
        for event in events:
            place = None if self._place is None else self._place + 1
            self._place = None  # from here on, SQLite counts right again
            self._run(
                "INSERT INTO events"
                " (ord, session, writer, seq, clock, at, v, type, actor, key, seen, body, prev, hash, data, salt)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    place, self._ref_for_writing(event.session), self._writer(event.writer), event.seq, event.clock,
                    event.at, event.v, event.type, event.actor, event.key,
                    _write_heads(event.seen) if event.seen else None, bytes.fromhex(event.body),
                    None if event.prev is None else bytes.fromhex(event.prev), bytes.fromhex(event.hash), event.data,
                    event.salt,
                ),
            )  # fmt: skip

    def read(self, session: str) -> Iterator[Event]:
        return (event for event, _ in self.tail(session, 0))

    def tail(self, session: str, clock: int) -> Iterator[tuple[Event, bool]]:
        ref = self.ref(session)
        if ref is None:
            return
        rows = self._run(
            f"SELECT {COLUMNS}, e.double FROM events e JOIN writers w ON w.ref = e.writer"  # noqa: S608 (constants)
            " WHERE e.session = ? AND e.clock >= ? ORDER BY e.clock, w.id, e.seq, e.hash",
            (ref, clock),
        )
        for *row, double in rows:
            yield event_of(session, row), bool(double)

    def sessions_beyond(self, clock: int) -> list[str]:
        """The sessions with an event beyond this clock."""
        sql = "SELECT id FROM sessions WHERE (SELECT max(clock) FROM events WHERE session = ref) > ?"
        return [str(row[0]) for row in self._run(sql, (clock,))]

    def arrived(self, after: int, limit: int) -> list[Arrival]:
        rows = list(
            self._run(
                f"SELECT e.ord, e.session, e.writer, {_OWN} FROM events e"  # noqa: S608 (constants)
                " WHERE e.ord > ? ORDER BY e.ord LIMIT ?",
                (after, limit),
            )
        )
        sessions: dict[int, str] = {}
        writers: dict[int, str] = {}
        arrived: list[Arrival] = []
        for place, session, writer, *row in rows:
            if session not in sessions:
                sessions[session] = self._name("sessions", session)
            if writer not in writers:
                writers[writer] = self._name("writers", writer)
            arrived.append(Arrival(place, event_of(sessions[session], (writers[writer], *row))))
        return arrived

    def latest_place(self) -> int:
        return self._one("SELECT max(ord) FROM events") or 0

    def _name(self, table: str, ref: int) -> str:
        for (name,) in self._run(f"SELECT id FROM {table} WHERE ref = ?", (ref,)):  # noqa: S608 (constants)
            return str(name)
        raise Damaged("the store is damaged (an event's session or writer is missing)", hint=SAVES)

    def stream(self, session: str, writer: str, first: int, last: int) -> list[Event]:
        # No index for this, which every append would pay for: scanning a session is quick enough.
        rows = self._run(
            f"SELECT {_OWN} FROM events e WHERE e.session = ? AND e.writer = ? AND e.seq BETWEEN ? AND ?"  # noqa: S608
            " ORDER BY e.seq, e.clock, e.hash",
            (self.ref(session), self._one("SELECT ref FROM writers WHERE id = ?", (writer,)), first, last),
        )
        return [event_of(session, (writer, *row)) for row in rows]

    def erasures(self, session: str) -> Iterator[Event]:
        rows = self._run(
            f"SELECT {COLUMNS} FROM events e JOIN writers w ON w.ref = e.writer"  # noqa: S608 (constants)
            " WHERE e.session = ? AND NOT e.double AND e.type IN ('event.erased', 'session.deleted')"
            " ORDER BY e.clock, w.id, e.seq, e.hash",
            (self.ref(session),),
        )
        return (event_of(session, row) for row in rows)

    def remove(self, events: Iterable[Event]) -> None:
        self.reserve_places()
        for event in events:
            self._run(
                "DELETE FROM events WHERE session = ? AND clock = ? AND hash = ?",
                (self.ref(event.session), event.clock, bytes.fromhex(event.hash)),
            )
        self.begin()  # the last row may be removed, so that the next place must be determined again

    def mark_duplicates(self, session: str) -> bool:
        marked = self._run(
            "WITH ranked AS (SELECT e.ord,"
            " row_number() OVER (PARTITION BY e.key ORDER BY e.clock, w.id, e.seq, e.hash) AS place"
            " FROM events e JOIN writers w ON w.ref = e.writer WHERE e.session = ?1 AND e.key IS NOT NULL)"
            " UPDATE events SET double = place > 1 FROM ranked"
            " WHERE ranked.ord = events.ord AND double <> (place > 1) RETURNING double",
            (self.ref(session),),
        )
        stopped = [row for row in marked if row[0]]
        return bool(stopped)

    def clear_places(self, session: str) -> None:
        self._run("DELETE FROM places WHERE session = ?", (session,))

    def drop_words(self, session: str) -> None:
        self._run("DELETE FROM words WHERE session = ?", (self.ref(session),))

    # ── local state ──────────────────────────────────────────────────────────────────────────────────────

    def remembered(self, name: str) -> bytes | None:
        for (value,) in self._run("SELECT value FROM memory WHERE name = ?", (name,)):
            return _memory_value(value)
        return None

    def remembered_under(self, prefix: str) -> dict[str, bytes]:
        # Names are compared as UTF-8 bytes: those with the prefix follow right behind it.
        rows = self._run("SELECT name, value FROM memory WHERE name >= ? ORDER BY name", (prefix,))
        values: dict[str, bytes] = {}
        for name, value in rows:
            if not name.startswith(prefix):
                break
            values[name] = _memory_value(value)
        return values

    def remember(self, name: str, value: bytes | None) -> None:
        if value is None:
            self._run("DELETE FROM memory WHERE name = ?", (name,))
        else:
            self._run("INSERT OR REPLACE INTO memory (name, value) VALUES (?, ?)", (name, value))

    def local_state_version(self) -> str:
        """A digest of the local state. Of the memory it reads only the last row: a new value makes a new row."""
        rows = [
            *self._run("SELECT path, session FROM places ORDER BY path"),
            *self._run("SELECT (SELECT count(*) FROM projects), (SELECT count(*) FROM evidence)"),
            *self._run("SELECT count(*), max(rowid) FROM memory"),
            *self._run("SELECT name, length(value), substr(value, 1, 1024) FROM memory ORDER BY rowid DESC LIMIT 1"),
        ]
        return digest(repr(rows).encode(errors="surrogatepass"))

    def local_state(self) -> LocalState:
        names = {str(row[0]): str(row[1]) for row in self._run("SELECT id, name FROM projects")}
        evidence: dict[str, list[tuple[str, str]]] = {}
        for project, kind, value in self._run("SELECT project, kind, value FROM evidence ORDER BY kind, value"):
            evidence.setdefault(project, []).append((kind, value))
        known = sorted(names.keys() | evidence.keys(), key=str.encode)
        return LocalState(
            {str(row[0]): str(row[1]) for row in self._run("SELECT path, session FROM places ORDER BY path")},
            [KnownProject(name, names.get(name, ""), tuple(evidence.get(name, ()))) for name in known],
            self.remembered_under(""),
            self.missing_events(),
        )

    def missing_events(self) -> frozenset[str]:
        """The names of events that a repair could not bring back."""
        return frozenset(str(row[0]) for row in self._run("SELECT name FROM facts WHERE name LIKE 'aside:%'"))

    def record_missing(self, names: Iterable[str]) -> None:
        for name in names:
            self._run("INSERT OR IGNORE INTO facts (name, value) VALUES (?, '')", (name,))

    def delete_under(self, prefix: str) -> bool:
        """Delete all values whose names begin with the prefix; False if there were none."""
        end = prefix + "\U0010ffff"
        return bool(list(self._run("DELETE FROM memory WHERE name >= ? AND name < ? RETURNING 1", (prefix, end))))

    # ── derived ──────────────────────────────────────────────────────────────────────────────────────────

    def only_added(self, session: str, version: int) -> bool:  # noqa: ARG002
        return False  # processes of one machine seldom write to the same session: not worth a column

    def save(self, session: str, version: int, summary: SessionSummary, *, rebuilt: bool) -> None:  # noqa: ARG002
        # Without indexed columns: setting them, even to the same value, would write their index pages each time.
        self._run(_SAVE, (version, *summary[NUMBER_INDEXED:], self._ref_for_writing(session)))

    def save_names(self, session: str, summary: SessionSummary, aliases: Iterable[str]) -> None:
        ref = self._ref_for_writing(session)
        self._run(
            "UPDATE sessions SET project = ?1, created_at = ?2"
            " WHERE ref = ?3 AND (project <> ?1 OR created_at <> ?2)",
            (summary.project, summary.created_at, ref),
        )
        current = set() if summary.deleted else set(aliases)
        stored = {row[0] for row in self._run("SELECT alias FROM aliases WHERE session = ?", (ref,))}
        for alias in stored - current:
            self._run("DELETE FROM aliases WHERE alias = ? AND session = ?", (alias, ref))
        for alias in current - stored:
            self._run("INSERT INTO aliases (alias, session) VALUES (?, ?)", (alias, ref))

    def add_words(self, session: str, words: list[str]) -> None:
        ref = self._ref_for_writing(session)
        self._run_many("INSERT OR IGNORE INTO words (word, session) VALUES (?, ?)", [(word, ref) for word in words])

    def snapshots(self, session: str) -> Iterator[StoredState]:
        rows = self._run(
            "SELECT count, state FROM snapshots WHERE session = ? AND fold = ? ORDER BY count DESC",
            (self.ref(session), FOLD_VERSION),
        )
        for count, frozen in rows:
            yield StoredState(count, frozen)

    def save_snapshot(
        self, session: str, snapshot: StoredState, clock: int, keep: Callable[[list[int]], set[int]]
    ) -> None:
        ref = self._ref_for_writing(session)
        self._run(
            "INSERT OR REPLACE INTO snapshots (session, count, clock, fold, state) VALUES (?, ?, ?, ?, ?)",
            (ref, snapshot.events, clock, FOLD_VERSION, snapshot.frozen),
        )
        counts = [row[0] for row in self._run("SELECT count FROM snapshots WHERE session = ?", (ref,))]
        for count in set(counts) - keep(counts):
            self._run("DELETE FROM snapshots WHERE session = ? AND count = ?", (ref, count))

    def drop_snapshots(self, session: str, clock: int) -> None:
        self._run("DELETE FROM snapshots WHERE session = ? AND clock >= ?", (self.ref(session), clock))

    def erase_data(self, session: str, hashes: Iterable[str] | None) -> bool:
        ref = self.ref(session)
        sql = "UPDATE events SET data = NULL, salt = NULL WHERE session = ? AND coalesce(data, salt) IS NOT NULL"
        if hashes is None:
            self._run("DELETE FROM aliases WHERE session = ?", (ref,))
            self._run("DELETE FROM places WHERE session = ?", (session,))
            dropped = list(self._run(f"{sql} AND type <> 'session.deleted' RETURNING 1", (ref,)))
        else:
            named = msgspec.json.encode(sorted(name.upper() for name in hashes)).decode()
            sql += " AND hex(hash) IN (SELECT value FROM json_each(?)) RETURNING 1"
            dropped = list(self._run(sql, (ref, named)))
        if dropped:
            self._run("DELETE FROM snapshots WHERE session = ?", (ref,))
            self._run("DELETE FROM words WHERE session = ?", (ref,))
        return bool(dropped)


def _memory_value(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise Damaged("the store is damaged (a value in its memory cannot be read)", hint=SAVES)
    return value


def event_of(session: str, row: Sequence[Any]) -> Event:
    """An event from its row; its hash is not checked here."""
    writer, seq, clock, at, v, kind, actor, key, seen, body, prev, own, data, salt = row
    try:
        if type(seq) is type(clock) is type(at) is type(v) is int:
            return Event(
                v=v, session=session, writer=writer, seq=seq, clock=clock, at=at,
                seen=_heads.decode(seen) if seen else (), key=key, actor=actor, type=kind,
                body=body.hex(), prev=None if prev is None else prev.hex(), hash=own.hex(), data=data, salt=salt,
            )  # fmt: skip
    except (AttributeError, TypeError, ValueError, msgspec.MsgspecError):
        pass
    raise Damaged("the store is damaged (an event cannot be read)", hint=SAVES, session=session)
