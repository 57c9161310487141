"""Check quickly whether a craft file is valid; any doubt is left to the strict rules, which say why.

The structs have the constraints of the schema: what decodes into them has the right shape. Unknown keys are ignored.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

import msgspec

from holdfast.core.canonical import MAX_SAFE_INTEGER
from holdfast.core.decode import decodable
from holdfast.formats.craft.fields import NAME, VERSION
from holdfast.formats.craft.rules import MAX_SENTENCES, RESULTS, circles, is_among, sentences

_Text = Annotated[str, msgspec.Meta(pattern=r"\S")]
_Name = Annotated[str, msgspec.Meta(pattern="^" + NAME)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_SAFE_INTEGER)]
_Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Commit = Annotated[str, msgspec.Meta(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")]
_AbsolutePath = Annotated[str, msgspec.Meta(pattern=r"^(?:/|[A-Za-z]:[\\/]|\\\\)")]
_Email = Annotated[str, msgspec.Meta(pattern=r"^[^@\s]+@[^@\s]+\Z")]
_Version = Annotated[
    str,
    msgspec.Meta(pattern=r"^(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*)){2}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?\Z"),
]
_Uuid = Annotated[
    str, msgspec.Meta(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")
]


class Artifacts(msgspec.Struct, gc=False):
    files_created: list[str]
    files_modified: list[str]
    files_deleted: list[str]


class CraftError(msgspec.Struct, gc=False):
    category: Literal["transient", "resource", "configuration", "logical", "permanent"]
    message: str
    retry_count: _Count
    last_retry_at: str | None = None


class CraftAgent(msgspec.Struct, gc=False):
    id: _Name
    type: _Text
    status: Literal["pending", "running", "completed", "error", "timeout"]
    artifacts: Artifacts
    started_at: str | None = None
    completed_at: str | None = None
    duration_seconds: _Count | None = None
    progress: _Fraction | None = None
    result: Literal["success", "failure", "timeout", "aborted"] | None = None
    blocking_on: str | None = None
    error: CraftError | None = None
    output_summary: str | None = None


class CraftDecision(msgspec.Struct, gc=False):
    timestamp: str
    context: str
    options: list[str]
    chosen: str
    reasoning: str | None = None


class File(msgspec.Struct, gc=False):
    path: str
    action: Literal["created", "modified", "deleted"]
    agent_id: _Name
    timestamp: str
    lines_added: _Count | None = None
    lines_removed: _Count | None = None
    hash_before: _Sha256 | None = None
    hash_after: _Sha256 | None = None


class ContextUsage(msgspec.Struct, gc=False):
    estimated_tokens: _Count
    compression_count: _Count
    by_agent: dict[str, _Count]
    last_compression: str | None = None


class Teleportation(msgspec.Struct, gc=False):
    enabled: bool
    devices: list[str]
    storage_backend: Literal["claude-desktop", "local", "s3"]
    encrypted: bool
    last_sync: str | None = None
    sync_status: Literal["success", "pending", "error"] | None = None
    sync_error: str | None = None
    shared_with: list[_Email] | None = None


class Metadata(msgspec.Struct, gc=False):
    git_branch: str | None = None
    git_commit: _Commit | None = None
    craft_version: _Version = VERSION
    tags: list[str] = []
    notes: str | None = None


class CraftDocument(msgspec.Struct, gc=False):
    schema_version: Literal["1.0.0"]
    session_id: _Uuid
    created_at: str
    updated_at: str
    device: _Text
    project: _AbsolutePath
    goal: _Text
    mode: Literal["debug", "default", "optimize", "release"]
    status: Literal["in_progress", "paused", "completed", "error", "aborted"]
    progress: _Fraction
    agents: list[CraftAgent]
    completed_work: list[str]
    pending_tasks: list[str]
    decisions_made: list[CraftDecision]
    files_modified: list[File]
    context_usage: ContextUsage
    teleportation: Teleportation
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    schema: str = msgspec.field(default="", name="$schema")


_UTC: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z\Z")
# Clearly inside the project; every other path is left to the strict rules.
_INSIDE: Final = re.compile(r"\.?[A-Za-z0-9_@+=-][A-Za-z0-9_@+=. -]*(?:/\.?[A-Za-z0-9_@+=-][A-Za-z0-9_@+=. -]*)*\Z")
_ROUNDING: Final = timedelta(milliseconds=998)
_decoders: list[msgspec.json.Decoder[CraftDocument]] = []


def is_sound(raw: bytes) -> bool:
    if not _decoders:  # built on first use: describing the types costs a millisecond
        _decoders.append(msgspec.json.Decoder(decodable(CraftDocument)))
    try:
        return _fits(_decoders[0].decode(raw))
    except (ValueError, RecursionError):  # msgspec's errors and wrong dates are ValueErrors
        return False


def _fits(craft: CraftDocument) -> bool:
    created, updated = _time(craft.created_at), _time(craft.updated_at)
    if updated < created or sentences(craft.goal) > MAX_SENTENCES:
        return False
    for moment in (craft.context_usage.last_compression, craft.teleportation.last_sync):
        if moment is not None:
            _time(moment)
    for decision in craft.decisions_made:
        _time(decision.timestamp)
        if not is_among(decision.chosen, decision.options):
            return False
    for file in craft.files_modified:
        _time(file.timestamp)
        if not _INSIDE.match(file.path) or len(file.path) > 1000:
            return False
    return _agents_fit(craft.agents)


def _agents_fit(agents: list[CraftAgent]) -> bool:
    names = {agent.id for agent in agents}
    waits = {agent.id: agent.blocking_on for agent in agents if agent.blocking_on is not None}
    if len(names) != len(agents) or not names.issuperset(waits.values()) or (waits and circles(waits)):
        return False
    return all(map(_agent_fits, agents))


def _agent_fits(agent: CraftAgent) -> bool:
    if agent.result not in RESULTS[agent.status]:
        return False
    started = None if agent.started_at is None else _time(agent.started_at)
    if agent.completed_at is not None:
        if agent.status in ("pending", "running"):
            return False
        completed = _time(agent.completed_at)
        if started is not None:
            took = completed - started
            seconds = agent.duration_seconds
            if took < timedelta(0) or (
                seconds is not None and (seconds > 1e9 or abs(timedelta(seconds=seconds) - took) >= _ROUNDING)
            ):
                return False
    if agent.error is not None and agent.error.last_retry_at is not None:
        _time(agent.error.last_retry_at)
    touched = agent.artifacts
    for paths in (touched.files_created, touched.files_modified, touched.files_deleted):
        for path in paths:
            if not _INSIDE.match(path) or len(path) > 1000:
                return False
    return True


def _time(written: str) -> datetime:
    """A time in the required spelling. Raises `ValueError` for anything else."""
    if not _UTC.match(written):
        raise ValueError(written)
    return datetime.fromisoformat(written)
