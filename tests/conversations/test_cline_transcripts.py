"""Reading Cline's store for `backfill`, intact and damaged."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.conversations.adapters.cline.transcript import READER
from holdfast.conversations.adapters.transcript import Transcript, TranscriptSource
from holdfast.conversations.signals import AgentBegan, AgentEnded, Edited, Measured, Prompted, Ran
from holdfast.workspace.agent_dirs import AgentDirs

T = 1_794_758_822_000
NAME = "1794758822588_r8r2z"
CHILD = "agent_1794758823630_03j5de"
METRICS = {"inputTokens": 120, "outputTokens": 30, "cacheReadTokens": 20, "cacheWriteTokens": 0}
MANIFEST = {
    "version": 1, "session_id": NAME, "started_at": "2026-11-15T16:07:02.000Z",
    "ended_at": "2026-11-15T16:09:02.000Z",
    "provider": "p", "model": "m0", "cwd": "/home/anna/shop", "prompt": '<user_input mode="act">Greet</user_input>',
    "metadata": {"title": "Greeting", "aggregateUsage": {"totalCost": 0.25}},
}  # fmt: skip


def asked(number: int, *content: Any) -> dict[str, Any]:
    return {"id": f"m{number}", "role": "user", "content": list(content), "ts": T + 1_000 * number}


def answered(number: int, *content: Any) -> dict[str, Any]:
    model = {"id": "m", "provider": "p"}
    return {**asked(number, *content), "role": "assistant", "modelInfo": model, "metrics": METRICS}


def use(call: str, name: str, given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": given}


def result(call: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": content, **more}


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


MESSAGES = [
    asked(0, text_block('<user_input mode="act">Write a greeting</user_input>')),
    answered(1, use("c1", "editor", {"path": "a.txt", "new_text": "hi\n"}),
             use("c2", "run_commands", {"commands": ["make"]})),
    asked(2, result("c1", '{"result": "File created successfully at: a.txt", "success": true}'),
          result("c2", [{"success": False, "error": "Command exited with code 2"}])),
    answered(3, use("c3", "spawn_agent", {"task": "Look"})),
    asked(4, result("c3", '{"text": "All fine."}')),
    answered(5, text_block("Done.")),
    {**asked(6), "content": "and now a secret"},
    answered(7, use("c4", "editor", {"path": "b", "old_text": "x", "new_text": "y"})),
    asked(8, result("c4", "no such text", is_error=True)),
]  # fmt: skip
BELOW = [
    {**asked(3, text_block("Look")), "id": "k1"},
    {**answered(4, text_block("All fine.")), "id": "k2"},
]


@pytest.fixture
def places(tmp_path: Path) -> AgentDirs:
    return AgentDirs(str(tmp_path / "home"), str(tmp_path / "shop"))


@pytest.fixture
def store(places: AgentDirs) -> Path:
    directory = Path(places.home, ".cline", "data", "sessions", NAME)
    directory.mkdir(parents=True)
    _write(directory / f"{NAME}.json", MANIFEST)
    _write(directory / f"{NAME}.messages.json", {"version": 1, "messages": MESSAGES, "system_prompt": "You are"})
    _write(directory / f"{CHILD}.messages.json", {"version": 1, "agent": "subagent", "messages": BELOW})
    return directory


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")


def transcripts(places: AgentDirs) -> list[Transcript]:
    return [transcript for source in READER.sources(places) for transcript in READER.read(source)]


def test_conversation_is_read(places: AgentDirs, store: Path) -> None:
    """Prompts, tools, the subagent from its own file, and usage."""
    (transcript,) = transcripts(places)
    assert (transcript.conversation, transcript.title, transcript.cwd, transcript.model) == (
        NAME,
        "Greeting",
        "/home/anna/shop",
        "p/m",
    )
    assert transcript.resume == f"cline --id {NAME}"
    assert (
        transcript.input_tokens,
        transcript.output_tokens,
        transcript.cache_read_tokens + transcript.cache_write_tokens,
    ) == (
        500,
        150,
        100,
    )
    assert (transcript.messages, transcript.cost_usd, transcript.problems) == (11, 0.25, [])
    assert (transcript.began, transcript.ended) == (T, T + 8_000)
    signals = [line.signal for line in transcript.signals]
    assert [line.text for line in signals if type(line) is Prompted] == ["Write a greeting", ""]
    assert "secret" not in repr(transcript)
    assert [(line.path, line.action) for line in signals if type(line) is Edited] == [("a.txt", "created")]
    assert [(line.command, line.code) for line in signals if type(line) is Ran] == [("make", 2)]
    (began,) = [line for line in signals if type(line) is AgentBegan]
    (ended,) = [line for line in signals if type(line) is AgentEnded]
    assert (began.agent, began.task) == (CHILD, "Look")
    assert (ended.agent, ended.summary, ended.tokens) == (CHILD, "All fine.", 150)
    assert Measured(tokens=150) in signals
    assert len({line.mark for line in transcript.signals}) == len(transcript.signals)
    assert transcripts(places) == [transcript]


def test_manifest_without_messages_is_read(places: AgentDirs, store: Path) -> None:
    """Goal, start and end are still known, and the loss is reported."""
    (store / f"{NAME}.messages.json").write_text('{"messages": [{"id"', encoding="utf-8")
    (store / f"{CHILD}.messages.json").unlink()
    (transcript,) = transcripts(places)
    assert [line.signal for line in transcript.signals] == [Prompted(text="Greet")]
    assert transcript.ended - transcript.began == 120_000
    assert transcript.problems == [f"{NAME}.messages.json cannot be understood"]


def test_messages_without_manifest_are_read(places: AgentDirs, store: Path) -> None:
    (store / f"{NAME}.json").unlink()
    (transcript,) = transcripts(places)
    assert (transcript.title, transcript.cwd, transcript.messages) == (None, None, 11)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content + bytes(4_096),
        lambda content: content + content,
        lambda content: b"\xef\xbb\xbf" + content,
        lambda content: content.replace(b"File created", b"File\ncreated \xe2\x80\xa8"),
        lambda content: content.replace(b"You are", b"You \xff are"),
        lambda content: content.replace(b"You are", b"x" * 20_000_000),
        lambda content: content.replace(b"\n", b"\r\n"),
        lambda content: content.replace(b'"messages": [', b'"messages": [7, null, [], {"ts": "x"},'),
    ],
)
def test_damage_loses_only_damaged_file(places: AgentDirs, store: Path, damage: Any) -> None:
    """NULs, concatenated documents, raw line ends, other encodings and odd messages leave the rest intact."""
    path = store / f"{NAME}.messages.json"
    path.write_bytes(damage(path.read_bytes()))
    (transcript,) = transcripts(places)
    assert [line.signal.command for line in transcript.signals if type(line.signal) is Ran] == ["make"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_wrong_byte_raises_nothing(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """In either file, with changed bytes and a cut end."""
    directory = tmp_path_factory.mktemp("sessions")
    for name, value in (
        (f"{directory.name}.json", MANIFEST),
        (f"{directory.name}.messages.json", {"messages": MESSAGES}),
    ):
        content = bytearray(json.dumps(value).encode())
        for _ in range(data.draw(st.integers(0, 5))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        (directory / name).write_bytes(content[: data.draw(st.integers(0, len(content)))])
    for transcript in READER.read(TranscriptSource(str(directory), "")):
        assert transcript.began <= transcript.ended


def test_other_things_under_expected_names_raise_nothing(places: AgentDirs) -> None:
    """Directories, links and pipes are skipped."""
    top = Path(places.home, ".cline", "data", "sessions")
    (top / "a" / "a.json").mkdir(parents=True)
    (top / "b").mkdir()
    os.symlink("/etc/hostname", top / "b" / "b.json")
    (top / "c").write_text("a file")
    (top / "d").mkdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(top / "d" / "d.messages.json")
    assert list(READER.sources(places)) == []
    assert list(READER.read(TranscriptSource(str(top / "a"), ""))) == []


def test_variables_move_directory(places: AgentDirs, store: Path, tmp_path: Path) -> None:
    """Each variable names its own level."""
    (expected,) = READER.sources(places)
    for variable, value in (
        ("CLINE_SESSION_DATA_DIR", store.parent),
        ("CLINE_DATA_DIR", store.parent.parent),
        ("CLINE_DIR", store.parent.parent.parent),
    ):
        moved = AgentDirs(str(tmp_path / "elsewhere"), places.project, {variable: str(value)})
        assert list(READER.sources(moved)) == [expected]


def test_stamp_changes_with_any_file(places: AgentDirs, store: Path) -> None:
    """Even with a subagent's message."""
    (before,) = READER.sources(places)
    _write(store / f"{CHILD}.messages.json", {"messages": [*BELOW, *BELOW]})
    (after,) = READER.sources(places)
    assert before.path == after.path
    assert before.stamp != after.stamp
