"""Ownership of streams: a stream belongs to the member who put its events there, whatever writer id others use in
plain SQL.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from holdfast.core.canonical import digest
from holdfast.core.envelope import LAYOUT, Event, StreamHead, event_document, make_event
from holdfast.core.events import EventErased
from holdfast.sessions import ownership
from holdfast.sessions.ownership import own_test
from holdfast.store.conformance import Ticks, note, put
from holdfast.store.postgres import PostgresStore, admin
from holdfast.store.postgres.pipeline import encode_text
from tests.postgres.machines import Machine
from tests.postgres.team_of_people import REFUSED, Team, team
from tests.postgres.test_hostile_members import BOBS, Shared, row, shared

__all__ = ["shared", "team"]


def as_writer(shared: Shared, writer: str, seq: int = 1, **more: Any) -> Event:
    return shared.by_bob("note.added", {"text": f"{seq} of {writer}"}, writer=writer, seq=seq, **more)


def first_event_of_anna(shared: Shared) -> Event:
    """The first event of a stream of her home's, as a copy of her home's store inserts it."""
    event = as_writer(shared, secrets.token_hex(10))
    with shared.anna.transaction() as transaction:
        transaction.receive([event])
    return event


def next_event(shared: Shared) -> Event:
    first = first_event_of_anna(shared)
    return as_writer(shared, first.writer, 2, prev=first.hash, clock=first.clock + 1)


def next_event_after_a_claim(shared: Shared) -> Event:
    event = next_event(shared)
    assert claim(shared.team, event.writer) is None
    return event


def next_event_claimed_before(shared: Shared) -> Event:
    writer = secrets.token_hex(10)
    assert claim(shared.team, writer) is not None
    first = as_writer(shared, writer)
    with shared.anna.transaction() as transaction:
        transaction.receive([first])
    return as_writer(shared, writer, 2, prev=first.hash, clock=first.clock + 1)


def event_in_another_session(shared: Shared) -> Event:
    """Of a stream that anna put into a session that bob does not see."""
    writer = secrets.token_hex(10)
    hidden = make_event(
        session=shared.team.id("private"), writer=writer, seq=1, prev=None, clock=10**15, at=1, actor="anna",
        type="note.added", version=1, data=b'{"text":"hidden"}', salt=bytes(16),
    )  # fmt: skip
    with shared.anna.transaction() as transaction:
        transaction.receive([hidden])
    return as_writer(shared, writer)


def claim(team: Team, writer: str, person: str = "bob") -> int | None:
    ((installation,),) = team.line(person).execute("SELECT holdfast.settle(1, 'home', %s)", (writer,)).fetchall()
    return None if installation is None else int(installation)


WAYS: Final[dict[str, Callable[[Shared], Event]]] = {
    "with its next number": next_event,
    "after claiming it": next_event_after_a_claim,
    "claimed before it came": next_event_claimed_before,
    "begun in another session": event_in_another_session,
}


@pytest.mark.parametrize("way", WAYS)
def test_member_cannot_continue_a_stream_of_the_owner(shared: Shared, way: str) -> None:
    """No home of hers claims it: that she put its first event there is enough."""
    event = WAYS[way](shared)
    with pytest.raises(REFUSED):
        shared.insert(event)
    assert event.hash not in {event.hash for event in shared.anna.events(shared.id)}
    shared.assert_anna_can_work(notes=2)
    with shared.anna.transaction() as transaction:  # she can continue it herself
        assert transaction.receive([event]) == 1


def test_member_can_put_an_own_stream_into_a_writable_session(shared: Shared) -> None:
    first = as_writer(shared, secrets.token_hex(10))
    second = as_writer(shared, first.writer, 2, prev=first.hash, clock=first.clock + 1)
    for event in (first, second):
        with shared.bob.transaction() as transaction:
            assert transaction.receive([event]) == 1
    assert shared.bob.is_own_stream(shared.id, first.writer)
    assert not shared.anna.is_own_stream(shared.id, first.writer)
    put(shared.bob, shared.id, note("and goes on from here"))


def _insert_forged(shared: Shared, *events: Event) -> None:
    """Insert events as bob's, as an earlier version of the database accepted them."""
    line = shared.team.line("postgres")
    with line.transaction():
        line.execute("SET LOCAL session_replication_role = replica")
        shared.insert(*events, person="postgres")
        line.execute("UPDATE holdfast.events SET put_by = %s WHERE put_by = 'postgres'", (shared.team.role("bob"),))


