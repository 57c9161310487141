"""One conversation of Gemini CLI put together from its records. A message is written again whenever more of it is
known, and whole histories are written anew when one is resumed, rolled back or compressed: what counts is each
message once, with what was last said of it. What the person took back afterwards has happened all the same.
"""

from __future__ import annotations

from typing import Final

from holdfast.capture.gemini.hooks import asked, resume
from holdfast.capture.gemini.tooling import AFTER
from holdfast.capture.interface import Payload
from holdfast.capture.moments import moment
from holdfast.capture.payload import number, part, parts, word
from holdfast.capture.plain import goal_of, plain
from holdfast.capture.signals import Active, AgentBegan, AgentEnded, AnySignal, Compacted, Erred, Measured, Prompted
from holdfast.capture.storytelling import LONGEST_PROMPT
from holdfast.capture.tools import signals_of
from holdfast.capture.transcripts import Story, Told
from holdfast.capture.troubles import trouble
from holdfast.core.canonical import Json

# Written by the program into the person's part of the conversation.
_OWN_WORDS: Final = ("<session_context>", "<hook_context>", "<state_snapshot>", "/", "?")
_SUMMARY: Final = "<state_snapshot>"
_OVER: Final = frozenset({"success", "error"})


class Telling:
    def __init__(self) -> None:
        self.conversation: str | None = None
        self.directories: list[str] = []
        self._told: dict[str, Told] = {}
        self._signs: dict[str, int] = {}  # by the id of the message or call
        self._tokens: dict[str, tuple[int, int, int]] = {}  # by the id of the message: input, output, cached
        self._messages: set[str] = set()
        self._at = 0
        self._began: int | None = None
        self._title: str | None = None
        self._model: str | None = None
        self._context: tuple[int, int] | None = None
        self._goal_known = False
        # Subagents, by their ids: when they began, and what asked for them.
        self._ran: dict[str, int] = {}
        self._called: dict[str, AgentEnded] = {}
        self._ended: dict[str, int] = {}

    @property
    def anything(self) -> bool:
        """Whether anything was said."""
        return bool(self._messages)

    # ── records ──────────────────────────────────────────────────────────────────────────────────────────

    def hear(self, record: Payload, number: int) -> None:
        """A record of the conversation itself."""
        changed = part(record, "$set")
        if "$set" in record or "$rewindTo" in record:
            self._described(changed)
            for message in parts(changed, "messages"):
                self._message(message, f"line{number}", None)
        elif "id" in record and "type" in record:
            self._message(record, f"line{number}", None)
        elif "sessionId" in record:
            self.conversation = self.conversation or word(record, "sessionId")
            self._began = self._began or moment(word(record, "startTime"))
            self._described(record)
            for place, message in enumerate(parts(record, "messages")):
                self._message(message, f"message{place}", None)

    def hear_agent(self, record: Payload, number: int, agent: str) -> None:
        """A record of a subagent's own file."""
        if "id" in record and "type" in record:
            self._message(record, f"{agent}.line{number}", agent)
        elif "sessionId" in record:
            began = moment(word(record, "startTime"))
            if began is not None:
                self._ran.setdefault(agent, began)

    def _described(self, record: Payload) -> None:
        self._title = word(record, "summary") or self._title
        found = record.get("directories")
        if type(found) is list:
            self.directories = [one for one in found if type(one) is str and one]

    def _message(self, message: Payload, place: str, agent: str | None) -> None:
        name = word(message, "id") or place
        at = moment(word(message, "timestamp")) or self._at
        self._at = at or self._at
        kind = word(message, "type")
        if kind == "user":
            self._user(message, name, at, agent)
        elif kind == "gemini":
            self._messages.add(name)
            self._signs[name] = at
            self._used(message, name, at, agent)
            for turn, call in enumerate(parts(message, "toolCalls")):
                self._call(call, word(call, "id") or f"{name}.{turn}", at, agent)
        elif kind == "error" and agent is None:
            met = trouble(None, _text(message.get("content")))
            if not isinstance(met, Erred) or met.category != "logical":
                self._tell(at, met, name)

    # ── what was asked ───────────────────────────────────────────────────────────────────────────────────

    def _user(self, message: Payload, name: str, at: int, agent: str | None) -> None:
        said = _text(message.get("content"))
        if said is None:
            return  # what a tool handed back
        if _SUMMARY in said[:400]:
            self._tell(at, Compacted(agent=agent), name)
        said = asked(said).strip()
        if agent is not None or not said or said.startswith(_OWN_WORDS) or name in self._messages:
            return
        self._messages.add(name)
        self._signs[name] = at
        # The goal is in the first that states one; what is asked later is nobody's to keep.
        goal = None if self._goal_known else goal_of(said)
        self._goal_known = self._goal_known or goal is not None
        self._tell(at, Prompted(text=plain(said, LONGEST_PROMPT) if goal is not None else ""), name)

    # ── what the model said and did ──────────────────────────────────────────────────────────────────────

    def _used(self, message: Payload, name: str, at: int, agent: str | None) -> None:
        tokens = part(message, "tokens")
        given, cached = number(tokens, "input") or 0, number(tokens, "cached") or 0
        said = (number(tokens, "output") or 0) + (number(tokens, "thoughts") or 0)
        # What came from the cache is part of the input.
        fresh = max(given - cached, 0) + (number(tokens, "tool") or 0)
        if tokens:
            self._tokens[name] = (fresh, said, cached)
        if agent is None:
            self._model = word(message, "model") or self._model
            if given:
                self._context = (at, given)

    def _call(self, call: Payload, name: str, asked_at: int, agent: str | None) -> None:
        tool = word(call, "name")
        if tool is None:
            return
        at = moment(word(call, "timestamp")) or asked_at
        self._at = max(self._at, at)
        self._signs[name] = at
        status = word(call, "status")
        if status not in _OVER:
            return  # not over yet, or not allowed by the person
        response, failed = _response(call), None
        if status == "error":
            failed = _said(call, "error") or "the tool failed"
        for turn, signal in enumerate(
            signals_of(tool, call.get("args"), response, agent=agent, call=name, failed=failed, table=AFTER)
        ):
            if isinstance(signal, AgentEnded):
                self._agent(signal, asked_at, at)
            elif not isinstance(signal, Active):
                self._tell(at, signal, f"{name}.{turn}" if turn else name)

    def _agent(self, ended: AgentEnded, began: int, at: int) -> None:
        name = ended.agent or ended.call
        never_ran = ended.agent is None and ended.failed is not None
        if name is not None and not never_ran:
            self._called[name] = ended
            self._ended[name] = at
            self._ran.setdefault(name, began)

    # ── the story ────────────────────────────────────────────────────────────────────────────────────────

    def _tell(self, at: int, signal: AnySignal, mark: str) -> None:
        # Told again, it may be told better.
        self._told[mark] = Told(at, signal, mark)

    def story(self, conversation: str, cwd: str | None) -> Story | None:
        """The conversation, if anything was said in it."""
        if not self.anything:
            return None
        for name, began in self._ran.items():
            ended = self._called.get(name)
            kind, task = ("generalist", None) if ended is None else (ended.type or "generalist", ended.task)
            self._tell(began, AgentBegan(agent=name, type=kind, task=task), f"{name}.began")
            if ended is not None:
                done = AgentEnded(
                    agent=name, type=kind, task=task, summary=ended.summary, failed=ended.failed,
                    took_ms=max(self._ended[name] - began, 0),
                )  # fmt: skip
                self._tell(self._ended[name], done, f"{name}.ended")
        if self._context is not None:
            self._tell(self._context[0], Measured(tokens=self._context[1]), "context")
        signs = sorted(at for at in self._signs.values() if at)
        known = [*signs[:1], *signs[-1:], *(one.at for one in self._told.values() if one.at)]
        moments = known if self._began is None else [*known, self._began]
        first = min(moments, default=0)
        # What has no time of its own is as old as the conversation.
        told = sorted((one if one.at else one._replace(at=first) for one in self._told.values()), key=_when)
        sums = [sum(one) for one in zip(*self._tokens.values(), strict=True)] or [0, 0, 0]
        return Story(
            agent="gemini",
            conversation=conversation,
            began=first,
            ended=max(moments, default=0),
            cwd=cwd,
            title=None if self._title is None else plain(self._title),
            model=self._model,
            resume=resume(conversation),
            told=told,
            signs=signs,
            input_tokens=sums[0],
            output_tokens=sums[1],
            cache_read_tokens=sums[2],
            messages=len(self._messages),
        )


def _when(one: Told) -> int:
    return one.at


def _text(content: Json) -> str | None:
    """The words in a message's content: text, or the texts among its parts."""
    if type(content) is str:
        return content
    if type(content) is dict:
        content = [content]
    if type(content) is not list:
        return None
    found = [one if type(one) is str else word(one, "text") for one in content if type(one) in (str, dict)]  # type: ignore[arg-type]
    words = [one for one in found if one]
    return "\n".join(words) if words else None


def _said(call: Payload, field: str) -> str | None:
    """What a tool handed to the model."""
    for one in parts(call, "result"):
        said = word(part(part(one, "functionResponse"), "response"), field)
        if said is not None:
            return said
    return None


def _response(call: Payload) -> dict[str, Json]:
    """A recorded result in the form in which hooks get it."""
    response: dict[str, Json] = {"llmContent": _said(call, "output"), "returnDisplay": call.get("resultDisplay")}
    agent = word(call, "agentId")
    return response if agent is None else {**response, "agentId": agent}
