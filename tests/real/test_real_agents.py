"""The real Claude Code, Codex and Gemini CLI, connected and at work, without a network and without a person.

The results are read by Holdfast's own commands.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.real import real_programs
from tests.real.agent_tasks import FIRST, GOAL, SECOND, TASKS, AgentTask
from tests.real.machine import Machine
from tests.real.scripted_model import ERRAND_WORDS, SILENCE

real_programs.skip_unless_requested()


class FinishedTask(NamedTuple):
    task: AgentTask
    machine: Machine
    session: dict[str, Any]
    events: list[dict[str, Any]]


@pytest.fixture(scope="module", params=TASKS)
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> FinishedTask:
    """A connected agent that has done its task once; the tests only read."""
    task: AgentTask = request.param
    machine = task.machine(tmp_path_factory.mktemp(task.agent))
    task.run_task(machine)
    session = machine.session()
    return FinishedTask(task, machine, session, machine.events(session["id"]))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# ── what hooks record ────────────────────────────────────────────────────────────────────────────────────


def test_first_prompt_starts_one_session(finished: FinishedTask) -> None:
    """Its text is the goal, the directory its project."""
    assert [session["goal"] for session in finished.machine.sessions()] == [GOAL]
    assert (finished.session["status"], finished.session["over"]) == ("paused", False), "its conversation is closed"
    assert finished.session["project"]["path"] == str(finished.machine.project)
    assert finished.session["project"]["git_branch"] == "main"
    assert {event["actor"] for event in finished.events} == {finished.task.agent}


def test_conversation_can_be_reopened_and_its_end_is_recorded(finished: FinishedTask) -> None:
    """The program's own id is stored with the command that reopens it."""
    [native] = finished.session["native"]
    assert native["agent"] == finished.task.agent
    assert native["resume"] == finished.task.reopening.replace("ID", native["id"])
    kinds = [event["type"] for event in finished.events]
    assert kinds.count("native.closed") == 1
    after = kinds[kinds.index("native.closed") + 1 :]
    assert set(after) <= {"conversation.updated", "session.edited", "context.measured"}, "what the transcript says"
    assert kinds.count("message.exchanged") >= 2


def test_edits_become_file_changes_with_their_hashes(finished: FinishedTask) -> None:
    """The final hash equals the file on disk."""
    created, modified = finished.session["files"]
    assert (created["path"], created["action"], created["lines_added"]) == ("cart.py", "created", 2)
    assert created["hash_after"] == digest(FIRST)
    assert (modified["path"], modified["action"]) == ("cart.py", "modified")
    assert (modified["hash_before"], modified["hash_after"]) == (digest(FIRST), digest(SECOND))
    assert (finished.machine.project / "cart.py").read_text() == SECOND


def test_shell_commands_are_counted(finished: FinishedTask) -> None:
    """Both count; the last one is named."""
    assert finished.session["commands"]["total"] == 2
    assert finished.session["commands"]["last"] == "exit 3"


def test_subagent_becomes_an_agent_with_its_summary(finished: FinishedTask) -> None:
    """Type, task, end and last message."""
    [agent] = finished.session["agents"]
    assert (agent["status"], agent["result"], agent["summary"]) == ("completed", "success", ERRAND_WORDS)
    assert agent["type"]
    assert "look" in agent["task"].lower()
    assert agent["started_at"] < agent["completed_at"]


# ── backfill ─────────────────────────────────────────────────────────────────────────────────────────────


def test_backfill_into_a_fresh_home_records_the_same(finished: FinishedTask, tmp_path: Path) -> None:
    """Goal, files, commands and agent, from the program's own transcript."""
    fresh = tmp_path / "fresh"
    [counts] = finished.machine.holdfast("backfill", finished.task.agent, kept=fresh)["backfill"]
    assert (counts["conversations"], counts["sessions"], counts["problems"]) == (1, 1, [])
    [backfilled] = finished.machine.sessions(kept=fresh)
    read = finished.machine.session(backfilled["id"], kept=fresh)
    assert read["goal"] == GOAL
    assert read["native"] == finished.session["native"]
    [live], [past] = finished.session["conversations"], read["conversations"]
    for fact in ("id", "agent", "title", "prompts", "tokens", "cost_usd"):
        assert live[fact] == past[fact], fact
    assert read["project"]["path"] == finished.session["project"]["path"]
    assert [(item["path"], item["action"]) for item in read["files"]] == [
        ("cart.py", "created"),
        ("cart.py", "modified"),
    ]
    assert read["commands"] == {"total": 2, "failed": 1, "last": "exit 3"}
    assert [(item["status"], item["summary"]) for item in read["agents"]] == [("completed", ERRAND_WORDS)]
    assert read["model"]
    assert read["context"]["tokens"] > 0


def test_backfill_leaves_the_programs_files_alone(finished: FinishedTask, tmp_path: Path) -> None:
    """No byte below the person's home changes."""
    before = _everything(finished.machine.home)
    finished.machine.holdfast("backfill", finished.task.agent, kept=tmp_path / "fresh")
    assert _everything(finished.machine.home) == before


