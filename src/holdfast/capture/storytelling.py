"""What readers of agents' stores share: marks that stay the same, what of a tool call is told, subagents joined into
their conversation, and stories that say what could not be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from holdfast.capture.lines import Problems
from holdfast.capture.signals import Active, AgentBegan, AgentEnded, AnySignal, Edited, Erred, Limited, Ran
from holdfast.capture.transcripts import Story

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


def with_problems(story: Story | None, problems: Problems, agent: str, conversation: str) -> Iterator[Story]:
    """The story and what could not be read of it; where there is nothing to tell, a story of that alone."""
    if story is None and problems:
        story = Story(agent=agent, conversation=conversation, began=0, ended=0)
    if story is not None:
        story.problems = problems.sentences()
        yield story


def join(story: Story, part: Story) -> None:
    """What a subagent did becomes part of the story, and no working time of the person's."""
    began = next((one for one in part.told if isinstance(one.signal, AgentBegan)), None)
    told = part.told
    if began is not None:
        for place, one in enumerate(story.told):
            if isinstance(one.signal, AgentBegan) and one.signal.agent == began.signal.agent:
                # It is told twice: by whoever called it, under an id that stays, and by itself, who knows more.
                task = getattr(began.signal, "task", None) or one.signal.task
                signal = msgspec.structs.replace(began.signal, task=task)
                story.told[place] = one._replace(at=min(one.at, began.at), signal=signal)
                told = [other for other in told if other is not began]
                break
    story.told = sorted([*story.told, *told], key=lambda one: one.at)
    story.ended = max(story.ended, part.ended)
    story.input_tokens += part.input_tokens
    story.output_tokens += part.output_tokens
    story.cache_read_tokens += part.cache_read_tokens
    story.cache_write_tokens += part.cache_write_tokens
    story.messages += part.messages
