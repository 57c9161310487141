"""A team's store for tests of commands: an empty database on this process's server, and people in it."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Calling
from tests.support.postgres.server import Server


class Town:
    """An empty database, and three people who can log in.

    Their names are unique, since roles belong to the server.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        mark = secrets.token_hex(4)
        self.name = f"town_{mark}"
        self.ada, self.ben, self.eve = (server.role(f"{name}_{mark}") for name in ("ada", "ben", "eve"))
        self.owner = server.database(self.name)

    def url(self, person: str, *, password: str | None = None) -> str:
        return self.server.url(self.name, person, password=password)

    def close(self) -> None:
        self.server.drop(self.name)


class Member(Calling):
    """Calls the program as one person of a team after another, each with a home of their own."""

    def __init__(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], town: Town
    ) -> None:
        super().__init__(root, monkeypatch, capsys)
        self.root = root
        self.town = town

    def at(self, url: str | None) -> None:
        """Uses this store from now on, or the home's own."""
        if url is None:
            self.patch.delenv("HOLDFAST_STORE", raising=False)
        else:
            self.patch.setenv("HOLDFAST_STORE", url)

    def be(self, person: str) -> None:
        """Switches to this person's device."""
        self.patch.setenv("HOLDFAST_HOME", str(self.root / f"home-{person}"))
        self.at(self.town.url(person))

    def goals(self) -> list[Any]:
        return [row["goal"] for row in self.document("history", "--all-projects")["sessions"]]
