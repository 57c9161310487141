"""Reading Gemini CLI's conversations, intact and damaged."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.conversations.adapters.gemini.transcript import READER
from holdfast.conversations.adapters.transcript import Transcript, TranscriptSource, load_reader
from holdfast.conversations.signals import AgentBegan, AgentEnded, Compacted, Edited, Measured, Planned, Prompted, Ran
from holdfast.core.canonical import Json
from holdfast.core.times import parse_time
from holdfast.workspace.agent_dirs import AgentDirs

ID = "bfb80a18-5296-4134-a07f-30b14532a433"
AGENT = "1e9245b6-4c49-489d-b64a-663fecd34291"
NAME = "session-2026-11-15T16-03-bfb80a18.jsonl"
TOKENS: Json = {"input": 1200, "output": 30, "cached": 200, "thoughts": 5, "tool": 0, "total": 1235}


def at(second: int) -> str:
    return f"2026-11-15T16:03:{second:02}.000Z"


def user(second: int, text: str, name: str = "") -> dict[str, Json]:
    return {"id": name or f"u{second}", "timestamp": at(second), "type": "user", "content": [{"text": text}]}


def model(second: int, *calls: Json, name: str = "") -> dict[str, Json]:
    record: dict[str, Json] = {
        "id": name or f"g{second}", "timestamp": at(second), "type": "gemini", "content": "", "tokens": TOKENS,
        "model": "gemini-2.5-pro",
    }  # fmt: skip
    return {**record, "toolCalls": list(calls)} if calls else record


def call(second: int, tool: str, given: Json, status: str = "success", **more: Json) -> dict[str, Json]:
    return {
        "id": f"{tool}_{second}", "name": tool, "args": given, "status": status, "timestamp": at(second),
        "result": [{"functionResponse": {"response": {"output": "Output: x\nExit Code: 3"}}}], **more,
    }  # fmt: skip


HEAD: dict[str, Json] = {"sessionId": ID, "projectHash": "0" * 64, "startTime": at(0), "kind": "main"}
SHOWN: Json = {
    "filePath": "/home/anna/shop/a.txt", "originalContent": "", "newContent": "one\n", "isNewFile": True,
    "diffStat": {"model_added_lines": 1, "model_removed_lines": 0},
}  # fmt: skip
RECORDS: list[dict[str, Json]] = [
    HEAD,
    {"$set": {"messages": [user(0, "<session_context>\nThis is …</session_context>", "context")]}},
    user(1, "<hook_context>facts</hook_context>\n\nMake the cart faster"),
    {"$set": {"lastUpdated": at(1)}},
    model(2),
    model(2, call(3, "write_file", {"file_path": "a.txt", "content": "one\n"}, resultDisplay=SHOWN)),
    {"id": "r3", "timestamp": at(3), "type": "user", "content": [{"functionResponse": {"name": "write_file"}}]},
    model(4, call(5, "run_shell_command", {"command": "make"})),
    model(6, call(7, "write_todos", {"todos": [{"description": "Measure", "status": "in_progress"}]})),
    model(8, call(12, "invoke_agent", {"agent_name": "generalist", "prompt": "Look"}, agentId=AGENT)),
    model(13, call(13, "run_shell_command", {"command": "rm -rf /"}, "cancelled")),
    user(14, "And now the checkout"),
    {"$set": {"summary": "Faster carts"}},
    model(15),
]
AGENT_RECORDS: list[dict[str, Json]] = [
    {"sessionId": AGENT, "startTime": at(9), "kind": "subagent", "directories": ["/home/anna/shop"]},
    user(9, "Look", "agents-prompt"),
    model(10, call(11, "run_shell_command", {"command": "ls"}), name="agents-word"),
]


def lines(*records: Json) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def store(tmp_path: Path, content: bytes | None = None, name: str = NAME, project: str = "shop") -> AgentDirs:
    """A home with one conversation in it."""
    chats = tmp_path / ".gemini" / "tmp" / project / "chats"
    chats.mkdir(parents=True, exist_ok=True)
    (chats / name).write_bytes(lines(*RECORDS) if content is None else content)
    return AgentDirs(str(tmp_path), str(tmp_path))


def transcripts(places: AgentDirs) -> list[Transcript]:
    return [transcript for source in READER.sources(places) for transcript in READER.read(source)]


def signals_in(transcript: Transcript, kind: type) -> list[object]:
    return [line.signal for line in transcript.signals if isinstance(line.signal, kind)]


def test_conversation_is_read(tmp_path: Path) -> None:
    """Each message once, however often it was written."""
    places = store(tmp_path)
    (tmp_path / ".gemini" / "tmp" / "shop" / ".project_root").write_text("/home/anna/shop")
    (transcript,) = transcripts(places)
    assert load_reader("gemini").name == READER.name
    assert (transcript.agent, transcript.conversation, transcript.cwd) == ("gemini", ID, "/home/anna/shop")
    assert (transcript.title, transcript.model) == ("Faster carts", "gemini-2.5-pro")
    assert transcript.resume == f"gemini --resume {ID}"
    assert (transcript.began, transcript.ended) == (parse_time(at(0)), parse_time(at(15)))
    assert (
        transcript.input_tokens,
        transcript.output_tokens,
        transcript.cache_read_tokens + transcript.cache_write_tokens,
    ) == (
        6_000,
        210,
        1_200,
    )
    assert transcript.messages == 8
    assert transcript.problems == []
    assert signals_in(transcript, Prompted) == [Prompted(text="Make the cart faster"), Prompted(text="")]
    (edited,) = signals_in(transcript, Edited)
    assert isinstance(edited, Edited)
    assert (edited.action, edited.after) == ("created", hashlib.sha256(b"one\n").hexdigest())
    assert signals_in(transcript, Ran) == [Ran(command="make", code=3)]
    assert len(signals_in(transcript, Planned)) == 1
    assert signals_in(transcript, Measured) == [Measured(tokens=1200)]
    assert len({line.mark for line in transcript.signals}) == len(transcript.signals)
    assert [line.at for line in transcript.signals] == sorted(line.at for line in transcript.signals)


def test_subagents_are_read(tmp_path: Path) -> None:
    """Start, work and usage are in the subagent's own file."""
    places = store(tmp_path)
    alone = next(READER.sources(places)).stamp
    directory = tmp_path / ".gemini" / "tmp" / "shop" / "chats" / ID
    directory.mkdir()
    (directory / f"{AGENT}.jsonl").write_bytes(lines(*AGENT_RECORDS))
    assert next(READER.sources(places)).stamp != alone
    (transcript,) = transcripts(places)
    assert signals_in(transcript, AgentBegan) == [AgentBegan(agent=AGENT, type="generalist", task="Look")]
    (ended,) = signals_in(transcript, AgentEnded)
    assert isinstance(ended, AgentEnded)
    assert (ended.agent, ended.took_ms) == (AGENT, 4_000)
    assert Ran(agent=AGENT, command="ls", code=3) in signals_in(transcript, Ran)
    assert len(signals_in(transcript, Prompted)) == 2
    assert transcript.input_tokens == 7_000


