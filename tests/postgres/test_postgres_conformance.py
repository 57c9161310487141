"""The PostgreSQL store passes the store conformance suite, for an ordinary role."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from holdfast.store.address import PostgresAddress
from holdfast.store.conformance import ANNA, StoreConformance, Ticks
from holdfast.store.interface import Store
from holdfast.store.postgres import PostgresStore, admin
from tests.support.postgres.fixtures import prepared
from tests.support.postgres.server import Server


class TestPostgres(StoreConformance):
    shared = True

    @pytest.fixture(autouse=True)
    def _served(self, postgres: Server, database: str) -> None:
        self.server, self.database = postgres, database
        self.person = f"anna_{secrets.token_hex(4)}"
        self.vaults: dict[str, str] = {}
        postgres.role(self.person)

    def open_store(
        self, name: str = "one", *, writer: str = ANNA, wall: Callable[[], int] | None = None, machine: str = "one"
    ) -> Store:
        if name == "newer" and name not in self.vaults:
            # A newer version affects the whole database: use another one.
            self.database = prepared(self.server, f"newer_{secrets.token_hex(4)}")
        if name not in self.vaults:
            self.vaults[name] = f"{self.person}-{name}"
            with admin.connected(self._address(self.vaults[name]), "make a vault") as line:
                admin.admit_to_vault(line, admin.make_vault(line, self.vaults[name]), self.person)
        address = self._address(self.vaults[name], person=self.person)
        return PostgresStore(address, writer=lambda: writer, wall=wall or Ticks(), installation=lambda _: machine)

    def make_newer(self, name: str) -> None:
        self.server.sql("UPDATE holdfast.facts SET value = '1000' WHERE name = 'version'", database=self._name())

    def _name(self) -> str:
        return urlsplit(self.database).path.removeprefix("/")

    def _address(self, vault: str, *, person: str = "postgres") -> PostgresAddress:
        return PostgresAddress(f"{self.database.replace('postgres@', person + '@', 1)}&vault={vault}")
