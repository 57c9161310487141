"""The files of Cline's conversations, as far as anything is made of them: a manifest, and the messages of the
conversation and of each subagent. Each is one JSON document that is written anew with every message.
"""

from __future__ import annotations

import json
import os
from typing import Final, TypeVar

import msgspec

from holdfast.capture.lines import Problems, whole
from holdfast.capture.values import NOTHING, WRONG, read
from holdfast.core.decoding import decodable

T = TypeVar("T")

LARGEST: Final = 128 << 20  # bytes
_READ: Final = json.JSONDecoder(strict=False)


class Usage(msgspec.Struct, gc=False, rename="camel"):
    input_tokens: float | None = None
    output_tokens: float | None = None
    cache_read_tokens: float | None = None
    cache_write_tokens: float | None = None
    total_cost: float | None = None

    @property
    def cached(self) -> int:
        return int((self.cache_read_tokens or 0) + (self.cache_write_tokens or 0))

    @property
    def context(self) -> int:
        return int((self.input_tokens or 0) + (self.output_tokens or 0))


class Facts(msgspec.Struct, gc=False, rename="camel"):
    title: str | None = None
    total_cost: float | None = None
    aggregate_usage: Usage | None = None


class Manifest(msgspec.Struct, gc=False):
    started_at: str | None = None
    ended_at: str | None = None
    provider: str | None = None
    model: str | None = None
    cwd: str | None = None
    workspace_root: str | None = None
    prompt: str | None = None
    metadata: msgspec.Raw = NOTHING


class Block(msgspec.Struct, gc=False):
    """A part of a message: text, a tool call, or what came of one."""

    type: str = ""
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NOTHING
    tool_use_id: str | None = None
    is_error: bool | None = None
    content: msgspec.Raw = NOTHING


class Model(msgspec.Struct, gc=False):
    id: str | None = None
    provider: str | None = None


class Message(msgspec.Struct, gc=False):
    id: str | None = None
    role: str = ""
    content: str | list[Block] | None = None
    ts: float | None = None
    model: Model | None = msgspec.field(name="modelInfo", default=None)
    metrics: Usage | None = None


class Messages(msgspec.Struct, gc=False):
    messages: list[msgspec.Raw] = []


MANIFEST: Final = msgspec.json.Decoder(decodable(Manifest))
MESSAGES: Final = msgspec.json.Decoder(decodable(Messages))
_MESSAGE: Final = msgspec.json.Decoder(decodable(Message))
FACTS: Final = msgspec.json.Decoder(decodable(Facts))


def document(path: str, decoder: msgspec.json.Decoder[T], problems: Problems) -> T | None:
    """What a file holds; whatever stands behind its document is passed over."""
    name = os.path.basename(path)
    trouble = Problems()
    content = whole(path, trouble, LARGEST)
    if trouble:
        problems.extend(trouble, f"{name} ")
        return None
    document = read(decoder, content)
    if document is not None:
        return document
    try:
        found, _ = _READ.raw_decode(content.replace(b"\0", b"").decode("utf-8", "replace").lstrip("\ufeff \t\r\n"))
        return decoder.decode(msgspec.json.encode(found))
    except WRONG:
        problems.add(f"{name} cannot be understood")
        return None


def message(raw: msgspec.Raw) -> Message | None:
    return read(_MESSAGE, raw)


def facts(manifest: Manifest) -> Facts:
    return read(FACTS, manifest.metadata) or Facts()
