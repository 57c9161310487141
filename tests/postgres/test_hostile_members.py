"""What a member with a write share, or only a role on the server, can do to others with plain SQL and any values."""

from __future__ import annotations

import itertools
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg
import pytest
from msgspec.structs import replace
from psycopg import errors as pg
from psycopg import sql

from holdfast.cli.main import main
from holdfast.core.canonical import MAX_SAFE_INTEGER, Json, canonical_json
from holdfast.core.envelope import Event, StreamHead, make_event
from holdfast.core.errors import Refused
from holdfast.core.events import EventErased, ProjectFacts
from holdfast.core.fold import fold
from holdfast.store.conformance import Ticks, draft, note, put, started
from holdfast.store.interface import Filter, Store
from holdfast.store.postgres import PostgresStore, admin
from holdfast.store.sqlite import SqliteStore
from holdfast.store.store_copy import Progress, copy
from tests.postgres.team_of_people import REFUSED, Team, team
from tests.support.scale import scale

__all__ = ["team"]

# How a program signals that it added events before the end of the log: all readers then read all of it again.
ANEW: Final = "UPDATE holdfast.sessions SET version = version + 1, anew = version + 1 WHERE ref = %s"
BOBS: Final = "b0b" + "0" * 29  # a stream that bob's own home claims
_COLUMNS: Final = (
    "writer", "seq", "clock", "at", "v", "type", "actor", "key", "seen", "body", "prev", "hash", "data", "salt",
)  # fmt: skip


class Shared(NamedTuple):
    """A session of anna's that bob may write to, opened by both."""

    team: Team
    id: str
    ref: int
    anna: PostgresStore
    bob: PostgresStore
    # Anna's events: the start, a note with a key, and a note without.
    events: tuple[Event, ...]

    def insert(self, *events: Event, person: str = "bob") -> None:
        """In plain SQL, without a program's checks."""
        line = self.team.line(person)
        with line.transaction():
            for event in events:
                line.execute(
                    sql.SQL("INSERT INTO holdfast.events (session, {}) VALUES (%s{})").format(
                        sql.SQL(", ").join(map(sql.Identifier, _COLUMNS)), sql.SQL(", %s") * len(_COLUMNS)
                    ),
                    (self.ref, *row(event)),
                )
            line.execute(ANEW, (self.ref,))

    def insert_before(self, *events: Event) -> None:
        """By bob, as an earlier version of the tables accepted them."""
        line = self.team.line("postgres")
        with line.transaction():
            line.execute("SET LOCAL session_replication_role = replica")
            for event in events:
                line.execute(
                    sql.SQL("INSERT INTO holdfast.events (session, put_by, {}) VALUES (%s, %s{})").format(
                        sql.SQL(", ").join(map(sql.Identifier, _COLUMNS)), sql.SQL(", %s") * len(_COLUMNS)
                    ),
                    (self.ref, self.team.role("bob"), *row(event)),
                )
            line.execute(ANEW, (self.ref,))

    def by_bob(self, kind: str, data: Json | bytes, **more: Any) -> Event:
        """An event with a valid hash and any content."""
        facts: dict[str, Any] = {
            "session": self.id, "writer": BOBS, "seq": 1, "prev": None, "clock": self.events[-1].clock + 1,
            "at": self.events[-1].at, "actor": "bob", "type": kind, "version": 1, "salt": bytes(16),
            "data": data if isinstance(data, bytes) else canonical_json(data), **more,
        }  # fmt: skip
        return make_event(**facts)

    def assert_anna_can_work(self, notes: int = 40) -> None:
        """None of her events is erased or ignored; she records more, beyond a snapshot, and all of it is there."""
        before = {event.hash: event.data for event in self.events}
        put(self.anna, self.id, *(note(f"more {number}") for number in range(notes)))
        with closing(self.team.store("anna")) as again:
            events = list(again.events(self.id))
            state = again.state(self.id)
            assert state is not None
            assert state == fold(events, self.id)
            assert {event.hash: event.data for event in events if event.hash in before} == before
            texts = [item.text for item in state.notes]
            assert {"with a key", "without", "more 0", f"more {notes - 1}"} <= set(texts)
            assert state.project is not None
            assert state.project.id == "project-of-anna"
            assert not state.deleted
            assert self.id in {item.id for item in again.rows(Filter())}


def row(event: Event) -> tuple[object, ...]:
    heads = [[head.writer, head.seq, head.hash] for head in event.seen]
    seen = json.dumps(heads, separators=(",", ":")).encode() if heads else None
    return (
        event.writer, event.seq, event.clock, event.at, event.v, event.type, event.actor, event.key, seen,
        bytes.fromhex(event.body), None if event.prev is None else bytes.fromhex(event.prev),
        bytes.fromhex(event.hash), event.data, event.salt,
    )  # fmt: skip