def test_stream_with_an_event_of_another_member_belongs_to_neither(shared: Shared) -> None:
    """Without that event it is hers again."""
    first = first_event_of_anna(shared)
    assert shared.anna.is_own_stream(shared.id, first.writer)
    assert not shared.anna.is_own_stream(shared.id, "nobody's")
    forged = as_writer(shared, first.writer, 2, prev=first.hash, clock=first.clock + 1)
    _insert_forged(shared, forged)
    assert not shared.anna.is_own_stream(shared.id, first.writer)
    assert not shared.bob.is_own_stream(shared.id, first.writer)
    shared.team.line("anna").execute("DELETE FROM holdfast.events WHERE hash = %s", (bytes.fromhex(forged.hash),))
    assert shared.anna.is_own_stream(shared.id, first.writer)


@pytest.fixture
def annas_machine(shared: Shared, tmp_path: Path) -> Machine:
    return Machine(tmp_path, shared.team.address("anna", "shop").secret)


def test_session_of_another_member_under_this_devices_writer_id_is_not_trusted(
    shared: Shared, annas_machine: Machine
) -> None:
    """Bob starts a session whose events name anna's device as their writer, and shares it with her: its conversation
    is not hers.
    """
    session = f"{secrets.token_hex(4)}-0000-7000-8000-000000000000"
    with annas_machine.keeper() as keeper:
        begun = keeper.start("Hers")
        this = keeper.home.writer(keeper.address)
        assert own_test(keeper, begun.id)(this)
        facts: dict[str, Any] = {"session": session, "at": 1, "actor": "anna", "version": 1, "salt": bytes(16)}
        start = make_event(writer=this, seq=1, prev=None, clock=1, type="session.started",
                     data=b'{"device":"desk","goal":"Not hers"}', **facts)  # fmt: skip
        linked = make_event(writer=this, seq=2, prev=start.hash, clock=2, type="native.linked",
                      data=b'{"agent":"claude","id":"talk"}', **facts)  # fmt: skip
        with shared.bob.transaction() as transaction:
            transaction.receive([start, linked])
        shared.bob.team.share(session, shared.team.role("anna"), writes=True)
        state = keeper.store().state(session)
        assert state is not None
        assert not own_test(keeper, session)(this)
        assert not ownership.is_linked(keeper, state, "claude:talk")
        # Her next process uses another writer id: events under this one are no longer trusted.
    with annas_machine.keeper() as keeper:
        keeper.session(begun.id).note("goes on")
        other = keeper.home.writer(keeper.address)
        assert other != this
        assert own_test(keeper, begun.id)(this)
        assert own_test(keeper, begun.id)(other)


def test_writer_id_of_another_member_is_refused_or_renewed(shared: Shared) -> None:
    """As after a database was lost, and a member restored their events."""
    first = first_event_of_anna(shared)
    made = [first.writer]
    facts: dict[str, Any] = {"writer": lambda: made[-1], "wall": Ticks()}
    facts["installation"] = lambda _: "lost home of bob"
    address = shared.team.address("bob", "shop")
    with (
        closing(PostgresStore(address, **facts)) as store,
        pytest.raises(Exception, match="another person recorded events with this home's writer id"),
    ):
        put(store, shared.id, note("refused"))

    def renew() -> str:
        made.append(secrets.token_hex(10))
        return made[-1]

    with closing(PostgresStore(address, renew=renew, **facts)) as store:
        [event] = put(store, shared.id, note("taken in"))
    assert [event.writer] == made[1:]


