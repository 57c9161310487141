"""The names of this format: what is an id, and how entries of lists are recognised. Rendering needs no more rules."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from holdfast.formats.base import Place

SESSION_ID: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9a-f]{6}\Z")
AGENT_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\Z")

# What the key of a list is followed by where its entries are kept as they were written.
AS_FOUND: Final = "_as_found"
# Where the words of a piece of work are, best first.
TEXTS: Final = ("task", "text", "description", "title", "content", "name")

IDENTITIES: Final[dict[Place, tuple[str, ...]]] = {
    ("agents",): ("id",),
    ("completed_work",): ("task",),
    ("decisions_made",): ("timestamp", "decision"),
    ("errors",): ("timestamp", "agent", "message"),
    (f"pending_tasks{AS_FOUND}",): TEXTS,
    (f"completed_work{AS_FOUND}",): (),
    (f"decisions_made{AS_FOUND}",): (),
}


def is_session_id(name: str) -> bool:
    return SESSION_ID.match(name) is not None and is_day(name[:10])


def is_day(written: str) -> bool:
    try:
        date.fromisoformat(written)
    except ValueError:
        return False
    return True
