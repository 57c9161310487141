"""The fields of craft's two kinds of file: a session and the index of sessions.

The schemas, the quick verdict and the repairs of single fields follow from these tables.
"""

from __future__ import annotations

from typing import Final

from holdfast.core import modes
from holdfast.formats.craft import repairs, rules
from holdfast.formats.craft.fields import ABSOLUTE, CATEGORIES, COMMIT, NAME, PERSON, SHA256, UNKNOWN_FAILURE, VERSION
from holdfast.formats.repair import adopt, drop_null
from holdfast.formats.table import (
    OPTIONAL,
    REQUIRED,
    Count,
    Counts,
    Exactly,
    Field,
    Flag,
    Fraction,
    Nested,
    Object,
    Objects,
    Text,
    Texts,
    UtcTime,
    Word,
)

_NUMBERS: Final = r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
_UUID: Final = Text("^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$", blank=False)
_NAME: Final = Text(f"^{NAME}$", blank=False)
_SHA256: Final = Text(f"^{SHA256}$")
_NONBLANK: Final = Text(blank=False)

_SESSION_STATUS: Final = Word(
    ("in_progress", "paused", "completed", "error", "aborted"),
    {
        "created": "in_progress", "active": "in_progress", "running": "in_progress", "started": "in_progress",
        "complete": "completed", "done": "completed", "finished": "completed", "success": "completed",
        "failed": "error", "failure": "error", "cancelled": "aborted", "canceled": "aborted", "suspended": "paused",
    },
)  # fmt: skip
_AGENT_STATUS: Final = Word(
    ("pending", "running", "completed", "error", "timeout"),
    {
        "in_progress": "running", "active": "running", "started": "running", "working": "running",
        "complete": "completed", "done": "completed", "finished": "completed", "success": "completed",
        "failed": "error", "failure": "error", "interrupted": "error", "aborted": "error", "cancelled": "error",
        "canceled": "error", "paused": "pending", "queued": "pending", "waiting": "pending", "blocked": "pending",
        "timed_out": "timeout",
    },
)  # fmt: skip
_ACTION: Final = Word(
    ("created", "modified", "deleted"),
    {
        "create": "created", "added": "created", "add": "created", "new": "created", "modify": "modified",
        "changed": "modified", "updated": "modified", "edited": "modified", "edit": "modified", "update": "modified",
        "delete": "deleted", "removed": "deleted", "remove": "deleted",
    },
)  # fmt: skip

_ERROR: Final = Object("error", "A failure and what was done about it.", (
    Field("category", Word(CATEGORIES, {"temporary": "transient", "config": "configuration"}),
          "What kind of failure it is, and so whether trying again helps.", REQUIRED, default="logical"),
    Field("message", Text(), "What happened, in words.", REQUIRED, also=("error", "reason", "text"),
          default=UNKNOWN_FAILURE),
    Field("retry_count", Count(), "How often it was tried again.", REQUIRED, also=("retries", "attempts"), default=0),
    Field("last_retry_at", UtcTime(), "When it was last tried again."),
))  # fmt: skip

_ARTIFACTS: Final = Object("artifacts", "Files it touched, as paths from the root of the project.", (
    Field("files_created", Texts(), "Files it made.", REQUIRED, default=[], repair=repairs.paths_inside),
    Field("files_modified", Texts(), "Files it changed.", REQUIRED, default=[], repair=repairs.paths_inside),
    Field("files_deleted", Texts(), "Files it removed.", REQUIRED, default=[], repair=repairs.paths_inside),
))  # fmt: skip

_AGENT: Final = Object("agent", "One agent that was set to work in the session.", (
    Field("id", _NAME, "Its name, unique in the session: letters, digits, dot, underscore, dash.", REQUIRED,
          also=("agent_id", "agentId", "name"), default=repairs.numbered),
    Field("type", _NONBLANK, "What kind of agent it is, such as backend-architect; kinds of one's own are fine.",
          REQUIRED, also=("agent_type", "role", "kind"), default="custom"),
    Field("status", _AGENT_STATUS, "How far it got.", REQUIRED, default=repairs.status_by_times),
    Field("started_at", UtcTime(), "When it began; null while it waits.",
          also=("started", "startedAt", "start_time")),
    Field("completed_at", UtcTime(), "When it ended, well or badly; null before.",
          also=("completed", "ended_at", "finished_at", "completedAt", "end_time")),
    Field("duration_seconds", Count(), "From beginning to end, in whole seconds."),
    Field("progress", Fraction(), "How much of its work is done, from 0 to 1."),
    Field("result", Word(("success", "failure", "timeout", "aborted"),
                         {"completed": "success", "ok": "success", "error": "failure", "failed": "failure"}),
          "How it ended; null before."),
    Field("blocking_on", Text(), "The agent of this session it waits for."),
    Field("error", Nested(_ERROR, repairs.error_of_text), "What went wrong last; null when nothing did."),
    Field("output_summary", Text(), "What came of it, in a sentence.", also=("result_summary", "summary", "output")),
    Field("artifacts", Nested(_ARTIFACTS, repairs.artifacts_of_list), "", REQUIRED),
), repairs=(
    adopt("id", "started_at", "completed_at", "output_summary", "type"), "id", repairs.rename_agent, "type",
    repairs.believe_status, "status", "result", "started_at", "completed_at", "duration_seconds", "progress",
    "output_summary", "error", "artifacts", repairs.reconcile_agent,
))  # fmt: skip

