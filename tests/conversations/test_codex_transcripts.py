"""Reading Codex's rollouts of all versions: intact, damaged and compressed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.conversations.adapters.codex import rollouts
from holdfast.conversations.adapters.codex.rollouts import unpack
from holdfast.conversations.adapters.codex.transcript import READER
from holdfast.conversations.adapters.jsonl import ReadProblems
from holdfast.conversations.adapters.transcript import TranscriptSource
from holdfast.conversations.signals import (
    AgentBegan,
    AgentEnded,
    Chosen,
    Compacted,
    Edited,
    Limited,
    Measured,
    Planned,
    Prompted,
    Ran,
    Todo,
)
from holdfast.machine.zstd import zstandard
from holdfast.workspace.agent_dirs import AgentDirs
from tests.support.codex_rollouts import (
    BEGAN,
    ID,
    SUB,
    WHOLE,
    Record,
    asked,
    called,
    counted,
    item,
    kinds,
    line,
    lines,
    meta,
    output,
    spent,
    tell,
)


@pytest.fixture
def rollout(tmp_path: Path) -> Path:
    return tmp_path / ".codex" / "sessions" / "2026" / "11" / "15" / f"rollout-2026-11-15T09-00-00-{ID}.jsonl"


def test_conversation_is_read(rollout: Path) -> None:
    """Everything in a rollout, each thing once."""
    (transcript,) = tell(rollout, WHOLE)
    assert (transcript.agent, transcript.conversation, transcript.resume) == ("codex", ID, f"codex resume {ID}")
    assert (transcript.cwd, transcript.branch, transcript.title, transcript.model) == (
        "/home/anna/shop",
        "carts",
        "Carts",
        "gpt-6.1-sol",
    )
    assert (transcript.began, transcript.ended) == (BEGAN + 2_000, BEGAN + 70_000)
    assert (
        transcript.input_tokens,
        transcript.cache_read_tokens + transcript.cache_write_tokens,
        transcript.output_tokens,
    ) == (
        1200,
        800,
        100,
    )
    assert (transcript.messages, transcript.parent, transcript.problems) == (3, None, [])
    assert kinds(transcript, Prompted) == [Prompted(text="Empty the carts"), Prompted(text="")]
    assert kinds(transcript, Chosen) == [Chosen(model="gpt-6.1-sol", permission="bypassPermissions")]
    assert kinds(transcript, Ran) == [Ran(command="make test", code=2, took_ms=1500)]
    edits = {entry.path.rpartition("/")[2]: entry for entry in kinds(transcript, Edited) if isinstance(entry, Edited)}
    assert {name: edit.action for name, edit in edits.items()} == {
        "a.py": "modified", "b.py": "created", "c.py": "deleted", "d.py": "deleted", "e.py": "created",
    }  # fmt: skip
    assert (edits["a.py"].lines_added, edits["a.py"].lines_removed) == (2, 1)
    assert edits["b.py"].after == "73cb3858a687a8494ca3323053016282f3dad39d42cf62ca4e79dda2aac7d9ac"
    assert kinds(transcript, Planned) == [Planned(todos=(Todo("Test it", "in_progress"),))]
    assert kinds(transcript, AgentBegan) == [
        AgentBegan(agent=SUB, type="default", task="write tests", background=True)
    ]
    assert kinds(transcript, Compacted) == [Compacted()]
    assert kinds(transcript, Measured) == [Measured(tokens=1050, window=258_400)]
    assert transcript.signals == sorted(transcript.signals, key=lambda line: line.at)
    assert len({line.mark for line in transcript.signals}) == len(transcript.signals)


def test_marks_stay_when_rollout_grows(rollout: Path) -> None:
    (whole,) = tell(rollout, WHOLE)
    (less,) = tell(rollout, WHOLE[:12])
    marks = {line.mark: line.signal for line in whole.signals}
    for timed in less.signals:
        if not isinstance(timed.signal, Measured):
            assert marks[timed.mark] == timed.signal


def test_older_versions_are_read(rollout: Path) -> None:
    """Rollouts without items have requests of the model and events with older names."""
    (transcript,) = tell(
        rollout,
        [
            meta(),
            line(1, "event_msg", {"type": "user_message", "message": "Empty the carts", "kind": "plain"}),
            called(2, "shell", "c1", {"command": ["bash", "-lc", "make test"]}),
            output(3, "c1", json.dumps({"output": "no", "metadata": {"exit_code": 2, "duration_seconds": 0.1}})),
            called(4, "shell", "c2", {"command": ["ls"]}),
            line(4, "event_msg", {"type": "exec_command_end", "call_id": "c2", "command": ["ls"], "exit_code": 0}),
            called(
                5, "shell", "c3", {"command": ["apply_patch", "*** Begin Patch\n*** Delete File: a\n*** End Patch"]}
            ),
            output(5, "c3", "Exit code: 0\nOutput:\nSuccess."),
            called(6, "shell", "c4", {"command": ["never"]}),
            output(6, "c4", "unsupported call: shell"),
            counted(6, 1000, 1000),
            counted(6, 1000, 1000),  # only the limits have changed
            counted(7, 1500, 500, rate_limits={"primary": {"used_percent": 12.5}, "secondary": None}),
        ],
    )
    assert kinds(transcript, Prompted) == [Prompted(text="Empty the carts")]
    assert kinds(transcript, Ran) == [Ran(command="make test", code=2), Ran(command="ls", code=0)]
    assert [entry.path for entry in kinds(transcript, Edited) if isinstance(entry, Edited)] == ["a"]
    assert (transcript.input_tokens, transcript.output_tokens) == (1480, 20)
    assert kinds(transcript, Measured) == [
        Measured(tokens=500, window=258_400, limits={"primary": {"used_percent": 12.5}})
    ]


def test_first_versions_are_read(rollout: Path) -> None:
    """Bare lines without times still have prompts and a start."""
    bare: list[Record] = [
        {"id": ID, "timestamp": "2026-11-15T09:00:00.000Z", "instructions": None, "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Empty the carts"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done"}]},
    ]
    (transcript,) = tell(rollout, bare)
    assert (transcript.conversation, transcript.began, transcript.messages) == (ID, BEGAN, 2)
    assert kinds(transcript, Prompted) == [Prompted(text="Empty the carts")]


def test_fork_has_only_new_records(rollout: Path) -> None:
    """It starts with a copy of its origin."""
    other = "019b2f00-3333-7000-8000-000000000003"
    copied = [entry | {"timestamp": "2026-11-15T09:00:00.200Z"} for entry in WHOLE]
    (transcript,) = tell(
        rollout, [meta(id=other, session_id=other, forked_from_id=ID), *copied, asked(30, "Another way")]
    )
    assert (transcript.conversation, transcript.parent, transcript.began) == (other, ID, BEGAN + 30_000)
    assert [line.signal for line in transcript.signals] == [Prompted(text="Another way")]
    assert transcript.input_tokens == 0


def agent_rollout(root: str = ID, **fields: object) -> list[Record]:
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": ID, "depth": 1}}}
    about: Record = {"source": spawned, "agent_role": "tester", "agent_path": "/root/tests", **fields}
    return [
        meta(id=SUB, session_id=root, parent_thread_id=ID, **about),
        line(8, "turn_context", {"model": "gpt-mini"}),
        asked(8, "Write the tests"),
        item(30, type="CommandExecution", id="c1", command=["ls"], exit_code=0),
        line(31, "compacted", {"message": "A summary"}),
        spent(32, "r1"),
        counted(32, 1050, 1050),
        line(33, "response_item", {"type": "message", "role": "assistant", "content": []}),
        line(34, "event_msg", {"type": "task_complete", "last_agent_message": "All green."}),
    ]


@pytest.mark.parametrize("where", ["sessions/2026/11/15", "sessions/2026/11/14", "archived_sessions"])
def test_subagent_is_merged_into_conversation(tmp_path: Path, rollout: Path, where: str) -> None:
    """Its work is recorded for that agent in its conversation, and is nobody's working time."""
    (alone,) = tell(rollout, WHOLE)
    sub = tmp_path / ".codex" / where / f"rollout-2026-11-15T09-00-08-{SUB}.jsonl"
    assert tell(sub, agent_rollout()) == []
    (transcript,) = READER.read(TranscriptSource(str(rollout), ""))
    about: Record = {"agent": SUB, "type": "tester", "task": "tests"}
    assert kinds(transcript, AgentBegan) == [AgentBegan(**about, background=True)]
    assert kinds(transcript, AgentEnded) == [AgentEnded(**about, summary="All green.", tokens=1050)]
    assert kinds(transcript, Ran) == [Ran(command="make test", code=2, took_ms=1500), Ran(agent=SUB, command="ls")]
    for kind in (Prompted, Chosen, Compacted, Measured):
        assert kinds(transcript, kind) == kinds(alone, kind)
    assert (transcript.signs, transcript.model, transcript.output_tokens) == (
        alone.signs,
        alone.model,
        alone.output_tokens + 50,
    )
    marks = {line.mark for line in transcript.signals}
    assert len(marks) == len(transcript.signals)
    assert {line.mark for line in alone.signals} <= marks


