"""Backfill: agents' own transcripts become history, once."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from holdfast.conversations.adapters.transcript import TimedSignal, Transcript
from holdfast.conversations.backfill.events import project_path
from holdfast.conversations.backfill.placement import TranscriptRecorder
from holdfast.conversations.backfill.run import BackfillResult, backfill
from holdfast.conversations.signals import (
    Active,
    AgentBegan,
    AgentEnded,
    Compacted,
    Edited,
    Erred,
    Limited,
    Measured,
    Planned,
    Prompted,
    Ran,
    Todo,
)
from holdfast.core import view
from holdfast.core.model import Session
from holdfast.core.times import DAY, HOUR, MINUTE, format_time
from holdfast.keeper import Keeper
from holdfast.machine.wall import Wall
from holdfast.workspace.agent_dirs import AgentDirs
from tests.support.agent_hooks import BEGAN, AgentHooks

TALK = "talk-1"


class Past:
    """Transcripts on a person's machine, and Holdfast. Times are minutes from the start."""

    def __init__(self, where: Path) -> None:
        self.where = where
        self.home = where / "home"
        self.project = where / "project"
        self.project.mkdir(parents=True, exist_ok=True)
        self.transcripts = where / "person" / ".claude" / "projects" / "-project"
        self.transcripts.mkdir(parents=True)
        self.now = BEGAN + 3 * DAY
        self._count = 0

    def line(self, minute: float, kind: str, content: Any, talk: str = TALK, **more: Any) -> dict[str, Any]:
        self._count += 1
        message: dict[str, Any] = {"role": kind, "content": content}
        if kind == "assistant":
            usage = {"input_tokens": 10, "output_tokens": 20, "cache_read_input_tokens": 300}
            message |= {
                "id": f"m{self._count}",
                "model": "claude-opus-5-5",
                "usage": usage,
                "stop_reason": "end_turn",
            }
        return {
            "type": kind, "uuid": f"{talk}-{self._count}", "timestamp": format_time(BEGAN + round(minute * MINUTE)),
            "cwd": str(self.project), "sessionId": talk, "gitBranch": "main", "message": message, **more,
        }  # fmt: skip

    def prompt(self, minute: float, text: str = "Add OAuth with PKCE", talk: str = TALK) -> dict[str, Any]:
        return self.line(minute, "user", text, talk)

    def answer(self, minute: float, text: str = "Done.", talk: str = TALK) -> dict[str, Any]:
        return self.line(minute, "assistant", [{"type": "text", "text": text}], talk)

    def tool(
        self, minute: float, name: str, given: Any, result: Any = None, *, until: float | None = None
    ) -> list[dict[str, Any]]:
        call = f"c{self._count}"
        block = {"type": "tool_result", "tool_use_id": call, "content": "done"}
        return [
            self.line(minute, "assistant", [{"type": "tool_use", "id": call, "name": name, "input": given}]),
            self.line(minute if until is None else until, "user", [block], toolUseResult=result),
        ]

    def write(self, *lines: dict[str, Any], talk: str = TALK) -> None:
        data = "".join(json.dumps(line) + "\n" for line in lines)
        with (self.transcripts / f"{talk}.jsonl").open("a") as file:
            file.write(data)

    @contextmanager
    def keeper(self, home: Path | None = None) -> Iterator[Keeper]:
        wall = Wall(lambda: self.now * 1_000_000)
        with Keeper.open(str(self.project), home=str(home or self.home), actor="anna", wall=wall) as keeper:
            yield keeper

    def backfill(self, *, home: Path | None = None, **more: Any) -> BackfillResult:
        with self.keeper(home) as keeper:
            (report,) = backfill(keeper, AgentDirs(str(self.where / "person"), str(self.project)), ["claude"], **more)
        return report

    def sessions(self, home: Path | None = None) -> list[Session]:
        """Oldest first."""
        with self.keeper(home) as keeper:
            rows = keeper.history(limit=None, all_projects=True)
            return [keeper.session(row.id).document() for row in reversed(rows)]

    def session(self) -> Session:
        (session,) = self.sessions()
        return session


def tokens(session: Session) -> dict[str, int | None]:
    """Tokens of its only conversation."""
    (conversation,) = session.conversations
    return asdict(conversation.tokens)


@pytest.fixture
def past(tmp_path: Path) -> Past:
    return Past(tmp_path)


