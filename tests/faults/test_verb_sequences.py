"""F5: every short sequence of verbs, against a small model."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from tests.faults.sandbox import Sandbox, assert_times_add_up
from tests.support.scale import scale

VERBS: dict[str, list[str]] = {
    "start": ["start", "G"], "replace": ["start", "H", "--replace"], "pause": ["pause"], "resume": ["resume"],
    "continue": ["continue"], "save": ["save"], "stop": ["stop"], "abort": ["abort"], "fail": ["fail", "m"],
    "agent": ["agent", "start", "a", "--type", "t"], "done": ["agent", "done", "a"], "task": ["task", "add", "x"],
}  # fmt: skip


class Model:
    """One work tree: the statuses of its sessions, oldest first, and which one is current."""

    def __init__(self) -> None:
        self.status: list[str] = []
        self.agents: list[str | None] = []
        self.current: int | None = None
        self.last = 0
        self.order: list[int] = []

    def apply(self, verb: str) -> int:
        """The expected exit code; afterwards the model has the program's expected state."""
        here = self.current
        if verb in ("start", "replace"):
            if here is not None and verb == "start":
                return 5
            if here is not None and self.status[here] == "in_progress":
                self.status[here] = "paused"
            self._touch(here)
            self.status.append("in_progress")
            self.agents.append(None)
            self.current = len(self.status) - 1
        elif verb in ("resume", "continue"):
            return self._resume(verb)
        elif here is None:
            return 3
        elif verb == "agent":
            if self.agents[here] is not None:
                return 5
            self.agents[here] = "running"
        elif verb == "done":
            if self.agents[here] is None:
                return 3
            if self.agents[here] != "running":
                return 1
            self.agents[here] = "completed"
        elif verb not in ("save", "task"):
            return self._move(here, verb)
        self._touch(self.current)
        return 0

    def _resume(self, verb: str) -> int:
        open_ones = [number for number in self.order if self.status[number] not in ("completed", "aborted")]
        wanted = (
            self.current if verb == "resume" and self.current is not None else (open_ones[-1] if open_ones else None)
        )
        if wanted is None:
            return 3
        self.status[wanted] = "in_progress"
        self.current = wanted
        self._touch(wanted)
        return 0

    def _move(self, here: int, verb: str) -> int:
        allowed = {"pause": "in_progress", "fail": "in_progress paused", "stop": "in_progress paused",
                   "abort": "in_progress paused error"}[verb]  # fmt: skip
        if self.status[here] not in allowed.split():
            return 1
        self.status[here] = {"pause": "paused", "fail": "error", "stop": "completed", "abort": "aborted"}[verb]
        if verb in ("stop", "abort"):
            self.current = None
            if self.agents[here] == "running":
                self.agents[here] = "aborted"
        self._touch(here)
        return 0

    def _touch(self, number: int | None) -> None:
        if number is not None:
            self.order = [*(item for item in self.order if item != number), number]


def test_every_short_sequence_of_verbs_matches_the_model(tmp_path: Path) -> None:
    """Codes and statuses, time adds up, and the store is sound: 156 sequences, or 1,884."""
    longest = scale(2, 2, 3)
    sandbox = Sandbox(tmp_path)
    number = 0
    for length in range(1, longest + 1):
        for sequence in product(VERBS, repeat=length):
            number += 1
            project = tmp_path / f"p{number}"
            project.mkdir()
            model = Model()
            for verb in sequence:
                answer = sandbox.call(*VERBS[verb], "--quiet", project=project)
                assert answer.code == model.apply(verb), (sequence, verb, answer)
            with sandbox.keeper(project) as keeper:
                # Sessions created within one millisecond have no defined order.
                sessions = [keeper.session(row.id).document() for row in keeper.history(limit=None)]
                assert sorted(session.status for session in sessions) == sorted(model.status), sequence
                agents = sorted(agent.status for session in sessions for agent in session.agents)
                assert agents == sorted(agent for agent in model.agents if agent is not None), sequence
                current = keeper.current()
                assert (current is None) == (model.current is None), sequence
                for session in sessions:
                    assert_times_add_up(session)
    assert number == {2: 156, 3: 1_884}[longest]
    sandbox.assert_sound()
