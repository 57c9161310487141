"""The ids of a session in the four formats, and defaults for what a format requires and a session may lack.

All are derived, so that a session has the same ids in every export, on every device.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from holdfast.core import view
from holdfast.core.canonical import digest
from holdfast.core.state import State
from holdfast.core.text import slug
from holdfast.core.times import format_time
from holdfast.store import origin

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

_UUID4: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")


def is_uuid(name: str) -> bool:
    """Whether it is a version 4 UUID in lower case."""
    return _UUID4.match(name) is not None


def imported_id(format_name: str, alias: str, began: int) -> str:
    """The session id for a document that has none: the same wherever the same document is imported."""
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
    named = view.text_value(state, "scope") or (state.project.name if state.project else "")
    return named if named.strip() else "project"


def task(state: State) -> str:
    """The session's task, or the goal in at most four words."""
    return view.text_value(state, "task") or " ".join((view.text_value(state, "goal") or "").split()[:4]) or "work"


def orchestrator_id(state: State, number: int = 1) -> str:
    """`YYYY-MM-DD-xxxxxx`: the day it began, and the first digits of its own id."""
    known = state.aliases.get("orchestrator")
    return known or f"{format_time(began(state))[:10]}-{_hex(state, number)}"


def timer_id(state: State, number: int = 1) -> str:
    """`YYYYMMDD-scope-task`."""
    goal = view.text_value(state, "task") or view.text_value(state, "goal") or ""
    return state.aliases.get("timer") or timer_name(began(state), scope(state), goal, number)


def timer_name(moment: int, of_scope: str, of_task: str, number: int = 1) -> str:
    """The timer format's id for a session that starts at this moment."""
    day = format_time(moment)[:10].replace("-", "")
    return f"{day}-{slug(of_scope)}-{slug(of_task)}{_again(number)}"


def feature_id(state: State, number: int = 1) -> str:
    """`slug-YYYY-MM-DD`."""
    known = state.aliases.get("contract")
    if known is not None:
        return known
    named = view.text_value(state, "feature")
    words = slug(named, 99) if named else slug(view.text_value(state, "goal") or "", 8)
    return feature_name(words + _again(number), began(state))


def feature_name(words: str, moment: int) -> str:
    """The contract's id for a feature that starts at this moment."""
    return f"{words}-{format_time(moment)[:10]}"


def _again(number: int) -> str:
    return "" if number < 2 else f"-{number}"


def craft_id(state: State) -> str:
    """The session's own id, or the one it came with."""
    return state.aliases.get("craft") or state.session


def branch(state: State) -> str:
    """The session's branch as the timer format names it, even when none was created."""
    return f"session/{timer_id(state)}"


def _hex(state: State, number: int) -> str:
    """Six hex digits: the first of the session's id, or derived ones where those are taken."""
    plain = state.session.replace("-", "")[:6]
    if number < 2 and re.fullmatch(r"[0-9a-f]{6}", plain):
        return plain
    return digest(f"{state.session} {number}".encode())[:6]


def session_id(ws: Workspace, source: str, alias: str, began: int) -> str:
    """The session id for an imported document: the same wherever the same document is imported.

    Where a shared session already has that id, ours is derived with our vault's id as well, so that they differ;
    likewise where another member has that id on a server.
    """
    chosen = imported_id(source, alias, began)
    if origin.share_of(ws.store(), chosen) is not None:
        chosen = imported_id(f"{source} of {ws.own_mark()}", alias, began)
    return ws.store().own_id(chosen)
