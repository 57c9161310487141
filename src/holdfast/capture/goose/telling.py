"""One conversation of Goose put together from its messages, in their order. A subagent's is part of the conversation
it works for: all that is told in it is told of that agent, and what it was asked is its task.
"""

from __future__ import annotations

import msgspec

from holdfast.capture.goose.hooks import resume
from holdfast.capture.goose.meanings import AFTER, AGENT_TYPE
from holdfast.capture.goose.records import PARTS, RESULT, SEEN, Came, Part
from holdfast.capture.plain import goal_of, plain
from holdfast.capture.signals import Active, AgentBegan, AgentEnded, AnySignal, Compacted, Prompted
from holdfast.capture.storytelling import LONGEST_PROMPT, OF_AGENTS, Marks, marked
from holdfast.capture.tools import signals_of
from holdfast.capture.transcripts import Story, Told
from holdfast.capture.values import read, value


class Telling:
    def __init__(self, conversation: str, *, agent: str | None = None, agents_told: bool = False) -> None:
        self.story = Story(agent="goose", conversation=conversation, began=0, ended=0, resume=resume(conversation))
        self._agent = agent
        # Whether the subagents have stories of their own: then calls for them say nothing more.
        self._agents_told = agents_told
        self._task: str | None = None
        self._said: str | None = None
        self._calls: dict[str, tuple[str, msgspec.Raw]] = {}
        self._marks = Marks()
        self._wanted = True

    def hear(self, at: int, role: str | None, mark: str, content: bytes | msgspec.Raw, about: bytes = b"") -> bool:
        """A message; false when nothing can be made of it."""
        parts = read(PARTS, content)
        if parts is None or not at:
            return False
        self.story.signs.append(at)
        self.story.messages += 1
        seen = read(SEEN, about) if about else None
        said = "\n".join(part.text for part in parts if part.type == "text" and part.text)
        for place, part in enumerate(parts):
            self._part(at, part, f"{mark}.{place}")
        if role == "assistant":
            self._said = said or self._said
        elif self._agent is not None:
            self._task = self._task or said or None
        elif role == "user" and said.strip() and (seen is None or seen.person is not False):
            # One prompt with a goal in it is all that is ever asked for.
            text = plain(said, LONGEST_PROMPT) if self._wanted else ""
            self._wanted = self._wanted and goal_of(text) is None
            self._tell(at, Prompted(text=text), mark)
        return True

    def compacted(self, at: int, mark: str) -> None:
        if at:
            self._tell(at, Compacted(), mark)

    def end(self) -> Story | None:
        """All of it; None when nobody said anything."""
        story = self.story
        if not story.signs:
            return None
        story.signs.sort()
        if self._agent is not None:
            self._tell_agent(self._agent, story.signs[0], story.signs[-1])
        story.told.sort(key=lambda told: told.at)
        story.began = story.signs[0]
        story.ended = max([story.signs[-1], *(told.at for told in story.told[-1:])])
        return story

    def _tell_agent(self, agent: str, began: int, ended: int) -> None:
        task = plain(self._task) if self._task else None
        summary = plain(self._said) if self._said else None
        self._tell(began, AgentBegan(agent=agent, type=AGENT_TYPE, task=task), "began")
        self._tell(ended, AgentEnded(agent=agent, type=AGENT_TYPE, task=task, summary=summary), f"ended.{ended}")

    def _part(self, at: int, part: Part, mark: str) -> None:
        if part.id is None:
            return
        if part.call is not None and part.call.value is not None and part.call.value.name:
            self._calls[part.id] = (part.call.value.name, part.call.value.arguments)
        elif part.result is not None and part.id in self._calls:
            tool, given = self._calls.pop(part.id)
            if tool not in AFTER:
                return
            signals = signals_of(
                tool, value(given), value(part.result.value), agent=self._agent, call=part.id,
                failed=_failure(part.result), table=AFTER,
            )  # fmt: skip
            passed = (Active, AgentEnded) if self._agents_told else (Active,)
            for signal, own in marked((one for one in signals if type(one) not in passed), mark):
                self._tell(at, signal, own)

    def _tell(self, at: int, signal: AnySignal, mark: str) -> None:
        if self._agent is not None and not isinstance(signal, OF_AGENTS):
            return
        if self._agent is not None:
            mark = f"{self._agent}.{mark}"
        self.story.told.append(Told(at, signal, self._marks.mark(mark)))


def _failure(came: Came) -> str | None:
    if came.status == "error":
        said = value(came.error)
        return plain(said, 500) if type(said) is str and said else "failed"
    result = read(RESULT, came.value)
    return "failed" if result is not None and result.is_error else None
