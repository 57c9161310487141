"""Generated histories of whole stores, applied to any kind of store: all must end up the same.

A history is generated from a number. Each step depends on the number and on the events that the store returned, never
on anything that differs between kinds of stores.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from holdfast.core.canonical import MAX_SAFE_INTEGER, Json, canonical_json, digest
from holdfast.core.envelope import Event, find_problem, make_event
from holdfast.core.errors import NotFound
from holdfast.core.events import (
    TYPE_OF,
    AliasGiven,
    CommandRan,
    EventData,
    EventErased,
    NoteAdded,
    ProjectFacts,
    SessionArchived,
    SessionCompleted,
    SessionDeleted,
    SessionEdited,
    SessionStarted,
    SessionUnarchived,
    TaskAdded,
)
from holdfast.core.state import freeze
from holdfast.store.conformance import ANNA, DAY, START, Ticks
from holdfast.store.interface import UNSEEN, Draft, Filter, KnownProject, Store, Transaction
from tests.support.histories import GARBAGE, POOL, Step, play

# Words that differ, or not, by case, accents, script, and how SQL treats them.
WORDS: Final = (
    "shop", "Shop", "SHOPPING", "İstanbul", "ISTANBUL", "ıstanbul", "straße", "STRASSE", "e\u0301tude", "étude",
    "日本語",
    "שלום", "\u202egnp.exe", "🙂", "100%", "50_percent", "O'Brien", r"C:\new\table", "a\0b", "a\1b", "a\2b", "\1\1",
    "\0", "%s", "?", ";--", "ﬁle", "Ⅷ", "x" * 300, "ab" * 60, "\U0010ffff", "\ud7ff\ue000", "zz\u0345", "Σίσυφος",
    "$1",
)  # fmt: skip
QUERIES: Final = (
    "shop", "sho", "Shop shopping", "shopping sho", "istanbul", "ISTAN", "i", "strasse", "etude", "日", "日本", "שלו",
    "100",
    "percent", "50", "O'Brien", "o b", "new table c", "a b", "file", "viii", "x" * 40, "x" * 41, "x" * 39, "", "%",
    "_",
    "'", "shop nothing", "Σισυφοσ", "σίσυφος", "b a", "🙂", "\0", "gnp exe",
)  # fmt: skip
SESSIONS: Final = (
    "11111111-2222-4333-8444-555555555555", "11119999-2222-4333-8444-555555555555",
    "77777777-2222-4333-8444-555555555555", "abcdef00-2222-4333-8444-555555555555",
    "abcdef01-2222-4333-8444-555555555555", "ffffffff-2222-4333-8444-555555555555",
    "00000000-2222-4333-8444-555555555555", "0b9e3c1a-5a4f-4c6e-9d2b-7f8e6a5d4c3b",
)  # fmt: skip
DELETED: Final = SESSIONS[3]  # at some point of a history
NAMES: Final = ("shop", "Shop", "éa", "zeta", "a\0b", "a\1b", "%", "\U0001f642", "\ufb01")
PLACES: Final = ("/a", "/A", "/a/b", "/é", "/a\1", "/a\0", "/%")
ODD: Final = ("00" * 32, "AB" * 32, "zz", "", "ab cd", "\0", "ß")
_SEEN_LONG_AGO: Final = DAY * 30


class Salts:
    """Reproducible random bytes."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self) -> bytes:
        self._count += 1
        return bytes.fromhex(digest(b"salt %d" % self._count)[:32])


def play_history(store: Store, seed: int, length: int) -> None:
    """Apply the history of this number."""
    HistoryPlayer(store, seed).play(length)