def test_conversation_becomes_a_session(past: Past) -> None:
    """Goal, project, times, model, tokens, the conversation; it is over, and not current."""
    past.write(past.prompt(0, "Add OAuth\nwith PKCE"), past.answer(3), past.prompt(4, "And tests"), past.answer(6))
    report = past.backfill()
    assert (report.sources, report.read, report.sessions, report.grown, report.problems) == (1, 1, 1, 0, [])
    session = past.session()
    assert (session.goal, session.status, session.model) == ("Add OAuth with PKCE", "paused", "claude-opus-5-5")
    assert (session.created_at, session.updated_at) == (format_time(BEGAN), format_time(BEGAN + 6 * MINUTE))
    assert (session.ended_at, session.over) == (None, True)
    assert (session.project.name, session.project.git_branch) == ("project", "main")
    assert [(native.agent, native.id, native.resume) for native in session.native] == [
        ("claude", TALK, f"claude --resume {TALK}")
    ]
    assert tokens(session) == {"input": 20, "output": 40, "cache_read": 600, "cache_write": 0}
    assert session.context.tokens == 310
    assert session.tags == ["backfilled"]
    assert session.time.working_ms == 6 * MINUTE
    assert session.conflicts == []
    with past.keeper() as keeper:
        assert keeper.current() is None
        assert list(keeper.store().check()) == []


def test_second_backfill_records_nothing(past: Past) -> None:
    """With or without the memory of what was read, and from another machine."""
    past.write(past.prompt(0), *past.tool(1, "Bash", {"command": "make"}), past.answer(2))
    assert past.backfill().events > 0
    again = past.backfill()
    assert (again.read, again.events) == (0, 0)
    assert (past.home / "backfilled" / "claude.json").stat().st_mode & 0o077 == 0
    shutil.rmtree(past.home / "backfilled")
    again = past.backfill()
    assert (again.read, again.sessions, again.grown, again.events) == (1, 0, 0, 0)

    other = past.where / "other-home"
    past.backfill(home=other)
    (here,), (there,) = past.sessions(), past.sessions(other)
    assert here.id == there.id
    with past.keeper() as one, past.keeper(other) as two:
        assert [event.key for event in one.events(here.id)] == [event.key for event in two.events(there.id)]
        two.backup(str(past.where / "backup.db"))
        one.restore(str(past.where / "backup.db"))
    united = past.session()
    assert united.commands.total == 1
    assert united.time == here.time


def test_another_device_continues_a_backfilled_session(past: Past) -> None:
    """It adds its name, and only new events."""
    past.now = BEGAN + 30 * MINUTE
    past.write(past.prompt(0), *past.tool(1, "Bash", {"command": "make"}))
    past.backfill()
    other = past.where / "other-home"
    with past.keeper() as one, past.keeper(other) as two:
        one.backup(str(past.where / "backup.db"))
        two.restore(str(past.where / "backup.db"))
    past.write(*past.tool(2, "Bash", {"command": "make test"}))
    assert past.backfill(home=other).grown == 1
    (session,) = past.sessions(other)
    with past.keeper(other) as keeper:
        events = keeper.events(session.id)
    assert session.commands.total == 2
    assert [event.type for event in events].count("device.joined") == 1
    assert len({event.writer for event in events}) == 2


def test_backfill_reads_everything_again_for_a_new_store(past: Past) -> None:
    """What was read is remembered per store."""
    past.write(past.prompt(0), past.answer(2))
    past.backfill()
    for name in os.listdir(past.home):
        if name.startswith("store.db"):
            os.unlink(past.home / name)
    assert past.backfill().sessions == 1


def test_recent_conversation_stays_open_and_grows(past: Past) -> None:
    """Today's conversation is not over: later parts are added, and half a day later it is over."""
    past.now = BEGAN + 30 * MINUTE
    past.write(past.prompt(0), *past.tool(1, "Bash", {"command": "make"}))
    past.backfill()
    assert (past.session().status, past.session().ended_at) == ("paused", None), "idle, and not over"
    past.write(*past.tool(2, "Bash", {"command": "make test"}), past.answer(4))
    grown = past.backfill()
    assert (grown.sessions, grown.grown) == (0, 1)
    session = past.session()
    assert (session.ended_at, session.commands.total, session.time.working_ms) == (
        None,
        2,
        30 * MINUTE - 26 * MINUTE,
    )
    past.now = BEGAN + 13 * HOUR
    past.backfill()
    session = past.session()
    assert (session.status, session.over, session.commands.total) == ("paused", True, 2)


