"""The store on a server: what `interface.Store` promises, with one line at a time, taken from a pool for moments."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import psycopg

from holdfast.core.envelope import Event
from holdfast.core.errors import HoldfastError, Invalid, Refused
from holdfast.core.model import Row
from holdfast.core.state import State
from holdfast.store import listing
from holdfast.store.address import PostgresAddress
from holdfast.store.interface import (
    Arrival,
    ChangeListener,
    CopyResult,
    Damage,
    Draft,
    Filter,
    ListedProject,
    LocalState,
    NotCopied,
    RefusalCheck,
    UnsoundEvents,
)
from holdfast.store.journal import Journal
from holdfast.store.listing import Within
from holdfast.store.postgres import conninfo, errors, schema
from holdfast.store.postgres.arrivals import PARTS
from holdfast.store.postgres.pipeline import Talk
from holdfast.store.postgres.pool import PostgresPool, Silent
from holdfast.store.postgres.tables import PostgresTables
from holdfast.store.postgres.transaction import WRITE, PostgresTransaction

_READ: Final = "read the store"
_OPEN: Final = "open the store"
_ATTEMPTS: Final = 20  # after a restart of the server every line in the pool is dead
_Result = TypeVar("_Result")


class PostgresStore:
    """One vault on a server. `writer` and `here` are asked only when they are needed: reading needs no identity."""

    def __init__(
        self,
        address: PostgresAddress,
        *,
        writer: Callable[[], str],
        wall: Callable[[], int],
        here: Callable[[bool], str | None],
        renew: Callable[[], str] | None = None,
        salt: Callable[[], bytes] = lambda: os.urandom(16),
        patience: float | None = None,
    ) -> None:
        self.url = address.url
        self._secret = address.secret
        self._hidden = conninfo.secrets_of(address.secret)
        self._here = here
        self._renew = renew
        self._installation: int | None = None
        # The stream that this home told the server is its own.
        self._claimed: str | None = None
        self.active: Talk | None = None
        self._closed = False
        self._patience = patience
        self.lines = PostgresPool.to(address.secret)
        try:
            self.vault = self.asked(lambda talk: self._admitted(talk, conninfo.vault_of(address.secret)), _OPEN)
        except BaseException:
            self.lines.close(patience)
            raise
        self.tables = PostgresTables(self.vault, self._known)
        self.journal = Journal(self.tables, writer=writer, wall=wall, salt=salt)
        self._within = Within(
            "vault = ?",
            (self.vault,),
            PARTS,
            with_words=lambda whole, begun: [
                ("ref IN (SELECT holdfast.found(?, ?::text[], ?))", (self.vault, list(whole), begun))
            ],
            called=lambda alias: ("ref IN (SELECT holdfast.called(?, ?))", (self.vault, alias)),
            called_like=lambda part: (
                "EXISTS (SELECT FROM holdfast.aliases_of(ref) AS named (alias) WHERE strpos(lower(alias), ?) > 0)",
                (part,),
            ),
            few=True,
        )

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.lines.close(self._patience)

    def _admitted(self, talk: Talk, wanted: str | None) -> int:
        """The vault that is meant. Says whose business it is where there is none."""
        version = talk.one("SELECT value FROM holdfast.facts WHERE name = 'version'")
        schema.refuse_others(schema.version_from(version), self.url)
        mine = dict(talk.ask("SELECT name, vault FROM holdfast.mine"))
        if wanted is None and len(mine) > 1:
            names = ", ".join(sorted(mine))
            raise Invalid(f"you belong to several vaults: {names}", hint="Say which: ?vault=NAME", file=self.url)
        vault = mine.get(wanted) if wanted is not None else next(iter(mine.values()), None)
        if vault is None:
            raise Refused(
                "you are not a member of " + ("any vault here" if wanted is None else f"the vault {wanted!a}"),
                hint="Whoever runs the database admits you: holdfast store admit PERSON",
                file=self.url,
            )
        return int(vault)

    # ── lines ────────────────────────────────────────────────────────────────────────────────────────────

    def spoken(self, error: BaseException, operation: str) -> HoldfastError | None:
        return errors.spoken(error, operation, self.url, self._hidden)

    def connected(self, begin: Callable[[Talk], _Result]) -> _Result:
        """Begin something on a line that works, and stays in use. Nothing was done yet: dead lines do no harm."""
        for attempt in range(_ATTEMPTS):
            line = self.lines.take(self._patience)
            talk = Talk(line)
            try:
                return begin(talk)
            except BaseException as error:
                with contextlib.suppress(psycopg.Error):
                    talk.end()
                with contextlib.suppress(psycopg.Error):
                    if not line.closed:
                        line.execute("ROLLBACK")
                self.lines.give_back(line)
                if not errors.is_cut(error) or isinstance(error, Silent) or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError

    def asked(self, look: Callable[[Talk], _Result], operation: str = _READ) -> _Result:
        """Ask something that may be asked again: in the transaction that is under way, or on a line of its own."""
        try:
            if self.active is not None:
                return look(self.active)
            return self.connected(lambda talk: self._and_give_back(talk, look))
        except (psycopg.Error, MemoryError) as error:
            # What was told before it may be what failed.
            raise (self.spoken(error, operation if self.active is None else WRITE) or error) from None

    def _and_give_back(self, talk: Talk, look: Callable[[Talk], _Result]) -> _Result:
        result = look(talk)
        self.lines.give_back(talk.line)
        return result

    def read(self, look: Callable[[], _Result], *, settled: bool = True) -> _Result:
        """Read with the tables, as of one moment; not `settled` where each statement must see the latest."""

        def reading(talk: Talk) -> _Result:
            if self.active is not None:
                return look()
            self.tables.talk = talk
            if not settled:
                return look()
            talk.begin()
            talk.tell("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # Before the moment is chosen: were the log divided anew in between, its rows would be younger than that.
            talk.tell("LOCK TABLE ONLY holdfast.events IN ACCESS SHARE MODE")
            result = look()
            talk.tell("COMMIT")
            talk.end()
            return result

        return self.asked(reading)

    def _known(self) -> int | None:
        """This installation's number, where it has one: looking makes nothing."""
        if self._installation is None:
            name = self._here(False)
            if name is not None:
                sql = "SELECT ref FROM holdfast.installations WHERE vault = %s AND person = CURRENT_USER AND id = %s"
                self._installation = self.tables.talk.one(sql, (self.vault, name))
        return self._installation

    def settle_in(self, *, anew: bool = False) -> int:
        """This installation's number, for writing; the server knows then which stream is its own.

        Where somebody else put events of this writer (a database lost, and restored from their backup), it gets
        another: they would not let it go on with theirs. `anew`: asks the server again, as somebody may have since.
        """
        writer = self.journal.writer()
        if anew or self._installation is None or self._claimed != writer:
            number = self._settled(writer)
            if number is None and self._renew is not None:
                writer = self._renew()
                number = self._settled(writer)
            if number is None:
                raise Refused(
                    "cannot write to the store: somebody else put events there under this home's writer id",
                    hint="Another spelling of the store's URL is another writer.",
                    operation=WRITE, file=self.url,
                )  # fmt: skip
            self._installation, self._claimed = number, writer
        return self._installation

    def _settled(self, writer: str) -> int | None:
        """This installation's number; None where the stream is another person's."""
        given = (self.vault, self._here(True), writer)
        number = self.asked(lambda talk: talk.one("SELECT holdfast.settle(%s, %s, %s)", given), WRITE)
        return None if number is None else int(number)

    # ── transactions ─────────────────────────────────────────────────────────────────────────────────────

    def transaction(self, *, patience: float | None = None, about: str | None = None) -> PostgresTransaction:
        return PostgresTransaction(self, patience=patience, about=about)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────

    def state(self, session: str) -> State | None:
        return self.read(lambda: self.journal.existing(session))

    def events(self, session: str, *, since: int = 0) -> Iterator[Event]:
        return iter(self.read(lambda: self.journal.events(session, since)))

    def _listed(self, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return self.asked(lambda talk: talk.ask(sql.replace("?", "%s"), values))

    def rows(self, which: Filter) -> list[Row]:
        return listing.rows(self._listed, which, self._within)

    def projects(self) -> list[ListedProject]:
        return listing.projects(self._listed, self._within)

    def versions(self, of: Sequence[str] | None = None) -> dict[str, int]:
        return listing.versions(self._listed, of, self._within)

    def sessions(self) -> Iterator[str]:
        return iter(listing.sessions(self._listed, self._within))

    def listed_sessions(self) -> list[tuple[str, int]]:
        """Every session that can be seen, with its version; less than nothing where all events were taken out."""
        sql = "SELECT created_at, id, version FROM sessions WHERE vault = %s AND "
        parts = " UNION ALL ".join(sql + part for part in PARTS)
        rows = self.asked(lambda talk: talk.ask(parts, (self.vault,) * len(PARTS)))
        return [(id_, version) for _, id_, version in sorted(rows)]

    def may_write(self, session: str) -> bool:
        sql = (
            "SELECT 1 FROM sessions s WHERE s.vault = %s AND s.id = %s AND (s.owner = CURRENT_USER"
            " OR s.everyone = 'write' OR EXISTS (SELECT 1 FROM shares g"
            " WHERE g.session = s.ref AND g.person = CURRENT_USER AND g.writes))"
        )
        return self.asked(lambda talk: talk.one(sql, (self.vault, session))) is not None

    def is_read_only(self, session: str) -> bool:
        """Whether somebody shares it with us, and not for writing; of what is not there nobody does."""
        sql = "SELECT 1 FROM sessions s WHERE s.vault = %s AND s.id = %s"
        there = self.asked(lambda talk: talk.one(sql, (self.vault, session))) is not None
        return there and not self.may_write(session)

    def own_id(self, session: str) -> str:
        sql = "SELECT holdfast.own_id(%s, %s)"
        return str(self.asked(lambda talk: talk.one(sql, (self.vault, session))))

    def find(self, reference: str) -> list[str]:
        return listing.find(self._listed, reference, self._within)

    def remembered(self, name: str) -> bytes | None:
        return self.read(lambda: self.tables.remembered(name), settled=False)

    def remembered_under(self, prefix: str) -> dict[str, bytes]:
        return self.read(lambda: self.tables.remembered_under(prefix), settled=False)

    def arrived(self, after: int, limit: int) -> list[Arrival]:
        return self.read(lambda: self.tables.arrived(after, limit), settled=False)

    def latest_place(self) -> int:
        return self.read(self.tables.latest_place, settled=False)

    def version(self) -> int:
        return self.read(self.tables.look, settled=False)

    def local_state_version(self) -> str:
        return self.read(self.tables.local_state_version)

    def local_state(self) -> LocalState:
        return self.read(self.tables.local_state)

    def listen(self) -> ChangeListener | None:
        from holdfast.store.postgres.notifications import PostgresChangeListener

        return PostgresChangeListener(self._secret, f"holdfast_{self.vault}")

    def stream(self, session: str, writer: str, first: int, last: int) -> list[Event]:
        return self.read(lambda: self.tables.stream(session, writer, first, last))

    def current(self, place: str) -> str | None:
        return self.read(lambda: self.tables.current(place), settled=False)

    def places(self, session: str) -> list[str]:
        return self.read(lambda: self.tables.places(session), settled=False)

    def projects_with(self, kind: str, value: str) -> list[str]:
        return self.read(lambda: self.tables.projects_with(kind, value), settled=False)

    def evidence(self, project: str) -> list[tuple[str, str]]:
        return self.read(lambda: self.tables.evidence(project), settled=False)

    def latest_time(self) -> int | None:
        return self.read(self.tables.latest_time, settled=False)

    # ── keeping (each in its own room) ───────────────────────────────────────────────────────────────────

    def erase(self, session: str, deletion: Draft) -> None:
        """The rows are emptied; when their bytes leave the server's files is for the server to say (docs/team.md)."""
        with self.transaction(about=session) as transaction:
            transaction.record(session, deletion)

    def is_own_stream(self, session: str, writer: str) -> bool:
        # Owners put events of any writer into their sessions, and earlier versions let others go on with a stream
        # that somebody had brought. Each question is one that an index answers, however long the stream is.
        put = "EXISTS (SELECT FROM events e WHERE e.session = s.ref AND e.writer = %s AND length(e.writer) <= 200"
        sql = (
            f"SELECT {put} AND e.put_by = CURRENT_USER) AND NOT {put} AND e.put_by < CURRENT_USER)"  # noqa: S608
            f" AND NOT {put} AND e.put_by > CURRENT_USER) FROM sessions s WHERE s.vault = %s AND s.id = %s"
        )
        return bool(self.asked(lambda talk: talk.one(sql, (writer, writer, writer, self.vault, session))))

    def may_repair(self, session: str) -> bool:
        sql = "SELECT owner <> CURRENT_USER FROM sessions WHERE vault = %s AND id = %s"
        return not self.asked(lambda talk: talk.one(sql, (self.vault, session)))

    def unsound(self, session: str) -> UnsoundEvents | None:
        from holdfast.store.postgres import check

        own = self.may_repair(session)
        return self.read(lambda: check.unsound(self.tables, session, own=own))

    def backup(self, path: str) -> tuple[NotCopied, ...]:
        from holdfast.store.sqlite import backup

        return backup.write_backup(self, path)

    def restore(self, path: str, refuses: RefusalCheck = lambda _session, _events: None) -> CopyResult:
        from holdfast.store import store_copy

        return store_copy.unite(self, path, refuses)

    def check(self) -> Iterator[Damage]:
        from holdfast.store.postgres import check

        return check.check(self)

    def repair(self) -> list[str]:
        from holdfast.store.postgres import repair

        return repair.repair(self)
