"""Putting a conversation and its subagents together: each has a rollout of its own. Whoever called an agent mostly
says by which id it went, and the agent's first line always says for whom it works; either is enough.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final

from holdfast.capture.signals import AgentBegan
from holdfast.capture.transcripts import Story

ENDS: Final = (".jsonl", ".jsonl.zst")
TOPS: Final = ("sessions", "archived_sessions")
_NAME: Final = "rollout-"
_MOMENT: Final = len("2026-11-15T09-30-00-")
_DAY: Final = len("2026-11-15")
_ID: Final = 36  # characters
_LONGEST: Final = 62  # days that are gone through one by one


class Shelf:
    """Rollouts by the ids in their names, and by the days. `callers` says for whom the one at a path works."""

    def __init__(self, paths: Iterable[str], callers: Callable[[str], tuple[str, ...]]) -> None:
        self._callers = cache(callers)
        self._paths: dict[str, str] = {}
        self._days: dict[str, list[str]] = {}
        self._working: dict[str, list[str]] = {}  # the agents of each conversation, as far as looked for
        for path in paths:
            day, name = _parts(os.path.basename(path))
            # Those of `sessions` come first, and a file before its compressed copy.
            if self._paths.setdefault(name, path) is path:
                self._days.setdefault(day, []).append(name)

    def find(self, name: str) -> str | None:
        """The rollout of a conversation, or of a subagent."""
        return self._paths.get(name)

    def employs(self, names: Iterable[str]) -> bool:
        """Whether one of these conversations is here, and told: itself, or by whoever called it in turn."""
        waiting, seen = list(names), set[str]()
        while waiting:
            name = waiting.pop()
            path = self._paths.get(name)
            if path is None or name in seen:
                continue
            seen.add(name)
            above = [one for one in self._callers(path) if one in self._paths]
            if not above:
                return True
            waiting += above
        return False

    def working_for(self, name: str, began: int, ended: int) -> list[str]:
        """The subagents of a conversation by their own word: those that began while it went on."""
        for day in self._around(began, ended):
            for agent in self._days.pop(day, ()):
                for caller in self._callers(self._paths[agent]):
                    self._working.setdefault(caller, []).append(agent)
        return self._working.get(name, [])

    def _around(self, began: int, ended: int) -> Iterator[str]:
        """The days of a conversation, in names; they go by the clock where the person was."""
        yield ""
        try:
            first = datetime.fromtimestamp(began / 1000, UTC) - timedelta(days=1)
            last = datetime.fromtimestamp(ended / 1000, UTC) + timedelta(days=1)
        except (ValueError, OverflowError, OSError):
            return
        if (last - first).days > _LONGEST:
            yield from [day for day in self._days if f"{first:%Y-%m-%d}" <= day <= f"{last:%Y-%m-%d}"]
            return
        for by in range((last - first).days + 2):
            yield f"{first + timedelta(days=by):%Y-%m-%d}"


def agents_of(story: Story) -> list[str]:
    """The subagents that began in it, by their ids."""
    return [one.signal.agent for one in story.told if isinstance(one.signal, AgentBegan) and one.signal.agent]


def home_of(path: str) -> str | None:
    """The directory that holds `sessions` and `archived_sessions`."""
    directory = os.path.dirname(path)
    for _ in range(8):
        above, name = os.path.split(directory)
        if name in TOPS:
            return above
        directory = above
    return None


def _parts(name: str) -> tuple[str, str]:
    """The day and the id in `rollout-2026-11-15T09-30-00-<id>.jsonl`."""
    stem = name.removesuffix(".zst").removesuffix(".jsonl")
    begin = len(_NAME) + _MOMENT
    if stem.startswith(_NAME) and len(stem) > begin:
        return stem[len(_NAME) : len(_NAME) + _DAY], stem[begin:]
    return "", stem[-_ID:]