def test_conversation_reopens_its_over_session(past: Past) -> None:
    """It continued a day later: the same session, as with hooks."""
    past.write(past.prompt(0), past.answer(2))
    past.backfill()
    past.write(past.prompt(26 * 60, "Now the docs"), past.answer(26 * 60 + 3))
    assert past.backfill().grown == 1
    session = past.session()
    assert (session.goal, session.over, session.time.working_ms) == ("Add OAuth with PKCE", True, 5 * MINUTE)
    shutil.rmtree(past.home / "backfilled")
    assert past.backfill().events == 0


def test_later_part_continues_a_finished_session(past: Past) -> None:
    """A session ended by a person stays as it is: the next one names it and has the new part."""
    past.write(past.prompt(0), past.answer(2))
    past.backfill()
    with past.keeper() as keeper:
        keeper.session(past.session().id).complete(at=BEGAN + 3 * MINUTE)
    past.write(past.prompt(26 * 60, "Now the docs"), past.answer(26 * 60 + 3))
    assert past.backfill().sessions == 1
    first, second = past.sessions()
    assert (second.goal, second.continues, second.over) == ("Now the docs", first.id, True)
    assert second.time.working_ms == 3 * MINUTE
    assert tokens(second) == {"input": 10, "output": 20, "cache_read": 300, "cache_write": 0}
    shutil.rmtree(past.home / "backfilled")
    assert past.backfill().events == 0


def test_session_is_named_by_the_agents_own_title(past: Past) -> None:
    """A search still matches the first prompt; a person's own name stays."""
    titled = {"type": "ai-title", "aiTitle": "Languages", "sessionId": TALK}
    past.write(past.prompt(0, "Add French"), past.answer(2), titled)
    past.backfill()
    assert past.session().goal == "Languages"
    with past.keeper() as keeper:
        assert [row.goal for row in keeper.history(search="French", all_projects=True)] == ["Languages"]
        keeper.session(past.session().id).edit(goal="French and Danish")
    past.write(titled | {"aiTitle": "More languages"})
    past.backfill()
    assert past.session().goal == "French and Danish"


def test_fork_continues_its_original(past: Past) -> None:
    """Its session names the original's, and has only its own part."""
    lines = [past.prompt(0), past.answer(2)]
    past.write(*lines)
    copied = [line | {"sessionId": "talk-2", "forkedFrom": {"sessionId": TALK}} for line in lines]
    past.write(*copied, past.prompt(9, "Another way", "talk-2"), past.answer(10, talk="talk-2"), talk="talk-2")
    past.backfill()
    first, second = past.sessions()
    assert (second.goal, second.continues) == ("Another way", first.id)
    assert tokens(second) == {"input": 10, "output": 20, "cache_read": 300, "cache_write": 0}


def test_forked_conversation_without_a_mark_is_recorded_once(past: Past) -> None:
    """Read before its original, it still continues that one, without its commands, agents, hours or tokens.

    That stays so when the original is deleted from disk and the fork continues.
    """
    asked = {"subagent_type": "Explore", "description": "Look around", "prompt": "Look"}
    launched = past.tool(3, "Task", asked, {"status": "async_launched", "agentId": "a1"})
    lines = [past.prompt(0), *past.tool(2, "Bash", {"command": "make"}), *launched, past.answer(4)]
    past.write(*lines)
    alone = past.where / "alone"
    past.backfill(home=alone)
    (original,) = past.sessions(alone)
    fork = "fork-1"
    copied = [line | {"sessionId": fork} for line in lines]
    past.write(*copied, past.prompt(9, "Another way", fork), past.answer(11, talk=fork), talk=fork)
    for home in (past.home, alone):
        past.backfill(home=home)
        first, second = past.sessions(home)
        assert (first.id, first.time, first.agents, first.commands.total) == (
            original.id, original.time, original.agents, 1,
        )  # fmt: skip
        assert (second.goal, second.continues, second.agents) == ("Another way", first.id, [])
        assert (second.time.working_ms, second.commands.total) == (2 * MINUTE, 0)
        assert tokens(second) == {"input": 10, "output": 20, "cache_read": 300, "cache_write": 0}
        assert past.backfill(home=home).events == 0
    (past.transcripts / f"{TALK}.jsonl").unlink()
    past.write(past.prompt(30, "Go on", fork), talk=fork)
    past.backfill()
    first, second = past.sessions()
    assert (second.goal, second.continues) == ("Another way", first.id)
    assert sum(session.commands.total for session in past.sessions()) == 1


