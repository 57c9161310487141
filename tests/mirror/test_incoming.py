"""Incoming: what others write into a mirrored file becomes events, and nobody's change is lost."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Keeper
from holdfast.core.model import Session
from holdfast.keeper.session import SessionHandle
from tests.support.mirrored_project import (
    CONTRACT,
    CRAFT,
    FORMATS,
    ORCHESTRATOR,
    REGISTRY,
    TIMER,
    Project,
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, *FORMATS)


@pytest.fixture
def keeper(project: Project) -> Iterator[Keeper]:
    with project.open() as keeper:
        yield keeper


@pytest.fixture
def session(keeper: Keeper) -> SessionHandle:
    session = keeper.start("Build the shop", scope="Shop", task="Build it", model="sonnet")
    session.agent("code-1", type="code", task="Code", pid=None)
    session.add_task("Write the tests", task_id="tests")
    return session


def put(key: str, value: object) -> Callable[[Any], object]:
    return lambda document: document.__setitem__(key, value)


def agent(key: str, value: object) -> Callable[[Any], object]:
    return lambda document: document["agents"][0].__setitem__(key, value)


# ── each kind of edit ────────────────────────────────────────────────────────────────────────────────────


def task_status(document: Session) -> str:
    return document.tasks[0].status


ORCHESTRATOR_EDITS: dict[str, tuple[Callable[[Any], object], Callable[[Session], object], object]] = {
    "goal": (put("goal", "Sell the shop"), lambda document: document.goal, "Sell the shop"),
    "mode": (put("mode", "debug"), lambda document: document.mode, "debug"),
    "status": (put("status", "paused"), lambda document: document.status, "paused"),
    "agent progress": (agent("progress", 40), lambda document: document.agents[0].progress, 0.4),
    "agent completed": (
        lambda document: document["agents"][0].update(status="complete", result_summary="Fine"),
        lambda document: (document.agents[0].status, document.agents[0].summary),
        ("completed", "Fine"),
    ),
    "new agent": (
        lambda document: document["agents"].append(
            {"id": "test-1", "type": "test", "task": "Test", "status": "pending"}
        ),
        lambda document: [(item.id, item.status) for item in document.agents],
        [("code-1", "running"), ("test-1", "pending")],
    ),
    "new task": (
        lambda document: document["pending_tasks"].append("Paint it"),
        lambda document: [task.text for task in document.tasks],
        ["Write the tests", "Paint it"],
    ),
    "task done": (
        lambda document: (
            document["pending_tasks"].clear(),
            document["completed_work"].append({"task": "Write the tests", "outcome": "Green", "files": ["a.py"]}),
        ),
        lambda document: (document.tasks[0].status, document.tasks[0].outcome, document.tasks[0].artifacts),
        ("completed", "Green", ["a.py"]),
    ),
    "decision": (
        lambda document: document["decisions_made"].append(
            {"decision": "Brick", "rationale": "Lasts", "timestamp": document["updated"]}
        ),
        lambda document: [(decision.chosen, decision.why) for decision in document.decisions],
        [("Brick", "Lasts")],
    ),
    "context": (
        lambda document: document["context_usage"].update(estimated_tokens=5000),
        lambda document: document.context.tokens,
        5000,
    ),
}


@pytest.mark.parametrize("kind", ORCHESTRATOR_EDITS)
def test_edit_of_the_orchestrator_file_becomes_events(
    kind: str, project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    edit, look, expected = ORCHESTRATOR_EDITS[kind]
    project.edit(ORCHESTRATOR, edit)
    assert look(session.document()) == expected
    assert keeper.notices == []
    project.in_step(keeper)


TIMER_EDITS: dict[str, tuple[Callable[[Any], object], Callable[[Session], object], object]] = {
    "scope": (put("scope", "Market"), lambda document: document.scope, "Market"),
    "task": (put("task", "Sell it now"), lambda document: document.task, "Sell it now"),
    "summary": (put("summary", "Walls stand"), lambda document: document.summary, "Walls stand"),
    "paused": (
        lambda document: (
            document.update(status="PAUSED"),
            document["pauses"].append(
                {
                    "type": "MANUAL",
                    "reason": "Lunch",
                    "startTime": document["lastMessageTime"],
                    "endTime": None,
                    "durationMs": 0,
                }
            ),
        ),
        lambda document: (document.status, document.time.pauses[-1].kind, document.time.pauses[-1].reason),
        ("paused", "manual", "Lunch"),
    ),
}


@pytest.mark.parametrize("kind", TIMER_EDITS)
def test_edit_of_the_timer_file_becomes_events(
    kind: str, project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    edit, look, expected = TIMER_EDITS[kind]
    project.edit(TIMER, edit)
    assert look(session.document()) == expected
    assert keeper.notices == []
    project.in_step(keeper)


CRAFT_EDITS: dict[str, tuple[Callable[[Any], object], Callable[[Session], object], object]] = {
    "goal": (put("goal", "Sell the shop."), lambda document: document.goal, "Sell the shop."),
    "progress": (put("progress", 0.5), lambda document: document.progress, 0.5),
    "status": (put("status", "paused"), lambda document: document.status, "paused"),
    "agent progress": (agent("progress", 0.4), lambda document: document.agents[0].progress, 0.4),
    "new task": (
        lambda document: document["pending_tasks"].append("Paint it"),
        lambda document: [task.text for task in document.tasks],
        ["Write the tests", "Paint it"],
    ),
    "tags": (lambda document: document["metadata"].update(tags=["shop"]), lambda document: document.tags, ["shop"]),
}


@pytest.mark.parametrize("kind", CRAFT_EDITS)
def test_edit_of_a_craft_file_becomes_events(
    kind: str, project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    edit, look, expected = CRAFT_EDITS[kind]
    project.edit(project.craft(), edit)
    assert look(session.document()) == expected
    assert keeper.notices == []
    project.in_step(keeper)


CONTRACT_EDITS: dict[str, tuple[str, str, str, Callable[[Session], object], object]] = {
    "model": ("state", '"sonnet"', '"opus"', lambda document: document.model, "opus"),
    "goal": (
        "plan",
        'name: "Build the shop"',
        'name: "Sell the shop"',
        lambda document: document.goal,
        "Sell the shop",
    ),
    "task begun": ("plan", 'status: "pending"', "status: in_progress", task_status, "in_progress"),
    "task done": ("plan", 'status: "pending"', 'status: "completed"', task_status, "completed"),
    "active task": ("state", "active_task: null", "active_task: tests", task_status, "in_progress"),
    "paused": ("registry", 'status: "active"', "status: paused", lambda document: document.status, "paused"),
    "completed": ("registry", 'status: "active"', "status: completed", lambda document: document.status, "completed"),
}


@pytest.mark.parametrize("kind", CONTRACT_EDITS)
def test_edit_of_the_contract_files_becomes_events(
    kind: str, project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    part, old, new, look, expected = CONTRACT_EDITS[kind]
    name = {"state": project.state(), "plan": project.plan(), "registry": REGISTRY}[part]
    text = project.file(name).read_text()
    assert old in text
    project.write(name, "# hands off\n" + text.replace(old, new, 1))
    assert look(session.document()) == expected
    assert keeper.notices == []
    assert project.file(name).read_text().startswith("# hands off\n")
    project.in_step(keeper)


def test_foreign_history_line_becomes_a_command(project: Project, keeper: Keeper, session: SessionHandle) -> None:
    """Each line once, however often the file is read and appended to."""
    line = {
        "timestamp": "2026-11-15T10:00:00Z", "command": "deploy", "arguments": "--all", "model": "opus",
        "agent": "code-1", "task_id": None, "status": "success", "duration_ms": 12,
    }  # fmt: skip
    for number in range(3):
        with (project.feature() / "history.jsonl").open("a") as file:
            file.write(json.dumps({**line, "arguments": f"--{number}"}) + "\n")
        assert session.document().commands.total == number + 1
        session.note("in between")
    assert session.document().commands.total == 3
    lines = (project.feature() / "history.jsonl").read_text().splitlines()
    assert sum("deploy" in line and "x-holdfast" not in line for line in lines) == 3
    project.in_step(keeper)


# ── merging ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["orchestrator", "timer", "craft"])
def test_unknown_fields_and_the_order_of_keys_survive(
    name: str, project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    path = {"orchestrator": ORCHESTRATOR, "timer": TIMER, "craft": project.craft()}[name]
    document = project.json(path)
    mine = {"x-mine": {"z": [1, 2.0], "a": None}, **dict(reversed(document.items()))}
    project.write(path, mine)
    session.note("one")
    session.message()
    keeper.session().decide("This")
    after = project.json(path)
    assert after["x-mine"] == mine["x-mine"]
    assert list(after) == list(mine)
    project.in_step(keeper)


def test_comments_in_yaml_survive(project: Project, keeper: Keeper, session: SessionHandle) -> None:
    for name in (project.state(), project.plan(), REGISTRY):
        project.write(name, f"# of {name}\n{project.file(name).read_text()}mine: [1, 2]  # stays\n")
    session.start_task("tests")
    session.finish_task("tests")
    for name in (project.state(), project.plan(), REGISTRY):
        text = project.file(name).read_text()
        assert text.startswith(f"# of {name}\n")
        assert "mine: [1, 2]  # stays" in text
    assert 'status: "completed"' in project.file(project.plan()).read_text()


def test_changes_of_both_sides_survive(project: Project, keeper: Keeper, session: SessionHandle) -> None:
    """An agent writes back its copy with a change, after the session changed too."""
    copy = project.json(ORCHESTRATOR)
    session.decide("Brick")
    session.edit(mode="debug")
    copy["goal"] = "Sell the shop"
    copy["pending_tasks"].append("Paint it")
    project.write(ORCHESTRATOR, copy)
    document = session.document()
    assert (document.goal, document.mode, [decision.chosen for decision in document.decisions]) == (
        "Sell the shop",
        "debug",
        ["Brick"],
    )
    assert [task.text for task in document.tasks] == ["Write the tests", "Paint it"]
    assert document.conflicts == []
    project.in_step(keeper)


def test_very_old_copy_loses_nobodys_changes(project: Project, keeper: Keeper, session: SessionHandle) -> None:
    for path in (ORCHESTRATOR, project.craft()):
        copy = project.json(path)
        session.edit(goal=f"Goal of {path}.")
        session.agent(f"late-{len(path)}", type="code")
        session.decide(f"Decision of {path}")
        copy["agents"][0]["progress"] = 30 if path == ORCHESTRATOR else 0.6
        project.write(path, copy)
        document = session.document()
        assert document.goal == f"Goal of {path}."
        assert document.agents[0].progress == (0.3 if path == ORCHESTRATOR else 0.6)
        assert document.agents[-1].id == f"late-{len(path)}"
        assert document.decisions[-1].chosen == f"Decision of {path}"
        project.in_step(keeper)


def test_field_changed_on_both_sides_is_a_conflict(project: Project, keeper: Keeper, session: SessionHandle) -> None:
    """Both values are reported once; ours counts until somebody decides."""
    copy = project.json(ORCHESTRATOR)
    time.sleep(1.1)  # the file distinguishes versions by seconds
    session.edit(goal="Sell the shop")
    copy["goal"] = "Burn the shop"
    project.write(ORCHESTRATOR, copy)
    document = session.document()
    assert document.goal == "Sell the shop"
    (conflict,) = document.conflicts
    assert conflict.field == "goal"
    assert {value.value for value in conflict.values} == {"Sell the shop", "Burn the shop"}
    assert any("both sides" in sentence for sentence in keeper.notices)
    session.note("later")
    assert len(session.document().conflicts) == 1
    project.in_step(keeper)


def test_omission_never_removes(project: Project, keeper: Keeper, session: SessionHandle) -> None:
    session.decide("Brick")
    project.edit(ORCHESTRATOR, lambda document: (document["agents"].clear(), document["pending_tasks"].clear()))
    project.edit(project.craft(), lambda document: document.update(decisions_made=[], agents=[], pending_tasks=[]))
    document = session.document()
    assert ([item.id for item in document.agents], [task.text for task in document.tasks]) == (
        ["code-1"],
        ["Write the tests"],
    )
    assert [decision.chosen for decision in document.decisions] == ["Brick"]
    project.in_step(keeper)


def test_missing_file_is_no_edit(project: Project, keeper: Keeper, session: SessionHandle) -> None:
    """It is restored, and nothing is recorded. (Deleting the timer's file means stop.)"""
    count = len(keeper.events(session.id))
    for name in (ORCHESTRATOR, project.craft(), f"{CRAFT}/index.json", project.state(), project.plan()):
        project.file(name).unlink()
    assert session.document().status == "in_progress"
    assert len(keeper.events(session.id)) == count
    project.in_step(keeper)


def test_missing_directory_is_restored(project: Project, keeper: Keeper, session: SessionHandle) -> None:
    for name in (".claude", ".craft", CONTRACT):
        os.rename(project.file(name), project.file(f"{name}-gone"))
    session.note("on")
    for name in (ORCHESTRATOR, TIMER, REGISTRY):
        assert project.file(name).exists()
    assert len((project.feature() / "history.jsonl").read_text().splitlines()) == len(keeper.events(session.id))
    assert keeper.notices == []
