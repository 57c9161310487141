"""The lines of Claude Code's transcripts.

Only the fields named here are decoded, which makes reading years of them quick; inputs and results of tools stay
bytes until they are known to matter. The format is internal to the program and changes: everything may be missing.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.conversations.adapters.fields import NULL, decode
from holdfast.core.canonical import Json
from holdfast.core.decode import decodable

ENDING: Final = ".jsonl"
SUBAGENT_PREFIX: Final = "agent-"


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
        """The tokens that the model was shown."""
        return (self.input_tokens or 0) + self.cached


class ClaudeBlock(msgspec.Struct, gc=False):
    """A part of a message: text, a tool call, or the result of one."""

    type: str = ""
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NULL
    tool_use_id: str | None = None
    is_error: bool | None = None
    content: msgspec.Raw = NULL


class ClaudeMessage(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    usage: ClaudeUsage | None = None
    stop_reason: str | None = None
    content: str | list[ClaudeBlock | str] | None = None


class ClaudeFork(msgspec.Struct, gc=False):
    session: str | None = msgspec.field(name="sessionId", default=None)


class ClaudeCompaction(msgspec.Struct, gc=False, rename="camel"):
    post_tokens: int | None = None


class ClaudeRecord(msgspec.Struct, gc=False):
    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    parent: str | None = msgspec.field(name="parentUuid", default=None)
    timestamp: str | None = None
    session: str | None = msgspec.field(name="sessionId", default=None)
    forked: ClaudeFork | None = msgspec.field(name="forkedFrom", default=None)
    sidechain: bool | None = msgspec.field(name="isSidechain", default=None)
    meta: bool | None = msgspec.field(name="isMeta", default=None)
    compact_summary: bool | None = msgspec.field(name="isCompactSummary", default=None)
    api_error: bool | None = msgspec.field(name="isApiErrorMessage", default=None)
    error: msgspec.Raw = NULL
    agent: str | None = msgspec.field(name="agentId", default=None)
    cwd: str | None = None
    branch: str | None = msgspec.field(name="gitBranch", default=None)
    # In records nobody here knows, it may be anything.
    message: ClaudeMessage | str | None = None
    result: msgspec.Raw = msgspec.field(name="toolUseResult", default=NULL)
    compaction: ClaudeCompaction | None = msgspec.field(name="compactMetadata", default=None)
    custom_title: str | None = msgspec.field(name="customTitle", default=None)
    ai_title: str | None = msgspec.field(name="aiTitle", default=None)
    summary: msgspec.Raw = NULL
    cost_usd: float | None = msgspec.field(name="totalCostUSD", default=None)


class ClaudeShellResult(msgspec.Struct, gc=False):
    """The result of a shell command, without what it printed."""

    interrupted: bool | None = None
    exit_code: int | None = msgspec.field(name="exitCode", default=None)


DECODER: Final = msgspec.json.Decoder(decodable(ClaudeRecord))
_SHELL: Final = msgspec.json.Decoder(decodable(ClaudeShellResult))


def shell_result(raw: msgspec.Raw) -> Json:
    result = decode(_SHELL, raw)
    return None if result is None else {"interrupted": result.interrupted, "exitCode": result.exit_code}