def test_unmentioned_subagent_is_merged_into_conversation(tmp_path: Path, rollout: Path) -> None:
    """Its own reference is enough, whatever the days and ids; its subagents follow."""
    mute = [entry for entry in WHOLE if "SubAgentActivity" not in str(entry)]
    tell(rollout, mute)
    nested, day = "no-uuid-at-all", tmp_path / ".codex" / "sessions" / "2026" / "11" / "15"
    sub, below = (day / f"rollout-2026-11-15T09-00-08-{name}.jsonl" for name in (SUB, nested))
    of_sub = [meta(id=nested, session_id=nested, parent_thread_id=SUB, agent_role="reader"), *agent_rollout()[1:]]
    assert tell(below, of_sub) != []
    assert tell(sub, agent_rollout(root=SUB)) == []
    assert tell(below, of_sub) == []
    (transcript,) = READER.read(TranscriptSource(str(rollout), ""))
    assert [entry.agent for entry in kinds(transcript, AgentBegan)] == [SUB, nested]
    assert [entry.agent for entry in kinds(transcript, Ran)] == [None, SUB, nested]
    read = [
        transcript for source in READER.sources(AgentDirs(str(tmp_path), "/")) for transcript in READER.read(source)
    ]
    assert [transcript.conversation for transcript in read] == [ID]
    assert read[0].signals == transcript.signals


