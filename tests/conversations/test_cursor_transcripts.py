"""Reading Cursor's conversations, intact and damaged."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.conversations.adapters.cursor.transcript import READER, slug_of
from holdfast.conversations.adapters.transcript import Transcript, TranscriptSource, load_reader
from holdfast.conversations.signals import AgentBegan, AgentEnded, Edited, Erred, Planned, Prompted, Ran
from holdfast.core.canonical import Json
from holdfast.core.times import parse_time
from holdfast.workspace.agent_dirs import AgentDirs

ID = "5b0d6c1e-8a4f-4f1e-9d8e-2b7f1c3a9e10"
SLUG = "home-anna-web-shop"


def user(text: str) -> dict[str, Json]:
    return {"role": "user", "message": {"content": [{"type": "text", "text": text}]}}


def prompt(when: str, text: str) -> dict[str, Json]:
    return user(f"<timestamp>{when}</timestamp>\n<user_query>\n{text}\n</user_query>")


def used(tool: str, **given: Json) -> dict[str, Json]:
    block: Json = {"type": "tool_use", "name": tool, "input": given}
    return {"role": "assistant", "message": {"content": [{"type": "text", "text": "So."}, block]}}


RECORDS: list[dict[str, Json]] = [
    user("<dynamic_tools>…</dynamic_tools>"),
    prompt("Friday, Sep 4, 2026, 2:21 AM (UTC+8)", "Make the cart faster"),
    used("Read", path="/home/anna/web shop/src/cart.ts"),
    used("StrReplace", path="/home/anna/web shop/src/cart.ts", old_string="a\n", new_string="b\nc\n"),
    used("Shell", command="npm test", working_directory="/home/anna/web shop"),
    used("TodoWrite", todos=[{"id": "1", "content": "Measure", "status": "completed"}], merge=False),
    used("Task", subagent_type="explore", description="Find callers", prompt="Find all"),
    {"type": "turn_ended", "status": "success"},
    prompt("Friday, Sep 4, 2026, 12:05 PM (UTC+8)", "And the checkout"),
    used("Delete", path="/home/anna/web shop/old.ts"),
    {"type": "turn_ended", "status": "error", "error": "Connection reset"},
]  # fmt: skip


def lines(*records: Json) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def top(tmp_path: Path) -> Path:
    return tmp_path / ".cursor" / "projects" / SLUG / "agent-transcripts"


def store(tmp_path: Path, content: bytes | None = None, *, editor: bool = True) -> AgentDirs:
    """A home with one conversation in it."""
    directory = top(tmp_path) / ID if editor else top(tmp_path)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{ID}.jsonl"
    path.write_bytes(lines(*RECORDS) if content is None else content)
    os.utime(path, (1_788_600_000, 1_788_600_000))
    return AgentDirs(str(tmp_path), str(tmp_path))


def transcripts(places: AgentDirs) -> list[Transcript]:
    return [transcript for source in READER.sources(places) for transcript in READER.read(source)]


def signals_in(transcript: Transcript, kind: type) -> list[object]:
    return [line.signal for line in transcript.signals if isinstance(line.signal, kind)]


@pytest.mark.parametrize("editor", [True, False])
def test_conversation_is_read(tmp_path: Path, *, editor: bool) -> None:
    """From the editor as from the command line."""
    (transcript,) = transcripts(store(tmp_path, editor=editor))
    assert load_reader("cursor").name == READER.name
    assert (transcript.agent, transcript.conversation) == ("cursor", ID)
    assert transcript.resume == f"cursor-agent --resume={ID}"
    assert transcript.cwd == "/home/anna/web shop"
    assert transcript.messages == 8
    assert signals_in(transcript, Prompted) == [Prompted(text="Make the cart faster"), Prompted(text="")]
    edits = signals_in(transcript, Edited)
    assert edits == [
        Edited(path="/home/anna/web shop/src/cart.ts", lines_added=2, lines_removed=1),
        Edited(path="/home/anna/web shop/old.ts", action="deleted"),
    ]
    assert signals_in(transcript, Ran) == [Ran(command="npm test")]
    assert len(signals_in(transcript, Planned)) == 1
    (began,) = signals_in(transcript, AgentBegan)
    (ended,) = signals_in(transcript, AgentEnded)
    assert isinstance(began, AgentBegan)
    assert isinstance(ended, AgentEnded)
    assert (began.type, began.task, began.agent) == ("explore", "Find callers", ended.agent)
    (erred,) = signals_in(transcript, Erred)
    assert isinstance(erred, Erred)
    assert erred.category == "transient"
    assert len({line.mark for line in transcript.signals}) == len(transcript.signals)


def test_times_come_from_prompts(tmp_path: Path) -> None:
    """To the minute and in its zone; the end is the file's time of change."""
    (transcript,) = transcripts(store(tmp_path))
    first, second = parse_time("2026-09-03T18:21:00Z"), parse_time("2026-09-04T04:05:00Z")
    assert transcript.signs == [first, second, 1_788_600_000_000]
    assert (transcript.began, transcript.ended) == (first, 1_788_600_000_000)
    assert [line.at for line in transcript.signals if isinstance(line.signal, Prompted)] == [first, second]