def test_open_store_renews_its_writer_id_when_a_member_used_it(shared: Shared) -> None:
    """Anna puts an event of bob's stream into a session of her own."""
    made = [secrets.token_hex(10)]

    def renew() -> str:
        made.append(secrets.token_hex(10))
        return made[-1]

    address = shared.team.address("bob", "shop")
    with closing(
        PostgresStore(address, writer=lambda: made[-1], wall=Ticks(), installation=lambda _: "home", renew=renew)
    ) as store:
        [before] = put(store, shared.id, note("before"))
        for count in range(2):
            in_her_own = make_event(
                session=shared.team.id("private"), writer=made[-1], seq=1, prev=None, clock=10**15 + count, at=1,
                actor="anna", type="note.added", version=1, data=b'{"text":"taken"}', salt=bytes(16),
            )  # fmt: skip
            with shared.anna.transaction() as transaction:
                transaction.receive([in_her_own])
            [event] = put(store, shared.id, note(f"after {count}"))
            assert event.writer == made[-1]
    assert [before.writer] == made[:1]
    assert len(made) == 3


def test_migration_removes_the_claim_of_another_members_stream(shared: Shared) -> None:
    """Forged events under it belong to neither."""
    first = first_event_of_anna(shared)
    forged = as_writer(shared, first.writer, 2, prev=first.hash, clock=first.clock + 1)
    _insert_forged(shared, forged)
    line = shared.team.line("postgres")
    line.execute(
        "INSERT INTO holdfast.writers (vault, writer, person) VALUES (1, %s, %s)",
        (first.writer, shared.team.role("bob")),
    )
    line.execute("DROP INDEX holdfast.events_by_writer; UPDATE holdfast.facts SET value = '2' WHERE name = 'version'")
    admin.init(shared.team.address("boss", "shop"))
    assert line.execute("SELECT to_regclass('holdfast.events_by_writer') IS NOT NULL").fetchone() == (True,)
    kept_claims = line.execute("SELECT FROM holdfast.writers WHERE writer = %s", (first.writer,)).fetchall()
    assert kept_claims == []
    with pytest.raises(REFUSED):
        shared.insert(as_writer(shared, first.writer, 3, prev=forged.hash, clock=forged.clock + 1))
    assert not shared.anna.is_own_stream(shared.id, first.writer)
    put(shared.bob, shared.id, note("bob goes on under his own name"))
    shared.assert_anna_can_work(notes=2)


# ── hashes ───────────────────────────────────────────────────────────────────────────────────────────────


def under_annas_hash(shared: Shared, **more: Any) -> Event:
    made = shared.by_bob("note.added", {"text": "by bob"}, clock=shared.events[-1].clock + 5)
    return msgspec.structs.replace(made, hash=shared.events[-1].hash, **more)


INVALID: Final[dict[str, Callable[[Shared], Event]]] = {
    "the hash of another's event": under_annas_hash,
    "the same without data": lambda shared: under_annas_hash(shared, data=None, salt=None),
    "a hash of nothing": lambda shared: msgspec.structs.replace(as_writer(shared, BOBS), hash="ab" * 32),
    "data that its digest does not fit": lambda shared: msgspec.structs.replace(as_writer(shared, BOBS), data=b"{}"),
    "another time": lambda shared: msgspec.structs.replace(as_writer(shared, BOBS), at=7),
    "another actor": lambda shared: msgspec.structs.replace(as_writer(shared, BOBS), actor="anna"),
    "another session": lambda shared: as_writer(shared, BOBS, session=shared.team.id("private")),
    "a head that nobody reads": lambda shared: as_writer(shared, BOBS, seen=(StreamHead("w", 2**53, "h"),)),
    "a writer that no list shows": lambda shared: as_writer(shared, "\x1b[2J"),
}


@pytest.mark.parametrize("case", INVALID)
def test_event_that_does_not_match_its_hash_is_refused(shared: Shared, case: str) -> None:
    """Otherwise it would break checks of the chain, and an erasure of it would erase another's event of the same
    hash.
    """
    with pytest.raises(REFUSED):
        shared.insert(INVALID[case](shared))
    assert [damage for damage in shared.anna.check() if damage.session == shared.id] == []


