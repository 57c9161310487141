"""Names as people see them: readable ids of agents and tasks, and devices distinguished from others of the same name.

The log, JSON and other programs' files keep ids as they were recorded. An agent whose id a program made is shown by
its type and a number (`reviewer-1`), such a task by its place in the plan (`3`); an id that a person chose is shown
as it is. Any person can name a device, even like another person's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from holdfast.core.model import Session
from holdfast.core.registers import Dispute, disputes
from holdfast.core.text import slug

if TYPE_CHECKING:
    from holdfast.core.model import Conflict
    from holdfast.core.state import AgentState, State, TaskState

# A UUID; alternating letters and digits; many digits; a hash; what ingest names an agent's to-dos.
_OPAQUE: Final = (
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-"
    r"|(?:^|[._-])(?:(?=[0-9A-Za-z]{7})(?:[A-Za-z]*[0-9]+){2}[0-9A-Za-z]*[A-Za-z]|(?=[0-9a-f]*[0-9])[0-9a-f]{8}|[0-9]{8})"
    r"|^[a-z]+-[0-9a-f]{4}-[0-9a-f]{8}(?:-[0-9]+)?$"
)
_MAX_TYPE_WORDS: Final = 4
_WRITER_CHARS: Final = 6
_HASH_CHARS: Final = 4


# ── agents and tasks ─────────────────────────────────────────────────────────────────────────────────────


class _Entry(Protocol):
    @property
    def id(self) -> str: ...


class _Agent(_Entry, Protocol):
    @property
    def type(self) -> str: ...


def is_opaque(id_: str) -> bool:
    """Whether the id looks as if a program generated it."""
    return re.search(_OPAQUE, id_) is not None


def agent_names(agents: Iterable[_Agent]) -> dict[str, str]:
    """The names that agents are shown by, where these differ from their ids."""
    all_agents = list(agents)
    used = {agent.id for agent in all_agents}
    numbers: dict[str, int] = {}
    names: dict[str, str] = {}
    for agent in all_agents:
        if agent.id in names or not is_opaque(agent.id):
            continue
        kind = slug(agent.type, _MAX_TYPE_WORDS)
        while True:
            numbers[kind] = numbers.get(kind, 0) + 1
            if (name := f"{kind}-{numbers[kind]}") not in used:
                break
        names[agent.id] = name
        used.add(name)
    return names


def task_names(tasks: Iterable[_Entry]) -> dict[str, str]:
    """The names that tasks are shown by, where these differ from their ids."""
    all_tasks = list(tasks)
    used = {task.id for task in all_tasks}
    names: dict[str, str] = {}
    for position, task in enumerate(all_tasks, start=1):
        if is_opaque(task.id) and str(position) not in used:
            names.setdefault(task.id, str(position))
    return names


def id_of(names: dict[str, str], typed: str) -> str:
    """The id behind what a person typed: a name that is shown, else the id itself."""
    return next((id_ for id_, name in names.items() if name == typed), typed)


def with_readable_names(session: Session) -> Session:
    """The session with readable names for its agents and tasks."""
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


def disambiguating_labels(state: State, entries: Iterable[AgentState | TaskState]) -> list[str]:
    """For each entry, what distinguishes it from others of the same id: nothing, its device, or also its hash."""
    known = list(entries)
    same_id = Counter(entry.id for entry in known)
    devices = [state.devices.get(entry.made.writer) or "unknown" for entry in known]
    same_device = Counter(zip((entry.id for entry in known), devices, strict=True))
    return [
        "" if same_id[entry.id] == 1
        else device if same_device[entry.id, device] == 1
        else f"{device} {entry.ref[:_HASH_CHARS]}"
        for entry, device in zip(known, devices, strict=True)
    ]  # fmt: skip


# ── devices ──────────────────────────────────────────────────────────────────────────────────────────────


def device_names(state: State, guests: Collection[str] = ()) -> dict[str, str]:
    """The name of each writer's device; those of `guests`, which are writers too, are marked."""
    return {writer: f"{name} (guest)" if writer in guests else name for writer, name in state.devices.items()}


def value_devices(state: State, dispute: Dispute, guests: Collection[str] = ()) -> tuple[str, ...]:
    """The device of each value of a conflict; where several have one name, also the start of the writer's id."""
    names = device_names(state, guests)
    devices = [names.get(write.writer) or "unknown device" for write in dispute.writes]
    writers = {(name, write.writer) for name, write in zip(devices, dispute.writes, strict=True)}
    same_name = Counter(name for name, _ in writers)
    return tuple(
        f"{name} ({write.writer[:_WRITER_CHARS]})" if same_name[name] > 1 and write.writer else name
        for name, write in zip(devices, dispute.writes, strict=True)
    )


def with_device_labels(session: Session, state: State, guests: Collection[str]) -> Session:
    """The session with names of devices that distinguish guests from the owner's devices."""

    def labelled(conflict: Conflict, dispute: Dispute) -> Conflict:
        devices = value_devices(state, dispute, guests)
        values = [replace(value, device=name) for value, name in zip(conflict.values, devices, strict=True)]
        return replace(conflict, values=values)

    return replace(
        session,
        devices=sorted(set(device_names(state, guests).values())),
        conflicts=[
            labelled(conflict, dispute) for conflict, dispute in zip(session.conflicts, disputes(state), strict=True)
        ],
    )