@pytest.fixture
def shared(team: Team) -> Iterator[Shared]:
    session = f"{secrets.token_hex(4)}-0000-7000-8000-000000000000"
    project = ProjectFacts(id="project-of-anna", name="Anna's")
    with closing(team.store("anna")) as anna, closing(team.store("bob")) as bob:
        with anna.transaction() as transaction:
            made = [
                transaction.record(session, draft(started("Hers", project=project), key="file:start")),
                transaction.record(session, draft(note("with a key"), key="hook:1")),
                transaction.record(session, draft(note("without"))),
            ]
        anna.team.share(session, team.role("bob"), writes=True)
        ((ref,),) = team.run_as("postgres", "SELECT ref FROM holdfast.sessions WHERE id = %s", session)
        team.line("bob").execute("SELECT holdfast.settle(1, 'home of bob', %s)", (BOBS,))
        yield Shared(team, session, ref, anna, bob, tuple(event for event in made if event is not None))
        team.line("postgres").execute("UPDATE holdfast.installations SET clock = 0")  # after absurd clocks


# ── breaks that occurred ─────────────────────────────────────────────────────────────────────────────────────


def test_members_erasure_does_not_erase_the_owners_events_through_its_replacement(shared: Shared) -> None:
    """Bob erases his own erasure, and the replacement names anna's note: that is refused."""
    own = put(shared.bob, shared.id, note("by bob"))[0]
    first = put(shared.bob, shared.id, EventErased(hashes=(own.hash,)))[0]
    inner: Json = {"hashes": [shared.events[-1].hash]}
    with pytest.raises(Refused, match="only its author"):
        put(shared.bob, shared.id, EventErased(hashes=(first.hash,), instead={first.hash: inner}))
    shared.assert_anna_can_work()
    # His own event he can erase that way.
    put(shared.bob, shared.id, EventErased(hashes=(first.hash,), instead={first.hash: {"hashes": [own.hash]}}))
    assert [event.data for event in shared.anna.events(shared.id) if event.hash == own.hash] == [None]


def test_member_cannot_take_the_key_of_a_later_event_of_the_owner(shared: Shared) -> None:
    """Of equal keys the first counts, and keys can be guessed: the owner's event still counts, once."""
    put(shared.bob, shared.id, note("instead"), key="run:1")
    [made] = put(shared.anna, shared.id, note("how it ended"), key="run:1")
    assert made.key == "run:1+1"
    assert put(shared.anna, shared.id, note("how it ended"), key="run:1") == []
    assert put(shared.bob, shared.id, note("again"), key="run:1") == []
    state = shared.anna.state(shared.id)
    assert state is not None
    assert "how it ended" in [kept.text for kept in state.notes]
    shared.assert_anna_can_work()


