"""The typed answers of the tools. A session is the public contract's document.

Every tool publishes the schema of its answer, and tests check real answers against it. The text that goes with the
structured answer says the same, for clients that show only text.
"""

from __future__ import annotations

import json
from typing import Any, Literal, cast

import msgspec
from mcp_types import CallToolResult, TextContent

from holdfast.core.model import Context, Part, Row, Session
from holdfast.core.wording import visible

VERSION: Literal[1] = 1
ERROR = "holdfast/error"
# For fields of any type: some clients reject an empty schema.
_KINDS = ("string", "number", "boolean", "object", "array", "null")


class LeftOut(Part, kw_only=True):
    """A list or a text that was cut so that the answer stays short: how much of how much is shown."""

    what: str
    shown: int
    total: int


class Standing(Part, kw_only=True):
    """Where a session stands. `session` is null where there is none."""

    holdfast: Literal[1] = msgspec.field(default_factory=lambda: VERSION)
    session: Session | None
    briefing: str | None
    # What waits for the person, the most urgent first.
    attention: list[str]
    notes: list[str]
    left_out: list[LeftOut]


class Receipt(Part, kw_only=True):
    """What a verb has made of the session, in short; get_status gives the whole document."""

    holdfast: Literal[1] = msgspec.field(default_factory=lambda: VERSION)
    id: str
    goal: str
    status: str
    progress: float
    project: str
    branch: str | None
    working_ms: int
    paused_ms: int
    notes: list[str]


class Recorded(Part, kw_only=True):
    """What one call of `record` did: `tasks` are the ids of tasks it added."""

    holdfast: Literal[1] = msgspec.field(default_factory=lambda: VERSION)
    id: str
    status: str
    progress: float
    recorded: int
    tasks: list[str]
    context: Context
    notes: list[str]
    left_out: list[LeftOut]


class Found(Part, kw_only=True):
    """Sessions newest first; `cursor` gives the next page, null where there is none."""

    holdfast: Literal[1] = msgspec.field(default_factory=lambda: VERSION)
    sessions: list[Row]
    cursor: str | None


class Rejected(Part, kw_only=True):
    pack: str | None
    device: str | None
    reason: str


class Reached(Part, kw_only=True):
    name: str
    error: str | None


class News(Part, kw_only=True):
    id: str
    goal: str
    conflicts: int


class Gone(Part, kw_only=True):
    session: str
    device: str | None


class Exchanged(Part, kw_only=True):
    """What a sync sent and received, in the words of `holdfast sync --json`."""

    holdfast: Literal[1] = msgspec.field(default_factory=lambda: VERSION)
    pushed: int
    pulled: int
    conflicts: int
    rejected: list[Rejected]
    notes: list[str]
    remotes: list[Reached]
    sessions: list[News]
    deleted: list[Gone]


class Share(Part, kw_only=True):
    session: str
    with_: str = msgspec.field(name="with")
    remote: str
    url: str
    write: bool
    expires: str | None


class Shared(Part, kw_only=True):
    holdfast: Literal[1] = msgspec.field(default_factory=lambda: VERSION)
    share: Share


Answer = Standing | Receipt | Recorded | Found | Exchanged | Shared


def schema(kind: type[Answer]) -> dict[str, Any]:
    """The JSON Schema of an answer, with an object at the root, as the protocol wants."""
    (root,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    described = dict(parts.pop(cast("str", root["$ref"]).rpartition("/")[2]))
    # Absent facts are null, never missing, so fields with defaults are required too.
    for part in (described, *parts.values()):
        part.pop("title", None)
        part["required"] = list(part.get("properties", {}))
        for item in part.get("properties", {}).values():
            item.pop("default", None)
            if not item:
                item["anyOf"] = [{"type": kind} for kind in _KINDS]
    return {**described, "$defs": parts}


def result(answer: Answer, text: str) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=cast("dict[str, Any]", msgspec.to_builtins(answer)),
    )


def failure(text: str, error: dict[str, object]) -> CallToolResult:
    """An error as a result for the agent to act on; programs find it in `_meta`.

    Not as structured content: clients check that against the schema of the tool's answer.
    """
    return CallToolResult(
        content=[TextContent(type="text", text=_sendable(visible(text, lines=True)))],
        is_error=True,
        _meta={ERROR: json.loads(_sendable(json.dumps(error, ensure_ascii=False)))},
    )


def _sendable(text: str) -> str:
    return text.encode(errors="replace").decode()
