"""What is kept under a name beside the log: small, and true exactly when the events around it are."""

from __future__ import annotations

import pytest

from holdfast.store import origin
from holdfast.store.conformance.fixtures import OTHER, SESSION, StoreFixture, assert_sound, draft, note, put, started
from holdfast.store.interface import UNSEEN, Store

NAMES = [
    "vault/a", "vault/a/", "vault/a/1", "vault/a/10", "vault/a/2", "vault/ab", "vault/a%", "vault/a_", "vault/A",
    "vault/aé", "vault/a日本", "vault/a\U0010fffd", "vault/a\U0010ffff/x", "vault/a\0b", "vault", "", "clock",
    "place", "aside:1", "' OR 1=1 --", "*", "vault/[a]",
]  # fmt: skip


def keep(store: Store, **values: bytes | None) -> None:
    with store.transaction() as transaction:
        for name, value in values.items():
            transaction.remember(name, value)


class Remembering(StoreFixture):
    def test_nothing_is_remembered_at_first(self) -> None:
        """A name that nobody kept anything under gives nothing, in a transaction and outside."""
        store = self.store()
        assert store.remembered("cursor") is None
        assert store.remembered_under("") == {}
        with store.transaction() as transaction:
            assert transaction.remembered("cursor") is None
            transaction.remember("cursor", None)

    def test_what_is_remembered_stays_until_it_is_replaced_or_forgotten(self) -> None:
        """Over closing, for another connection, empty bytes and large ones; the last word counts."""
        store, other = self.store(), self.store()
        large = bytes(range(256)) * 20_000
        keep(store, one=b"1", empty=b"", large=large)
        assert other.remembered_under("") == {"empty": b"", "large": large, "one": b"1"}
        keep(other, one=b"\0two", empty=None)
        assert (store.remembered("one"), store.remembered("empty")) == (b"\0two", None)
        store = self.reopened(store)
        assert store.remembered_under("") == {"large": large, "one": b"\0two"}
        assert_sound(store)

    def test_a_transaction_sees_what_it_keeps_and_others_only_afterwards(self) -> None:
        """Within the block the new value counts; elsewhere the old one, until the block is left."""
        store, other = self.store(), self.store()
        keep(store, one=b"1")
        with store.transaction() as transaction:
            transaction.remember("one", b"2")
            transaction.remember("two", b"3")
            assert (transaction.remembered("one"), transaction.remembered("two")) == (b"2", b"3")
            assert (other.remembered("one"), other.remembered("two")) == (b"1", None)
            transaction.remember("two", None)
            assert transaction.remembered("two") is None
        assert (other.remembered("one"), other.remembered("two")) == (b"2", None)

    def test_it_stands_or_falls_with_the_events_around_it(self) -> None:
        """A block that an exception leaves has kept nothing, forgotten nothing, and recorded nothing."""
        store = self.store()
        keep(store, old=b"stays", other=b"stays too")
        put(store, SESSION, started())
        with pytest.raises(RuntimeError), store.transaction() as transaction:  # noqa: PT012
            transaction.remember("new", b"x")
            transaction.record(SESSION, draft(note("x")))
            transaction.remember("old", b"changed")
            transaction.remember("other", None)
            raise RuntimeError
        assert store.remembered_under("") == {"old": b"stays", "other": b"stays too"}
        with store.transaction() as transaction:
            assert transaction.remembered("new") is None
            transaction.record(SESSION, draft(note("y")))
            transaction.remember("new", b"y")
        store = self.reopened(store)
        assert store.remembered("new") == b"y"
        assert len(list(store.events(SESSION))) == 2

    def test_names_are_listed_by_how_they_begin_whatever_is_in_them(self) -> None:
        """Exactly the names with the prefix, in their order; wildcards, quotes and NUL are letters like others."""
        store = self.store()
        keep(store, **{name: name.encode() for name in NAMES})
        for prefix in [*NAMES, "vault/", "vault/a\U0010ffff", "v", "nobody", "aside", "vault/a/1"]:
            due = sorted((name for name in NAMES if name.startswith(prefix)), key=str.encode)
            assert list(store.remembered_under(prefix).items()) == [(name, name.encode()) for name in due], prefix
        for name in NAMES:
            assert store.remembered(name) == name.encode()
        put(store, SESSION, started())
        assert_sound(store)

    def test_a_backup_says_nothing_of_remotes(self) -> None:
        """Restored elsewhere or opened as it is, a copy has no names under `vault/`, nor their bytes."""
        store = self.store()
        put(store, SESSION, started())
        keep(store, **{"vault/1/cursor": b"how far we asked", "vault/1/more": b"x" * 9000, "mine": b"kept"})
        with store.transaction() as transaction:
            origin.record_own(transaction, SESSION, "the vault it came from", "its writer")
        path = self.place / "copy.backup"
        store.backup(str(path))
        assert b"how far we asked" not in path.read_bytes()
        assert b"the vault it came from" not in path.read_bytes()
        fresh = self.store("fresh")
        assert fresh.restore(str(path)).events == 1
        assert origin.owned(fresh, SESSION) == origin.Owned()
        assert fresh.remembered_under("vault/") == {}
        assert fresh.remembered("mine") is None
        assert fresh.remembered(UNSEEN) == b"0"
        assert store.remembered("vault/1/cursor") == b"how far we asked"

    def test_repairing_and_erasing_forget_nothing_while_the_log_is_whole(self) -> None:
        """Without damage every name is still there after a repair, and after a session was deleted for good."""
        from holdfast.core.events import SessionDeleted

        store = self.store()
        put(store, SESSION, started())
        put(store, OTHER, started("Other"))
        keep(store, **{"vault/1/cursor": b"2", "mine": b"kept"})
        store.repair()
        store.erase(OTHER, draft(SessionDeleted()))
        assert store.remembered_under("") == {"mine": b"kept", "vault/1/cursor": b"2"}
