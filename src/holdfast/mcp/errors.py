"""Errors as texts an agent can act on: what happened, what to do, and which tool does it.

Nothing of an unexpected error is shown but its kind; where it happened goes to Holdfast's own error log.
"""

from __future__ import annotations

import os
import re
import traceback
from typing import Final

from pydantic import ValidationError

from holdfast.core.errors import Failed, HoldfastError, Invalid
from holdfast.core.event_line import error_document
from holdfast.core.text import shorten
from holdfast.machine import error_log, files
from holdfast.machine.wall import Wall
from holdfast.mcp.answers import failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_types import CallToolResult

_TOOL: Final = {
    "start": "start_session", "resume": "resume_session", "continue": "resume_session", "stop": "finish_session",
    "abort": "finish_session", "pause": "pause_session", "status": "get_status", "briefing": "get_status",
    "show": "get_status", "list": "get_status", "history": "search_history", "sync": "sync",
    "edit": "record", "note": "record", "agent": "record", "task": "record", "decide": "record", "file": "record",
    "context": "record",
}  # fmt: skip
_COMMAND: Final = re.compile(r"\bholdfast (?:(?:agent|task) (?=list)|plan (?=show))?([a-z]+)")
# What a person does with a command of its own is an entry of `record`.
_ENTRY: Final = re.compile(r"\bholdfast (agent|task) (?!list)([a-z]+) ([\w.-]+)")
_EVENT: Final = {
    "start": "started", "progress": "progressed", "done": "completed", "fail": "failed", "retry": "retried",
    "pause": "paused", "resume": "resumed", "abort": "aborted", "add": "added", "block": "blocked",
    "reopen": "reopened", "drop": "dropped",
}  # fmt: skip
_LONGEST: Final = 2_000
_MOST_PROBLEMS: Final = 5


def failed(error: BaseException, home: str, tool: str) -> CallToolResult:
    """The result of a tool that failed: a text to act on, and the error as programs read it."""
    known = understood(error, home, f"mcp {tool}")
    return failure(_text(known), error_document(known, tool, Wall().now()))


def error_text(error: BaseException, home: str, where: str) -> str:
    """The text of an error."""
    return _text(understood(error, home, where))


def understood(error: BaseException, home: str, where: str) -> HoldfastError:
    """The error as one of ours; what nobody expected is noted in the error log of `home`."""
    if isinstance(error, ValidationError):
        return Invalid(_problems(error))
    return error if isinstance(error, HoldfastError) else _unexpected(error, home, where)


def _text(error: HoldfastError) -> str:
    parts = [error.message[:1].upper() + error.message[1:]]
    if error.file and error.file not in error.message:
        parts.append(f"File: {error.file}")
    if error.hint:
        hint = _ENTRY.sub(_entry, error.hint)
        parts.append(hint)
        tools = dict.fromkeys(_TOOL[word] for word in _COMMAND.findall(hint) if word in _TOOL)
        if tools:
            parts.append(f"As a tool here: {', '.join(tools)}")
    if error.retry_helps:
        parts.append("Trying again may help")
    return " ".join(_sentence(part) for part in parts)[:_LONGEST]


def _entry(found: re.Match[str]) -> str:
    kind, verb, name = found.groups()
    if verb not in _EVENT:
        return found[0]
    return f'record with {kind}s: [{{"id": "{name}", "event": "{_EVENT[verb]}"}}]'


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else text + "."


def _problems(error: ValidationError) -> str:
    """Which arguments are wrong, and how; the values themselves are not repeated."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    said = [
        f"{_place(typed_dict_type['loc'])}: {_lower(typed_dict_type['msg'])}"
        for typed_dict_type in found[:_MOST_PROBLEMS]
    ]
    more = f", and {len(found) - _MOST_PROBLEMS} more" if len(found) > _MOST_PROBLEMS else ""
    return f"The arguments are not right, and nothing was done. {'; '.join(said)}{more}."[:_LONGEST]


def _place(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{shorten(part, 60)}"
    return path.lstrip(".")


def _lower(text: str) -> str:
    text = text.removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def _unexpected(error: BaseException, home: str, where: str) -> HoldfastError:
    if isinstance(error, MemoryError):
        return Failed("out of memory; nothing was changed")
    if isinstance(error, RecursionError):
        return Failed("the input is nested too deeply")
    if isinstance(error, OSError):
        told = files.explain(error, "go on", str(error.filename or ""))
        told.message = told.message.replace("go on :", "go on:", 1)  # it does not say what it was about
        return told
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    places = ", ".join(f"{os.path.basename(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames)
    error_log.note(home, where, f"{type(error).__name__} in {places}")
    return Failed(
        f"something unexpected happened ({type(error).__name__})",
        hint="Nothing more can be done about it here; holdfast doctor shows the details.",
    )
