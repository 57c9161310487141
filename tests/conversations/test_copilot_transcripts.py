"""Reading Copilot's store for `backfill`, intact and damaged."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.conversations.adapters.copilot.transcript import READER, read_workspace
from holdfast.conversations.adapters.transcript import Transcript, TranscriptSource
from holdfast.conversations.signals import AgentBegan, AgentEnded, Compacted, Edited, Limited, Measured, Prompted, Ran
from holdfast.workspace.agent_dirs import AgentDirs

NAME = "db331465-8d55-4392-9d0a-824f15cdf545"
SHOP = "/home/anna/shop"


def line(second: int, kind: str, data: Any, agent: str | None = None) -> dict[str, Any]:
    record = {
        "type": kind,
        "data": data,
        "id": f"e{second}-{kind}",
        "timestamp": f"2026-11-15T16:05:{second:02}.500Z",
    }
    return record if agent is None else {**record, "agentId": agent}


def usage(call: str) -> dict[str, Any]:
    return {"usage": {"inputTokens": 120, "outputTokens": 30, "cacheReadTokens": 20, "cost": 1, "apiCallId": call}}


EVENTS = [
    line(0, "session.start", {"selectedModel": "m1", "context": {"cwd": SHOP, "branch": "main"}}),
    line(1, "user.message", {"content": "Write a greeting", "messageId": "u1"}),
    line(2, "session.usage_record", usage("c1")),
    line(3, "assistant.message", {"model": "m2", "content": "", "toolRequests": []}),
    line(4, "tool.execution_start", {"toolCallId": "t1", "toolName": "create",
                                     "arguments": {"path": f"{SHOP}/a.txt", "file_text": "hi\n"}}),
    line(5, "tool.execution_complete", {"toolCallId": "t1", "success": True, "result": {"content": "Created"}}),
    line(6, "tool.execution_start", {"toolCallId": "t2", "toolName": "bash", "arguments": {"command": "make"}}),
    line(7, "tool.execution_complete", {"toolCallId": "t2", "success": True,
                                        "result": {"content": "no\n<shellId: 0 completed with exit code 2>"}}),
    line(8, "tool.execution_start", {"toolCallId": "t3", "toolName": "task",
                                     "arguments": {"description": "look around", "prompt": "Look"}}),
    line(9, "subagent.started", {"toolCallId": "t3", "agentName": "explore"}, "child"),
    line(10, "user.message", {"content": "Look", "source": "agent-root"}, "child"),
    line(11, "session.usage_record", usage("c2"), "child"),
    line(12, "subagent.completed", {"toolCallId": "t3", "totalTokens": 150}, "child"),
    line(13, "tool.execution_complete", {"toolCallId": "t3", "success": True, "result": {"content": "All fine."}}),
    line(14, "tool.execution_start", {"toolCallId": "t4", "toolName": "odd_tool", "arguments": {}}),
    line(15, "tool.execution_complete", {"toolCallId": "t4", "success": True,
                                         "fileEdits": [{"path": f"{SHOP}/b", "kind": "delete"}, 7]}),
    line(16, "session.compaction_complete", {"success": True, "postCompactionTokens": 900}),
    line(17, "user.message", {"content": "and now a secret"}),
    line(18, "user.message", {"content": "wake up", "source": "system"}),
    line(19, "session.error", {"errorType": "rate_limit", "message": "429 Rate limit reached"}),
    line(20, "session.handoff", {"context": "a text where others have an object"}),
    line(21, "event.of.2040", {"context": 7}),
]  # fmt: skip


def text(events: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


@pytest.fixture
def places(tmp_path: Path) -> AgentDirs:
    return AgentDirs(str(tmp_path / "home"), str(tmp_path / "shop"))


@pytest.fixture
def store(places: AgentDirs) -> Path:
    directory = Path(places.home, ".copilot", "session-state", NAME)
    directory.mkdir(parents=True)
    (directory / "events.jsonl").write_bytes(text(EVENTS))
    (directory / "workspace.yaml").write_text(
        f"id: {NAME}\ncwd: {SHOP}\nname: 'Anna''s greeting'\n", encoding="utf-8"
    )
    return directory


def transcripts(places: AgentDirs) -> list[Transcript]:
    return [transcript for source in READER.sources(places) for transcript in READER.read(source)]


def test_conversation_is_read(places: AgentDirs, store: Path) -> None:
    """Prompts, tools, subagent, compression, errors and usage, each call once."""
    (transcript,) = transcripts(places)
    assert (transcript.conversation, transcript.cwd, transcript.branch, transcript.model) == (
        NAME,
        SHOP,
        "main",
        "m2",
    )
    assert (transcript.title, transcript.resume) == ("Anna's greeting", f"copilot --resume={NAME}")
    assert (
        transcript.input_tokens,
        transcript.output_tokens,
        transcript.cache_read_tokens + transcript.cache_write_tokens,
    ) == (
        200,
        60,
        40,
    )
    assert (transcript.messages, transcript.problems) == (5, [])
    signals = [signal.signal for signal in transcript.signals]
    assert [item.text for item in signals if type(item) is Prompted] == ["Write a greeting", ""]
    assert "secret" not in repr(transcript)
    assert [(item.path, item.action) for item in signals if type(item) is Edited] == [
        (f"{SHOP}/a.txt", "created"), (f"{SHOP}/b", "deleted"),
    ]  # fmt: skip
    assert [(item.command, item.code, item.took_ms) for item in signals if type(item) is Ran] == [("make", 2, 1_000)]
    (began,) = [item for item in signals if type(item) is AgentBegan]
    (ended,) = [item for item in signals if type(item) is AgentEnded]
    assert (began.agent, began.type, began.task) == ("child", "explore", "look around")
    assert (ended.agent, ended.summary, ended.tokens) == ("child", "All fine.", 150)
    assert Compacted(tokens=900) in signals
    assert {Limited, Measured} <= {type(item) for item in signals}
    assert len({signal.mark for signal in transcript.signals}) == len(transcript.signals)
    assert [signal.at for signal in transcript.signals] == sorted(signal.at for signal in transcript.signals)


def test_repeated_lines_count_once(places: AgentDirs, store: Path) -> None:
    """A file concatenated with its own copy gives the same."""
    (before,) = transcripts(places)
    (store / "events.jsonl").write_bytes(text(EVENTS) * 2)
    (after,) = transcripts(places)
    assert after == before


def test_older_single_file_is_read(places: AgentDirs) -> None:
    """Older versions had no directory per conversation."""
    top = Path(places.home, ".copilot", "session-state")
    top.mkdir(parents=True)
    (top / "abc.jsonl").write_bytes(text(EVENTS[:4]))
    (transcript,) = transcripts(places)
    assert (transcript.conversation, transcript.cwd, transcript.title) == ("abc", SHOP, None)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-40],
        lambda content: content + bytes(4_096),
        lambda content: content.replace(b"\n", b"", 3),
        lambda content: content.replace(b'"type": "assistant.message"', b'"type": ', 1),
        lambda content: content.replace(b"no\\n", b"no\n\xe2\x80\xa8"),
        lambda content: content.replace(b"Created", b"Cr\xffated"),
        lambda content: b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"),
        lambda content: content.replace(b"Created", b"x" * 20_000_000),
    ],
)
def test_damage_loses_only_damaged_lines(places: AgentDirs, store: Path, damage: Any) -> None:
    """Cut, concatenated, torn, NUL and overlong lines."""
    (store / "events.jsonl").write_bytes(damage(text(EVENTS)))
    (transcript,) = transcripts(places)
    signals = [signal.signal for signal in transcript.signals]
    assert next(item.text for item in signals if type(item) is Prompted) == "Write a greeting"
    assert [item for item in signals if type(item) is Compacted]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_wrong_byte_raises_nothing(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """With changed bytes and a cut end."""
    content = bytearray(text(EVENTS))
    for _ in range(data.draw(st.integers(0, 20))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("state") / "events.jsonl"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    for transcript in READER.read(TranscriptSource(str(path), "")):
        assert transcript.began <= transcript.ended


@pytest.mark.parametrize("kind", sorted({event["type"] for event in EVENTS}))
@pytest.mark.parametrize(
    "value", [None, 7, "x", [], {}, {"content": {}, "usage": 7, "context": [], "toolCallId": {}}]
)
def test_data_of_other_types_raises_nothing(places: AgentDirs, store: Path, kind: str, value: Any) -> None:
    """Such a record is ignored, and costs nothing else."""
    events = [{**event, "data": value} if event["type"] == kind else event for event in EVENTS]
    (store / "events.jsonl").write_bytes(text(events))
    (transcript,) = transcripts(places)
    assert transcript.problems == []


def test_other_things_under_expected_names_raise_nothing(places: AgentDirs, tmp_path: Path) -> None:
    """Directories, links and pipes are skipped."""
    top = Path(places.home, ".copilot", "session-state")
    (top / "a" / "events.jsonl").mkdir(parents=True)
    (top / "b").mkdir()
    os.symlink("/etc/hostname", top / "b" / "events.jsonl")
    (top / "c").write_text("a file")
    if hasattr(os, "mkfifo"):
        os.mkfifo(top / "d.jsonl")
    assert list(READER.sources(places)) == []
    assert list(READER.sources(places._replace(home=str(tmp_path / "nowhere")))) == []
    (transcript,) = READER.read(TranscriptSource(str(top / "a" / "events.jsonl"), ""))
    assert transcript.problems == ["is not a regular file"]


def test_workspace_file_is_read(tmp_path: Path) -> None:
    """Plain entries in all spellings; anything else is ignored."""
    path = tmp_path / "workspace.yaml"
    path.write_bytes(b'name: "a \\"b\\""\r\ncwd: \xff\nbranch: null\n  deeper: x\nsummary: |-\n  long\nodd\n')
    assert read_workspace(str(path)) == {"name": 'a "b"', "cwd": "\ufffd"}
    assert read_workspace(str(tmp_path)) == {}
