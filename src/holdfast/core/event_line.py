"""An event in one line, and an error as programs read it: the same words on every surface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.canonical import is_too_deep, with_json_numbers
from holdfast.core.errors import HoldfastError, Invalid
from holdfast.core.times import format_time

if TYPE_CHECKING:
    from holdfast.core.envelope import Event

# What of an event is worth its line, in this order. The rest is in its data.
_TELLING: Final = (
    "id", "goal", "text", "chosen", "path", "command", "sha", "message", "line", "scope", "position", "progress",
    "action", "by", "tokens", "task", "type", "role", "for", "reason", "summary", "outcome", "category", "why",
    "field", "agent", "device", "resume", "name",
)  # fmt: skip


def describe_event(event: Event) -> str:
    """What an event says, in a line."""
    if event.data is None:
        return "(erased)"
    if is_too_deep(event.data):
        return "(unreadable)"
    try:
        data = with_json_numbers(msgspec.json.decode(event.data))
    except (msgspec.MsgspecError, UnicodeDecodeError, Invalid):
        return "(unreadable)"  # its hash says whether that is damage: doctor looks
    if not isinstance(data, dict):
        return ""
    names = ("branch", "commit") if event.type == "ground.noted" else _TELLING
    parts = [_spelled(name, data[name]) for name in names if data.get(name) is not None]
    return "  ".join(part for part in parts if part)


def _spelled(name: str, value: object) -> str:
    if name == "progress" and isinstance(value, (int, float)):
        return f"{value:.0%}"
    if name in ("tokens", "position"):
        return f"{name} {value:,}" if isinstance(value, int) else ""
    if name in ("commit", "sha") and isinstance(value, str):
        return value[:12]
    return " ".join(value.split()) if isinstance(value, str) else ""


def error_document(error: HoldfastError, operation: str | None, now: int) -> dict[str, object]:
    """An error as programs read it. `operation` is what was asked for, where the error does not know."""
    return {
        "kind": error.kind, "message": error.message, "hint": error.hint,
        "operation": error.operation or operation, "file": error.file, "session": error.session,
        "feature_id": error.feature_id, "details": error.details or error.message,
        "timestamp": format_time(error.timestamp or now),
    }  # fmt: skip
