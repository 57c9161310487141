"""The document as types: what `is_sound` decodes thousands of files into, without a word about what is wrong.

The constraints are those of `schemas/orchestrator.json`, at places a little narrower; a test holds that nothing is
sound here that is not valid there.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from holdfast.core.canonical import LARGEST, Json
from holdfast.core.decoding import decodable

Words = Annotated[str, msgspec.Meta(pattern=r"\S")]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
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
