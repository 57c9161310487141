"""One conversation of opencode put together from its messages and their parts, subagents included: each of those is a
conversation of its own, below the one that called it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.conversations.adapters.clean_text import plain
from holdfast.conversations.adapters.errors import classify
from holdfast.conversations.adapters.fields import NOTHING, value
from holdfast.conversations.adapters.opencode.hooks import AFTER, assignment, error_of, outcome, resume, titled
from holdfast.conversations.adapters.timestamps import in_millis
from holdfast.conversations.adapters.todos import status_of
from holdfast.conversations.adapters.tools import signals_of
from holdfast.conversations.adapters.transcript import LONGEST_PROMPT, TimedSignal, Transcript, marked
from holdfast.conversations.signals import (
    AgentBegan,
    AgentEnded,
    AnySignal,
    Compacted,
    Measured,
    Planned,
    Prompted,
    Todo,
)
from holdfast.core.decode import decodable


class Cache(msgspec.Struct, gc=False):
    read: float | None = None
    write: float | None = None


class OpencodeTokens(msgspec.Struct, gc=False):
    input: float | None = None
    output: float | None = None
    reasoning: float | None = None
    cache: Cache | None = None

    @property
    def cached(self) -> int:
        return int((self.cache.read or 0) + (self.cache.write or 0)) if self.cache else 0


class OpencodeSpan(msgspec.Struct, gc=False):
    created: float | None = None
    updated: float | None = None
    completed: float | None = None
    start: float | None = None
    end: float | None = None


class OpencodeMessage(msgspec.Struct, gc=False):
    id: str = ""
    role: str = ""
    time: OpencodeSpan | None = None
    model: str | None = msgspec.field(name="modelID", default=None)
    provider: str | None = msgspec.field(name="providerID", default=None)
    cost: float | None = None
    tokens: OpencodeTokens | None = None
    finish: str | None = None
    error: msgspec.Raw = NOTHING


class OpencodeState(msgspec.Struct, gc=False):
    status: str = ""
    input: msgspec.Raw = NOTHING
    metadata: msgspec.Raw = NOTHING
    output: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING
    time: OpencodeSpan | None = None


class OpencodePart(msgspec.Struct, gc=False):
    id: str = ""
    type: str = ""
    text: str | None = None
    synthetic: bool | None = None
    ignored: bool | None = None
    tool: str | None = None
    call: str | None = msgspec.field(name="callID", default=None)
    state: OpencodeState | None = None


class OpencodeSession(msgspec.Struct, gc=False):
    """One row, or one file, of opencode's conversations."""

    id: str = ""
    parent: str | None = msgspec.field(name="parentID", default=None)
    directory: str | None = None
    title: str | None = None
    agent: str | None = None
    time: OpencodeSpan | None = None


MESSAGES: Final = msgspec.json.Decoder(decodable(OpencodeMessage))
PARTS: Final = msgspec.json.Decoder(decodable(OpencodePart))
CONVERSATIONS: Final = msgspec.json.Decoder(decodable(OpencodeSession))


