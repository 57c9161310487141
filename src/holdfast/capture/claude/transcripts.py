"""Claude Code's own store: `projects/<directory>/<session>.jsonl`, with each subagent in a file of its own below
`<session>/subagents` (beside the session in older versions, within its file in the oldest).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from holdfast.capture.places import Places
from holdfast.capture.sources import Found, directories, files
from holdfast.capture.transcripts import Source, Story

if TYPE_CHECKING:
    from holdfast.capture.claude.forks import Forks

END: Final = ".jsonl"
AGENT: Final = "agent-"


class Transcripts:
    name = "claude"

    def __init__(self) -> None:
        # What was found last, and what its conversations have in common once one is read.
        self._listed: dict[str, str] = {}
        self._forks: Forks | None = None

    def sources(self, places: Places) -> Iterator[Source]:
        top = os.path.join(places.under("CLAUDE_CONFIG_DIR", ".claude"), "projects")
        self._listed, self._forks = {}, None
        for project in directories(top, linked=True):
            for path, name, stamp in files(project, END):
                if not name.startswith(AGENT):
                    agents = agent_files(path)
                    source = Source(path, ";".join([stamp, *(stamp for _, _, stamp in agents)]))
                    self._listed[path] = source.stamp
                    yield source

    def read(self, source: Source) -> Iterator[Story]:
        # Loaded when there is something to read: looking whether there is happens more often.
        from holdfast.capture.claude import reading
        from holdfast.capture.claude.forks import Forks

        if self._listed.get(source.path) != source.stamp:
            return reading.read(source, Forks())
        if self._forks is None:
            self._forks = Forks()
        return reading.read(source, self._forks)


def agent_files(main: str) -> list[Found]:
    """The subagents of a conversation that have files of their own."""
    beside = os.path.join(main.removesuffix(END), "subagents")
    return [one for one in files(beside, END) if one.name.startswith(AGENT)]


READER: Final = Transcripts()
