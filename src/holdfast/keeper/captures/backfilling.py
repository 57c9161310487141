"""Backfill: the conversations that agents have written down themselves become sessions.

Sources are read one after the other and told in transactions of some dozens of stories, so that neither memory nor
waiting grows with the years. Whatever was told stays when it is broken off; the next run goes on from there. Nothing
is ever written to the agents' files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.capture import refusals
from holdfast.capture.places import Places
from holdfast.capture.registry import NAMES
from holdfast.capture.transcripts import Reader, Source, Story, reader
from holdfast.capture.used import used
from holdfast.core.errors import Failed, HoldfastError, Invalid
from holdfast.core.times import DAY
from holdfast.keeper.captures.progress_memory import Memory, which
from holdfast.keeper.recording import note_rules
from holdfast.machine.trouble import shown

if TYPE_CHECKING:
    from holdfast.keeper.captures.narrating import Narrator
    from holdfast.keeper.keeper import Keeper

# Bytes read, bytes there are, and what is being read.
Progress = Callable[[int, int, str], None]

_STORIES: Final = 48  # in one transaction
_TOLD: Final = 20_000
_MOST_PROBLEMS: Final = 50


class Backfilled(msgspec.Struct):
    """What became of one agent's past."""

    agent: str
    sources: int = 0
    # Of these, how many had to be read: the others have not changed since they were.
    read: int = 0
    conversations: int = 0
    sessions: int = 0
    grown: int = 0
    events: int = 0
    worked: int = 0
    problems: list[str] = []
    # Files and directories that the system did not let us read, each with the reason.
    unread: list[str] = []


class _Found(msgspec.Struct):
    agent: str
    reader: Reader | None
    sources: list[tuple[Source, int]]
    # What could not even be listed, with the reason.
    refused: dict[str, str]


def backfill(
    keeper: Keeper,
    places: Places,
    names: Sequence[str] = (),
    *,
    since: int | None = None,
    progress: Progress | None = None,
) -> list[Backfilled]:
    """Read what these agents (or all) have kept, and record what is not recorded yet.

    Conversations that ended before `since` are left out. What cannot be read is named in `problems`.
    """
    found = [_Found(name, one, *_sources(one, places)) for name, one in _readers(names, places)]
    total = sum(size for one in found for _, size in one.sources)
    keeper.absorb()
    meter = _Meter(progress, total)
    results = [_Telling(keeper, one, since, meter).tell_all() for one in found]
    keeper.upkeep.write_mirrors()
    return results


def _readers(names: Sequence[str], places: Places) -> Iterator[tuple[str, Reader | None]]:
    """Those asked for, or all; without a reader where there is certainly nothing to read."""
    for name in dict.fromkeys(names or NAMES):
        yield name, reader(name) if used(name, places) else None


def unread(results: Sequence[Backfilled]) -> list[HoldfastError]:
    """What to say when the system did not let us read everything: nothing new is not the whole truth then."""
    found = [sentence for one in results for sentence in one.unread]
    if not found:
        return []
    more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
    return [
        Failed(
            f"not all conversations could be read: {found[0]}{more}",
            hint="Put that right and run it again; what could be read is recorded.",
            operation="backfill",
        )
    ]


def _sources(one: Reader | None, places: Places) -> tuple[list[tuple[Source, int]], dict[str, str]]:
    found = []
    with refusals.noted() as refused:
        for source in one.sources(places) if one is not None else ():
            try:
                status = os.stat(source.path)
                size = status.st_size if stat.S_ISREG(status.st_mode) else 0
            except (OSError, ValueError):
                size = 0
            found.append((source, size))
    return found, refused


