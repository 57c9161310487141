"""To-do lists as agents write them, in objects or as boxes to tick, and all the words they have for how an entry
stands. What a tool call about them means is for `capture.tools`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from holdfast.conversations.adapters.base import Payload
from holdfast.conversations.adapters.fields import parts, word
from holdfast.conversations.signals import Todo, TodoStatus
from holdfast.core.canonical import Json

MOST_TODOS: Final = 500
_STATUS: Final[dict[str, TodoStatus]] = {
    "pending": "pending", "todo": "pending", "open": "pending", "not_started": "pending", "blocked": "pending",
    "in_progress": "in_progress", "inprogress": "in_progress", "active": "in_progress", "doing": "in_progress",
    "completed": "completed", "complete": "completed", "done": "completed",
    "deleted": "dropped", "cancelled": "dropped", "canceled": "dropped", "dropped": "dropped", "skipped": "dropped",
}  # fmt: skip
_CHECKED: Final = re.compile(r"^[ \t]{0,20}(?:[-*+]|\d{1,4}[.)]) {1,4}\[([ xX~/-])\] {1,4}(\S.*)$", re.MULTILINE)
_MARKS: Final[dict[str, TodoStatus]] = {" ": "pending", "x": "completed", "-": "dropped"}


def todos_of(source: Payload, name: str) -> Iterator[Todo]:
    """The entries of a list of objects."""
    for entry in islice(parts(source, name), MOST_TODOS):
        said = word(entry, "content", "text", "description", "title", "step", "subject", "task")
        if said is not None:
            yield Todo(said, status_of(entry.get("status")) or "pending", word(entry, "id"))


def checklist(value: str) -> tuple[Todo, ...]:
    """`- [x] Done` and the like."""
    found = islice(_CHECKED.finditer(value), MOST_TODOS)
    return tuple(Todo(match[2].strip(), _MARKS.get(match[1].lower(), "in_progress")) for match in found)


def status_of(value: Json) -> TodoStatus | None:
    return _STATUS.get(value.strip().lower().replace("-", "_").replace(" ", "_")) if type(value) is str else None
