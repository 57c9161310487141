"""What readers of agents' transcripts share: the neutral transcript, how it is collected, and subagents merged into
their conversation.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from holdfast.conversations.adapters.clean_text import goal_of, plain
from holdfast.conversations.adapters.files import stamp
from holdfast.conversations.signals import (
    Active,
    AgentBegan,
    AgentEnded,
    AnySignal,
    Edited,
    Erred,
    Limited,
    Measured,
    Prompted,
    Ran,
)
from holdfast.core.agent_programs import resume_command
from holdfast.workspace.agent_dirs import AgentDirs

if TYPE_CHECKING:
    from holdfast.conversations.adapters.jsonl import ReadProblems

# The signals of a subagent that are part of the conversation it works for.
SUBAGENT_SIGNALS: Final = (AgentBegan, AgentEnded, Edited, Ran, Erred, Limited)
MAX_PROMPT_LENGTH: Final = 20_000
_ID_PREFIX: Final = 8  # characters of a conversation's id that are in the names of its files at least


class TranscriptSource(NamedTuple):
    """One file (or database, or directory) of conversations, and a stamp that changes whenever it does."""

    path: str
    stamp: str
    # Of a database: the only conversation in it that is wanted.
    conversation: str | None = None


class TimedSignal(NamedTuple):
    at: int  # milliseconds
    signal: AnySignal
    # Equal whenever this very thing is read again: an id the agent gave it, or its place. Unique in the transcript.
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
    # In order of time. Prompts carry their text; replies and whatever else only shows activity are `signs`.
    signals: list[TimedSignal] = []
    # Moments (milliseconds) of every message: working time is counted from these.
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


class TranscriptReader(Protocol):
    name: str

    def sources(self, places: AgentDirs) -> Iterator[TranscriptSource]:
        """Everything this agent has kept here. Reads no content; passes over what cannot be examined."""

    def read(self, source: TranscriptSource) -> Iterator[Transcript]:
        """The conversations in a source, one at a time. Never raises for what is in the file."""


def load_reader(name: str) -> TranscriptReader:
    reader: TranscriptReader = import_module(f"holdfast.conversations.adapters.{name}.transcript").READER
    return reader


# ── finding them ─────────────────────────────────────────────────────────────────────────────────────────


def is_transcript(path: str) -> bool:
    """Whether what an agent calls its transcript is a regular file, and no link to one: nobody else's is read."""
    # Looking at `\\host\share` would already tell the host who we are.
    is_here = "\0" not in path and os.path.isabs(path) and path[:2] not in ("\\\\", "//")
    return is_here and stamp(path) is not None


def find_sources(agent: str, conversation: str, path: str | None, places: AgentDirs) -> Iterator[TranscriptSource]:
    """Where one conversation may be: where its hooks say so, or else what the agent has kept under its name."""
    if path is not None and is_transcript(path):
        yield TranscriptSource(path, "")
        return
    for source in load_reader(agent).sources(places):
        directory, name = os.path.split(source.path)
        if name.endswith(".db"):
            yield source._replace(conversation=conversation)
        elif conversation[:_ID_PREFIX] in name or os.path.basename(directory) == conversation:
            yield source


# ── building them ────────────────────────────────────────────────────────────────────────────────────────