def test_seen_heads_are_accepted_in_canonical_form_only(shared: Shared) -> None:
    """In another form they parse differently, although the hash matches the bytes."""
    plain = as_writer(shared, BOBS)
    envelope = {name: value for name, value in event_document(plain).items() if name not in ("hash", "data", "salt")}
    hashed = msgspec.json.encode(envelope, order="sorted")
    assert digest(LAYOUT, hashed) == plain.hash
    written = list(row(plain))
    for statement in (
        b'[["x", 1, "h"]]', b'[["x",1.0,"h"]]', b'[["x",1,"h",2]]', b'[["x","1","h"]]',
        b'[["x",9007199254740992,"h"]]', b'[["\\u0078",1,"h"]]', b"[null]", b"[" * 10_000, b"\xff",
    ):  # fmt: skip
        own = digest(LAYOUT, hashed.replace(b'"seen":[]', b'"seen":' + statement))
        with pytest.raises(REFUSED):
            shared.team.run_as(
                "bob", _INSERT, shared.ref, *written[:8], statement, *written[9:11], bytes.fromhex(own), *written[12:]
            )
    with shared.bob.transaction() as transaction:
        heads = (StreamHead("wé\n\x02", 3, "h"), StreamHead("x", 1, "h"))
        assert transaction.receive([as_writer(shared, BOBS, seen=heads)]) == 1


_INSERT: Final = (
    "INSERT INTO holdfast.events (session, writer, seq, clock, at, v, type, actor, key, seen, body, prev, hash, data,"
    " salt) VALUES (" + ", ".join(["%s"] * 15) + ")"
)


@pytest.mark.parametrize("text", ["plain", "\0", "\1", "\0\1\2", "é\u2028😀\x7f\x9f", 'a"b\\c/\b\f\n\r\t\x1f', ""])
def test_database_and_program_hash_any_text_equally(shared: Shared, text: str) -> None:
    """Whatever the texts and the time of the event."""
    for number, at in enumerate((0, -1, 1, -62135596800000, 253402300799999, 951782400000), 1):
        event = as_writer(shared, secrets.token_hex(10), number, at=at, actor=text, key=f"{text}{number}",
                          prev="ab" * 32)  # fmt: skip
        assert shared.team.run_as("bob", _INSERT, shared.ref, *(encode_text(value) for value in row(event)))


def test_erasure_of_a_duplicate_hash_erases_nothing_of_others(shared: Shared) -> None:
    """In a database of an earlier version: neither the owner's own erasures nor her repair apply it."""
    false = under_annas_hash(shared)
    erasure = shared.by_bob("event.erased", {"hashes": [false.hash]}, seq=2, prev=false.hash, clock=false.clock + 1)
    _insert_forged(shared, false)
    with pytest.raises(REFUSED):
        shared.insert(erasure)
    _insert_forged(shared, erasure)
    [own] = put(shared.anna, shared.id, note("of hers, and erased by her"))
    put(shared.anna, shared.id, EventErased(hashes=(own.hash,)))
    shared.anna.repair()
    data_by_hash = {event.hash: event.data for event in shared.anna.events(shared.id) if event.writer != BOBS}
    assert data_by_hash[own.hash] is None
    assert data_by_hash[shared.events[-1].hash] is not None


# ── every function with a writer, session, person or home as argument ─────────────────────────────────────