class _Meter:
    """How far it is, told now and then."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def add(self, size: int, name: str) -> None:
        self._done += size
        if self._progress is not None:
            self._progress(self._done, self._total, name)


class _Telling:
    """One agent's stories on their way into the store."""

    def __init__(self, keeper: Keeper, found: _Found, since: int | None, meter: _Meter) -> None:
        self._keeper = keeper
        self._found = found
        self._since = since
        self._meter = meter
        self._result = Backfilled(found.agent, sources=len(found.sources))
        self._note_refused(found.refused)
        self._waiting: list[tuple[Story, Source]] = []
        self._complete: dict[Source, bool] = {}
        self._held = 0
        # What continues something else waits until everything else is told, then goes by its time.
        self._later: list[tuple[int, Source]] = []
        self._narrating: Narrator | None = None

    @property
    def _narrator(self) -> Narrator:
        """Made when there is something to tell: mostly there is not, and looking for it should cost little."""
        if self._narrating is None:
            from holdfast.keeper.captures.narrating import Narrator

            self._narrating = Narrator(self._keeper)
        return self._narrating

    def tell_all(self) -> Backfilled:
        if not self._found.sources:
            return self._result
        self._memory = Memory(self._keeper.home.path, self._found.agent, lambda: which(self._keeper))
        try:
            for source, size in self._found.sources:
                if not self._memory.knows(source.path, source.stamp) and not self._too_old(source):
                    self._result.read += 1
                    self._read(source)
                self._meter.add(size, source.path)
            for _, source in sorted(self._later):
                self._read(source, late=True)
            self._flush()
        finally:
            self._memory.keep({source.path for source, _ in self._found.sources})
        return self._result

    def _too_old(self, source: Source) -> bool:
        """Nothing in a file is younger than the file; a day is left for clocks that were wrong."""
        if self._since is None:
            return False
        try:
            status = os.stat(source.path)
        except (OSError, ValueError):
            return False
        return stat.S_ISREG(status.st_mode) and status.st_mtime * 1000 < self._since - DAY

    def _read(self, source: Source, *, late: bool = False) -> None:
        complete = True
        with refusals.noted() as refused:
            for place, story in enumerate(self._stories(source)):
                if story.parent is not None and place == 0 and not late:
                    self._later.append((story.began, source))
                    return
                self._note(source, story.problems)
                if not story.signs and not story.told:
                    complete &= not story.problems  # unreadable is not nothing: the next run tries again
                    continue
                if self._since is not None and story.ended < self._since:
                    complete = False
                    continue
                self._result.conversations += 1
                # While it may go on, its end is not told, and it is looked at again.
                complete &= self._narrator.over(story)
                self._narrator.look_around(story)
                self._waiting.append((story, source))
                self._held += len(story.told)
        self._note_refused(refused)
        self._complete[source] = complete and not refused
        if len(self._waiting) >= _STORIES or self._held >= _TOLD:
            self._flush()

    def _stories(self, source: Source) -> Iterator[Story]:
        """What its reader makes of it. Whatever one file makes of its reader, the others are read."""
        assert self._found.reader is not None
        stories: Iterator[Story] | None = None
        while True:
            try:
                stories = self._found.reader.read(source) if stories is None else stories
                story = next(stories, None)
            except Exception as error:  # noqa: BLE001 (see above)
                if isinstance(error, OSError):
                    refusals.note(source.path, error)
                said = getattr(error, "message", None) or getattr(error, "strerror", None) or type(error).__name__
                story = Story(agent=self._found.agent, conversation="", began=0, ended=0)
                story.problems = [f"cannot be read ({said})"]
                stories = iter(())
            if story is None:
                return
            yield story

    def _note(self, source: Source, problems: list[str]) -> None:
        for sentence in problems:
            if len(self._result.problems) < _MOST_PROBLEMS:
                self._result.problems.append(f"{shown(source.path)}: {sentence}")

    def _note_refused(self, refused: dict[str, str]) -> None:
        known = self._result.unread
        found = (f"{shown(path)} ({why})" for path, why in refused.items())
        known += [one for one in found if one not in known]

    def _flush(self) -> None:
        if self._waiting:
            # Not a turn of the keeper: no mirror shows what is past, and each would be looked at every time.
            with self._keeper.store().transaction() as transaction:
                note_rules(self._keeper.store(), transaction)
                for story, source in self._waiting:
                    try:
                        outcome = self._narrator.tell(transaction, story)
                    except Invalid as error:  # something in it can be stored nowhere; the next story may be fine
                        self._note(source, [f"cannot be told ({error.message})"])
                        continue
                    self._result.sessions += outcome.new
                    self._result.grown += outcome.grown
                    self._result.events += outcome.events
                    self._result.worked += outcome.worked
        for source, complete in self._complete.items():
            if complete:
                self._memory.note(source.path, source.stamp)
        self._waiting.clear()
        self._complete.clear()
        self._held = 0