def test_working_time_follows_the_rules(past: Past) -> None:
    """A gap of more than five minutes is a pause, and so is an agent's long foreground run."""
    asked = {"subagent_type": "Explore", "description": "Look around", "prompt": "Look"}
    past.write(
        past.prompt(0), past.answer(4), past.prompt(14), past.answer(16),
        *past.tool(17, "Task", asked, {"status": "completed", "agentId": "a1", "totalTokens": 900}, until=32),
        past.answer(33),
    )  # fmt: skip
    past.backfill()
    session = past.session()
    assert [(pause.kind, pause.duration_ms) for pause in session.time.pauses[:2]] == [
        ("idle", 10 * MINUTE),
        ("task", 15 * MINUTE),
    ]
    assert session.time.working_ms == (33 - 25) * MINUTE
    (agent,) = session.agents
    assert (agent.id, agent.type, agent.task, agent.status, agent.tokens) == (
        "a1", "Explore", "Look around", "completed", 900,
    )  # fmt: skip


def test_files_tasks_and_commands_are_recorded(past: Past) -> None:
    """Only files within the project, relative to it; to-dos as they ended; an interrupted agent."""

    def todos(*states: str) -> dict[str, Any]:
        return {"todos": [{"content": f"Step {n}", "status": state} for n, state in enumerate(states)]}

    past.write(
        past.prompt(0),
        *past.tool(1, "Write", {"file_path": str(past.project / "src" / "a.py"), "content": "x"}, {"type": "create"}),
        *past.tool(2, "Write", {"file_path": "/etc/passwd", "content": "x"}, {"type": "create"}),
        *past.tool(2, "Write", {"file_path": "b.py", "content": "x"}),
        *past.tool(3, "TodoWrite", todos("completed", "in_progress", "pending")),
        *past.tool(4, "TodoWrite", todos("completed", "completed")),
        past.tool(5, "Task", {"subagent_type": "Plan", "prompt": "Plan"})[0],
    )
    past.backfill()
    session = past.session()
    assert [(file.path, file.action) for file in session.files] == [("src/a.py", "created"), ("b.py", "modified")]
    assert [(task.text, task.status) for task in session.tasks] == [
        ("Step 0", "completed"), ("Step 1", "completed"), ("Step 2", "dropped"),
    ]  # fmt: skip
    assert [(agent.type, agent.status) for agent in session.agents] == [("Plan", "interrupted")]


def test_hashes_of_past_edits_are_recorded_only_when_reliable(past: Past, tmp_path: Path) -> None:
    """Of a new file as shown, and of one still on disk: Claude may show wrong line ends. Links are not followed."""

    def edit(minute: float, name: str, before: str, old: str, new: str) -> list[dict[str, Any]]:
        shown = {"filePath": str(past.project / name), "oldString": old, "newString": new, "originalFile": before}
        return past.tool(minute, "Edit", {"file_path": str(past.project / name)}, shown)

    def write(minute: float, name: str, content: str, kind: str) -> list[dict[str, Any]]:
        given = {"file_path": str(past.project / name), "content": content}
        return past.tool(minute, "Write", given, {"type": kind, "filePath": given["file_path"]})

    (past.project / "crlf").write_bytes(b"1\r\n2\r\n")
    (past.project / "lf").write_bytes(b"1\n2\n")
    (tmp_path / "secret").write_bytes(b"1\n2\n")
    (past.project / "link").symlink_to(tmp_path / "secret")
    past.write(
        past.prompt(0),
        *(line for name in ("crlf", "lf", "link") for line in edit(1, name, "a\nb\n", "a", "1")),
        *(line for name in ("crlf", "lf", "link") for line in edit(2, name, "1\nb\n", "b", "2")),
        *write(3, "own", "a\n", "create"), *edit(4, "own", "a\n", "a", "b"), *edit(5, "own", "c\n", "c", "d"),
        *write(6, "again", "a", "update"),
    )  # fmt: skip
    past.backfill()
    with past.keeper() as keeper:
        (row,) = keeper.history(limit=None, all_projects=True)
        changes = keeper.state(row.id).files
    sums = {None: None} | {
        hashlib.sha256(name.encode()).hexdigest(): name for name in ("a\n", "b\n", "1\nb\n", "1\n2\n")
    }
    assert [(change.path, sums[change.hash_before], sums[change.hash_after]) for change in changes] == [
        ("crlf", None, None), ("lf", None, "1\nb\n"), ("link", None, None),
        ("crlf", None, None), ("lf", "1\nb\n", "1\n2\n"), ("link", None, None),
        ("own", None, "a\n"), ("own", "a\n", "b\n"), ("own", None, None), ("again", None, None),
    ]  # fmt: skip


