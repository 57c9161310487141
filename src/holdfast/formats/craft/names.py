"""The names of craft: what Holdfast's statuses are called there, and under which id each agent is shown.

Statuses of sessions correspond one to one, but for `created`. Of agents, craft knows fewer: a paused one is shown as
pending, an aborted one as an error whose result says so, an interrupted one as a passing error.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.core.state import AgentState, State
from holdfast.core.text import slug
from holdfast.formats.craft.structs import NAME
from holdfast.sessions import format_names

_NAME: Final = re.compile(NAME)
_LONGEST: Final = 100

SESSION_STATUS: Final = {"created": "in_progress"}
AGENT_STATUS: Final = {"paused": "pending", "aborted": "error", "interrupted": "error"}
AGENT_RESULT: Final = {
    "completed": "success",
    "error": "failure",
    "interrupted": "failure",
    "timeout": "timeout",
    "aborted": "aborted",
}
CATEGORIES: Final = frozenset({"transient", "resource", "configuration", "logical", "permanent"})
# What is said of an agent whose process was found gone.
INTERRUPTED: Final = "interrupted: its process was found gone"
UNKNOWN_FAILURE: Final = "no message was recorded"


def is_name(value: str) -> bool:
    return _NAME.match(value) is not None


def as_name(value: str) -> str:
    """The nearest name that an agent can have."""
    return value if is_name(value) else slug(value, words=12)


def free(name: str, taken: set[str]) -> str:
    """The name, or the first of `name-2`, `name-3`, … that nobody has."""
    made, number = name, 1
    while made in taken:
        number += 1
        made = f"{name[: _LONGEST - 8]}-{number}"
    taken.add(made)
    return made


def shown_agents(state: State) -> dict[str, AgentState]:
    """Every agent under the id a document shows it by: unique, even when two devices made one of the same name.

    The agent made last has the plain id: that is the one the id means elsewhere, too.
    """
    owner = {as_name(agent.id): agent.ref for agent in state.agents.values()}
    taken = set(owner)
    found: dict[str, AgentState] = {}
    for agent in state.agents.values():
        name = as_name(agent.id)
        found[name if owner[name] == agent.ref else free(name, taken)] = agent
    return found


def agent_status(status: str, result: object) -> str:
    """The canonical status an agent's words mean."""
    return "aborted" if status == "error" and result == "aborted" else status


def session_id(state: State) -> str:
    """The session's own id; the one it came with, where that is a UUID as craft wants it."""
    for name in (format_names.craft_id(state), state.session):
        if format_names.is_uuid(name):
            return name
    return format_names.imported_id("craft", format_names.craft_id(state), format_names.began(state))


def foreign_id(state: State) -> str | None:
    """The id the session came with, where craft cannot hold it as its own."""
    known = state.aliases.get("craft")
    return None if known is None or format_names.is_uuid(known) else known


def shown_id(state: State) -> str:
    """The id that the program which began the session knows it by."""
    return foreign_id(state) or session_id(state)
