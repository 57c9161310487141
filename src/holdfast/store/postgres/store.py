"""The store on a server. It takes a connection from a pool for each query or transaction."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg

from holdfast.core.envelope import Event
from holdfast.core.errors import HoldfastError, Invalid, Refused
from holdfast.core.state import State
from holdfast.store.address import PostgresAddress
from holdfast.store.interface import (
    Arrival,
    ChangeListener,
    CopyResult,
    Damage,
    Draft,
    LocalState,
    NotCopied,
    RefusalCheck,
    StoreInfo,
    UnsoundEvents,
)
from holdfast.store.journal import Journal
from holdfast.store.listing import SqlListings, Within
from holdfast.store.postgres import connections, errors, schema
from holdfast.store.postgres.connections import PostgresPool, ServerSilent
from holdfast.store.postgres.installation import VISIBLE_PARTS
from holdfast.store.postgres.pipeline import StatementPipeline
from holdfast.store.postgres.tables import PostgresTables
from holdfast.store.postgres.transaction import WRITE, PostgresTransaction

if TYPE_CHECKING:
    from holdfast.store.postgres.members import PostgresTeam

_READ: Final = "read the store"
_OPEN: Final = "open the store"
_ATTEMPTS: Final = 20  # after a restart of the server every connection in the pool is dead
_Result = TypeVar("_Result")


class PostgresStore(SqlListings):
    """One vault on a server. `writer` and `installation` are called only to write: reading needs no identity."""

    def __init__(
        self,
        address: PostgresAddress,
        *,
        writer: Callable[[], str],
        wall: Callable[[], int],
        installation: Callable[[bool], str | None],
        renew: Callable[[], str] | None = None,
        salt: Callable[[], bytes] = lambda: os.urandom(16),
        patience: float | None = None,
    ) -> None:
        self.url = address.url
        self._secret = address.secret
        self._hidden = connections.secrets_of(address.secret)
        self._here = installation
        self._renew = renew
        self._installation: int | None = None
        # The writer that this home has registered with the server.
        self._registered_writer: str | None = None
        self.active: StatementPipeline | None = None
        self._closed = False
        self._patience = patience
        self.pool = PostgresPool.for_address(address.secret)
        try:
            self.vault = self.run_query(
                lambda pipeline: self._find_vault(pipeline, connections.vault_of(address.secret)), _OPEN
            )
        except BaseException:
            self.pool.close(patience)
            raise
        self.tables = PostgresTables(self.vault, self._installation_number)
        self.journal = Journal(self.tables, writer=writer, wall=wall, salt=salt)
        self._within = Within(
            "vault = ?",
            (self.vault,),
            VISIBLE_PARTS,
            has_words=lambda words, beginning: [
                ("ref IN (SELECT holdfast.found(?, ?::text[], ?))", (self.vault, list(words), beginning))
            ],
            has_alias=lambda alias: ("ref IN (SELECT holdfast.called(?, ?))", (self.vault, alias)),
            has_alias_with=lambda part: (
                "EXISTS (SELECT FROM holdfast.aliases_of(ref) AS named (alias) WHERE strpos(lower(alias), ?) > 0)",
                (part,),
            ),
            few_matches=True,
        )

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.pool.close(self._patience)

    def _find_vault(self, pipeline: StatementPipeline, name: str | None) -> int:
        """The number of the vault that the URL names, or of the only one."""
        version = pipeline.value("SELECT value FROM holdfast.facts WHERE name = 'version'")
        schema.refuse_other_versions(schema.version_from(version), self.url)
        vaults = dict(pipeline.query("SELECT name, vault FROM holdfast.mine"))
        if name is None and len(vaults) > 1:
            names = ", ".join(sorted(vaults))
            raise Invalid(f"you belong to several vaults: {names}", hint="Say which: ?vault=NAME", file=self.url)
        vault = vaults.get(name) if name is not None else next(iter(vaults.values()), None)
        if vault is None:
            raise Refused(
                "you are not a member of " + ("any vault here" if name is None else f"the vault {name!a}"),
                hint="Ask the database administrator to admit you: holdfast store admit PERSON",
                file=self.url,
            )
        return int(vault)

    # ── connections ──────────────────────────────────────────────────────────────────────────────────────

    def explain(self, error: BaseException, operation: str) -> HoldfastError | None:
        return errors.explain(error, operation, self.url, self._hidden)

    def with_connection(self, begin: Callable[[StatementPipeline], _Result]) -> _Result:
        """Call `begin` with a working connection, and keep that. Nothing was sent yet, so dead ones are skipped."""
        for attempt in range(_ATTEMPTS):
            connection = self.pool.take_connection(self._patience)
            pipeline = StatementPipeline(connection)
            try:
                return begin(pipeline)
            except BaseException as error:
                with contextlib.suppress(psycopg.Error):
                    pipeline.end()
                with contextlib.suppress(psycopg.Error):
                    if not connection.closed:
                        connection.execute("ROLLBACK")
                self.pool.put_back(connection)
                if not errors.is_cut(error) or isinstance(error, ServerSilent) or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError

    def run_query(self, query: Callable[[StatementPipeline], _Result], operation: str = _READ) -> _Result:
        """Run a query that may be repeated, in the active transaction or on a separate connection."""
        try:
            if self.active is not None:
                return query(self.active)
            return self.with_connection(lambda pipeline: self._query_and_put_back(pipeline, query))
        except (psycopg.Error, MemoryError) as error:
            # The statement that failed may have been sent before this query.
            raise (self.explain(error, operation if self.active is None else WRITE) or error) from None

    def _query_and_put_back(
        self, pipeline: StatementPipeline, query: Callable[[StatementPipeline], _Result]
    ) -> _Result:
        result = query(pipeline)
        self.pool.put_back(pipeline.connection)
        return result

    def read(self, read_tables: Callable[[], _Result], *, settled: bool = True) -> _Result:
        """Read from the tables as of one time; with `settled=False` each statement sees the latest."""

        def run(pipeline: StatementPipeline) -> _Result:
            if self.active is not None:
                return read_tables()
            self.tables.pipeline = pipeline
            if not settled:
                return read_tables()
            pipeline.begin()
            pipeline.send("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # Taken before the snapshot: if the log were repartitioned in between, its rows would be newer.
            pipeline.send("LOCK TABLE ONLY holdfast.events IN ACCESS SHARE MODE")
            result = read_tables()
            pipeline.send("COMMIT")
            pipeline.end()
            return result

        return self.run_query(run)

    def _installation_number(self) -> int | None:
        """This installation's number, if it has one: reading creates none."""
        if self._installation is None:
            name = self._here(False)
            if name is not None:
                sql = "SELECT ref FROM holdfast.installations WHERE vault = %s AND person = CURRENT_USER AND id = %s"
                self._installation = self.tables.pipeline.value(sql, (self.vault, name))
        return self._installation

    def register_installation(self, *, again: bool = False) -> int:
        """This installation's number, for writing; registers its writer with the server.

        Where somebody else recorded events of this writer (the database was restored from their backup), the home
        gets a new writer. `again` asks the server again, since somebody may have done so meanwhile.
        """
        writer = self.journal.writer()
        if again or self._installation is None or self._registered_writer != writer:
            number = self._register(writer)
            if number is None and self._renew is not None:
                writer = self._renew()
                number = self._register(writer)
            if number is None:
                raise Refused(
                    "cannot write to the store: another person recorded events with this home's writer id",
                    hint="Write the store's URL in another form, for example with the port: that makes a new writer.",
                    operation=WRITE, file=self.url,
                )  # fmt: skip
            self._installation, self._registered_writer = number, writer
        return self._installation

    def _register(self, writer: str) -> int | None:
        """This installation's number; None where the writer's stream is another person's."""
        values = (self.vault, self._here(True), writer)
        number = self.run_query(lambda pipeline: pipeline.value("SELECT holdfast.settle(%s, %s, %s)", values), WRITE)
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
        return self.run_query(lambda pipeline: pipeline.query(sql.replace("?", "%s"), values))

    def listed_sessions(self) -> list[tuple[str, int]]:
        """Every session that can be seen, with its version: negative where all its events were withdrawn."""
        sql = "SELECT created_at, id, version FROM sessions WHERE vault = %s AND "
        parts = " UNION ALL ".join(sql + part for part in VISIBLE_PARTS)
        rows = self.run_query(lambda pipeline: pipeline.query(parts, (self.vault,) * len(VISIBLE_PARTS)))
        return [(id_, version) for _, id_, version in sorted(rows)]

    def may_write(self, session: str) -> bool:
        sql = (
            "SELECT 1 FROM sessions s WHERE s.vault = %s AND s.id = %s AND (s.owner = CURRENT_USER"
            " OR s.everyone = 'write' OR EXISTS (SELECT 1 FROM shares g"
            " WHERE g.session = s.ref AND g.person = CURRENT_USER AND g.writes))"
        )
        return self.run_query(lambda pipeline: pipeline.value(sql, (self.vault, session))) is not None

    def is_read_only(self, session: str) -> bool:
        """Whether somebody shares it for reading only; False for a session that is not there."""
        sql = "SELECT 1 FROM sessions s WHERE s.vault = %s AND s.id = %s"
        is_shared = self.run_query(lambda pipeline: pipeline.value(sql, (self.vault, session))) is not None
        return is_shared and not self.may_write(session)

    def own_id(self, session: str) -> str:
        sql = "SELECT holdfast.own_id(%s, %s)"
        return str(self.run_query(lambda pipeline: pipeline.value(sql, (self.vault, session))))

    def remembered(self, name: str) -> bytes | None:
        return self.read(lambda: self.tables.remembered(name), settled=False)

    def remembered_under(self, prefix: str) -> dict[str, bytes]:
        return self.read(lambda: self.tables.remembered_under(prefix), settled=False)

    def arrived(self, after: int, limit: int) -> list[Arrival]:
        return self.read(lambda: self.tables.arrived(after, limit), settled=False)

    def latest_place(self) -> int:
        return self.read(self.tables.latest_place, settled=False)

    def version(self) -> int:
        return self.read(self.tables.store_version, settled=False)

    def local_state_version(self) -> str:
        return self.read(self.tables.local_state_version)

    def local_state(self) -> LocalState:
        return self.read(self.tables.local_state)

    def listen(self) -> ChangeListener | None:
        from holdfast.store.postgres.connections import PostgresChangeListener

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

    # ── erasing, backups and repair ──────────────────────────────────────────────────────────────────────

    @property
    def team(self) -> PostgresTeam:
        from holdfast.store.postgres.members import PostgresTeam

        return PostgresTeam(self)

    def describe(self) -> StoreInfo:
        from holdfast.store.postgres import members

        return members.server_info(self)

    def erase(self, session: str, deletion: Draft) -> None:
        """Empties the rows; when their bytes leave the server's files is up to the server (docs/team.md)."""
        with self.transaction(about=session) as transaction:
            transaction.record(session, deletion)

    def is_own_stream(self, session: str, writer: str) -> bool:
        # Owners may record events of any writer in their sessions, and earlier versions let others continue a stream
        # that somebody had brought. An index answers each part, however long the stream is.
        put = "EXISTS (SELECT FROM events e WHERE e.session = s.ref AND e.writer = %s AND length(e.writer) <= 200"
        sql = (
            f"SELECT {put} AND e.put_by = CURRENT_USER) AND NOT {put} AND e.put_by < CURRENT_USER)"  # noqa: S608
            f" AND NOT {put} AND e.put_by > CURRENT_USER) FROM sessions s WHERE s.vault = %s AND s.id = %s"
        )
        return bool(
            self.run_query(lambda pipeline: pipeline.value(sql, (writer, writer, writer, self.vault, session)))
        )

    def may_repair(self, session: str) -> bool:
        sql = "SELECT owner <> CURRENT_USER FROM sessions WHERE vault = %s AND id = %s"
        return not self.run_query(lambda pipeline: pipeline.value(sql, (self.vault, session)))

    def unsound(self, session: str) -> UnsoundEvents | None:
        from holdfast.store.postgres import repair

        own = self.may_repair(session)
        return self.read(lambda: repair.unsound(self.tables, session, own=own))

    def backup(self, path: str) -> tuple[NotCopied, ...]:
        from holdfast.store.sqlite import backup

        return backup.write_backup(self, path)

    def restore(self, path: str, refuses: RefusalCheck = lambda _session, _events: None) -> CopyResult:
        from holdfast.store.sqlite import backup

        return backup.restore(self, path, refuses)

    def check(self) -> Iterator[Damage]:
        from holdfast.store.postgres import repair

        return repair.check(self)

    def repair(self) -> list[str]:
        from holdfast.store.postgres import repair

        return repair.repair(self)