_DECISION: Final = Object("decision", "A choice that was made.", (
    Field("timestamp", UtcTime(), "When.", REQUIRED, also=("at", "time", "date", "decided_at"),
          default=repairs.last_change),
    Field("context", Text(), "What had to be decided.", REQUIRED, also=("about", "question", "topic")),
    Field("options", Texts(), "What there was to choose from.", REQUIRED),
    Field("chosen", Text(), "What was chosen.", REQUIRED, also=("decision", "choice", "selected", "answer")),
    Field("reasoning", Text(), "Why.", also=("rationale", "why", "reason")),
), repairs=(
    adopt("chosen", "reasoning", "timestamp", "context"), "chosen", "reasoning", "context", "timestamp", "options",
    repairs.fill_decision,
))  # fmt: skip

_FILE: Final = Object("file", "One change of one file.", (
    Field("path", Text(), "The file, as a path from the root of the project.", REQUIRED,
          also=("file", "filename", "name")),
    Field("action", _ACTION, "What was done to it.", REQUIRED, also=("change", "change_type", "type", "status"),
          default="modified"),
    Field("agent_id", _NAME, "The agent that did it; `person` when no agent did.", REQUIRED, also=("agent", "by"),
          default=PERSON, repair=repairs.name_of_author),
    Field("timestamp", UtcTime(), "When.", REQUIRED, also=("at", "time", "modified_at", "changed_at"),
          default=repairs.last_change),
    Field("lines_added", Count(), "Lines it gained."),
    Field("lines_removed", Count(), "Lines it lost."),
    Field("hash_before", _SHA256, "SHA-256 of the contents before.", repair=repairs.respell_hash),
    Field("hash_after", _SHA256, "SHA-256 of the contents after.", repair=repairs.respell_hash),
), repairs=(
    adopt("path", "action", "agent_id", "timestamp"), "path", repairs.file_inside, "action", "agent_id",
    "timestamp", "lines_added", "lines_removed", "hash_before", "hash_after",
))  # fmt: skip

_CONTEXT: Final = Object("context", "How much of the models' context was used.", (
    Field("estimated_tokens", Count(), "Tokens in all, as estimated.", REQUIRED, also=("tokens", "total_tokens"),
          default=0),
    Field("compression_count", Count(), "How often the context was compressed.", REQUIRED, also=("compressions",),
          default=0),
    Field("last_compression", UtcTime(), "When it was last compressed."),
    Field("by_agent", Counts(), "Tokens by agent.", REQUIRED),
))  # fmt: skip

_TELEPORTATION: Final = Object("teleportation", "How the session travels between devices.", (
    Field("enabled", Flag(), "Does it travel at all?", REQUIRED, default=False),
    Field("last_sync", UtcTime(), "When it was last exchanged."),
    Field("sync_status", Word(("success", "pending", "error"),
                              {"synced": "success", "ok": "success", "failed": "error"}),
          "How the last exchange went."),
    Field("sync_error", Text(), "What went wrong with it."),
    Field("devices", Texts(), "Devices that wrote to it.", REQUIRED, default=repairs.own_device),
    Field("storage_backend", Word(("claude-desktop", "local", "s3"),
                                  {"folder": "local", "git": "local", "none": "local", "file": "local"}),
          "Where it is exchanged.", REQUIRED, default="local"),
    Field("encrypted", Flag(), "Is it sealed on the way?", REQUIRED, default=False),
    Field("shared_with", Texts(Text(r"^[^@\s]+@[^@\s]+$", lenient=True)),
          "Email addresses of the people it is shared with."),
), repairs=(
    "enabled", "encrypted", "last_sync", "sync_status", "sync_error", "devices", "storage_backend", "shared_with",
))  # fmt: skip

_METADATA: Final = Object("metadata", "What else the writer wants to say.", (
    Field("git_branch", Text(), "The branch the work is on."),
    Field("git_commit", Text(f"^{COMMIT}$"), "The commit it began from: 40 hexadecimal digits, or 64.",
          repair=repairs.respell_commit),
    Field("craft_version", Text(rf"^{_NUMBERS}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$", lenient=True),
          "The version of the program that wrote it.", OPTIONAL),
    Field("tags", Texts(), "Words to find it by.", OPTIONAL),
    Field("notes", Text(), "Remarks."),
), repairs=(
    "git_branch", "notes", "craft_version", "git_commit", repairs.split_tags, "tags",
    drop_null("tags", "craft_version"),
))  # fmt: skip

