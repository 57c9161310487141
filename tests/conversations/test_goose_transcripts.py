"""Reading Goose's database and its older files, intact and damaged."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.conversations.adapters.goose.transcript import READER
from holdfast.conversations.adapters.transcript import Transcript, TranscriptSource
from holdfast.conversations.signals import AgentBegan, AgentEnded, Compacted, Edited, Planned, Prompted, Ran, Todo
from holdfast.workspace.agent_dirs import AgentDirs

Record: TypeAlias = dict[str, Any]
AT = 1_794_733_200  # 2026-11-15T09:00:00Z, in seconds
SCHEMA = """
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY, name TEXT, description TEXT, session_type TEXT DEFAULT 'user', working_dir TEXT,
        accumulated_input_tokens INTEGER, accumulated_output_tokens INTEGER, accumulated_cost REAL,
        model_config_json TEXT, parent_session_id TEXT, of_2040 TEXT
    );
    CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT, role TEXT, content_json TEXT,
        created_timestamp INTEGER, metadata_json TEXT
    );
    CREATE TABLE usage_ledger (
        id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, created_timestamp INTEGER, model TEXT,
        input_tokens INTEGER, output_tokens INTEGER, cache_read_tokens INTEGER, cache_write_tokens INTEGER,
        cost REAL, is_compaction INTEGER
    );
