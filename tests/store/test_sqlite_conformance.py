"""The SQLite store passes the store conformance suite."""

from __future__ import annotations

from collections.abc import Callable

import apsw

from holdfast.store.conformance import ANNA, StoreConformance, Ticks
from holdfast.store.interface import Store
from holdfast.store.sqlite import SqliteStore


class TestSqlite(StoreConformance):
    def open_store(
        self, name: str = "one", *, writer: str = ANNA, wall: Callable[[], int] | None = None, machine: str = "one"
    ) -> Store:
        return SqliteStore(str(self.place / f"{name}.db"), writer=lambda: writer, wall=wall or Ticks())

    def make_newer(self, name: str) -> None:
        connection = apsw.Connection(str(self.place / f"{name}.db"))
        connection.execute("CREATE TABLE later (x); PRAGMA user_version = 1000")
        connection.close()