_DESCRIBED_VERSION: Final = "The version of this layout."

_SESSION: Final = Object(
    "session",
    "One orchestration session, written so that it can be taken up on another device. Keys not named here are "
    "allowed and kept.",
    (
        Field("$schema", Text(), "The address of the schema the writer had in mind.", OPTIONAL),
        Field("schema_version", Text(f"^{_NUMBERS}$"), _DESCRIBED_VERSION, REQUIRED),
        Field("session_id", _UUID, "A UUID of version 4, in small letters.", REQUIRED,
              also=("sessionId", "id", "uuid")),
        Field("created_at", UtcTime(), "When the session began.", REQUIRED,
              also=("created", "started_at", "started", "createdAt", "startedAt", "start_time", "timestamp")),
        Field("updated_at", UtcTime(), "When anything about it last changed.", REQUIRED,
              also=("updated", "last_updated", "updatedAt", "paused_at", "completed_at", "ended_at", "saved_at",
                    "lastUpdated", "end_time")),
        Field("device", _NONBLANK, "The device that wrote last.", REQUIRED,
              also=("device_name", "host", "hostname", "machine"), default=lambda part: part.context.device),
        Field("project", Text(f"^{ABSOLUTE}", blank=False), "The project's directory, as an absolute path.", REQUIRED,
              also=("project_path", "project_root", "cwd", "working_directory"),
              repair=repairs.absolute_path, default=repairs.project_here),
        Field("goal", _NONBLANK, "What is to be achieved, in one to three sentences.", REQUIRED,
              also=("task", "title", "description", "objective")),
        Field("mode", Word(modes.MODES, {"normal": "default", "standard": "default", "fast": "optimize"}),
              "How cautious or how quick the work is to be.", REQUIRED, default="default"),
        Field("status", _SESSION_STATUS, "Where the session stands.", REQUIRED, default="in_progress"),
        Field("progress", Fraction(), "How much of the whole is done, from 0 to 1.", REQUIRED,
              default=repairs.progress_of_work),
        Field("agents", Objects(_AGENT, repairs.agent_of_text, repairs.repair_waits), "Every agent of the session.",
              REQUIRED, default=[]),
        Field("completed_work", Texts(), "What is done, in words.", REQUIRED,
              also=("completed_tasks", "completed", "done"), default=[]),
        Field("pending_tasks", Texts(), "What is left to do, in words.", REQUIRED,
              also=("pending", "next_steps", "remaining", "todos"), default=[]),
        Field("decisions_made", Objects(_DECISION, repairs.decision_of_text), "What was decided on the way.",
              REQUIRED, also=("decisions",), default=[]),
        Field("files_modified", Objects(_FILE, repairs.file_of_text), "Every change of a file.", REQUIRED,
              also=("files", "files_changed", "modified_files"), default=[]),
        Field("context_usage", Nested(_CONTEXT), "", REQUIRED),
        Field("teleportation", Nested(_TELEPORTATION), "", REQUIRED),
        Field("metadata", Nested(_METADATA), "", OPTIONAL),
    ),
    title="Craft session state, version 1",
    rules=(rules.version, rules.times, rules.goal, rules.agents, rules.files),
    soft_rules=(rules.decisions,),
    repairs=(
        repairs.version, ("session_id", "goal"), repairs.identify, ("created_at", "updated_at"), repairs.order_times,
        repairs.path_of_project, "project", "device", "agents", adopt("completed_work", "pending_tasks"),
        "completed_work", "pending_tasks", ("decisions_made", "files_modified"), "mode", "status", "progress",
        repairs.address_of_schema, "context_usage", "teleportation", drop_null("metadata"), "metadata",
        repairs.give_uuid,
    ),
)  # fmt: skip

_ROW: Final = Object("row", "A session at a glance.", (
    Field("session_id", _UUID, "A UUID of version 4, in small letters.", REQUIRED),
    Field("goal", Text(), "What is to be achieved.", REQUIRED),
    Field("status", _SESSION_STATUS, "Where it stands.", REQUIRED),
    Field("progress", Fraction(), "How much is done, from 0 to 1.", REQUIRED),
    Field("created_at", UtcTime(), "When it began.", REQUIRED),
    Field("updated_at", UtcTime(), "When it last changed.", REQUIRED),
    Field("device", _NONBLANK, "The device that wrote last.", REQUIRED),
    Field("file", Text(r"^[^/\\]+\.json$"), "The session's file, beside the index.", REQUIRED),
), inline=True)  # fmt: skip

_INDEX: Final = Object("index", "Stands beside the session files and lists them, newest first.", (
    Field("schema_version", Exactly(VERSION), _DESCRIBED_VERSION, REQUIRED),
    Field("sessions", Objects(_ROW), "One row per session file, the one changed last first.", REQUIRED),
), title="Index of craft sessions, version 1")  # fmt: skip

TABLES: Final = {"craft": _SESSION, "craft-index": _INDEX}
