"""The rows of Goose's database of conversations. Versions differ in their columns; what is not there is not asked
for. Texts are taken as bytes: not all of them need be UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from holdfast.capture.database import AgentDatabase

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


class Database(AgentDatabase):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._columns: dict[str, tuple[str, ...]] = {}

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
        for cells in self.connection.execute(query, (of,) if of is not None else ()):
            yield Row(names, cells)

    def _known(self, table: str) -> tuple[str, ...]:
        if table not in self._columns:
            found = self.connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
            self._columns[table] = tuple(str(name) for (name,) in found)
        return self._columns[table]
