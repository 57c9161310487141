"""Payloads become events: once, in order, whatever they contain."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import apsw
import pytest

from holdfast.keeper import Keeper
from holdfast.workspace import spool
from tests.support.agent_hooks import AgentHooks


@pytest.fixture
def agents(tmp_path: Path) -> AgentHooks:
    return AgentHooks(tmp_path)


def test_payloads_are_drained_before_every_read_and_write(agents: AgentHooks) -> None:
    """In the library too."""
    agents.prompt("Add OAuth")
    with agents.keeper() as keeper:
        session = keeper.session()
        assert session.document().commands.total == 0
        agents.say("PostToolUse", tool_name="Bash", tool_use_id="u1", tool_input={"command": "make"})
        assert session.document().commands.total == 1
        agents.say("PostToolUse", tool_name="Bash", tool_use_id="u2", tool_input={"command": "make"})
        session.note("typed after it")
        types = [event.type for event in keeper.events(session.id)]
    assert types[-2:] == ["command.ran", "note.added"]
    assert agents.waiting() == []


def test_events_have_the_time_of_their_payload(agents: AgentHooks) -> None:
    """Not that of the drain."""
    agents.prompt("Add OAuth")
    agents.minute = 3
    agents.say("Stop")
    agents.minute = 600
    session = agents.session()
    assert session.time.elapsed_ms == 600 * 60_000
    assert session.time.working_ms == 3 * 60_000
    assert session.updated_at.endswith(":00.000Z")


@pytest.mark.parametrize("apart", [0.0, 0.02])
def test_event_reported_by_two_configurations_is_recorded_once(agents: AgentHooks, apart: float) -> None:
    """User and project scope, plugin and `connect`: drained together or one after the other."""
    for through in ("user", "project", "plugin"):
        agents.say("UserPromptSubmit", prompt="Add OAuth", prompt_id="p1", through=through)
        agents.say("PostToolUse", tool_name="Bash", tool_use_id="u1", tool_input={"command": "ls"}, through=through)
        agents.say("Stop", last_assistant_message="Done", through=through)
        if apart:
            agents.session()
            agents.minute += apart
    assert agents.types() == [
        "session.started", "native.linked", "message.exchanged", "command.ran", "message.exchanged"
    ]  # fmt: skip


def test_equal_prompts_at_different_times_are_recorded_twice(agents: AgentHooks) -> None:
    """Equal payloads without an id, from one configuration."""
    for _ in range(3):
        agents.say("Stop", last_assistant_message="Yes")
    agents.prompt("Add OAuth")
    for _ in range(3):
        agents.say("Stop", last_assistant_message="Yes")
    agents.minute += 1
    agents.say("Stop", last_assistant_message="Yes")
    assert agents.types().count("message.exchanged") == 5


def test_interrupted_drain_is_finished_by_the_next(agents: AgentHooks) -> None:
    """Files of recorded payloads are recognized."""
    kept = [agents.prompt("Add OAuth"), agents.say("Stop", last_assistant_message="Done")]
    copies = [(path, path.read_bytes(), path.stat()) for path in kept]
    agents.session()
    before = agents.types()
    for path, content, status in copies:
        path.write_bytes(content)
        os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))
    assert agents.types() == before
    assert agents.waiting() == []


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"not json", b"[]", b"7", b"null", b"{}", b'{"session_id": 7}', b'{"session_id": ""}', b"{" * 5_000,
        b'{"session_id": "\xff\xfe", "hook_event_name"', b'{"hook_event_name": "Stop"}', b"\0" * 100,
    ],
)  # fmt: skip
def test_unreadable_payload_is_set_aside(agents: AgentHooks, payload: bytes) -> None:
    """It stops nothing, is kept, and is logged."""
    agents.prompt("Add OAuth")
    agents.hand_over(payload)
    agents.minute = 1
    agents.say("Stop")
    assert agents.types()[-1] == "message.exchanged"
    assert agents.waiting() == []
    (unread,) = spool.list_unread(str(agents.home))
    assert (agents.home / "spool" / "unread" / unread).read_bytes() == payload
    assert len(agents.errors()) == 1


def test_unfinished_payload_is_left_while_its_writer_lives(agents: AgentHooks) -> None:
    """Later payloads of the same agent wait too."""
    whole = json.dumps({"session_id": "t", "cwd": str(agents.project), "hook_event_name": "UserPromptSubmit",
                        "prompt": "Add OAuth"}).encode()  # fmt: skip
    half = Path(spool.add_payload(str(agents.home), "claude", "user", 1, whole[:40]))
    with Keeper.open(str(agents.project), home=str(agents.home)) as keeper:
        assert keeper.current() is None
        half.write_bytes(whole)
        current = keeper.current()
    assert current is not None


def test_undecodable_text_is_kept_with_replacements(agents: AgentHooks) -> None:
    """Half characters, NULs and invalid bytes are replaced; secrets are removed."""
    agents.hand_over(
        b'{"session_id":"t","cwd":' + json.dumps(str(agents.project)).encode()
        + b',"hook_event_name":"UserPromptSubmit","prompt":"A\\ud800B\\u0000C \xff key sk-ant-api03-'
        + b"a1B2" * 24 + b'AA"}'
    )  # fmt: skip
    goal = agents.session().goal
    assert goal.startswith("A\ufffdB\ufffdC")
    assert "sk-ant" not in goal


def test_hostile_ids_stay_text(agents: AgentHooks) -> None:
    """An id that looks like a path writes nothing outside the home."""
    talks = ("../../../etc/passwd", "a/b", "..", "C:\\x", "x" * 199, "$(touch x)", "'; DROP TABLE events; --")
    for talk in talks:
        agents.prompt("Add OAuth", talk)
    assert sorted(session.native[0].id for session in agents.sessions()) == sorted(talks)
    outside = {path.name for path in agents.home.parent.iterdir()}
    assert outside == {"home", "project"}


def test_locked_store_does_not_stop_reading(agents: AgentHooks) -> None:
    """Payloads wait and are drained later."""
    agents.prompt("Add OAuth")
    agents.session()
    lock = apsw.Connection(str(agents.home / "store.db"))
    lock.execute("BEGIN IMMEDIATE")
    agents.say("Stop", last_assistant_message="Done")
    with agents.keeper() as keeper:
        keeper.patience = 0.01
        assert keeper.session().document().goal == "Add OAuth"
    assert len(agents.waiting()) == 1
    lock.execute("ROLLBACK")
    lock.close()
    assert agents.types()[-1] == "message.exchanged"
    assert agents.waiting() == []


def test_concurrent_drains_record_each_payload_once(agents: AgentHooks) -> None:
    """Eight readers, a hundred payloads, in their agent's order."""
    agents.prompt("Add OAuth")
    for number in range(100):
        agents.minute += 0.01
        agents.say(
            "PostToolUse", tool_name="Bash", tool_use_id=f"u{number}", tool_input={"command": f"make {number}"}
        )
    failed: list[BaseException] = []

    def look() -> None:
        try:
            with agents.keeper() as keeper:
                keeper.patience = 20
                keeper.current()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    with agents.keeper() as keeper:
        session = keeper.session()
        ran = [msg for msg in keeper.events(session.id) if msg.type == "command.ran"]
    assert [json.loads(event.data or b"{}")["command"] for event in ran] == [f"make {n}" for n in range(100)]


