"""What is one machine's own in a store that many share: its work trees, what it remembers, its clock.

Also what it knows of projects: paths are its own, and the rest is everybody's who sees a session of the project.
Nobody may look for a text in these tables; the functions that do it for them are in sql/asking.sql.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from holdfast.core.canonical import digest
from holdfast.core.view import is_lookup_name
from holdfast.store.interface import KnownProject, LocalState
from holdfast.store.postgres.pipeline import Talk


class OfInstallation:
    """The part of the tables that is asked of one installation. Every method runs in a transaction of the store's."""

    talk: Talk

    def __init__(self, vault: int, installation: Callable[[], int | None]) -> None:
        self.vault = vault
        self._installation = installation

    def remembered(self, name: str) -> bytes | None:
        value = self.talk.one("SELECT holdfast.remembered(%s, %s)", (self._installation(), name))
        return None if value is None else bytes(value)

    def remembered_under(self, prefix: str) -> dict[str, bytes]:
        rows = self.talk.ask("SELECT * FROM holdfast.remembered_under(%s, %s)", (self._installation(), prefix))
        return {name: bytes(value) for name, value in rows}

    def remember(self, name: str, value: bytes | None) -> None:
        self.talk.tell("SELECT holdfast.remember(%s, %s, %s)", (self._installation(), name, value))

    def current(self, place: str) -> str | None:
        session: str | None = self.talk.one("SELECT holdfast.current_at(%s, %s)", (self._installation(), place))
        return session

    def places(self, session: str) -> list[str]:
        return [path for path, current in self._places() if current == session]

    def _places(self) -> list[tuple[str, str]]:
        rows = self.talk.ask("SELECT * FROM holdfast.places_at(%s)", (self._installation(),))
        return [(path, session) for path, session in rows]

    def point(self, place: str, session: str | None) -> None:
        self.talk.tell("SELECT holdfast.point(%s, %s, %s)", (self._installation(), place, session))

    def know(self, known: KnownProject) -> None:
        """A path is true of this installation; whatever else finds a project, of all. Another member's session can
        say anything of its project: what is too long to be found again is left out.
        """
        if not is_lookup_name(known.id):
            return
        self.talk.tell(
            "INSERT INTO projects (vault, id, name) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
            (self.vault, known.id, known.name),
        )
        for kind, value in known.evidence:
            if not is_lookup_name(value):
                continue
            self.talk.tell(
                "INSERT INTO evidence (vault, kind, value, project, installation) VALUES (%s, %s, %s, %s, %s)"
                " ON CONFLICT DO NOTHING",
                (self.vault, kind, value, known.id, self._installation() if kind == "path" else 0),
            )

    def projects_with(self, kind: str, value: str) -> list[str]:
        rows = self.talk.ask(
            "SELECT holdfast.projects_at(%s, %s, %s, %s)", (self.vault, kind, value, self._installation())
        )
        return [project for (project,) in rows]

    def evidence(self, project: str) -> list[tuple[str, str]]:
        rows = self.talk.ask(
            "SELECT * FROM holdfast.evidence_of(%s, %s, %s)", (self.vault, project, self._installation())
        )
        return [(kind, value) for kind, value in rows]

    def local_state(self) -> LocalState:
        names = self.talk.ask(
            "SELECT DISTINCT ON (id) id, name FROM projects WHERE vault = %s ORDER BY id, person <> CURRENT_USER",
            (self.vault,),
        )
        return LocalState(
            places=dict(self._places()),
            projects=[KnownProject(id_, name, tuple(self.evidence(id_))) for id_, name in names],
            memory=self.remembered_under(""),
            missing_events=frozenset(
                str(name)
                for (name,) in self.talk.ask(
                    "SELECT a.name FROM aside a JOIN sessions s ON s.ref = a.session"
                    " WHERE s.vault = %s AND a.found = '' AND starts_with(a.name, 'aside:' || s.id || ':')",
                    (self.vault,),
                )
            ),
        )

    def record_missing(self, session: str, names: Iterable[str]) -> None:
        """What is missing in a session, its owner says: of others' nothing is noted."""
        sql = (
            "INSERT INTO aside (session, name, found) SELECT s.ref, unnest(%s::text[]), '' FROM sessions s"
            " WHERE s.vault = %s AND s.id = %s AND s.owner = CURRENT_USER ON CONFLICT DO NOTHING"
        )
        self.talk.tell(sql, (list(names), self.vault, session))

    def latest_time(self) -> int | None:
        latest: int | None = self.talk.one("SELECT at FROM installations WHERE ref = %s", (self._installation(),))
        return latest

    def local_state_version(self) -> str:
        rows: list[tuple[Any, ...]] = [
            *self._places(),
            *self.talk.ask(
                "SELECT (SELECT count(*) FROM projects WHERE vault = %s AND person = CURRENT_USER),"
                " (SELECT count(*) FROM evidence WHERE vault = %s AND person = CURRENT_USER)",
                (self.vault, self.vault),
            ),
            *self.talk.ask(
                "SELECT count(*), max(stamp) FROM memory WHERE installation = %s", (self._installation(),)
            ),
        ]
        return digest(repr(rows).encode(errors="surrogatepass"))
