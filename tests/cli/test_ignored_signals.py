"""Long-running commands keep ignoring the signals that their parent ignores (`nohup`, a background job)."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import end

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX: Windows has no ignored signals to inherit")

PATIENCE = 60.0
HOLDFAST = [sys.executable, "-m", "holdfast"]
GREETING = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"test","version":"1"}}}\n'
)
# The command, its first input, and an input that shows that it still runs.
COMMANDS = {
    "ui": ([*HOLDFAST, "ui", "--no-open"], b"", b""),
    "mcp": ([*HOLDFAST, "mcp"], GREETING, b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n'),
    "run": ([*HOLDFAST, "run", "--", "sh", "-c", "echo begun; read word; echo $word"], b"", b"still here\n"),
}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    given = {**os.environ, "HOLDFAST_HOME": str(tmp_path / "home"), "PYTHONUNBUFFERED": "1"}
    subprocess.run([*HOLDFAST, "start", "the goal"], cwd=tmp_path, env=given, check=True, stdout=subprocess.DEVNULL)
    return given


def exchange(process: subprocess.Popen[bytes], words: bytes) -> bytes:
    """Sends a line to a command and returns its next line."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(words)
    process.stdin.flush()
    assert select.select([process.stdout], [], [], PATIENCE)[0], "it says nothing"
    return process.stdout.readline()


def request(address: bytes) -> bytes:
    """The beginning of the dashboard's answer, whatever it is."""
    port = re.search(rb":(\d+)/", address)
    assert port is not None
    with socket.create_connection(("127.0.0.1", int(port[1])), PATIENCE) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return line.recv(100)


@pytest.mark.parametrize("name", COMMANDS)
def test_command_keeps_ignoring_signals_ignored_at_its_start(
    tmp_path: Path, environ: dict[str, str], name: str
) -> None:
    """A closed terminal or a Ctrl-C does not end it; SIGTERM does."""
    words, first, again = COMMANDS[name]
    process = subprocess.Popen(
        ["sh", "-c", "trap '' INT HUP; exec \"$@\"", "sh", *words], cwd=tmp_path, env=environ, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        result = exchange(process, first)
        if name == "ui":
            assert request(result)  # from now on it serves, with signal handlers of its own
        for number in (signal.SIGINT, signal.SIGHUP):
            process.send_signal(number)
        if name == "ui":
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(2)  # it may still answer while it shuts down
            assert request(result)
        else:
            assert exchange(process, again)
        process.terminate()
        process.wait(PATIENCE)
    finally:
        end(process)
