"""The session as everybody sees it: the document of the public contract, field by field.

Commands, library, server and dashboard all use it. Absent facts are null, never missing.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from holdfast.core.canonical import Json
from holdfast.core.modes import Level
from holdfast.core.text import shorten

PauseKind = Literal["manual", "idle", "task", "timeout"]
ChangedBy = Literal["tool", "command", "person", "unknown"]
Certainty = Literal["certain", "likely", "uncertain"]


class Part(msgspec.Struct, kw_only=True, gc=False):
    pass


def short_repr(value: object, identity: str, text: str | None, status: str | None) -> str:
    """For people who look at objects in a debugger: a whole session has pages."""
    words = (type(value).__name__, identity, repr(shorten(text, 60)) if text else None, status)
    return f"<{' '.join(word for word in words if word)}>"


class Aliases(Part, kw_only=True):
    orchestrator: str | None = None
    timer: str | None = None
    contract: str | None = None
    craft: str | None = None


class Project(Part, kw_only=True):
    name: str
    path: str | None
    git_branch: str | None
    git_commit: str | None
    remote: str | None


class Waiting(Part, kw_only=True):
    at: str
    for_: str = msgspec.field(name="for")
    text: str | None


class Native(Part, kw_only=True):
    agent: str
    id: str
    resume: str | None


class Tokens(Part, kw_only=True):
    input: int | None
    output: int | None
    cache_read: int | None
    cache_write: int | None


class Conversation(Part, kw_only=True):
    id: str
    agent: str
    title: str | None
    model: str | None
    started_at: str | None
    ended_at: str | None
    prompts: int | None
    # Whether its transcript is kept. No conversation's is yet.
    kept: bool
    resume: str | None
    cost_usd: float | None
    tokens: Tokens


class AgentError(Part, kw_only=True):
    category: str
    message: str
    retry_count: int
    last_retry_at: str | None


class AgentFiles(Part, kw_only=True):
    created: list[str]
    modified: list[str]
    deleted: list[str]


class Agent(Part, kw_only=True):
    id: str
    type: str
    task: str | None
    status: str
    progress: float | None
    started_at: str | None
    completed_at: str | None
    duration_ms: int | None
    result: str | None
    summary: str | None
    blocking_on: str | None
    tokens: int | None
    retries: int
    pid: int | None
    background: bool
    error: AgentError | None
    files: AgentFiles

    def __repr__(self) -> str:
        return short_repr(self, self.id, self.task, self.status)


class Phase(Part, kw_only=True):
    id: str
    name: str


class Task(Part, kw_only=True):
    id: str
    text: str
    phase: str | None
    agent: str | None
    status: str
    outcome: str | None
    artifacts: list[str]
    created_at: str
    started_at: str | None
    completed_at: str | None

    def __repr__(self) -> str:
        return short_repr(self, self.id, self.text, self.status)


class Decision(Part, kw_only=True):
    at: str
    chosen: str
    context: str | None
    options: list[str]
    why: str | None


class FileChange(Part, kw_only=True):
    path: str
    action: str
    agent: str | None
    at: str
    lines_added: int | None
    lines_removed: int | None
    hash_before: str | None
    hash_after: str | None
    by: ChangedBy | None
    among: list[str]


class Commit(Part, kw_only=True):
    sha: str
    at: str
    subject: str
    conversation: str | None
    branch: str | None
    certainty: Certainty
    among: list[str]
    replaces: str | None


class Context(Part, kw_only=True):
    tokens: int | None
    window: int
    percent: float | None
    level: Level
    compressions: int
    last_compression: str | None
    by_agent: dict[str, int]


class Pause(Part, kw_only=True):
    kind: PauseKind
    reason: str | None
    started_at: str
    ended_at: str | None
    duration_ms: int


class Reminders(Part, kw_only=True):
    break_40: bool
    warning_60: bool
    timeout_90: bool


class Time(Part, kw_only=True):
    elapsed_ms: int
    working_ms: int
    paused_ms: int
    idle_since: str | None
    pauses: list[Pause]
    reminders: Reminders
    # The longest limit of working time that is crossed now, by the settings.
    reminder: Literal["break_40", "warning_60", "timeout_90"] | None = None


class Note(Part, kw_only=True):
    at: str
    text: str


class Error(Part, kw_only=True):
    at: str
    message: str
    category: str | None
    agent: str | None


class ConflictValue(Part, kw_only=True):
    value: Json
    device: str | None
    at: str


class Conflict(Part, kw_only=True):
    id: str
    field: str
    values: list[ConflictValue]
    chosen: int | None


class Commands(Part, kw_only=True):
    total: int
    failed: int
    last: str | None


class Sync(Part, kw_only=True):
    remote: str | None = None
    status: Literal["none", "pending", "synced", "error"] = "none"
    last_sync: str | None = None
    error: str | None = None
    shared_with: list[str] = []


class SyncFacts(NamedTuple):
    """How a session reaches other devices, for formats that say so."""

    sync: Sync
    # The kind of remote, in the words of these formats.
    backend: str


class Session(Part, kw_only=True):
    id: str
    aliases: Aliases
    project: Project
    goal: str
    summary: str | None
    mode: str
    model: str | None
    status: str
    # Whether it began by itself and was left, by the settings.
    over: bool = False
    progress: float
    scope: str | None
    task: str | None
    feature: str | None
    branch: str | None
    tags: list[str]
    continues: str | None
    created_at: str
    updated_at: str
    started_at: str | None
    ended_at: str | None
    device: str | None
    devices: list[str]
    cost_usd: float | None
    waiting: list[Waiting]
    native: list[Native]
    conversations: list[Conversation]
    commits: list[Commit]
    agents: list[Agent]
    phases: list[Phase]
    tasks: list[Task]
    decisions: list[Decision]
    files: list[FileChange]
    context: Context
    time: Time
    notes: list[Note]
    errors: list[Error]
    conflicts: list[Conflict]
    commands: Commands
    sync: Sync
    extra: dict[str, Json]

    def __repr__(self) -> str:
        return short_repr(self, self.id[:8], self.goal, self.status)


class Row(Part, kw_only=True):
    """A session in a listing."""

    id: str
    goal: str
    status: str
    progress: float
    project: str
    device: str | None
    created_at: str
    updated_at: str
    working_ms: int
    archived: bool
    # Whether it began by itself and was left.
    over: bool = False
    # The ids by which the formats know it.
    aliases: Aliases = msgspec.field(default_factory=Aliases)

    def __repr__(self) -> str:
        return short_repr(self, self.id[:8], self.goal, self.status)
