"""The spool: payloads are read in the order they were written, and never confused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversations.ingest import payload
from holdfast.workspace import spool

STEP = 4_000_000  # ns: the step of file times
LOWEST = 300  # where process numbers wrap
SMALLEST_END = 32_768  # and the lowest number, on any system, at which they may wrap
PAYLOAD = b'{"session_id": "talk-1", "hook_event_name": "Stop"}'


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    place = tmp_path / spool.DIRECTORY
    place.mkdir()
    return place


def left(directory: Path, own: int, content: bytes = PAYLOAD, *, at: int = STEP) -> Path:
    path = directory / f"claude.user.1.{own}"
    path.write_bytes(content)
    os.utime(path, ns=(at, at))
    return path


def entry(own: int, at: int) -> spool.SpoolEntry:
    status = os.stat_result((0o100600, 1, 1, 1, 0, 0, 10, 0, 0, 0), {"st_mtime_ns": at, "st_atime_ns": 0})
    return spool.SpoolEntry(f"claude.user.1.{own}", f"claude.user.1.{own}", status)


# ── order ────────────────────────────────────────────────────────────────────────────────────────────────


def test_payloads_stay_in_order_when_process_numbers_wrap(directory: Path) -> None:
    """Within one clock step, the highest process number is followed by the lowest."""
    for own in (32_765, 32_767, 301, 303):
        left(directory, own)
    left(directory, 299, at=2 * STEP)
    left(directory, 40_000, at=0)
    listed = spool.list_entries(str(directory.parent))
    assert [item.own for item in listed] == [40_000, 32_765, 32_767, 301, 303, 299]


def test_payloads_stay_in_order_in_times_that_differ_by_less_than_a_step(directory: Path) -> None:
    """Exact file times count, whatever the process numbers."""
    for number, own in enumerate((9_000, 20, 70_000, 400)):
        left(directory, own, at=STEP + number)
    assert [item.own for item in spool.list_entries(str(directory.parent))] == [9_000, 20, 70_000, 400]


@given(
    end=st.sampled_from((SMALLEST_END, 99_999, 4_194_304)),
    before_end=st.integers(0, 3_000),
    hooks=st.lists(st.tuples(st.integers(1, 400), st.integers(0, 2)), max_size=40),
    shuffle=st.randoms(use_true_random=False),
)
def test_order_is_that_of_sequential_hooks(
    end: int, before_end: int, hooks: list[tuple[int, int]], shuffle: Random
) -> None:
    """For any increasing and wrapping numbers and times."""
    own, at, expected = end - before_end, STEP, list[spool.SpoolEntry]()
    for processes, steps in hooks:
        own, at = own + processes, at + steps * STEP
        own = own if own < end else own - end + LOWEST
        expected.append(entry(own, at))
    given_out = list(expected)
    shuffle.shuffle(given_out)
    assert spool.in_spool_order(given_out) == expected


def test_listing_has_no_payload_without_those_before_it(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory is read in pieces, so concurrent files may be listed in any combination."""
    read, pieces = os.scandir, iter([((2, 3), 2), ((4, 5), 4)])
    left(directory, 1, at=STEP)

    @contextmanager
    def in_pieces(path: str) -> Iterator[list[os.DirEntry[str]]]:
        written, missed = next(pieces)
        for own in written:
            left(directory, own, at=own * STEP)
        with read(path) as listing:
            yield [item for item in listing if not item.name.endswith(f".{missed}")]

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", in_pieces)
        listed = spool.list_entries(str(directory.parent))
    # The second listing has 2, but not 4, so 5 has to wait.
    assert [item.own for item in listed] == [1, 2, 3]


# ── names that come again ────────────────────────────────────────────────────────────────────────────────


def test_later_payload_with_the_same_name_is_not_removed(directory: Path) -> None:
    """Process numbers repeat: only the payload that was read is removed."""
    path = left(directory, 7)
    earlier = spool.list_entries(str(directory.parent))
    path.unlink()
    left(directory, 7, PAYLOAD + b" ", at=2 * STEP)
    spool.remove_entries(earlier)
    spool.quarantine(str(directory.parent), earlier[0])
    assert path.read_bytes() == PAYLOAD + b" "
    assert spool.list_unread(str(directory.parent)) == []
    spool.remove_entries(spool.list_entries(str(directory.parent)))
    assert not path.exists()


@pytest.mark.parametrize(("content", "at"), [(PAYLOAD + b" ", STEP), (PAYLOAD, STEP + 1)], ids=["grown", "another"])
def test_payload_that_changed_since_the_listing_is_read_next_time(directory: Path, content: bytes, at: int) -> None:
    """Its place in the order was that of the listed file."""
    left(directory, 7)
    (listed,) = spool.list_entries(str(directory.parent))
    assert payload.read(listed, 1_000).payload is not None
    left(directory, 7, content, at=at)
    result = payload.read(listed, 1_000)
    assert result.payload is None
    assert result.unfinished
