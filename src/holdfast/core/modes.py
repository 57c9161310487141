"""Modes and what they allow; how full the context is and what that calls for."""

from __future__ import annotations

from typing import Literal, NamedTuple

Mode = Literal["debug", "default", "optimize", "release"]
Level = Literal["normal", "shown", "warning", "compress"]

WINDOW = 128_000  # tokens, until the agent says otherwise


class Limits(NamedTuple):
    agents: int  # at once
    compress_at: int  # percent of the window
    retries: int


LIMITS: dict[Mode, Limits] = {
    "debug": Limits(agents=1, compress_at=90, retries=5),
    "default": Limits(agents=2, compress_at=70, retries=3),
    "optimize": Limits(agents=4, compress_at=60, retries=2),
    "release": Limits(agents=4, compress_at=85, retries=1),
}
MODES: tuple[Mode, ...] = ("debug", "default", "optimize", "release")


def limits(mode: str) -> Limits:
    """A mode this version does not know is treated with the ordinary limits."""
    for known, its_limits in LIMITS.items():
        if known == mode:
            return its_limits
    return LIMITS["default"]


def percent(tokens: int, window: int) -> float:
    return round(100 * tokens / window, 1) if window > 0 else 0.0


def level(tokens: int | None, window: int) -> Level:
    used = 100 * (tokens or 0)
    if used >= 85 * window:
        return "compress" if window > 0 else "normal"
    if used >= 70 * window:
        return "warning"
    return "shown" if used >= 50 * window else "normal"