_APPEND: Final = (
    "holdfast.append({private}, 'w', 1, 1, 1, 1, 'note.added', 'a', NULL, NULL, sha256(''), NULL, sha256(''), NULL,"
    " NULL, 1, 1, NULL, 'x', 'created', 0, 'x', 'x', 0, 0, 0, '{{}}', {home})"
)
# The results for carl, a member who sees nothing of anna's private session, when he names it.
FUNCTIONS: Final[dict[str, tuple[str, object]]] = {
    "append": (_APPEND, REFUSED),
    "begin_writing": ("holdfast.begin_writing({home}, 1, '{private_id}', 1)", REFUSED),
    "begin_session": ("holdfast.begin_session(1, '{private_id}', 1)", []),
    "found": ("holdfast.found(1, ARRAY['secret'], 'secretp')", []),
    "called": ("holdfast.called(1, 'alias-private')", []),
    "words_of": ("holdfast.words_of({private})", []),
    "aliases_of": ("holdfast.aliases_of({private})", []),
    "projects_at": ("holdfast.projects_at(1, 'path', '/home/anna/private', {home})", []),
    "evidence_of": ("holdfast.evidence_of(1, 'project-private', {home})", []),
    "places_at": ("holdfast.places_at({home})", []),
    "current_at": ("holdfast.current_at({home}, '/home/anna/private')", [(None,)]),
    "point": ("holdfast.point({home}, '/home/anna/private', NULL)", REFUSED),
    "leave": ("holdfast.leave('{private_id}')", None),  # of carl's own homes
    "remembered": ("holdfast.remembered({home}, 'of private')", [(None,)]),
    "remembered_under": ("holdfast.remembered_under({home}, '')", []),
    "remember": ("holdfast.remember({home}, 'of private', NULL)", REFUSED),
    "sees": ("holdfast.sees({private})", [(False,)]),
    "writes_to": ("holdfast.writes_to({private})", [(False,)]),
    "owns": ("holdfast.owns({private})", [(False,)]),
    "own_in": ("holdfast.own_in(1, '{anna}')", [(False,)]),
    "has_home": ("holdfast.has_home({home})", [(False,)]),
    "knows": ("holdfast.knows(1, 'project-private', '{anna}', 0)", [(False,)]),
    "adds_only": ("holdfast.adds_only(1, {private}, 'note.added', NULL, 1, '{writer}', 1, sha256(''))", [(False,)]),
    "settle": ("holdfast.settle(1, 'home of carl', '{writer}')", [(None,)]),
    "settle elsewhere": ("holdfast.settle(2, 'home of carl', 'w')", REFUSED),
    "writes_as": ("holdfast.writes_as(1, '{writer}')", [(False,)]),
    "writes_as elsewhere": ("holdfast.writes_as(2, 'w')", [(False,)]),
    "own_id elsewhere": ("holdfast.own_id(2, '{elsewhere_id}')", "the same"),
}  # fmt: skip
# These read no table.
_PURE_FUNCTIONS: Final = {"among", "horizon", "is_sealed", "as_json", "heads_as_json"}


@pytest.fixture(scope="module")
def annas_ids(team: Team) -> dict[str, str]:
    """A home of anna's, and the writer of a stream that she only inserted."""
    ((home,),) = team.run_as("postgres", "SELECT ref FROM holdfast.installations WHERE person = '{anna}' LIMIT 1")
    writer = secrets.token_hex(10)
    event = make_event(
        session=team.id("private"), writer=writer, seq=1, prev=None, clock=10**15, at=1, actor="anna",
        type="note.added", version=1, data=b'{"text":"brought"}', salt=bytes(16),
    )  # fmt: skip
    with closing(team.store("anna")) as anna, anna.transaction() as transaction:
        transaction.receive([event])
    return {"{home}": str(home), "{writer}": writer}


@pytest.mark.parametrize("called", FUNCTIONS)
def test_functions_do_nothing_with_ids_of_another_member(team: Team, annas_ids: dict[str, str], called: str) -> None:
    statement, expected = FUNCTIONS[called]
    for name, value in annas_ids.items():
        statement = statement.replace(name, value)
    before = _digests_of_tables(team)
    if expected is REFUSED:
        with pytest.raises(REFUSED):
            team.run_as("carl", f"SELECT * FROM {statement}")
    else:
        result = team.run_as("carl", f"SELECT * FROM {statement} AS given")
        assert expected is None or result == ([(team.id("elsewhere"),)] if expected == "the same" else expected)
    assert _digests_of_tables(team) == before


def _digests_of_tables(team: Team) -> list[Any]:
    tables = ("sessions", "events", "words", "aliases", "places_of_work", "memory", "writers", "installations")
    return [team.run_as("postgres", f"SELECT md5(string_agg(t::text, '' ORDER BY t::text)) FROM holdfast.{table} t")
            for table in tables]  # fmt: skip


def test_every_callable_function_is_in_this_table(team: Team) -> None:
    """A new one needs a decision: whose session, home, writer or person may its caller name?"""
    query = (
        "SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'holdfast'::regnamespace"
        " AND has_function_privilege('holdfast_member', p.oid, 'EXECUTE')"
    )
    names = {str(name) for (name,) in team.run_as("postgres", query)}
    assert names == {name.split()[0] for name in FUNCTIONS} | _PURE_FUNCTIONS