def _everything(top: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(top.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def test_backfill_adds_nothing_to_what_hooks_recorded(finished: FinishedTask) -> None:
    """Not even when run again."""
    for _ in range(2):
        finished.machine.holdfast("backfill", finished.task.agent)
        assert [session["id"] for session in finished.machine.sessions()] == [finished.session["id"]]
        assert finished.machine.events(finished.session["id"]) == finished.events


# ── later conversations ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("play", TASKS)
def test_second_conversation_gets_a_briefing(task: AgentTask, tmp_path: Path) -> None:
    """About what is unfinished; it has its own session."""
    machine = task.machine(tmp_path)
    assert "holdfast-record" not in task.run_task(machine).model_input()
    again = task.run_prompt(machine, "Go on please")
    briefed = again.model_input()
    assert "holdfast-record" in briefed
    assert GOAL in briefed
    assert "cart.py" in briefed
    assert sorted(session["goal"] for session in machine.sessions()) == sorted([GOAL, "Go on please"])
    assert machine.session()["goal"] == "Go on please"
    assert len(machine.session()["native"]) == 1


@pytest.mark.parametrize("play", TASKS)
def test_conversations_join_the_session_a_person_started(task: AgentTask, tmp_path: Path) -> None:
    """`start` in a terminal, then the program twice: one session has both, and keeps its goal."""
    machine = task.machine(tmp_path)
    machine.holdfast("start", "Ship the shop")
    task.run_prompt(machine, GOAL)
    task.run_prompt(machine, "Go on please")
    assert [session["goal"] for session in machine.sessions()] == ["Ship the shop"]
    assert len(machine.session()["native"]) == 2


@pytest.mark.parametrize("play", TASKS)
def test_reopened_conversation_stays_the_same(task: AgentTask, tmp_path: Path) -> None:
    """The program accepts the stored id, and no conversation is added."""
    machine = task.machine(tmp_path)
    task.run_prompt(machine, GOAL)
    [native] = machine.session()["native"]
    prompts = len(_messages(machine))
    task.run_prompt(machine, "And the totals", *(word.replace("ID", native["id"]) for word in task.resuming))
    assert machine.session()["native"] == [native]
    assert len(machine.sessions()) == 1
    assert len(_messages(machine)) > prompts


def _messages(machine: Machine) -> list[dict[str, Any]]:
    return [event for event in machine.events("@") if event["type"] == "message.exchanged"]


@pytest.mark.parametrize("play", TASKS)
def test_program_killed_at_work_is_recorded_as_interrupted(task: AgentTask, tmp_path: Path) -> None:
    """Its work is kept, and the next briefing mentions it."""
    machine = task.machine(tmp_path)
    steps = [task.script(machine)[0], {"tool": SILENCE, "input": {}}]
    machine.run(task.agent, *task.words, GOAL, steps=steps, environ=task.environ, until=machine.is_model_silent)
    session = machine.session()
    assert session["goal"] == GOAL
    assert [item["path"] for item in session["files"]] == ["cart.py"]
    assert "native.closed" not in [event["type"] for event in machine.events("@")]
    briefed = task.run_prompt(machine, "Go on please").model_input()
    assert GOAL in briefed
    assert "ended without a report" in briefed


@pytest.mark.parametrize("play", TASKS)
def test_prompt_is_recorded_without_a_reachable_model(task: AgentTask, tmp_path: Path) -> None:
    """The session has its goal and the program's id."""
    machine = task.machine(tmp_path)
    machine.run(task.agent, *task.words, "hi", environ=task.environ, until=lambda: bool(machine.sessions()))
    session = machine.session()
    assert session["goal"] == "hi"
    assert [item["agent"] for item in session["native"]] == [task.agent]


# ── disconnecting ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("play", TASKS)
def test_disconnect_restores_the_settings_exactly(task: AgentTask, tmp_path: Path) -> None:
    """Connected twice, used, disconnected; nothing is recorded afterwards."""
    machine = task.machine(tmp_path)
    settings = machine.home / task.settings
    connected = settings.read_bytes()
    machine.holdfast("connect", task.agent)
    assert settings.read_bytes() == connected
    task.run_prompt(machine, GOAL)
    assert len(machine.sessions()) == 1
    machine.holdfast("disconnect", task.agent)
    if task.before is None:
        assert not settings.exists()
    else:
        assert settings.read_bytes() == task.before.encode()
    events = len(machine.events("@"))
    task.run_prompt(machine, "Something else")
    assert len(machine.events("@")) == events


@pytest.mark.parametrize("play", TASKS)
def test_hooks_of_a_deleted_home_are_harmless(task: AgentTask, tmp_path: Path) -> None:
    """The program runs normally."""
    machine = task.machine(tmp_path)
    machine.kept.rename(tmp_path / "elsewhere")
    ran = task.run_prompt(machine, GOAL)
    # Some programs tell the model about a server that fails to start, but never about hooks.
    assert "holdfast-record" not in ran.model_input()
    assert "hooks/hook " not in ran.model_input()
    assert not machine.kept.exists()
