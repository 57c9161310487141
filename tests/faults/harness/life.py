"""A whole life of a home, to be recorded: run as a script under strace, `life.py ROOT ACKS [SYNCHRONOUS]`.

After each thing that is done, what was promised is written as one JSON line to the file ACKS. The trace shows that
write among the others, and so what had been acknowledged at every moment.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

from holdfast.cli.main import main
from holdfast.core.envelope import Event
from holdfast.keeper.keeper import Keeper
from holdfast.keeper.session import SessionHandle
from holdfast.store.sqlite import SqliteStore
from holdfast.store.sqlite import connection as opening

CANARY = "cormorant" * 3


class Life:
    def __init__(self, root: str, acks: str) -> None:
        self.home = os.path.join(root, "home")
        self.project = os.path.join(root, "project")
        self.acks = os.open(acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.known: set[str] = set()

    def ack(self, keeper: Keeper | None = None, promised: Mapping[str, object] = MappingProxyType({})) -> None:
        """Promise what is in the log now, and whatever else is given."""
        if keeper is None:
            with self.keeper() as opened:
                found = _hashes(opened)
        else:
            found = _hashes(keeper)
        new = sorted(found - self.known)
        self.known |= found
        os.write(self.acks, json.dumps({"hashes": new, **promised}).encode() + b"\n")

    def keeper(self) -> Keeper:
        return Keeper.open(self.project, home=self.home, actor="tester")

    def command(self, *argv: str, **promised: object) -> None:
        """A command as the command line runs it: it opens the home, and closes it again."""
        with contextlib.redirect_stdout(io.StringIO()):
            code = main(list(argv))
        assert code == 0, argv
        self.ack(promised=promised)

    def notes(self, count: int, *, checkpoint: int, size: int = 1) -> None:
        """One process that appends for long, with checkpoints in between."""
        with self.keeper() as keeper:
            session = _here(keeper, checkpoint)
            for number in range(count):
                session.note(f"note {number} " + "x" * size)
                self.ack(keeper)

    def two_at_once(self, rounds: int) -> None:
        """Two processes with the home open, appending in turn."""
        to_child, from_parent = os.pipe()
        to_parent, from_child = os.pipe()
        child = os.fork()
        if not child:
            with self.keeper() as keeper:
                session = _here(keeper, 10)
                for _ in range(rounds):
                    os.read(to_child, 1)
                    session.note("from the other process")
                    self.ack(keeper)
                    os.write(from_child, b"!")
            os._exit(0)
        with self.keeper() as keeper:
            session = _here(keeper, 6)
            for _ in range(rounds):
                session.note("from this process")
                self.ack(keeper)
                os.write(from_parent, b"!")
                os.read(to_parent, 1)
                self.known |= _hashes(keeper)
            os.waitpid(child, 0)
            session.note("alone again")
            self.ack(keeper)


def _here(keeper: Keeper, checkpoint: int) -> SessionHandle:
    found = keeper.current()
    assert found is not None
    # Far more often than by default: what happens at checkpoints is to be seen in a short life too.
    cast(SqliteStore, keeper.store())._connection.pragma("wal_autocheckpoint", checkpoint)
    return found


def _hashes(keeper: Keeper) -> set[str]:
    store = keeper.store()
    found: list[Event] = [event for session in store.sessions() for event in store.events(session)]
    return {event.hash for event in found}


def live(root: str, acks: str) -> None:
    life = Life(root, acks)
    os.chdir(life.project)
    os.environ["HOLDFAST_HOME"] = life.home
    life.command("start", "the goal", "--scope", "store")
    life.command("note", "the first note")
    life.command("config", "set", "history.limit", "31", config="31")
    life.command("agent", "start", "a1", "--type", "coder")
    life.notes(14, checkpoint=8)
    life.notes(3, checkpoint=1000, size=20_000)
    life.two_at_once(4)
    life.command("config", "set", "history.limit", "32", config="32")
    life.command("start", f"with {CANARY}", "--replace")
    life.command("note", f"{CANARY} again")
    backup = os.path.join(life.home, "copy.db")
    life.command("backup", backup, backup="copy.db")
    life.command("delete", "@", "--confirm", "--force", erased=True)
    life.command("start", "the last goal")
    life.notes(6, checkpoint=1000)
    life.command("stop")


def without_full_sync(level: str) -> None:
    """The store as it must not be, to show that the power-loss test would see it."""
    real = opening._open

    def weaker(path: str) -> object:
        connection = real(path)
        connection.execute(f"PRAGMA synchronous = {level}")
        return connection

    opening._open = weaker  # type: ignore[assignment]


if __name__ == "__main__":
    if len(sys.argv) > 3:
        without_full_sync(sys.argv[3])
    live(sys.argv[1], sys.argv[2])