def test_compression_is_compacted(tmp_path: Path) -> None:
    """A history rewritten with a summary is a compression; repeated messages are not new."""
    anew: Json = {
        "$set": {"messages": [user(16, "<state_snapshot>…</state_snapshot>", "s"), *RECORDS[2:3], model(2)]}
    }
    (transcript,) = transcripts(store(tmp_path, lines(*RECORDS, anew)))
    assert signals_in(transcript, Compacted) == [Compacted()]
    assert transcript.messages == 8
    assert transcript.input_tokens == 6_000


def test_rolled_back_messages_count(tmp_path: Path) -> None:
    """Rewinding removes neither their time nor their tokens."""
    (plain,) = transcripts(store(tmp_path))
    (rewound,) = transcripts(store(tmp_path, lines(*RECORDS, {"$rewindTo": "u1"})))
    assert (rewound.signs, rewound.input_tokens) == (plain.signs, plain.input_tokens)


def test_empty_file_of_resumed_conversation_is_ignored(tmp_path: Path) -> None:
    """Even if subagents with its id exist."""
    places = store(tmp_path)
    store(tmp_path, lines(HEAD), "session-2026-11-15T18-00-bfb80a18.jsonl")
    directory = tmp_path / ".gemini" / "tmp" / "shop" / "chats" / ID
    directory.mkdir()
    (directory / f"{AGENT}.jsonl").write_bytes(lines(*AGENT_RECORDS))
    assert len(transcripts(places)) == 1


def test_older_document_is_read(tmp_path: Path) -> None:
    """Once, also where it was continued in lines."""
    document: Json = {**HEAD, "messages": [*RECORDS[2:3], *RECORDS[4:12]]}
    whole = json.dumps(document, indent=2).encode()
    places = store(tmp_path, whole, "session-2026-01-15T16-03-bfb80a18.json")
    (transcript,) = transcripts(places)
    assert (transcript.conversation, transcript.input_tokens) == (ID, 5_000)
    assert len(signals_in(transcript, Ran)) == 1
    store(tmp_path, None, "session-2026-01-15T16-03-bfb80a18.jsonl")
    assert len(transcripts(places)) == 1


