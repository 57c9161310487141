"""The lines of Codex's rollouts, as far as anything is made of them. A line is `{timestamp, type, payload}`; the
payload stays bytes until its type is known, and of it only the fields named here are decoded. The first versions
wrote bare payloads without times of their own.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.conversations.adapters.fields import NOTHING, read
from holdfast.core.decode import decodable


class CodexLine(msgspec.Struct, gc=False):
    type: str = ""
    timestamp: str | None = None
    payload: msgspec.Raw = NOTHING
    # In lines of the first versions.
    id: str | None = None
    role: str | None = None
    content: msgspec.Raw = NOTHING
    git: msgspec.Raw = NOTHING


class CodexGit(msgspec.Struct, gc=False):
    branch: str | None = None


class Meta(msgspec.Struct, gc=False):
    """The first record: which conversation this is, and what it comes from."""

    id: str | None = None
    session_id: str | None = None  # of a subagent: the conversation it works for
    timestamp: str | None = None
    cwd: str | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    agent_role: str | None = None
    agent_nickname: str | None = None
    agent_path: str | None = None
    thread_source: str | None = None
    source: msgspec.Raw = NOTHING
    git: CodexGit | None = None


class CodexTurn(msgspec.Struct, gc=False):
    model: str | None = None
    cwd: str | None = None
    approval_policy: msgspec.Raw = NOTHING


class CodexUsage(msgspec.Struct, gc=False):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0


class Spent(msgspec.Struct, gc=False):
    """`token_usage_record`: one answer of the model, by its id."""

    response_id: str | None = None
    usage: CodexUsage | None = None


class Count(msgspec.Struct, gc=False):
    total_token_usage: CodexUsage | None = None
    last_token_usage: CodexUsage | None = None
    model_context_window: int | None = None


class Duration(msgspec.Struct, gc=False):
    secs: int = 0
    nanos: int = 0

    @property
    def ms(self) -> int:
        return self.secs * 1000 + self.nanos // 1_000_000


class CodexText(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None


class CodexItem(msgspec.Struct, gc=False):
    """Something that was done, in an event of newer versions; a whole event in older ones."""

    type: str = ""
    id: str | None = None
    call_id: str | None = None
    content: msgspec.Raw = NOTHING
    command: msgspec.Raw = NOTHING
    exit_code: int | None = None
    duration: msgspec.Raw = NOTHING
    status: str | None = None
    success: bool | None = None
    changes: msgspec.Raw = NOTHING
    kind: msgspec.Raw = NOTHING
    agent_thread_id: str | None = None
    agent_path: str | None = None


class CodexEvent(msgspec.Struct, gc=False):
    """`event_msg`."""

    type: str = ""
    item: msgspec.Raw = NOTHING
    message: str | None = None
    info: msgspec.Raw = NOTHING
    rate_limits: msgspec.Raw = NOTHING
    codex_error_info: msgspec.Raw = NOTHING
    thread_name: str | None = None
    last_agent_message: str | None = None


class Response(msgspec.Struct, gc=False):
    """`response_item`: what went to the model and came from it."""

    type: str = ""
    role: str | None = None
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    input: str | None = None
    action: msgspec.Raw = NOTHING
    output: msgspec.Raw = NOTHING
    content: msgspec.Raw = NOTHING


LINE: Final = msgspec.json.Decoder(decodable(CodexLine))
META: Final = msgspec.json.Decoder(decodable(Meta))
TURN: Final = msgspec.json.Decoder(decodable(CodexTurn))
SPENT: Final = msgspec.json.Decoder(decodable(Spent))
COUNT: Final = msgspec.json.Decoder(decodable(Count))
EVENT: Final = msgspec.json.Decoder(decodable(CodexEvent))
ITEM: Final = msgspec.json.Decoder(decodable(CodexItem))
RESPONSE: Final = msgspec.json.Decoder(decodable(Response))
DURATION: Final = msgspec.json.Decoder(decodable(Duration))
TEXTS: Final = msgspec.json.Decoder(decodable(list[CodexText]))


def texts(raw: msgspec.Raw) -> str:
    """The words of a message."""
    return "\n".join(text.text for text in read(TEXTS, raw) or () if text.text)