def test_conversation_without_times_is_read(tmp_path: Path) -> None:
    """All of it has the file's time of change."""
    (transcript,) = transcripts(
        store(tmp_path, lines(user("<user_query>Hello</user_query>"), used("Read", path="/x")))
    )
    assert transcript.began == transcript.ended == 1_788_600_000_000
    assert transcript.cwd is None


def test_meta_file_is_read(tmp_path: Path) -> None:
    """Title, place and times of a command line conversation."""
    places = store(tmp_path, editor=False)
    chat = tmp_path / ".cursor" / "chats" / "0f" / ID
    chat.mkdir(parents=True)
    meta = {"title": "Carts", "cwd": "/srv/shop", "createdAtMs": 1_788_400_000_000, "updatedAtMs": 1_788_500_000_000}
    (chat / "meta.json").write_text(json.dumps(meta))
    (transcript,) = transcripts(places)
    assert (transcript.title, transcript.cwd) == ("Carts", "/srv/shop")
    assert (transcript.began, transcript.ended) == (1_788_400_000_000, 1_788_500_000_000)
    (chat / "meta.json").write_text("{")
    assert transcripts(places)[0].title is None


def test_subagents_are_read(tmp_path: Path) -> None:
    """From their own files, as the subagents' work; they are no conversations."""
    places = store(tmp_path)
    alone = next(READER.sources(places)).stamp
    (top(tmp_path) / ID / "subagents").mkdir()
    content = lines(user("Find all"), used("Shell", command="rg getUser"))
    (top(tmp_path) / ID / "subagents" / "s1.jsonl").write_bytes(content)
    (source,) = READER.sources(places)
    assert source.stamp != alone
    (transcript,) = READER.read(source)
    assert Ran(agent="s1", command="rg getUser") in signals_in(transcript, Ran)
    assert len(signals_in(transcript, Prompted)) == 2


def test_slug_equals_cursor_slug() -> None:
    """The directory of a project."""
    assert slug_of("/home/anna/web shop") == SLUG
    assert slug_of("c:\\Users\\anna\\shop") == "c-Users-anna-shop"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.data())
def test_cut_file_keeps_earlier_lines(tmp_path: Path, data: st.DataObject) -> None:
    """Cut at any byte."""
    content = lines(*RECORDS)
    cut = data.draw(st.integers(0, len(content)))
    whole = content[: content.rfind(b"\n", 0, cut) + 1]
    marks = [{line.mark for transcript in transcripts(store(tmp_path, part)) for line in transcript.signals}
             for part in (whole, content[:cut])]  # fmt: skip
    assert marks[0] <= marks[1]


@pytest.mark.parametrize(
    "damage",
    [
        b'{"role": "user", "message"\n',
        b'{"role": "info", "message": "\xff\xfe"}\n',
        b"\0" * 4096 + b"\n",
        lines({"role": []}, {"role": "user", "message": 7}, {"role": "assistant", "message": {"content": {}}}),
        lines([], 7, None, {"role": "assistant", "message": {"content": [{"type": "tool_use", "name": 7}]}}),
        lines({"role": "newer", "message": {"content": "x" * 20_000_000}}),
        lines(user("<timestamp>Friday, Sep 99, 2026, 2:21 AM (UTC+99)</timestamp>")),
    ],
)
def test_damaged_line_loses_only_itself(tmp_path: Path, damage: bytes) -> None:
    content = lines(*RECORDS[:5]) + damage + lines(*RECORDS[5:])
    (transcript,) = transcripts(store(tmp_path, content))
    (plain,) = transcripts(store(tmp_path))
    assert len(transcript.signals) == len(plain.signals)


def test_other_files_are_not_sources(tmp_path: Path) -> None:
    """Directories, pipes and links are skipped; a file that disappears is a problem."""
    (top(tmp_path) / "a.jsonl").mkdir(parents=True)
    (tmp_path / "elsewhere.jsonl").write_bytes(lines(*RECORDS))
    (top(tmp_path) / "b.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    if hasattr(os, "mkfifo"):
        os.mkfifo(top(tmp_path) / "c.jsonl")
    assert list(READER.sources(AgentDirs(str(tmp_path), str(tmp_path)))) == []
    for name in ("a.jsonl", "c.jsonl", "gone.jsonl", "a\0b.jsonl"):
        for transcript in READER.read(TranscriptSource(str(top(tmp_path) / name), "")):
            assert transcript.problems