def test_secrets_are_removed_before_storing(past: Past) -> None:
    """From goal and commands."""
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    past.write(past.prompt(0, f"Use {key}"), *past.tool(1, "Bash", {"command": f"curl -H 'token: {key}'"}))
    past.backfill()
    for name in os.listdir(past.home):
        path = past.home / name
        if path.is_file():
            assert key.encode() not in path.read_bytes()
    assert "[redacted" in past.session().goal


def test_damage_is_reported_and_the_rest_is_read(past: Past) -> None:
    """A cut line, garbage and NULs cost what they hit; an unreadable file costs itself."""
    past.write(past.prompt(0), past.answer(1))
    path = past.transcripts / f"{TALK}.jsonl"
    path.write_bytes(path.read_bytes() + b"rubbish\n\0\0\0\0\n" + b'{"type":"user","uuid":"x')
    (past.transcripts / "empty.jsonl").write_bytes(b"")
    (past.transcripts / "rubbish.jsonl").write_bytes(b"\xff\xfe\0\n" * 10)
    report = past.backfill()
    assert report.sessions == 1
    assert any("talk-1.jsonl: line 3 is not JSON" in problem for problem in report.problems)
    assert any("talk-1.jsonl: line 5 is cut off" in problem for problem in report.problems)
    assert any("rubbish.jsonl" in problem for problem in report.problems)


def test_agents_files_stay_unchanged(past: Past) -> None:
    """Content, times and names."""
    past.write(past.prompt(0), past.answer(1))
    (past.transcripts / "bad.jsonl").write_bytes(b"{{{")

    def tree() -> list[tuple[str, int, int, bytes]]:
        files = []
        for path in sorted((past.where / "person").rglob("*")):
            status = path.stat()
            content = path.read_bytes() if path.is_file() else b""
            files.append((str(path), status.st_mtime_ns, status.st_mode, content))
        return files

    before = tree()
    past.backfill()
    past.backfill()
    assert tree() == before


def test_backfill_skips_conversations_that_ended_before_since(past: Past) -> None:
    """Without `since` they are read."""
    past.write(past.prompt(0), past.answer(1))
    past.write(past.prompt(24 * 60, talk="talk-2"), past.answer(24 * 60 + 1, talk="talk-2"), talk="talk-2")
    assert past.backfill(since=BEGAN + 12 * HOUR).sessions == 1
    assert past.backfill().sessions == 1
    assert len(past.sessions()) == 2


def test_backfill_does_not_restore_deleted_sessions(past: Past) -> None:
    past.write(past.prompt(0), past.answer(1))
    past.backfill()
    with past.keeper() as keeper:
        keeper.delete(keeper.history(all_projects=True)[0].id, force=True)
    shutil.rmtree(past.home / "backfilled")
    past.write(past.prompt(60), past.answer(61))
    report = past.backfill()
    assert (report.sessions, report.events) == (0, 0)
    assert past.sessions() == []


def test_interrupted_backfill_keeps_what_it_recorded(past: Past) -> None:
    """The next one continues without duplicates."""
    for number in range(60):
        talk = f"talk-{number:02d}"
        past.write(past.prompt(number, talk=talk), past.answer(number + 1, talk=talk), talk=talk)
    count = 0

    def stop(done: int, total: int, name: str) -> None:
        nonlocal count
        assert done <= total
        count += 1
        if count == 55:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        past.backfill(progress=stop)
    kept = len(past.sessions())
    assert 0 < kept < 60
    report = past.backfill()
    assert report.sessions == 60 - kept
    assert report.read == 60 - kept
    assert len(past.sessions()) == 60


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["prompt", "answer", "bash", "write", "todo", "task", "task-open", "limit", "compact"]),
        st.sampled_from([0.1, 1, 4, 6, 12, 40]),
        st.integers(0, 3),
    ),
    max_size=14,
)  # fmt: skip


@given(steps=STEPS, cut=st.integers(0, 14))
def test_backfill_in_two_steps_equals_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, float, int]], cut: int
) -> None:
    """However much of the conversation existed at the first."""
    past = Past(tmp_path_factory.mktemp("past"))
    lines: list[dict[str, Any]] = [past.prompt(0)]
    minute = 0.0
    places = [1]
    for what, pause, number in steps:
        minute += pause
        lines += _step(past, what, minute, number)
        places.append(len(lines))
    past.now = BEGAN + round(minute * MINUTE) + HOUR
    begun = places[min(cut, len(places) - 1)]
    past.write(*lines[:begun])
    past.backfill()
    past.write(*lines[begun:])
    past.backfill()
    past.backfill(home=past.where / "other-home")
    (here,), (there,) = past.sessions(), past.sessions(past.where / "other-home")
    for name in ("id", "goal", "status", "model", "time", "commands", "files", "context", "errors", "extra"):
        assert getattr(here, name) == getattr(there, name), name
    assert [(task.text, task.status) for task in here.tasks] == [(task.text, task.status) for task in there.tasks]
    assert [(agent.id, agent.status, agent.duration_ms) for agent in here.agents] == [
        (agent.id, agent.status, agent.duration_ms) for agent in there.agents
    ]
    assert here.conflicts == there.conflicts == []


