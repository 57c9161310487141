"""Edits that a format has no field for: unknown values are kept, in the store and in the file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Keeper
from holdfast.formats.text.read import read_yaml
from holdfast.keeper.session import SessionHandle
from tests.support.mirrored_project import CONTRACT, FORMATS, ORCHESTRATOR, Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, *FORMATS)


@pytest.fixture
def keeper(project: Project) -> Iterator[Keeper]:
    with project.open() as keeper:
        yield keeper


@pytest.fixture
def session(keeper: Keeper) -> SessionHandle:
    return keeper.start("Build the shop", scope="Shop", task="Build it", model="sonnet")


# ── keys of pending tasks ────────────────────────────────────────────────────────────────────────────────


def _file(project: Project, name: str) -> str:
    return ORCHESTRATOR if name == "orchestrator" else project.craft()


@pytest.mark.parametrize("name", ["orchestrator", "craft"])
def test_mirror_keeps_the_keys_of_a_pending_task_that_is_an_object(
    name: str, project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    entry = {"task": "one", "priority": "high", "owner": "anna"}
    project.edit(_file(project, name), lambda document: document.update(pending_tasks=[entry]))
    assert [task.text for task in session.document().tasks] == ["one"]
    document = project.json(_file(project, name))
    assert (document["pending_tasks"], document["pending_tasks_as_found"]) == (["one"], [entry])
    assert "anna" in json.dumps(session.document().extra)
    assert project.rejected() == []
    project.in_step(keeper)


@pytest.mark.parametrize("name", ["orchestrator", "craft"])
def test_mirror_keeps_the_keys_of_earlier_objects_when_another_is_added(
    name: str, project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    one, two = {"task": "one", "owner": "anna"}, {"task": "two", "owner": "bob"}
    project.edit(_file(project, name), lambda document: document.update(pending_tasks=[one]))
    assert len(session.document().tasks) == 1
    project.edit(_file(project, name), lambda document: document["pending_tasks"].append(two))
    assert [task.text for task in session.document().tasks] == ["one", "two"]
    assert project.json(_file(project, name))["pending_tasks_as_found"] == [one, two]
    session.finish_task("t1")
    assert project.json(_file(project, name))["pending_tasks_as_found"] == [one, two]
    project.in_step(keeper)


def test_mirror_accepts_a_new_value_of_a_kept_key(project: Project, keeper: Keeper, session: SessionHandle) -> None:
    """A program that rewrites its own objects does not copy what we kept next to them."""
    for owner in ("anna", "bob"):
        document = project.json(ORCHESTRATOR)
        document.pop("pending_tasks_as_found", None)
        project.write(ORCHESTRATOR, {**document, "pending_tasks": [{"task": "one", "owner": owner}]})
        assert [task.text for task in session.document().tasks] == ["one"]
        assert project.json(ORCHESTRATOR)["pending_tasks_as_found"] == [{"task": "one", "owner": owner}]
    project.in_step(keeper)


# ── models without a name in the contract ────────────────────────────────────────────────────────────────


def _name_model(project: Project, model: str) -> None:
    text = project.file(project.state()).read_text()
    project.write(project.state(), re.sub(r'model_in_use: "[^"]*"', f'model_in_use: "{model}"', text))


def _current(project: Project) -> dict[str, Any]:
    content: Any = read_yaml(project.file(project.state()).read_bytes(), "").value
    return {key: value for key, value in content["current_state"].items() if "model" in key}


def test_mirror_records_the_real_names_of_models_the_contract_does_not_have(
    project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    for model, family in (("gpt-5", "sonnet"), ("gpt-6", "sonnet"), ("gemini-3", "gemini"), ("o3", "sonnet")):
        _name_model(project, model)
        assert session.document().model == model
        assert _current(project)["model_in_use"] == family
        assert project.rejected() == []
        project.in_step(keeper)
    _name_model(project, "opus")
    assert session.document().model == "opus"
    assert _current(project) == {"model_in_use": "opus"}
    project.in_step(keeper)


def test_mirror_reports_the_name_under_which_an_edited_model_is_written(
    project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    _name_model(project, "gpt-5")
    assert session.document().model == "gpt-5"
    assert _current(project) == {"model_in_use": "sonnet", "x-holdfast-model": "gpt-5"}
    assert [line for line in keeper.notices if "gpt-5" in line and "written as sonnet" in line]


def test_mirror_accepts_another_model_of_an_imported_session(project: Project, keeper: Keeper) -> None:
    feature = project.file(CONTRACT) / "pay-2026-11-15"
    feature.mkdir(parents=True)
    (feature / "state.yaml").write_text(
        'version: "1.0"\nfeature_id: "pay-2026-11-15"\ncurrent_state:\n  active_task: null\n'
        '  model_in_use: "gpt-5"\n  started_at: "2026-11-15T09:00:00Z"\n  last_updated: "2026-11-15T09:00:00Z"\n'
    )
    with project.open() as other:
        assert other.session("pay-2026-11-15").document().model == "gpt-5"
    _name_model(project, "gemini-3")
    with project.open() as other:
        assert other.session("pay-2026-11-15").document().model == "gemini-3"
    assert project.rejected() == []


# ── unknown active tasks ─────────────────────────────────────────────────────────────────────────────────


def _name_active(project: Project, task: str) -> None:
    text = project.file(project.state()).read_text()
    project.write(project.state(), re.sub(r"active_task: .*", f'active_task: "{task}"', text))


def test_mirror_reports_an_active_task_missing_in_the_plan_and_invents_none(
    project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    session.add_task("Write the tests", task_id="tests")
    session.start_task("tests")
    _name_active(project, "nosuch")
    assert [(task.id, task.status) for task in session.document().tasks] == [("tests", "in_progress")]
    assert [line for line in keeper.notices if "nosuch" in line]
    assert "nosuch" in json.dumps(session.document().extra)
    assert 'active_task: "tests"' in project.file(project.state()).read_text()
    assert project.rejected() == []
    project.in_step(keeper)


# ── errors in other forms than the specification's ───────────────────────────────────────────────────────


def test_mirror_keeps_the_keys_of_an_error_when_its_agent_is_shown_differently(
    project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    """The agent failed within its first second: its times cannot be shown as written, the error can."""
    error = {"agent": "test-1", "error": "boom", "timestamp": session.document().created_at}
    agent = {"id": "test-1", "type": "test", "task": "Test", "status": "failed", "started": error["timestamp"]}

    def fail(document: Any) -> None:
        document["agents"].append(agent)
        document["errors"].append(error)

    project.edit(ORCHESTRATOR, fail)
    (shown,) = session.document().agents
    assert shown.error is not None
    assert shown.error.message == "boom"
    assert project.json(ORCHESTRATOR)["errors"] == [error]
    session.note("Go on")
    assert project.json(ORCHESTRATOR)["errors"] == [error]
    project.in_step(keeper)
