"""One source of Claude Code's conversations, read: the conversation's own file, then those of its subagents.

A forked or resumed conversation may begin with a copy of the one it came from. What was copied says so, or is known
by its ids, and is passed over as long as the original is there: it is told by that one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from holdfast.conversations.adapters.claude.forks import Forks
from holdfast.conversations.adapters.claude.records import AGENT, DECODER, END, ClaudeRecord
from holdfast.conversations.adapters.claude.transcript import ClaudeTranscript
from holdfast.conversations.adapters.files import DirectoryEntry, directories, files, stamp
from holdfast.conversations.adapters.jsonl import Problems, records
from holdfast.conversations.adapters.transcript import Transcript, TranscriptSource, with_problems
from holdfast.workspace.agent_dirs import AgentDirs


def read(source: TranscriptSource, forks: Forks) -> Iterator[Transcript]:
    """The conversation in it, if there is one; a story without anything told where all that can be said is why."""
    directory, name = os.path.split(source.path)
    telling = ClaudeTranscript(name.removesuffix(END))
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
    agents = {file.removeprefix(AGENT).removesuffix(END): path for path, file, _ in agent_files(source.path)}
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

    def tell(self, record: ClaudeRecord) -> bool:
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


class ClaudeTranscripts:
    name = "claude"

    def __init__(self) -> None:
        # What was found last, and what its conversations have in common once one is read.
        self._listed: dict[str, str] = {}
        self._forks: Forks | None = None

    def sources(self, places: AgentDirs) -> Iterator[TranscriptSource]:
        top = os.path.join(places.under("CLAUDE_CONFIG_DIR", ".claude"), "projects")
        self._listed, self._forks = {}, None
        for project in directories(top, linked=True):
            for path, name, own in files(project, END):
                if not name.startswith(AGENT):
                    agents = agent_files(path)
                    source = TranscriptSource(path, ";".join([own, *(each for _, _, each in agents)]))
                    self._listed[path] = source.stamp
                    yield source

    def read(self, source: TranscriptSource) -> Iterator[Transcript]:
        # Loaded when there is something to read: looking whether there is happens more often.

        from holdfast.conversations.adapters.claude.forks import Forks

        if self._listed.get(source.path) != source.stamp:
            return read(source, Forks())
        if self._forks is None:
            self._forks = Forks()
        return read(source, self._forks)


def agent_files(main: str) -> list[DirectoryEntry]:
    """The subagents of a conversation that have files of their own."""
    beside = os.path.join(main.removesuffix(END), "subagents")
    return [file for file in files(beside, END) if file.name.startswith(AGENT)]


READER: Final = ClaudeTranscripts()
