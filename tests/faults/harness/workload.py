"""A workload over the whole life of a home, to be recorded: run under strace, `workload.py ROOT ACKS [SYNCHRONOUS]`.

After each step, what was acknowledged is written as one JSON line to the file ACKS. The trace has these writes among
the others, and so shows what had been acknowledged at every moment.
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


class Workload:
    def __init__(self, root: str, acks: str) -> None:
        self.home = os.path.join(root, "home")
        self.project = os.path.join(root, "project")
        self.acks = os.open(acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.known: set[str] = set()

    def ack(self, keeper: Keeper | None = None, promised: Mapping[str, object] = MappingProxyType({})) -> None:
        """Acknowledge the events in the log, and anything else that is given."""
        if keeper is None:
            with self.keeper() as opened:
                hashes = _hashes(opened)
        else:
            hashes = _hashes(keeper)
        new = sorted(hashes - self.known)
        self.known |= hashes
        os.write(self.acks, json.dumps({"hashes": new, **promised}).encode() + b"\n")

    def keeper(self) -> Keeper:
        return Keeper.open(self.project, home=self.home, actor="tester")

    def command(self, *argv: str, **promised: object) -> None:
        """Run a command as the command line does: it opens and closes the home."""
        with contextlib.redirect_stdout(io.StringIO()):
            code = main(list(argv))
        assert code == 0, argv
        self.ack(promised=promised)

    def notes(self, count: int, *, checkpoint: int, size: int = 1) -> None:
        """One process that appends for a long time, with checkpoints in between."""
        with self.keeper() as keeper:
            session = _current_session(keeper, checkpoint)
            for number in range(count):
                session.note(f"note {number} " + "x" * size)
                self.ack(keeper)

    def two_at_once(self, rounds: int) -> None:
        """Two processes with the home open append in turn."""
        to_child, from_parent = os.pipe()
        to_parent, from_child = os.pipe()
        child = os.fork()
        if not child:
            with self.keeper() as keeper:
                session = _current_session(keeper, 10)
                for _ in range(rounds):
                    os.read(to_child, 1)
                    session.note("from the other process")
                    self.ack(keeper)
                    os.write(from_child, b"!")
            os._exit(0)
        with self.keeper() as keeper:
            session = _current_session(keeper, 6)
            for _ in range(rounds):
                session.note("from this process")
                self.ack(keeper)
                os.write(from_parent, b"!")
                os.read(to_parent, 1)
                self.known |= _hashes(keeper)
            os.waitpid(child, 0)
            session.note("alone again")
            self.ack(keeper)


def _current_session(keeper: Keeper, checkpoint: int) -> SessionHandle:
    session = keeper.current()
    assert session is not None
    # Far more often than by default: a short workload must include checkpoints too.
    cast(SqliteStore, keeper.store())._connection.pragma("wal_autocheckpoint", checkpoint)
    return session


def _hashes(keeper: Keeper) -> set[str]:
    store = keeper.store()
    events: list[Event] = [event for session in store.sessions() for event in store.events(session)]
    return {event.hash for event in events}


def run_workload(root: str, acks: str) -> None:
    workload = Workload(root, acks)
    os.chdir(workload.project)
    os.environ["HOLDFAST_HOME"] = workload.home
    workload.command("start", "the goal", "--scope", "store")
    workload.command("note", "the first note")
    workload.command("config", "set", "history.limit", "31", config="31")
    workload.command("agent", "start", "a1", "--type", "coder")
    workload.notes(14, checkpoint=8)
    workload.notes(3, checkpoint=1000, size=20_000)
    workload.two_at_once(4)
    workload.command("config", "set", "history.limit", "32", config="32")
    workload.command("start", f"with {CANARY}", "--replace")
    workload.command("note", f"{CANARY} again")
    backup = os.path.join(workload.home, "copy.db")
    workload.command("backup", backup, backup="copy.db")
    workload.command("delete", "@", "--confirm", "--force", erased=True)
    workload.command("start", "the last goal")
    workload.notes(6, checkpoint=1000)
    workload.command("stop")


def without_full_sync(level: str) -> None:
    """Weaken the store's durability, to show that the power-loss test would notice."""
    real = opening._open

    def open_weakened(path: str) -> object:
        connection = real(path)
        connection.execute(f"PRAGMA synchronous = {level}")
        return connection

    opening._open = open_weakened  # type: ignore[assignment]


if __name__ == "__main__":
    if len(sys.argv) > 3:
        without_full_sync(sys.argv[3])
    run_workload(sys.argv[1], sys.argv[2])
