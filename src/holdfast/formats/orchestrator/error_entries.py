"""The entries of `errors`. The specification leaves their shape open: sentences and objects of any kind are read.

An entry that tells of an agent which failed is that failure; every other one stands for itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.failures import CATEGORIES
from holdfast.core.text import shorten
from holdfast.core.times import SECOND
from holdfast.formats.orchestrator.rules import moment

_MESSAGES = ("message", "error", "description", "detail", "text", "reason")
_TIMES = ("timestamp", "time", "at", "date", "occurred_at")
_AGENTS = ("agent", "agent_id", "source")
_LONGEST = 500


class Mishap(NamedTuple):
    at: int | None
    agent: str | None
    message: str
    category: str | None
    # Where in the list it stands: the order of errors at one moment.
    position: int


def read(entry: Json, position: int) -> Mishap:
    if not isinstance(entry, dict):
        return Mishap(None, None, entry if isinstance(entry, str) else _text(entry), None, position)
    at = next((found for key in _TIMES if (found := moment(entry.get(key))) is not None), None)
    message = _first(entry, _MESSAGES)
    category = entry.get("category")
    return Mishap(
        at, _first(entry, _AGENTS) or None, _text(entry) if message is None else message,
        category if isinstance(category, str) else None, position,
    )  # fmt: skip


def _first(entry: dict[str, Json], keys: Iterable[str]) -> str | None:
    return next((found for key in keys if isinstance(found := entry.get(key), str)), None)


def _text(entry: Json) -> str:
    return shorten(json.dumps(entry, ensure_ascii=False), _LONGEST)


class Mishaps:
    """The new entries of a document; those that agents' failures account for are taken out."""

    def __init__(self, entries: Iterable[Mishap]) -> None:
        self._left = {entry.position: entry for entry in entries}

    def take(self, agent: str, ended: int | None) -> Mishap | None:
        """The entry that tells how this agent failed: the one of the moment it ended, else its latest."""
        own = [entry for entry in self._left.values() if entry.agent == agent]
        then = [
            mishap
            for mishap in own
            if ended is not None and mishap.at is not None and _second(mishap.at) == _second(ended)
        ]
        plain = [mishap for mishap in then if mishap.category in CATEGORIES]
        found = plain[0] if plain else then[0] if then else own[-1] if own else None
        if found is not None:
            del self._left[found.position]
        return found

    def left(self) -> list[Mishap]:
        return list(self._left.values())


def _second(ms: int) -> int:
    return ms // SECOND
