"""Codex's own store: rollouts by day below `sessions`, those put away in `archived_sessions`; either may be
compressed. One file is one conversation, or the part of one that a subagent did, which is told with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from holdfast.capture.codex.joining import ENDS, TOPS, Shelf, agents_of
from holdfast.capture.codex.records import LINE, Line
from holdfast.capture.codex.telling import Telling
from holdfast.capture.codex.unpacking import unpacked
from holdfast.capture.codex.wiring import home
from holdfast.capture.lines import Problems, chunks, records, records_in
from holdfast.capture.places import Places
from holdfast.capture.storytelling import join
from holdfast.capture.transcripts import Source, Story

_PLAIN, _PACKED = ENDS
_DEEPEST: Final = 6
_MOST_AGENTS: Final = 1_000


class Rollouts:
    name = "codex"

    def sources(self, places: Places) -> Iterator[Source]:
        for top in TOPS:
            yield from _below(os.path.join(home(places), top), _DEEPEST)

    def read(self, source: Source) -> Iterator[Story]:
        problems = Problems()
        telling = _heard(source.path, problems)
        shelf = Shelf(source.path)
        if telling.works_for is not None and shelf.find(telling.works_for) is not None:
            return
        story = telling.story()
        if story is not None:
            _with_agents(story, shelf, problems)
            story.problems = problems.sentences()
            yield story
        elif problems:
            name = os.path.basename(source.path).removesuffix(".zst").removesuffix(_PLAIN)
            yield Story(agent="codex", conversation=name[:200], began=0, ended=0, problems=problems.sentences())


def _with_agents(story: Story, shelf: Shelf, problems: Problems) -> None:
    """The subagents of a conversation, and theirs."""
    seen = {story.conversation}
    waiting = agents_of(story)
    while waiting and len(seen) < _MOST_AGENTS:
        name = waiting.pop(0)
        path = None if name in seen else shelf.find(name)
        seen.add(name)
        if path is None:
            continue
        trouble = Problems()
        part = _heard(path, trouble).story()
        if part is not None and part.conversation == name:
            waiting += agents_of(part)
            join(story, part)
        for sentence in trouble.sentences():
            problems.add(f"in {os.path.basename(path)}, {sentence}")


def _heard(path: str, problems: Problems) -> Telling:
    telling = Telling(os.path.basename(path))
    for number, line in _lines(path, problems):
        telling.hear(line, number)
    return telling


def _lines(path: str, problems: Problems) -> Iterator[tuple[int, Line]]:
    if path.endswith(_PACKED):
        return records_in(unpacked(chunks(path, problems), problems), LINE, problems)
    return records(path, LINE, problems)


def _below(directory: str, depth: int) -> Iterator[Source]:
    """Rollouts in a directory and those below it; of a file and its compressed copy only the file."""
    try:
        with os.scandir(directory) as listing:
            found = sorted(listing, key=lambda one: one.name)
    except OSError:
        return
    names = {one.name for one in found}
    for one in found:
        try:
            if one.is_dir(follow_symlinks=False):
                if depth:
                    yield from _below(one.path, depth - 1)
            elif one.name.endswith((_PLAIN, _PACKED)) and one.is_file(follow_symlinks=False):
                if one.name.removesuffix(".zst") != one.name and one.name.removesuffix(".zst") in names:
                    continue
                status = one.stat(follow_symlinks=False)
                yield Source(one.path, f"{status.st_size}.{status.st_mtime_ns}")
        except OSError:
            continue  # it was moved to the archive just now


READER: Final = Rollouts()
