"""Excessive input from an enrolled device (bombs, absurd heads, endless lists) costs little."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.core.errors import HoldfastError
from holdfast.sync.protocol import heads, packs, sealing
from holdfast.sync.protocol.entries import Rename
from holdfast.sync.protocol.heads import IndexedPack, SeenHead, WantedPushes
from holdfast.workspace.keys.device_keys import certified_writer
from tests.sync.adversary import Insider, RecordingWindow, Three, assert_others_sync, reasons


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    made = Three(str(tmp_path))
    yield made
    made.close()


@pytest.fixture
def insider(three: Three) -> Insider:
    return Insider(three.ben, three.shelf)


# ── excessive numbers ────────────────────────────────────────────────────────────────────────────────────


def absurd() -> dict[str, dict[str, Any]]:
    digest = bytes(32)
    return {
        "packs": {"packs": tuple(IndexedPack("0" * 40, n, n, 9, digest) for n in range(1, 30_001))},
        "seen": {"seen": tuple(SeenHead("0" * 20, 1, b"") for _ in range(300))},
        "wanting": {"wanting": tuple(WantedPushes("0" * 20, 1, 2) for _ in range(300))},
        "tips": {"tips": tuple(f"{n:064x}" for n in range(5_000))},
        "a name that leads elsewhere": {"packs": (IndexedPack("../../../etc/passwd", 1, 1, 9, digest),)},
        "a negative size": {"packs": (IndexedPack("0" * 40, 1, 1, -9, digest),)},
        "pushes backwards": {"packs": (IndexedPack("0" * 40, 5, 1, 9, digest),)},
        "pushes with a gap": {"packs": (IndexedPack("0" * 40, 2, 2, 9, digest),)},
        "a short digest": {"packs": (IndexedPack("0" * 40, 1, 1, 9, b""),)},
        "a time beyond time": {"at": 2**63},
        "a time before time": {"at": -1},
        "an older version": {"v": 0},
        "a negative version": {"v": -1},
        "a newer version": {"v": 2, "packs": "in another way"},
        "another vault": {"vault": "0" * 64},
        "tips that are none": {"tips": ("../x",)},
        "a life that is none": {"seen": (SeenHead("../x", 1, b""),)},
        "text for numbers": {"counter_": 1, "at": "now"},
    }


@pytest.mark.parametrize("what", absurd())
def test_absurd_head_is_rejected(three: Three, insider: Insider, what: str) -> None:
    """Invalid content costs one read, whoever signed it."""
    three.cleo.remote = watched = RecordingWindow(three.shelf)
    insider.head(**absurd()[what])
    report = three.cleo.sync()
    assert any("a head cannot be read" in refused.reason and refused.device == "ben" for refused in report.rejected)
    assert len(watched.asked) <= 3
    assert_others_sync(three)


def test_head_with_missing_packs_costs_few_requests(three: Three, insider: Insider) -> None:
    """After some unreadable packs the rest is not requested, and Cleo's own head does not grow."""
    first = insider.own.pushes + 1
    many = tuple(IndexedPack(os.urandom(20).hex(), n, n, 100, os.urandom(32)) for n in range(first, first + 5_000))
    insider.head(*many)
    three.cleo.remote = watched = RecordingWindow(three.shelf)
    report = three.cleo.sync()
    assert "a pack cannot be read" in reasons(report)
    assert len(watched.asked) < 300
    three.note(three.cleo, "and goes on")
    three.cleo.sync()
    three.cleo.sync()
    assert len(three.shelf.objects[three.head_of(three.cleo)]) < 20_000
    assert_others_sync(three)


def test_repeated_pack_requests_are_bounded(three: Three, insider: Insider) -> None:
    """A head that wants all of Anna's pushes makes her repack them, no more than she has, and nothing is lost."""
    life = sealing.life_tag(insider.vault.id, three.anna.writer)
    for _ in range(3):
        insider.head(wanting=(WantedPushes(life, 1, 2**53), WantedPushes(life, 2**52, 2**53)))
        three.anna.sync()
    assert_others_sync(three)
    assert len(three.names("p/")) < 30


def test_decompression_bomb_is_not_unpacked(three: Three, insider: Insider) -> None:
    """A few kilobytes that unpack to gigabytes, as pack, head and entry, stop at the limit."""
    zeros = bytes(200 << 20)
    insider.head(insider.pack(zeros))
    tracemalloc.start()
    report = three.cleo.sync()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "too large" in reasons(report)
    assert peak < 300 << 20
    insider.sealed("head", heads.name_of(insider.vault.id, three.ben.writer, insider.counter + 1), zeros)
    assert "a head is too large" in reasons(three.cleo.sync())
    assert_others_sync(three)


def test_pack_with_too_many_events_is_rejected_before_decoding(
    three: Three, insider: Insider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot fill the memory."""
    event = msgspec.msgpack.encode([1, 1, 1, None, None, "", "", b"", bytes(16), None])
    writer = certified_writer(three.ben.keys.public.signing)
    front = msgspec.msgpack.encode(["s1", writer, 1, None, insider.vault.me, bytes(64)])

    def plain(inner: int, outer: int) -> bytes:
        stretch = b"\x97" + front[1:] + b"\xdd" + inner.to_bytes(4, "big") + event * inner
        return b"\x92\x01\xdd" + outer.to_bytes(4, "big") + stretch * outer

    whole = plain(2_000_000, 1)
    tracemalloc.start()
    with pytest.raises(HoldfastError, match="not a valid pack"):
        packs.unpack(whole)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150 << 20
    monkeypatch.setattr(packs, "MAX_EVENTS", 2_500)
    with pytest.raises(HoldfastError, match="more events than a pack can"):
        packs.unpack(plain(1_000, 3))


@pytest.mark.parametrize("shape", ["deep", "wide"])
def test_entries_in_any_shape_are_evaluated(three: Three, insider: Insider, shape: str) -> None:
    """Hundreds of entries in a chain or side by side are all read, and nobody is locked out."""
    me, tips = three.ben.keys.public.id, tuple(insider.vault.membership.tips)
    if shape == "deep":
        last = tips
        for number in range(400):
            last = (insider.entry(Rename, parents=last, device=me, name=f"ben {number}"),)
    else:
        last = tuple(sorted(insider.entry(Rename, device=me, name=f"ben {number}") for number in range(400)))
        last = (insider.entry(Rename, parents=last, device=me, name="ben"),)
    insider.head(tips=last)
    three.cleo.sync()
    assert three.cleo.vault().membership.tips == last
    assert_others_sync(three)


def test_reports_about_unknown_writers_are_limited(three: Three, insider: Insider) -> None:
    """A head that claims to have seen unknown writers is reported; only a few of them are remembered."""
    for _ in range(5):
        insider.head(seen=tuple(SeenHead(os.urandom(10).hex(), 5, bytes(8)) for _ in range(256)))
        assert "not shown" in reasons(three.cleo.sync())
    assert len(three.cleo.vault().memory.rejections()) <= 1_001
    assert_others_sync(three)
