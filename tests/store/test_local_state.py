"""Local state next to the log never claims more than the log contains, and old stores are migrated to have it."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from holdfast.core.errors import Damaged
from holdfast.core.events import EventErased
from holdfast.store.checks import flaws
from holdfast.store.conformance import BEN, OTHER, SESSION, Ticks, assert_sound, everything, note, put, started, take
from holdfast.store.conformance.log import chain
from holdfast.store.sqlite import SqliteStore, page_scan, schema

KEPT = {"mine/1": b"kept", "vault/1/cursor": b"far"}


def opened(path: Path) -> SqliteStore:
    return SqliteStore(str(path), writer=lambda: "a" * 20, wall=Ticks())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed store with events, one name of its own and one of a remote."""
    path = tmp_path / "store.db"
    store = opened(path)
    put(store, SESSION, started(), *(note(f"note {number}") for number in range(40)))
    put(store, OTHER, started("Other"))
    with store.transaction() as transaction:
        for name, value in KEPT.items():
            transaction.remember(name, value)
    store.close()
    return path


def change(path: Path, sql: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()


def repaired(path: Path) -> tuple[list[str], dict[str, bytes], SqliteStore]:
    store = opened(path)
    report = store.repair()
    return report, store.remembered_under(""), store


def test_repair_without_loss_keeps_local_state(path: Path) -> None:
    """Only derived data was wrong: remotes need not be asked again."""
    change(path, "DELETE FROM words; UPDATE sessions SET goal = 'wrong'; DELETE FROM snapshots")
    report, kept, store = repaired(path)
    assert (report, kept) == ([], KEPT)
    store.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE events SET data = x'7b7d' WHERE seq = 7",
        "DELETE FROM events WHERE seq = 7",
        "DELETE FROM events WHERE ord = 41",
        "DELETE FROM events WHERE session = 2",
    ],
    ids=["set aside", "missing", "the last one missing", "a session missing"],
)
def test_repair_that_lost_events_forgets_the_cursors_of_remotes(path: Path, damage: str) -> None:
    """Names under `vault/` are removed, so that the next sync fetches everything again; all others stay."""
    if "41" in damage:  # the listing has the time of the last event
        store = opened(path)
        put(store, SESSION, note("the last"), at=1_900_000_000_000)
        store.close()
        damage = "DELETE FROM events WHERE at = 1900000000000"
    change(path, damage)
    report, kept, store = repaired(path)
    assert report
    assert kept == {"mine/1": b"kept"}
    with store.transaction() as transaction:
        transaction.remember("vault/1/cursor", b"asked anew")
    assert store.repair() == []
    assert store.remembered("vault/1/cursor") == b"asked anew", "a known loss is not reported again"
    store.close()


def test_repair_that_replaces_the_file_forgets_remotes(path: Path) -> None:
    """Recovered events get new places: cursors that count the old ones must not be used."""
    with path.open("r+b") as file:
        file.write(bytes(4096))
    with pytest.raises(Damaged):
        opened(path)
    from holdfast.store.sqlite import repair

    assert "remotes" in repair.repair(str(path))[-1]
    store = opened(path)
    assert "vault/1/cursor" not in store.remembered_under("")
    assert len(store.arrived(0, 100)) == 42
    store.close()


def test_place_is_not_reused_after_a_repair(path: Path) -> None:
    """An event recorded after a repair comes after every place that was ever assigned."""
    store = opened(path)
    last = store.arrived(0, 100)[-1].place
    store.close()
    columns = "session, writer, seq, clock, at, v, type, actor, key, double, seen, body, prev, hash, data, salt"
    change(path, f"INSERT INTO events SELECT {last + 1}, {columns} FROM events WHERE ord = {last}")
    report, _, store = repaired(path)
    assert any("duplicate" in name for name in report)
    made = put(store, OTHER, note("after"))
    assert [(arrival.place, arrival.event) for arrival in store.arrived(last + 1, 10)] == [(last + 2, made[0])]
    assert_sound(store)
    store.close()


