"""A team on one server: machines that write concurrently, and the check that everything acknowledged is there.

As a script, it is some of the machines: it reads a task from its input, and prints what was acknowledged, as one line
of JSON each, immediately.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple, Self, TextIO
from urllib.parse import urlsplit

from holdfast.core.errors import Busy, Unreachable
from holdfast.core.events import NoteAdded
from holdfast.store.address import PostgresAddress
from holdfast.store.interface import Draft, Store
from holdfast.store.postgres import PostgresStore, pipeline
from holdfast.store.postgres import admin as postgres_admin

NOW: Final = 1_800_000_000_000  # all clocks are stopped: only the log orders events


class Team:
    """A vault of its own in a database, and an ordinary member of it, who works on many machines."""

    def __init__(self, server: Any, database: str, *, line: Any = None) -> None:
        self.server, self.name = server, urlsplit(database).path.removeprefix("/")
        self.person = server.role(f"anna_{secrets.token_hex(4)}")
        self.vault = f"vault-{self.person}"
        self.line = line
        admin = PostgresAddress(f"{server.url(self.name, socket=True)}&vault={self.vault}")
        with postgres_admin.connected(admin, "make a vault") as own:
            postgres_admin.admit_to_vault(own, postgres_admin.make_vault(own, self.vault), self.person)

    def url(self, through: Any = None) -> str:
        """Of the server, or of a proxy to it. On its socket no password is needed."""
        other = through or self.line
        url = other.url(self.name, self.person) if other else self.server.url(self.name, self.person, socket=True)
        return f"{url}{'&' if '?' in url else '?'}vault={self.vault}"

    def store(self, name: str = "laptop", *, through: Any = None) -> PostgresStore:
        """The store of the machine with this name."""
        return opened(self.url(through), name)

    def begin(self, sessions: Iterable[str]) -> list[str]:
        """Start sessions and return their ids. No two share a lock by coincidence: tests check who waits for whom."""
        from holdfast.store.conformance import draft, started

        made: dict[int, str] = {}
        for number, _ in enumerate(sessions):
            while len(made) <= number:
                session = f"{secrets.token_hex(4)}-2222-4333-8444-{number:012x}"
                made.setdefault(pipeline.lock_number(session), session)
        ids = list(made.values())
        with closing(self.store("desk")) as store, store.transaction() as transaction:
            for id_ in ids:
                transaction.record(id_, draft(started()))
        return ids


def opened(url: str, name: str) -> PostgresStore:
    writer = name.encode().hex().ljust(20, "0")[-20:]
    return PostgresStore(
        PostgresAddress(url), writer=lambda: writer, wall=lambda: NOW * 1000, installation=lambda _: name
    )


def note(store: Store, session: str, text: str) -> str:
    """Add a note; returns the hash of its event."""
    with store.transaction() as transaction:
        event = transaction.record(session, Draft(NoteAdded(text=text), NOW, "anna"))
    assert event is not None
    return event.hash


# ── machines as processes ────────────────────────────────────────────────────────────────────────────────


class Task(NamedTuple):
    """What one process does: these machines, each a thread with its own store, add so many notes."""

    url: str
    machines: list[str]
    sessions: list[str]
    notes: int
    seconds: float = 0.0  # a duration instead of a number


class Outcome(NamedTuple):
    """An acknowledged note; without a hash, whether it was recorded is not known."""

    session: str
    text: str
    hash: str | None


def run_task(task: Task, report: Callable[[Outcome], None]) -> None:
    """Add the notes, and retry after failures that have recorded nothing."""
    until = time.monotonic() + task.seconds

    def machine(name: str, order: int) -> None:
        sessions = task.sessions[::-1] if order % 2 else task.sessions
        store = with_retries(lambda: opened(task.url, name))
        number = 0
        while number < task.notes or time.monotonic() < until:
            session, text = sessions[number % len(sessions)], f"{name} {number}"
            try:
                report(Outcome(session, text, with_retries(lambda: note(store, session, text))))  # noqa: B023 (called at once)
            except Unreachable as error:
                if "not known" not in error.message:
                    raise
                report(Outcome(session, text, None))
            number += 1
        store.close()

    threads = [threading.Thread(target=machine, args=(name, order)) for order, name in enumerate(task.machines)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def with_retries(attempt: Callable[[], Any]) -> Any:
    until = time.monotonic() + 60
    while True:
        try:
            return attempt()
        except (Busy, Unreachable) as error:
            if "not known" in error.message or time.monotonic() > until:
                raise
        time.sleep(0.02)


class Process:
    """Machines in a process."""

    def __init__(self, task: Task) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()

    def outcomes(self) -> list[Outcome]:
        out, err = self._process.communicate()  # `tests.support.processes` limits the wait
        assert (self._process.returncode, err) == (0, "")
        return [Outcome(*json.loads(line)) for line in out.splitlines()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


# ── checks ───────────────────────────────────────────────────────────────────────────────────────────────


def assert_nothing_lost(store: PostgresStore, sessions: Sequence[str], outcomes: Iterable[Outcome]) -> int:
    """Nothing lost, nothing twice, nothing out of order; returns the number of notes."""
    from holdfast.store.conformance import assert_sound

    assert_sound(store)
    recorded = list(outcomes)
    doubtful = {line.text for line in recorded if line.hash is None}
    events = [event for session in sessions for event in store.events(session)]
    hashes = Counter(event.hash for event in events)
    assert set(hashes.values()) == {1}
    assert {line.hash for line in recorded if line.hash is not None} <= set(hashes)
    streams = Counter((event.session, event.writer) for event in events)
    assert {(event.session, event.writer, event.seq) for event in events} == {
        (session, writer, seq) for (session, writer), most in streams.items() for seq in range(1, most + 1)
    }
    texts: list[str] = []
    for session in sessions:
        state = store.state(session)
        assert state is not None
        texts += [item.text for item in state.notes]
    assert len(set(texts)) == len(texts)
    expected = {line.text for line in recorded}
    assert expected - doubtful <= set(texts) <= expected
    for session in sessions:
        state = store.state(session)
        assert state is not None
        for name in {text.split()[0] for text in texts}:
            numbers = [int(item.text.split()[1]) for item in state.notes if item.text.startswith(f"{name} ")]
            assert numbers == sorted(numbers)
    return len(texts)


def main(task_input: TextIO, out: TextIO) -> None:
    guard = threading.Lock()

    def report(outcome: Outcome) -> None:
        with guard:
            print(json.dumps(outcome), file=out, flush=True)

    run_task(Task(*json.loads(task_input.readline())), report)


if __name__ == "__main__":
    main(sys.stdin, sys.stdout)
