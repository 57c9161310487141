"""One connection: lines that come in become messages, and messages that go out become lines.

A line that is no message is answered by an error that says so, never by silence. When the input ends, the calls in
hand are finished and answered before the conversation ends.
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

_ANSWERED_WITHIN: Final = 20.0  # seconds that calls in hand may take once the input has ended
_LARGEST_ID: Final = 1 << 63
# Where a message's own id stands early in it; one further in could be anybody's.
_OPENING: Final = re.compile(
    r'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]{0,200}"\s*,\s*)*"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")\s*[,}]'
)
_NO_JSON: Final = "This line is not JSON"


class Overlong(str):
    """The beginning of a line that is too long to be a message."""

    __slots__ = ()


class BadMessage(NamedTuple):
    """A line that is no message: what is wrong with it, and which request it is, if that can be seen."""

    code: int
    reason: str
    id: Id | None
    answers: bool  # it is the answer to something we asked


def read(line: str) -> JSONRPCMessage | BadMessage:
    """The message that a line is."""
    if isinstance(line, Overlong):
        return BadMessage(PARSE_ERROR, "This line is too long to be a message", _early(line), answers=False)
    try:
        message: JSONRPCMessage = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except (ValueError, RecursionError):
        return _unreadable(line)
    return message


def _unreadable(line: str) -> BadMessage:
    try:
        heard = json.loads(line)
        whole = _has_no_halves(heard)
    except (ValueError, RecursionError):
        return BadMessage(PARSE_ERROR, _NO_JSON, _early(line), answers=False)
    if isinstance(heard, list):
        return BadMessage(INVALID_REQUEST, "Several messages in one line are not taken", None, answers=False)
    if not isinstance(heard, dict):
        return BadMessage(INVALID_REQUEST, "This line is no message", None, answers=False)
    name, answers = _usable(heard.get("id")), "method" not in heard and ("result" in heard or "error" in heard)
    if not whole:
        return BadMessage(PARSE_ERROR, "This line holds half a character (a lone surrogate)", name, answers)
    return BadMessage(INVALID_REQUEST, "This line is no message of the protocol", name, answers)


def _has_no_halves(heard: object) -> bool:
    try:
        json.dumps(heard, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _early(line: str) -> Id | None:
    found = _OPENING.match(line)
    return None if found is None else _usable(json.loads(found[1]))


def _usable(name: object) -> Id | None:
    if isinstance(name, str):
        return name if len(name) <= 1000 and _has_no_halves(name) else None
    return name if type(name) is int and abs(name) < _LARGEST_ID else None


class _Conversation:
    def __init__(self, writes: Any, note: Callable[[str], None]) -> None:
        self._writes = writes
        self._note = note
        self._writing = anyio.Lock()
        self._calls: Counter[Id] = Counter()  # that were not answered yet
        self._asked: set[Id] = set()  # what we asked the client, and have no answer to
        self._ended = False
        self._settled = anyio.Event()

    async def listen(
        self, lines: AsyncIterator[str], into: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async with into:
                async for line in lines:
                    heard = read(line) if line.strip() else None
                    if isinstance(heard, BadMessage):
                        await self._answer(heard, into)
                    elif heard is not None:
                        self._took(heard)
                        await into.send(SessionMessage(heard))
                await self._finish(into)

    async def _answer(self, wrong: BadMessage, into: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        self._note(f"a line was not taken: {wrong.reason}")
        if wrong.answers:
            if wrong.id is not None and coerce_request_id(wrong.id) in self._asked:
                await into.send(SessionMessage(_error(wrong.id, wrong.code, wrong.reason)))
            return
        await self._put(_error(wrong.id, wrong.code, wrong.reason))

    async def _finish(self, into: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Nothing more will come: what we asked has no answer, and what was asked of us gets its own."""
        self._ended = True
        for name in tuple(self._asked):
            await into.send(SessionMessage(_error(name, CONNECTION_CLOSED, "Nobody is there to answer")))
        if self._calls:
            with anyio.move_on_after(_ANSWERED_WITHIN):
                await self._settled.wait()

    async def speak(
        self,
        said: MemoryObjectReceiveStream[SessionMessage],
        into: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        async with said:
            async for message in said:
                await self._put(message.message)
                self._gave(message.message)
                if self._ended and isinstance(message.message, JSONRPCRequest):
                    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                        nobody = _error(message.message.id, CONNECTION_CLOSED, "Nobody is there to answer")
                        await into.send(SessionMessage(nobody))

    async def _put(self, message: JSONRPCMessage) -> None:
        async with self._writing:
            await self._writes.write(message.model_dump_json(by_alias=True, exclude_unset=True) + "\n")
            await self._writes.flush()

    def _took(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest):
            self._calls[coerce_request_id(message.id)] += 1
        elif isinstance(message, JSONRPCNotification):
            name = (message.params or {}).get("requestId")
            if message.method == "notifications/cancelled" and isinstance(name, (int, str)):
                self._calls.pop(coerce_request_id(name), None)  # it will not be answered
        elif message.id is not None:
            self._asked.discard(coerce_request_id(message.id))

    def _gave(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest):
            self._asked.add(coerce_request_id(message.id))
        elif not isinstance(message, JSONRPCNotification) and message.id is not None:
            name = coerce_request_id(message.id)
            if self._calls[name] <= 1:
                del self._calls[name]
            else:
                self._calls[name] -= 1
        if self._ended and not self._calls:
            self._settled.set()


def _error(name: Id | None, code: int, reason: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=name, error=ErrorData(code=code, message=reason))


@asynccontextmanager
async def conversation(reads: Any, writes: Any, note: Callable[[str], None]) -> AsyncIterator[tuple[Received, Sent]]:
    """What comes and what goes, as messages. `note` is told of lines that were not taken."""
    into, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, said = anyio.create_memory_object_stream[SessionMessage](0)
    held = _Conversation(writes, note)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(held.listen, reads.__aiter__(), into)
        tasks.start_soon(held.speak, said, into)
        yield received, sent
