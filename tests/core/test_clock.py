"""The hybrid clock only goes forward."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.canonical import LARGEST
from holdfast.core.clock import tick


def test_it_follows_the_wall_while_that_is_ahead() -> None:
    """With a sane clock, order and time agree."""
    assert tick(5, 1_000_000) == 1_000_000


def test_it_counts_on_when_the_wall_went_back() -> None:
    """After a clock was set back, or behind a peer with a fast one, events still get later."""
    assert tick(1_000_000, 5) == 1_000_001
    assert tick(1_000_000, 1_000_000) == 1_000_001


def test_it_starts_above_nothing() -> None:
    """A machine that believes it is 1970, or earlier, has a clock nevertheless."""
    assert tick(0, 0) == 1
    assert tick(0, -(10**18)) == 1
    assert tick(-50, -50) == 1


def test_it_stays_within_what_can_be_hashed() -> None:
    """A peer's absurd clock leaves the clock standing at its end; work goes on."""
    assert tick(LARGEST, 0) == LARGEST
    assert tick(0, 10**30) == LARGEST


@given(st.lists(st.integers(-(10**16), 10**15), max_size=30), st.integers(0, 10**15))
def test_it_never_stands_still(walls: list[int], last: int) -> None:
    """Whatever the wall says, each event's clock is later than all known before it."""
    for wall in walls:
        following = tick(last, wall)
        assert following > last
        assert following >= wall
        last = following
