"""A limited remote ends: too many requests, too many bytes, too long a listing or too much time are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.core.errors import HoldfastError, Refused
from holdfast.sync.remotes.base import Missing, ObjectTooLarge, RemoteStore
from holdfast.sync.remotes.folder import FolderRemote
from holdfast.sync.remotes.wrappers import LimitedRemote, OverLimit


@pytest.fixture
def folder(tmp_path: Path) -> FolderRemote:
    remote = FolderRemote(str(tmp_path / "remote"), create=True)
    remote.put([(f"a/{number}", b"12345") for number in range(10)])
    return remote


CALLS: tuple[Callable[[RemoteStore], object], ...] = (
    lambda remote: remote.list(""),
    lambda remote: remote.get("a/1", 5),
    lambda remote: remote.put([("b", b"")]),
    lambda remote: remote.put([]),
)


def test_within_its_limits_it_is_the_same_remote(folder: FolderRemote) -> None:
    """Nothing is noticed of limits that are not reached."""
    remote = LimitedRemote(folder, requests=8, bytes=10, listing=11, seconds=60)
    assert remote.put([("b", b"b"), ("a/1", b"")], remove=["none"]) == frozenset({"a/1"})
    assert len(remote.list("")) == 11
    assert remote.get("a/1", 5) + remote.get("a/2", 5) == b"1234512345"
    with pytest.raises(OverLimit):
        remote.get("a/3", 5)


@pytest.mark.parametrize("call", CALLS)
def test_the_number_of_requests(folder: FolderRemote, call: Callable[[RemoteStore], object]) -> None:
    """After so many requests every further one is refused, and says so."""
    remote = LimitedRemote(folder, requests=3)
    for _ in range(3):
        remote.list("a/")
    with pytest.raises(Refused, match="3 requests") as raised:
        call(remote)
    assert raised.value.hint
    assert not raised.value.retry_helps
    assert [entry.name for entry in folder.list("b")] == []


def test_failed_requests_count(folder: FolderRemote) -> None:
    """Asking for what is not there again and again ends too."""
    remote = LimitedRemote(folder, requests=3)
    for _ in range(3):
        with pytest.raises(Missing):
            remote.get("none", 1)
    with pytest.raises(OverLimit):
        remote.get("none", 1)


def test_a_put_counts_each_object_and_is_refused_whole(folder: FolderRemote) -> None:
    """What would go over the limit is not begun: nothing is created, nothing removed."""
    remote = LimitedRemote(folder, requests=4)
    with pytest.raises(OverLimit):
        remote.put([("b/1", b""), ("b/2", b""), ("b/3", b"")], remove=["a/1", "a/2"])
    assert len(folder.list("")) == 10
    remote.put([("b/1", b""), ("b/2", b"")], remove=["a/1", "a/2"])
    assert len(folder.list("")) == 10
    with pytest.raises(OverLimit):
        remote.list("")


def test_the_bytes_read(folder: FolderRemote) -> None:
    """So many bytes are read and no more: what would go beyond is refused by the limit, not as too large."""
    remote = LimitedRemote(folder, bytes=12)
    remote.get("a/1", 100)
    remote.get("a/2", 100)
    with pytest.raises(HoldfastError, match="12 bytes") as raised:
        remote.get("a/3", 100)
    assert type(raised.value) is OverLimit


def test_an_object_too_large_for_its_reader_stays_just_that(folder: FolderRemote) -> None:
    """While there are bytes left, `TooLarge` means the object; what it cost is counted all the same."""
    remote = LimitedRemote(folder, bytes=9)
    for _ in range(3):
        with pytest.raises(ObjectTooLarge):
            remote.get("a/1", 3)
    with pytest.raises(OverLimit):
        remote.get("a/1", 3)


def test_the_names_in_one_listing(folder: FolderRemote) -> None:
    """A listing with more names is refused; shorter ones go on."""
    remote = LimitedRemote(folder, listing=9)
    with pytest.raises(Refused, match="9 objects"):
        remote.list("")
    assert len(remote.list("a/1")) == 1


@pytest.mark.parametrize("call", CALLS)
def test_the_time(folder: FolderRemote, call: Callable[[RemoteStore], object]) -> None:
    """After so many seconds nothing more is asked."""
    now = 100.0
    remote = LimitedRemote(folder, seconds=30, clock=lambda: now)
    now = 130.0
    call(remote)
    now = 130.5
    with pytest.raises(OverLimit, match="30 seconds"):
        call(remote)
