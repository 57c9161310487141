"""Edits that say more than a format has room for: what is not known is kept, in the store and in the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from mirrored_project import FORMATS, ORCHESTRATOR, Project

from holdfast import Keeper
from holdfast.keeper.session import KeptSession


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, *FORMATS)


@pytest.fixture
def keeper(project: Project) -> Iterator[Keeper]:
    with project.open() as keeper:
        yield keeper


@pytest.fixture
def session(keeper: Keeper) -> KeptSession:
    return keeper.start("Build the shop", scope="Shop", task="Build it", model="sonnet")


# ── keys of pending tasks ────────────────────────────────────────────────────────────────────────────────


def _file(project: Project, name: str) -> str:
    return ORCHESTRATOR if name == "orchestrator" else project.craft()


@pytest.mark.parametrize("name", ["orchestrator", "craft"])
def test_mirror_keeps_the_keys_of_a_pending_task_that_is_an_object(
    name: str, project: Project, keeper: Keeper, session: KeptSession
) -> None:
    entry = {"task": "one", "priority": "high", "owner": "anna"}
    project.edit(_file(project, name), lambda document: document.update(pending_tasks=[entry]))
    assert [task.text for task in session.document().tasks] == ["one"]
    found = project.json(_file(project, name))
    assert (found["pending_tasks"], found["pending_tasks_as_found"]) == (["one"], [entry])
    assert "anna" in json.dumps(session.document().extra)
    assert project.rejected() == []
    project.in_step(keeper)


@pytest.mark.parametrize("name", ["orchestrator", "craft"])
def test_mirror_keeps_the_keys_of_earlier_objects_when_another_is_added(
    name: str, project: Project, keeper: Keeper, session: KeptSession
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


def test_mirror_takes_another_value_of_a_key_that_is_kept(
    project: Project, keeper: Keeper, session: KeptSession
) -> None:
    """A program that writes its own objects again does not copy what was kept next to them."""
    for owner in ("anna", "bob"):
        document = project.json(ORCHESTRATOR)
        document.pop("pending_tasks_as_found", None)
        project.write(ORCHESTRATOR, {**document, "pending_tasks": [{"task": "one", "owner": owner}]})
        assert [task.text for task in session.document().tasks] == ["one"]
        assert project.json(ORCHESTRATOR)["pending_tasks_as_found"] == [{"task": "one", "owner": owner}]
    project.in_step(keeper)
