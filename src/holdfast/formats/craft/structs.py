"""The craft document as structs, for looking at thousands of files quickly.

The constraints are those of the schema: what decodes into these has the right shape. Keys of others are passed over.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from holdfast.core.canonical import MAX_SAFE_INTEGER

VERSION: Final = "1.0.0"
# Who changed a file that no agent changed.
PERSON: Final = "person"

# The end of the key under which a value is kept that craft cannot use.
AS_FOUND: Final = "_as_found"

NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\Z"

_Said = Annotated[str, msgspec.Meta(pattern=r"\S")]
_Name = Annotated[str, msgspec.Meta(pattern="^" + NAME)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_SAFE_INTEGER)]
_Part = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Commit = Annotated[str, msgspec.Meta(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")]
_Folder = Annotated[str, msgspec.Meta(pattern=r"^(?:/|[A-Za-z]:[\\/]|\\\\)")]
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
    type: _Said
    status: Literal["pending", "running", "completed", "error", "timeout"]
    artifacts: Artifacts
    started_at: str | None = None
    completed_at: str | None = None
    duration_seconds: _Count | None = None
    progress: _Part | None = None
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
    device: _Said
    project: _Folder
    goal: _Said
    mode: Literal["debug", "default", "optimize", "release"]
    status: Literal["in_progress", "paused", "completed", "error", "aborted"]
    progress: _Part
    agents: list[CraftAgent]
    completed_work: list[str]
    pending_tasks: list[str]
    decisions_made: list[CraftDecision]
    files_modified: list[File]
    context_usage: ContextUsage
    teleportation: Teleportation
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    schema: str = msgspec.field(default="", name="$schema")