"""


@pytest.fixture
def places(tmp_path: Path) -> AgentDirs:
    (tmp_path / ".local" / "share" / "goose" / "sessions").mkdir(parents=True)
    return AgentDirs(str(tmp_path), str(tmp_path))


@pytest.fixture
def database(places: AgentDirs) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(_directory(places) / "sessions.db"))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(SCHEMA)
    yield connection
    connection.close()


def _directory(places: AgentDirs) -> Path:
    return Path(places.home, ".local", "share", "goose", "sessions")


def text(content: str) -> Record:
    return {"type": "text", "text": content}


def calls(name: str, call: str, **given: object) -> Record:
    value = {"name": name, "arguments": given}
    return {"type": "toolRequest", "id": call, "toolCall": {"status": "success", "value": value}}


def came(call: str, *, failed: bool = False) -> Record:
    value = {"content": [text("x" * 100)], "isError": failed}
    return {"type": "toolResponse", "id": call, "toolResult": {"status": "success", "value": value}}


def session(database: apsw.Connection, key: str, **fields: object) -> None:
    whole = {"id": key, "working_dir": "/home/anna/shop", **fields}
    marks = ", ".join("?" * len(whole))
    database.execute(f"INSERT INTO sessions ({', '.join(whole)}) VALUES ({marks})", tuple(whole.values()))


def says(database: apsw.Connection, name: str, at: int, role: str, *parts: Record, **about: object) -> None:
    query = "INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json)"
    row = (f"{name}-{at}-{role}", name, role, json.dumps(parts), at, json.dumps(about))
    database.execute(f"{query} VALUES (?, ?, ?, ?, ?, ?)", row)


def transcripts(places: AgentDirs) -> list[Transcript]:
    return [transcript for source in READER.sources(places) for transcript in READER.read(source)]


def fill(database: apsw.Connection) -> None:
    config = json.dumps({"model_name": "claude-5"})
    session(database, "20261115_1", name="Carts", model_config_json=config, accumulated_input_tokens=9)
    says(database, "20261115_1", AT, "user", text("Empty the carts"))
    says(database, "20261115_1", AT + 5, "assistant", text("I look"), calls("developer__shell", "a", command="make"))
    says(database, "20261115_1", AT + 9, "user", came("a", failed=True))
    says(database, "20261115_1", AT + 10, "assistant", calls("developer__write", "b", path="a.py", content="x\n"))
    says(database, "20261115_1", AT + 11, "user", came("b"))
    says(database, "20261115_1", AT + 12, "assistant", calls("todo__todo_write", "c", content="- [x] Look"))
    says(database, "20261115_1", AT + 13, "user", came("c"))
    says(database, "20261115_1", AT + 14, "user", text("For the model only"), userVisible=False, agentVisible=True)
    says(database, "20261115_1", AT + 60, "user", text("And now?"))
    for shown, cached, compaction in ((1000, 400, 0), (100, 500, 1)):
        database.execute(
            "INSERT INTO usage_ledger VALUES (NULL, '20261115_1', ?, 'claude-6', ?, 10, ?, 0, 0.25, ?)",
            (AT + 20, shown, cached, compaction),
        )


def test_conversation_is_read(places: AgentDirs, database: apsw.Connection) -> None:
    """Everything in the database."""
    fill(database)
    (transcript,) = transcripts(places)
    assert (transcript.conversation, transcript.title, transcript.cwd) == ("20261115_1", "Carts", "/home/anna/shop")
    assert transcript.resume == "goose session --resume --session-id 20261115_1"
    assert (transcript.began, transcript.ended, transcript.messages) == (AT * 1000, (AT + 60) * 1000, 9)
    assert (transcript.model, transcript.cost_usd, transcript.problems) == ("claude-6", 0.5, [])
    assert (
        transcript.input_tokens,
        transcript.cache_read_tokens + transcript.cache_write_tokens,
        transcript.output_tokens,
    ) == (
        700,
        900,
        20,
    )
    assert [line.signal for line in transcript.signals] == [
        Prompted(text="Empty the carts"),
        Ran(command="make", code=1),
        Edited(path="a.py", after=hashlib.sha256(b"x\n").hexdigest()),
        Planned(todos=(Todo("Look", "completed"),)),
        Compacted(),
        Prompted(text=""),
    ]
    assert len({line.mark for line in transcript.signals}) == len(transcript.signals)


def test_reading_writes_nothing(places: AgentDirs, database: apsw.Connection) -> None:
    """Neither database nor directory changes, whether Goose has it open or not."""
    fill(database)
    sources = list(READER.sources(places))
    before = {path.name: path.read_bytes() for path in _directory(places).iterdir() if not path.name.endswith("-shm")}
    assert transcripts(places)
    after = {path.name: path.read_bytes() for path in _directory(places).iterdir() if not path.name.endswith("-shm")}
    assert after == before
    assert list(READER.sources(places)) == sources
    database.close()
    closed = sorted(os.listdir(_directory(places)))
    assert closed == ["sessions.db"]
    assert len(transcripts(places)) == 1
    assert sorted(os.listdir(_directory(places))) == closed


def test_wal_left_by_crash_is_read(places: AgentDirs, tmp_path: Path) -> None:
    """No file is created next to it."""
    connection = apsw.Connection(str(tmp_path / "alive.db"))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(SCHEMA)
    fill(connection)
    for end in ("", "-wal"):
        (_directory(places) / f"sessions.db{end}").write_bytes((tmp_path / f"alive.db{end}").read_bytes())
    connection.close()
    before = sorted(os.listdir(_directory(places)))
    assert len(transcripts(places)) == 1
    assert sorted(os.listdir(_directory(places))) == before == ["sessions.db", "sessions.db-wal"]


def test_stamp_changes_with_wal(places: AgentDirs, database: apsw.Connection) -> None:
    (before,) = READER.sources(places)
    fill(database)
    (after,) = READER.sources(places)
    assert before.path == after.path
    assert before.stamp != after.stamp


def test_times_are_seconds_or_milliseconds(places: AgentDirs, database: apsw.Connection) -> None:
    """Newer versions use milliseconds."""
    session(database, "s")
    says(database, "s", AT * 1000 + 7, "user", text("Hi there"))
    assert transcripts(places)[0].began == AT * 1000 + 7


def test_versions_without_ledger_are_read(places: AgentDirs) -> None:
    """Missing columns and tables are tolerated."""
    connection = apsw.Connection(str(_directory(places) / "sessions.db"))
    connection.execute("CREATE TABLE sessions (id TEXT, description TEXT, accumulated_input_tokens INTEGER)")
    connection.execute("CREATE TABLE messages (id INTEGER, session_id TEXT, role TEXT, content_json TEXT,"
                       " created_timestamp INTEGER)")  # fmt: skip
    connection.execute("INSERT INTO sessions VALUES ('s', 'Old', 42)")
    connection.execute("INSERT INTO messages VALUES (1, 's', 'user', ?, ?)", (json.dumps([text("Hello")]), AT))
    connection.close()
    (transcript,) = transcripts(places)
    assert (transcript.title, transcript.input_tokens, transcript.cwd) == ("Old", 42, None)
    assert [line.mark for line in transcript.signals] == ["row1"]


def test_subagent_is_merged_into_conversation(places: AgentDirs, database: apsw.Connection) -> None:
    """Its conversation counts for that agent in its caller's, once, and is nobody's working time."""
    session(database, "s1")
    says(database, "s1", AT, "user", text("Review this"))
    says(database, "s1", AT + 1, "assistant", calls("delegate", "d", instructions="Look at the tests"))
    says(database, "s1", AT + 9, "user", came("d"))
    session(database, "s2", session_type="sub_agent", parent_session_id="s1")
    says(database, "s2", AT + 2, "user", text("Look at the tests"))
    says(database, "s2", AT + 3, "assistant", calls("shell", "a", command="ls"))
    says(database, "s2", AT + 4, "user", came("a"))
    says(database, "s2", AT + 5, "assistant", text("They are fine"))
    (transcript,) = transcripts(places)
    assert [line.signal for line in transcript.signals] == [
        Prompted(text="Review this"),
        AgentBegan(agent="s2", type="subagent", task="Look at the tests"),
        Ran(agent="s2", command="ls"),
        AgentEnded(agent="s2", type="subagent", task="Look at the tests", summary="They are fine"),
    ]
    assert [at - AT * 1000 for at in transcript.signs] == [0, 1_000, 9_000]
    database.execute("DELETE FROM sessions WHERE id = 's2'")
    (alone,) = transcripts(places)
    assert isinstance(alone.signals[-1].signal, AgentEnded)
    session(database, "s3", session_type="hidden")
    says(database, "s3", AT, "user", text("Find a title"))
    assert len(transcripts(places)) == 1
    session(database, "s4", session_type="sub_agent", parent_session_id="gone")
    says(database, "s4", AT, "user", text("Look at the tests"))
    assert [transcript.conversation for transcript in transcripts(places)] == ["s1", "s4"]
    database.execute("UPDATE sessions SET session_type = 'sub_agent', parent_session_id = id")
    assert len(transcripts(places)) == 3  # a conversation that names itself as caller is nobody's subagent


def test_unknown_messages_are_problems(places: AgentDirs, database: apsw.Connection) -> None:
    """Each costs only itself."""
    fill(database)
    insert = "INSERT INTO messages (session_id, role, content_json, created_timestamp) VALUES ('20261115_1', ?, ?, ?)"
    for content in ("{", "3", None, b"\xff\xfe", 12, "[1]", '[{"type": 1}]'):
        database.execute(insert, ("user", content, AT))
    database.execute(insert, (b"\xff", '[{"type": "text", "text": "x"}]', "yesterday"))
    (transcript,) = transcripts(places)
    assert len(transcript.signals) == 6
    assert len(transcript.problems) == 8


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_database_is_a_problem(places: AgentDirs, data: st.DataObject) -> None:
    """Cut or overwritten anywhere, it is read as far as possible."""
    path = _directory(places) / "sessions.db"
    whole = path.with_name("whole")
    if not whole.exists():
        connection = apsw.Connection(str(whole))
        connection.execute(SCHEMA)
        fill(connection)
        connection.close()
    content = bytearray(whole.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    else:
        at = data.draw(st.integers(0, len(content) - 64))
        content[at : at + 64] = data.draw(st.binary(min_size=64, max_size=64))
    path.write_bytes(content)
    for transcript in transcripts(places):
        assert transcript.signals or transcript.problems or transcript.signs


def test_file_that_is_no_database_is_a_problem(places: AgentDirs) -> None:
    """Or skipped: a directory, a pipe, any other file."""
    path = _directory(places) / "sessions.db"
    path.write_bytes(b"not a database" * 100)
    (transcript,) = transcripts(places)
    assert "cannot be read" in transcript.problems[0]
    path.unlink()
    path.mkdir()
    assert transcripts(places) == []
    (transcript,) = READER.read(TranscriptSource(str(path), ""))
    assert transcript.problems
    path.rmdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(path)
        assert transcripts(places) == []
        assert next(iter(READER.read(TranscriptSource(str(path), "")))).problems
        path.unlink()
    assert list(READER.sources(AgentDirs("/nowhere", "/nowhere"))) == []


# ── files of older versions ──────────────────────────────────────────────────────────────────────────────

OLD: list[Record] = [
    {"working_dir": "/home/anna/shop", "description": "Carts", "accumulated_input_tokens": 70, "output_tokens": 7},
    {"role": "user", "created": AT, "content": [text("Empty the carts")]},
    {"role": "assistant", "created": AT + 1, "content": [calls("developer__shell", "a", command="make")]},
    {"role": "user", "created": AT + 2, "content": [came("a")]},
]


def _old(places: AgentDirs, content: bytes) -> Transcript | None:
    path = _directory(places) / "20250620_013617.jsonl"
    path.write_bytes(content)
    return next(iter(transcripts(places)), None)


def _lines(records: list[Record]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def test_files_of_older_versions_are_read(places: AgentDirs) -> None:
    """Only without a database, which would contain them."""
    transcript = _old(places, _lines(OLD))
    assert transcript is not None
    assert (transcript.conversation, transcript.title, transcript.cwd) == (
        "20250620_013617",
        "Carts",
        "/home/anna/shop",
    )
    assert (transcript.input_tokens, transcript.output_tokens, transcript.problems) == (70, 7, [])
    assert [line.signal for line in transcript.signals] == [Prompted(text="Empty the carts"), Ran(command="make")]
    (_directory(places) / "sessions.db").write_bytes(b"")
    assert [source.path[-11:] for source in READER.sources(places)] == ["sessions.db"]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(_lines(OLD))))
def test_cut_file_loses_only_the_rest(places: AgentDirs, at: int) -> None:
    """Cut at any byte."""
    content = _lines(OLD)
    before = _old(places, content[: content.rfind(b"\n", 0, at) + 1])
    transcript = _old(places, content[:at])
    if before is not None and before.signals:
        assert transcript is not None
        assert {line.mark for line in before.signals} <= {line.mark for line in transcript.signals}