def test_mutual_subagents_are_not_lost(rollout: Path) -> None:
    """Without a conversation behind them, their work is still read."""
    tell(rollout, [meta(parent_thread_id=SUB), asked(2)])
    path = rollout.with_name(f"rollout-2026-11-15T09-00-08-{SUB}.jsonl")
    (transcript,) = tell(path, agent_rollout(root=SUB))
    assert transcript.conversation == SUB


def test_subagent_without_conversation_counts_alone(rollout: Path) -> None:
    path = rollout.with_name(f"rollout-2026-11-15T09-00-08-{SUB}.jsonl")
    (transcript,) = tell(path, agent_rollout())
    assert (transcript.conversation, transcript.parent) == (SUB, ID)
    assert [type(line.signal) for line in transcript.signals] == [AgentBegan, Ran, AgentEnded]
    aborted = line(34, "event_msg", {"type": "turn_aborted", "reason": "interrupted"})
    (broken,) = tell(path, [*agent_rollout()[:-1], aborted])
    (ended,) = kinds(broken, AgentEnded)
    assert isinstance(ended, AgentEnded)
    assert ended.failed == "interrupted"


def test_rollouts_that_reference_each_other_are_read_once(tmp_path: Path, rollout: Path) -> None:
    """Or themselves."""
    again = item(20, type="SubAgentActivity", id="c9", kind="started", agent_thread_id=SUB, agent_path="/root/x")
    back = item(21, type="SubAgentActivity", id="c8", kind="started", agent_thread_id=ID, agent_path="/root/y")
    tell(rollout.with_name(f"rollout-2026-11-15T09-00-08-{SUB}.jsonl"), [*agent_rollout(), again, back])
    (transcript,) = tell(rollout, WHOLE)
    assert transcript.output_tokens == 150


