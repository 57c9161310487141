"""Which of the four formats a file has: by the place where it stands, and by its shape.

Many projects keep files of their own making under the same names. Those are none of the four; `foreign` says why.
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

# In a feature's directory, and in the directory that holds all of them.
FEATURE_FILES: Final = {
    "state.yaml": "contract-state", "implementation-plan.yaml": "contract-plan", "history.jsonl": "contract-history",
}  # fmt: skip
REGISTRY_FILE: Final = "active-features.yaml"
CONTRACT_HOME: Final = ".ai-session"
# What is looked for in a directory, for those who looked in vain.
LOOKED_FOR: Final = (
    "Looked for .claude/orchestrator-session.json and .claude/orchestrator-history/, .claude/session-state.json, "
    ".ai-session/, .craft/cache/orchestration-sessions/, and for other JSON files that are session documents."
)

# Keys that tell the formats apart from each other and from other people's files. Those that anybody might use
# (goal, status, project, summary, task) are not among them.
_TELLING: Final[Mapping[str, frozenset[str]]] = {
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

# What people and agents call things in files they make up, without any of the four in mind.
_HAND_MADE: Final = frozenset((
    "working_on", "workingOn", "current_task", "currentTask", "current_focus", "next_steps", "nextSteps",
    "completed_tasks", "completedTasks", "completed", "done", "in_progress", "pending", "todo", "todos", "blocker",
    "blockers", "git_branch", "branch", "notes", "context", "last_session", "lastSession", "last_updated",
    "lastUpdated", "decisions", "files_changed", "key_files", "phase", "milestone", "progress_notes", "handoff",
))  # fmt: skip
_ENOUGH: Final = 3
# Where the text of notes is kept. A key that begins like this is about the file, and means nothing itself.
NOTES: Final = "_text"


# Texts by which a broken file shows that it was meant to be a session's.
_SIGNS: Final = (
    b'"schema_version"', b'"session_id"', b'"sessionId"', b'"actualWorkingMs"', b"active_features:",
    b"current_state:", b'"duration_ms"',
)  # fmt: skip


def placed(path: str) -> tuple[str, str] | None:
    """The format that has a file at this place, and the kind of file it is: by the names alone."""
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
    """The feature in whose directory a path is, or which it is the directory of: by the names alone."""
    parts = path.replace("\\", "/").split("/")
    return next((name for home, name in pairwise(parts[-3:]) if home == CONTRACT_HOME and is_feature_id(name)), None)


def shows_signs(raw: bytes) -> bool:
    """Was a file that cannot be read as a document meant to be a session's?"""
    bare = raw.replace(b"\0", b"") if b"\0" in raw else raw  # UTF-16 is the same signs with zeros between
    return any(sign in bare for sign in _SIGNS)


def named_like(name: str) -> bool:
    """Could a file of this name be a session's, wherever it stands?"""
    return name.endswith(".json") or name in FEATURE_FILES or name == REGISTRY_FILE


def may_be_meant(name: str) -> bool:
    """Could a file of this name be a session's, where somebody collected some?"""
    return named_like(name) or name.endswith((".yaml", ".yml"))


def likely(keys: Iterable[str]) -> list[str]:
    """The formats, the one whose keys these are first."""
    there = frozenset(keys)
    return sorted(registry.NAMES, key=lambda name: -len(there & _TELLING[name]))


def recognised(value: Json, path: str) -> tuple[Format, str] | None:
    """The format a document has, and its kind; None when it is none of the four.

    A file at a format's own place is of that format, unless it is plainly another's, or nobody's.
    """
    place = placed(path)
    if place is not None:
        owner = registry.named(place[0])
        if owner.detects(value) is not None:
            return owner, place[1]
    for name in likely(value) if isinstance(value, dict) else registry.NAMES:
        candidate = registry.named(name)
        kind = candidate.detects(value)
        if kind is not None:
            return candidate, kind
    if place is not None and foreign(value) is None:
        return registry.named(place[0]), place[1]
    return None


def foreign(value: Json) -> str | None:
    """Why a document that no format recognises is none of the four; None when it may be a damaged one of them."""
    if not isinstance(value, dict):
        what = "a list" if isinstance(value, (list, tuple)) else "a single value"
        return f"it is {what}, and every session file is an object"
    if not value:
        return "there is nothing in it"
    if NOTES in value:
        return "it is plain text or Markdown, and every session file is an object"
    there = frozenset(value)
    known = max(len(there & telling) for telling in _TELLING.values())
    own = [key for key in value if key in _HAND_MADE]
    if known >= _ENOUGH and len(own) <= known:
        return None
    shown = ", ".join(f"{shorten(key, 30)!a}" for key in (own or list(value))[:4])
    return f"it looks hand-made: keys such as {shown} belong to none of the formats {', '.join(registry.NAMES)}"
