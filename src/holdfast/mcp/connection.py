"""One connection: input lines become messages, and outgoing messages become lines.

A line that is not a message gets an error in reply, never silence. When the input ends, calls under way are finished
and answered before the connection closes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)

Id = int | str
Received = MemoryObjectReceiveStream[SessionMessage | Exception]
Sent = MemoryObjectSendStream[SessionMessage]

_ANSWER_TIMEOUT: Final = 20.0  # seconds for calls under way once the input has ended
_MAX_ID: Final = 1 << 63
# A message's own id, if it comes early; one further in could belong to anything.
_EARLY_ID: Final = re.compile(
    r'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]{0,200}"\s*,\s*)*"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")\s*[,}]'
)
_NOT_JSON: Final = "This line is not JSON"


class OverlongLine(str):
    """The beginning of a line too long to be a message."""

    __slots__ = ()


class BadMessage(NamedTuple):
    """A line that is not a message: what is wrong with it, and its request id if that can be seen."""

    code: int
    reason: str
    id: Id | None
    is_response: bool  # to one of our requests


def read(line: str) -> JSONRPCMessage | BadMessage:
    """Parse a line."""
    if isinstance(line, OverlongLine):
        return BadMessage(PARSE_ERROR, "This line is too long to be a message", _early_id(line), is_response=False)
    try:
        message: JSONRPCMessage = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except (ValueError, RecursionError):
        return _explain_unreadable(line)
    return message


def _explain_unreadable(line: str) -> BadMessage:
    try:
        value = json.loads(line)
        encodable = _is_encodable(value)
    except (ValueError, RecursionError):
        return BadMessage(PARSE_ERROR, _NOT_JSON, _early_id(line), is_response=False)
    if isinstance(value, list):
        return BadMessage(INVALID_REQUEST, "Batches are not supported", None, is_response=False)
    if not isinstance(value, dict):
        return BadMessage(INVALID_REQUEST, "This line is not a message", None, is_response=False)
    request_id, is_response = (
        _usable_id(value.get("id")),
        "method" not in value and ("result" in value or "error" in value),
    )
    if not encodable:
        return BadMessage(PARSE_ERROR, "This line holds half a character (a lone surrogate)", request_id, is_response)
    return BadMessage(INVALID_REQUEST, "This line is not a message of the protocol", request_id, is_response)


def _is_encodable(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _early_id(line: str) -> Id | None:
    match = _EARLY_ID.match(line)
    return None if match is None else _usable_id(json.loads(match[1]))


def _usable_id(value: object) -> Id | None:
    if isinstance(value, str):
        return value if len(value) <= 1000 and _is_encodable(value) else None
    return value if type(value) is int and abs(value) < _MAX_ID else None


class _Connection:
    def __init__(self, writes: Any, note: Callable[[str], None]) -> None:
        self._writes = writes
        self._note = note
        self._writing = anyio.Lock()
        self._calls: Counter[Id] = Counter()  # requests of the client, not answered yet
        self._own_requests: set[Id] = set()  # our requests, not answered yet
        self._ended = False
        self._all_answered = anyio.Event()

    async def receive_lines(
        self, lines: AsyncIterator[str], into: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async with into:
                async for line in lines:
                    message = read(line) if line.strip() else None
                    if isinstance(message, BadMessage):
                        await self._answer(message, into)
                    elif message is not None:
                        self._count_received(message)
                        await into.send(SessionMessage(message))
                await self._finish(into)

    async def _answer(self, bad: BadMessage, into: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        self._note(f"rejected a line: {bad.reason}")
        if bad.is_response:
            if bad.id is not None and coerce_request_id(bad.id) in self._own_requests:
                await into.send(SessionMessage(_error(bad.id, bad.code, bad.reason)))
            return
        await self._write(_error(bad.id, bad.code, bad.reason))

    async def _finish(self, into: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """The input has ended: our requests fail, and calls under way are still answered."""
        self._ended = True
        for request_id in tuple(self._own_requests):
            await into.send(
                SessionMessage(_error(request_id, CONNECTION_CLOSED, "The client has closed the connection"))
            )
        if self._calls:
            with anyio.move_on_after(_ANSWER_TIMEOUT):
                await self._all_answered.wait()

    async def send_messages(
        self,
        outgoing: MemoryObjectReceiveStream[SessionMessage],
        into: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        async with outgoing:
            async for message in outgoing:
                await self._write(message.message)
                self._count_sent(message.message)
                if self._ended and isinstance(message.message, JSONRPCRequest):
                    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                        closed = _error(message.message.id, CONNECTION_CLOSED, "The client has closed the connection")
                        await into.send(SessionMessage(closed))

    async def _write(self, message: JSONRPCMessage) -> None:
        async with self._writing:
            await self._writes.write(message.model_dump_json(by_alias=True, exclude_unset=True) + "\n")
            await self._writes.flush()

    def _count_received(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest):
            self._calls[coerce_request_id(message.id)] += 1
        elif isinstance(message, JSONRPCNotification):
            request_id = (message.params or {}).get("requestId")
            if message.method == "notifications/cancelled" and isinstance(request_id, (int, str)):
                self._calls.pop(coerce_request_id(request_id), None)  # it gets no answer
        elif message.id is not None:
            self._own_requests.discard(coerce_request_id(message.id))

    def _count_sent(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest):
            self._own_requests.add(coerce_request_id(message.id))
        elif not isinstance(message, JSONRPCNotification) and message.id is not None:
            request_id = coerce_request_id(message.id)
            if self._calls[request_id] <= 1:
                del self._calls[request_id]
            else:
                self._calls[request_id] -= 1
        if self._ended and not self._calls:
            self._all_answered.set()


def _error(request_id: Id | None, code: int, reason: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=reason))


@asynccontextmanager
async def connect(reads: Any, writes: Any, note: Callable[[str], None]) -> AsyncIterator[tuple[Received, Sent]]:
    """Incoming and outgoing messages. `note` gets a sentence for each rejected line."""
    into, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    connection = _Connection(writes, note)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.receive_lines, reads.__aiter__(), into)
        tasks.start_soon(connection.send_messages, outgoing, into)
        yield received, sent
