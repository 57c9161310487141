"""Reading opencode's store for `backfill`: its database and its older files, intact and damaged."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.conversations.adapters.opencode.transcript import READER
from holdfast.conversations.adapters.transcript import Transcript, TranscriptSource
from holdfast.conversations.signals import (
    AgentBegan,
    AgentEnded,
    Compacted,
    Edited,
    Erred,
    Measured,
    Planned,
    Prompted,
    Ran,
)
from holdfast.workspace.agent_dirs import AgentDirs

T = 1_794_758_704_000
SCHEMA = """
CREATE TABLE session (id text PRIMARY KEY, project_id text, parent_id text, directory text, title text, version text,
  agent text, time_created integer, time_updated integer);
CREATE TABLE message (id text PRIMARY KEY, session_id text, time_created integer, time_updated integer, data text);
CREATE TABLE part (id text PRIMARY KEY, message_id text, session_id text, time_created integer, data text);
CREATE TABLE todo (session_id text, content text, status text, priority text, position integer, time_created integer,
  time_updated integer);
"""


def answer(at: int, **more: Any) -> dict[str, Any]:
    return {
        "role": "assistant", "time": {"created": at, "completed": at + 50}, "modelID": "m", "providerID": "p",
        "cost": 0.5, "tokens": {"input": 10, "output": 3, "reasoning": 2, "cache": {"read": 4, "write": 1}},
        "finish": "stop", **more,
    }  # fmt: skip


def tool(name: str, given: Any, at: int, **state: Any) -> dict[str, Any]:
    state = {"status": "completed", "input": given, "output": "", "metadata": {}, **state}
    return {"type": "tool", "tool": name, "callID": "c", "state": {**state, "time": {"start": at, "end": at + 7}}}


# By conversation: its row, and its messages with their parts.
CONVERSATIONS: dict[str, tuple[dict[str, Any], list[tuple[str, Any, list[Any]]]]] = {
    "ses_1": (
        {"directory": "/home/anna/shop", "title": "Greeting"},
        [
            ("msg_1", {"role": "user", "time": {"created": T}},
             [{"type": "text", "text": "Write a greeting"}, {"type": "text", "text": "facts", "synthetic": True}]),
            ("msg_2", answer(T + 1_000), [
                tool("write", {"filePath": "/home/anna/shop/a.txt", "content": "hi\n"}, T + 1_100,
                     metadata={"exists": False}),
                tool("bash", {"command": "make"}, T + 1_200, metadata={"exit": 2}),
                tool("task", {"description": "look"}, T + 1_300),
                tool("grep", {"pattern": "x"}, T + 1_400),
            ]),
            ("msg_3", {"role": "user", "time": {"created": T + 60_000}},
             [{"type": "text", "text": "and now a secret"}]),
            ("msg_4", answer(T + 61_000, error={"name": "ProviderAuthError", "data": {"message": "no API key"}}), []),
            ("msg_5", {"role": "user", "time": {"created": T + 62_000}}, [{"type": "compaction", "auto": True}]),
        ],
    ),
    "ses_2": (
        {"parent": "ses_1", "directory": "/home/anna/shop", "title": "look (@general subagent)", "agent": "general"},
        [
            ("msg_6", {"role": "user", "time": {"created": T + 1_310}}, [{"type": "text", "text": "Look around"}]),
            ("msg_7", answer(T + 1_320), [
                {"type": "text", "text": "All fine."},
                tool("edit", {"filePath": "b", "oldString": "x", "newString": "y"}, T + 1_330),
            ]),
        ],
    ),
}  # fmt: skip


def database(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with_rows = apsw.Connection(str(path))
    with_rows.execute(SCHEMA)
    for number, (name, (row, messages)) in enumerate(CONVERSATIONS.items()):
        with_rows.execute(
            "INSERT INTO session VALUES (?, 'global', ?, ?, ?, '1.18', ?, ?, ?)",
            (name, row.get("parent"), row["directory"], row["title"], row.get("agent"), T + 1_300 * number, T + 9),
        )
        for own, data, parts in messages:
            at = data["time"]["created"]
            with_rows.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", (own, name, at, at, json.dumps(data)))
            for place, part in enumerate(parts):
                with_rows.execute(
                    "INSERT INTO part VALUES (?, ?, ?, ?, ?)", (f"prt_{own}_{place}", own, name, at, json.dumps(part))
                )
    for place, (text, status) in enumerate([("Write it", "completed"), ("Test it", "in_progress")]):
        with_rows.execute(
            "INSERT INTO todo VALUES ('ses_1', ?, ?, 'high', ?, ?, ?)", (text, status, place, T, T + 5_000 + place)
        )
    with_rows.close()


def files(top: Path) -> None:
    for name, (row, messages) in CONVERSATIONS.items():
        _write(top / "session" / "global" / f"{name}.json", {
            "id": name, "parentID": row.get("parent"), "directory": row["directory"], "title": row["title"],
            "time": {"created": T, "updated": T + 9_000},
        })  # fmt: skip
        for own, data, parts in messages:
            _write(top / "message" / name / f"{own}.json", {"id": own, "sessionID": name, **data})
            for place, part in enumerate(parts):
                _write(top / "part" / own / f"prt_{own}_{place}.json", part)
    _write(top / "todo" / "ses_1.json", [{"content": "Write it", "status": "completed"}])


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


@pytest.fixture
def places(tmp_path: Path) -> AgentDirs:
    return AgentDirs(str(tmp_path / "home"), str(tmp_path / "shop"))


@pytest.fixture
def store(places: AgentDirs) -> Path:
    return Path(places.home, ".local", "share", "opencode")


def transcripts(places: AgentDirs) -> list[Transcript]:
    return [transcript for source in READER.sources(places) for transcript in READER.read(source)]


def test_database_is_read(places: AgentDirs, store: Path) -> None:
    """Prompt, tools, subagent, to-dos, error, compression and usage."""
    database(store / "opencode.db")
    (transcript,) = transcripts(places)
    assert (transcript.conversation, transcript.title, transcript.cwd, transcript.model) == (
        "ses_1",
        "Greeting",
        "/home/anna/shop",
        "p/m",
    )
    assert transcript.resume == "opencode --session ses_1"
    assert (
        transcript.input_tokens,
        transcript.output_tokens,
        transcript.cache_read_tokens + transcript.cache_write_tokens,
    ) == (
        30,
        15,
        15,
    )
    assert (transcript.messages, transcript.cost_usd, transcript.problems) == (7, 1.5, [])
    assert (transcript.began, len(transcript.signs)) == (T, 5)
    signals = [line.signal for line in transcript.signals]
    assert [line.text for line in signals if type(line) is Prompted] == ["Write a greeting", ""]
    assert "secret" not in repr(transcript)
    assert [(line.path, line.action, line.agent) for line in signals if type(line) is Edited] == [
        ("/home/anna/shop/a.txt", "created", None), ("b", "modified", "ses_2"),
    ]  # fmt: skip
    assert [(line.command, line.code, line.took_ms) for line in signals if type(line) is Ran] == [("make", 2, 7)]
    (began,) = [line for line in signals if type(line) is AgentBegan]
    (ended,) = [line for line in signals if type(line) is AgentEnded]
    assert (began.agent, began.type, began.task) == ("ses_2", "general", "look")
    assert (ended.agent, ended.summary, ended.tokens) == ("ses_2", "All fine.", 18)
    (plan,) = [line for line in signals if type(line) is Planned]
    assert [(todo.text, todo.status) for todo in plan.todos] == [
        ("Write it", "completed"),
        ("Test it", "in_progress"),
    ]
    assert {Compacted, Erred, Measured} <= {type(line) for line in signals}
    assert [line.at for line in transcript.signals] == sorted(line.at for line in transcript.signals)
    assert len({line.mark for line in transcript.signals}) == len(transcript.signals)


def test_reading_again_gives_the_same(places: AgentDirs, store: Path) -> None:
    """The same marks, and neither database nor directory changes."""
    database(store / "opencode.db")
    before = {path.name: path.read_bytes() for path in store.iterdir()}
    first, second = transcripts(places), transcripts(places)
    assert first == second
    assert {path.name: path.read_bytes() for path in store.iterdir()} == before


def test_database_is_read_while_written(places: AgentDirs, store: Path) -> None:
    """Another program's transaction continues."""
    database(store / "opencode.db")
    other = apsw.Connection(str(store / "opencode.db"))
    other.execute("PRAGMA journal_mode=WAL")
    other.execute("UPDATE session SET title = 'Sitemap' WHERE id = 'ses_1'")
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM message")
    (source,) = READER.sources(places)
    assert [transcript.title for transcript in READER.read(source)] == ["Sitemap"]
    other.execute("ROLLBACK")
    other.close()