def _step(past: Past, what: str, minute: float, number: int) -> list[dict[str, Any]]:
    match what:
        case "prompt":
            return [past.prompt(minute, f"And {number}")]
        case "bash":
            return past.tool(minute, "Bash", {"command": f"make {number}"})
        case "write":
            return past.tool(minute, "Write", {"file_path": f"f{number}.py", "content": "x"})
        case "todo":
            states = ("pending", "in_progress", "completed")
            todos = [{"content": f"Step {n}", "status": states[(n + number) % 3]} for n in range(number)]
            return past.tool(minute, "TodoWrite", {"todos": todos})
        case "task":
            result = {"status": "completed", "agentId": f"a{number}"}
            return past.tool(minute, "Task", {"subagent_type": "Plan", "prompt": "x"}, result, until=minute + 0.05)
        case "task-open":
            return past.tool(minute, "Task", {"subagent_type": "Plan", "prompt": "x"})[:1]
        case "limit":
            content = [{"type": "text", "text": "You've hit your limit"}]
            return [past.line(minute, "assistant", content, isApiErrorMessage=True, error="rate_limit")]
        case "compact":
            bare = past.line(minute, "system", "")
            return [bare | {"subtype": "compact_boundary", "compactMetadata": {"postTokens": number}}]
        case _:
            return [past.answer(minute)]


@pytest.fixture
def with_hooks(tmp_path: Path) -> tuple[Past, AgentHooks]:
    """The same home with hooks connected."""
    spoken = AgentHooks(tmp_path)
    return Past(tmp_path), spoken


