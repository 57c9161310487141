"""What only Claude Code does, with its real program: opening without a prompt, task tools, failures of the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.real import real_programs
from tests.real.real_plays import CLAUDE, GOAL
from tests.real.real_stage import Stage
from tests.real.scripted_model import USED_UP, Step

real_programs.wanted()
pytestmark = real_programs.needs("claude")

REPOSITORY = Path(__file__).parents[2]


def test_opening_and_closing_is_no_work(tmp_path: Path) -> None:
    """`claude --init-only` fires real hooks, and starts no session."""
    stage = CLAUDE.stage(tmp_path)
    ran = stage.run("claude", "--init-only", environ=CLAUDE.environ)
    assert ran.code == 0, ran.said
    assert stage.holdfast("status")["session"] is None
    assert stage.sessions() == []


def test_tasks_and_permission_mode_are_recorded(tmp_path: Path) -> None:
    """The model's own task list becomes tasks; commands that failed are counted as such."""
    stage = CLAUDE.stage(tmp_path)
    CLAUDE.works(stage)
    session = stage.session()
    [task] = session["tasks"]
    assert (task["text"], task["status"]) == ("Add the cart", "completed")
    assert task["started_at"] <= task["completed_at"]
    assert session["commands"]["failed"] == 1
    assert session["extra"]["permission_modes"] == {"claude": "acceptEdits"}


def test_a_model_nobody_can_reach_is_a_transient_failure(tmp_path: Path) -> None:
    """`claude -p hi` with no network at all ends by itself: session, failure with its category, and the end."""
    stage = CLAUDE.stage(tmp_path)
    session = _until_told(stage, None, lambda session: bool(session["errors"]))
    assert session["goal"] == "hi"
    assert {error["category"] for error in session["errors"]} == {"transient"}
    assert "native.closed" in [event["type"] for event in stage.events("@")]


def test_a_usage_limit_pauses_the_session(tmp_path: Path) -> None:
    """When all that was paid for is used up, the clock stops, and the reason stands there."""
    stage = CLAUDE.stage(tmp_path)
    steps: list[Step] = [{"tool": USED_UP, "input": {}}]
    session = _until_told(stage, steps, lambda session: session["status"] == "paused")
    assert session["time"]["pauses"][-1]["reason"].startswith("Usage limit: ")


def _until_told(
    stage: Stage, steps: list[Step] | None, told: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:  # fmt: skip
    """Claude Code does not wait for the hook that tells of a failure: on a busy machine it ends before."""
    for _ in range(5):
        ran = stage.run("claude", "-p", "hi", steps=steps, environ=CLAUDE.environ)
        assert ran.code != 0
        session = stage.session()
        if told(session):
            return session
    pytest.fail("five failures, and none was told")


def test_compaction_is_a_save_and_a_compression(tmp_path: Path) -> None:
    """`/compact` of a conversation is recorded once, though it is told before and after."""
    stage = CLAUDE.stage(tmp_path)
    CLAUDE.works(stage)
    [native] = stage.session()["native"]
    ran = stage.run("claude", "--resume", native["id"], "-p", "/compact", steps=[], environ=CLAUDE.environ)
    assert ran.code == 0, ran.said
    assert stage.session()["context"]["compressions"] == 1
    assert "session.saved" in [event["type"] for event in stage.events("@")]


def test_project_scope_is_heard_and_given_back(tmp_path: Path) -> None:
    """Connected for one project, its settings file is made for it and gone afterwards."""
    stage = CLAUDE.stage(tmp_path)
    stage.holdfast("disconnect", "claude")
    stage.holdfast("connect", "claude", "--scope", "project")
    CLAUDE.speaks(stage, GOAL)
    assert [session["goal"] for session in stage.sessions()] == [GOAL]
    stage.holdfast("disconnect", "claude")
    assert not (stage.project / ".claude").exists()


def test_plugin_and_connection_together_hear_everything_once(tmp_path: Path) -> None:
    """Whoever has installed the plugin as well as connected hears each thing twice, and it is recorded once."""
    stage = CLAUDE.stage(tmp_path)
    for words in (("marketplace", "add", str(REPOSITORY)), ("install", "holdfast@holdfast")):
        ran = stage.run("claude", "plugin", *words, environ=CLAUDE.environ)
        assert ran.code == 0, ran.said
    CLAUDE.works(stage)
    kinds = [event["type"] for event in stage.events("@")]
    assert [kind for kind in kinds if kind.startswith("task.")] == ["task.added", "task.started", "task.completed"]
    for kind in ("session.started", "native.linked", "agent.started", "agent.completed", "native.closed"):
        assert kinds.count(kind) == 1, kinds
    for kind in ("file.changed", "command.ran", "message.exchanged"):
        assert kinds.count(kind) == 2, kinds
    stage.holdfast("disconnect", "claude")
    CLAUDE.speaks(stage, "Once more")
    assert [session["goal"] for session in stage.sessions()].count("Once more") == 1
