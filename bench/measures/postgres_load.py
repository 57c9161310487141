"""Fills a team's store quickly: events in real chains, with everything derived by the journal's functions.

Rows are written by COPY, with all indexes in place, from as many processes as there are cores, and the store
checks samples of them. Texts come from a stock, so that each is split into words once.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import msgspec
import psycopg

from holdfast.core import view
from holdfast.core.canonical import canonical_json
from holdfast.core.envelope import Event, make_event
from holdfast.core.events import (
    TYPE_OF,
    AgentCompleted,
    AgentProgressed,
    AgentStarted,
    AliasGiven,
    CommandRan,
    ContextMeasured,
    DecisionMade,
    EventData,
    FileChanged,
    MessageExchanged,
    NoteAdded,
    ProjectFacts,
    SessionCompleted,
    SessionStarted,
    TaskAdded,
    TaskCompleted,
    TaskStarted,
    searched_text,
)
from holdfast.core.fold import apply
from holdfast.core.state import FOLD_VERSION, State, freeze
from holdfast.core.text import split_words
from holdfast.store.tables import is_due, snapshots_to_keep, summary
from measures.append import text as common

EVENTS_EACH = 100  # in a session
PROJECTS = 50
_STOCK = 4_000  # texts
_YEAR = 365 * 86_400_000
_FIRST_MS = 1_760_000_000_000
_EVENT = "place, session, clock, seq, at, v, writer, type, actor, key, put_by, body, prev, hash, data, salt"
_SESSION = (
    "ref, vault, owner, everyone, id, version, latest, project, created_at, updated_at, ended_at, goal, status,"
    " progress, name, device, working_ms, archived, deleted"
)


class LoadJob(NamedTuple):
    """Sessions to make: from number `first` on, `sessions` of them, of these people in turn."""

    url: str
    vault: int
    people: Sequence[str]
    first: int
    sessions: int
    place: int = 0  # of the event before the first


class StockEvent(NamedTuple):
    """What an event says, with all that follows from it alone."""

    data: EventData
    type: str
    version: int
    canonical: bytes
    words: list[str]


def fill(url: str, vault: int, people: Sequence[str], sessions: int, *, first: int = 1) -> float:
    """Make so many sessions of `EVENTS_EACH` events; gives the seconds that took."""
    begin = time.perf_counter()
    processes = min(os.cpu_count() or 1, max(1, sessions // 100))
    share = -(-sessions // processes)
    with psycopg.connect(url, autocommit=True) as connection:
        ((place,),) = connection.execute("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM holdfast.places")
        jobs = [
            LoadJob(url, vault, people, first + offset, min(share, sessions - offset), place + offset * EVENTS_EACH)
            for offset in range(0, sessions, share)
        ]
        _projects(connection, vault, people)
        if len(jobs) == 1:
            _load(jobs[0])
        else:
            with multiprocessing.get_context("spawn").Pool(processes) as pool:
                pool.map(_load, jobs, chunksize=1)
        connection.execute("SELECT setval('holdfast.places', %s)", (place + sessions * EVENTS_EACH,))
        connection.execute(
            "SELECT setval(pg_get_serial_sequence('holdfast.sessions', 'ref'), max(ref)) FROM holdfast.sessions"
        )
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")
    return time.perf_counter() - begin


def _projects(connection: psycopg.Connection[Any], vault: int, people: Sequence[str]) -> None:
    """Everybody works at five of the team's projects; each told the store where it is pushed to."""
    for number, person in enumerate(people):
        for at in range(5):
            project = _project(number + at)
            connection.execute(
                "INSERT INTO holdfast.projects (vault, person, id, name) VALUES (%s, %s, %s, %s)"
                " ON CONFLICT DO NOTHING",
                (vault, person, project.id, project.name),
            )
            connection.execute(
                "INSERT INTO holdfast.evidence (vault, kind, value, project, person)"
                " VALUES (%s, 'remote', %s, %s, %s) ON CONFLICT DO NOTHING",
                (vault, project.remote, project.id, person),
            )


def _project(number: int) -> ProjectFacts:
    name = f"service-{number % PROJECTS}"
    return ProjectFacts(
        id=f"project-{number % PROJECTS:04}", name=name, path=f"/home/me/{name}", remote=f"git.corp/{name}"
    )


