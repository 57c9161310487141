"""The wire: every line is answered, reads do not wait for writers, and pending calls are answered before the end."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.keeper.keeper import Keeper
from holdfast.machine import error_log
from holdfast.mcp.connection import BadMessage, OverlongLine, read
from holdfast.mcp.server import InputLines
from holdfast.sync import devices, people
from mcp import Client
from tests.mcp.agent_client import AgentClient, text_of

GREETING = [
    (
        '{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25",'
        '"capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}'
    ),
    '{"jsonrpc":"2.0","method":"notifications/initialized"}',
]


@pytest.fixture
def work(tmp_path: Path) -> Iterator[AgentClient]:
    at_work = AgentClient(tmp_path)
    yield at_work
    at_work.close()


class Output:
    """Where a client reads."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    async def write(self, line: str) -> None:
        self.lines.append(json.loads(line))

    async def flush(self) -> None:
        pass


def replies_to(work: AgentClient, *lines: str) -> list[dict[str, Any]]:
    """The answers to these lines, followed by the end of input."""

    async def each() -> AsyncIterator[str]:
        for line in (*GREETING, *lines):
            yield line

    page = Output()
    asyncio.run(work.server.answer(each(), page))
    return [entry for entry in page.lines if entry.get("id") != "hello"]


def call(tool: str, arguments: str, name: str = "7") -> str:
    params = f'{{"name":"{tool}","arguments":{arguments}}}'
    return f'{{"jsonrpc":"2.0","id":{name},"method":"tools/call","params":{params}}}'


@pytest.mark.parametrize(("line", "code", "name"), [
    (call("record", '{"notes":["\\ud83d"]}'), -32700, 7),
    (call("record", '{"notes":["\\ud83d"]}', '"seven"'), -32700, "seven"),
    ('{"jsonrpc":"2.0","id":"\\ud83d","method":"ping"}', -32700, None),
    ("hello", -32700, None), ("\ufffd\ufffd", -32700, None), ("{", -32700, None), ("[" * 100_000, -32700, None),
    ('{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"a":', -32700, 5),
    ('{"jsonrpc":"2.0","method":"x","params":{"id":5,', -32700, None),
    (call("record", '{"notes":' + "[" * 5_000 + "]" * 5_000 + "}"), -32700, 7),
    (OverlongLine(call("record", '{"notes":["' + "x" * 900)), -32700, 7),
    ("[]", -32600, None), ("null", -32600, None), ("{}", -32600, None),
    ('[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
    ('{"jsonrpc":"2.0","id":3}', -32600, 3), ('{"jsonrpc":"1.0","id":3,"method":"ping"}', -32600, 3),
], ids=lambda value: str(value)[:40])  # fmt: skip
def test_invalid_line_gets_an_error(work: AgentClient, line: str, code: int, name: int | str | None) -> None:
    """Invalid UTF-8 or JSON, a batch, a too long line: an error, with the request's id if readable."""
    (answer,) = replies_to(work, line)
    assert (answer["id"], answer["error"]["code"]) == (name, code)
    assert answer["error"]["message"]
    assert "rejected a line" in str(error_log.lines(str(work.home))[-1]["message"])


def test_too_long_line_keeps_only_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """In however many pieces; the next line is read normally."""
    monkeypatch.setattr("holdfast.mcp.server._MAX_MESSAGE", 100)
    lines = InputLines(0)
    assert list(lines._complete_lines(b'{"jsonrpc":"2.0","id":7,"x":"' + b"x" * 90)) == []
    assert list(lines._complete_lines(b"y" * 200)) == []
    long, short = lines._complete_lines(b"z\nping\n")
    assert (type(long), type(short), short) == (OverlongLine, str, "ping")
    message = read(long)
    assert isinstance(message, BadMessage)
    assert message.id == 7
    assert [*lines._complete_lines(b"x" * 101), *map(type, lines._complete_lines(b""))] == [OverlongLine]


def test_unreadable_answer_of_the_client_gets_no_error() -> None:
    message = read('{"jsonrpc":"2.0","id":3,"result":{"content":{"x":"\\ud83d"}}}')
    assert isinstance(message, BadMessage)
    assert (message.id, message.is_response) == (3, True)


def test_calls_are_answered_after_the_end_of_input(work: AgentClient) -> None:
    """In order of writing."""
    calls = [call("start_session", '{"goal":"Last words"}', "1")]
    calls += [call("record", f'{{"notes":["{number}"]}}', str(number)) for number in range(2, 12)]
    answers = {entry["id"]: entry["result"] for entry in replies_to(work, *calls)}
    assert sorted(answers) == list(range(1, 12))
    assert not any(answer["isError"] for answer in answers.values())
    notes = work.done("get_status")["session"]["notes"]
    assert [note["text"] for note in notes] == [str(number) for number in range(2, 12)]


def test_question_without_a_client_ends_the_call(work: AgentClient, tmp_path: Path) -> None:
    """The input ended before the person could be asked: nothing is shared."""
    with work.keeper() as keeper, Keeper.open(str(tmp_path), home=str(tmp_path / "ada")) as theirs:
        keeper.start("Share me")
        people.add(keeper.home, "ada@example.org", devices.public_keys(theirs).age)
    answers = replies_to(work, call("share_session", '{"email":"ada@example.org"}'))
    assert [answer["method"] for answer in answers if "method" in answer] == ["elicitation/create"]
    result = answers[-1]["result"]
    assert result["isError"]
    assert "nothing was shared" in result["content"][0]["text"]


def test_cancelled_call_does_not_delay_the_end(work: AgentClient) -> None:
    cancel = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}'
    assert all(entry.get("id") == 7 for entry in replies_to(work, call("get_status", "{}"), cancel))


def test_program_answers_the_last_call(tmp_path: Path) -> None:
    """With real pipes: the input closes right after the call."""
    lines = [*GREETING, call("start_session", '{"goal":"Bye"}', "1"), call("record", '{"notes":["\\ud83d"]}', "2")]
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from holdfast.cli.entry import main; sys.exit(main(['mcp']))"],
        input="\n".join(lines).encode(), capture_output=True, cwd=tmp_path, timeout=60, check=False,
        env={**os.environ, "HOLDFAST_HOME": str(tmp_path / "home")},
    )  # fmt: skip
    answers = {item["id"]: item for item in map(json.loads, done.stdout.splitlines())}
    assert (done.returncode, done.stderr) == (0, b"")
    assert answers[1]["result"]["structuredContent"]["goal"] == "Bye"
    assert answers[2]["error"]["code"] == -32700


def test_status_does_not_wait_for_a_blocked_record(work: AgentClient) -> None:
    """While another process has locked the store."""
    work.done("start_session", goal="Patience")
    locked, release = threading.Event(), threading.Event()

    def hold() -> None:
        with work.keeper() as keeper, keeper.transaction():
            locked.set()
            assert release.wait(30)

    async def conversation(client: Client) -> tuple[str, str]:
        holding = threading.Thread(target=hold)
        holding.start()
        try:
            assert await asyncio.to_thread(locked.wait, 30)
            first = asyncio.create_task(client.call_tool("record", {"notes": ["first"]}))
            second = asyncio.create_task(client.call_tool("record", {"notes": ["second"]}))
            status = await client.call_tool("get_status", {})
            assert not first.done()
            release.set()
            assert not (await first).is_error
            assert not (await second).is_error
            return text_of(status), text_of(await client.call_tool("get_status", {}))
        finally:
            release.set()
            holding.join()

    status, after = work.talk(conversation)
    assert "Patience" in status
    assert "first" not in status
    assert after.index("first") < after.index("second")
