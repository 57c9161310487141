"""Readable names for agents and tasks whose ids were made by a program: what people see, and may type.

The log, JSON and other programs' files keep the ids as they were recorded. An agent is shown by its type and a number
(`reviewer-1`), a task by its place in the plan (`3`); an id that somebody chose is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Protocol

from msgspec.structs import replace

from holdfast.core.model import Session
from holdfast.core.text import slug

# A UUID; letters and numbers in turn; many digits; a hash; what capture names an agent's to-dos.
_OPAQUE: Final = (
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-"
    r"|(?:^|[._-])(?:(?=[0-9A-Za-z]{7})(?:[A-Za-z]*[0-9]+){2}[0-9A-Za-z]*[A-Za-z]|(?=[0-9a-f]*[0-9])[0-9a-f]{8}|[0-9]{8})"
    r"|^[a-z]+-[0-9a-f]{4}-[0-9a-f]{8}(?:-[0-9]+)?$"
)
_WORDS: Final = 4  # of a type


class _Entry(Protocol):
    @property
    def id(self) -> str: ...


class _Agent(_Entry, Protocol):
    @property
    def type(self) -> str: ...


def is_opaque(id_: str) -> bool:
    """Whether an id was made by a program: nobody would choose or remember it."""
    return re.search(_OPAQUE, id_) is not None


def agent_names(agents: Iterable[_Agent]) -> dict[str, str]:
    """By their ids, what agents are shown as, where that is something else."""
    known = list(agents)
    taken = {agent.id for agent in known}
    numbers: dict[str, int] = {}
    names: dict[str, str] = {}
    for agent in known:
        if agent.id in names or not is_opaque(agent.id):
            continue
        kind = slug(agent.type, _WORDS)
        while True:
            numbers[kind] = numbers.get(kind, 0) + 1
            if (name := f"{kind}-{numbers[kind]}") not in taken:
                break
        names[agent.id] = name
        taken.add(name)
    return names


def task_names(tasks: Iterable[_Entry]) -> dict[str, str]:
    """By their ids, what tasks are shown as, where that is something else."""
    known = list(tasks)
    taken = {task.id for task in known}
    names: dict[str, str] = {}
    for place, task in enumerate(known, start=1):
        if is_opaque(task.id) and str(place) not in taken:
            names.setdefault(task.id, str(place))
    return names


def id_of(names: dict[str, str], given: str) -> str:
    """The id that somebody means: the one that is shown as what they typed, else what they typed."""
    return next((id_ for id_, name in names.items() if name == given), given)


def readable(session: Session) -> Session:
    """The session as people see it, with readable names for its agents and tasks."""
    agents, tasks = agent_names(session.agents), task_names(session.tasks)
    if not agents and not tasks:
        return session

    def named(agent: str | None) -> str | None:
        return None if agent is None else agents.get(agent, agent)

    return replace(
        session,
        agents=[
            replace(agent, id=agents.get(agent.id, agent.id), blocking_on=named(agent.blocking_on))
            for agent in session.agents
        ],
        tasks=[replace(task, id=tasks.get(task.id, task.id), agent=named(task.agent)) for task in session.tasks],
        files=[replace(change, agent=named(change.agent)) if change.agent else change for change in session.files],
        errors=[replace(error, agent=named(error.agent)) for error in session.errors],
        context=replace(
            session.context,
            by_agent={agents.get(agent, agent): tokens for agent, tokens in session.context.by_agent.items()},
        ),
    )
