"""`holdfast mcp` as agents start it: the real program, with real pipes, in every protocol revision."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult, TextContent

from mcp import Client, StdioServerParameters
from tests.support.processes import end

PATIENCE = 30.0
PLAIN = "import sys; from holdfast.cli.entry import main; sys.exit(main(['mcp']))"
# Whatever the server does, something prints: Python, a C library (the bare descriptor), a child process.
NOISY = """
import os, subprocess, sys
from holdfast.cli.entry import main
from holdfast.keeper.keeper import Keeper
quiet = Keeper.current
def loud(self, **words):
    print("printed"); sys.__stdout__.write("written"); sys.__stdout__.flush(); os.write(1, b"from C")
    subprocess.run(["sh", "-c", "echo a child; cat"], check=True)
    return quiet(self, **words)
Keeper.current = loud
sys.exit(main(["mcp"]))
"""


class ServerProcess:
    """The program, addressed line by line."""

    def __init__(self, root: Path, program: str = PLAIN) -> None:
        (root / "webshop").mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], cwd=root / "webshop", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**os.environ, "HOLDFAST_HOME": str(root / "home")},
        )  # fmt: skip
        self._number = 0
        self._received = b""

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """The next line, which must be a message of the protocol."""
        assert self.process.stdout is not None
        while b"\n" not in self._received:
            assert select.select([self.process.stdout], [], [], PATIENCE)[0], "no answer"
            self._received += os.read(self.process.stdout.fileno(), 1 << 16)
        line, _, self._received = self._received.partition(b"\n")
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return dict(message)

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params or {}}
        self.send(json.dumps(message).encode())
        while (message := self.receive()).get("id") != self._number:
            pass
        return message

    def greet(self, revision: str) -> dict[str, Any]:
        client = {"name": "test", "version": "1"}
        params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": client}
        greeted: dict[str, Any] = self.ask("initialize", params)["result"]
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return greeted

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]
        return answer

    def end(self) -> tuple[int, bytes, bytes]:
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err


@contextmanager
def serving(root: Path, program: str = PLAIN) -> Iterator[ServerProcess]:
    server = ServerProcess(root, program)
    try:
        yield server
    finally:
        end(server.process)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_previous_revision_works(tmp_path: Path, revision: str) -> None:
    """The client greets, works and leaves; the server ends silently."""
    with serving(tmp_path) as server:
        greeted = server.greet(revision)
        assert greeted["protocolVersion"] == revision
        assert greeted["serverInfo"]["name"] == "holdfast"
        assert "record" in greeted["instructions"]
        assert not server.call("start_session", goal="Old friends")["isError"]
        assert "Old friends" in server.call("get_status")["content"][0]["text"]
        assert server.call("share_session", email="ada@example.org")["isError"]
        assert server.ask("resources/read", {"uri": "holdfast://session/current"})["result"]["contents"]
        assert server.end() == (0, b"", b"")


def test_current_revision_works(tmp_path: Path) -> None:
    """The library's own client connects without a greeting."""
    (tmp_path / "webshop").mkdir()
    parameters = StdioServerParameters(
        command=sys.executable, args=["-c", PLAIN], cwd=tmp_path / "webshop",
        env={**os.environ, "HOLDFAST_HOME": str(tmp_path / "home")},
    )  # fmt: skip

    async def conversation() -> tuple[str, str]:
        async with Client(parameters) as client:
            await client.call_tool("start_session", {"goal": "New friends"})
            result = await client.call_tool("get_status", {})
            assert isinstance(result, CallToolResult)
            assert isinstance(result.content[0], TextContent)
            return client.protocol_version, result.content[0].text

    version, text = asyncio.run(conversation())
    assert version == "2026-07-28"
    assert "New friends" in text


def test_standard_output_contains_only_the_protocol(tmp_path: Path) -> None:
    """Output of our code, C code and children goes to standard error; a child that reads gets no input."""
    with serving(tmp_path, NOISY) as server:
        server.greet("2025-11-25")
        for _ in range(3):
            assert server.call("get_status")["structuredContent"]["session"] is None
        code, out, err = server.end()
    assert (code, out) == (0, b"")
    for part in (b"printed", b"written", b"from C", b"a child"):
        assert err.count(part) == 3


