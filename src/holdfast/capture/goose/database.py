"""Goose's database of conversations, opened so that nothing is written: not to the file, and not beside it either.

Versions differ in their columns; what is not there is not asked for. Texts are taken as bytes: not all of them need
be UTF-8.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Self, TypeAlias
from urllib.parse import quote

import apsw

_PATIENCE: Final = 1_000  # ms, where Goose is writing
Cell: TypeAlias = "int | float | str | bytes | None"


class Row(NamedTuple):
    """A row by the names of its columns; those that a version does not have are None."""

    names: Sequence[str]
    cells: Sequence[Cell]

    def text(self, name: str) -> str | None:
        cell = self._cell(name)
        return cell.decode("utf-8", "replace") if type(cell) is bytes and cell else None

    def raw(self, name: str) -> bytes:
        cell = self._cell(name)
        return cell if type(cell) is bytes else b""

    def number(self, name: str) -> int | None:
        cell = self.text(name)
        sign = cell.lstrip("-") if cell else ""
        return int(cell) if cell and len(cell) < 20 and sign.isascii() and sign.isdecimal() else None

    def amount(self, name: str) -> float | None:
        try:
            found = float(self.text(name) or "x")
        except ValueError:
            return None
        return found if 0 <= found < 1e9 else None

    def _cell(self, name: str) -> Cell:
        return self.cells[self.names.index(name)] if name in self.names else None


class Database:
    def __init__(self, path: str) -> None:
        self._apart: tempfile.TemporaryDirectory[str] | None = None
        # Reading a database that nobody has open would still make files beside it, were it not called immutable.
        live = os.path.exists(f"{path}-wal")
        if live and not os.path.exists(f"{path}-shm"):
            path = self._copied(path)
        place = quote(os.path.abspath(path).replace(os.sep, "/").encode(errors="surrogateescape"))
        uri = f"file://{'' if place.startswith('/') else '/'}{place}?mode=ro{'' if live else '&immutable=1'}"
        self._columns: dict[str, tuple[str, ...]] = {}
        try:
            self._connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        except apsw.Error:
            self._clear()
            raise
        self._connection.set_busy_timeout(_PATIENCE)
        # Whoever made the file has no say in what is executed.
        self._connection.pragma("trusted_schema", False)
        self._connection.pragma("query_only", True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._clear()

    def _clear(self) -> None:
        if self._apart is not None:
            self._apart.cleanup()

    def _copied(self, path: str) -> str:
        """A copy to read, of a database with a log that Goose could not finish: finding out what is in it writes."""
        self._apart = tempfile.TemporaryDirectory(prefix="holdfast-")
        copy = os.path.join(self._apart.name, "sessions.db")
        for end in ("", "-wal"):
            shutil.copyfile(path + end, copy + end)
        return copy

    def rows(self, table: str, wanted: Iterable[str], *, of: str | None = None, order: str) -> Iterator[Row]:
        """Rows of a table with those of the wanted columns it has; `of` one conversation."""
        known = self._known(table)
        names = tuple(name for name in wanted if name in known)
        if not names or (of is not None and "session_id" not in known):
            return
        # Names come from the lists in this package, never from the file.
        columns = ", ".join(f'CAST("{name}" AS BLOB)' for name in names)
        where = " WHERE session_id = ?" if of is not None else ""
        by = f' ORDER BY "{order}"' if order in known else ""
        query = f'SELECT {columns} FROM "{table}"{where}{by}'  # noqa: S608
        for cells in self._connection.execute(query, (of,) if of is not None else ()):
            yield Row(names, cells)

    def _known(self, table: str) -> tuple[str, ...]:
        if table not in self._columns:
            found = self._connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
            self._columns[table] = tuple(str(name) for (name,) in found)
        return self._columns[table]
