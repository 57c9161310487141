"""Check the file, the chains of events, and whether everything derived follows from the log.

Each check is independent: it reports what it cannot read, and the next one goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TypeVar

import apsw
import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.state import FOLD_VERSION
from holdfast.store.checks import StoredSession, session_damage
from holdfast.store.interface import Damage
from holdfast.store.sqlite import connection as sqlite_connection
from holdfast.store.sqlite import local_state, quarantine, schema
from holdfast.store.sqlite.tables import NO_PLACE, SqliteTables
from holdfast.store.tables import SessionSummary

_Result = TypeVar("_Result")
_MAX_LINES = 20  # of one kind: more would not be read
# What reading a damaged row can raise: its columns may hold anything.
_UNREADABLE = (apsw.Error, HoldfastError, msgspec.MsgspecError, ArithmeticError, AttributeError, LookupError,
               TypeError, ValueError)  # fmt: skip


def check(connection: apsw.Connection, tables: SqliteTables, path: str) -> Iterator[Damage]:
    """Everything that is wrong, as of one time, while other processes may go on writing."""
    try:
        connection.execute("BEGIN")
    except apsw.Error as error:
        return iter([Damage("file", f"the store cannot be read: {error}")])
    try:
        damage = list(_findings(connection, tables, path))
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return iter(damage)


def _findings(connection: apsw.Connection, tables: SqliteTables, path: str) -> Iterator[Damage]:
    yield from _run_check("file", lambda: _check_file(connection, path))
    yield from _run_check("chain", lambda: _check_log(connection))
    yield from _run_check("aside", lambda: _set_aside(path))
    sessions: list[tuple[int, str]] = []
    yield from _run_check("listing", lambda: _check_sessions(connection, sessions))
    indexed = _IndexedWords(connection)
    known: set[str] = set()
    yield from _run_check("aside", lambda: _known_missing(connection, known))
    for ref, session in sessions:
        check_session = partial(_check_session, connection, tables, ref, session, known, indexed)
        yield from _run_check("chain", check_session, session)


def _run_check(name: str, run_check: Callable[[], Iterable[Damage]], session: str | None = None) -> Iterator[Damage]:
    try:
        yield from run_check()
    except _UNREADABLE as error:
        yield _cannot_be_read(name, error, session)


def _cannot_be_read(name: str, error: BaseException, session: str | None) -> Damage:
    return Damage(name, f"it cannot be read: {str(error) or type(error).__name__}", session)


# ── the file ─────────────────────────────────────────────────────────────────────────────────────────────


def _check_file(connection: apsw.Connection, path: str) -> Iterator[Damage]:
    for part in sqlite_connection.header_damage(path):
        yield Damage("file", f"the header is damaged: {part}")
    for line in integrity_problems(connection, f"({_MAX_LINES})"):
        yield Damage("file", line)
    for difference in schema_differences(connection):
        yield Damage("file", difference)
    for table in local_state.mistyped(connection):
        yield Damage("file", f"a value in {table} has the wrong type")


def integrity_problems(connection: apsw.Connection, limit: str = "") -> Iterator[str]:
    """SQLite's own findings."""
    for (message,) in connection.execute(f"PRAGMA integrity_check{limit}"):
        for line in str(message).split("\n"):
            if line not in ("ok", "*** in database main ***"):
                yield line


def schema_differences(connection: apsw.Connection) -> Iterator[str]:
    """Where the tables are not those of this version."""
    *_, expected = schema.due_tables()
    present = schema.tables_of(connection)
    for name in sorted(expected.keys() | present.keys()):
        if name not in present:
            yield f"{name} is missing"
        elif name not in expected:
            yield f"{name} is not part of the store"
        elif expected[name] != present[name]:
            yield f"{name} was altered"


def _set_aside(path: str) -> Iterator[Damage]:
    for name in quarantine.entries(path):
        yield Damage("aside", f"{name} was set aside by a repair")


# ── the log as a whole ───────────────────────────────────────────────────────────────────────────────────


