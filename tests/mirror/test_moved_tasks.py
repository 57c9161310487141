"""Finishing a task in a mirrored file: its text moves from the pending tasks to the completed ones."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Keeper
from holdfast.core import times
from holdfast.machine.wall import Wall
from tests.support.mirrored_project import ORCHESTRATOR, Project
from tests.support.scale import scale


class Tasks:
    """A session with three open tasks, and its mirrored file."""

    def __init__(self, root: Path, name: str) -> None:
        self.project = Project(root, name)
        self.name = name
        self.ahead = 0  # nanoseconds by which the clock is advanced
        wall = Wall(lambda: time.time_ns() + self.ahead)
        self.keeper = Keeper.open(str(self.project.path), home=str(self.project.home), wall=wall)
        self.session = self.keeper.start("Build the shop")
        for text in ("Fix the login form", "Write tests for the cart", "Deploy"):
            self.session.add_task(text)
        self.path = ORCHESTRATOR if name == "orchestrator" else self.project.craft()

    def completed(self, text: str) -> Any:
        return text if self.name == "craft" else {"task": text, "outcome": "It works", "files": []}

    def write(self, document: dict[str, Any], *, at: int | None = None) -> None:
        """`at`: the time the writer claims, in seconds from now."""
        if at is not None:
            key = "updated" if self.name == "orchestrator" else "updated_at"
            document[key] = times.format_time(self.keeper.now() + at * times.SECOND)
        self.project.write(self.path, document)
        self.keeper.collect()

    def notice_about(self, text: str) -> str:
        """The notice about a task; empty if there was none."""
        return next((sentence for sentence in self.keeper.notices if repr(text) in sentence), "")

    def statuses(self) -> dict[str, str]:
        return {task.text: task.status for task in self.session.document().tasks}

    def shown(self) -> tuple[list[str], list[str]]:
        """Pending and completed tasks in the file."""
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
    assert any("removed from the pending tasks" in sentence for sentence in tasks.keeper.notices)
    tasks.session.reopen_task(tasks.session.document().tasks[0].id)
    assert "Repaired the login" in tasks.shown()[0]


def test_task_completed_in_entirely_different_words_is_done(tasks: Tasks) -> None:
    """The other tasks are still in the file: the writer had read the version with all of them."""
    document = tasks.project.json(tasks.path)
    document["pending_tasks"].remove("Fix the login form")
    document["completed_work"].append(tasks.completed("OAuth is back"))
    tasks.write(document)
    assert tasks.shown() == (["Write tests for the cart", "Deploy"], ["OAuth is back"])


def test_closest_task_is_completed_and_the_rest_dropped_when_several_are_removed(tasks: Tasks) -> None:
    document = tasks.project.json(tasks.path)
    document["pending_tasks"] = ["Deploy"]
    document["completed_work"].append(tasks.completed("Tested the cart"))
    tasks.write(document)
    assert tasks.shown() == (["Deploy"], ["Tested the cart"])
    assert tasks.statuses() == {"Fix the login form": "dropped", "Tested the cart": "completed", "Deploy": "pending"}


def test_task_that_the_writer_never_read_stays_pending(tasks: Tasks) -> None:
    """A program writes back a copy from before the task was added."""
    copy = tasks.project.json(tasks.path)
    tasks.session.add_task("Renew the certificate")
    copy["pending_tasks"].remove("Deploy")
    copy["completed_work"].append(tasks.completed("Deployed it"))
    tasks.write(copy)
    pending, done = tasks.shown()
    assert pending == ["Fix the login form", "Write tests for the cart", "Renew the certificate"]
    assert done == ["Deployed it"]


def test_order_of_the_pending_tasks_stays_as_a_program_wrote_it(tasks: Tasks) -> None:
    document = tasks.project.json(tasks.path)
    document["pending_tasks"] = ["Paint the shop", *reversed(document["pending_tasks"])]
    copy = [*document["pending_tasks"]]
    tasks.write(document)
    tasks.session.add_task("Renew the certificate")
    assert tasks.shown()[0] == [*copy, "Renew the certificate"]
    document["pending_tasks"] = [*copy, "Sell it"]
    tasks.session.decide("Use TLS 1.3")
    tasks.write(document)
    assert tasks.shown()[0] == [*copy, "Renew the certificate", "Sell it"]


def test_omitted_list_removes_nothing(tasks: Tasks) -> None:
    document = tasks.project.json(tasks.path)
    del document["pending_tasks"]
    tasks.write(document)
    assert tasks.shown()[0] == ["Fix the login form", "Write tests for the cart", "Deploy"]


def test_only_one_of_two_equal_tasks_is_removed(tasks: Tasks) -> None:
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


# ── the version that was read ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("adds", ["program", "holdfast"])
def test_last_added_task_completed_in_entirely_different_words_is_done(adds: str, tasks: Tasks) -> None:
    """Older versions without the task explain the edit too, but a program reads the file before it writes."""
    if adds == "program":
        document = tasks.project.json(tasks.path)
        document["pending_tasks"].append("Post the mailer")
        tasks.write(document, at=1)
    else:
        tasks.session.add_task("Post the mailer")
    document = tasks.project.json(tasks.path)
    document["pending_tasks"].remove("Post the mailer")
    document["completed_work"].append(tasks.completed("Letters go out"))
    tasks.write(document, at=2)
    assert tasks.shown() == (["Fix the login form", "Write tests for the cart", "Deploy"], ["Letters go out"])
    assert len(tasks.statuses()) == 4


def test_last_added_task_is_dropped_and_reported_when_removed(tasks: Tasks) -> None:
    tasks.session.add_task("Renew the certificate")
    document = tasks.project.json(tasks.path)
    document["pending_tasks"].remove("Renew the certificate")
    tasks.write(document, at=1)
    assert tasks.statuses()["Renew the certificate"] == "dropped"
    assert "holdfast task reopen" in tasks.notice_about("Renew the certificate")


def test_task_added_after_the_read_stays_when_the_copy_lacks_other_changes_too(tasks: Tasks) -> None:
    copy = tasks.project.json(tasks.path)
    tasks.session.decide("Use TLS 1.3")
    tasks.session.add_task("Renew the certificate")
    copy["pending_tasks"].append("Paint the shop")
    tasks.write(copy, at=1)
    assert tasks.statuses()["Renew the certificate"] == "pending"
    assert "still pending" in tasks.notice_about("Renew the certificate")


def test_task_added_after_the_read_stays_when_every_new_entry_completes_another(tasks: Tasks) -> None:
    copy = tasks.project.json(tasks.path)
    tasks.session.add_task("Renew the certificate")
    copy["pending_tasks"].remove("Fix the login form")
    copy["completed_work"].append(tasks.completed("OAuth is back"))
    tasks.write(copy, at=1)
    assert tasks.shown()[0] == ["Write tests for the cart", "Deploy", "Renew the certificate"]
    assert "still pending" in tasks.notice_about("Renew the certificate")


def test_task_read_by_one_program_stays_when_another_writes_back_an_older_copy(tasks: Tasks) -> None:
    stale = tasks.project.json(tasks.path)
    tasks.session.add_task("Renew the certificate")
    document = tasks.project.json(tasks.path)
    document["completed_work"].append(tasks.completed("Wrote the manual"))
    tasks.write(document, at=1)
    stale["pending_tasks"].append("Paint the shop")
    tasks.write(stale, at=2)
    assert tasks.statuses()["Renew the certificate"] == "pending"
    assert "still pending" in tasks.notice_about("Renew the certificate")


def test_list_omitted_from_a_copy_removes_no_later_task(tasks: Tasks) -> None:
    copy = tasks.project.json(tasks.path)
    tasks.session.add_task("Renew the certificate")
    del copy["pending_tasks"]
    tasks.write(copy, at=1)
    assert set(tasks.statuses().values()) == {"pending"}


class Program:
    """Somebody who follows the file's specification: reads it, changes it, writes it."""

    def __init__(self, tasks: Tasks, seed: int) -> None:
        self._tasks, self._random = tasks, random.Random(seed)
        self.round = 0

    def change(self, document: dict[str, Any]) -> tuple[list[str], list[str]]:
        """Complete tasks or drop one, perhaps add and reorder some; return what is pending and done then."""
        pending, done = document["pending_tasks"], document["completed_work"]
        if self._random.random() < 0.3 and pending:
            pending.pop(self._random.randrange(len(pending)))
        else:
            for number in range(min(self._random.randrange(3), len(pending))):
                text = pending.pop(self._random.randrange(len(pending)))
                entry = text if self._random.random() < 0.2 else f"Result {self.round}.{number}"
                done.append(self._tasks.completed(entry))
        for number in range(self._random.randrange(3)):
            pending.append(f"{self._random.choice(['Build', 'Test'])} part {self.round}.{number}")
        self._random.shuffle(pending)
        self.round += 1
        return list(pending), sorted(entry["task"] if isinstance(entry, dict) else entry for entry in done)

    def holdfast_acts(self) -> list[str]:
        """Add tasks meanwhile; returns them."""
        added = [f"Own task {self.round}.{number}" for number in range(self._random.randrange(3))]
        for text in added:
            self._tasks.ahead += 1_000_000_000  # versions of one second cannot be distinguished
            self._tasks.session.add_task(text)
        if self._random.random() < 0.3:
            self._tasks.session.decide(f"Decision {self.round}")
        if self._random.random() < 0.3:
            self._tasks.session.note(f"Note {self.round}")
        return added

    def moment(self) -> int | None:
        """The write time the program claims, in seconds from now; None if it does not update it."""
        return self.round if self._random.random() < 0.7 else None


@pytest.mark.parametrize("seed", range(scale(2, 10, 200)))
def test_edit_of_the_newest_file_is_never_undone(seed: int, tasks: Tasks) -> None:
    program = Program(tasks, seed)
    for _ in range(8):
        program.holdfast_acts()
        document = tasks.project.json(tasks.path)
        wanted = program.change(document)
        tasks.write(document, at=program.moment())
        pending, done = tasks.shown()
        assert (pending, sorted(done)) == wanted, program.round


@pytest.mark.parametrize("seed", range(scale(2, 10, 200)))
def test_edit_of_an_older_file_loses_no_task_without_a_notice(seed: int, tasks: Tasks) -> None:
    program = Program(tasks, seed)
    for _ in range(8):
        stale = tasks.project.json(tasks.path)
        added = program.holdfast_acts()
        _, done = program.change(stale)
        tasks.keeper.notices.clear()
        tasks.write(stale, at=program.moment())
        for text in added:
            assert text in tasks.shown()[0] or tasks.notice_about(text), (program.round, text)
            assert tasks.notice_about(text) or text in stale["pending_tasks"], (program.round, text)
        assert {*done} <= {*tasks.shown()[1]}
