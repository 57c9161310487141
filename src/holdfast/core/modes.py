"""The limits of each mode, and how full a context is."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Mode = Literal["debug", "default", "optimize", "release"]
Level = Literal["normal", "shown", "warning", "compress"]

WINDOW = 128_000  # in tokens, of an unknown model
# The context windows of models, in tokens, by the beginnings of their names: the first that fits counts. Where a
# second size is given, the model is also offered with that one, under the same name.
_WINDOWS: Final[tuple[tuple[tuple[str, ...], tuple[int, ...]], ...]] = (
    (("claude-2", "claude-instant"), (100_000,)),
    (("claude", "sonnet", "opus", "haiku"), (200_000, 1_000_000)),
    (("gpt-5", "codex"), (272_000, 400_000)),
    (("gpt-4.1",), (1_047_576,)),
    (("o1", "o3", "o4"), (200_000,)),
    (("gemini-1.5-pro",), (2_097_152,)),
    (("gemini",), (1_048_576,)),
)
_LARGE: Final = "[1m]"  # at the end of a model's name: it has the window of a million tokens


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
    """The limits of a mode; those of `default` if this version does not know the mode."""
    for name, its_limits in LIMITS.items():
        if name == mode:
            return its_limits
    return LIMITS["default"]


def window(model: str | None, tokens: int = 0) -> int:
    """The context window of a model; of those it has, the smallest that holds so many tokens."""
    name = (model or "").lower().rpartition("/")[2].rpartition("anthropic.")[2]
    if name.endswith(_LARGE):
        return 1_000_000
    sizes = next((sizes for beginnings, sizes in _WINDOWS if name.startswith(beginnings)), (WINDOW,))
    return next((size for size in sizes if tokens <= size), sizes[-1])


def percent(tokens: int, window: int) -> float:
    return round(100 * tokens / window, 1) if window > 0 else 0.0


def level(tokens: int | None, window: int) -> Level:
    used = 100 * (tokens or 0)
    if used >= 85 * window:
        return "compress" if window > 0 else "normal"
    if used >= 70 * window:
        return "warning"
    return "shown" if used >= 50 * window else "normal"
