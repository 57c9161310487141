"""A remote that withholds objects and lies about what it has: reported, at bounded cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.sync.remotes.base import ObjectInfo
from holdfast.sync.remotes.wrappers import LimitedRemote, OverLimit
from holdfast.sync.sync import sync_vault
from holdfast.sync.vault import Vault
from tests.support.vault_devices import Device, settle
from tests.sync.adversary import EndlessWindow, RecordingWindow, Three, Window, reasons, rejection_reasons


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    made = Three(str(tmp_path))
    yield made
    made.close()


# ── withholding ──────────────────────────────────────────────────────────────────────────────────────────


def test_hidden_newest_head_is_reported_from_what_others_saw(three: Three) -> None:
    """Ben has seen Anna's head and says so: Cleo reports it as missing until it is shown."""
    shown = three.head_of(three.anna)
    data = three.shelf.objects[shown]
    three.note(three.anna, "hidden from Cleo")
    three.anna.sync()
    three.note(three.ben, "by ben, who saw it")
    three.ben.sync()
    newest = three.head_of(three.anna)
    three.windows["cleo"].hidden = lambda one: one == newest
    three.shelf.objects[shown] = data
    for _ in range(3):
        report = three.cleo.sync()
        assert any(refused.device == "anna" and "not shown" in refused.reason for refused in report.rejected)
        assert "not shown" in rejection_reasons(three.cleo)
    assert "by ben, who saw it" in three.cleo.notes("s1")
    three.show_everything()
    three.cleo.sync()
    assert three.cleo.sync().rejected == []
    three.assert_sync_works()


def test_completely_hidden_device_is_reported(three: Three) -> None:
    """Everyone who knew the device reports that its heads are missing."""
    tag = three.head_of(three.anna)[:-12]
    three.windows["cleo"].hidden = lambda one: one.startswith(tag)
    for _ in range(2):
        report = three.cleo.sync()
        assert any(refused.device == "anna" and "not shown" in refused.reason for refused in report.rejected)
    three.show_everything()
    assert three.cleo.sync().rejected == []
    three.assert_sync_works()


def test_device_that_was_never_shown_is_reported_from_what_others_saw(three: Three, tmp_path: Path) -> None:
    """A newcomer learns of it from the heads of the others."""
    dora = Device(str(tmp_path), "dora", window := Window(three.shelf))
    dora.ask()
    three.anna.approve(dora)
    settle(three.everybody)
    tag = three.head_of(three.ben)[:-12]
    window.hidden = lambda one: one.startswith(tag)
    for _ in range(3):
        assert "not shown" in reasons(dora.sync())
    window.hidden = lambda _: False
    dora.sync()
    assert dora.sync().rejected == []
    assert sorted(dora.notes("s1")) == sorted(three.written)
    dora.close()


def without(tag: str, but: dict[str, bytes]) -> Callable[[str], bool]:
    return lambda name: name.startswith(tag) and name not in but


def test_fork_is_reported_when_one_head_crosses(three: Three) -> None:
    """Anna and Cleo each see a remote without the other, until a first head gets through."""
    anna, cleo = three.head_of(three.anna)[:-12], three.head_of(three.cleo)[:-12]
    frozen = {name: data for name, data in three.shelf.objects.items() if name.startswith((anna, cleo))}
    for name, tag in (("anna", cleo), ("cleo", anna)):
        three.windows[name].hidden = without(tag, frozen)
        three.windows[name].listed = [
            ObjectInfo(name, len(data)) for name, data in frozen.items() if name.startswith(tag)
        ]
    for number in range(3):
        for device in (three.anna, three.cleo):
            three.note(device, f"{device.name} apart {number}")
            device.sync()
    three.note(three.ben, "between them")
    three.ben.sync()
    assert "not shown" in reasons(three.anna.sync())
    assert "not shown" in reasons(three.cleo.sync())
    three.show_everything()
    settle(three.everybody)
    three.assert_complete()
    assert all(device.sync().rejected == [] for device in three.everybody)


# ── false listings ───────────────────────────────────────────────────────────────────────────────────────


def test_any_listing_is_survived(three: Three) -> None:
    """Missing and foreign names, wrong sizes, duplicates, any order: sync continues and nothing is lost."""
    tag = three.head_of(three.anna)[:-12]
    foreign = [
        "h/", "h/../../etc/passwd", "h/%2e%2e", "h/join-", "h/join-../x", "h/" + "a" * 5000, "h/\0", "h/ö", "h/\n",
        f"{tag}abc", f"{tag}-1", tag.upper() + "000000000001", "h/0000000000000000.00000000000000000000-000000000001",
        "m/../vault", "k/../vault", "p/../../x", "../h/x",
    ]  # fmt: skip
    for window in three.windows.values():
        window.listed = [ObjectInfo(name, -1) for name in foreign]
        window.listed += [ObjectInfo(name, 1 << 62) for name in three.names("h/")] * 3
        window.listed += [ObjectInfo(f"{tag}{77:012}", 5)]
    report = three.cleo.sync()
    assert any("is not there" in refused.reason for refused in report.rejected)
    three.assert_sync_works()


def test_too_long_listing_is_refused_with_a_message(three: Three) -> None:
    """A million names stop this sync, and do not affect the next one."""
    window = three.windows["cleo"]
    window.listed = [
        ObjectInfo(f"h/{number:016x}.00000000000000000000-000000000001", 1) for number in range(1_000_000)
    ]
    with pytest.raises(OverLimit, match="lists more than"):
        sync_vault(_limited(three.cleo))
    three.show_everything()
    three.assert_sync_works()


def test_valid_heads_are_read_among_thousands_of_garbage_heads(three: Three) -> None:
    """Heads of unknown writers get a limited number of reads; known devices come first."""
    vault = three.cleo.vault()
    for number in range(3_000):
        three.shelf.objects[f"h/{vault.tag}.{number:020x}-000000000001"] = b"HFS1" + bytes(100)
    three.note(three.anna, "among garbage")
    three.anna.sync()
    three.cleo.remote = watched = RecordingWindow(three.shelf)
    report = three.cleo.sync()
    assert "among garbage" in three.cleo.notes("s1")
    assert len(report.rejected) <= 1_001
    assert len(watched.asked) <= 1_200
    three.assert_sync_works()


def test_endless_object_is_given_up_at_its_limit(three: Three) -> None:
    three.note(three.anna, "meanwhile")
    three.anna.sync()
    window = three.cleo.remote
    three.cleo.remote = EndlessWindow(three.shelf)
    assert "a head" in reasons(three.cleo.sync())
    three.cleo.remote = window
    three.assert_sync_works()


def test_limited_sync_is_continued_by_the_next(three: Three) -> None:
    """Finished work is kept when a limit stops a sync, and in the end everything arrives."""
    for number in range(12):
        three.note(three.anna, f"bit by bit {number}")
        three.anna.sync()
    vault = three.cleo.vault()
    vault.remote = LimitedRemote(three.cleo.remote, requests=6)
    with pytest.raises(OverLimit):
        sync_vault(vault)
    came = len(three.cleo.notes("s1"))
    assert 3 < came < len(three.written)
    assert three.cleo.sync().rejected == []
    three.assert_sync_works()


def _limited(device: Device) -> Vault:
    vault = device.vault()
    vault.remote = LimitedRemote(device.remote)
    return vault