# ── one process ──────────────────────────────────────────────────────────────────────────────────────────


def _load(job: LoadJob) -> None:
    """A line for each table: COPY needs one to itself."""
    with ExitStack() as stack:
        targets = []
        for table, columns in (
            ("events", _EVENT), ("sessions", _SESSION), ("words", "session, word"),
            ("snapshots", "session, person, count, clock, fold, state"),
        ):  # fmt: skip
            connection = stack.enter_context(psycopg.connect(job.url))
            connection.execute("SET synchronous_commit = off")
            copy = f"COPY holdfast.{table} ({columns}) FROM STDIN"
            targets.append(stack.enter_context(connection.cursor().copy(copy)).write)
        aliases = _rows(job, *targets)
    with (
        psycopg.connect(job.url) as connection,
        connection.cursor().copy("COPY holdfast.aliases (alias, session) FROM STDIN") as copy_to,
    ):
        copy_to.write("".join(aliases))


def _rows(job: LoadJob, events: Any, sessions: Any, words: Any, snapshots: Any) -> list[str]:
    rng = random.Random(job.first)
    stock = EventStock()
    names: list[str] = []
    place = job.place
    for number in range(job.first, job.first + job.sessions):
        owner = job.people[number % len(job.people)]
        stored = StoredSession(number, owner, stock, rng)
        lines = []
        for event in stored.log:
            place += 1
            lines.append(_event(place, number, owner, event))
        events("".join(lines))
        row = summary(stored.state)
        sessions(_line(
            number, job.vault, owner, "", stored.state.session, stored.state.count, place, *row[:10],
            None if row.archived is None else int(row.archived), int(row.deleted),
        ))  # fmt: skip
        words("".join(f"{number}\t{word}\n" for word in sorted(stored.words)))
        snapshots("".join(
            f"{number}\t{owner}\t{count}\t{clock}\t{FOLD_VERSION}\t\\\\x{frozen.hex()}\n"
            for count, (clock, frozen) in stored.snapshots.items()
        ))  # fmt: skip
        names += [f"{_escaped(alias)}\t{number}\n" for alias in view.lookup_names(stored.state)]
    return names


def _event(place: int, session: int, owner: str, event: Event) -> str:
    prev = "\\N" if event.prev is None else f"\\\\x{event.prev}"
    key = "\\N" if event.key is None else event.key
    data, salt = event.data or b"", event.salt or b""
    return (
        f"{place}\t{session}\t{event.clock}\t{event.seq}\t{event.at}\t{event.v}\t{event.writer}\t{event.type}\t{event.actor}\t{key}"
        f"\t{owner}\t\\\\x{event.body}\t{prev}\t\\\\x{event.hash}\t\\\\x{data.hex()}\t\\\\x{salt.hex()}\n"
    )


def _line(*values: object) -> str:
    return "\t".join("\\N" if value is None else _escaped(str(value)) for value in values) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


# ── what the sessions say ────────────────────────────────────────────────────────────────────────────────


class EventStock:
    """Texts, and whole events that many sessions have in common."""

    def __init__(self) -> None:
        rng = random.Random(7)
        syllables = ["ra", "lo", "ti", "men", "su", "ker", "pa", "vi", "no", "del", "gri", "ost"]
        syllable_words = ["".join(parts) for parts in itertools.product(syllables, repeat=3)]
        weights = [1 / (rank + 1) for rank in range(len(syllable_words))]
        self.texts = [f"{common(n)} {' '.join(rng.choices(syllable_words, weights, k=3))}" for n in range(_STOCK)]
        self._events: dict[str, StockEvent] = {}

    def event(self, name: str, data: EventData | None = None) -> StockEvent:
        """The event of this name; made of `data` when it is asked for the first time."""
        event = self._events.get(name)
        if event is None:
            assert data is not None
            event = self._events[name] = make_stock_event(data)
        return event

    def pick(self, kind: str, number: int) -> StockEvent:
        """One of the stock's events of a kind."""
        number %= _STOCK
        name = f"{kind}{number}"
        return self._events.get(name) or self.event(name, _DATA[kind](number, self.texts[number]))


def make_stock_event(data: EventData) -> StockEvent:
    kind = TYPE_OF[type(data)]
    words = split_words(searched_text(kind, data)) if kind.searched_fields else []
    return StockEvent(data, kind.name, kind.version, canonical_json(msgspec.to_builtins(data)), words)