def test_stamp_changes_with_wal(places: AgentDirs, store: Path) -> None:
    database(store / "opencode.db")
    (before,) = READER.sources(places)
    (store / "opencode.db-wal").write_bytes(b"x")
    assert next(READER.sources(places)).stamp != before.stamp


def test_locked_database_is_a_problem(places: AgentDirs, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a long wait."""
    monkeypatch.setattr("holdfast.conversations.adapters.database._BUSY_TIMEOUT_MS", 1)
    database(store / "opencode.db")
    other = apsw.Connection(str(store / "opencode.db"))
    other.execute("PRAGMA journal_mode=WAL")
    other.execute("CREATE TABLE more (x)")
    other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    results = transcripts(places)
    assert all(transcript.problems or transcript.signals for transcript in results)
    other.close()


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"not a database at all" * 100,
        lambda content: content[:5_000],
        lambda content: content[: len(content) // 2],
        lambda content: content[:100] + b"\xff" * 4_000 + content[4_100:],
        lambda content: content[:8_192] + bytes(4_096) + content[12_288:],
    ],
)
def test_damaged_database_raises_nothing(places: AgentDirs, store: Path, damage: Any) -> None:
    """The damage is reported, or nothing is read."""
    database(store / "opencode.db")
    path = store / "opencode.db"
    path.write_bytes(damage(path.read_bytes()))
    for transcript in transcripts(places):
        assert transcript.problems or transcript.signals


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_wrong_byte_raises_nothing(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("store") / "opencode.db"
    database(path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 20))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    list(READER.read(TranscriptSource(str(path), "")))


@pytest.mark.parametrize("row", ["{", "null", "[]", '"text"', '{"type": 7}', "\x00", '{"type":"tool","state":[]}'])
def test_bad_row_is_a_problem(places: AgentDirs, store: Path, row: str) -> None:
    """It costs only itself."""
    database(store / "opencode.db")
    change = apsw.Connection(str(store / "opencode.db"))
    change.execute("UPDATE part SET data = ? WHERE id = 'prt_msg_2_1'", (row,))
    change.close()
    (transcript,) = transcripts(places)
    assert transcript.problems == ["part prt_msg_2_1 cannot be understood"]
    assert not [line for line in transcript.signals if type(line.signal) is Ran]
    assert [line for line in transcript.signals if type(line.signal) is AgentEnded]


def test_rows_that_are_not_utf8_are_read(places: AgentDirs, store: Path) -> None:
    """Invalid bytes and trailing NULs cost only their characters."""
    database(store / "opencode.db")
    change = apsw.Connection(str(store / "opencode.db"))
    row = json.dumps({"type": "text", "text": "Gr@sse"}).encode().replace(b"@", b"\xfc") + bytes(20)
    change.execute("UPDATE part SET data = CAST(? AS TEXT) WHERE id = 'prt_msg_1_0'", (row,))
    change.close()
    (transcript,) = transcripts(places)
    assert next(line.signal.text for line in transcript.signals if type(line.signal) is Prompted) == "Gr\ufffdsse"


def test_older_columns_are_read(places: AgentDirs, store: Path) -> None:
    """A database without tables is a problem."""
    database(store / "opencode.db")
    change = apsw.Connection(str(store / "opencode.db"))
    change.execute("ALTER TABLE session DROP COLUMN agent")
    change.execute("DROP TABLE todo")
    change.close()
    (transcript,) = transcripts(places)
    assert transcript.signals
    assert "no such table: todo" in transcript.problems[0]


@pytest.mark.parametrize("name", ["session", "message", "part", "todo"])
def test_view_instead_of_table_is_not_read(places: AgentDirs, store: Path, name: str) -> None:
    """It could be endless."""
    database(store / "opencode.db")
    change = apsw.Connection(str(store / "opencode.db"))
    change.execute(f"ALTER TABLE {name} RENAME TO aside")
    change.execute(
        f"CREATE VIEW {name} AS WITH RECURSIVE n(id) AS (VALUES (1) UNION ALL SELECT id + 1 FROM n) "
        "SELECT aside.* FROM n, aside"
    )
    change.close()
    (transcript,) = transcripts(places)
    assert (transcript.signals, transcript.problems[0].count("a view or virtual table")) == ([], 1)


def test_conversation_of_deleted_caller_counts_alone(places: AgentDirs, store: Path) -> None:
    """It still names the caller."""
    database(store / "opencode.db")
    change = apsw.Connection(str(store / "opencode.db"))
    change.execute("DELETE FROM session WHERE id = 'ses_1'")
    change.close()
    (transcript,) = transcripts(places)
    assert (transcript.conversation, transcript.parent) == ("ses_2", "ses_1")


def test_older_files_are_read(places: AgentDirs, store: Path) -> None:
    """Without a database, one source per conversation."""
    files(store / "storage")
    results = {transcript.conversation: transcript for transcript in transcripts(places)}
    assert set(results) == {"ses_1", "ses_2"}
    assert results["ses_2"].parent == "ses_1"
    assert results["ses_1"].messages == 5
    assert {Prompted, Edited, Ran, Planned, Compacted} <= {type(line.signal) for line in results["ses_1"].signals}
    (store / "storage" / "message" / "ses_1" / "msg_2.json").write_text("{", encoding="utf-8")
    again = {transcript.conversation: transcript for transcript in transcripts(places)}["ses_1"]
    assert again.problems == ["msg_2.json cannot be understood"]
    database(store / "opencode.db")
    assert [os.path.basename(source.path) for source in READER.sources(places)] == ["opencode.db"]


def test_unexpected_file_kinds_raise_no_error(places: AgentDirs, store: Path) -> None:
    """Directories, links and pipes are skipped or reported, without waiting."""
    (store / "opencode.db").mkdir(parents=True)
    (store / "storage" / "session" / "global" / "ses_1.json").mkdir(parents=True)
    if hasattr(os, "mkfifo"):
        os.mkfifo(store / "opencode-dev.db")
        os.mkfifo(store / "storage" / "session" / "global" / "ses_2.json")
    os.symlink("/etc/hostname", store / "opencode-link.db")
    for transcript in transcripts(places):
        assert transcript.problems
        assert not transcript.signals
    assert next(READER.read(TranscriptSource(str(store / "nowhere.db"), ""))).problems


def test_variable_moves_database(places: AgentDirs, tmp_path: Path) -> None:
    database(tmp_path / "own.db")
    moved = places._replace(environ={"OPENCODE_DB": str(tmp_path / "own.db")})
    assert [transcript.conversation for transcript in transcripts(moved)] == ["ses_1"]