class OpencodeTranscript:
    def __init__(self, conversation: OpencodeSession) -> None:
        self.problems: list[str] = []
        self._of = conversation
        self._told: list[TimedSignal] = []
        self._signs: list[int] = []
        self._seen: set[str] = set()
        self._model: str | None = None
        self._context: tuple[int, int, str] | None = None
        self._used = [0, 0, 0, 0]
        self._cost = 0.0
        self._messages = 0
        self._prompts = 0

    def hear(self, message: OpencodeMessage, parts: list[OpencodePart], agent: str | None = None) -> int:
        """A message and what it consists of; gives its moment. `agent` is the subagent whose it is."""
        at = in_millis(message.time.created if message.time else None)
        if at is None or message.id in self._seen:
            return at or 0
        self._seen.add(message.id)
        self._messages += 1
        if agent is None:
            self._signs.append(at)
        if message.role == "assistant":
            self._answer(message, at, agent)
        elif agent is None and message.role == "user":
            self._asked(message, parts, at)
        for part in parts:
            if part.type == "compaction" and agent is None:
                self._tell(at, Compacted(), part.id)
            elif part.type == "tool" and part.state is not None and part.state.status in ("completed", "error"):
                self._called(part, part.state, at, agent)
        return at

    def hear_agent(self, child: OpencodeSession, messages: list[tuple[OpencodeMessage, list[OpencodePart]]]) -> None:
        """A subagent: its beginning, its end if it came to one, and what it did."""
        moments = [self.hear(message, parts, child.id) for message, parts in messages]
        created = in_millis(child.time.created if child.time else None)
        began = created or min((moment for moment in moments if moment), default=0)
        if not began:
            return
        kind, task = child.agent or "general", assignment(child.title)
        self._tell(began, AgentBegan(agent=child.id, type=kind, task=task), f"{child.id}.began")
        last, parts = messages[-1] if messages else (OpencodeMessage(), [])
        ended = in_millis(last.time.completed if last.time else None)
        if ended is None or last.finish == "tool-calls":
            return
        said = next((part.text for part in reversed(parts) if part.type == "text" and part.text), None)
        used = last.tokens or OpencodeTokens()
        kind_of_error, sentence = _error(last.error)
        failed = sentence or kind_of_error
        self._tell(
            max(ended, began),
            AgentEnded(
                agent=child.id, type=kind, task=task, failed=failed,
                summary=plain(said) if said and not failed else None,
                tokens=int(used.input or 0) + used.cached + int(used.output or 0) or None,
            ),
            f"{child.id}.ended",
        )  # fmt: skip

    def hear_todos(self, at: int, todos: list[tuple[str, str]]) -> None:
        """The list as it stands at the end; what it was before is not kept."""
        found = tuple(Todo(plain(text), status_of(status) or "pending") for text, status in todos)
        self._tell(at, Planned(todos=found), f"todo.{at}")

    def _asked(self, message: OpencodeMessage, parts: list[OpencodePart], at: int) -> None:
        own = [part.text for part in parts if part.type == "text" and part.text and not part.synthetic]
        if not own:
            return
        # What a conversation is about is said at its beginning; the rest is between a person and an agent.
        text = plain("\n".join(own), LONGEST_PROMPT) if self._prompts == 0 else ""
        self._prompts += 1
        self._tell(at, Prompted(text=text), message.id)

    def _answer(self, message: OpencodeMessage, at: int, agent: str | None) -> None:
        if agent is None and message.model:
            self._model = f"{message.provider}/{message.model}" if message.provider else message.model
        self._cost += message.cost or 0.0
        used = message.tokens
        if used is not None:
            self._used[0] += int(used.input or 0)
            self._used[1] += int((used.output or 0) + (used.reasoning or 0))
            if used.cache:
                self._used[2] += int(used.cache.read or 0)
                self._used[3] += int(used.cache.write or 0)
            context = int(used.input or 0) + used.cached + int(used.output or 0)
            if agent is None and context:
                self._context = (at, context, message.id)
        kind, said = _error(message.error)
        if agent is None and (kind or said) and kind != "MessageAbortedError":
            self._tell(at, classify(kind, said), message.id)

    def _called(self, part: OpencodePart, state: OpencodeState, at: int, agent: str | None) -> None:
        tool = part.tool or ""
        if tool == "task" or (tool not in AFTER and state.status == "completed"):
            return
        began, ended = (state.time.start, state.time.end) if state.time else (None, None)
        took = int(ended - began) if began is not None and ended is not None and ended >= began else None
        error = value(state.error)
        signals = signals_of(
            tool, value(state.input), outcome(tool, value(state.metadata), value(state.output)), agent=agent,
            call=part.call, took_ms=took, table=AFTER,
            failed=(error if type(error) is str else "it failed") if state.status == "error" else None,
        )  # fmt: skip
        for signal, own in marked(signals, part.id):
            self._tell(in_millis(ended) or at, signal, own)

    def _tell(self, at: int, signal: AnySignal, mark: str) -> None:
        self._told.append(TimedSignal(at, signal, mark))

    def story(self) -> Transcript | None:
        """What there is to tell; None when nobody said anything."""
        if not self._signs:
            return None
        if self._context is not None:
            at, tokens, mark = self._context
            self._tell(at, Measured(tokens=tokens), f"{mark}.context")
        self._told.sort(key=lambda told: told.at)
        return Transcript(
            agent="opencode",
            conversation=self._of.id,
            began=min(self._signs),
            ended=max([*self._signs, *(told.at for told in self._told[-1:])]),
            cwd=self._of.directory,
            title=titled(self._of.title),
            model=self._model,
            resume=resume(self._of.id),
            parent=self._of.parent,
            told=self._told,
            signs=sorted(self._signs),
            input_tokens=self._used[0],
            output_tokens=self._used[1],
            cache_read_tokens=self._used[2],
            cache_write_tokens=self._used[3],
            messages=self._messages,
            cost_usd=self._cost or None,
            problems=self.problems,
        )


def _error(raw: msgspec.Raw) -> tuple[str | None, str | None]:
    error = value(raw)
    return error_of(error) if type(error) is dict else (None, None)