def _check_log(connection: apsw.Connection) -> Iterator[Damage]:
    run = connection.execute
    for column, table in (("session", "sessions"), ("writer", "writers")):
        rows = run(
            f"SELECT {column}, count(*) FROM events WHERE {column} NOT IN (SELECT ref FROM {table})"  # noqa: S608
            f" GROUP BY {column}"
        )
        for ref, count in islice(rows, _MAX_LINES):
            yield Damage("chain", f"{column} number {ref} is missing; events that name it: {count}")
    if list(run(f"SELECT 1 FROM facts WHERE name = 'place' AND {NO_PLACE}")):  # noqa: S608 (constants)
        yield Damage("chain", "the position of the next event is not a number")


def _check_sessions(connection: apsw.Connection, sessions: list[tuple[int, str]]) -> Iterator[Damage]:
    for ref, name, version in connection.execute("SELECT ref, CAST(id AS BLOB), version FROM sessions ORDER BY ref"):
        session = name.decode(errors="replace")
        withdrawn = isinstance(version, int) and version < 0
        if withdrawn and not list(connection.execute("SELECT 1 FROM events WHERE session = ? LIMIT 1", (ref,))):
            continue
        if withdrawn or not version:
            yield Damage("listing", "the session is not listed", session)
        sessions.append((ref, session))


def _known_missing(connection: apsw.Connection, known: set[str]) -> Iterator[Damage]:
    known.update(str(row[0]) for row in connection.execute("SELECT name FROM facts WHERE name LIKE 'aside:%'"))
    return iter(())


class _IndexedWords:
    """The words of each session, in one pass over the index: one pass for each session would take for ever."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._rows: Iterator[tuple[int, str]] | None = None
        self._ahead: tuple[int, str] | None = None

    def words_of(self, ref: int) -> set[str]:
        """To be called once for each session, in ascending order."""
        if self._rows is None:
            self._rows = iter(self._connection.execute("SELECT session, word FROM words ORDER BY session"))
            self._ahead = next(self._rows, None)
        words: set[str] = set()
        while self._ahead is not None and self._ahead[0] <= ref:
            if self._ahead[0] == ref:
                words.add(self._ahead[1])
            self._ahead = next(self._rows, None)
        return words


# ── one session ──────────────────────────────────────────────────────────────────────────────────────────


def _check_session(
    connection: apsw.Connection, tables: SqliteTables, ref: int, session: str, known: set[str], indexed: _IndexedWords
) -> Iterator[Damage]:
    events = list(tables.tail(session, 0))
    rows = connection.execute("SELECT count, fold, state FROM snapshots WHERE session = ?", (ref,))
    snapshots = {count: frozen for count, fold, frozen in rows if fold == FOLD_VERSION}
    unreadable: list[Damage] = []
    listed = _read_or_report("listing", session, unreadable, lambda: _listed(connection, ref))
    words = _read_or_report("search", session, unreadable, lambda: indexed.words_of(ref))
    aliases = _read_or_report("search", session, unreadable, lambda: _aliases(connection, ref))
    yield from session_damage(session, events, StoredSession(snapshots, listed, words, aliases), known)
    yield from unreadable


def _read_or_report(
    name: str, session: str, unreadable: list[Damage], reader: Callable[[], _Result]
) -> _Result | None:
    """The result of `reader`; None, with a finding, if it fails, so that the rest of the session is still checked."""
    try:
        return reader()
    except _UNREADABLE as error:
        unreadable.append(_cannot_be_read(name, error, session))
        return None


def _listed(connection: apsw.Connection, ref: int) -> tuple[object, ...]:
    rows = connection.execute(f"SELECT {', '.join(SessionSummary._fields)} FROM sessions WHERE ref = ?", (ref,))  # noqa: S608
    return tuple(rows.fetchall()[0])


def _aliases(connection: apsw.Connection, ref: int) -> set[str]:
    return {row[0] for row in connection.execute("SELECT alias FROM aliases WHERE session = ?", (ref,))}