def test_backfill_adds_nothing_that_hooks_recorded(with_hooks: tuple[Past, AgentHooks]) -> None:
    """Only the part before the hooks is added, as a session of its own."""
    past, spoken = with_hooks
    spoken.minute = 100
    spoken.prompt("Add OAuth with PKCE")
    spoken.minute = 101
    spoken.say("PostToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_response={}, tool_use_id="t1")
    spoken.session()
    past.write(past.prompt(100), *past.tool(101, "Bash", {"command": "make"}), past.answer(102))
    assert past.backfill().events == 0
    assert len(past.sessions()) == 1
    shutil.rmtree(past.home / "backfilled", ignore_errors=True)
    lines = (past.transcripts / f"{TALK}.jsonl").read_text()
    (past.transcripts / f"{TALK}.jsonl").unlink()
    past.write(past.prompt(1, "Look at the login"), past.answer(3))
    with (past.transcripts / f"{TALK}.jsonl").open("a") as file:
        file.write(lines)
    assert past.backfill().sessions == 1
    earlier, recorded = past.sessions()
    assert (earlier.goal, earlier.status, earlier.commands.total) == ("Look at the login", "paused", 0)
    assert (recorded.goal, recorded.commands.total) == ("Add OAuth with PKCE", 1)


def _read(past: Past, spoken: AgentHooks) -> list[Session]:
    """Drain the payloads and read the transcripts; oldest session first."""
    with spoken.keeper() as keeper:
        keeper.agent_dirs = AgentDirs(str(past.where / "person"), str(past.project))
        keeper.compare()
    return spoken.sessions()


def test_fork_continues_its_parent_when_it_is_recorded_live(with_hooks: tuple[Past, AgentHooks]) -> None:
    """Hooks name no parent: the transcript does, and is read at the end of the turn."""
    past, spoken = with_hooks
    lines = [past.prompt(0), past.answer(2)]
    past.write(*lines)
    copied = [line | {"sessionId": "talk-2", "forkedFrom": {"sessionId": TALK}} for line in lines]
    past.write(*copied, past.prompt(9, "Another way", "talk-2"), past.answer(10, talk="talk-2"), talk="talk-2")
    for minute, talk, words in ((0, TALK, "Add OAuth with PKCE"), (9, "talk-2", "Another way")):
        spoken.minute = minute
        spoken.prompt(words, talk)
        spoken.minute = minute + 1
        spoken.say("Stop", talk, last_assistant_message="Done.")
    first, second = _read(past, spoken)
    assert (first.continues, second.continues) == (None, first.id)


def test_session_recorded_live_is_named_by_the_agents_own_title(with_hooks: tuple[Past, AgentHooks]) -> None:
    """Before there is one, by its first prompt, which a search still matches; a person's own name stays."""
    past, spoken = with_hooks
    past.write(past.prompt(0, "Add French"), past.answer(1))
    spoken.prompt("Add French", TALK)
    spoken.minute = 1
    spoken.say("Stop", TALK, last_assistant_message="Done.")
    assert [session.goal for session in _read(past, spoken)] == ["Add French"]
    titled = {"type": "ai-title", "aiTitle": "Languages", "sessionId": TALK}
    past.write(titled)
    spoken.minute = 2
    spoken.say("Stop", TALK, last_assistant_message="Done again.")
    assert [session.goal for session in _read(past, spoken)] == ["Languages"]
    with spoken.keeper() as keeper:
        assert len(keeper.history(search="French")) == 1
        keeper.session().edit(goal="French and Danish")
    past.write(titled | {"aiTitle": "More languages"})
    spoken.minute = 3
    spoken.say("Stop", TALK, last_assistant_message="Done once more.")
    assert [session.goal for session in _read(past, spoken)] == ["French and Danish"]


def test_prompt_written_just_before_its_hook_is_recorded_once(with_hooks: tuple[Past, AgentHooks]) -> None:
    """Agents write a prompt to the transcript, then run the hook."""
    past, spoken = with_hooks
    spoken.minute = 100
    spoken.prompt("Add OAuth with PKCE")
    spoken.session()
    past.write(past.prompt(99.9), past.answer(102))
    assert past.backfill().events == 0
    assert len(past.sessions()) == 1


def test_session_without_a_reported_prompt_gets_its_goal_from_the_transcript(
    with_hooks: tuple[Past, AgentHooks],
) -> None:
    """Some hooks report no prompts: the session is named afterwards, once."""
    past, spoken = with_hooks
    spoken.minute = 100
    spoken.say("PostToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_response={}, tool_use_id="t1")
    assert spoken.session().goal == "Work with claude"
    past.write(past.prompt(99.9, "Add OAuth"), past.answer(102))
    past.backfill()
    (session,) = past.sessions()
    assert session.goal == "Add OAuth"
    past.backfill()
    assert spoken.types().count("session.edited") == 1


def test_backfill_does_not_restore_a_deleted_session_of_hooks(with_hooks: tuple[Past, AgentHooks]) -> None:
    """The agent still has the conversation; only a digest of its id is stored."""
    past, spoken = with_hooks
    spoken.minute = 100
    spoken.prompt("Private words")
    with spoken.keeper() as keeper:
        keeper.delete(keeper.session().id, force=True)
    past.write(past.prompt(100, "Private words"), past.answer(102))
    assert past.backfill().events == 0
    assert past.sessions() == []


def test_hooks_continue_a_backfilled_session_without_duplicates(with_hooks: tuple[Past, AgentHooks]) -> None:
    """A recent conversation is backfilled first, and recorded by hooks from there on."""
    past, spoken = with_hooks
    past.now = BEGAN + 10 * MINUTE
    past.write(past.prompt(0), *past.tool(1, "Bash", {"command": "make"}))
    past.backfill()
    spoken.minute = 12
    spoken.prompt("Go on")
    spoken.say(
        "PostToolUse", tool_name="Bash", tool_input={"command": "make test"}, tool_response={}, tool_use_id="t"
    )
    past.write(past.prompt(12, "Go on"), *past.tool(12, "Bash", {"command": "make test"}))
    for now in (BEGAN + 20 * MINUTE, BEGAN + 20 * HOUR):
        past.now = now
        past.backfill()
        session = past.session()
        assert (session.commands.total, session.ended_at) == (2, None)


@pytest.mark.parametrize(
    ("path", "cwd", "roots", "where"),
    [
        ("/p/src/a.py", "/p", ("/p",), "src/a.py"),
        ("src/a.py", "/p/sub", ("/p",), "sub/src/a.py"),
        ("../x", "/p", ("/p",), None),
        ("/p/../etc/passwd", "/p", ("/p",), None),
        ("/px/a", "/p", ("/p",), None),
        ("/p", "/p", ("/p",), None),
        ("C:\\p\\src\\a.py", "C:\\p", ("C:\\p",), "src/a.py"),
        ("src\\a.py", "C:\\p", ("C:\\p",), "src/a.py"),
        ("D:\\a.py", "C:\\p", ("C:\\p",), None),
        ("a\0b", "/p", ("/p",), None),
        ("a.py", None, (), None),
    ],
)
def test_backfilled_paths_are_relative_to_the_project(
    path: str, cwd: str | None, roots: tuple[str, ...], where: str | None
) -> None:
    """On any system, by names alone; paths outside are not recorded."""
    assert project_path(path, cwd, roots) == where


def test_backfill_continues_when_one_reader_fails(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failing file is named, and everything else is read."""
    from holdfast.conversations.adapters.claude import transcript

    past.write(past.prompt(0), past.answer(1))
    past.write(past.prompt(0, talk="talk-2"), past.answer(1, talk="talk-2"), talk="talk-2")
    really = transcript._read

    def stumbling(source: Any, *more: Any) -> Any:
        if "talk-2" in source.path:
            raise TypeError
        return really(source, *more)

    monkeypatch.setattr(transcript, "_read", stumbling)
    report = past.backfill()
    assert report.sessions == 1
    assert [problem.rpartition(": ")[2] for problem in report.problems] == ["cannot be read (TypeError)"]
    monkeypatch.undo()
    assert past.backfill().sessions == 1


ANY = st.text(st.characters(exclude_categories=()), max_size=12) | st.sampled_from(
    [
        "",
        "x" * 5_000,
        "../../etc",
        "C:\\x",
        "/a/b",
        "\0",
        "\ud800",
        "a\nb",
        "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    ]
)
MAYBE = st.none() | ANY
WHOLE = st.integers(-(10**30), 10**30) | st.integers(0, 5)
SIGNALS = st.one_of(
    st.builds(Prompted, text=ANY),
    st.builds(Ran, command=ANY, code=WHOLE, took_ms=st.none() | WHOLE, agent=MAYBE),
    st.builds(Edited, path=ANY, agent=MAYBE, before=st.none(), lines_added=st.none() | WHOLE),
    st.builds(AgentBegan, agent=MAYBE, type=ANY, task=MAYBE, background=st.booleans()),
    st.builds(AgentEnded, agent=MAYBE, call=MAYBE, type=MAYBE, summary=MAYBE, failed=MAYBE, tokens=st.none() | WHOLE),
    st.builds(Planned, todos=st.lists(st.builds(Todo, ANY, st.just("completed"), MAYBE), max_size=3).map(tuple)),
    st.builds(Erred, message=ANY, agent=MAYBE),
    st.builds(Limited, reason=ANY),
    st.builds(Compacted, tokens=st.none() | WHOLE),
    st.builds(Measured, tokens=st.none() | WHOLE, window=st.none() | WHOLE, cost_usd=st.none() | st.floats()),
    st.builds(Active),
)
MOMENTS = st.integers(BEGAN, BEGAN + DAY) | st.sampled_from([-(10**15), 0, 10**15])


@given(
    timed=st.lists(st.tuples(MOMENTS, SIGNALS, ANY), max_size=8, unique_by=lambda one: one[2]),
    signs=st.lists(MOMENTS, max_size=5),
    words=st.lists(MAYBE, min_size=7, max_size=7),
    tokens=WHOLE,
    cost=st.none() | st.floats(),
)
def test_any_transcript_can_be_recorded(
    tmp_path_factory: pytest.TempPathFactory,
    timed: list[tuple[int, Any, str]],
    signs: list[int],
    words: list[str | None],
    tokens: int,
    cost: float | None,
) -> None:
    """Nothing is raised, the store stays valid, and a second backfill adds nothing."""
    past = Past(tmp_path_factory.mktemp("past"))
    timed.sort(key=lambda one: one[0])

    def story() -> Transcript:
        return Transcript(
            agent="claude", conversation=words[0] or "talk", began=min(signs, default=0), ended=max(signs, default=0),
            cwd=words[1], branch=words[2], title=words[3], model=words[4], resume=words[5], parent=words[6],
            signals=[TimedSignal(*line) for line in timed], signs=list(signs), input_tokens=tokens, cost_usd=cost,
        )  # fmt: skip

    with past.keeper() as keeper:
        recorder = TranscriptRecorder(keeper)
        events = []
        for _ in range(2):
            recorder.prepare(story())
            with keeper.store().transaction() as transaction:
                events.append(recorder.record(transaction, story()).events)
        assert events[1] == 0
        assert list(keeper.store().check()) == []
        for row in keeper.history(limit=None, all_projects=True):
            assert view.session(keeper.state(row.id), past.now).conflicts == []