def test_members_invalid_progress_breaks_no_history(
    shared: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server refuses it; and where it exists already, every other member's listing works."""
    team = shared.team
    for value in ("NaN", "1e308", "-1e308", "Infinity", "-Infinity", "-1", "1.0001"):
        for person in ("bob", "anna"):
            with pytest.raises(pg.CheckViolation):
                team.run_as(person, f"UPDATE holdfast.sessions SET progress = '{value}' WHERE ref = %s", shared.ref)
    _use_machine_of(tmp_path, monkeypatch, team, "anna")
    for value in ("NaN", "1e308"):
        with _without_bounds(team):
            team.line("postgres").execute(
                f"UPDATE holdfast.sessions SET progress = '{value}' WHERE ref = %s", (shared.ref,)
            )
            assert main(["history", "--all-projects"]) == 0
            assert shared.id[:8] in capsys.readouterr().out


def test_member_who_knows_a_project_id_cannot_read_its_name(shared: Shared) -> None:
    """Whichever sessions they assign to it: one of their own, by hand or by an event, or one they may write to."""
    team, hidden = shared.team, "project-private"
    names = f"SELECT name FROM holdfast.projects WHERE id = '{hidden}'"
    evidence = f"SELECT * FROM holdfast.evidence_of(1, '{hidden}', 0)"
    mine = f"{secrets.token_hex(4)}-1111-7000-8000-000000000000"
    with closing(team.store("carl")) as carl:
        put(carl, mine, started("Mine", project=ProjectFacts(id=hidden, name="guessed")))
    for person in ("carl", "bob"):
        team.line(person).execute(
            "INSERT INTO holdfast.sessions (vault, id) VALUES (1, %s)", (f"{person}-{secrets.token_hex(4)}",)
        )
        team.line(person).execute("UPDATE holdfast.sessions SET project = %s WHERE owner = CURRENT_USER", (hidden,))
    team.line("bob").execute("UPDATE holdfast.sessions SET project = %s WHERE ref = %s", (hidden, shared.ref))
    early = shared.by_bob("session.started", {"goal": "x", "device": "d", "project": {"id": hidden, "name": "x"}},
                          clock=1)  # fmt: skip
    with pytest.raises(REFUSED):
        shared.insert(early)
    put(shared.anna, shared.id, note("her program saves the row"))
    for person in ("carl", "bob"):
        names_seen = {name for (name,) in team.run_as(person, names)}
        assert names_seen <= {"guessed"}
        assert team.run_as(person, evidence) == []
        assert team.run_as(person, "SELECT holdfast.projects_at(1, 'remote', 'git.example/private', 0)") == []
    for person in ("carl", "bob"):
        team.line(person).execute("UPDATE holdfast.sessions SET project = '' WHERE owner = CURRENT_USER")


# ── every field of an event that names other events ──────────────────────────────────────────────────────

Case = Callable[[Shared], Sequence[Event]]


def portions(cases: Mapping[str, object]) -> list[list[str]]:
    """All at once; at scale, each one separately too."""
    return [list(cases), *([name] for name in (cases if scale(0, 1, 1) else ()))]


def erasing(names: Callable[[Shared], list[str]], instead: Callable[[Shared], Json] = lambda _: {}) -> Case:
    def made(shared: Shared) -> list[Event]:
        own = shared.by_bob("note.added", {"text": "by bob"})
        data: Json = {"hashes": [own.hash, *names(shared)], "instead": instead(shared)}
        erasure = shared.by_bob("event.erased", data, seq=2, prev=own.hash, clock=own.clock + 1)
        return [own, erasure]

    return made


def others(shared: Shared) -> list[str]:
    return [shared.events[1].hash]


def by_bob_alone(kind: str, data: Json | bytes, **more: Any) -> Case:
    return lambda shared: [shared.by_bob(kind, data, **more)]


def nested_replacement(levels: int) -> Callable[[Shared], Json]:
    """The replacement of a replacement of … an erasure."""

    def made(shared: Shared) -> Json:
        own = shared.by_bob("note.added", {"text": "by bob"}).hash
        data: Json = {"hashes": [*others(shared)]}
        for _ in range(levels):
            data = {"hashes": [own], "instead": {own: data}}
        return {own: data}

    return made


def erasure_without_data(shared: Shared) -> list[Event]:
    """An erasure that comes without its data, and another one with its replacement."""
    empty = shared.by_bob("event.erased", {"hashes": []})
    data: Json = {"hashes": [empty.hash], "instead": {empty.hash: {"hashes": [*others(shared)]}}}
    bare = empty.__class__(**{**{name: getattr(empty, name) for name in empty.__struct_fields__}, "data": None,
                              "salt": None})  # fmt: skip
    return [bare, shared.by_bob("event.erased", data, seq=2, prev=empty.hash, clock=empty.clock + 1)]


def with_seen(*heads: StreamHead) -> Case:
    return lambda shared: [
        shared.by_bob(
            "note.added",
            {"text": "by bob"},
            seen=(StreamHead(shared.events[0].writer, MAX_SAFE_INTEGER, "x"), *heads),
        )
    ]


def under_the_hashes_of(which: slice, *, data: bool, erased: bool = False) -> Case:
    """Rows of bob's own with the hashes of anna's events; then an erasure of these hashes."""

    def made(shared: Shared) -> list[Event]:
        rows: list[Event] = []
        for number, event in enumerate(shared.events[which], 1):
            own = shared.by_bob("note.added", {"text": "x"}, seq=number, clock=shared.events[-1].clock + number)
            without_data: dict[str, Any] = {} if data else {"data": None, "salt": None}
            rows.append(replace(own, hash=event.hash, **without_data))
        if erased:
            hashes: list[Json] = [event.hash for event in rows]
            last = rows[-1]
            rows.append(shared.by_bob("event.erased", {"hashes": hashes}, seq=last.seq + 1, prev=last.hash,
                                      clock=last.clock + 1))  # fmt: skip
        return rows

    return made


def in_annas_stream(seq: int, home: str = "") -> Case:
    def made(shared: Shared) -> list[Event]:
        writer = home or shared.events[0].writer
        if home:
            shared.team.line("anna").execute("SELECT holdfast.settle(1, 'laptop of anna', %s)", (home,))
        return [shared.by_bob("note.added", {"text": "as anna"}, writer=writer, seq=seq)]

    return made


def of_an_event(kind: str, **more: Json) -> Case:
    """About an agent, a task or a value that anna's events created."""
    return lambda shared: [shared.by_bob(kind, {"id": "x", "ref": shared.events[0].hash, **more})]


def resolved(field: str, value: Json) -> Case:
    return lambda shared: [
        shared.by_bob("conflict.resolved", {
            "field": field, "chosen": shared.events[0].hash, "overruled": [e.hash for e in shared.events],
            "value": value,
        })
    ]  # fmt: skip


REFUSED_CASES: Final[dict[str, Case]] = {
    "erased: another's": erasing(others),
    "erased: another's, in capitals": erasing(lambda shared: [others(shared)[0].upper()]),
    "erased: another's, with a space": erasing(lambda shared: [f" {others(shared)[0]}"]),
    "erased: what is not here yet": erasing(lambda _: ["ab" * 32]),
    "erased: no hash at all": erasing(lambda _: ["x"]),
    "instead: of one's own, erases another's": erasing(lambda _: [], nested_replacement(0)),
    "instead: within instead": erasing(lambda _: [], nested_replacement(1)),
    "instead: eight times": erasing(lambda _: [], nested_replacement(8)),
    "instead: of an erasure that was erased": erasure_without_data,
    "hash: another's": under_the_hashes_of(slice(1, 2), data=True),
    "hash: another's, without data": under_the_hashes_of(slice(1, 2), data=False),
    "hash: another's, and erased": under_the_hashes_of(slice(1, 3), data=True, erased=True),
    "key: another's, and earlier": by_bob_alone("note.added", {"text": "first"}, key="hook:1", clock=1),
    "key: of the start, and earlier": by_bob_alone("note.added", {"text": "first"}, key="file:start", clock=1),
    "writer: another's, next number": in_annas_stream(4),
    "writer: another's, last number": in_annas_stream(MAX_SAFE_INTEGER),
    "writer: another's home that has not written here": in_annas_stream(MAX_SAFE_INTEGER, home="a" * 32),
    "started again, and earlier": by_bob_alone(
        "session.started", {"goal": "x", "device": "d", "project": {"id": "p", "name": "x"}}, clock=1
    ),
    "deleted": by_bob_alone("session.deleted", {}),
}
HARMLESS_CASES: Final[dict[str, Case]] = {
    "erased: one's own": erasing(lambda _: []),
    "prev: another's event": lambda shared: [
        shared.by_bob("note.added", {"text": "x"}, seq=2, prev=shared.events[0].hash)
    ],
    "prev: nothing that is here": by_bob_alone("note.added", {"text": "x"}, seq=7, prev="00" * 32),
    "seen: everything of another": with_seen(),
    "seen: streams that are not there": with_seen(
        *(StreamHead(f"{number:032x}", MAX_SAFE_INTEGER, "") for number in range(50))
    ),
    "resolved: the goal, to another's value": resolved("goal", "Bob's"),
    "resolved: the progress, to more than all": resolved("progress", 1e308),
    "resolved: something that is no field": resolved("\0", -1e308),
    "found: a number of a thousand digits": by_bob_alone(
        "conflict.found", b'{"field":"x","value":1' + b"0" * 1000 + b"}"
    ),
    "found: a number beyond 64 bits": by_bob_alone(
        "conflict.found", b'{"field":"goal","stood":[1' + b"0" * 20 + b"]}"
    ),
    "agent: another's event as an agent": of_an_event("agent.completed", tokens=MAX_SAFE_INTEGER),
    "task: another's event as a task": of_an_event("task.completed", outcome="x"),
    "alias: longer than an index takes": by_bob_alone(
        "alias.given", {"format": "craft", "id": "".join(secrets.token_hex(8) for _ in range(1000))}
    ),
    "native: longer than an index takes": by_bob_alone("native.linked", {"agent": "x", "id": os.urandom(6000).hex()}),
    "edited: more than all": by_bob_alone("session.edited", {"progress": 1e308, "cost_usd": -1e308}),
    "measured: a window of nothing": by_bob_alone(
        "context.measured", {"tokens": MAX_SAFE_INTEGER, "window": -MAX_SAFE_INTEGER}
    ),
    "away: for all time": by_bob_alone("away.recorded", {"since": -MAX_SAFE_INTEGER, "until": MAX_SAFE_INTEGER}),
    "redacted: more than a number holds": by_bob_alone(
        "note.added", {"text": "x", "redacted": {"y": MAX_SAFE_INTEGER}}
    ),
    "extra: nested as deeply as can be": by_bob_alone(
        "extra.kept", b'{"name":"x","value":' + b"[" * 5000 + b"]" * 5000 + b"}"
    ),
    "extra: a number of 5,000 digits": by_bob_alone("extra.kept", b'{"name":"x","value":' + b"9" * 5000 + b"}"),
    "no JSON": by_bob_alone("note.added", b"\xff{"),
    "a type that nobody knows": by_bob_alone("no.such.thing", {"x": 1}),
}


@pytest.mark.parametrize("cases", portions(REFUSED_CASES))
def test_events_that_would_undo_another_members_are_refused(shared: Shared, cases: list[str]) -> None:
    """By the server, whatever program sends them; none of them is stored."""
    before = [event.hash for event in shared.anna.events(shared.id)]
    for name in cases:
        with pytest.raises((REFUSED, psycopg.DataError)):
            shared.insert(*REFUSED_CASES[name](shared))
    assert [event.hash for event in shared.anna.events(shared.id)] == before
    shared.assert_anna_can_work()


@pytest.mark.parametrize("cases", portions(HARMLESS_CASES))
def test_harmless_events_of_a_member_do_not_affect_others(shared: Shared, cases: list[str]) -> None:
    """They are stored, and valid or shown as a conflict."""
    for name in cases:
        shared.insert(*HARMLESS_CASES[name](shared))
    shared.assert_anna_can_work()
    assert any(event.writer == BOBS for event in shared.anna.events(shared.id))
    put(shared.bob, shared.id, note("bob goes on"))


# ── events that earlier versions accepted ─────────────────────────────────────────────────────────────────────────

# Each names events of anna's. That bob owns a row with the same hash proves nothing.
UNENTITLED_CASES: Final[dict[str, Case]] = {
    "named": erasing(others),
    "named in capitals": erasing(lambda shared: [others(shared)[0].upper()]),
    "named in what stands instead": erasing(lambda _: [], nested_replacement(1)),
    "named in what stands instead of an erasure that was erased": erasure_without_data,
    "named with JSON escapes": lambda shared: [
        shared.by_bob("event.erased", f'{{"hashes":["\\u{ord(h[0]):04x}{h[1:]}"]}}'.encode()) for h in others(shared)
    ],
    "rows with the same hashes": under_the_hashes_of(slice(1, 3), data=True, erased=True),
    "rows with the same hashes, without data": under_the_hashes_of(slice(1, 3), data=False, erased=True),
}


@pytest.mark.parametrize("case", UNENTITLED_CASES)
def test_stored_erasure_of_anothers_events_is_ignored(shared: Shared, tmp_path: Path, case: str) -> None:
    """Whatever makes the owner's program apply erasures; doctor names who put it there, a repair sets it aside, and
    neither a copy nor a backup includes it.
    """
    shared.insert_before(*UNENTITLED_CASES[case](shared))
    put(shared.anna, shared.id, note("secret"))
    secret = list(shared.anna.events(shared.id))[-1]
    assert secret.type == "note.added"
    put(shared.anna, shared.id, EventErased(hashes=(secret.hash,)))
    with shared.anna.transaction() as transaction:  # as a late event does
        transaction.receive([_by_annas_phone(shared)])
    details = [
        damage.detail for damage in shared.anna.check() if damage.check == "chain" and damage.session == shared.id
    ]
    assert any("would erase events of another person" in name and shared.team.role("bob") in name for name in details)

    (left,) = (copied for copied in shared.anna.backup(str(tmp_path / "backup")) if copied.session == shared.id)
    assert "that another person recorded" in left.reason
    with closing(_open_file_store(tmp_path / "restored.db")) as restored:
        restored.restore(str(tmp_path / "backup"))
        _assert_annas_events_are_intact(shared, restored)
        assert [damage for damage in restored.check() if damage.session == shared.id] == []

    repaired = [name for name in shared.anna.repair() if shared.id in name]
    assert any("would erase events of another person" in name for name in repaired)
    failed = {damage.check for damage in shared.anna.check() if damage.session == shared.id}
    assert failed <= {"aside"}
    assert next(event for event in shared.anna.events(shared.id) if event.hash == secret.hash).data is None
    shared.assert_anna_can_work()


def test_members_erasure_is_refused_when_another_members_row_has_the_hash(shared: Shared) -> None:
    """Although bob has a row with that hash too, from before that was refused."""
    *rows, erasure = under_the_hashes_of(slice(1, 3), data=True, erased=True)(shared)
    shared.insert_before(*rows)
    with pytest.raises(REFUSED, match="only its author"):
        shared.insert(erasure)


def test_members_erasure_does_not_erase_a_later_event_of_the_owner(shared: Shared) -> None:
    """Bob knew the event from elsewhere, and erased its hash before anna put it into the store."""
    late = _by_annas_phone(shared)
    row_of_bob = replace(shared.by_bob("note.added", {"text": "x"}), hash=late.hash)
    erasure = shared.by_bob("event.erased", {"hashes": [late.hash]}, seq=2, clock=row_of_bob.clock + 1)
    shared.insert_before(row_of_bob, erasure)
    with shared.anna.transaction() as transaction:
        transaction.receive([late])
    for _ in range(2):
        kept = [event.data for event in shared.anna.events(shared.id) if event.writer == late.writer]
        assert kept == [late.data]
        shared.anna.repair()


def test_former_owners_erasure_stays_valid_after_a_handover(shared: Shared) -> None:
    """Anna erased bob's note with a replacement; then the session is carl's."""
    [own] = put(shared.bob, shared.id, note("secret of bob"))
    [erasure] = put(shared.anna, shared.id, EventErased(hashes=(own.hash,), instead={own.hash: {"text": "cut"}}))
    shared.team.line("postgres").execute(
        "UPDATE holdfast.sessions SET owner = %s WHERE ref = %s", (shared.team.role("carl"), shared.ref)
    )
    with closing(shared.team.store("carl")) as carl:
        carl.repair()
        state = carl.state(shared.id)
        assert state is not None
        assert "cut" in [item.text for item in state.notes]
        assert erasure.hash in [event.hash for event in carl.events(shared.id)]
        assert [damage for damage in carl.check() if damage.session == shared.id] == []


def test_repair_by_the_owner_does_not_take_over_a_members_event(shared: Shared) -> None:
    """Bob's event could be repaired, but the new row would be anna's."""
    event = shared.by_bob("note.added", {"text": "by bob"})
    shared.insert_before(replace(event, body="00" * 32))
    shared.anna.repair()
    assert [event for event in shared.anna.events(shared.id) if event.writer == BOBS] == []


def _by_annas_phone(shared: Shared) -> Event:
    """An event of anna's that is not in the store yet, early in the log."""
    return shared.by_bob("note.added", {"text": "from her phone"}, writer="a" * 32, clock=shared.events[0].clock + 1,
                         actor="anna")  # fmt: skip


def _open_file_store(path: Path) -> SqliteStore:
    return SqliteStore(str(path), writer=lambda: "f" * 32, wall=Ticks())


def _assert_annas_events_are_intact(shared: Shared, store: Store) -> None:
    data_by_hash = {event.hash: event.data for event in store.events(shared.id)}
    assert {event.hash: data_by_hash.get(event.hash) for event in shared.events} == {
        event.hash: event.data for event in shared.events
    }


# ── values in rows that others read ──────────────────────────────────────────────────────────────────────

_LONG: Final = "repeat('x', 30000)"
_HUGE: Final = "repeat('x', 3000000)"
# Values that no program writes, refused from everyone. The others are stored, and checked by `doctor`.
EVENT_VALUES: Final = {
    "clock": ("0", "9223372036854775807", "9007199254740992"), "seq": ("0", "-1", "9223372036854775807"),
    "v": ("0", "-1", "9223372036854775807"), "at": ("9223372036854775807", "(-9223372036854775808)"),
    "writer": ("''", _LONG), "hash": ("''", "'x'"), "body": ("''", "sha512('x')"),
    "prev": ("''", "'x'"), "salt": ("''", "NULL", "sha256('x')"), "data": ("NULL",),
}  # fmt: skip
ACCEPTED_VALUES: Final = {
    "seen": ("'x'", "convert_to(repeat('[', 100000), 'UTF8')", "'[[\"w\",18446744073709551616,\"h\"]]'"),
    "data": ("'\\xff'", "''", "convert_to(repeat('[', 100000), 'UTF8')"), "actor": ("''", "E'\\x01\\x07'", _LONG),
    "key": ("''", "E'\\x01'"), "v": ("9007199254740991",), "type": ("'session.started?'", "E'\\x1b[2J'", "''", _LONG),
}  # fmt: skip
_PLAIN_EVENT: Final = {
    "writer": f"'{BOBS}'", "seq": "1", "clock": "1", "at": "1", "v": "1", "actor": "'a'", "type": "'note.added'",
    "body": "sha256('x')", "hash": "sha256(gen_random_uuid()::text::bytea)", "data": "'{}'",
    "salt": "'sixteen bytes ..'",
}  # fmt: skip
SESSION_VALUES: Final = {
    "version": ("9223372036854775807", "9007199254740992", "version + 3", "0", "-5"),
    "created_at": ("9223372036854775807", "(-9223372036854775808)", "253402300800000"),
    "updated_at": ("9223372036854775807", "(-9223372036854775808)"),
    "ended_at": ("9223372036854775807", "(-9223372036854775808)"), "working_ms": ("-1", "9223372036854775807"),
    "progress": ("'NaN'", "1e308", "'-Infinity'"), "status": ("''", "'no such'", _HUGE), "archived": ("7", "-1"),
    "deleted": ("1", "7", "-1"), "goal": (_HUGE,), "name": (_HUGE,), "device": (_HUGE,),
    "everyone": ("'read'", "'write'", "'x'"),
}  # fmt: skip
# Values of these columns are silently ignored from a member with a write share.
IGNORED_VALUES: Final = {
    "latest": ("0", "9223372036854775807"),
    "anew": ("0", "9007199254740991"),
    "project": ("'x'",),
}


def _inserted(columns: dict[str, str]) -> str:
    return f"INSERT INTO holdfast.events (session, {', '.join(columns)}) VALUES (%s, {', '.join(columns.values())})"


def _each(*tables: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, str]]:
    return {f"{name} {item[:40]}": (name, item) for table in tables for name, some in table.items() for item in some}


