"""Texts that concern nobody else: what a person typed, what an agent answered, contents of files, output of tools.

A field goes by the last word of its name: `last_assistant_message` and `finalMessage` are messages, `message_id` is
an id.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from holdfast.core.canonical import Json

# In the singular, as far as leaving out an s makes it.
_WORDS: Final = frozenset({
    # of the person
    "attachment", "clipboard", "comment", "description", "email", "feedback", "goal", "image", "instruction",
    "message", "objective", "prompt", "queries", "query", "question", "request", "screenshot", "selection", "task",
    "text", "utterance", "words",
    # of the agent
    "answer", "chunk", "completion", "conversation", "delta", "dialog", "dialogue", "histories", "history",
    "reasoning", "replies", "reply", "response", "summaries", "summary", "thinking", "thought", "transcript",
    # of tools
    "arg", "argument", "command", "error", "input", "json", "log", "output", "parameter", "preview", "result",
    "stderr", "stdin", "stdout",
    # of files
    "bodies", "body", "content", "diff", "hunk", "line", "memories", "memory", "patch", "patches", "snippet",
    "string",
})  # fmt: skip
# Names whose last word says nothing by itself, or that are written as one.
_NAMES: Final = frozenset({
    "additionalcontext", "errordetails", "llmcontent", "newsource", "oldsource", "originalfile", "returndisplay",
    "systemprompt", "textresultforllm", "toolargs", "toolinput", "tooloutput", "toolresponse", "toolresult",
    "updatedfile", "userid", "userprompt",
})  # fmt: skip
_PIECES: Final = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+"  # a pattern, compiled when it is first needed
_LONGEST: Final = 200  # characters of a name that are looked at, from its end
_DEEPEST: Final = 20


def is_private(name: str) -> bool:
    """Whether a field of this name carries somebody's words."""
    pieces = [piece.lower() for piece in re.findall(_PIECES, name[-_LONGEST:])]
    if not pieces:
        return False
    last = pieces[-1]
    return last in _WORDS or last.removesuffix("s") in _WORDS or "".join(pieces) in _NAMES


def without(fields: Mapping[str, Json], depth: int = 0) -> dict[str, Json]:
    """The fields without what is private in them; what lies too deep to be looked through is left out as well."""
    return {name: _through(value, depth) for name, value in fields.items() if not _tells(name, value)}


def _through(value: Json, depth: int) -> Json:
    if type(value) is dict:
        return without(value, depth + 1) if depth < _DEEPEST else {}
    if type(value) is list:
        return [_through(item, depth + 1) for item in value] if depth < _DEEPEST else []
    return value


def _tells(name: str, value: Json) -> bool:
    """Numbers and flags are nobody's words, whatever they are called: how many tokens the input had, for one."""
    return type(value) in (str, list, dict) and is_private(name)
