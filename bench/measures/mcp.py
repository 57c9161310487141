"""Measures a tool call through the server against the same call through the library, in turns within one run.

The server is the real program on pipes, already started; the client does as little as possible. Both write to
separate stores on the same disk.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast import Keeper
from holdfast.sessions.overview import session_card
from measures.append import text
from measures.figures import Figure, median, micros, timed

ROUNDS, PER_ROUND = 10, 50

Tool = Callable[..., dict[str, Any]]


def measure(scratch: Path) -> list[Figure]:
    seconds_by_name: dict[str, list[float]] = {}
    with _server(scratch / "mcp-server") as tool, _library(scratch / "mcp-library") as keeper:
        tool("start_session", goal="Measure")
        keeper.start("Measure")

        def document_and_briefing(_: int) -> object:
            session = keeper.session()
            return session_card(keeper, session.id), session.briefing()

        calls: dict[str, Callable[[int], object]] = {
            "record": lambda number: tool("record", notes=[text(number)]),
            "note": lambda number: keeper.session().note(text(number)).state(),
            "get_status": lambda _: tool("get_status"),
            "document and briefing": document_and_briefing,
        }
        for round_ in range(ROUNDS):
            for name, call in calls.items():
                seconds = timed(call, range(round_ * PER_ROUND, round_ * PER_ROUND + PER_ROUND))
                seconds_by_name.setdefault(name, []).extend(seconds)
    cost = {name: median(seconds) for name, seconds in seconds_by_name.items()}
    detail = ", ".join(f"{name} {micros(seconds)}" for name, seconds in cost.items())
    return [
        Figure("mcp: record against the library's note", cost["record"] / cost["note"], "≤ 3", detail),
        Figure(
            "mcp: get_status against document and briefing", cost["get_status"] / cost["document and briefing"], "≤ 3"
        ),
    ]


@contextmanager
def _library(place: Path) -> Iterator[Keeper]:
    (place / "project").mkdir(parents=True)
    with Keeper.open(str(place / "project"), home=str(place / "home")) as keeper:
        yield keeper


@contextmanager
def _server(place: Path) -> Iterator[Tool]:
    (place / "project").mkdir(parents=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "mcp"], cwd=place / "project", stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, env={**os.environ, "HOLDFAST_HOME": str(place / "home")},
    )  # fmt: skip

    def ask(method: str, **params: Any) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        answer: dict[str, Any] = json.loads(process.stdout.readline())["result"]
        return answer

    def tool(name: str, **arguments: Any) -> dict[str, Any]:
        answer = ask("tools/call", name=name, arguments=arguments)
        assert not answer["isError"], answer["content"]
        return answer

    try:
        client = {"name": "bench", "version": "1"}
        ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
        yield tool
    finally:
        process.communicate()