@pytest.mark.parametrize("value", ["'x'", "-1", "9223372036854775807", "x'00'", "1.5"])
def test_invalid_place_is_reported_and_repaired(path: Path, value: str) -> None:
    """Until then writing is refused."""
    change(path, f"INSERT INTO facts VALUES ('place', {value})")
    store = opened(path)
    assert [damage.check for damage in store.check()] == ["chain"]
    with pytest.raises(Damaged, match="next event"):
        put(store, SESSION, note("x"))
    store.repair()
    assert list(store.check()) == []
    put(store, SESSION, note("x"))
    assert_sound(store)
    store.close()


def test_check_finds_a_session_marked_withdrawn_that_has_events(path: Path) -> None:
    """A version that hides a session from listings is damage; a repair shows it again."""
    store = opened(path)
    before = everything(store)
    store.close()
    change(path, "UPDATE sessions SET version = -9 WHERE ref = 1")
    store = opened(path)
    assert [(damage.check, damage.session) for damage in store.check()] == [("listing", SESSION)]
    store.repair()
    assert everything(store) == before
    assert_sound(store)
    store.close()


def test_repair_reports_no_loss_for_a_withdrawn_session(path: Path) -> None:
    """And it keeps the local state of remotes."""
    store = opened(path)
    take(store, chain(BEN, 3, session="9" * 8 + "-2222-4333-8444-555555555555"))
    with store.transaction() as transaction:
        transaction.withdraw("9" * 8 + "-2222-4333-8444-555555555555", {BEN: 0})
    assert store.repair() == []
    assert store.remembered_under("").items() >= KEPT.items()
    assert list(store.check()) == []
    assert list(flaws(store.events(SESSION))) == []
    store.close()


def test_store_of_the_first_version_is_migrated(path: Path, tmp_path: Path) -> None:
    """Opening it adds what is missing and changes nothing else; its backups can still be restored."""
    store = opened(path)
    before = everything(store)
    store.close()
    change(path, "DROP TABLE memory; PRAGMA user_version = 1")
    old = tmp_path / "old.backup"
    old.write_bytes(path.read_bytes())
    store = opened(path)
    assert store._connection.pragma("user_version") == len(schema.MIGRATIONS)
    assert everything(store) == before
    assert store.remembered_under("") == {}
    with store.transaction() as transaction:
        transaction.remember("mine", b"1")
    assert_sound(store)
    assert store.restore(str(old)).events == 0
    store.close()
    fresh = opened(tmp_path / "fresh.db")
    assert fresh.restore(str(old)).events == 42
    assert everything(fresh) == before
    fresh.close()


def test_data_left_by_an_erasure_is_reported_and_repaired(path: Path) -> None:
    """Erased data that reappears in the file is reported by the check and erased by a repair."""
    store = opened(path)
    secret = put(store, SESSION, note("secret"))[0]
    put(store, SESSION, EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": "cut"}}))
    assert_sound(store)
    before = everything(store)
    store.close()
    connection = apsw.Connection(str(path))
    values = (secret.data, secret.salt, bytes.fromhex(secret.hash))
    connection.execute("UPDATE events SET data = ?, salt = ? WHERE hash = ?", values)
    connection.close()
    store = opened(path)
    assert "erasure" in [damage.check for damage in store.check()]
    store.repair()
    assert everything(store) == before
    assert_sound(store)
    store.close()


def test_scan_reads_writer_ids_of_either_length() -> None:
    """Ids of 20 digits and certified ids of 36, also where two follow each other without a gap."""
    plain, certified = "0123456789abcdef0123", "fedcba9876543210" * 2 + "abcd"
    assert page_scan.find_ids(f"{plain} {certified}".encode())[1] >= {plain, certified}
    assert page_scan.find_ids((certified + plain).encode())[1] >= {plain, certified}
    assert page_scan.find_ids((certified + certified[::-1]).encode())[1] >= {certified, certified[::-1]}
