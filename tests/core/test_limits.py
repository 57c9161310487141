"""Modes and their limits, and the levels of context use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.modes import MODES, WINDOW, Level, level, limits, percent


def test_modes_have_the_decided_limits() -> None:
    """Agents at once, compression threshold and retries."""
    assert {mode: tuple(limits(mode)) for mode in MODES} == {
        "default": (2, 70, 3),
        "debug": (1, 90, 5),
        "optimize": (4, 60, 2),
        "release": (4, 85, 1),
    }


def test_unknown_mode_has_the_default_limits() -> None:
    """A later version may add modes."""
    assert limits("turbo") == limits("default")


def test_context_window_defaults_to_128000_tokens() -> None:
    assert WINDOW == 128_000


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (None, "normal"), (0, "normal"), (4999, "normal"), (5000, "shown"), (6999, "shown"), (7000, "warning"),
        (8499, "warning"), (8500, "compress"), (10_000, "compress"), (10**15, "compress"), (-1, "normal"),
    ],
)  # fmt: skip
def test_context_level_changes_exactly_at_its_threshold(tokens: int | None, expected: Level) -> None:
    """Shown from 50 %, a warning from 70, compress from 85, without rounding."""
    assert level(tokens, 10_000) == expected


@given(st.integers(-(2**53), 2**53) | st.none(), st.integers(-(2**53), 2**53))
def test_any_measurement_has_a_context_level(tokens: int | None, window: int) -> None:
    """A nonsensical window neither raises nor warns."""
    context_level = level(tokens, window)
    assert context_level in ("normal", "shown", "warning", "compress")
    if window <= 0:
        assert context_level == "normal"
    assert percent(tokens or 0, window) == percent(tokens or 0, window)


def test_percent_has_one_decimal() -> None:
    """And is 0 without a window."""
    assert percent(64_000, 128_000) == 50.0
    assert percent(1, 3) == 33.3
    assert percent(5, 0) == 0.0
