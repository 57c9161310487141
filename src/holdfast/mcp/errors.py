"""Errors as text an agent can act on: what happened, what to do, and which tool does it.

Of an unexpected error only its kind is shown; the place goes to Holdfast's error log.
"""

from __future__ import annotations

import os
import re
import traceback
from typing import Final

from pydantic import ValidationError

from holdfast.core.errors import Failed, HoldfastError, Invalid
from holdfast.core.text import shorten
from holdfast.core.wording import error_document
from holdfast.machine import error_log, files
from holdfast.machine.wall import Wall
from holdfast.mcp.answers import failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_types import CallToolResult

_TOOL_BY_COMMAND: Final = {
    "start": "start_session", "resume": "resume_session", "continue": "resume_session", "stop": "finish_session",
    "abort": "finish_session", "pause": "pause_session", "status": "get_status", "briefing": "get_status",
    "show": "get_status", "list": "get_status", "history": "search_history", "sync": "sync",
    "edit": "record", "note": "record", "agent": "record", "task": "record", "decide": "record", "file": "record",
    "context": "record",
}  # fmt: skip
_COMMAND: Final = re.compile(r"\bholdfast (?:(?:agent|task) (?=list)|plan (?=show))?([a-z]+)")
# What is a command for a person is an entry of `record` for an agent.
_ENTRY: Final = re.compile(r"\bholdfast (agent|task) (?!list)([a-z]+) ([\w.-]+)")
_EVENT_BY_VERB: Final = {
    "start": "started", "progress": "progressed", "done": "completed", "fail": "failed", "retry": "retried",
    "pause": "paused", "resume": "resumed", "abort": "aborted", "add": "added", "block": "blocked",
    "reopen": "reopened", "drop": "dropped",
}  # fmt: skip
_MAX_LENGTH: Final = 2_000
_MAX_PROBLEMS: Final = 5


def error_result(error: BaseException, home: str, tool: str) -> CallToolResult:
    """The result of a failed tool: text to act on, and the error document for programs."""
    explained = as_holdfast_error(error, home, f"mcp {tool}")
    return failure(_text(explained), error_document(explained, tool, Wall().now()))


def error_text(error: BaseException, home: str, where: str) -> str:
    """The text of an error."""
    return _text(as_holdfast_error(error, home, where))


def as_holdfast_error(error: BaseException, home: str, where: str) -> HoldfastError:
    """The error as one of ours; an unexpected one is noted in the error log of `home`."""
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
        tools = dict.fromkeys(_TOOL_BY_COMMAND[word] for word in _COMMAND.findall(hint) if word in _TOOL_BY_COMMAND)
        if tools:
            parts.append(f"As a tool here: {', '.join(tools)}")
    if error.retry_helps:
        parts.append("Trying again may help")
    return " ".join(_sentence(part) for part in parts)[:_MAX_LENGTH]


def _entry(match: re.Match[str]) -> str:
    kind, verb, name = match.groups()
    if verb not in _EVENT_BY_VERB:
        return match[0]
    return f'record with {kind}s: [{{"id": "{name}", "event": "{_EVENT_BY_VERB[verb]}"}}]'


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else text + "."


def _problems(error: ValidationError) -> str:
    """Which arguments are wrong, and why; values are not repeated."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    sentences = [f"{_place(problem['loc'])}: {_lower(problem['msg'])}" for problem in problems[:_MAX_PROBLEMS]]
    remainder = f", and {len(problems) - _MAX_PROBLEMS} more" if len(problems) > _MAX_PROBLEMS else ""
    return f"Invalid arguments; nothing was done. {'; '.join(sentences)}{remainder}."[:_MAX_LENGTH]


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
        explained = files.explain(error, "continue", str(error.filename or ""))
        explained.message = explained.message.replace("continue :", "continue:", 1)  # an error without a file name
        return explained
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    places = ", ".join(f"{os.path.basename(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames)
    error_log.note(home, where, f"{type(error).__name__} in {places}")
    return Failed(
        f"something unexpected happened ({type(error).__name__})",
        hint="holdfast doctor shows the details.",
    )