def test_usage_limit_is_limited(rollout: Path) -> None:
    """In any form."""
    for kind in ("usage_limit_exceeded", {"usage_limit_exceeded": {"resets": 1}}):
        error = {"type": "error", "message": "You've hit your usage limit.", "codex_error_info": kind}
        (transcript,) = tell(rollout, [meta(), asked(1), line(2, "event_msg", error)])
        assert kinds(transcript, Limited) == [Limited(reason="You've hit your usage limit.")]


def test_repeated_call_id_is_another_call(rollout: Path) -> None:
    """Call ids are the model's: a repeated one is another call with its own mark."""
    ran = [item(second, type="CommandExecution", id="c", command=["ls"], exit_code=0) for second in (2, 4)]
    again = [called(second, "exec_command", "c", {"cmd": "ls"}) for second in (1, 3)]
    (transcript,) = tell(rollout, [meta(), again[0], ran[0], again[1], ran[1]])
    assert [line.mark for line in transcript.signals] == ["c", "c#1"]


def test_sources_are_listed_without_reading(tmp_path: Path, rollout: Path) -> None:
    """Rollouts and compressed ones, in both places; other things with such names are skipped."""
    tell(rollout, WHOLE)
    archive = tmp_path / ".codex" / "archived_sessions"
    archive.mkdir()
    (archive / "rollout-b.jsonl.zst").write_bytes(b"")
    (rollout.parent / f"{rollout.name}.zst").write_bytes(b"")  # being made of the one next to it
    (archive / "notes.txt").write_text("x")
    (archive / "directory.jsonl").mkdir()
    (archive / "link.jsonl").symlink_to(rollout)
    (archive / "round").symlink_to(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(archive / "pipe.jsonl")
    places = AgentDirs(str(tmp_path), str(tmp_path))
    result = [os.path.basename(source.path) for source in READER.sources(places)]
    assert result == [rollout.name, "rollout-b.jsonl.zst"]
    before = [source.stamp for source in READER.sources(places)]
    with rollout.open("ab") as file:
        file.write(b"\n")
    assert next(READER.sources(places)).stamp != before[0]
    assert list(READER.sources(AgentDirs(str(tmp_path / "nowhere"), ""))) == []


def test_missing_file_is_a_problem(tmp_path: Path) -> None:
    """So is a directory or a pipe; nothing is raised."""
    (tmp_path / "directory.jsonl").mkdir()
    names = ["directory.jsonl", "nothing.jsonl"]
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.jsonl")
        names.append("pipe.jsonl")
    for name in names:
        (transcript,) = READER.read(TranscriptSource(str(tmp_path / name), ""))
        assert transcript.problems
        assert not transcript.signals


HEAD, TAIL = lines(WHOLE[:8]), lines(WHOLE[8:])
WRONG: list[Record] = [
    {"type": kind, "payload": wrong}
    for kind in ("event_msg", "response_item", "compaction", "session_meta", "turn_context", "token_usage_record")
    for wrong in (1, ["x"], "x", None)
]
DAMAGES = {
    "a bad line": HEAD + b'{"timestamp": nonsense}\n' + TAIL,
    "a tail of NULs": HEAD + TAIL + b"\0" * 4096,
    "a line of NULs": HEAD + b"\0" * 300 + b"\n" + TAIL,
    "glued records": (HEAD + TAIL).replace(b"}\n{", b"}{"),
    "empty lines and other ends": b"\n\n" + (HEAD + TAIL).replace(b"\n", b"\r\n"),
    "bytes of another encoding": HEAD + b'{"type":"note","payload":"\xe9\xff"}\n' + TAIL,
    "records of other types": HEAD + lines([line(5, "of_2040", {"a": [1]}), {"type": 7}]) + TAIL,
    "payloads of other types": HEAD + lines(WRONG) + TAIL,
    "a long line": HEAD + lines([line(5, "of_2040", {"type": "reasoning", "x": "y" * 20_000_000})]) + TAIL,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_rollout_keeps_readable_records(rollout: Path, damage: str) -> None:
    (whole,) = tell(rollout, WHOLE)
    (transcript,) = tell(rollout, DAMAGES[damage])
    assert [line.signal for line in transcript.signals] == [line.signal for line in whole.signals]
    assert (transcript.input_tokens, transcript.messages) == (whole.input_tokens, whole.messages)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_cut_rollout_loses_only_the_rest(rollout: Path, data: st.DataObject) -> None:
    """Cut at any byte."""
    content = lines(WHOLE)
    at = data.draw(st.integers(0, len(content)))
    before = next(iter(tell(rollout, content[: content.rfind(b"\n", 0, at) + 1])), None)
    transcript = next(iter(tell(rollout, content[:at])), None)
    if before is not None and before.signals:
        assert transcript is not None
        assert {line.mark for line in before.signals} - {line.mark for line in transcript.signals} <= {
            line.mark for line in before.signals if isinstance(line.signal, Measured)
        }
        assert transcript.input_tokens >= before.input_tokens


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_field_value_raises_nothing(rollout: Path, data: st.DataObject) -> None:
    """Any JSON in any field."""
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
    some = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
        lambda one: st.lists(one, max_size=2) | st.dictionaries(text, one, max_size=2),
        max_leaves=4,
    )
    records = json.loads(json.dumps(WHOLE))
    for record in data.draw(st.lists(st.sampled_from(records), max_size=5)):
        payload = record["payload"]
        target = payload.get("item", payload) if isinstance(payload, dict) else {}
        if isinstance(target, dict) and target:
            target[data.draw(st.sampled_from(sorted(target)))] = data.draw(some)
    for transcript in tell(rollout, records):
        assert len({line.mark for line in transcript.signals}) == len(transcript.signals)
        json.dumps(transcript.problems)


def packed(content: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        zstd = pytest.importorskip("backports.zstd", reason="this Python has no Zstandard")
    result: bytes = zstd.compress(content)
    return result


def test_compressed_rollout_reads_the_same(rollout: Path) -> None:
    """In one frame or several."""
    (whole,) = tell(rollout, WHOLE)
    content = lines(WHOLE)
    for shape in (packed(content), packed(content[:5_000]) + packed(content[5_000:])):
        (transcript,) = tell(rollout.with_name(f"{rollout.name}.zst"), shape)
        assert transcript == whole


def test_damaged_compression_is_a_problem(rollout: Path) -> None:
    """What can be unpacked is read."""
    path = rollout.with_name(f"{rollout.name}.zst")
    frame = packed(lines(WHOLE))
    half = len(frame) // 2
    for broken in (frame[:-10], frame[:half], frame[:half] + b"\0" * half, packed(b"")[:3], b"not compressed at all"):
        (transcript,) = tell(path, frame + broken)
        assert any("compressed" in problem for problem in transcript.problems)
        assert kinds(transcript, Ran) == [Ran(command="make test", code=2, took_ms=1500)]
        (alone,) = tell(path, broken)
        assert alone.problems


def test_missing_zstd_module_is_a_problem(rollout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader says what to install and continues."""
    shape = packed(lines(WHOLE))
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    monkeypatch.setattr(rollouts, "zstandard", zstandard.__wrapped__)  # it caches the result
    (transcript,) = tell(rollout.with_name(f"{rollout.name}.zst"), shape)
    assert "backports.zstd" in transcript.problems[0]


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=5_000), st.integers(1, 700), st.integers(0, 6_000))
def test_unpacking_does_not_depend_on_chunks(content: bytes, size: int, cut: int) -> None:
    """A cut file gives the beginning of its content."""
    shape = packed(content)
    for part in (shape, shape[:cut]):
        pieces = [part[at : at + size] for at in range(0, len(part), size)]
        result = b"".join(unpack(iter(pieces), ReadProblems()))
        assert content.startswith(result)
    assert b"".join(unpack([shape[at : at + size] for at in range(0, len(shape), size)], ReadProblems())) == content


def test_unpacking_stops_at_size_limit() -> None:
    problems = ReadProblems()
    size = sum(len(piece) for piece in unpack([packed(b"\n" * (40 << 20))], problems))
    assert size <= 18 << 20
    assert "300 times" in problems.sentences()[0]