def test_unknown_events_and_fields_are_kept(agents: AgentHooks) -> None:
    """Without their secrets."""
    agents.prompt("Add OAuth")
    agents.say("PlanetAligned", planet="Mars", api_key="sk-ant-api03-" + "a1B2" * 24 + "AA")
    agents.say("Stop", last_assistant_message="Done", mood={"level": 3})
    extra = agents.session().extra
    assert extra["claude.Stop"] == {"mood": {"level": 3}}
    aligned = extra["claude.PlanetAligned"]
    assert isinstance(aligned, dict)
    assert aligned["planet"] == "Mars"
    assert "sk-ant" not in str(aligned)


def test_long_queue_is_drained_completely(agents: AgentHooks, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one reader, in several transactions."""
    monkeypatch.setattr("holdfast.conversations.ingest.drain._MAX_BATCH", 10)
    agents.prompt("Add OAuth")
    for number in range(35):
        agents.say("PostToolUse", tool_name="Bash", tool_use_id=f"u{number}", tool_input={"command": "make"})
    assert agents.session().commands.total == 35
    assert agents.waiting() == []


def test_backup_includes_waiting_payloads(agents: AgentHooks, tmp_path: Path) -> None:
    """They are drained before the store is copied."""
    agents.prompt("Add OAuth")
    with agents.keeper() as keeper:
        keeper.current()
        agents.say("PostToolUse", tool_name="Bash", tool_use_id="u1", tool_input={"command": "make"})
        keeper.backup(str(tmp_path / "backup.db"))
    assert agents.waiting() == []
    with Keeper.open(str(agents.project), home=str(tmp_path / "other")) as other:
        assert other.restore(str(tmp_path / "backup.db")).events > 0
        (row,) = other.history(limit=None, all_projects=True)
        assert other.session(row.id).document().commands.total == 1
