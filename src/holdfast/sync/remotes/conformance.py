"""Tests that every remote must pass: a new kind of remote derives `RemoteConformance` and implements its hooks.

    class TestMyRemote(RemoteConformance):
        def open_remote(self, where="one"): ...
        def plant(self, name, data, where="one"): ...  # if it can

Only `holdfast.sync.remotes.base` is used. `self.place` is a directory of the test's own, and its name is one
that no other test uses. Remotes that were opened through `self.remote` are closed after the test.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeVar

import pytest

from holdfast.core.errors import Invalid, NotFound
from holdfast.sync.remotes.base import MAX_NAME_LENGTH, Missing, ObjectInfo, ObjectTooLarge, RemoteStore, is_name

_T = TypeVar("_T")

MIB = 1 << 20
# Names as Holdfast makes them, and the oddest that are allowed.
NAMES: Sequence[str] = (
    "0",
    "a.b-c.d",
    "h/0123456789abcdef.0123456789abcdef0123-000000000001",
    "h/join-0123456789abcdef0123456789abcdef",
    "k/0123456789abcdef0123456789abcdef-0123456789abcdef",
    "m/0123456789abcdef/0123456789abcdef0123456789abcdef01234567",
    "p/0123456789abcdef/0123456789abcdef0123456789abcdef01234567",
    "vault",
    "w/x-/y./z.-.-",
    "z" * 100 + "/" + "z" * 99,
)
NOT_NAMES: Sequence[str] = (
    "", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a..b", "./a", "a/.b", "-a", "A", "a b", "a\\b", "a\n",
    "a\0b", "ä", "a/*", "%2e%2e/a", "~", "a:b", "z" * (MAX_NAME_LENGTH + 1), ".holdfast-0123456789abcdef.tmp",
)  # fmt: skip

# Names that others can leave at one kind of remote or another.
PLANTED: Sequence[str] = (
    "a\nb", "h/a\tb", "h/a\x01b", "k/a\x7fb", "p/t/\x1b]0;x", "h//x", "m//", "//x", "m/t/./x", "m/../x", "h/..", " ",
    "h/ ", "h/\u202ex", "h/x\\y", "h/.git/config", ".git/config", ".gitmodules", "h/a b", "h/-x", 'h/"x', "h/%2e%2e",
    "h/*", "h/?", "h/a/b/c/d/e/f/g", "vault.lock/x", "0/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9", "p/t/" + "z" * 240,
)  # fmt: skip


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes that nothing can compress, the same each time."""
    return hashlib.shake_256(seed.to_bytes(8, "big")).digest(size)


