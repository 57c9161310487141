"""The words this format has for statuses, beside the canonical ones, and those that are met instead of them."""

from __future__ import annotations

from typing import Final

SHOWN_SESSION: Final = {
    "created": "created", "in_progress": "in_progress", "paused": "paused", "completed": "complete",
    # The text has no word for it: a session that cannot go on waits, and its errors say why.
    "error": "paused",
    "aborted": "aborted",
}  # fmt: skip
SHOWN_AGENT: Final = {
    "pending": "pending", "running": "in_progress", "paused": "paused", "completed": "complete", "error": "failed",
    "timeout": "failed", "aborted": "aborted", "interrupted": "interrupted",
}  # fmt: skip

MEANT_SESSION: Final = {
    "created": "created", "in_progress": "in_progress", "paused": "paused", "complete": "completed",
    "aborted": "aborted",
}  # fmt: skip
MEANT_AGENT: Final = {
    "pending": "pending", "in_progress": "running", "paused": "paused", "complete": "completed", "failed": "error",
    "aborted": "aborted", "interrupted": "interrupted",
}  # fmt: skip

# Of an agent: nothing more comes from it by itself.
ENDED: Final = frozenset({"complete", "failed", "aborted", "interrupted"})

# What other programs and people write, in small letters with `_` between words.
_SPOKEN: Final = {
    "completed": "complete", "done": "complete", "finished": "complete", "success": "complete",
    "succeeded": "complete", "active": "in_progress", "running": "in_progress", "started": "in_progress",
    "working": "in_progress", "inprogress": "in_progress", "resumed": "in_progress", "on_hold": "paused",
    "suspended": "paused", "stopped": "paused", "cancelled": "aborted", "canceled": "aborted", "abort": "aborted",
}  # fmt: skip
SPOKEN_SESSION: Final = {
    **_SPOKEN, "new": "created", "pending": "created", "error": "paused", "failed": "paused", "interrupted": "paused",
}  # fmt: skip
SPOKEN_AGENT: Final = {
    **_SPOKEN, "created": "pending", "queued": "pending", "waiting": "pending", "error": "failed",
    "timeout": "failed", "timed_out": "failed",
}  # fmt: skip


def plain(word: str) -> str:
    return "_".join(word.strip().lower().replace("-", " ").replace("_", " ").split())
