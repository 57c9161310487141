"""A subagent of Claude Code, put together from three places: the call that asked for it, the result of that call,
and its own lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import msgspec

from holdfast.capture.interface import Payload
from holdfast.capture.payload import flag, number, word
from holdfast.capture.plain import plain
from holdfast.capture.signals import AgentBegan, AgentEnded
from holdfast.capture.transcripts import Told
from holdfast.core.canonical import Json


class Run(msgspec.Struct):
    """One subagent: asked for by a call, or found only by its file."""

    agent: str
    began: int
    type: str = "general-purpose"
    task: str | None = None
    ended: int | None = None
    background: bool = False
    summary: str | None = None
    tokens: int | None = None
    failed: str | None = None
    # From its own lines.
    first: int | None = None
    last: int | None = None
    said: str | None = None
    context: int = 0
    finished: bool = False

    @classmethod
    def asked(cls, call: str, given: Payload, at: int) -> Self:
        """As the call tells it; until its own id is known, it goes by that of the call."""
        return cls(
            call, at, word(given, "subagent_type") or "general-purpose", word(given, "description", "prompt"),
            background=flag(given, "run_in_background"),
        )  # fmt: skip

    def done(self, result: Payload, shown: Json, at: int, failed: str | None) -> None:
        """The call has returned: with what came of it, or only with the word that it was begun."""
        if result.get("status") in ("async_launched", "remote_launched"):
            self.background = True
            return
        self.ended = at
        self.failed = failed
        self.summary = None if failed else words(result.get("content")) or words(shown)
        self.tokens = number(result, "totalTokens")

    def at_work(self, at: int) -> None:
        self.first = at if self.first is None else min(self.first, at)
        self.last = at if self.last is None else max(self.last, at)

    def told(self, call: str) -> Iterator[Told]:
        began = self.began if self.first is None else min(self.began, self.first)
        begins = AgentBegan(agent=self.agent, type=self.type, task=self.task, background=self.background)
        yield Told(began, begins, f"{call}.began")
        ended = self.ended
        if ended is None and self.finished:
            ended = self.last  # it ran in the background: its own last word is its end
        if ended is None:
            return
        summary = None if self.failed else self.summary or self.said
        ends = AgentEnded(
            agent=self.agent, type=self.type, task=self.task, failed=self.failed,
            tokens=self.tokens if self.tokens is not None else self.context or None,
            summary=None if summary is None else plain(summary),
        )  # fmt: skip
        yield Told(max(ended, began), ends, f"{call}.ended")


def words(content: Json) -> str | None:
    """The words of a result: itself, or the texts of its blocks."""
    if type(content) is str:
        return content
    if type(content) is list:
        texts = [one["text"] for one in content if type(one) is dict and type(one.get("text")) is str]
        return "\n".join(str(text) for text in texts) or None
    return None