class HistoryPlayer:
    def __init__(self, store: Store, seed: int) -> None:
        self._store = store
        self._rng = random.Random(seed)
        self._at = START
        self._known: list[Event] = []
        self._foreign: dict[tuple[str, str], Event] = {}
        self._waiting = self._device_events()

    def play(self, length: int) -> None:
        for session in SESSIONS[:6]:
            self._record(session, self._start())
        for _ in range(length):
            step = self._rng.choices(_STEPS, _WEIGHTS)[0]
            step(self)

    # ── random values ────────────────────────────────────────────────────────────────────────────────────

    def _text(self, most: int = 6) -> str:
        return self._rng.choice((" ", "/", "-", "")).join(self._rng.choices(WORDS, k=self._rng.randint(1, most)))

    def _session(self) -> str:
        return self._rng.choice(SESSIONS[:7])

    def _key(self) -> str | None:
        return self._rng.choice((None, None, None, "hook:1", "hook:2", self._text(1)))

    def _project(self) -> ProjectFacts:
        number = self._rng.randrange(4)
        return ProjectFacts(
            id=f"p{number}", name=self._rng.choice(NAMES), path=self._rng.choice(PLACES),
            remote=self._rng.choice((None, "github.com/x/shop")),
            roots=self._rng.choice(((), ("r1",), ("r1", "r2"))),
        )  # fmt: skip

    def _start(self) -> EventData:
        aliases = {"craft": self._text(1)} if self._rng.random() < 0.5 else {}
        return SessionStarted(
            goal=self._text(), project=self._project(), device=self._rng.choice(NAMES), aliases=aliases
        )

    def _data(self) -> EventData:
        if self._rng.random() < 0.4:
            chosen = self._rng.choice(POOL)
            return self._start() if isinstance(chosen, SessionDeleted) else chosen
        return self._rng.choice(
            (
                NoteAdded(text=self._text()), SessionEdited(goal=self._text()),
                SessionEdited(progress=self._rng.random()),
                TaskAdded(id=self._text(1), text=self._text()), CommandRan(command=self._text()),
                AliasGiven(format="timer", id=self._text(1)), SessionArchived(), SessionUnarchived(),
                SessionCompleted(),
            )
        )  # fmt: skip

    def _device_events(self) -> list[Event]:
        """One session as recorded by devices that erase, fork and write garbage, in any order."""
        steps = [
            Step(*(self._rng.randrange(most) for most in (4, 12, 998, 9, 100)))
            for _ in range(self._rng.randint(5, 30))
        ]
        events = [
            event
            for event in play(steps, wall=self._rng.randrange(30)).events
            if event.v > 0 and find_problem(event) is None
        ]
        self._rng.shuffle(events)
        return events

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────

    def _moment(self) -> int:
        self._at += self._rng.choice((0, 1, 1000, 60_000, DAY, -DAY // 2))
        return self._at

    def _put(self, transaction: Transaction, session: str, data: EventData) -> None:
        with contextlib.suppress(NotFound):  # it was deleted
            event = transaction.record(session, Draft(data, self._moment(), self._text(1), self._key()))
            if event is not None:
                self._known.append(event)

    def _record(self, session: str, *some: EventData) -> None:
        with self._store.transaction() as transaction:
            for data in some:
                self._put(transaction, session, data)

    def _several(self) -> None:
        """Events of several sessions in one transaction, received ones among them."""
        with self._store.transaction() as transaction:
            for _ in range(self._rng.randint(1, 6)):
                self._put(transaction, self._session(), self._data())
                if self._rng.random() < 0.2:
                    transaction.receive(self._others(2))

    def _others(self, count: int) -> list[Event]:
        """Streams of other writers: some late, some from the future, some of unknown types."""
        made = []
        for _ in range(count):
            session, writer = self._session(), self._rng.choice(("b" * 20, "c" * 20, "W\0", "w\1"))
            last, data = self._foreign.get((session, writer)), self._data()
            kind = TYPE_OF[type(data)]
            written = canonical_json(msgspec.to_builtins(data))
            late = self._rng.choice((-DAY, -1000, 0, 5, DAY))
            event = make_event(
                session=session, writer=writer, seq=last.seq + 1 if last else 1, prev=last.hash if last else None,
                clock=max(last.clock + 1 if last else 1, (self._at + late) * 1000), at=self._at + late,
                actor=self._text(1), type=self._rng.choice((kind.name, kind.name, self._text(1))),
                version=self._rng.choice((1, 1, 1, 2, MAX_SAFE_INTEGER)),
                data=self._rng.choice((written, written, written, self._rng.choice(GARBAGE))),
                salt=bytes(16), key=self._key(),
            )  # fmt: skip
            self._foreign[session, writer] = event
            self._known.append(event)
            made.append(event)
        self._rng.shuffle(made)
        return made

    def _receive(self) -> None:
        some = self._others(self._rng.randint(1, 5))
        with self._store.transaction() as transaction:
            transaction.receive(some)
            transaction.receive(some[:1])

    def _receive_from_devices(self) -> None:
        size = self._rng.choice((1, 4, 20))
        some, self._waiting = self._waiting[:size], self._waiting[size:]
        with self._store.transaction() as transaction:
            transaction.receive(some)

    def _erase(self) -> None:
        if self._known:
            named = [self._rng.choice(self._known) for _ in range(self._rng.randint(1, 3))]
            hashes = [self._rng.choice((event.hash, event.hash, event.hash.upper())) for event in named]
            instead: dict[str, Json] = {hashes[0]: {"text": self._text()}} if self._rng.random() < 0.5 else {}
            erasing = EventErased(hashes=(*hashes, self._rng.choice(ODD)), instead=instead)
            self._record(named[0].session, erasing)

    def _delete(self) -> None:
        self._store.erase(DELETED, Draft(SessionDeleted(), self._moment(), "anna"))

    def _withdraw(self) -> None:
        with self._store.transaction() as transaction:
            session = self._session()
            writer = self._rng.choice((ANNA, "b" * 20, "W\0"))
            withdrawn = {event.hash for event in transaction.withdraw(session, {writer: self._rng.randint(0, 6)})}
        self._known = [event for event in self._known if event.hash not in withdrawn]
        self._foreign = {key: event for key, event in self._foreign.items() if event.hash not in withdrawn}

    def _abort(self) -> None:
        """A transaction that is rolled back."""
        known, foreign = list(self._known), dict(self._foreign)
        with contextlib.suppress(KeyError), self._store.transaction() as transaction:
            self._put(transaction, self._session(), self._data())
            transaction.receive(self._others(2))
            transaction.remember("failed", b"1")
            transaction.set_current("/failed", SESSIONS[0])
            raise KeyError
        self._known, self._foreign = known, foreign

    def _local_state(self) -> None:
        with self._store.transaction() as transaction:
            transaction.set_current(self._rng.choice(PLACES), self._rng.choice((*SESSIONS, None)))
            transaction.remember_project(self._project())
            transaction.remember_evidence(KnownProject(self._text(1), self._text(1), (("root", self._text(1)),)))
            name = self._rng.choice(("", "a/", "a/b", "A/")) + self._text(1)
            transaction.remember(name, self._rng.choice((b"", b"\0\xff", None)))


_STEPS: Final[tuple[Callable[[HistoryPlayer], None], ...]] = (
    HistoryPlayer._several, HistoryPlayer._receive, HistoryPlayer._receive_from_devices, HistoryPlayer._erase,
    HistoryPlayer._delete, HistoryPlayer._withdraw, HistoryPlayer._abort, HistoryPlayer._local_state,
)  # fmt: skip
_WEIGHTS: Final = (40, 20, 12, 5, 1, 4, 4, 8)


# ── everything a store shows ──────────────────────────────────────────────────────────────────────────────


def filters() -> Iterator[Filter]:
    """A wide choice of filters for listings."""
    for search in QUERIES:
        yield Filter(search=search)
        yield Filter(search=search, limit=1, unfinished=True)
    for status in ("created", "in_progress", "paused", "completed", "archived", "odd", "'"):
        yield Filter(status=status)
    for name in (*NAMES, "nobody", ""):
        yield Filter(name=name)
    for projects in ((), ("p0",), ("p1", "p2"), ("p0", "p3", "none'"), ("",)):
        yield Filter(projects=projects)
        yield Filter(projects=projects, search="sho", since=START)
    for archived in (None, True, False):
        yield Filter(archived=archived)
        for after in (0, DAY, _SEEN_LONG_AGO):
            yield Filter(archived=archived, now=START + 2 * DAY, archive_after=after)
    for since in (0, START, START + 1, START + DAY):
        yield Filter(since=since, limit=2)
    for limit in (0, 1, 2, 100):
        yield Filter(limit=limit)
        yield Filter(limit=limit, before=(START + DAY, SESSIONS[0]))
    yield Filter(unfinished=True)


def searches(seed: int) -> Iterator[Filter]:
    """Searches for prefixes of words, and several of them, as a user types."""
    rng = random.Random(seed)
    for _ in range(30):
        words = [word[: rng.randint(1, len(word))] for word in rng.choices(WORDS, k=rng.randint(1, 3))]
        yield Filter(search=" ".join(words), archived=rng.choice((None, True, False)), limit=rng.choice((None, 2)))


def paged(store: Store, size: int) -> list[list[Any]]:
    """A listing, page by page."""
    pages: list[list[Any]] = []
    created = {
        session: state.created_at for session in store.sessions() if (state := store.state(session)) is not None
    }
    before: tuple[int, str] | None = None
    while page := store.rows(Filter(limit=size, before=before)):
        pages.append(page)
        at = created[page[-1].id]
        if at is None:
            break
        before = (at, page[-1].id)
    return pages


def shown(store: Store) -> dict[str, Any]:
    """Everything a store shows, by name. Places are numbers of each store's own: only their order counts."""
    everything: dict[str, Any] = {
        "sessions": list(store.sessions()),
        "rows": [(which, store.rows(which)) for which in filters()],
        "pages": [paged(store, size) for size in (1, 2)],
        "versions": store.versions(),
        "versions of": store.versions((SESSIONS[0], "nobody", DELETED)),
        "projects": store.projects(),
        "arrived": [arrival.event for arrival in store.arrived(0, MAX_SAFE_INTEGER)],
        "in portions": list(_portions(store)),
        "latest": store.arrived(store.latest_place(), 1),
        "latest time": store.latest_time(),
        "check": sorted((damage.check, damage.session or "", damage.detail) for damage in store.check()),
    }  # fmt: skip
    for session in (*SESSIONS, "nobody"):
        state = store.state(session)
        events = list(store.events(session))
        everything[session] = (events, None if state is None else freeze(state), store.places(session))
        middle = events[len(events) // 2].clock if events else 0
        everything[f"{session} since"] = list(store.events(session, since=middle))
        for writer in {event.writer for event in events}:
            everything[f"{session} {writer!r}"] = store.stream(session, writer, 2, MAX_SAFE_INTEGER)
    for reference in ("", "1", "1111", "11119", "ABC", "abcdef00", SESSIONS[-1].upper(), "g", "%", *WORDS):
        everything[f"find {reference}"] = store.find(reference)
    return everything | _shown_local_state(store)


def _portions(store: Store) -> Iterator[list[Event]]:
    place = 0
    while some := store.arrived(place, 7):
        assert [arrival.place for arrival in some] == sorted({arrival.place for arrival in some})
        place = some[-1].place
        yield [arrival.event for arrival in some]


def _shown_local_state(store: Store) -> dict[str, Any]:
    local = store.local_state()
    memory = {name: value for name, value in local.memory.items() if name != UNSEEN}
    everything: dict[str, Any] = {
        "beside": (list(local.places.items()), local.projects, list(memory.items()), UNSEEN in local.memory)
    }
    for prefix in ("a", "a/", "A", "\0", "\1", "%", "arrivals/"):
        everything[f"memory {prefix}"] = list(store.remembered_under(prefix))
    for place in PLACES:
        everything[f"current {place}"] = (store.current(place), store.projects_with("path", place))
    for project in [project.id for project in local.projects]:
        everything[f"evidence {project!r}"] = store.evidence(project)
    for value in ("r1", "r2", "github.com/x/shop", *WORDS):
        everything[f"at {value!r}"] = (store.projects_with("root", value), store.projects_with("remote", value))
    return everything


def differences(one: dict[str, Any], other: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Where the two differ, so that a failing test says where to look."""
    return {
        name: (one.get(name), other.get(name))
        for name in one.keys() | other.keys()
        if one.get(name) != other.get(name)
    }


__all__ = ["SESSIONS", "Salts", "Ticks", "differences", "filters", "play_history", "shown"]