_REFUSED_EVENTS: Final = _each(EVENT_VALUES)
_ALL_EVENTS: Final = _each(ACCEPTED_VALUES, EVENT_VALUES)
_REFUSED_ROWS: Final = _each(SESSION_VALUES)


@pytest.mark.parametrize("cases", portions(_REFUSED_EVENTS))
def test_invalid_event_row_is_refused(shared: Shared, cases: list[str]) -> None:
    """From everyone, the session's owner too."""
    for person, (column, value) in itertools.product(("bob", "anna"), [_REFUSED_EVENTS[case] for case in cases]):
        with pytest.raises((pg.CheckViolation, pg.NotNullViolation)):
            shared.team.line(person).execute(_inserted({**_PLAIN_EVENT, column: value}), (shared.ref,))


def _insert_unchecked(shared: Shared, cases: list[str]) -> None:
    """As they may exist in an old store, when the server accepted them."""
    line = shared.team.line("postgres")
    with line.transaction():
        line.execute("SET LOCAL session_replication_role = replica")
        for column, value in (_ALL_EVENTS[case] for case in cases):
            columns = {**_PLAIN_EVENT, "put_by": f"'{shared.team.role('bob')}'", column: value}
            line.execute(_inserted(columns), (shared.ref,))
        line.execute(ANEW, (shared.ref,))


