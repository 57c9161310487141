"""The lines of Claude Code's transcripts, as far as anything is made of them. Only the fields named here are decoded,
which is what makes reading years of them quick; what tools were given and gave back stays bytes until it is known
that it matters. The format is internal to the program and changes: everything may be missing.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.conversations.adapters.fields import NOTHING, read
from holdfast.core.canonical import Json
from holdfast.core.decode import decodable

END: Final = ".jsonl"
AGENT: Final = "agent-"


class ClaudeUsage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None

    @property
    def cached(self) -> int:
        return (self.cache_creation_input_tokens or 0) + (self.cache_read_input_tokens or 0)

    @property
    def context(self) -> int:
        """What the model was shown."""
        return (self.input_tokens or 0) + self.cached


class ClaudeBlock(msgspec.Struct, gc=False):
    """A part of a message: text, a tool call, or what came of one."""

    type: str = ""
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NOTHING
    tool_use_id: str | None = None
    is_error: bool | None = None
    content: msgspec.Raw = NOTHING


class ClaudeMessage(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    usage: ClaudeUsage | None = None
    stop_reason: str | None = None
    content: str | list[ClaudeBlock | str] | None = None


class Fork(msgspec.Struct, gc=False):
    session: str | None = msgspec.field(name="sessionId", default=None)


class Compaction(msgspec.Struct, gc=False, rename="camel"):
    post_tokens: int | None = None


class ClaudeRecord(msgspec.Struct, gc=False):
    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    parent: str | None = msgspec.field(name="parentUuid", default=None)
    timestamp: str | None = None
    session: str | None = msgspec.field(name="sessionId", default=None)
    forked: Fork | None = msgspec.field(name="forkedFrom", default=None)
    sidechain: bool | None = msgspec.field(name="isSidechain", default=None)
    meta: bool | None = msgspec.field(name="isMeta", default=None)
    compact_summary: bool | None = msgspec.field(name="isCompactSummary", default=None)
    api_error: bool | None = msgspec.field(name="isApiErrorMessage", default=None)
    error: msgspec.Raw = NOTHING
    agent: str | None = msgspec.field(name="agentId", default=None)
    cwd: str | None = None
    branch: str | None = msgspec.field(name="gitBranch", default=None)
    # Of records nobody here knows, it may be anything.
    message: ClaudeMessage | str | None = None
    result: msgspec.Raw = msgspec.field(name="toolUseResult", default=NOTHING)
    compaction: Compaction | None = msgspec.field(name="compactMetadata", default=None)
    custom_title: str | None = msgspec.field(name="customTitle", default=None)
    ai_title: str | None = msgspec.field(name="aiTitle", default=None)
    summary: msgspec.Raw = NOTHING
    cost_usd: float | None = msgspec.field(name="totalCostUSD", default=None)


class Shell(msgspec.Struct, gc=False):
    """What came of a shell command, without all it printed."""

    interrupted: bool | None = None
    exit_code: int | None = msgspec.field(name="exitCode", default=None)


DECODER: Final = msgspec.json.Decoder(decodable(ClaudeRecord))
_SHELL: Final = msgspec.json.Decoder(decodable(Shell))


def shell(raw: msgspec.Raw) -> Json:
    found = read(_SHELL, raw)
    return None if found is None else {"interrupted": found.interrupted, "exitCode": found.exit_code}
