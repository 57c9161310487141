"""Modes and their limits; how full the context is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.modes import MODES, WINDOW, Level, level, limits, percent


def test_limits() -> None:
    """Agents at once, compression threshold and retries of the four modes are those decided."""
    assert {mode: tuple(limits(mode)) for mode in MODES} == {
        "default": (2, 70, 3),
        "debug": (1, 90, 5),
        "optimize": (4, 60, 2),
        "release": (4, 85, 1),
    }


def test_an_unknown_mode_has_the_ordinary_limits() -> None:
    """A mode of a later version does not stop this one."""
    assert limits("turbo") == limits("default")


def test_the_window() -> None:
    """128,000 tokens unless known."""
    assert WINDOW == 128_000


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (None, "normal"), (0, "normal"), (4999, "normal"), (5000, "shown"), (6999, "shown"), (7000, "warning"),
        (8499, "warning"), (8500, "compress"), (10_000, "compress"), (10**15, "compress"), (-1, "normal"),
    ],
)  # fmt: skip
def test_levels(tokens: int | None, expected: Level) -> None:
    """Normal below 50 %, shown from 50, a warning from 70, compress from 85: exactly, not rounded."""
    assert level(tokens, 10_000) == expected


@given(st.integers(-(2**53), 2**53) | st.none(), st.integers(-(2**53), 2**53))
def test_any_numbers_have_a_level(tokens: int | None, window: int) -> None:
    """A nonsensical window is no reason to fail, or to alarm."""
    found = level(tokens, window)
    assert found in ("normal", "shown", "warning", "compress")
    if window <= 0:
        assert found == "normal"
    assert percent(tokens or 0, window) == percent(tokens or 0, window)


def test_percent() -> None:
    """One decimal; nothing of nothing is nothing."""
    assert percent(64_000, 128_000) == 50.0
    assert percent(1, 3) == 33.3
    assert percent(5, 0) == 0.0