def test_server_continues_after_garbage(tmp_path: Path) -> None:
    """Invalid, absurd and too large lines: the next request is answered."""
    with serving(tmp_path) as server:
        server.greet("2025-11-25")
        server.call("start_session", goal="Still here")
        call = b'{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"record","arguments":%s}}'
        for line in (
            b"hello", b"\xff\xfe", b"[]", b"{}", b"null", b'{"jsonrpc":"2.0"}', b'{"jsonrpc":"2.0","id":1}',
            b"[" * 100_000, b'{"jsonrpc":"2.0","id":"y","method":"nonesuch"}',
            b'{"jsonrpc":"2.0","id":"z","method":"tools/call"}',
            call % b'{"progress":NaN}', call % b'{"progress":1e999}', call % b'{"notes":["\\ud800"]}',
            call % b'{"notes":"x"}', call % b"[]", call % (b'{"notes":' + b"[" * 5000 + b"]" * 5000 + b"}"),
            call % b'{"notes":["\\u0000"]}',
        ):  # fmt: skip
            server.send(line)
        piece = b"x" * (1 << 20)
        assert server.process.stdin is not None
        for _ in range(34):
            server.process.stdin.write(piece)
        server.send(b"")
        status = server.call("get_status")["structuredContent"]["session"]
        assert status["goal"] == "Still here"
        assert (status["notes"], status["progress"]) == ([], 0)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGINT, 130)])
def test_signal_ends_the_server_silently(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """While it waits: recorded events are stored."""
    with serving(tmp_path) as server:
        server.greet("2025-11-25")
        server.call("start_session", goal="Interrupted")
        server.process.send_signal(number)
        begun = time.monotonic()
        assert server.process.wait(PATIENCE) == code
        assert time.monotonic() - begun < PATIENCE
        assert server.end()[1:] == (b"", b"")
    with serving(tmp_path) as server:
        server.greet("2025-11-25")
        assert server.call("get_status")["structuredContent"]["session"]["goal"] == "Interrupted"


def test_server_ends_when_nobody_reads_its_answers(tmp_path: Path) -> None:
    """Silently, even though its input stays open."""
    with serving(tmp_path) as server:
        server.greet("2025-11-25")
        assert server.process.stdout is not None
        server.process.stdout.close()
        server.send(b'{"jsonrpc":"2.0","id":9,"method":"tools/list"}')
        assert server.process.wait(PATIENCE) == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read() == b""
        server.process.stdout = None


def test_slow_reader_gets_every_answer(tmp_path: Path) -> None:
    """Requests are still accepted while answers wait for the pipe."""
    with serving(tmp_path) as server:
        server.greet("2025-11-25")
        for number in range(100, 120):
            server.send(b'{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{}}' % number)
        server.send(b'{"jsonrpc":"2.0","id":200,"method":"ping"}')
        ids = [server.receive()["id"] for _ in range(21)]
        assert sorted(ids) == [*range(100, 120), 200]


def test_input_and_output_may_be_files(tmp_path: Path) -> None:
    """No system can poll these."""
    (tmp_path / "in").write_bytes(
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
        b'"clientInfo":{"name":"t","version":"1"}}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
    )
    with (tmp_path / "in").open("rb") as reads, (tmp_path / "out").open("wb") as writes:
        done = subprocess.run(
            [sys.executable, "-c", PLAIN], stdin=reads, stdout=writes, stderr=subprocess.PIPE, cwd=tmp_path,
            env={**os.environ, "HOLDFAST_HOME": str(tmp_path / "home")}, timeout=PATIENCE, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads((tmp_path / "out").read_bytes())["id"] == 1


def test_server_in_a_terminal_says_what_it_waits_for(tmp_path: Path) -> None:
    """In one line on standard error; the end of input ends it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", PLAIN], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path,
        env={**os.environ, "HOLDFAST_HOME": str(tmp_path / "home")},
    )  # fmt: skip
    os.close(theirs)
    try:
        assert process.stderr is not None
        assert select.select([process.stderr], [], [], PATIENCE)[0]
        line_ = process.stderr.readline().decode()
        assert "Waiting for an MCP client" in line_
        assert "holdfast connect" in line_
        os.write(ours, b"\x04")
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out, err) == (0, b"", b"")
    finally:
        end(process)
        os.close(ours)


def test_missing_extra_is_named(tmp_path: Path) -> None:
    """As text and as JSON."""
    program = (
        "import sys; sys.modules['mcp'] = None; from holdfast.cli.entry import main; sys.exit(main(sys.argv[1:]))"
    )
    env = {**os.environ, "HOLDFAST_HOME": str(tmp_path / "home")}
    for words in (["mcp"], ["mcp", "--json"]):
        done = subprocess.run(
            [sys.executable, "-c", program, *words], capture_output=True, text=True, env=env, cwd=tmp_path,
            stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert "pip install 'holdfast[mcp]'" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
    assert json.loads(done.stdout)["error"]["kind"] == "failed"
