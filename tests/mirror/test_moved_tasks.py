"""Finishing a task in a mirrored file: its string leaves the pending ones, and an entry is added to the completed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mirrored_project import ORCHESTRATOR, Project

from holdfast import Keeper


class Tasks:
    """A session with three open tasks, and its mirrored file."""

    def __init__(self, root: Path, name: str) -> None:
        self.project = Project(root, name)
        self.name = name
        self.keeper = Keeper.open(str(self.project.path), home=str(self.project.home))
        self.session = self.keeper.start("Build the shop")
        for text in ("Fix the login form", "Write tests for the cart", "Deploy"):
            self.session.add_task(text)
        self.path = ORCHESTRATOR if name == "orchestrator" else self.project.craft()

    def completed(self, text: str) -> Any:
        return text if self.name == "craft" else {"task": text, "outcome": "It works", "files": []}

    def write(self, document: dict[str, Any]) -> None:
        self.project.write(self.path, document)
        self.keeper.absorb()

    def statuses(self) -> dict[str, str]:
        return {task.text: task.status for task in self.session.document().tasks}

    def shown(self) -> tuple[list[str], list[str]]:
        """What the file says is pending, and what is done."""
        document = self.project.json(self.path)
        done = [entry["task"] if isinstance(entry, dict) else entry for entry in document["completed_work"]]
        return document["pending_tasks"], done


@pytest.fixture(params=["orchestrator", "craft"])
def tasks(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tasks]:
    made = Tasks(tmp_path, str(request.param))
    yield made
    made.keeper.close()


def test_task_moved_from_pending_to_completed_in_other_words_is_done(tasks: Tasks) -> None:
    document = tasks.project.json(tasks.path)
    document["pending_tasks"].remove("Fix the login form")
    document["completed_work"].append(tasks.completed("Repaired the login"))
    tasks.write(document)
    assert tasks.shown() == (["Write tests for the cart", "Deploy"], ["Repaired the login"])
    assert tasks.statuses()["Repaired the login"] == "completed"
    assert len(tasks.statuses()) == 3
    assert any("taken out of the pending tasks" in sentence for sentence in tasks.keeper.told)
    tasks.session.reopen_task(tasks.session.document().tasks[0].id)
    assert "Repaired the login" in tasks.shown()[0]


def test_task_moved_in_words_that_share_nothing_is_done(tasks: Tasks) -> None:
    """The other tasks are still there: whoever wrote this had read the version with all of them."""
    document = tasks.project.json(tasks.path)
    document["pending_tasks"].remove("Fix the login form")
    document["completed_work"].append(tasks.completed("OAuth is back"))
    tasks.write(document)
    assert tasks.shown() == (["Write tests for the cart", "Deploy"], ["OAuth is back"])


def test_closest_text_is_completed_and_the_rest_dropped_when_several_are_taken_out(tasks: Tasks) -> None:
    document = tasks.project.json(tasks.path)
    document["pending_tasks"] = ["Deploy"]
    document["completed_work"].append(tasks.completed("Tested the cart"))
    tasks.write(document)
    assert tasks.shown() == (["Deploy"], ["Tested the cart"])
    assert tasks.statuses() == {"Fix the login form": "dropped", "Tested the cart": "completed", "Deploy": "pending"}


def test_task_that_the_writer_never_read_stays_pending(tasks: Tasks) -> None:
    """A program that writes back the copy it had read before the task was added."""
    copy = tasks.project.json(tasks.path)
    tasks.session.add_task("Renew the certificate")
    copy["pending_tasks"].remove("Deploy")
    copy["completed_work"].append(tasks.completed("Deployed it"))
    tasks.write(copy)
    pending, done = tasks.shown()
    assert pending == ["Fix the login form", "Write tests for the cart", "Renew the certificate"]
    assert done == ["Deployed it"]


def test_list_that_is_left_out_removes_nothing(tasks: Tasks) -> None:
    document = tasks.project.json(tasks.path)
    del document["pending_tasks"]
    tasks.write(document)
    assert tasks.shown()[0] == ["Fix the login form", "Write tests for the cart", "Deploy"]


def test_one_of_two_equal_tasks_is_taken_out(tasks: Tasks) -> None:
    tasks.session.add_task("Deploy")
    document = tasks.project.json(tasks.path)
    document["pending_tasks"].remove("Deploy")
    document["completed_work"].append(tasks.completed("Deployed to staging"))
    tasks.write(document)
    assert tasks.shown()[0].count("Deploy") == 1
    assert tasks.shown()[1] == ["Deployed to staging"]


def test_same_edit_read_twice_is_one_edit(tasks: Tasks) -> None:
    document = tasks.project.json(tasks.path)
    document["pending_tasks"].remove("Fix the login form")
    document["completed_work"].append(tasks.completed("OAuth is back"))
    tasks.write(document)
    count = tasks.session.state().count
    tasks.write(document)
    assert tasks.session.state().count == count
    assert tasks.shown()[1] == ["OAuth is back"]
