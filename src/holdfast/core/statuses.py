"""The words of documents as enums, for programs. Each is equal to its string, which is what is stored and encoded."""

from __future__ import annotations

from enum import StrEnum


class SessionStatus(StrEnum):
    CREATED = "created"
    IN_PROGRESS = "in_progress"
    PAUSED = "paused"
    COMPLETED = "completed"
    ERROR = "error"
    ABORTED = "aborted"


class AgentStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    ERROR = "error"
    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"
    ABORTED = "aborted"


class TaskStatus(StrEnum):
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    BLOCKED = "blocked"
    DROPPED = "dropped"


class SessionMode(StrEnum):
    DEBUG = "debug"
    DEFAULT = "default"
    OPTIMIZE = "optimize"
    RELEASE = "release"


class ErrorCategory(StrEnum):
    TRANSIENT = "transient"
    RESOURCE = "resource"
    CONFIGURATION = "configuration"
    LOGICAL = "logical"
    PERMANENT = "permanent"


class FileAction(StrEnum):
    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"
