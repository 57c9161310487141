"""What agents wrote down themselves: their stores of past conversations, read for `backfill` and never written to.

A reader finds the files or databases of one agent and tells each conversation as a story: signals with their times.
It copes with whatever stands there (cut or glued lines, NULs, unknown records) and says what it could not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from typing import Final, NamedTuple, Protocol

import msgspec

from holdfast.capture.places import Places
from holdfast.capture.signals import AnySignal
from holdfast.capture.sources import stamp

_BEGINNING: Final = 8  # characters of a conversation's id that are in the names of its files at least


class Source(NamedTuple):
    """One file (or database, or directory) of conversations, and a stamp that changes whenever it does."""

    path: str
    stamp: str
    # Of a database: the only conversation in it that is wanted.
    conversation: str | None = None


class Told(NamedTuple):
    at: int  # milliseconds
    signal: AnySignal
    # Equal whenever this very thing is read again: an id the agent gave it, or its place. Unique in the story.
    mark: str


class Story(msgspec.Struct, kw_only=True, gc=False):
    """One conversation as its agent wrote it down."""

    agent: str
    conversation: str
    began: int
    ended: int
    cwd: str | None = None
    branch: str | None = None
    title: str | None = None
    model: str | None = None
    resume: str | None = None
    # The conversation it was forked from or is part of, by its id.
    parent: str | None = None
    # In order of time. Prompts carry their text; replies and what else is only a sign of activity are `signs`.
    told: list[Told] = []
    # Moments (milliseconds) of every message: what working time is counted from.
    signs: list[int] = []
    # Tokens of all messages, each message counted once.
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    messages: int = 0
    cost_usd: float | None = None
    # Sentences on what could not be read.
    problems: list[str] = []


class Reader(Protocol):
    name: str

    def sources(self, places: Places) -> Iterator[Source]:
        """Everything this agent has kept here. Reads no content; what cannot be looked at is passed over."""

    def read(self, source: Source) -> Iterator[Story]:
        """The conversations in it, one at a time. Never raises for what is in the file."""


def reader(name: str) -> Reader:
    found: Reader = import_module(f"holdfast.capture.{name}.transcripts").READER
    return found


def is_transcript(path: str) -> bool:
    """Whether what an agent calls its transcript is a regular file, and no link to one: nobody else's is read."""
    # Looking at `\\host\share` would already tell the host who we are.
    is_here = "\0" not in path and os.path.isabs(path) and path[:2] not in ("\\\\", "//")
    return is_here and stamp(path) is not None


def sources_of(agent: str, conversation: str, path: str | None, places: Places) -> Iterator[Source]:
    """Where one conversation may be: where its hooks say so, or else what the agent has kept under its name."""
    if path is not None and is_transcript(path):
        yield Source(path, "")
        return
    for source in reader(agent).sources(places):
        directory, name = os.path.split(source.path)
        if name.endswith(".db"):
            yield source._replace(conversation=conversation)
        elif conversation[:_BEGINNING] in name or os.path.basename(directory) == conversation:
            yield source