_DATA: dict[str, Any] = {
    "message": lambda n, _: MessageExchanged(role="user" if n % 2 else "assistant"),
    "file": lambda n, _: FileChanged(
        path=f"src/part{n % 40}/module{n % 97}.py", action="modified", agent="coder-1", lines_added=n % 60,
        lines_removed=n % 17, hash_after=f"{n:064x}",
    ),
    "command": lambda n, _: CommandRan(command=f"make test PART={n % 40}", code=int(n % 9 == 0), duration_ms=n * 7),
    "tokens": lambda n, _: ContextMeasured(tokens=1_000 + n * 40, window=200_000),
    "progress": lambda n, _: AgentProgressed(id="coder-1", progress=(n % 100) / 100),
    "note": lambda _, text: NoteAdded(text=text),
    "decision": lambda _, text: DecisionMade(chosen=text, options=("this", "that"), why="it is simpler"),
    "done": lambda _, text: AgentCompleted(id="architect-1", summary=text, tokens=12_000),
    "completed": lambda _, __: SessionCompleted(),
}  # fmt: skip
_MIX = (
    "message", "file", "command", "message", "tokens", "progress", "message", "file", "command", "note",
    "message", "file", "message", "command", "tokens", "message", "file", "decision", "message", "progress",
)  # fmt: skip


def session_events(number: int, stock: EventStock, rng: random.Random) -> Iterator[StockEvent]:
    """What happens in a session: mostly messages, files, commands; a text now and then."""
    text = stock.texts[rng.randrange(_STOCK)]
    rare = f"ticket{number:07}"
    started = SessionStarted(goal=f"Goal {number}: {text} {rare}", project=_project(number), device="desk")
    yield make_stock_event(started)
    yield make_stock_event(AliasGiven(format="timer", id=f"alias-{number:07}"))
    yield stock.event("architect", AgentStarted(id="architect-1", type="architect", task="Design the flow"))
    for task in range(4):
        yield stock.event(f"task{task}", TaskAdded(id=f"t{task}", text=f"Step {task}: {stock.texts[task]}"))
    yield stock.pick("done", rng.randrange(_STOCK))
    yield stock.event("coder", AgentStarted(id="coder-1", type="coder", task="Write it"))
    for step in range(EVENTS_EACH - 14):
        yield stock.pick(_MIX[step % len(_MIX)], rng.randrange(_STOCK))
    for task in range(2):
        yield stock.event(f"start{task}", TaskStarted(id=f"t{task}"))
        yield stock.event(f"finish{task}", TaskCompleted(id=f"t{task}", outcome="works"))
    yield stock.pick("completed" if number % 20 else "message", 0)


class StoredSession:
    """A session with everything that a store keeps of it, as if its events had come in one after the other."""

    def __init__(self, number: int, owner: str, stock: EventStock, chance: random.Random) -> None:
        session = str(_uuid(chance))
        self.state = State(session=session)
        self.log: list[Event] = []
        self.words: set[str] = set()
        self.snapshots: dict[int, tuple[int, bytes]] = {}
        at = _FIRST_MS + (number * 7_919_000) % _YEAR
        prev, size, last = None, 0, 0
        salts = chance.randbytes(16 * EVENTS_EACH)
        for seq, item in enumerate(session_events(number, stock, chance), 1):
            at += 20_000
            event = make_event(
                session=session, writer=f"writer-{owner}", seq=seq, prev=prev, clock=at * 1000, at=at, actor=owner,
                type=item.type, version=item.version, data=item.canonical, salt=salts[16 * seq - 16 : 16 * seq],
            )  # fmt: skip
            prev = event.hash
            self.log.append(event)
            apply(self.state, event, item.data)
            self.words.update(item.words)
            if is_due(seq - last, size):
                frozen = freeze(self.state)
                last, size = seq, len(frozen)
                self.snapshots[seq] = (event.clock, frozen)
                kept = snapshots_to_keep(list(self.snapshots))
                self.snapshots = {count: found for count, found in self.snapshots.items() if count in kept}


def _uuid(chance: random.Random) -> str:
    name = chance.randbytes(16).hex()
    return f"{name[:8]}-{name[8:12]}-4{name[13:16]}-8{name[17:20]}-{name[20:]}"
