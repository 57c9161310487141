"""The lines of Copilot's `events.jsonl`, as far as anything is made of them. Only the fields named here are decoded;
what tools were given and gave back stays bytes until it is known that it matters.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.capture.values import NOTHING, read, value
from holdfast.core.decoding import decodable


class Where(msgspec.Struct, gc=False):
    cwd: str | None = None
    branch: str | None = None


class Usage(msgspec.Struct, gc=False, rename="camel"):
    input_tokens: float | None = None
    output_tokens: float | None = None
    cache_read_tokens: float | None = None
    cache_write_tokens: float | None = None
    api_call_id: str | None = None

    @property
    def cached(self) -> int:
        return int((self.cache_read_tokens or 0) + (self.cache_write_tokens or 0))

    @property
    def fresh(self) -> int:
        """What was sent and was in no cache: all that was sent is counted as one."""
        return max(int(self.input_tokens or 0) - self.cached, 0)


class Data(msgspec.Struct, gc=False, rename="camel"):
    # A conversation.
    selected_model: str | None = None
    context: Where | None = None
    cwd: str | None = None
    branch: str | None = None
    new_model: str | None = None
    title: str | None = None
    detached_from_spawning_parent_session_id: str | None = None
    # Messages.
    message_id: str | None = None
    content: msgspec.Raw = NOTHING
    source: msgspec.Raw = NOTHING
    model: str | None = None
    output_tokens: float | None = None
    usage: Usage | None = None
    # Tools and subagents.
    tool_call_id: str | None = None
    tool_name: str | None = None
    arguments: msgspec.Raw = NOTHING
    success: bool | None = None
    result: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING
    file_edits: msgspec.Raw = NOTHING
    agent_name: str | None = None
    agent_type: str | None = None
    total_tokens: float | None = None
    # Trouble and compression.
    error_type: str | None = None
    message: msgspec.Raw = NOTHING
    post_compaction_tokens: float | None = None


class Record(msgspec.Struct, gc=False):
    type: str = ""
    id: str | None = None
    timestamp: str | None = None
    agent: str | None = msgspec.field(name="agentId", default=None)
    # Types nobody here knows may use the same words for other things.
    data: msgspec.Raw = NOTHING


DECODER: Final = msgspec.json.Decoder(decodable(Record))
_DATA: Final = msgspec.json.Decoder(decodable(Data))


def data_of(record: Record) -> Data | None:
    return read(_DATA, record.data)


def words(raw: msgspec.Raw) -> str | None:
    """A text, or the one in an object that says what came of something or what went wrong."""
    found = value(raw)
    if type(found) is dict:
        found = next((found[name] for name in ("content", "message") if name in found), None)
    return found if type(found) is str and found.strip() else None
