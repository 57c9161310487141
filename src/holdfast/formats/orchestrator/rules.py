"""Strict rules of the orchestrator format, and structs for checking thousands of files without building messages.

The structs have the constraints of `schemas/orchestrator.json`, some a little narrower; a test ensures that nothing
sound here is invalid there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec

from holdfast.core.canonical import MAX_SAFE_INTEGER, Json
from holdfast.core.decode import decodable
from holdfast.formats.base import Place, Problem
from holdfast.formats.orchestrator.fields import ENDED, SESSION_ID, is_day, time_ms
from holdfast.formats.schema import problems_by_schema

NonBlank = Annotated[str, msgspec.Meta(pattern=r"\S")]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=MAX_SAFE_INTEGER)]
Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]
Share = Annotated[float, msgspec.Meta(ge=0, le=100)]


class ProjectPart(msgspec.Struct, gc=False):
    name: NonBlank
    path: str | None
    git_branch: str | None = None


class AgentPart(msgspec.Struct, gc=False):
    id: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\Z")]
    type: NonBlank
    task: str
    status: Literal["pending", "in_progress", "paused", "complete", "failed", "aborted", "interrupted"]
    started: str | None = None
    completed: str | None = None
    result_summary: str | None = None
    progress: Percent | None = None
    context_tokens: Tokens | None = None
    # Other names for the times, which are reported where the right name is missing.
    started_at: Json | msgspec.UnsetType = msgspec.UNSET
    completed_at: Json | msgspec.UnsetType = msgspec.UNSET


class WorkPart(msgspec.Struct, gc=False):
    task: NonBlank
    outcome: str | None = None
    files: list[str] = []


class DecisionPart(msgspec.Struct, gc=False):
    decision: NonBlank
    timestamp: str
    rationale: str | None = None


class ContextPart(msgspec.Struct, gc=False):
    estimated_tokens: Tokens
    percentage: Share
    last_compression: str | None = None


class SessionDocument(msgspec.Struct, gc=False):
    schema_version: Literal["1.0"]
    session_id: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9a-f]{6}\Z")]
    created: str
    updated: str
    project: ProjectPart
    goal: NonBlank
    mode: Literal["debug", "default", "optimize", "release"]
    status: Literal["created", "in_progress", "paused", "complete", "aborted"]
    agents: list[AgentPart]
    completed_work: list[WorkPart]
    pending_tasks: list[NonBlank]
    decisions_made: list[DecisionPart]
    context_usage: ContextPart
    errors: list[str | dict[str, msgspec.Raw]]


decoder: Final = msgspec.json.Decoder(decodable(SessionDocument))


_UTC: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?Z\Z")

# Other formats' names for the times of this one. Next to the right name such a key is an unknown field.
OTHER_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "created": ("created_at", "started_at", "started"),
    "updated": ("updated_at", "last_updated", "paused_at"),
}
OTHER_NAMES_OF_AGENTS: Final[dict[str, tuple[str, ...]]] = {
    "started": ("started_at",),
    "completed": ("completed_at",),
}


# ── with messages ────────────────────────────────────────────────────────────────────────────────────────


def problems(value: Json) -> list[Problem]:
    """Everything the specification does not allow, errors of shape first."""
    listed = problems_by_schema(value, "orchestrator")
    if isinstance(value, dict):
        listed += _of_session(value)
        agents = value.get("agents")
        if isinstance(agents, list):
            listed += _of_agents(agents)
    return listed


def _of_session(document: dict[str, Json]) -> Iterator[Problem]:
    yield from _misnamed(document, OTHER_NAMES, ())
    created, updated = time_ms(document.get("created")), time_ms(document.get("updated"))
    if created is not None and updated is not None and updated < created:
        yield Problem(("updated",), "is earlier than created")
    name = document.get("session_id")
    if isinstance(name, str) and SESSION_ID.match(name):
        if not is_day(name[:10]):
            yield Problem(("session_id",), f"must begin with a date that exists, is {name[:10]}")
        elif created is not None and name[:10] != str(document["created"])[:10]:
            yield Problem(("session_id",), "has another date than created", "warning")


def _of_agents(agents: list[Json]) -> Iterator[Problem]:
    positions: dict[str, int] = {}
    for position, agent in enumerate(agents):
        if not isinstance(agent, dict):
            continue
        place: Place = ("agents", position)
        yield from _misnamed(agent, OTHER_NAMES_OF_AGENTS, place)
        name = agent.get("id")
        if isinstance(name, str):
            if name in positions:
                yield Problem((*place, "id"), f"is already the id of agents[{positions[name]}]")
            positions.setdefault(name, position)
        if agent.get("completed") is None:
            continue
        status = agent.get("status")
        if isinstance(status, str) and status in ("pending", "in_progress", "paused"):
            yield Problem((*place, "completed"), f"must not be there while the status is {status}")
        started, completed = time_ms(agent.get("started")), time_ms(agent["completed"])
        if started is not None and completed is not None and completed < started:
            yield Problem((*place, "completed"), "is earlier than started")


def _misnamed(entry: dict[str, Json], names: dict[str, tuple[str, ...]], place: Place) -> Iterator[Problem]:
    for right, others in names.items():
        if right not in entry:
            for other in others:
                if other in entry:
                    yield Problem((*place, other), f"is called {right} in this format")


# ── without messages ─────────────────────────────────────────────────────────────────────────────────────


def is_sound(raw: bytes) -> bool:
    """True only if `problems` would find nothing."""
    if not raw.isascii() and not _is_text(raw):
        return False
    try:
        return _is_valid(decoder.decode(raw))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False


def _is_text(raw: bytes) -> bool:
    """The decoder does not check the text of keys it ignores."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_valid(document: SessionDocument) -> bool:
    created = _time(document.created)
    if created > _time(document.updated) or document.session_id[:10] != document.created[:10]:
        return False
    agents = document.agents
    if len({agent.id for agent in agents}) != len(agents) or not all(map(_is_valid_agent, agents)):
        return False
    for decision in document.decisions_made:
        _time(decision.timestamp)
    if document.context_usage.last_compression is not None:
        _time(document.context_usage.last_compression)
    return True


def _is_valid_agent(agent: AgentPart) -> bool:
    if agent.started_at is not msgspec.UNSET or agent.completed_at is not msgspec.UNSET:
        return False
    started = None if agent.started is None else _time(agent.started)
    if agent.completed is None:
        return True
    completed = _time(agent.completed)
    return agent.status in ENDED and (started is None or started <= completed)


def _time(written: str) -> datetime:
    """Raises `ValueError` when it is not a time in UTC."""
    if _UTC.match(written) is None:
        raise ValueError(written)
    return datetime.fromisoformat(written)
