"""Behaviour of the real Claude Code alone: opening without a prompt, task tools, failures of the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.real import real_programs
from tests.real.agent_tasks import CLAUDE, GOAL
from tests.real.machine import Machine
from tests.real.scripted_model import USED_UP, Step

real_programs.skip_unless_requested()
pytestmark = real_programs.needs("claude")

REPOSITORY = Path(__file__).parents[2]


def test_opening_without_a_prompt_starts_no_session(tmp_path: Path) -> None:
    """`claude --init-only` runs real hooks."""
    machine = CLAUDE.machine(tmp_path)
    ran = machine.run("claude", "--init-only", environ=CLAUDE.environ)
    assert ran.code == 0, ran.output
    assert machine.holdfast("status")["session"] is None
    assert machine.sessions() == []


def test_tasks_and_permission_mode_are_recorded(tmp_path: Path) -> None:
    """The model's task list becomes tasks; failed commands are counted as failed."""
    machine = CLAUDE.machine(tmp_path)
    CLAUDE.run_task(machine)
    session = machine.session()
    [task] = session["tasks"]
    assert (task["text"], task["status"]) == ("Add the cart", "completed")
    assert task["started_at"] <= task["completed_at"]
    assert session["commands"]["failed"] == 1
    assert session["extra"]["permission_modes"] == {"claude": "acceptEdits"}


def test_unreachable_model_is_a_transient_failure(tmp_path: Path) -> None:
    """`claude -p hi` without a network: a session, the failure with its category, and the end."""
    machine = CLAUDE.machine(tmp_path)
    session = _run_until_recorded(machine, None, lambda session: bool(session["errors"]))
    assert session["goal"] == "hi"
    assert {error["category"] for error in session["errors"]} == {"transient"}
    assert "native.closed" in [event["type"] for event in machine.events("@")]


def test_usage_limit_pauses_the_session(tmp_path: Path) -> None:
    """With its reason."""
    machine = CLAUDE.machine(tmp_path)
    steps: list[Step] = [{"tool": USED_UP, "input": {}}]
    session = _run_until_recorded(machine, steps, lambda session: session["status"] == "paused")
    assert session["time"]["pauses"][-1]["reason"].startswith("Usage limit: ")


def _run_until_recorded(
    machine: Machine, steps: list[Step] | None, recorded: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:  # fmt: skip
    """Claude Code does not wait for the hook that reports a failure: on a busy machine it ends first."""
    for _ in range(5):
        ran = machine.run("claude", "-p", "hi", steps=steps, environ=CLAUDE.environ)
        assert ran.code != 0
        session = machine.session()
        if recorded(session):
            return session
    pytest.fail("five failures, and none was told")


def test_compaction_is_a_save_and_a_compression(tmp_path: Path) -> None:
    """`/compact` is recorded once, though reported before and after."""
    machine = CLAUDE.machine(tmp_path)
    CLAUDE.run_task(machine)
    [native] = machine.session()["native"]
    ran = machine.run("claude", "--resume", native["id"], "-p", "/compact", steps=[], environ=CLAUDE.environ)
    assert ran.code == 0, ran.output
    assert machine.session()["context"]["compressions"] == 1
    assert "session.saved" in [event["type"] for event in machine.events("@")]


def test_project_scope_is_recorded_and_disconnected(tmp_path: Path) -> None:
    """Its settings file is created for the project and removed afterwards."""
    machine = CLAUDE.machine(tmp_path)
    machine.holdfast("disconnect", "claude")
    machine.holdfast("connect", "claude", "--scope", "project")
    CLAUDE.run_prompt(machine, GOAL)
    assert [session["goal"] for session in machine.sessions()] == [GOAL]
    machine.holdfast("disconnect", "claude")
    assert not (machine.project / ".claude").exists()


def test_plugin_with_connection_records_everything_once(tmp_path: Path) -> None:
    machine = CLAUDE.machine(tmp_path)
    for words in (("marketplace", "add", str(REPOSITORY)), ("install", "holdfast@holdfast")):
        ran = machine.run("claude", "plugin", *words, environ=CLAUDE.environ)
        assert ran.code == 0, ran.output
    CLAUDE.run_task(machine)
    kinds = [event["type"] for event in machine.events("@")]
    assert [kind for kind in kinds if kind.startswith("task.")] == ["task.added", "task.started", "task.completed"]
    for kind in ("session.started", "native.linked", "agent.started", "agent.completed", "native.closed"):
        assert kinds.count(kind) == 1, kinds
    for kind in ("file.changed", "command.ran", "message.exchanged"):
        assert kinds.count(kind) == 2, kinds
    machine.holdfast("disconnect", "claude")
    CLAUDE.run_prompt(machine, "Once more")
    assert [session["goal"] for session in machine.sessions()].count("Once more") == 1