class TranscriptBuilder:
    """Collects what was said and done in one conversation. Readers set its other facts in `transcript` themselves."""

    def __init__(self, agent: str, conversation: str) -> None:
        self.transcript = Transcript(agent=agent, conversation=conversation, began=0, ended=0)
        self._seen: set[str] = set()
        self._measured: TimedSignal | None = None
        self._wants_prompt = True

    def is_new(self, name: str) -> bool:
        """Whether something with this id is read for the first time."""
        is_new = name not in self._seen
        self._seen.add(name)
        return is_new

    def add_message(self, at: int, *, is_sign: bool) -> None:
        """Count a message. Those of subagents are no signs: they are not part of the person's working time."""
        self.transcript.messages += 1
        if is_sign:
            self.transcript.signs.append(at)

    def emit(self, at: int, signal: AnySignal, mark: str) -> None:
        self.transcript.signals.append(TimedSignal(at, signal, mark))

    def emit_all(self, at: int, signals: Iterable[AnySignal], mark: str) -> None:
        """Emit the signals of a tool call, each with a mark of its own. Mere activity is no part of a transcript."""
        for number, signal in enumerate(signals):
            if type(signal) is Active:
                continue
            if type(signal) is Edited and (signal.old is not None or signal.new is not None):
                # Only hashes are needed, and transcripts wait for their turn in memory.
                signal = msgspec.structs.replace(signal, old=None, new=None)  # noqa: PLW2901
            self.emit(at, signal, f"{mark}.{number}" if number else mark)

    def emit_prompt(self, at: int, text: str, mark: str) -> None:
        """Emit a prompt. The first says what a conversation is about; the rest is between a person and an agent."""
        self.emit(at, Prompted(text=plain(text, MAX_PROMPT_LENGTH) if self._wants_prompt else ""), mark)
        self._wants_prompt = False

    def add_tokens(self, fresh: int, output: int, cache_read: int = 0, cache_write: int = 0) -> None:
        self.transcript.input_tokens += fresh
        self.transcript.output_tokens += output
        self.transcript.cache_read_tokens += cache_read
        self.transcript.cache_write_tokens += cache_write

    def measure(self, at: int, tokens: int, mark: str) -> None:
        """Note how full the context is; the last one counts."""
        if tokens:
            self._measured = TimedSignal(at, Measured(tokens=tokens), f"{mark}.context")

    def finish(self) -> Transcript | None:
        """The transcript; None when it has no messages."""
        transcript = self.transcript
        if not transcript.signs:
            return None
        if self._measured is not None:
            transcript.signals.append(self._measured)
        transcript.signals.sort(key=lambda line: line.at)
        transcript.signs.sort()
        transcript.began = transcript.signs[0]
        transcript.ended = max([transcript.signs[-1], *(line.at for line in transcript.signals[-1:])])
        transcript.resume = resume_command(transcript.agent, transcript.conversation)
        return transcript


class PartTranscriptBuilder(TranscriptBuilder):
    """The same for agents whose subagents have transcripts of their own: `agent` is the subagent that this one is of.

    Marks are made unique, and prompts keep their text until one of them states a goal.
    """

    def __init__(self, program: str, conversation: str, agent: str | None = None) -> None:
        super().__init__(program, conversation)
        self.agent = agent
        self._repeats: dict[str, int] = {}

    def emit(self, at: int, signal: AnySignal, mark: str) -> None:
        if not at or (self.agent is not None and not isinstance(signal, SUBAGENT_SIGNALS)):
            return
        name = unique = mark if self.agent is None else f"{self.agent}.{mark}"
        while not self.is_new(unique):
            count = self._repeats[name] = self._repeats.get(name, 0) + 1
            unique = f"{name}#{count}"
        super().emit(at, signal, unique)

    def emit_prompt(self, at: int, text: str, mark: str) -> None:
        wants_more = self._wants_prompt and goal_of(plain(text, MAX_PROMPT_LENGTH)) is None
        super().emit_prompt(at, text, mark)
        self._wants_prompt = wants_more


def with_problems(
    transcript: Transcript | None, problems: ReadProblems, agent: str, conversation: str
) -> Iterator[Transcript]:
    """The transcript with what could not be read of it; where there is none, an empty one with the problems."""
    if transcript is None and problems:
        transcript = Transcript(agent=agent, conversation=conversation, began=0, ended=0)
    if transcript is not None:
        transcript.problems = problems.sentences()
        yield transcript


def merge_subagent(transcript: Transcript, part: Transcript) -> None:
    """Make what a subagent did part of the transcript, but not of the person's working time."""
    began = next((line for line in part.signals if isinstance(line.signal, AgentBegan)), None)
    signals = part.signals
    if began is not None:
        for place, line in enumerate(transcript.signals):
            if isinstance(line.signal, AgentBegan) and line.signal.agent == began.signal.agent:
                # Two records of one beginning: the caller's has an id that stays, the subagent's own knows more.
                task = getattr(began.signal, "task", None) or line.signal.task
                signal = msgspec.structs.replace(began.signal, task=task)
                transcript.signals[place] = line._replace(at=min(line.at, began.at), signal=signal)
                signals = [other for other in signals if other is not began]
                break
    transcript.signals = sorted([*transcript.signals, *signals], key=lambda line: line.at)
    transcript.ended = max(transcript.ended, part.ended)
    transcript.input_tokens += part.input_tokens
    transcript.output_tokens += part.output_tokens
    transcript.cache_read_tokens += part.cache_read_tokens
    transcript.cache_write_tokens += part.cache_write_tokens
    transcript.messages += part.messages
