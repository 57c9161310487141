"""The document as types: what `is_sound` decodes thousands of files into, without a word about what is wrong.

The constraints are those of `schemas/orchestrator.json`, at places a little narrower; a test holds that nothing is
sound here that is not valid there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec

from holdfast.core.canonical import MAX_SAFE_INTEGER, Json
from holdfast.core.decode import decodable
from holdfast.core.errors import Invalid
from holdfast.core.times import parse_time
from holdfast.formats.base import Place, Problem
from holdfast.formats.orchestrator.names import SESSION_ID, is_day
from holdfast.formats.orchestrator.statuses import ENDED
from holdfast.formats.schema import problems_by_schema

Words = Annotated[str, msgspec.Meta(pattern=r"\S")]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=MAX_SAFE_INTEGER)]
Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]
Share = Annotated[float, msgspec.Meta(ge=0, le=100)]


class ProjectPart(msgspec.Struct, gc=False):
    name: Words
    path: str | None
    git_branch: str | None = None


class AgentPart(msgspec.Struct, gc=False):
    id: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\Z")]
    type: Words
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
    task: Words
    outcome: str | None = None
    files: list[str] = []


class DecisionPart(msgspec.Struct, gc=False):
    decision: Words
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
    goal: Words
    mode: Literal["debug", "default", "optimize", "release"]
    status: Literal["created", "in_progress", "paused", "complete", "aborted"]
    agents: list[AgentPart]
    completed_work: list[WorkPart]
    pending_tasks: list[Words]
    decisions_made: list[DecisionPart]
    context_usage: ContextPart
    errors: list[str | dict[str, msgspec.Raw]]


decoder: Final = msgspec.json.Decoder(decodable(SessionDocument))


_UTC: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?Z\Z")

# Names that other layouts have for times of this one. Beside the right name such a key is somebody's own.
OTHER_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "created": ("created_at", "started_at", "started"),
    "updated": ("updated_at", "last_updated", "paused_at"),
}
OTHER_NAMES_OF_AGENTS: Final[dict[str, tuple[str, ...]]] = {
    "started": ("started_at",),
    "completed": ("completed_at",),
}


# ── said ─────────────────────────────────────────────────────────────────────────────────────────────────


def problems(value: Json) -> list[Problem]:
    """Everything the specification does not allow, the shape first."""
    found = problems_by_schema(value, "orchestrator")
    if isinstance(value, dict):
        found += _of_session(value)
        agents = value.get("agents")
        if isinstance(agents, list):
            found += _of_agents(agents)
    return found


def _of_session(document: dict[str, Json]) -> Iterator[Problem]:
    yield from _misnamed(document, OTHER_NAMES, ())
    created, updated = moment(document.get("created")), moment(document.get("updated"))
    if created is not None and updated is not None and updated < created:
        yield Problem(("updated",), "is earlier than created")
    name = document.get("session_id")
    if isinstance(name, str) and SESSION_ID.match(name):
        if not is_day(name[:10]):
            yield Problem(("session_id",), f"must begin with a day that the calendar has, is {name[:10]}")
        elif created is not None and name[:10] != str(document["created"])[:10]:
            yield Problem(("session_id",), "names another day than created", "warning")


def _of_agents(agents: list[Json]) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for position, agent in enumerate(agents):
        if not isinstance(agent, dict):
            continue
        place: Place = ("agents", position)
        yield from _misnamed(agent, OTHER_NAMES_OF_AGENTS, place)
        name = agent.get("id")
        if isinstance(name, str):
            if name in seen:
                yield Problem((*place, "id"), f"is the id of agent {seen[name]} already, counted from 0")
            seen.setdefault(name, position)
        if agent.get("completed") is None:
            continue
        status = agent.get("status")
        if isinstance(status, str) and status in ("pending", "in_progress", "paused"):
            yield Problem((*place, "completed"), f"must not be there while the status is {status}")
        started, completed = moment(agent.get("started")), moment(agent["completed"])
        if started is not None and completed is not None and completed < started:
            yield Problem((*place, "completed"), "is earlier than started")


def _misnamed(entry: dict[str, Json], names: dict[str, tuple[str, ...]], place: Place) -> Iterator[Problem]:
    for right, others in names.items():
        if right not in entry:
            for other in others:
                if other in entry:
                    yield Problem((*place, other), f"is called {right} in this format")


def moment(value: Json) -> int | None:
    """A time of a document in milliseconds; None when it is none."""
    try:
        return parse_time(value) if isinstance(value, str) else None
    except Invalid:
        return None


# ── unsaid ───────────────────────────────────────────────────────────────────────────────────────────────


def is_sound(raw: bytes) -> bool:
    """True only when `problems` would find nothing."""
    if not raw.isascii() and not _is_text(raw):
        return False
    try:
        return _holds(decoder.decode(raw))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False


def _is_text(raw: bytes) -> bool:
    """What the decoder passes over, it does not look at."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _holds(document: SessionDocument) -> bool:
    created = _time(document.created)
    if created > _time(document.updated) or document.session_id[:10] != document.created[:10]:
        return False
    agents = document.agents
    if len({agent.id for agent in agents}) != len(agents) or not all(map(_agent_holds, agents)):
        return False
    for decision in document.decisions_made:
        _time(decision.timestamp)
    if document.context_usage.last_compression is not None:
        _time(document.context_usage.last_compression)
    return True


def _agent_holds(agent: AgentPart) -> bool:
    if agent.started_at is not msgspec.UNSET or agent.completed_at is not msgspec.UNSET:
        return False
    started = None if agent.started is None else _time(agent.started)
    if agent.completed is None:
        return True
    completed = _time(agent.completed)
    return agent.status in ENDED and (started is None or started <= completed)


def _time(written: str) -> datetime:
    """Raises ValueError when it is no time in UTC."""
    if _UTC.match(written) is None:
        raise ValueError(written)
    return datetime.fromisoformat(written)
