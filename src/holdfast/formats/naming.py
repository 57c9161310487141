"""The ids by which the four formats know a session, and what else a format needs and a session may lack.

Derived the same way each time: the same session has the same names in every export, on every device.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.core import view
from holdfast.core.canonical import digest
from holdfast.core.state import State
from holdfast.core.text import slug
from holdfast.core.times import text

_UUID4: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")
_DATED: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*-\d{4}-\d{2}-\d{2}\Z", re.ASCII)


def is_uuid(name: str) -> bool:
    """A UUID of version 4, in small letters."""
    return _UUID4.match(name) is not None


def imported_id(format_name: str, alias: str, began: int) -> str:
    """The session's own id for a document that brings none: the same wherever the same document is read."""
    if format_name == "craft" and is_uuid(alias.lower()):
        return alias.lower()
    raw = bytearray.fromhex(digest(f"holdfast import\n{format_name}\n{alias}\n{began}".encode())[:32])
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    name = raw.hex()
    return f"{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}"


def began(state: State) -> int:
    return state.created_at if state.created_at is not None else state.updated_at


def scope(state: State) -> str:
    """The session's scope, or the project's name."""
    return view.word(state, "scope") or (state.project.name if state.project else "") or "project"


def task(state: State) -> str:
    """The session's task, or the goal in at most four words."""
    return view.word(state, "task") or " ".join((view.word(state, "goal") or "work").split()[:4])


def orchestrator_id(state: State) -> str:
    """`YYYY-MM-DD-xxxxxx`: the day it began, and the first digits of its own id."""
    return state.aliases.get("orchestrator") or f"{text(began(state))[:10]}-{_hex(state)[:6]}"


def timer_id(state: State) -> str:
    """`YYYYMMDD-scope-task`."""
    known = state.aliases.get("timer")
    if known is not None:
        return known
    day = text(began(state))[:10].replace("-", "")
    goal = view.word(state, "task") or view.word(state, "goal") or "work"
    return f"{day}-{slug(scope(state)) or 'project'}-{slug(goal) or _hex(state)[:6]}"


def feature_id(state: State) -> str:
    """`slug-YYYY-MM-DD`."""
    known = state.aliases.get("contract")
    if known is not None:
        return known
    words = view.word(state, "feature") or slug(view.word(state, "goal") or "") or _hex(state)[:6]
    made = f"{words}-{text(began(state))[:10]}"
    return made if _DATED.match(made) else f"{_hex(state)[:6]}-{text(began(state))[:10]}"


def craft_id(state: State) -> str:
    """The session's own id, or the one it came with."""
    return state.aliases.get("craft") or state.session


def branch(state: State) -> str:
    """The branch of the session, in the timer's spelling even when none was made."""
    return f"session/{timer_id(state)}"


def _hex(state: State) -> str:
    plain = state.session.replace("-", "")
    return plain if re.match(r"[0-9a-f]{6}", plain) else digest(state.session.encode())
