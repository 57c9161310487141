"""Detect the format of a file by its path and by its shape.

Many projects keep files of their own under the same names. Those are in none of the four formats; `why_foreign` says
why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.text import shorten
from holdfast.formats import registry
from holdfast.formats.base import Format
from holdfast.formats.contract.fields import is_feature_id

# In a feature's directory, and in the directory above it.
FEATURE_FILES: Final = {
    "state.yaml": "contract-state", "implementation-plan.yaml": "contract-plan", "history.jsonl": "contract-history",
}  # fmt: skip
REGISTRY_FILE: Final = "active-features.yaml"
CONTRACT_HOME: Final = ".ai-session"
# What is searched in a directory, as a hint if there was nothing.
LOOKED_FOR: Final = (
    "Looked for .claude/orchestrator-session.json and .claude/orchestrator-history/, .claude/session-state.json, "
    ".ai-session/, .craft/cache/orchestration-sessions/, and for other JSON files that are session documents."
)

# Keys that distinguish the formats from each other and from other files. Common keys (goal, status, project, summary,
# task) are not included.
_OWN_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "timer": frozenset((
        "sessionId", "branchName", "startTime", "lastMessageTime", "actualWorkingMs", "totalPausedMs", "pauses",
        "reminders",
    )),
    "craft": frozenset((
        "schema_version", "session_id", "created_at", "updated_at", "device", "agents", "completed_work",
        "pending_tasks", "decisions_made", "files_modified", "context_usage", "teleportation",
    )),
    "orchestrator": frozenset((
        "schema_version", "session_id", "created", "updated", "mode", "agents", "completed_work", "pending_tasks",
        "decisions_made", "context_usage", "errors",
    )),
    "contract": frozenset((
        "feature_id", "current_state", "implementation_plan", "history_log", "active_features", "feature", "phases",
        "timestamp", "command", "arguments", "duration_ms",
    )),
}  # fmt: skip

# Keys that people and agents use in files of their own making.
_HAND_MADE: Final = frozenset((
    "working_on", "workingOn", "current_task", "currentTask", "current_focus", "next_steps", "nextSteps",
    "completed_tasks", "completedTasks", "completed", "done", "in_progress", "pending", "todo", "todos", "blocker",
    "blockers", "git_branch", "branch", "notes", "context", "last_session", "lastSession", "last_updated",
    "lastUpdated", "decisions", "files_changed", "key_files", "phase", "milestone", "progress_notes", "handoff",
))  # fmt: skip
_MIN_SIGNS: Final = 3
# The key for the text of notes. Keys with a leading underscore are about the file and have no meaning.
NOTES: Final = "_text"


# Texts that mark a broken file as a session file.
_SIGNS: Final = (
    b'"schema_version"', b'"session_id"', b'"sessionId"', b'"actualWorkingMs"', b"active_features:",
    b"current_state:", b'"duration_ms"',
)  # fmt: skip


def format_at(path: str) -> tuple[str, str] | None:
    """The format and kind of a file at this path, by the names alone."""
    parts = path.replace("\\", "/").split("/")
    name, folder = parts[-1], parts[-2] if len(parts) > 1 else ""
    if folder == ".claude":
        if name == "orchestrator-session.json":
            return "orchestrator", "orchestrator"
        return ("timer", "timer") if name == "session-state.json" else None
    if folder == "orchestrator-history":
        return ("orchestrator", "orchestrator") if name.endswith(".json") and ".claude" in parts[-3:-2] else None
    if folder == "orchestration-sessions":
        if not name.endswith(".json") or parts[-4:-2] != [".craft", "cache"]:
            return None
        return ("craft", "craft-index") if name == "index.json" else ("craft", "craft")
    if folder == CONTRACT_HOME:
        return ("contract", "contract-registry") if name == REGISTRY_FILE else None
    if name in FEATURE_FILES and CONTRACT_HOME in parts[-3:-2]:
        return "contract", FEATURE_FILES[name]
    return None


def feature_at(path: str) -> str | None:
    """The feature that a path belongs to, or whose directory it is, by the names alone."""
    parts = path.replace("\\", "/").split("/")
    return next((name for home, name in pairwise(parts[-3:]) if home == CONTRACT_HOME and is_feature_id(name)), None)


def has_session_signs(raw: bytes) -> bool:
    """Was this unreadable file a session file?"""
    bare = raw.replace(b"\0", b"") if b"\0" in raw else raw  # UTF-16 is the same signs with zeros between
    return any(sign in bare for sign in _SIGNS)


def has_session_name(name: str) -> bool:
    """Can a file of this name be a session file, wherever it is?"""
    return name.endswith(".json") or name in FEATURE_FILES or name == REGISTRY_FILE


def may_be_collected(name: str) -> bool:
    """Can a file of this name be a session file in a collection of such files?"""
    return has_session_name(name) or name.endswith((".yaml", ".yml"))


def rank_by_likelihood(keys: Iterable[str]) -> list[str]:
    """Names of the formats, most likely first, by these keys."""
    present = frozenset(keys)
    return sorted(registry.NAMES, key=lambda name: -len(present & _OWN_KEYS[name]))


def recognise(value: Json, path: str) -> tuple[Format, str] | None:
    """The format and kind of a document; None when it is in none of the four.

    A file at a format's own path has that format, unless it clearly has another or none.
    """
    place = format_at(path)
    if place is not None:
        owner = registry.format_named(place[0])
        if owner.detects(value) is not None:
            return owner, place[1]
    for name in rank_by_likelihood(value) if isinstance(value, dict) else registry.NAMES:
        candidate = registry.format_named(name)
        kind = candidate.detects(value)
        if kind is not None:
            return candidate, kind
    if place is not None and why_foreign(value) is None:
        return registry.format_named(place[0]), place[1]
    return None


def why_foreign(value: Json) -> str | None:
    """Why a document that no format detects is in none of the four; None when it may be damaged."""
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, (list, tuple)) else "a single value"
        return f"it is {kind}, and every session file is an object"
    if not value:
        return "it is empty"
    if NOTES in value:
        return "it is plain text or Markdown, and every session file is an object"
    present = frozenset(value)
    known = max(len(present & keys) for keys in _OWN_KEYS.values())
    own = [key for key in value if key in _HAND_MADE]
    if known >= _MIN_SIGNS and len(own) <= known:
        return None
    shown = ", ".join(f"{shorten(key, 30)!a}" for key in (own or list(value))[:4])
    return f"it looks hand-made: keys such as {shown} are not in any of the formats {', '.join(registry.NAMES)}"
