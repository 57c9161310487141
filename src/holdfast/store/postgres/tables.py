"""The journal's tables in SQL. Every method runs inside a transaction that the store has opened.

Rights are the server's business; here everything is asked of one vault, which for people with many is one of theirs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from holdfast.core.canonical import digest
from holdfast.core.errors import Damaged
from holdfast.core.event import Event, Head
from holdfast.core.state import FOLD_VERSION
from holdfast.store.interface import Arrival, Beside, Known
from holdfast.store.postgres.talking import Talk, kept
from holdfast.store.snapshots import Snapshot
from holdfast.store.summary import Summary

_OWN: Final = (
    "e.writer, e.seq, e.clock, e.at, e.v, e.type, e.actor, e.key, e.seen, e.body, e.prev, e.hash, e.data, e.salt"
)
_ORDER: Final = "ORDER BY e.clock, e.writer, e.seq, e.hash"
_INSERT: Final = (
    "INSERT INTO events (session, writer, seq, clock, at, v, type, actor, key, seen, body, prev, hash, data, salt)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
# All at once: a statement for each costs more than the events themselves. They get their places in the order given.
_INSERT_MANY: Final = (
    "INSERT INTO events (session, writer, seq, clock, at, v, type, actor, key, seen, body, prev, hash, data, salt)"
    " SELECT %s, given.* FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[],"
    " %s::text[], %s::text[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[]) AS given"
)
# An event, what its session is then, its words and this installation's clock, all at once (rights.sql).
_APPEND: Final = f"SELECT holdfast.append({', '.join(['%s'] * 26)}, %s, %s::text[], %s)"
# Whose sessions can be seen, each in one of these parts. The server sees to it by itself (rights.sql); asked in these
# words it finds them by indexes, however many there are of others.
PARTS: Final = (
    "owner = CURRENT_USER",
    "everyone <> '' AND owner <> CURRENT_USER",
    (
        "everyone = '' AND owner <> CURRENT_USER"
        " AND ref = ANY (ARRAY(SELECT g.session FROM shares g WHERE g.person = CURRENT_USER))"
    ),
)
_SEEN: Final = " UNION ALL ".join(
    f"SELECT ref, id, latest FROM sessions WHERE vault = %s AND latest > %s AND {part}"  # noqa: S608 (constants)
    for part in PARTS
)
# One's own snapshots and those of the session's owner; others who may write could put anything there.
BELIEVED: Final = "person IN (CURRENT_USER, (SELECT s.owner FROM sessions s WHERE s.ref = snapshots.session))"
# The advisory locks of one database: of an installation, and of a session.
INSTALLATION: Final = 0x48460001
SESSION: Final = 0x48460002
_LOCKS: Final = 1024  # of sessions; a server has some thousands, for everybody
_STRETCH: Final = 4
_HEX: Final = re.compile("(?:[0-9A-Fa-f]{2})+").fullmatch  # as it is written, without the spaces that Python allows
_heads = msgspec.json.Decoder(tuple[Head, ...])
_write_heads = msgspec.json.Encoder().encode


class PostgresTables:
    """Whatever is asked and told goes over `talk`, which the store sets for as long as it has a line."""

    talk: Talk

    def __init__(self, vault: int, installation: Callable[[], int | None]) -> None:
        self.vault = vault
        self._installation = installation
        self._sessions: dict[str, int] = {}
        # The version at which each was last derived from all its events; later ones only added to it.
        self._anew: dict[str, int] = {}
        # Within a transaction that writes: what is locked until its end.
        self.writing = False
        self._clock = 0
        self._locked: set[int] = set()
        # The horizon at the last look, and what was seen.
        self._looked: tuple[int, int] | None = None
        # The event that was recorded last: found again, everything around it is there too.
        self.last: Event | None = None
        # An event that is not told yet, with its words: nearly always it goes with what it makes of its session.
        self._waiting: tuple[Event, list[str]] | None = None
        # The event with which this installation's clock was noted.
        self.noted: Event | None = None

    def begin_writing(self, clock: int) -> None:
        self.writing = True
        self._clock = clock
        self._locked.clear()
        self.last = self.noted = self._waiting = None

    def end_writing(self) -> None:
        self.writing = False

    def forget(self) -> None:
        """After a rollback the numbers given to new sessions are nobody's."""
        self._sessions.clear()

    # ── numbers for names ────────────────────────────────────────────────────────────────────────────────

    def lock(self, sessions: Iterable[str]) -> None:
        """Nobody else writes to these sessions until the transaction is over. Always taken in the same order."""
        if not self.writing:
            return
        for number in sorted({_number(session) for session in sessions} - self._locked):
            self.talk.tell("SELECT pg_advisory_xact_lock(%s, %s)", (SESSION, number))
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

    # ── the log ──────────────────────────────────────────────────────────────────────────────────────────

    def version(self, session: str) -> int:
        number = _number(session)
        if self.writing and number not in self._locked:
            self._locked.add(number)
            sql = "SELECT * FROM holdfast.begin_session(%s, %s, %s)"
            found = self.talk.ask(sql, (self.vault, session, number))
        else:
            sql = "SELECT ref, version, anew FROM sessions WHERE vault = %s AND id = %s"
            found = self.talk.ask(sql, (self.vault, session))
        for ref, version, anew in found:
            self._sessions[session], self._anew[session] = ref, anew
            return int(version)
        return 0

    def clock(self) -> int:
        """How far this installation's clock is: nobody else moves it meanwhile. A session's is told by its events."""
        return self._clock

    def raise_clock(self, clock: int, at: int | None = None) -> None:
        self._clock = max(clock, self._clock)
        self.talk.tell(
            "UPDATE installations SET clock = greatest(clock, %s), at = coalesce(%s, at) WHERE ref = %s",
            (self._clock, at, self._installation()),
        )

    def has_key(self, session: str, key: str) -> bool:
        self.lock((session,))
        ref = self.ref(session)
        sql = "SELECT 1 FROM events WHERE session = %s AND key = %s LIMIT 1"
        return ref is not None and self.talk.one(sql, (ref, key)) is not None

    def has_any_key(self, session: str, keys: Sequence[str]) -> bool:
        self.lock((session,))
        ref = self.ref(session)
        sql = "SELECT 1 FROM events WHERE session = %s AND key = ANY(%s::text[]) LIMIT 1"
        return ref is not None and bool(keys) and self.talk.one(sql, (ref, [kept(key) for key in keys])) is not None

    def missing(self, session: str, events: Sequence[Event]) -> list[Event]:
        self.lock((session,))
        ref = self.ref(session)
        if ref is None:
            return list(events)
        clocks, hashes = [one.clock for one in events], [bytes.fromhex(one.hash) for one in events]
        rows = self.talk.ask(
            "SELECT hash FROM events WHERE session = %s AND clock = ANY(%s::bigint[]) AND hash = ANY(%s::bytea[])",
            (ref, clocks, hashes),
        )
        there = {bytes(found) for (found,) in rows}
        return [one for one, own in zip(events, hashes, strict=True) if own not in there]

    def insert(self, events: Sequence[Event]) -> None:
        if not events:
            return
        session = events[0].session
        self.lock((session,))
        ref = self._ref_for_writing(session)
        self.last = events[-1]
        self._clock = max(self._clock, *(event.clock for event in events))
        if len(events) == 1:
            self.talk.settle()
            self._waiting, self.talk.later = (events[0], []), self._tell_waiting
        else:
            rows = [_row(ref, event)[1:] for event in events]
            columns = ([kept(one) for one in column] for column in zip(*rows, strict=True))
            self.talk.tell(_INSERT_MANY, (ref, *columns))

    def _tell_waiting(self) -> None:
        assert self._waiting is not None
        (event, found), self._waiting = self._waiting, None
        self.talk.tell(_INSERT, _row(self._ref_for_writing(event.session), event))
        if found:
            self.add_words(event.session, found)

    def tail(self, session: str, clock: int) -> Iterator[tuple[Event, bool]]:
        ref = self.ref(session)
        if ref is None:
            return
        rows = self.talk.ask(
            f"SELECT {_OWN}, e.double FROM events e WHERE e.session = %s AND e.clock >= %s {_ORDER}",  # noqa: S608
            (ref, clock),
        )
        for *row, double in rows:
            yield event_of(session, row), bool(double)

    def arrived(self, after: int, limit: int) -> list[Arrival]:
        horizon = self.horizon()
        rows: list[tuple[Any, ...]] = []
        # A stretch at a time: asked for all at once, a server that knows too little of its tables sorts everything
        # that is left, for each portion anew. Stretches grow where most of what is in them is of others.
        start, stretch = after, _STRETCH * max(limit, 256)
        while start < horizon and len(rows) < limit:
            end = min(horizon, start + stretch)
            rows += self.talk.ask(
                f"SELECT e.place, s.id, {_OWN} FROM events e JOIN ({_SEEN}) s ON s.ref = e.session"  # noqa: S608
                " WHERE e.place > %s AND e.place <= %s ORDER BY e.place LIMIT %s",
                (*(self.vault, start) * len(PARTS), start, end, limit - len(rows)),
            )
            start, stretch = end, stretch * _STRETCH
        return [Arrival(place, event_of(session, row)) for place, session, *row in rows]

    def latest_place(self) -> int:
        horizon = self.horizon()
        found = self.talk.one(f"SELECT max(latest) FROM ({_SEEN}) s", (self.vault, -1) * len(PARTS)) or 0  # noqa: S608
        return int(min(found, horizon))

    def horizon(self) -> int:
        """Up to which place everything is settled. Asked by itself: what is read next must be read after it."""
        return int(self.talk.one("SELECT holdfast.horizon()"))

    def look(self) -> int:
        """A number for all that can be seen: another one after any change, also of what is shared. Asked for when the
        horizon has moved: then somebody changed something, perhaps nothing that can be seen from here. A server that
        only follows another has no horizon of its own: there it is how far it has followed.
        """
        moment = self.talk.one(
            "SELECT CASE WHEN pg_is_in_recovery() THEN (pg_last_wal_replay_lsn() - '0/0')::bigint"
            " ELSE holdfast.horizon() END"
        )
        if self._looked is None or self._looked[0] != moment:
            horizon = self.horizon()
            sql = f"SELECT max(latest), count(*), sum(ref)::text FROM ({_SEEN}) s"  # noqa: S608 (constants)
            latest = self.talk.ask(sql, (self.vault, -1) * len(PARTS))[0]
            # What is not settled yet counts when it is: another change below it may still come in.
            seen = f"{min(latest[0] or 0, horizon)} {latest[1:]} {self.beside_the_log()}"
            self._looked = (moment, int(digest(seen.encode())[:15], 16))
        return self._looked[1]

    def stream(self, session: str, writer: str, first: int, last: int) -> list[Event]:
        self.lock((session,))
        rows = self.talk.ask(
            f"SELECT {_OWN} FROM events e WHERE e.session = %s AND e.writer = %s AND e.seq BETWEEN %s AND %s"  # noqa: S608
            " ORDER BY e.seq, e.clock, e.hash",
            (self.ref(session), writer, first, last),
        )
        return [event_of(session, row) for row in rows]

    def erasures(self, session: str) -> Iterator[Event]:
        rows = self.talk.ask(
            f"SELECT {_OWN} FROM events e WHERE e.session = %s AND e.double = 0"  # noqa: S608 (constants)
            f" AND e.type IN ('event.erased', 'session.deleted') {_ORDER}",
            (self.ref(session),),
        )
        return (event_of(session, row) for row in rows)

    def take_out(self, events: Iterable[Event]) -> None:
        for event in events:
            self.talk.tell(
                "DELETE FROM events WHERE session = %s AND clock = %s AND hash = %s",
                (self.ref(event.session), event.clock, bytes.fromhex(event.hash)),
            )
            self._clock = max(self._clock, event.clock)
        self.raise_clock(self._clock)

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
        self.talk.tell("DELETE FROM places_of_work WHERE session = %s", (session,))

    def drop_words(self, session: str) -> None:
        self.talk.tell("DELETE FROM words WHERE session = %s", (self.ref(session),))

    # ── beside the log ───────────────────────────────────────────────────────────────────────────────────

    def remembered(self, name: str) -> bytes | None:
        sql = "SELECT value FROM memory WHERE installation = %s AND name = %s"
        found = self.talk.one(sql, (self._installation(), name))
        return None if found is None else bytes(found)

    def remembered_under(self, prefix: str) -> dict[str, bytes]:
        rows = self.talk.ask(
            "SELECT name, value FROM memory WHERE installation = %s AND starts_with(name, %s) ORDER BY name",
            (self._installation(), prefix),
        )
        return {name: bytes(value) for name, value in rows}

    def remember(self, name: str, value: bytes | None) -> None:
        if value is None:
            self.talk.tell("DELETE FROM memory WHERE installation = %s AND name = %s", (self._installation(), name))
        else:
            self.talk.tell(
                "INSERT INTO memory (installation, name, value) VALUES (%s, %s, %s) ON CONFLICT (installation, name)"
                " DO UPDATE SET value = excluded.value, stamp = nextval('holdfast.stamps')",
                (self._installation(), name, value),
            )

    def current(self, place: str) -> str | None:
        sql = "SELECT session FROM places_of_work WHERE installation = %s AND path = %s"
        found: str | None = self.talk.one(sql, (self._installation(), place))
        return found

    def places(self, session: str) -> list[str]:
        sql = "SELECT path FROM places_of_work WHERE installation = %s AND session = %s ORDER BY path"
        return [path for (path,) in self.talk.ask(sql, (self._installation(), session))]

    def point(self, place: str, session: str | None) -> None:
        if session is None:
            self.talk.tell(
                "DELETE FROM places_of_work WHERE installation = %s AND path = %s", (self._installation(), place)
            )
        else:
            self.talk.tell(
                "INSERT INTO places_of_work (installation, path, session) VALUES (%s, %s, %s)"
                " ON CONFLICT (installation, path) DO UPDATE SET session = excluded.session",
                (self._installation(), place, session),
            )

    def know(self, known: Known) -> None:
        """A path is true of this installation; whatever else finds a project, of all."""
        self.talk.tell(
            "INSERT INTO projects (vault, id, name) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
            (self.vault, known.id, known.name),
        )
        for kind, value in known.evidence:
            self.talk.tell(
                "INSERT INTO evidence (vault, kind, value, project, installation) VALUES (%s, %s, %s, %s, %s)"
                " ON CONFLICT DO NOTHING",
                (self.vault, kind, value, known.id, self._installation() if kind == "path" else 0),
            )

    def project_at(self, kind: str, value: str) -> list[str]:
        rows = self.talk.ask(
            # One's own word first: others may say of any project that it is found by this.
            "SELECT project FROM evidence WHERE vault = %s AND kind = %s AND value = %s AND installation IN (0, %s)"
            " GROUP BY project ORDER BY bool_or(person = CURRENT_USER) DESC, project",
            (self.vault, kind, value, self._installation()),
        )
        return [project for (project,) in rows]

    def evidence(self, project: str) -> list[tuple[str, str]]:
        rows = self.talk.ask(
            "SELECT DISTINCT kind, value FROM evidence WHERE vault = %s AND project = %s"
            " AND installation IN (0, %s) ORDER BY kind, value",
            (self.vault, project, self._installation()),
        )
        return [(kind, value) for kind, value in rows]

    def beside(self) -> Beside:
        here = self._installation()
        names = self.talk.ask(
            "SELECT DISTINCT ON (id) id, name FROM projects WHERE vault = %s ORDER BY id, person <> CURRENT_USER",
            (self.vault,),
        )
        return Beside(
            places=dict(
                self.talk.ask(
                    "SELECT path, session FROM places_of_work WHERE installation = %s ORDER BY path", (here,)
                )
            ),
            projects=[Known(id_, name, tuple(self.evidence(id_))) for id_, name in names],
            memory=self.remembered_under(""),
        )

    def latest_time(self) -> int | None:
        found: int | None = self.talk.one("SELECT at FROM installations WHERE ref = %s", (self._installation(),))
        return found

    def beside_the_log(self) -> str:
        here = self._installation()
        found = [
            *self.talk.ask("SELECT path, session FROM places_of_work WHERE installation = %s ORDER BY path", (here,)),
            *self.talk.ask(
                "SELECT (SELECT count(*) FROM projects WHERE vault = %s AND person = CURRENT_USER),"
                " (SELECT count(*) FROM evidence WHERE vault = %s AND person = CURRENT_USER)",
                (self.vault, self.vault),
            ),
            *self.talk.ask("SELECT count(*), max(stamp) FROM memory WHERE installation = %s", (here,)),
        ]
        return digest(repr(found).encode(errors="surrogatepass"))

    # ── derived ──────────────────────────────────────────────────────────────────────────────────────────

    def only_added(self, session: str, version: int) -> bool:
        return version >= self._anew[session]

    def save(self, session: str, version: int, summary: Summary, *, anew: bool) -> None:
        ref = self._ref_for_writing(session)
        archived = None if summary.archived is None else int(summary.archived)
        shown = (version, *summary[2:10], archived, int(summary.deleted))
        if self._waiting is not None and self._waiting[0].session == session:
            (event, found), self._waiting, self.talk.later = self._waiting, None, None
            self.noted = event
            self.talk.tell(_APPEND, (*_row(ref, event), *shown, self.vault, found, self._installation()))
            return
        # Indexed columns apart: a row whose indexes need not follow is written to the same page.
        self.talk.tell(
            "UPDATE sessions SET version = %s, updated_at = %s, ended_at = %s, goal = %s, status = %s, progress = %s,"
            " name = %s, device = %s, working_ms = %s, archived = %s, deleted = %s,"
            " latest = currval('holdfast.places'), anew = CASE WHEN %s THEN abs(%s) ELSE anew END WHERE ref = %s",
            (*shown, anew, version, ref),
        )

    def save_names(self, session: str, summary: Summary, aliases: Iterable[str]) -> None:
        ref = self._ref_for_writing(session)
        self.talk.tell(
            "UPDATE sessions SET project = %s, created_at = %s"
            " WHERE ref = %s AND (project <> %s OR created_at <> %s)",
            (summary.project, summary.created_at, ref, summary.project, summary.created_at),
        )
        due = set() if summary.deleted else set(aliases)
        found = {row[0] for row in self.talk.ask("SELECT alias FROM aliases WHERE session = %s", (ref,))}
        for alias in found - due:
            self.talk.tell("DELETE FROM aliases WHERE alias = %s AND session = %s", (alias, ref))
        for alias in due - found:
            self.talk.tell("INSERT INTO aliases (alias, session) VALUES (%s, %s)", (alias, ref))

    def add_words(self, session: str, found: list[str]) -> None:
        if self._waiting is not None and self._waiting[0].session == session:
            self._waiting[1].extend(found)
            return
        self.talk.tell(
            "INSERT INTO words (vault, word, session) SELECT %s, word, %s FROM unnest(%s::text[]) AS given (word)"
            " ON CONFLICT DO NOTHING",
            (self.vault, self._ref_for_writing(session), found),
        )

    def snapshots(self, session: str) -> Iterator[Snapshot]:
        rows = self.talk.ask(
            f"SELECT count, state FROM snapshots WHERE session = %s AND {BELIEVED} AND fold = %s"  # noqa: S608
            " ORDER BY count DESC LIMIT 1",
            (self.ref(session), FOLD_VERSION),
        )
        for count, frozen in rows:
            yield Snapshot(count, bytes(frozen))
        if rows:  # the newest is nearly always the one that is wanted
            rest = self.talk.ask(
                f"SELECT count, state FROM snapshots WHERE session = %s AND {BELIEVED} AND fold = %s"  # noqa: S608
                " AND count < %s ORDER BY count DESC",
                (self.ref(session), FOLD_VERSION, rows[0][0]),
            )
            for count, frozen in rest:
                yield Snapshot(count, bytes(frozen))

    def save_snapshot(
        self, session: str, snapshot: Snapshot, clock: int, keep: Callable[[list[int]], set[int]]
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
            named = [bytes.fromhex(one) for one in sorted(hashes) if _HEX(one)]
            dropped = self.talk.one(sql.format("hash = ANY(%s::bytea[])"), (ref, named))
        if dropped:
            self.talk.tell("DELETE FROM snapshots WHERE session = %s", (ref,))
            self.drop_words(session)
        return bool(dropped)


def _number(session: str) -> int:
    """A session's lock. Two that share one only wait for each other; all there are must find room at the server."""
    return int(digest(session.encode(errors="surrogatepass"))[:8], 16) % _LOCKS


def _row(ref: int, event: Event) -> tuple[Any, ...]:
    return (
        ref, event.writer, event.seq, event.clock, event.at, event.v, event.type, event.actor, event.key,
        _write_heads(event.seen) if event.seen else None, bytes.fromhex(event.body),
        None if event.prev is None else bytes.fromhex(event.prev), bytes.fromhex(event.hash), event.data, event.salt,
    )  # fmt: skip


def _seen(told: bytes | None) -> tuple[Head, ...]:
    """What cannot be read counts as nothing: then the hash does not fit, and whoever verifies chains says so. Anybody
    who may write can put it there, and one event must not keep everybody from all others.
    """
    try:
        return _heads.decode(told) if told else ()
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return ()


def event_of(session: str, row: Sequence[Any]) -> Event:
    """An event from its row. Whether it is true is checked by whoever verifies chains, not here."""
    writer, seq, clock, at, v, kind, actor, key, seen, body, prev, own, data, salt = row
    try:
        return Event(
            v=v, session=session, writer=writer, seq=seq, clock=clock, at=at,
            seen=_seen(seen), key=key, actor=actor, type=kind,
            body=body.hex(), prev=None if prev is None else prev.hex(), hash=own.hex(),
            data=None if data is None else bytes(data), salt=None if salt is None else bytes(salt),
        )  # fmt: skip
    except (AttributeError, TypeError, ValueError, msgspec.MsgspecError):
        raise Damaged("the store is damaged (an event cannot be read)", session=session) from None