@pytest.mark.parametrize("cases", portions(_ALL_EVENTS))
def test_invalid_event_row_does_not_affect_others(shared: Shared, cases: list[str]) -> None:
    """One that the server does not check, or an old one: everyone can read and write, and its owner learns who put it
    there, and removes it.
    """
    _insert_unchecked(shared, cases)
    assert shared.anna.rows(Filter())
    assert shared.anna.arrived(0, 100_000)
    shared.assert_anna_can_work(notes=5)  # after an absurd clock, each is folded anew
    values = [
        damage.detail for damage in shared.anna.check() if damage.check == "chain" and damage.session == shared.id
    ]
    assert any(f"(recorded by {shared.team.role('bob')})" in name for name in values)
    shared.anna.repair()
    assert "chain" not in {damage.check for damage in shared.anna.check() if damage.session == shared.id}


@pytest.mark.parametrize("cases", portions(_ALL_EVENTS))
def test_damage_by_a_member_does_not_stop_the_owners_copy(shared: Shared, tmp_path: Path, cases: list[str]) -> None:
    """Nor a backup, nor a copy back: all of the owner's events are copied, and the other members' sound ones; the
    session is named.
    """
    [sound] = put(shared.bob, shared.id, note("bob's home is sound"))
    _insert_unchecked(shared, cases)
    with closing(_open_file_store(tmp_path / "copy.db")) as copied:
        for _ in range(2):
            done = copy(shared.anna, copied)
            (left,) = (copied for copied in done.left_out if copied.session == shared.id)
            assert f"(recorded by {shared.team.role('bob')})" in left.reason
            _assert_annas_events_are_intact(shared, copied)
            hashes = [event.hash for event in copied.events(shared.id)]
            assert hashes == [*(event.hash for event in shared.events), sound.hash]
            assert [damage for damage in copied.check() if damage.session == shared.id] == []
        put(copied, shared.id, note("at home"))
        copy(copied, shared.anna)
        assert "at home" in [event.data and json.loads(event.data).get("text") for event in shared.anna.events(
            shared.id) if event.writer == "f" * 32]  # fmt: skip
    assert shared.id in [copied.session for copied in shared.anna.backup(str(tmp_path / "backup"))]
    shared.anna.repair()
    assert shared.id not in [copied.session for copied in shared.anna.backup(str(tmp_path / "later"))]


