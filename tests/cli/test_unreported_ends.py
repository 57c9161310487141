"""Conversations and agents that ended without a report, waits for the person, and undoing a `stop`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.workspace import spool
from tests.support import processes
from tests.support.command_line import Calling

TALK = "11111111-2222-4333-8444-555555555555"


class ClaudeProject(Calling):
    """A project in which Claude Code runs as a process that a test can end."""

    def begin(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], stdin=subprocess.DEVNULL)

    def payload_of(self, program: subprocess.Popen[bytes], event: str, **fields: object) -> None:
        payload = {"session_id": TALK, "cwd": str(self.project), "hook_event_name": event, **fields}
        spool.add_payload(str(self.home), "claude", "user", program.pid, json.dumps(payload).encode())


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> ClaudeProject:
    return ClaudeProject(tmp_path, monkeypatch, capsys)


def test_status_names_a_conversation_when_its_program_died(cli: ClaudeProject) -> None:
    """It never reported its end; what it waited for is not shown any more."""
    program = cli.begin()
    try:
        cli.payload_of(program, "UserPromptSubmit", prompt="Empty the carts")
        cli.payload_of(program, "PermissionRequest", tool_name="Bash", tool_input={"command": "rm -rf carts"})
        alive = cli("status").out
        assert "Waiting for you" in alive
        assert "Ended without a report" not in alive
    finally:
        processes.end(program)
    dead = cli("status").out
    assert "Waiting for you" not in dead
    assert "Ended without a report" in dead
    assert "claude" in dead
    assert "holdfast resume" in dead
    document = cli.document("status")
    assert document["session"]["waiting"] == []
    assert any("ended without a report" in note for note in document["notes"])


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("UserPromptSubmit", {"prompt": "Never mind"}),
        ("PostToolUse", {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_response": {}}),
        ("Stop", {}),
        ("SessionEnd", {"reason": "exit"}),
    ],
    ids=["prompt", "tool", "turn", "end"],
)
def test_waiting_ends_when_its_cause_is_over(cli: ClaudeProject, event: str, fields: dict[str, object]) -> None:
    """By a later prompt, the use of the tool, or the end of turn or conversation."""
    program = cli.begin()
    try:
        cli.payload_of(program, "UserPromptSubmit", prompt="Empty the carts")
        cli.payload_of(program, "PermissionRequest", tool_name="Bash", tool_input={"command": "rm -rf carts"})
        assert len(cli.session("status")["waiting"]) == 1
        cli.payload_of(program, event, **fields)
        assert cli.session("status")["waiting"] == []
    finally:
        processes.end(program)


def test_prompt_ends_the_waiting_of_a_subagent(cli: ClaudeProject) -> None:
    """A new prompt means that the question is settled."""
    program = cli.begin()
    try:
        cli.payload_of(program, "UserPromptSubmit", prompt="Empty the carts")
        cli.payload_of(program, "SubagentStart", agent_id="a1b2c3d4", agent_type="reviewer")
        cli.payload_of(
            program, "PermissionRequest", tool_name="Bash", tool_input={"command": "ls"}, agent_id="a1b2c3d4"
        )
        assert len(cli.session("status")["waiting"]) == 1
        cli.payload_of(program, "UserPromptSubmit", prompt="Something else")
        assert cli.session("status")["waiting"] == []
    finally:
        processes.end(program)


def test_stop_names_the_agents_that_still_run(cli: ClaudeProject) -> None:
    """They are recorded as aborted, but nothing stops them."""
    cli("start", "Carts")
    opaque = "a55cae90-daa8-4ec4-9b81-a177f4ac06a7"
    cli("agent", "start", opaque, "--type", "reviewer", "--pid", str(os.getpid()))
    cli("agent", "start", "finished", "--type", "reviewer")
    cli("agent", "done", "finished")
    stopped = cli("stop")
    assert "Still running, and not stopped by this: reviewer-1." in stopped.err
    assert "finished" not in stopped.err


def test_stop_names_no_agents_when_none_runs(cli: ClaudeProject) -> None:
    """An agent whose process has ended does not run."""
    cli("start", "Carts")
    program = cli.begin()
    cli("agent", "start", "crashed", "--type", "reviewer", "--pid", str(program.pid))
    processes.end(program)
    assert cli.document("stop")["at_work"] == []


def test_resume_of_a_completed_session_starts_one_that_continues_it(cli: ClaudeProject) -> None:
    """It undoes a `stop`: the new session has goal and open tasks, and says so."""
    first = cli.session("start", "Carts", "--scope", "shop")["id"]
    for text in ("Empty them", "Fill them", "Sell them"):
        cli("task", "add", text)
    cli("task", "done", "t1")
    cli("task", "start", "t2")
    cli("stop")
    resumed = cli("resume", first[:8])
    assert resumed.code == 0
    assert f"Session {first[:8]} is completed: " in resumed.err
    assert "continues it, with 2 open tasks." in resumed.err
    session = cli.session("status")
    assert (session["continues"], session["goal"], session["scope"]) == (first, "Carts", "shop")
    assert [(task["id"], task["status"]) for task in session["tasks"]] == [("t2", "in_progress"), ("t3", "pending")]
    assert cli.session("show", first)["status"] == "completed"


def test_resume_of_an_aborted_session_reports_the_new_session_in_json(cli: ClaudeProject) -> None:
    """In its notes."""
    first = cli.session("start", "Carts")["id"]
    cli("abort")
    document = cli.document("resume", first)
    assert document["session"]["continues"] == first
    assert any(f"Session {first[:8]} is aborted" in note for note in document["notes"])


def test_conversation_list_shows_the_latest_session_when_none_is_current(cli: ClaudeProject) -> None:
    """With all documented fields, whether a transcript was read or not."""
    cli.refused(3, "conversation", "list")
    program = cli.begin()
    try:
        cli.payload_of(program, "UserPromptSubmit", prompt="Empty the carts")
        (listed,) = cli.document("conversation", "list")["conversations"]
    finally:
        processes.end(program)
    assert list(listed) == [
        "id", "agent", "title", "model", "started_at", "ended_at", "prompts", "kept", "resume", "cost_usd", "tokens"
    ]  # fmt: skip
    assert list(listed["tokens"]) == ["input", "output", "cache_read", "cache_write"]
    assert (listed["id"], listed["agent"], listed["kept"], listed["ended_at"]) == (TALK, "claude", False, None)
    cli("stop")
    code, out, err = cli("conversation", "list")
    assert code == 0
    assert "claude" in out
    assert "the latest is" in err
