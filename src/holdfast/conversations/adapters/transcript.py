"""What readers of agents' stores share: marks that stay the same, what of a tool call is told, subagents joined into
their conversation, and stories that say what could not be read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Final, NamedTuple, Protocol

import msgspec

from holdfast.conversations.adapters.files import stamp
from holdfast.conversations.adapters.jsonl import Problems
from holdfast.conversations.signals import Active, AgentBegan, AgentEnded, AnySignal, Edited, Erred, Limited, Ran
from holdfast.workspace.agent_dirs import AgentDirs

# What a subagent tells that is part of the conversation it works for.
OF_AGENTS: Final = (AgentBegan, AgentEnded, Edited, Ran, Erred, Limited)
LONGEST_PROMPT: Final = 20_000


class Marks:
    def __init__(self) -> None:
        self._given: set[str] = set()
        self._again: dict[str, int] = {}

    def mark(self, name: str) -> str:
        """The name itself, or one with a number; the same for the same names in the same order."""
        mark = name
        while mark in self._given:
            count = self._again[name] = self._again.get(name, 0) + 1
            mark = f"{name}#{count}"
        self._given.add(mark)
        return mark


def marked(signals: Iterable[AnySignal], mark: str) -> Iterator[tuple[AnySignal, str]]:
    """What a tool call tells, each under a mark of its own. That somebody was active is no part of a story."""
    for place, signal in enumerate(signals):
        if type(signal) is Active:
            continue
        told = signal
        if type(told) is Edited and (told.old is not None or told.new is not None):
            # Hashes are all that is wanted of them, and stories wait for their turn in memory.
            told = msgspec.structs.replace(told, old=None, new=None)
        yield told, f"{mark}.{place}" if place else mark


def with_problems(
    story: Transcript | None, problems: Problems, agent: str, conversation: str
) -> Iterator[Transcript]:
    """The story and what could not be read of it; where there is nothing to tell, a story of that alone."""
    if story is None and problems:
        story = Transcript(agent=agent, conversation=conversation, began=0, ended=0)
    if story is not None:
        story.problems = problems.sentences()
        yield story


def join(story: Transcript, part: Transcript) -> None:
    """What a subagent did becomes part of the story, and no working time of the person's."""
    began = next((line for line in part.told if isinstance(line.signal, AgentBegan)), None)
    told = part.told
    if began is not None:
        for place, line in enumerate(story.told):
            if isinstance(line.signal, AgentBegan) and line.signal.agent == began.signal.agent:
                # It is told twice: by whoever called it, under an id that stays, and by itself, who knows more.
                task = getattr(began.signal, "task", None) or line.signal.task
                signal = msgspec.structs.replace(began.signal, task=task)
                story.told[place] = line._replace(at=min(line.at, began.at), signal=signal)
                told = [other for other in told if other is not began]
                break
    story.told = sorted([*story.told, *told], key=lambda one: one.at)
    story.ended = max(story.ended, part.ended)
    story.input_tokens += part.input_tokens
    story.output_tokens += part.output_tokens
    story.cache_read_tokens += part.cache_read_tokens
    story.cache_write_tokens += part.cache_write_tokens
    story.messages += part.messages


_BEGINNING: Final = 8  # characters of a conversation's id that are in the names of its files at least


class TranscriptSource(NamedTuple):
    """One file (or database, or directory) of conversations, and a stamp that changes whenever it does."""

    path: str
    stamp: str
    # Of a database: the only conversation in it that is wanted.
    conversation: str | None = None


class TimedSignal(NamedTuple):
    at: int  # milliseconds
    signal: AnySignal
    # Equal whenever this very thing is read again: an id the agent gave it, or its place. Unique in the story.
    mark: str


class Transcript(msgspec.Struct, kw_only=True, gc=False):
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
    told: list[TimedSignal] = []
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

    def sources(self, places: AgentDirs) -> Iterator[TranscriptSource]:
        """Everything this agent has kept here. Reads no content; what cannot be looked at is passed over."""

    def read(self, source: TranscriptSource) -> Iterator[Transcript]:
        """The conversations in it, one at a time. Never raises for what is in the file."""


def reader(name: str) -> Reader:
    found: Reader = import_module(f"holdfast.conversations.adapters.{name}.transcripts").READER
    return found


def is_transcript(path: str) -> bool:
    """Whether what an agent calls its transcript is a regular file, and no link to one: nobody else's is read."""
    # Looking at `\\host\share` would already tell the host who we are.
    is_here = "\0" not in path and os.path.isabs(path) and path[:2] not in ("\\\\", "//")
    return is_here and stamp(path) is not None


def sources_of(agent: str, conversation: str, path: str | None, places: AgentDirs) -> Iterator[TranscriptSource]:
    """Where one conversation may be: where its hooks say so, or else what the agent has kept under its name."""
    if path is not None and is_transcript(path):
        yield TranscriptSource(path, "")
        return
    for source in reader(agent).sources(places):
        directory, name = os.path.split(source.path)
        if name.endswith(".db"):
            yield source._replace(conversation=conversation)
        elif conversation[:_BEGINNING] in name or os.path.basename(directory) == conversation:
            yield source