def test_damage_by_a_member_during_a_copy_does_not_stop_it(shared: Shared, tmp_path: Path) -> None:
    """After the session was checked, a member inserts an event with a wrong hash."""
    late = replace(shared.by_bob("note.added", {"text": "x"}), hash="ab" * 32)

    def on_progress(progress: Progress) -> None:
        if progress == ("checking", progress.of, progress.of):
            shared.insert_before(late)

    with closing(_open_file_store(tmp_path / "copy.db")) as copied:
        done = copy(shared.anna, copied, on_progress=on_progress)
        assert shared.id in [copied.session for copied in done.left_out]
        _assert_annas_events_are_intact(shared, copied)


def test_backup_reports_events_left_out_because_of_a_members_damage(
    shared: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shared.insert_before(replace(shared.by_bob("note.added", {"text": "x"}), hash="ab" * 32))
    _use_machine_of(tmp_path, monkeypatch, shared.team, "anna")
    assert main(["backup", str(tmp_path / "backup")]) == 1
    output = capsys.readouterr().err
    assert "could not be backed up completely; everything else was backed up" in output
    assert "without 1 event that another person recorded" in output
    assert (tmp_path / "backup").exists()


@pytest.mark.parametrize("cases", portions(_REFUSED_ROWS))
def test_invalid_listing_values_are_refused(shared: Shared, cases: list[str]) -> None:
    """From every writer; owner-only columns from everyone else."""
    for column, value in (_REFUSED_ROWS[case] for case in cases):
        with pytest.raises((REFUSED, pg.CheckViolation, pg.NumericValueOutOfRange)):
            shared.team.line("bob").execute(
                f"UPDATE holdfast.sessions SET {column} = {value} WHERE ref = %s", (shared.ref,)
            )
    shared.assert_anna_can_work()


def test_owner_only_columns_ignore_other_members(shared: Shared) -> None:
    """The project, and the place of the last event."""
    for column, value in _each(IGNORED_VALUES).values():
        query = f"SELECT {column} FROM holdfast.sessions WHERE ref = %s"
        before = shared.team.run_as("postgres", query, shared.ref)
        statement = f"UPDATE holdfast.sessions SET {column} = {value} WHERE ref = %s"
        shared.team.line("bob").execute(statement, (shared.ref,))
        after = shared.team.run_as("postgres", query, shared.ref)
        horizon = shared.team.run_as("postgres", "SELECT last_value FROM holdfast.places")
        assert after == before if column == "project" else before <= after <= max(before, horizon)
    shared.assert_anna_can_work()


def test_every_writable_column_is_in_these_tables(team: Team) -> None:
    """A new one needs a decision: what is the worst value?"""
    rights = "SELECT column_name FROM information_schema.column_privileges WHERE grantee = 'holdfast_member'"
    query = rights + " AND table_name = %s AND privilege_type = %s"
    events = {name for (name,) in team.run_as("postgres", query, "events", "INSERT")}
    assert events - {"session"} == {*EVENT_VALUES, *ACCEPTED_VALUES}
    sessions = {name for (name,) in team.run_as("postgres", query, "sessions", "UPDATE")}
    assert sessions == {*SESSION_VALUES, *IGNORED_VALUES}


READ_COMMANDS: Final = (
    ["history", "--all-projects"], ["history", "--all-projects", "--json"], ["history", "--search", "secret"],
    ["status"], ["stats"], ["show", "{id}"], ["show", "{id}", "--json"], ["log", "{id}"],
    ["log", "{id}", "--json"], ["timeline", "{id}"], ["briefing", "{id}"], ["report", "{id}"],
    ["export", "{id}", "--format", "craft"], ["conflicts", "{id}"], ["budget", "{id}"],
)  # fmt: skip


def test_no_row_or_event_of_a_member_breaks_a_read_command(
    shared: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With every value of these tables in visible sessions, one per row; migrating the tables adds bounds, and the
    rows do not prevent it.
    """
    team = shared.team
    _insert_unchecked(shared, list(_ALL_EVENTS))
    hostile = [(column, value) for column, value in _REFUSED_ROWS.values() if column not in ("everyone", "deleted")]
    with _without_bounds(team):
        for number, (column, value) in enumerate(hostile):
            (ref,) = team.line("bob").execute(
                "INSERT INTO holdfast.sessions (vault, id) VALUES (1, %s) RETURNING ref",
                (f"{number:08x}-{secrets.token_hex(2)}-7000-8000-000000000000",),
            ).fetchone() or (0,)  # fmt: skip
            team.line("postgres").execute(
                f"UPDATE holdfast.sessions SET everyone = 'read', version = 1, goal = 'secret' WHERE ref = {ref};"
                f"UPDATE holdfast.sessions SET {column} = {value} WHERE ref = {ref}"
            )
        _use_machine_of(tmp_path, monkeypatch, team, "anna")
        for words in READ_COMMANDS:
            command = [word.format(id=shared.id[:8]) for word in words]
            assert (main(command), command) == (0, command)
            assert "Traceback" not in capsys.readouterr().err
        assert main(["doctor"]) == 6
        output = capsys.readouterr().out
        assert team.role("bob") in output
        with closing(team.store("carl")) as carl:
            assert len(carl.rows(Filter())) >= len(hostile) - 8
            assert carl.backup(str(tmp_path / "backup")) is not None
        team.line("postgres").execute(
            "UPDATE holdfast.facts SET value = '1' WHERE name = 'version'; DROP TABLE holdfast.writers;"
            "ALTER TABLE holdfast.members DROP COLUMN secret"
        )
        admin.init(team.address("boss", "shop"))
    team.line("bob").execute("UPDATE holdfast.sessions SET everyone = '' WHERE owner = CURRENT_USER")
    shared.assert_anna_can_work(notes=5)
    with pytest.raises(REFUSED):  # the migration restored the claims of streams
        shared.insert(*in_annas_stream(MAX_SAFE_INTEGER)(shared))


@contextmanager
def _without_bounds(team: Team) -> Iterator[None]:
    """As in tables of an earlier version."""
    line = team.line("postgres")
    known = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'sessions_bounds'"
    (bounds,) = line.execute(known).fetchone() or ("",)
    line.execute("ALTER TABLE holdfast.sessions DROP CONSTRAINT sessions_bounds")
    line.execute("ALTER TABLE holdfast.sessions DISABLE TRIGGER leave_the_owner")
    yield
    if line.execute(known).fetchone() is None:
        line.execute("UPDATE holdfast.sessions SET progress = 0")
        line.execute(f"ALTER TABLE holdfast.sessions ADD CONSTRAINT sessions_bounds {bounds}")
    line.execute("ALTER TABLE holdfast.sessions ENABLE TRIGGER leave_the_owner")


def _use_machine_of(directory: Path, monkeypatch: pytest.MonkeyPatch, team: Team, person: str) -> None:
    """Work on a machine of this person."""
    (directory / "project").mkdir()
    monkeypatch.chdir(directory / "project")
    monkeypatch.setenv("HOLDFAST_HOME", str(directory / "home"))
    monkeypatch.setenv("HOLDFAST_STORE", team.address(person, "shop").secret)
