"""What is one machine's own in a store that many share: its work trees, what it remembers, its clock.

Also what it knows of projects: paths are its own, and the rest is everybody's who sees a session of the project.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.core.canonical import digest
from holdfast.store.interface import Beside, Known
from holdfast.store.postgres.talking import Talk


class OfInstallation:
    """The part of the tables that is asked of one installation. Every method runs in a transaction of the store's."""

    talk: Talk

    def __init__(self, vault: int, installation: Callable[[], int | None]) -> None:
        self.vault = vault
        self._installation = installation

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
