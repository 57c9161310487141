"""How full the context is, as this format tells it: tokens and a whole percentage, the window only by implication."""

from __future__ import annotations

from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.modes import WINDOW
from holdfast.core.state import State
from holdfast.core.view import window_of
from holdfast.formats.base import Document
from holdfast.formats.entries import named
from holdfast.formats.orchestrator.names import IDENTITIES
from holdfast.formats.orchestrator.rules import moment

# Windows that models have. Others are not read out of a rounded percentage: it would be a guess.
_KNOWN_WINDOWS: Final = (200_000, 1_000_000, 2_000_000, 400_000, 256_000, 100_000, 64_000, 32_000)
_TELLING: Final = 5  # percent; below it, every window fits


def window(tokens: int, percentage: Json) -> int | None:
    """The window that the percentage clearly means; None for the usual one."""
    if not isinstance(percentage, (int, float)) or tokens <= 0:
        return None
    told = round(percentage)
    if told < _TELLING or _share(tokens, WINDOW) == told or abs(100 * tokens / WINDOW - told) < 1:
        return None
    return next((size for size in _KNOWN_WINDOWS if _share(tokens, size) == told), None)


def tokens(state: State) -> int:
    """In all; where nobody said, what the agents use together."""
    return max(0, state.tokens if state.tokens is not None else sum(state.by_agent.values()))


def percentage(state: State) -> int:
    return min(100, _share(tokens(state), window_of(state)))


def _share(used: int, size: int) -> int:
    return round(100 * used / size)


def words(entry: dict[str, Json], key: str) -> str | None:
    value = entry.get(key)
    return value if isinstance(value, str) and value.strip() else None


def when(entry: dict[str, Json], key: str) -> int | None:
    return moment(entry.get(key))


def whole(entry: dict[str, Json], key: str) -> int | None:
    value = entry.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def part(document: Document, key: str) -> dict[str, Json]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def names(document: Document | None, key: str) -> dict[str, Json]:
    """The entries of a list by their names."""
    value = (document or {}).get(key)
    return dict(named(value, (key,), IDENTITIES)) if isinstance(value, list) else {}


def objects(document: Document | None, key: str) -> dict[str, dict[str, Json]]:
    return {name: entry for name, entry in names(document, key).items() if isinstance(entry, dict)}
