"""Putting a conversation and its subagents together: each has a rollout of its own, and the conversation's says by
which id an agent went. A rollout is found by that id, which is also the time it was made at.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.capture.signals import AgentBegan
from holdfast.capture.transcripts import Story

ENDS: Final = (".jsonl", ".jsonl.zst")
TOPS: Final = ("sessions", "archived_sessions")
_ID: Final = 36  # characters


class Shelf:
    """The rollouts around one of them, by the ids of their conversations."""

    def __init__(self, path: str) -> None:
        self._home = _home_of(path)
        self._found: dict[str, dict[str, str]] = {}

    def find(self, name: str) -> str | None:
        """The rollout of a conversation, or of a subagent."""
        for directory in self._directories(name):
            if directory not in self._found:
                self._found[directory] = _by_id(directory)
            if name in self._found[directory]:
                return self._found[directory][name]
        return None

    def _directories(self, name: str) -> list[str]:
        if self._home is None or len(name) != _ID:
            return []
        try:
            made = datetime.fromtimestamp(int(name[:8] + name[9:13], 16) / 1000, UTC)
        except (ValueError, OverflowError, OSError):
            return []
        # Directories go by the day where the person was.
        days = [made + timedelta(days=by) for by in (0, -1, 1)]
        sessions = [os.path.join(self._home, TOPS[0], f"{day:%Y}", f"{day:%m}", f"{day:%d}") for day in days]
        return [*sessions, os.path.join(self._home, TOPS[1])]


def agents_of(story: Story) -> list[str]:
    """The subagents that began in it, by their ids."""
    return [one.signal.agent for one in story.told if isinstance(one.signal, AgentBegan) and one.signal.agent]


def _home_of(path: str) -> str | None:
    """The directory that holds `sessions` and `archived_sessions`."""
    directory = os.path.dirname(path)
    for _ in range(8):
        above, name = os.path.split(directory)
        if name in TOPS:
            return above
        directory = above
    return None


def _by_id(directory: str) -> dict[str, str]:
    found: dict[str, str] = {}
    try:
        with os.scandir(directory) as listing:
            for one in listing:
                stem = one.name.removesuffix(".zst").removesuffix(".jsonl")
                better = stem[-_ID:] not in found or one.name.endswith(ENDS[0])
                if better and one.name.endswith(ENDS) and one.is_file(follow_symlinks=False):
                    found[stem[-_ID:]] = one.path
    except OSError:
        return found
    return found
