"""Codex's own store: rollouts by day below `sessions`, those put away in `archived_sessions`; either may be
compressed. One file is one conversation, or the part of one that a subagent did, which is told with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Final

from holdfast.capture import refusals
from holdfast.capture.codex.joining import ENDS, TOPS, Shelf, agents_of, home_of
from holdfast.capture.codex.records import LINE, META, Line
from holdfast.capture.codex.telling import Telling, callers
from holdfast.capture.codex.unpacking import unpacked
from holdfast.capture.codex.wiring import home
from holdfast.capture.lines import Problems, chunks, records_in
from holdfast.capture.places import Places
from holdfast.capture.sources import stamp_of
from holdfast.capture.storytelling import join, with_problems
from holdfast.capture.transcripts import Source, Story
from holdfast.capture.values import read

_PLAIN, _PACKED = ENDS
_DEEPEST: Final = 6
_MOST_AGENTS: Final = 1_000
# To see what a rollout is: bytes at a time, and lines at the most.
_HEAD: Final = 1 << 15
_FIRST: Final = 3


class Rollouts:
    name = "codex"

    def __init__(self) -> None:
        # What was found last, and its shelf once something of it is read.
        self._listed: dict[str, str] = {}
        self._shelf: Shelf | None = None

    def sources(self, places: Places) -> Iterator[Source]:
        listed: dict[str, str] = {}
        for source in _all(home(places)):
            listed[source.path] = source.stamp
            yield source
        self._listed, self._shelf = listed, None

    def read(self, source: Source) -> Iterator[Story]:
        problems = Problems()
        telling = _heard(source.path, problems)
        shelf = self._shelf_of(source)
        if shelf.employs(telling.callers):
            return
        story = telling.story()
        if story is not None:
            _with_agents(story, shelf, problems)
        name = os.path.basename(source.path).removesuffix(".zst").removesuffix(_PLAIN)
        yield from with_problems(story, problems, self.name, name[:200])

    def _shelf_of(self, source: Source) -> Shelf:
        if self._listed.get(source.path) != source.stamp:
            top = home_of(source.path)
            return Shelf([] if top is None else [one.path for one in _all(top)], _callers)
        if self._shelf is None:
            self._shelf = Shelf(self._listed, _callers)
        return self._shelf


def _with_agents(story: Story, shelf: Shelf, problems: Problems) -> None:
    """The subagents of a conversation, and theirs."""
    seen = {story.conversation}
    waiting = [*agents_of(story), *shelf.working_for(story.conversation, story.began, story.ended)]
    while waiting and len(seen) < _MOST_AGENTS:
        name = waiting.pop(0)
        path = None if name in seen else shelf.find(name)
        seen.add(name)
        if path is None:
            continue
        trouble = Problems()
        part = _heard(path, trouble).story()
        if part is not None and part.conversation == name:
            waiting += [*agents_of(part), *shelf.working_for(name, part.began, part.ended)]
            join(story, part)
        problems.extend(trouble, f"in {os.path.basename(path)}, ")


def _callers(path: str) -> tuple[str, ...]:
    """For whom the agent of a rollout works, by its first line."""
    for _, line in islice(_lines(path, Problems(), _HEAD), _FIRST):
        if line.type == "session_meta":
            meta = read(META, line.payload)
            return () if meta is None else callers(meta)
    return ()


def _heard(path: str, problems: Problems) -> Telling:
    telling = Telling(os.path.basename(path))
    for number, line in _lines(path, problems):
        telling.hear(line, number)
    return telling


def _lines(path: str, problems: Problems, size: int = 1 << 20) -> Iterator[tuple[int, Line]]:
    pieces = chunks(path, problems, size)
    return records_in(unpacked(pieces, problems) if path.endswith(_PACKED) else pieces, LINE, problems)


def _all(top: str) -> Iterator[Source]:
    for directory in TOPS:
        yield from _below(os.path.join(top, directory), _DEEPEST)


def _below(directory: str, depth: int) -> Iterator[Source]:
    """Rollouts in a directory and those below it; of a file and its compressed copy only the file."""
    try:
        with os.scandir(directory) as listing:
            found = sorted(listing, key=lambda one: one.name)
    except OSError as error:
        refusals.note(directory, error)
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
                yield Source(one.path, stamp_of(one.stat(follow_symlinks=False)))
        except OSError:
            continue  # it was moved to the archive just now


READER: Final = Rollouts()
