"""Who is before a command that is to run: agents that wait for a turn, and what others like it came to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from holdfast.core import agents
from holdfast.core.failures import Attempt
from holdfast.core.state import AgentState, State
from holdfast.core.vocabulary import Process
from holdfast.machine.process import Identity, fate


def attempts(alike: Sequence[AgentState]) -> list[Attempt]:
    """All that was tried by these agents, in the order it ended."""
    found = [Attempt(at, succeeded=False) for agent in alike for at in agent.failed_attempts]
    found += [
        Attempt(agent.ended_at, succeeded=True)
        for agent in alike
        if agent.ended_at is not None and agents.status_of(agent) == "completed"
    ]
    return sorted(found, key=lambda attempt: attempt.ended_at)


def before(own: AgentState | None, state: State) -> Iterator[AgentState]:
    """The agents that came before this one; all of them while it is not there yet."""
    return itertools.takewhile(lambda agent: agent is not own, state.agents.values())


def waits(agent: AgentState) -> bool:
    """Whether somebody really stands in the queue for it."""
    return (
        agents.status_of(agent) == "pending"
        and agent.process is not None
        and fate(identity(agent.process)) == "alive"
    )


def identity(which: Process) -> Identity:
    return Identity(which.pid, which.started, which.boot, which.namespace, which.machine)
