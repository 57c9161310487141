"""Read what one installation needs from a store that many share: its local state, and the events that arrived.

Paths, current sessions, memory and clock belong to one machine. What else finds a project is shared with everybody
who sees a session of it. No role may search these tables for a text; functions in sql/asking.sql do it for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from holdfast.core.canonical import digest
from holdfast.core.view import is_lookup_name
from holdfast.store.interface import Arrival, KnownProject, LocalState
from holdfast.store.postgres.event_rows import COLUMNS, event_of
from holdfast.store.postgres.pipeline import StatementPipeline

# Conditions of which just one holds for each session that can be seen. The server enforces that anyway (rights.sql);
# asked this way it uses indexes, however many sessions of others there are.
VISIBLE_PARTS: Final = (
    "owner = CURRENT_USER",
    "everyone <> '' AND owner <> CURRENT_USER",
    (
        "everyone = '' AND owner <> CURRENT_USER"
        " AND ref = ANY (ARRAY(SELECT g.session FROM shares g WHERE g.person = CURRENT_USER))"
    ),
)
_VISIBLE: Final = " UNION ALL ".join(
    f"SELECT ref, id, latest FROM sessions WHERE vault = %s AND latest > %s AND {part}"  # noqa: S608 (constants)
    for part in VISIBLE_PARTS
)
_STRETCH: Final = 4


class InstallationTables:
    """The part of the tables that one installation asks for. Every method runs in a transaction of the store."""

    pipeline: StatementPipeline

    def __init__(self, vault: int, installation: Callable[[], int | None]) -> None:
        self.vault = vault
        self._installation = installation
        # The horizon and the version at the last call of `store_version`.
        self._last_version: tuple[int, int] | None = None

    # ── local state ──────────────────────────────────────────────────────────────────────────────────────

    def remembered(self, name: str) -> bytes | None:
        value = self.pipeline.value("SELECT holdfast.remembered(%s, %s)", (self._installation(), name))
        return None if value is None else bytes(value)

    def remembered_under(self, prefix: str) -> dict[str, bytes]:
        rows = self.pipeline.query("SELECT * FROM holdfast.remembered_under(%s, %s)", (self._installation(), prefix))
        return {name: bytes(value) for name, value in rows}

    def remember(self, name: str, value: bytes | None) -> None:
        self.pipeline.send("SELECT holdfast.remember(%s, %s, %s)", (self._installation(), name, value))

    def current(self, place: str) -> str | None:
        session: str | None = self.pipeline.value("SELECT holdfast.current_at(%s, %s)", (self._installation(), place))
        return session

    def places(self, session: str) -> list[str]:
        return [path for path, current in self._places() if current == session]

    def _places(self) -> list[tuple[str, str]]:
        rows = self.pipeline.query("SELECT * FROM holdfast.places_at(%s)", (self._installation(),))
        return [(path, session) for path, session in rows]

    def set_current(self, place: str, session: str | None) -> None:
        self.pipeline.send("SELECT holdfast.point(%s, %s, %s)", (self._installation(), place, session))

    def remember_evidence(self, known: KnownProject) -> None:
        """Paths belong to this installation, all other evidence to everybody. What is too long to be looked up, as
        another member's session may have it, is left out.
        """
        if not is_lookup_name(known.id):
            return
        self.pipeline.send(
            "INSERT INTO projects (vault, id, name) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
            (self.vault, known.id, known.name),
        )
        for kind, value in known.evidence:
            if not is_lookup_name(value):
                continue
            self.pipeline.send(
                "INSERT INTO evidence (vault, kind, value, project, installation) VALUES (%s, %s, %s, %s, %s)"
                " ON CONFLICT DO NOTHING",
                (self.vault, kind, value, known.id, self._installation() if kind == "path" else 0),
            )

    def projects_with(self, kind: str, value: str) -> list[str]:
        rows = self.pipeline.query(
            "SELECT holdfast.projects_at(%s, %s, %s, %s)", (self.vault, kind, value, self._installation())
        )
        return [project for (project,) in rows]

    def evidence(self, project: str) -> list[tuple[str, str]]:
        rows = self.pipeline.query(
            "SELECT * FROM holdfast.evidence_of(%s, %s, %s)", (self.vault, project, self._installation())
        )
        return [(kind, value) for kind, value in rows]

    def local_state(self) -> LocalState:
        names = self.pipeline.query(
            "SELECT DISTINCT ON (id) id, name FROM projects WHERE vault = %s ORDER BY id, person <> CURRENT_USER",
            (self.vault,),
        )
        return LocalState(
            places=dict(self._places()),
            projects=[KnownProject(id_, name, tuple(self.evidence(id_))) for id_, name in names],
            memory=self.remembered_under(""),
            missing_events=frozenset(
                str(name)
                for (name,) in self.pipeline.query(
                    "SELECT a.name FROM aside a JOIN sessions s ON s.ref = a.session"
                    " WHERE s.vault = %s AND a.found = '' AND starts_with(a.name, 'aside:' || s.id || ':')",
                    (self.vault,),
                )
            ),
        )

    def record_missing(self, session: str, names: Iterable[str]) -> None:
        """Only the owner of a session notes what is missing in it."""
        sql = (
            "INSERT INTO aside (session, name, found) SELECT s.ref, unnest(%s::text[]), '' FROM sessions s"
            " WHERE s.vault = %s AND s.id = %s AND s.owner = CURRENT_USER ON CONFLICT DO NOTHING"
        )
        self.pipeline.send(sql, (list(names), self.vault, session))

    def latest_time(self) -> int | None:
        latest: int | None = self.pipeline.value(
            "SELECT at FROM installations WHERE ref = %s", (self._installation(),)
        )
        return latest

    def local_state_version(self) -> str:
        rows: list[tuple[Any, ...]] = [
            *self._places(),
            *self.pipeline.query(
                "SELECT (SELECT count(*) FROM projects WHERE vault = %s AND person = CURRENT_USER),"
                " (SELECT count(*) FROM evidence WHERE vault = %s AND person = CURRENT_USER)",
                (self.vault, self.vault),
            ),
            *self.pipeline.query(
                "SELECT count(*), max(stamp) FROM memory WHERE installation = %s", (self._installation(),)
            ),
        ]
        return digest(repr(rows).encode(errors="surrogatepass"))

    # ── arrivals ─────────────────────────────────────────────────────────────────────────────────────────

    def arrived(self, after: int, limit: int) -> list[Arrival]:
        horizon = self.horizon()
        rows: list[tuple[Any, ...]] = []
        # A stretch at a time: one query for everything would sort all that is left, for each portion again. Stretches
        # grow where most events in them are not visible.
        start, stretch = after, _STRETCH * max(limit, 256)
        while start < horizon and len(rows) < limit:
            end = min(horizon, start + stretch)
            left = limit - len(rows)
            # The inner limit makes the server go session by session, so that it reads no row of others.
            sql = (
                f"SELECT f.*, s.id FROM ({_VISIBLE}) s CROSS JOIN LATERAL (SELECT e.place, {COLUMNS} FROM events e"  # noqa: S608
                " WHERE e.session = s.ref AND e.place > %s AND e.place <= %s ORDER BY e.place LIMIT %s) f"
                " ORDER BY f.place LIMIT %s"
            )
            rows += self.pipeline.query(sql, (*(self.vault, start) * len(VISIBLE_PARTS), start, end, left, left))
            start, stretch = end, stretch * _STRETCH
        return [Arrival(place, event_of(session, row)) for place, *row, session in rows]

    def latest_place(self) -> int:
        horizon = self.horizon()
        sql = f"SELECT max(latest) FROM ({_VISIBLE}) s"  # noqa: S608 (constants)
        latest = self.pipeline.value(sql, (self.vault, -1) * len(VISIBLE_PARTS)) or 0
        return int(min(latest, horizon))

    def horizon(self) -> int:
        """The place up to which no event can arrive any more. A separate query, so that later ones read after it."""
        return int(self.pipeline.value("SELECT holdfast.horizon()"))

    def store_version(self) -> int:
        """A number that differs after any change of what can be seen, shares included.

        It is computed only when the horizon has moved, since then somebody changed something, visible or not. A
        replica has no such horizon: there, how far it has replayed takes its place.
        """
        seen_state = self.pipeline.value(
            "SELECT CASE WHEN pg_is_in_recovery() THEN (pg_last_wal_replay_lsn() - '0/0')::bigint"
            " ELSE holdfast.horizon() END"
        )
        if self._last_version is None or self._last_version[0] != seen_state:
            horizon = self.horizon()
            sql = f"SELECT max(latest), count(*), sum(ref)::text FROM ({_VISIBLE}) s"  # noqa: S608 (constants)
            latest = self.pipeline.query(sql, (self.vault, -1) * len(VISIBLE_PARTS))[0]
            # Beyond the horizon, events may still arrive at lower places: those count later.
            version = f"{min(latest[0] or 0, horizon)} {latest[1:]} {self.local_state_version()}"
            self._last_version = (seen_state, int(digest(version.encode())[:15], 16))
        return self._last_version[1]