@pytest.mark.parametrize("known", ["projects.json", "trustedFolders.json", "nowhere"])
def test_project_is_looked_up(tmp_path: Path, known: str) -> None:
    """By its name, or its hash, among the known paths."""
    path = "/home/anna/shop"
    name = "shop-2" if known == "projects.json" else hashlib.sha256(path.encode()).hexdigest()
    places = store(tmp_path, project=name)
    (tmp_path / ".gemini" / "projects.json").write_text(
        json.dumps({"projects": {path: name} if known == "projects.json" else {}})
    )
    (tmp_path / ".gemini" / "trustedFolders.json").write_text(
        json.dumps({path: "TRUST_FOLDER"} if known == "trustedFolders.json" else {"/x": 1})
    )
    (transcript,) = transcripts(places)
    assert transcript.cwd == (None if known == "nowhere" else path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.data())
def test_cut_file_keeps_earlier_lines(tmp_path: Path, data: st.DataObject) -> None:
    """Cut at any byte."""
    content = lines(*RECORDS)
    cut = data.draw(st.integers(0, len(content)))
    whole = content[: content.rfind(b"\n", 0, cut) + 1]
    marks = [
        {
            line.mark
            for transcript in transcripts(store(tmp_path, part))
            for line in transcript.signals
            if line.mark != "context"
        }
        for part in (whole, content[:cut])
    ]
    assert marks[0] <= marks[1]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(st.data())
def test_cut_document_keeps_earlier_messages(tmp_path: Path, data: st.DataObject) -> None:
    """Cut at any byte; the damage is reported."""
    messages: list[Json] = [user(second, f"Prompt {second}") for second in range(1, 6)]
    content = json.dumps({**HEAD, "messages": messages}).encode()
    cut = data.draw(st.integers(1, len(content) - 1))
    results = transcripts(store(tmp_path, content[:cut], NAME[:-1]))
    whole = sum(json.dumps(message).encode() in content[:cut] for message in messages)
    assert len(results) == 1
    assert results[0].messages == whole
    assert results[0].problems


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("a bad line", b'{"id": "x", "type": "user", "content"\n'),
        ("another encoding", b'{"id": "x", "type": "info", "content": "\xff\xfe"}\n'),
        ("NULs", b"\0" * 4096 + b"\n"),
        ("unknown records", lines({"id": 7, "type": []}, {"$set": 7}, {"$rewindTo": {}}, {"newer": True})),
        ("another type", lines([], 7, "text", None)),
        ("wrong types", lines({"id": "w", "type": "gemini", "tokens": [], "toolCalls": {"a": 1}, "timestamp": 7})),
        ("a long line", lines({"id": "l", "type": "info", "content": "x" * 20_000_000})),
    ],
)
def test_damaged_line_loses_only_itself(tmp_path: Path, name: str, damage: bytes) -> None:
    half = len(RECORDS) // 2
    content = lines(*RECORDS[:half]) + damage + lines(*RECORDS[half:])
    (transcript,) = transcripts(store(tmp_path, content))
    (plain,) = transcripts(store(tmp_path))
    assert {line.mark for line in plain.signals} <= {line.mark for line in transcript.signals}, name
    assert transcript.input_tokens == plain.input_tokens


def test_glued_records_and_nuls_are_read(tmp_path: Path) -> None:
    """Two records in one line, and NULs after a power cut, cost nothing."""
    content = lines(*RECORDS).replace(b"}\n{", b"}{", 3) + b"\0" * 512
    (transcript,) = transcripts(store(tmp_path, content))
    (plain,) = transcripts(store(tmp_path))
    assert len(transcript.signals) == len(plain.signals)


def test_other_things_are_no_sources(tmp_path: Path) -> None:
    """Directories, pipes and links are skipped; a file that disappears is a problem."""
    chats = tmp_path / ".gemini" / "tmp" / "shop" / "chats"
    (chats / "session-a-00000000.jsonl").mkdir(parents=True)
    (chats / "session-b-00000000.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    (tmp_path / "elsewhere.jsonl").write_bytes(lines(*RECORDS))
    (tmp_path / ".gemini" / "tmp" / "file").write_text("x")
    if hasattr(os, "mkfifo"):
        os.mkfifo(chats / "session-c-00000000.jsonl")
    assert list(READER.sources(AgentDirs(str(tmp_path), str(tmp_path)))) == []
    for name in ("session-a-00000000.jsonl", "session-c-00000000.jsonl", "gone.jsonl", "gone.json", "a\0b.jsonl"):
        for transcript in READER.read(TranscriptSource(str(chats / name), "")):
            assert transcript.problems
