"""Serving an agent by the two wires it started us with, until it goes away.

The end is quiet however it comes: no more input, nobody left who reads, or a signal. What was acknowledged is on the
disk by then, so a signal waits for nothing.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any, Final

import anyio

from holdfast.mcp.connection import Overlong
from holdfast.mcp.context import McpContext, SurfaceFacts
from holdfast.mcp.server import HoldfastServer
from holdfast.mcp.streams import Wires

_LARGEST: Final = 32 << 20  # bytes of a message; no honest one comes near
_OPENING: Final = 1000  # bytes kept of one that is too large: enough to see whose it is
_AT_ONCE: Final = 1 << 16
_NEVER_BLOCKS: Final = 4096  # bytes that a pipe takes once it says it takes any


def serve(told: SurfaceFacts, wires: Wires) -> int:
    """Answer until there is nobody left to answer."""
    for name, code in (("SIGTERM", 0), ("SIGHUP", 0), ("SIGINT", 130)):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # nohup: it stays ignored
            signal.signal(number, _leaving(code))
    ground = McpContext(told)
    try:
        anyio.run(_answer, HoldfastServer(ground), wires)
    except BaseExceptionGroup as problems:
        if problems.split(OSError)[1] is not None:  # not only that the reader has gone
            raise
    finally:
        ground.close()
    return 0


async def _answer(server: HoldfastServer, wires: Wires) -> None:
    if _can_be_waited_for(wires.reads) and _can_be_waited_for(wires.writes):
        await server.answer(InputLines(wires.reads), Sheet(wires.writes))
        return
    reads = os.fdopen(wires.reads, encoding="utf-8", errors="replace", closefd=False)
    writes = os.fdopen(wires.writes, "w", encoding="utf-8", closefd=False)
    await server.answer(anyio.wrap_file(reads), anyio.wrap_file(writes))


def _can_be_waited_for(descriptor: int) -> bool:
    """Whether the system tells when it can be read or written: not of plain files, nor on Windows."""
    mode = os.fstat(descriptor).st_mode
    return sys.platform != "win32" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))


def _leaving(code: int) -> Any:
    def leave(_number: int, _frame: FrameType | None) -> None:
        os._exit(code)

    return leave


class InputLines:
    """What the agent writes, line by line. Waiting for it holds nothing up and can be broken off."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._begun = bytearray()
        self._opening = b""  # of the line that is being read, once it is too long

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            await anyio.wait_readable(self._descriptor)
            try:
                read = os.read(self._descriptor, _AT_ONCE)
            except BlockingIOError:
                continue
            for line in self._whole(read):
                yield line
            if not read:
                return

    def _whole(self, read: bytes) -> Iterator[str]:
        """The lines that are complete by now; nothing more to read completes the last one."""
        *ended, begun = read.split(b"\n")
        for part in ended if read else [b""] if self._begun or self._opening else []:
            self._begun += part
            text = (self._opening or self._begun).decode(errors="replace")
            line = Overlong(text) if self._opening else text
            self._begun, self._opening = bytearray(), b""
            if line.strip():
                yield line
        self._begun += begun
        if len(self._begun) > _LARGEST:
            self._opening = self._opening or bytes(self._begun[:_OPENING])
            self._begun.clear()


class Sheet:
    """Where the agent reads. Waiting until there is room holds nothing up."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def write(self, text: str) -> None:
        left = memoryview(text.encode(errors="replace"))
        while left:
            if not select.select((), (self._descriptor,), (), 0)[
                1
            ]:  # nearly always there is room, which costs nothing
                await anyio.wait_writable(self._descriptor)
            with suppress(BlockingIOError):
                left = left[os.write(self._descriptor, left[:_NEVER_BLOCKS]) :]

    async def flush(self) -> None:
        """Everything is written already."""
