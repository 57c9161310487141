"""Claude Code's own store: `projects/<directory>/<session>.jsonl`, with each subagent in a file of its own below
`<session>/subagents` (beside the session in older versions, within its file in the oldest).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from typing import Final

from holdfast.capture.places import Places
from holdfast.capture.transcripts import Source, Story

END: Final = ".jsonl"
AGENT: Final = "agent-"


class Transcripts:
    name = "claude"

    def sources(self, places: Places) -> Iterator[Source]:
        top = os.path.join(places.under("CLAUDE_CONFIG_DIR", ".claude"), "projects")
        for project in _directories(top):
            for path, name, stamp in _files(project):
                if not name.startswith(AGENT):
                    agents = agent_files(path)
                    yield Source(path, ";".join([stamp, *(stamp for _, _, stamp in agents)]))

    def read(self, source: Source) -> Iterator[Story]:
        # Loaded when there is something to read: looking whether there is happens more often.
        told: Iterator[Story] = import_module("holdfast.capture.claude.reading").read(source)
        return told


def _directories(top: str) -> list[str]:
    try:
        with os.scandir(top) as found:
            return sorted(one.path for one in found if one.is_dir())
    except OSError:
        return []


def _files(directory: str) -> list[tuple[str, str, str]]:
    """Transcripts in a directory: path, name, stamp."""
    found: list[tuple[str, str, str]] = []
    try:
        with os.scandir(directory) as listing:
            for one in listing:
                if one.name.endswith(END) and one.is_file(follow_symlinks=False):
                    status = one.stat(follow_symlinks=False)
                    found.append((one.path, one.name, f"{status.st_size}.{status.st_mtime_ns}"))
    except OSError:
        return []
    return sorted(found)


def agent_files(main: str) -> list[tuple[str, str, str]]:
    """The subagents of a conversation that have files of their own."""
    return [one for one in _files(os.path.join(main.removesuffix(END), "subagents")) if one[1].startswith(AGENT)]


READER: Final = Transcripts()
