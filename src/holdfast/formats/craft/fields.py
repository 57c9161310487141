"""The names and fields of craft: what Holdfast's statuses are called there, under which id each agent is shown, and
how a field is read.

Session statuses correspond one to one, except for `created`. Craft knows fewer agent statuses: a paused agent is
shown as pending, an aborted one as an error whose result says so, an interrupted one as a transient error. A field of
another type than it must have counts as absent.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.state import AgentState, State
from holdfast.core.text import slug
from holdfast.core.times import parse_time
from holdfast.formats.base import Document
from holdfast.sessions import format_names

VERSION: Final = "1.0.0"
# Who changed a file that no agent changed.
PERSON: Final = "person"

# Patterns of names, hashes and commits, and the beginning of an absolute path.
NAME: Final = "[A-Za-z0-9_][A-Za-z0-9._-]{0,99}"
SHA256: Final = "[0-9a-f]{64}"
COMMIT: Final = "([0-9a-f]{40}|[0-9a-f]{64})"
ABSOLUTE: Final = r"(/|[A-Za-z]:[\\/]|\\\\)"

_NAME: Final = re.compile(NAME)
_SHA256: Final = re.compile(SHA256)
_COMMIT: Final = re.compile(COMMIT)
_ABSOLUTE: Final = re.compile(ABSOLUTE)
_MAX_NAME_LENGTH: Final = 100

SESSION_STATUS: Final = {"created": "in_progress"}
AGENT_STATUS: Final = {"paused": "pending", "aborted": "error", "interrupted": "error"}
AGENT_RESULT: Final = {
    "completed": "success",
    "error": "failure",
    "interrupted": "failure",
    "timeout": "timeout",
    "aborted": "aborted",
}
CATEGORIES: Final = ("transient", "resource", "configuration", "logical", "permanent")
# The error message of an agent whose process disappeared.
INTERRUPTED: Final = "interrupted: its process was found gone"
UNKNOWN_FAILURE: Final = "no message was recorded"


def is_name(value: str) -> bool:
    return _NAME.fullmatch(value) is not None


def is_sha256(value: str) -> bool:
    return _SHA256.fullmatch(value) is not None


def is_commit(value: str) -> bool:
    return _COMMIT.fullmatch(value) is not None


def is_absolute(path: str) -> bool:
    return _ABSOLUTE.match(path) is not None


def nearest_name(value: str) -> str:
    """The nearest valid agent name."""
    return value if is_name(value) else slug(value, words=12)


def free_name(name: str, taken: set[str]) -> str:
    """The name, or the first free one of `name-2`, `name-3`, …"""
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name[: _MAX_NAME_LENGTH - 8]}-{number}"
    taken.add(free)
    return free


def shown_agents(state: State) -> dict[str, AgentState]:
    """Agents by the id a document shows; unique, even if two devices used the same name.

    The latest agent has the plain id, which means that one elsewhere, too.
    """
    owner = {nearest_name(agent.id): agent.ref for agent in state.agents.values()}
    taken = set(owner)
    shown: dict[str, AgentState] = {}
    for agent in state.agents.values():
        name = nearest_name(agent.id)
        shown[name if owner[name] == agent.ref else free_name(name, taken)] = agent
    return shown


def agent_status(status: str, result: object) -> str:
    """The canonical status for an agent's `status` and `result`."""
    return "aborted" if status == "error" and result == "aborted" else status


def session_id(state: State) -> str:
    """The id it was imported with if that is a UUID, as craft requires; else the session's own."""
    for name in (format_names.craft_id(state), state.session):
        if format_names.is_uuid(name):
            return name
    return format_names.imported_id("craft", format_names.craft_id(state), format_names.began(state))


def foreign_id(state: State) -> str | None:
    """The id the session was imported with, if craft cannot use it."""
    known = state.aliases.get("craft")
    return None if known is None or format_names.is_uuid(known) else known


def shown_id(state: State) -> str:
    """The id by which the program that started the session knows it."""
    return foreign_id(state) or session_id(state)


# ── reading a field ──────────────────────────────────────────────────────────────────────────────────────


def text(document: Document, key: str) -> str | None:
    value = document.get(key)
    return value if isinstance(value, str) else None


def nonblank(document: Document, key: str) -> str | None:
    """Text that is not blank."""
    value = text(document, key)
    return value if value and value.strip() else None


def integer(document: Document, key: str) -> int | None:
    value = document.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(document: Document, key: str) -> float | None:
    value = document.get(key)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def time(document: Document, key: str) -> int | None:
    value = document.get(key)
    if not isinstance(value, str):
        return None
    try:
        return parse_time(value)
    except Invalid:
        return None


def obj(document: Document, key: str) -> Document:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def objects(document: Document, key: str) -> list[Document]:
    """The objects in a list."""
    return [entry for entry in entries(document, key) if isinstance(entry, dict)]


def texts(document: Document, key: str) -> list[str]:
    """The texts in a list, without blank ones."""
    return [entry for entry in entries(document, key) if isinstance(entry, str) and entry.strip()]


def entries(document: Document, key: str) -> list[Json]:
    value = document.get(key)
    return value if isinstance(value, list) else []
