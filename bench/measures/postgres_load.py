"""Filling a team's store quickly: sealed events in real chains, everything derived by the functions the journal uses.

Rows go in by COPY, with all indexes in place, from as many processes as there are cores; what has to be true of them
is checked by the store itself, on samples. Texts are taken from a stock, so that each is split into words once.
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
_BEGIN = 1_760_000_000_000
_EVENT = "place, session, clock, seq, at, v, writer, type, actor, key, put_by, body, prev, hash, data, salt"
_SESSION = (
    "ref, vault, owner, everyone, id, version, latest, project, created_at, updated_at, ended_at, goal, status,"
    " progress, name, device, working_ms, archived, deleted"
)


class Job(NamedTuple):
    """Sessions to make: from number `first` on, `many` of them, of these people in turn."""

    url: str
    vault: int
    people: Sequence[str]
    first: int
    many: int
    place: int = 0  # of the event before the first


class Said(NamedTuple):
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
    with psycopg.connect(url, autocommit=True) as line:
        ((place,),) = line.execute("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM holdfast.places")
        jobs = [
            Job(url, vault, people, first + at, min(share, sessions - at), place + at * EVENTS_EACH)
            for at in range(0, sessions, share)
        ]
        _projects(line, vault, people)
        if len(jobs) == 1:
            _load(jobs[0])
        else:
            with multiprocessing.get_context("spawn").Pool(processes) as pool:
                pool.map(_load, jobs, chunksize=1)
        line.execute("SELECT setval('holdfast.places', %s)", (place + sessions * EVENTS_EACH,))
        line.execute(
            "SELECT setval(pg_get_serial_sequence('holdfast.sessions', 'ref'), max(ref)) FROM holdfast.sessions"
        )
        line.execute("VACUUM (ANALYZE)")
        line.execute("CHECKPOINT")
    return time.perf_counter() - begin


def _projects(line: psycopg.Connection[Any], vault: int, people: Sequence[str]) -> None:
    """Everybody works at five of the team's projects; each told the store where it is pushed to."""
    for number, person in enumerate(people):
        for at in range(5):
            project = _project(number + at)
            line.execute(
                "INSERT INTO holdfast.projects (vault, person, id, name) VALUES (%s, %s, %s, %s)"
                " ON CONFLICT DO NOTHING",
                (vault, person, project.id, project.name),
            )
            line.execute(
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


def _load(job: Job) -> None:
    """A line for each table: COPY needs one to itself."""
    with ExitStack() as stack:
        targets = []
        for table, columns in (
            ("events", _EVENT), ("sessions", _SESSION), ("words", "session, word"),
            ("snapshots", "session, person, count, clock, fold, state"),
        ):  # fmt: skip
            line = stack.enter_context(psycopg.connect(job.url))
            line.execute("SET synchronous_commit = off")
            copy = f"COPY holdfast.{table} ({columns}) FROM STDIN"
            targets.append(stack.enter_context(line.cursor().copy(copy)).write)
        aliases = _rows(job, *targets)
    with (
        psycopg.connect(job.url) as line,
        line.cursor().copy("COPY holdfast.aliases (alias, session) FROM STDIN") as to,
    ):
        to.write("".join(aliases))


def _rows(job: Job, events: Any, sessions: Any, found: Any, snapshots: Any) -> list[str]:
    chance = random.Random(job.first)
    stock = Stock()
    names: list[str] = []
    place = job.place
    for number in range(job.first, job.first + job.many):
        owner = job.people[number % len(job.people)]
        kept = Kept(number, owner, stock, chance)
        lines = []
        for event in kept.log:
            place += 1
            lines.append(_event(place, number, owner, event))
        events("".join(lines))
        shown = summary(kept.state)
        sessions(_line(
            number, job.vault, owner, "", kept.state.session, kept.state.count, place, *shown[:10],
            None if shown.archived is None else int(shown.archived), int(shown.deleted),
        ))  # fmt: skip
        found("".join(f"{number}\t{word}\n" for word in sorted(kept.words)))
        snapshots("".join(
            f"{number}\t{owner}\t{count}\t{clock}\t{FOLD_VERSION}\t\\\\x{frozen.hex()}\n"
            for count, (clock, frozen) in kept.snapshots.items()
        ))  # fmt: skip
        names += [f"{_escaped(alias)}\t{number}\n" for alias in view.lookup_names(kept.state)]
    return names


def _event(place: int, session: int, owner: str, one: Event) -> str:
    prev = "\\N" if one.prev is None else f"\\\\x{one.prev}"
    key = "\\N" if one.key is None else one.key
    data, salt = one.data or b"", one.salt or b""
    return (
        f"{place}\t{session}\t{one.clock}\t{one.seq}\t{one.at}\t{one.v}\t{one.writer}\t{one.type}\t{one.actor}\t{key}"
        f"\t{owner}\t\\\\x{one.body}\t{prev}\t\\\\x{one.hash}\t\\\\x{data.hex()}\t\\\\x{salt.hex()}\n"
    )


def _line(*values: object) -> str:
    return "\t".join("\\N" if value is None else _escaped(str(value)) for value in values) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


# ── what the sessions say ────────────────────────────────────────────────────────────────────────────────


class Stock:
    """Texts, and whole events that many sessions have in common."""

    def __init__(self) -> None:
        chance = random.Random(7)
        syllables = ["ra", "lo", "ti", "men", "su", "ker", "pa", "vi", "no", "del", "gri", "ost"]
        made = ["".join(some) for some in itertools.product(syllables, repeat=3)]
        often = [1 / (rank + 1) for rank in range(len(made))]
        self.texts = [f"{common(n)} {' '.join(chance.choices(made, often, k=3))}" for n in range(_STOCK)]
        self._said: dict[str, Said] = {}

    def said(self, name: str, data: EventData | None = None) -> Said:
        """The event of this name; made of `data` when it is asked for the first time."""
        found = self._said.get(name)
        if found is None:
            assert data is not None
            found = self._said[name] = said(data)
        return found

    def one(self, kind: str, number: int) -> Said:
        """One of the stock's events of a kind."""
        number %= _STOCK
        name = f"{kind}{number}"
        return self._said.get(name) or self.said(name, _DATA[kind](number, self.texts[number]))


def said(data: EventData) -> Said:
    kind = TYPE_OF[type(data)]
    found = split_words(searched_text(kind, data)) if kind.searched_fields else []
    return Said(data, kind.name, kind.version, canonical_json(msgspec.to_builtins(data)), found)


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


def story(number: int, stock: Stock, chance: random.Random) -> Iterator[Said]:
    """What happens in a session: mostly messages, files, commands; a text now and then."""
    text = stock.texts[chance.randrange(_STOCK)]
    rare = f"ticket{number:07}"
    started = SessionStarted(goal=f"Goal {number}: {text} {rare}", project=_project(number), device="desk")
    yield said(started)
    yield said(AliasGiven(format="timer", id=f"alias-{number:07}"))
    yield stock.said("architect", AgentStarted(id="architect-1", type="architect", task="Design the flow"))
    for task in range(4):
        yield stock.said(f"task{task}", TaskAdded(id=f"t{task}", text=f"Step {task}: {stock.texts[task]}"))
    yield stock.one("done", chance.randrange(_STOCK))
    yield stock.said("coder", AgentStarted(id="coder-1", type="coder", task="Write it"))
    for step in range(EVENTS_EACH - 14):
        yield stock.one(_MIX[step % len(_MIX)], chance.randrange(_STOCK))
    for task in range(2):
        yield stock.said(f"start{task}", TaskStarted(id=f"t{task}"))
        yield stock.said(f"finish{task}", TaskCompleted(id=f"t{task}", outcome="works"))
    yield stock.one("completed" if number % 20 else "message", 0)


class Kept:
    """A session with everything that a store keeps of it, as if its events had come in one after the other."""

    def __init__(self, number: int, owner: str, stock: Stock, chance: random.Random) -> None:
        session = str(_uuid(chance))
        self.state = State(session=session)
        self.log: list[Event] = []
        self.words: set[str] = set()
        self.snapshots: dict[int, tuple[int, bytes]] = {}
        at = _BEGIN + (number * 7_919_000) % _YEAR
        prev, size, last = None, 0, 0
        salts = chance.randbytes(16 * EVENTS_EACH)
        for seq, item in enumerate(story(number, stock, chance), 1):
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
