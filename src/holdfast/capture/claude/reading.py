"""One source of Claude Code's conversations, read: the conversation's own file, then those of its subagents.

A forked or resumed conversation may begin with a copy of the one it came from. What was copied says so, or is known
by its ids, and is passed over as long as the original is there: it is told by that one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from holdfast.capture.claude.forks import Forks
from holdfast.capture.claude.records import DECODER, Record
from holdfast.capture.claude.telling import Telling
from holdfast.capture.claude.transcripts import AGENT, END, agent_files
from holdfast.capture.lines import Problems, records
from holdfast.capture.sources import stamp
from holdfast.capture.storytelling import with_problems
from holdfast.capture.transcripts import Source, Story


def read(source: Source, forks: Forks) -> Iterator[Story]:
    """The conversation in it, if there is one; a story without anything told where all that can be said is why."""
    directory, name = os.path.split(source.path)
    telling = Telling(name.removesuffix(END))
    originals = _Originals(source.path)
    copied = forks.copied(source.path)
    problems = Problems()
    for number, record in records(source.path, DECODER, problems):
        if record.uuid and copied.has(number):
            telling.pass_over(record, copied.origin, copied.cost_usd)
        elif originals.tell(record):
            telling.pass_over(record, record.forked.session if record.forked is not None else record.session)
        else:
            telling.hear(record, number)
    agents = {one.removeprefix(AGENT).removesuffix(END): path for path, one, _ in agent_files(source.path)}
    for agent in telling.called():
        beside = os.path.join(directory, f"{AGENT}{agent}{END}")
        if agent not in agents and _is_name(agent) and stamp(beside) is not None:
            agents[agent] = beside
    for agent, path in sorted(agents.items()):
        trouble = Problems()
        for number, record in records(path, DECODER, trouble):
            telling.hear_agent(record, number, agent)
        problems.extend(trouble, f"in {os.path.basename(path)}, ")
    yield from with_problems(telling.story(), problems, "claude", telling.conversation)


class _Originals:
    """Which lines of a conversation are copies of another one's that is still there."""

    def __init__(self, path: str) -> None:
        self._directory, name = os.path.split(path)
        # By conversation: whether its lines are told elsewhere.
        self._known = {name.removesuffix(END): False}

    def tell(self, record: Record) -> bool:
        origin = record.forked.session if record.forked is not None else record.session
        if origin is None:
            return False
        known = self._known.get(origin)
        if known is None:
            there = os.path.join(self._directory, origin + END)
            known = self._known[origin] = _is_name(origin) and os.path.isfile(there)
        return known


def _is_name(name: str) -> bool:
    """A word that leads to no other directory."""
    return name.replace("-", "").replace("_", "").isalnum()
