"""The names and fields of the orchestrator format: ids, statuses, identities of list entries, and how a field is
read.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.modes import WINDOW
from holdfast.core.state import State
from holdfast.core.times import parse_time
from holdfast.core.view import window_of
from holdfast.formats.base import KEPT_SUFFIX, Document, Place
from holdfast.formats.entries import entries_by_name

SESSION_ID: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9a-f]{6}\Z")
AGENT_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\Z")

# Keys that may hold the text of a task, best first.
TASK_TEXT_KEYS: Final = ("task", "text", "description", "title", "content", "name")

IDENTITIES: Final[dict[Place, tuple[str, ...]]] = {
    ("agents",): ("id",),
    ("completed_work",): ("task",),
    ("decisions_made",): ("timestamp", "decision"),
    ("errors",): ("timestamp", "agent", "message"),
    (f"pending_tasks{KEPT_SUFFIX}",): TASK_TEXT_KEYS,
    (f"completed_work{KEPT_SUFFIX}",): (),
    (f"decisions_made{KEPT_SUFFIX}",): (),
}


def is_session_id(name: str) -> bool:
    return SESSION_ID.match(name) is not None and is_day(name[:10])


def is_day(written: str) -> bool:
    try:
        date.fromisoformat(written)
    except ValueError:
        return False
    return True


# ── statuses ─────────────────────────────────────────────────────────────────────────────────────────────

SHOWN_SESSION: Final = {
    "created": "created", "in_progress": "in_progress", "paused": "paused", "completed": "complete",
    # The specification has no such status: shown as paused, with the reason in `errors`.
    "error": "paused",
    "aborted": "aborted",
}  # fmt: skip
SHOWN_AGENT: Final = {
    "pending": "pending", "running": "in_progress", "paused": "paused", "completed": "complete", "error": "failed",
    "timeout": "failed", "aborted": "aborted", "interrupted": "interrupted",
}  # fmt: skip

SESSION_MEANING: Final = {
    "created": "created", "in_progress": "in_progress", "paused": "paused", "complete": "completed",
    "aborted": "aborted",
}  # fmt: skip
AGENT_MEANING: Final = {
    "pending": "pending", "in_progress": "running", "paused": "paused", "complete": "completed", "failed": "error",
    "aborted": "aborted", "interrupted": "interrupted",
}  # fmt: skip

# Agent statuses that end its run.
ENDED: Final = frozenset({"complete", "failed", "aborted", "interrupted"})

# What other programs and people write, in lower case with `_` between words.
_SYNONYMS: Final = {
    "completed": "complete", "done": "complete", "finished": "complete", "success": "complete",
    "succeeded": "complete", "active": "in_progress", "running": "in_progress", "started": "in_progress",
    "working": "in_progress", "inprogress": "in_progress", "resumed": "in_progress", "on_hold": "paused",
    "suspended": "paused", "stopped": "paused", "cancelled": "aborted", "canceled": "aborted", "abort": "aborted",
}  # fmt: skip
SESSION_SYNONYMS: Final = {
    **_SYNONYMS, "new": "created", "pending": "created", "error": "paused", "failed": "paused",
    "interrupted": "paused",
}  # fmt: skip
AGENT_SYNONYMS: Final = {
    **_SYNONYMS, "created": "pending", "queued": "pending", "waiting": "pending", "error": "failed",
    "timeout": "failed", "timed_out": "failed",
}  # fmt: skip


def plain(word: str) -> str:
    return "_".join(word.strip().lower().replace("-", " ").replace("_", " ").split())


# ── reading a field ──────────────────────────────────────────────────────────────────────────────────────

# Real context windows. A rounded percentage is only matched with these.
_KNOWN_WINDOWS: Final = (200_000, 1_000_000, 2_000_000, 400_000, 256_000, 100_000, 64_000, 32_000)
_MIN_PERCENTAGE: Final = 5  # below it, every window fits


def context_window(tokens: int, percentage: Json) -> int | None:
    """The context window that the percentage implies; None for the usual one."""
    if not isinstance(percentage, (int, float)) or tokens <= 0:
        return None
    shown = round(percentage)
    if shown < _MIN_PERCENTAGE or _share(tokens, WINDOW) == shown or abs(100 * tokens / WINDOW - shown) < 1:
        return None
    return next((size for size in _KNOWN_WINDOWS if _share(tokens, size) == shown), None)


def total_tokens(state: State) -> int:
    """The total; if not recorded, the sum over agents."""
    return max(0, state.tokens if state.tokens is not None else sum(state.by_agent.values()))


def percentage(state: State) -> int:
    return min(100, _share(total_tokens(state), window_of(state)))


def _share(used: int, size: int) -> int:
    return round(100 * used / size)


def nonblank(entry: dict[str, Json], key: str) -> str | None:
    value = entry.get(key)
    return value if isinstance(value, str) and value.strip() else None


def time_of(entry: dict[str, Json], key: str) -> int | None:
    return time_ms(entry.get(key))


def integer(entry: dict[str, Json], key: str) -> int | None:
    value = entry.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def get_object(document: Document, key: str) -> dict[str, Json]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def by_name(document: Document | None, key: str) -> dict[str, Json]:
    """The entries of a list by their identity."""
    value = (document or {}).get(key)
    return dict(entries_by_name(value, (key,), IDENTITIES)) if isinstance(value, list) else {}


def objects_by_name(document: Document | None, key: str) -> dict[str, dict[str, Json]]:
    return {name: entry for name, entry in by_name(document, key).items() if isinstance(entry, dict)}


def time_ms(value: Json) -> int | None:
    """A time in milliseconds; None when it is not one."""
    try:
        return parse_time(value) if isinstance(value, str) else None
    except Invalid:
        return None
