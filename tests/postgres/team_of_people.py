"""A team in a database whose tables belong to an ordinary role, for tests that bypass Holdfast with plain SQL.

Vault "shop": anna owns `private`, `read` (bob reads), `write` (bob writes), `open` (all read), `common` (all write);
bob owns `bobs`; carl has nothing; fred was dismissed and left `left`, which dora reads. Vault "else": gina owns
`elsewhere` (all write). dora is in both, eve in none. boss owns the tables, and is in "shop".
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import psycopg
import pytest

from holdfast.core.events import AliasGiven, ProjectFacts
from holdfast.store.address import PostgresAddress
from holdfast.store.conformance import Ticks, draft, note, started
from holdfast.store.postgres import PostgresStore, admin
from holdfast.store.postgres.connections import Connection
from tests.support.postgres.server import Server

PEOPLE: Final = ("anna", "bob", "carl", "dora", "eve", "fred", "gina")
EVENT: Final = (
    "INSERT INTO holdfast.events (session, writer, seq, clock, at, v, type, actor, body, hash, data, salt)"
    " VALUES ({ref}, 'w', 1, 1, 1, 1, 'note.added', 'a', sha256('sixteen bytes ..{{}}'), sha256(convert_to("
    'E\'holdfast event 1\\n\' || \'{{"actor":"a","at":"1970-01-01T00:00:00.001Z","body":"\''
    ' || encode(sha256(\'sixteen bytes ..{{}}\'), \'hex\') || \'","clock":1,"key":null,"prev":null,"seen":[],\''
    ' || \'"seq":1,"session":"{id}","type":"note.added","v":1,"writer":"w"}}\', \'UTF8\')),'
    " '{{}}', 'sixteen bytes ..')"
)
_NOTES: Final = 36  # enough for a snapshot
_SESSIONS: Final = {
    "private": "anna", "read": "anna", "write": "anna", "open": "anna", "common": "anna", "bobs": "bob",
    "left": "fred", "elsewhere": "gina",
}  # fmt: skip


class Team:
    def __init__(self, server: Server) -> None:
        self.server, self.mark = server, secrets.token_hex(4)
        self.database = f"team_{self.mark}"
        self._lines: dict[str, Connection] = {}
        self.refs: dict[str, int] = {}
        for person in PEOPLE:
            server.role(self.role(person))
        server.role(self.role("boss"))
        if not server.sql("SELECT 1 FROM pg_roles WHERE rolname = 'holdfast_member'"):
            server.sql("CREATE ROLE holdfast_member NOLOGIN")
        server.sql(f"GRANT holdfast_member TO {self.role('boss')} WITH ADMIN OPTION")
        server.database(self.database, owner=self.role("boss"))
        admin.init(self.address("boss", "shop"), admit=[self.role(name) for name in ("anna", "bob", "carl")])
        for name in ("dora", "fred"):
            admin.admit(self.address("boss", "shop"), self.role(name))
        admin.init(self.address("boss", "else"), admit=[self.role("dora"), self.role("gina")])
        admin.dismiss(self.address("boss", "else"), self.role("boss"))
        self._fill()
        admin.dismiss(self.address("boss", "shop"), self.role("fred"))

    def role(self, person: str) -> str:
        return f"{person}_{self.mark}"

    def address(self, person: str, vault: str) -> PostgresAddress:
        return PostgresAddress(f"{self.server.url(self.database, self.role(person))}&vault={vault}")

    def id(self, label: str) -> str:
        return f"{list(_SESSIONS).index(label):x}0000000-0000-7000-8000-{self.mark:0>12}"

    def store(self, person: str, vault: str = "shop") -> PostgresStore:
        writer = f"{PEOPLE.index(person) if person in PEOPLE else 9:032x}"
        return PostgresStore(
            self.address(person, vault),
            writer=lambda: writer,
            wall=Ticks(),
            installation=lambda _: f"home of {person}",
        )

    def line(self, person: str) -> Connection:
        """A connection of this person, or of the server's superuser."""
        if person not in self._lines:
            role = "postgres" if person == "postgres" else self.role(person)
            self._lines[person] = self.server.connect(self.database, role)
        return self._lines[person]

    def run_as(self, person: str, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """The result for this person, of the last statement if there are several; changes are rolled back."""
        with self.line(person).transaction(force_rollback=True):
            done = self.line(person).execute(statement.format(**self.words), values or None)
            while done.nextset():
                pass
            return done.fetchall() if done.description else [()] * max(0, done.rowcount)

    @property
    def words(self) -> dict[str, object]:
        """References and ids of sessions by label, and roles by person, for statements."""
        ids = {f"{label}_id": self.id(label) for label in _SESSIONS}
        return {**self.refs, **ids, **{person: self.role(person) for person in (*PEOPLE, "boss")}}

    def close(self) -> None:
        for line in self._lines.values():
            line.close()
        self.server.drop(self.database)

    def _fill(self) -> None:
        for label, owner in _SESSIONS.items():
            store = self.store(owner, "else" if label == "elsewhere" else "shop")
            session = self.id(label)
            with store.transaction() as transaction:
                project = ProjectFacts(
                    id=f"project-{label}", name=f"Secret {label}", path=f"/home/{owner}/{label}",
                    remote=f"git.example/{label}",
                )  # fmt: skip
                transaction.record(session, draft(started(f"Secret {label}", project=project)))
                transaction.record(session, draft(AliasGiven(format="craft", id=f"alias-{label}")))
                for number in range(_NOTES):
                    transaction.record(session, draft(note(f"Secret{label} {number}")))
                transaction.set_current(f"/home/{owner}/{label}", session)
                transaction.remember(f"of {label}", b"Secret")
                transaction.remember_project(project)
            store.close()
        refs = {str(id_): int(ref) for id_, ref in self.run_as("postgres", "SELECT id, ref FROM holdfast.sessions")}
        self.refs = {label: refs[self.id(label)] for label in _SESSIONS}
        self.line("postgres").execute(
            "INSERT INTO holdfast.aside (session, name, found) SELECT ref, 'Secret', 'Secret' FROM holdfast.sessions"
        )
        with closing(self.store("anna")) as anna:
            anna.team.share(self.id("read"), self.role("bob"), writes=False)
            anna.team.share(self.id("write"), self.role("bob"), writes=True)
            anna.team.share(self.id("open"), None, writes=False)
            anna.team.share(self.id("common"), None, writes=True)
        with closing(self.store("gina", "else")) as gina:
            gina.team.share(self.id("elsewhere"), None, writes=True)
        with closing(self.store("fred")) as fred:
            fred.team.share(self.id("left"), self.role("dora"), writes=False)


@pytest.fixture(scope="module")
def team(postgres: Server) -> Iterator[Team]:
    made = Team(postgres)
    yield made
    made.close()


REFUSED: Final = psycopg.errors.InsufficientPrivilege
__all__ = ["EVENT", "PEOPLE", "REFUSED", "Team", "team"]