class RemoteConformance:
    """What a place for objects must do, wherever it is."""

    many: ClassVar[int] = 1_100  # names in the test of long listings; an S3 server gives 1,000 at a time
    rounds: ClassVar[int] = 20  # of two handles creating the same name
    large: ClassVar[int] = 8 * MIB

    place: Path
    _opened: list[RemoteStore]

    # ── hooks ────────────────────────────────────────────────────────────────────────────────────────────

    def open_remote(self, where: str = "one") -> RemoteStore:
        """Open the remote of this name, made empty on first use. Opened again it is a second handle onto the same."""
        raise NotImplementedError

    def plant(self, name: str, data: bytes, where: str = "one") -> bool:  # noqa: ARG002 (for those that can)
        """Put an object of any name there as an outsider would; False when such a name is impossible there."""
        pytest.skip("this remote has no way to plant something")

    @pytest.fixture(autouse=True)
    def _around(self, tmp_path: Path) -> Iterator[None]:
        self.place, self._opened = tmp_path, []
        yield
        for remote in self._opened:
            remote.close()

    def remote(self, where: str = "one") -> RemoteStore:
        remote = self.open_remote(where)
        self._opened.append(remote)
        return remote

    # ── nothing yet ──────────────────────────────────────────────────────────────────────────────────────

    def test_a_new_remote_is_empty(self) -> None:
        """Asking an empty remote gives nothing; doing nothing and removing nothing is done."""
        remote = self.remote()
        assert list(remote.list("")) == []
        assert list(remote.list("h/")) == []
        assert remote.put([]) == frozenset()
        assert remote.put([], remove=["h/a", "b"]) == frozenset()
        with pytest.raises(Missing):
            remote.get("vault", 100)
        with pytest.raises(NotFound):
            remote.get("h/none", 0)

    def test_it_has_an_address(self) -> None:
        """Two handles onto one place have one address, which starts with its kind."""
        first, second = self.remote(), self.remote()
        assert first.url == second.url
        assert first.url.partition(":")[0] in ("folder", "s3", "git", "claude-desktop")

    # ── create, once ─────────────────────────────────────────────────────────────────────────────────────

    def test_what_was_put_is_there(self) -> None:
        """An object comes back exactly, here and through another handle, and is listed with its size."""
        first, second = self.remote(), self.remote()
        assert first.put([("p/ab/cd", b"\0\xff\r\n words")]) == frozenset()
        for remote in (first, second):
            assert remote.get("p/ab/cd", 100) == b"\0\xff\r\n words"
            assert list(remote.list("p/")) == [ObjectInfo("p/ab/cd", 10)]

    def test_what_was_put_outlives_the_handle(self) -> None:
        """A handle opened after the first was closed finds what was put."""
        first = self.open_remote()
        first.put([("vault", b"kept")])
        first.close()
        assert self.remote().get("vault", 4) == b"kept"

    def test_an_object_is_never_changed(self) -> None:
        """Creating a name again says that it was there, and leaves the bytes; equal bytes are no exception."""
        first, second = self.remote(), self.remote()
        first.put([("vault", b"first")])
        for remote in (first, second):
            for data in (b"second", b"first", b"", b"first and more"):
                assert remote.put([("vault", data)]) == frozenset({"vault"})
                assert remote.get("vault", 100) == b"first"
        assert [entry.size for entry in second.list("vault")] == [5]

    def test_put_creates_the_others_when_one_exists(self) -> None:
        """Of several, exactly those that were there are named; the others are made."""
        remote = self.remote()
        remote.put([("a/2", b"old")])
        assert remote.put([("a/1", b"1"), ("a/2", b"2"), ("a/3", b"3")]) == frozenset({"a/2"})
        assert [remote.get(f"a/{number}", 10) for number in (1, 2, 3)] == [b"1", b"old", b"3"]

    def test_a_name_that_was_removed_can_be_created_again(self) -> None:
        """Once removed, a name is free."""
        first, second = self.remote(), self.remote()
        first.put([("a", b"old")])
        second.put([], remove=["a"])
        assert first.put([("a", b"new")]) == frozenset()
        assert second.get("a", 10) == b"new"

    def test_every_name_of_ours_is_possible(self) -> None:
        """Dots, dashes, digits and long names are kept as they are."""
        first, second = self.remote(), self.remote()
        assert first.put([(name, name.encode()) for name in NAMES]) == frozenset()
        assert [entry.name for entry in second.list("")] == sorted(NAMES)
        assert all(second.get(name, MAX_NAME_LENGTH) == name.encode() for name in NAMES)
        first.put([], remove=NAMES)
        assert list(second.list("")) == []

    @pytest.mark.parametrize("size", [0, 1, 65_536, MIB, None])
    def test_sizes(self, size: int | None) -> None:
        """Nothing at all, a byte, a MiB and eight come back exactly, and are listed with that size."""
        first, second = self.remote(), self.remote()
        data = noise(self.large if size is None else size)
        first.put([("p/object", data)])
        assert second.get("p/object", len(data)) == data
        assert list(second.list("p/")) == [ObjectInfo("p/object", len(data))]

    # ── order, and failing midway ────────────────────────────────────────────────────────────────────────

    def test_they_appear_in_order(self) -> None:
        """A reader that sees an object sees all that were put before it in the same call."""
        writer, reader = self.remote(), self.remote()
        names = [f"o/{chance}" for chance in (hashlib.sha256(bytes([n])).hexdigest()[:12] for n in range(12))]

        def look() -> None:
            # From the last to the first: one that is seen now has all those before it already.
            seen = [_exists(reader, name) for name in reversed(names)]
            assert seen == sorted(seen), "a later one was there and an earlier one was not"

        _check_while(lambda: writer.put([(name, name.encode()) for name in names]), look)
        assert all(_exists(reader, name) for name in names)

    def test_a_bad_name_stops_what_comes_after_it(self) -> None:
        """A call that fails leaves all or a first part of its objects, whole, and has removed nothing."""
        remote = self.remote()
        remote.put([("old", b"old")])
        with pytest.raises(Invalid):
            remote.put([("a", b"1"), ("../b", b"2"), ("c", b"3")], remove=["old"])
        assert [entry.name for entry in remote.list("")] in (["old"], ["a", "old"])
        assert remote.get("old", 3) == b"old"
        with pytest.raises(Invalid):
            remote.put([], remove=["old/.."])
        assert remote.get("old", 3) == b"old"

    def test_creating_and_removing_in_one_call(self) -> None:
        """One call puts a new head and removes the previous one."""
        first, second = self.remote(), self.remote()
        first.put([("h/x-1", b"1")])
        assert first.put([("p/1", b"pack"), ("h/x-2", b"2")], remove=["h/x-1", "h/x-0"]) == frozenset()
        assert [entry.name for entry in second.list("")] == ["h/x-2", "p/1"]

    def test_removing_goes_on_though_names_were_there(self) -> None:
        """An object that was there already is no failure: what was to be removed is removed."""
        remote = self.remote()
        remote.put([("h/x-1", b"1"), ("h/x-2", b"2")])
        assert remote.put([("h/x-2", b"2")], remove=["h/x-1"]) == frozenset({"h/x-2"})
        assert [entry.name for entry in remote.list("")] == ["h/x-2"]

    # ── remove ───────────────────────────────────────────────────────────────────────────────────────────

    def test_removing_what_is_not_there(self) -> None:
        """Removing twice, in one call or two, or what never was, is done; the others stay."""
        first, second = self.remote(), self.remote()
        first.put([("a", b"a"), ("b", b"b"), ("d/e/f", b"f")])
        first.put([], remove=["a", "a", "none", "d/none", "d/e/none", "no/such/place"])
        second.put([], remove=["a"])
        assert [entry.name for entry in first.list("")] == ["b", "d/e/f"]
        with pytest.raises(Missing):
            second.get("a", 1)

    def test_removing_what_others_lie_below(self) -> None:
        """The first part of a name is not an object: removing it removes nothing."""
        remote = self.remote()
        remote.put([("d/e/f", b"f")])
        remote.put([], remove=["d", "d/e", "d/e/f/g"])
        assert remote.get("d/e/f", 1) == b"f"
        for name in ("d", "d/e", "d/e/f/g"):
            with pytest.raises(Missing):
                remote.get(name, 100)

    # ── list ─────────────────────────────────────────────────────────────────────────────────────────────

    def test_listing_by_prefix(self) -> None:
        """A prefix is the beginning of the name, wherever it ends; the order is that of the names."""
        remote = self.remote()
        names = ["a", "h-", "h.x/y", "h/a-1", "h/a-10", "h/a-2", "h/a/b", "h/b", "h0", "hh/a", "p/x/1", "p/y/1"]
        remote.put([(name, b"x" * number) for number, name in enumerate(reversed(names))])
        sizes = {name: number for number, name in enumerate(reversed(names))}
        for prefix in ("", "h", "h/", "h/a", "h/a-", "h/a-1", "h/a/", "h/a/b", "p/x/", "p", "p/z", "q/", "h/b/"):
            wanted = [ObjectInfo(name, sizes[name]) for name in sorted(names) if name.startswith(prefix)]
            assert list(remote.list(prefix)) == wanted, prefix

    def test_a_prefix_leads_nowhere_else(self) -> None:
        """Something that can begin no name lists nothing, or is refused."""
        remote = self.remote()
        remote.put([("h/a", b"a")])
        for prefix in ("/", "../", "h/../", "h/./", "H/", "*", "h\\", ".holdfast-", "h//", "h/a/../"):
            try:
                assert list(remote.list(prefix)) == [], prefix
            except Invalid:
                continue

    def test_long_listings(self) -> None:
        """More names than a server gives at a time are all listed, once and in order."""
        one, two = self.remote(), self.remote()
        names = [f"k/{number:06d}" for number in range(self.many)]
        for first in range(0, self.many, 100):
            one.put([(name, b"") for name in names[first : first + 100]])
        assert [entry.name for entry in two.list("k/")] == names
        assert [entry.name for entry in two.list("k/0001")] == names[100:200]
        one.put([("l", b"")], remove=names[::2])
        assert [entry.name for entry in two.list("")] == [*names[1::2], "l"]

    def test_foreign_names_are_left_out(self) -> None:
        """What others put there under names that are none of ours is neither listed nor in the way."""
        remote = self.remote()
        remote.put([("h/a", b"a")])
        for name in (
            "README.md",
            "h/.DS_Store",
            "h/A",
            "h/vault (conflicted copy)",
            ".holdfast-00.tmp",
            "UP/a",
            "h/ü",
        ):
            self.plant(name, b"not ours")
        assert [entry.name for entry in remote.list("")] == ["h/a"]
        assert [entry.name for entry in remote.list("h/")] == ["h/a"]
        remote.put([("h/b", b"b")], remove=["h/a"])
        assert [entry.name for entry in remote.list("")] == ["h/b"]

    def test_no_planted_name_hides_the_others(self) -> None:
        """Whatever names others leave there, at whichever level: all objects are listed, read, made and removed."""
        first, second = self.remote(), self.remote()
        ours = ["h/a", "k/a", "m/t/a", "p/t/a", "vault"]
        first.put([(name, name.encode()) for name in ours])
        for name in PLANTED:
            self.plant(name, b"not ours")
        for remote in (first, second, self.remote()):
            for folder in ("", "h/", "k/", "m/t/", "p/t/", "vault"):
                listed = {entry.name for entry in remote.list(folder)}
                assert {name for name in ours if name.startswith(folder)} <= listed, folder
                assert all(is_name(name) for name in listed)
            assert [remote.get(name, 10) for name in ours] == [name.encode() for name in ours]
        assert second.put([("h/b", b"b"), ("m/t/b", b"b")], remove=["h/a"]) == frozenset()
        assert {"h/b", "m/t/b", "vault"} <= {entry.name for entry in self.remote().list("")}

    def test_planted_object_is_listed_and_read_like_any(self) -> None:
        """What others put there under a name of ours is an object: it is read, and not created again."""
        remote = self.remote()
        if not self.plant("p/planted", b"not yours"):
            pytest.skip("this remote has no way to plant something")
        assert remote.put([("p/planted", b"ours")]) == frozenset({"p/planted"})
        assert remote.get("p/planted", 100) == b"not yours"
        assert list(remote.list("p/")) == [ObjectInfo("p/planted", 9)]

    # ── get ──────────────────────────────────────────────────────────────────────────────────────────────

    def test_more_than_the_limit_is_not_read(self) -> None:
        """Up to the limit an object is given whole; beyond it the error says that it is too large."""
        remote = self.remote()
        remote.put([("a", b"12345"), ("big", noise(MIB)), ("none", b"")])
        assert remote.get("a", 5) == b"12345"
        assert remote.get("a", 1 << 40) == b"12345"
        assert remote.get("none", 0) == b""
        for name, limit in (("a", 4), ("a", 0), ("big", MIB - 1), ("big", 1)):
            with pytest.raises(ObjectTooLarge):
                remote.get(name, limit)

    @pytest.mark.parametrize("name", NOT_NAMES)
    def test_what_is_no_name(self, name: str) -> None:
        """Nothing is read, written or removed under what is not a name, and nothing is there afterwards."""
        remote = self.remote()
        assert not is_name(name)
        with pytest.raises(Invalid):
            remote.get(name, 100)
        with pytest.raises(Invalid):
            remote.put([(name, b"x")])
        with pytest.raises(Invalid):
            remote.put([], remove=[name])
        assert list(remote.list("")) == []

    # ── several at once ──────────────────────────────────────────────────────────────────────────────────

    def test_only_one_of_two_creates_a_name(self) -> None:
        """Of two handles that create the same name at the same time, one succeeds and the other learns it, every
        time.
        """
        handles = [self.remote(), self.remote()]
        for number in range(self.rounds):
            name = f"race/{number}"
            start = threading.Barrier(len(handles))

            def create(mine: int, name: str = name, start: threading.Barrier = start) -> bool:
                start.wait()
                return name not in handles[mine].put([(name, noise(5_000, mine))])

            won = _run_together([lambda mine=mine: create(mine) for mine in range(len(handles))])  # type: ignore[misc]
            assert won.count(True) == 1, name
            for handle in handles:
                assert handle.get(name, 5_000) == noise(5_000, won.index(True))
        assert len(handles[0].list("race/")) == self.rounds

    def test_many_write_side_by_side(self) -> None:
        """Handles that write different objects at once, into places not there yet, do not disturb each other."""
        handles = [self.remote() for _ in range(4)]

        def write(mine: int) -> frozenset[str]:
            taken: set[str] = set()
            for number in range(5):
                head = (f"h/{mine}-{number}", b"head")
                before = [f"h/{mine}-{number - 1}"] if number else []
                taken |= handles[mine].put([(f"p/{number}/{mine}", noise(1_000, mine)), head], remove=before)
            return frozenset(taken)

        assert _run_together([lambda mine=mine: write(mine) for mine in range(4)]) == [frozenset()] * 4  # type: ignore[misc]
        wanted = [f"h/{mine}-4" for mine in range(4)] + [f"p/{n}/{mine}" for n in range(5) for mine in range(4)]
        assert [entry.name for entry in self.remote().list("")] == wanted
        assert all(handles[0].get(f"p/4/{mine}", 1_000) == noise(1_000, mine) for mine in range(4))

    def test_nobody_sees_half_an_object(self) -> None:
        """While an object is being written, others find nothing, or all of it."""
        writer, reader = self.remote(), self.remote()
        data = noise(2 * MIB)
        for number in range(3):
            name = f"p/{number}"

            def look(name: str = name) -> None:
                assert [entry.size for entry in reader.list(name)] in ([], [len(data)])
                if _exists(reader, name):
                    assert reader.get(name, len(data)) == data

            _check_while(partial(writer.put, [(name, data)]), look)
            assert reader.get(name, len(data)) == data

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────

    def test_closing(self) -> None:
        """Closing twice is done, and does not close another handle."""
        first, second = self.open_remote(), self.remote()
        first.put([("a", b"a")])
        first.close()
        first.close()
        assert second.get("a", 1) == b"a"


def _exists(remote: RemoteStore, name: str) -> bool:
    try:
        remote.get(name, 1 << 40)
    except Missing:
        return False
    return True


def _check_while(write: Callable[[], object], look: Callable[[], None]) -> None:
    """Look again and again while something is written, and once more when that is over."""
    done = threading.Event()

    def work() -> None:
        try:
            write()
        finally:
            done.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        finished = False
        while not finished:
            finished = done.is_set()
            look()
    finally:
        thread.join()


def _run_together(calls: Sequence[Callable[[], _T]]) -> list[_T]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [done.result() for done in [pool.submit(call) for call in calls]]
