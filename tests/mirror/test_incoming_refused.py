"""Incoming: invalid changes are set aside, other sessions in a file and existing files are imported."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Keeper
from holdfast.core.errors import Conflict
from holdfast.keeper.session import SessionHandle
from tests.support.mirrored_project import (
    CONTRACT,
    CRAFT,
    FORMATS,
    HISTORY,
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


# ── refused changes ──────────────────────────────────────────────────────────────────────────────────────


BROKEN: dict[str, tuple[str, Callable[[Project], str]]] = {
    "not JSON": (ORCHESTRATOR, lambda _: '{"goal": '),
    "empty": (TIMER, lambda _: ""),
    "no object": (TIMER, lambda _: "[1, 2]"),
    "unknown status": (ORCHESTRATOR, lambda project: json.dumps({**project.json(ORCHESTRATOR), "status": "dancing"})),
    "binary": (ORCHESTRATOR, lambda _: "\x00\x01\x02"),
    "unknown version": (
        ORCHESTRATOR, lambda project: json.dumps({**project.json(ORCHESTRATOR), "schema_version": "9.0"}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_file_is_set_aside_and_restored(
    kind: str, project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    name, broken = BROKEN[kind]
    text = broken(project)
    project.write(name, text)
    session.note("done all the same")
    assert session.document().notes[-1].text == "done all the same"
    (aside,) = project.rejected()
    assert aside.startswith(f"{name}.rejected-")
    assert project.file(aside).read_text() == text
    assert any(os.path.basename(aside) in sentence for sentence in keeper.notices)
    (mirror,) = [mirrored for mirrored in keeper.mirrors.status() if mirrored.rejected]
    assert (mirror.rejected[0].path, mirror.rejected[0].aside) == (name, aside)
    assert mirror.rejected[0].reason
    check = next(check for check in keeper.doctor()[0] if check.name == "mirrors")
    assert (check.status, aside in check.detail) == ("warning", True)
    project.in_step(keeper)


@pytest.mark.parametrize("part", ["state", "plan", "registry"])
def test_broken_contract_file_is_set_aside_and_restored(
    part: str, project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    name = {"state": project.state(), "plan": project.plan(), "registry": REGISTRY}[part]
    project.write(name, "a: [1\n b: }{\n")
    session.note("done all the same")
    (aside,) = project.rejected()
    assert aside.startswith(f"{name}.rejected-")
    project.in_step(keeper)


def test_only_the_broken_one_of_two_changed_files_is_set_aside(
    project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    """The valid change of the state counts; the plan is broken."""
    project.write(project.state(), project.file(project.state()).read_text().replace('"sonnet"', '"opus"'))
    project.write(project.plan(), "a: [1\n b: }{\n")
    assert session.document().model == "opus"
    (aside,) = project.rejected()
    assert aside.startswith(project.plan())
    project.in_step(keeper)


def test_completed_session_cannot_be_continued_by_its_file(
    project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    """completed -> in_progress breaks the rules, in every format that can express it."""
    time.sleep(1.1)  # a registry with exactly its old content would be a restored earlier version
    session.stop()
    archive = f"{HISTORY}/{project.archives()[0]}"
    project.edit(archive, put("status", "in_progress"))
    project.edit(project.craft(), put("status", "in_progress"))
    project.write(REGISTRY, project.file(REGISTRY).read_text().replace('"completed"', '"active"'))
    assert session.document().status == "completed"
    assert len(project.rejected()) == 3
    project.in_step(keeper)


def test_finished_task_of_a_plan_does_not_go_back(project: Project, keeper: Keeper, session: SessionHandle) -> None:
    session.finish_task("tests")
    text = project.file(project.plan()).read_text()
    project.write(project.plan(), text.replace('status: "completed"', 'status: "pending"'))
    assert session.document().tasks[0].status == "completed"
    assert [name.startswith(project.plan()) for name in project.rejected()] == [True]
    project.in_step(keeper)


def test_file_that_is_being_written_is_not_set_aside(
    project: Project, keeper: Keeper, session: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program has emptied the file and not yet filled it."""
    full = json.dumps({**project.json(ORCHESTRATOR), "goal": "Sell the shop"})
    project.write(ORCHESTRATOR, "")
    slept = time.sleep

    def fill(seconds: float) -> None:
        project.write(ORCHESTRATOR, full)
        slept(0)

    monkeypatch.setattr("holdfast.formats.mirror.settle.time.sleep", fill)
    assert session.document().goal == "Sell the shop"
    assert project.rejected() == []
    project.in_step(keeper)


def test_foreign_file_in_a_mirrored_folder_is_left_alone(
    project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    """It was never ours: it stays, and is reported once."""
    project.write(f"{CRAFT}/notes.json", {"my": "notes"})
    session.note("on")
    assert project.json(f"{CRAFT}/notes.json") == {"my": "notes"}
    assert sum("notes.json" in sentence for sentence in keeper.notices) == 1
    keeper.notices.clear()
    session.note("again")
    assert keeper.notices == []
    (mirror,) = [mirrored for mirrored in keeper.mirrors.status() if mirrored.left_alone]
    assert list(mirror.left_alone) == [f"{CRAFT}/notes.json"]
    assert project.rejected() == []


# ── other sessions ───────────────────────────────────────────────────────────────────────────────────────


def other(project: Project) -> dict[str, Any]:
    document = project.json(ORCHESTRATOR)
    return {
        **document, "session_id": "2026-11-02-abcdef", "goal": "Another goal", "created": "2026-11-02T10:00:00Z",
        "updated": "2026-11-02T11:00:00Z", "agents": [], "pending_tasks": ["One"], "decisions_made": [],
    }  # fmt: skip


def test_another_session_in_the_file_becomes_current(
    project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    old = project.json(ORCHESTRATOR)["session_id"]
    project.write(ORCHESTRATOR, other(project))
    document = keeper.session().document()
    assert (document.goal, document.aliases.orchestrator) == ("Another goal", "2026-11-02-abcdef")
    assert session.document().status == "paused"
    assert project.json(f"{HISTORY}/{old}.json")["status"] == "paused"
    assert project.json(ORCHESTRATOR)["session_id"] == "2026-11-02-abcdef"
    project.in_step(keeper)


def test_archiving_by_the_orchestrator_is_understood(
    project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    """It writes the archive itself and removes the current file."""
    document = {**project.json(ORCHESTRATOR), "status": "complete"}
    project.write(f"{HISTORY}/{document['session_id']}.json", document)
    project.file(ORCHESTRATOR).unlink()
    assert keeper.current() is None
    assert session.document().status == "completed"
    assert not project.file(ORCHESTRATOR).exists()
    assert not project.file(TIMER).exists()
    project.in_step(keeper)


def test_unfinished_archive_does_not_become_current(project: Project, keeper: Keeper, session: SessionHandle) -> None:
    project.write(f"{HISTORY}/2026-11-02-abcdef.json", {**other(project), "status": "paused"})
    assert keeper.session().id == session.id
    assert keeper.session("2026-11-02-abcdef").document().status == "paused"
    project.in_step(keeper)


def test_new_craft_file_becomes_a_session(project: Project, keeper: Keeper, session: SessionHandle) -> None:
    name = "0b5ed5d4-6a4f-4a3e-9a51-1f6a2d3c4b5e"
    document = {**project.json(project.craft()), "session_id": name, "goal": "Another goal."}
    project.write(f"{CRAFT}/{name}.json", document)
    assert keeper.session(name).document().goal == "Another goal."
    assert keeper.session().id == session.id
    assert {item["session_id"] for item in project.json(f"{CRAFT}/index.json")["sessions"]} == {name, session.id}


# ── existing files ───────────────────────────────────────────────────────────────────────────────────────


def test_mirror_on_imports_existing_files_once(tmp_path: Path) -> None:
    """The current file, archives, a craft directory and the contract's features."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    first, second = Project(tmp_path / "a", *FORMATS), Project(tmp_path / "b")
    with first.open() as keeper:
        keeper.start("Build the shop").stop()
        keeper.start("Repair the shop").add_task("Paint it")
    for name in (".claude", ".craft", CONTRACT):
        os.rename(first.file(name), second.file(name))
    with second.open() as keeper:
        keeper.mirrors.switch_on("orchestrator")
        assert keeper.session().document().goal == "Repair the shop"
        assert [task.text for task in keeper.session().document().tasks] == ["Paint it"]
        assert sorted(row.goal for row in keeper.history()) == ["Build the shop", "Repair the shop"]
        for item in ("contract", "timer", "craft"):
            keeper.mirrors.switch_on(item)
        assert {row.goal for row in keeper.history()} == {"Repair the shop", "Build the shop"}
        assert keeper.session().document().goal == "Repair the shop"
        assert (keeper.notices, second.rejected()) == ([], [])
        second.in_step(keeper)


@pytest.mark.parametrize("name", ["timer", "contract", "craft"])
def test_mirror_on_for_one_format_imports_its_files(name: str, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    first, second = Project(tmp_path / "a", name), Project(tmp_path / "b")
    with first.open() as keeper:
        keeper.start("Repair the shop", task="Repair the shop").message()
    for folder in (".claude", ".craft", CONTRACT):
        if first.file(folder).exists():
            os.rename(first.file(folder), second.file(folder))
    with second.open() as keeper:
        keeper.mirrors.switch_on(name)
        assert [row.goal for row in keeper.history()] == ["Repair the shop"]
        assert (keeper.current() is not None) == (name == "timer")
        assert (keeper.notices, second.rejected()) == ([], [])
        second.in_step(keeper, (name,))


def test_mirror_is_refused_over_a_handmade_file(tmp_path: Path) -> None:
    """It is neither imported nor changed."""
    project = Project(tmp_path)
    mine = {"working_on": "the shop", "next_steps": ["paint"]}
    project.write(TIMER, mine)
    before = project.file(TIMER).read_bytes()
    with project.open() as keeper, pytest.raises(Conflict, match="is not a timer file"):
        keeper.mirrors.switch_on("timer")
    assert project.file(TIMER).read_bytes() == before
    with project.open() as keeper:
        assert keeper.mirrors.status() == []
    project.write(REGISTRY, "- mine\n")
    with project.open() as keeper, pytest.raises(Conflict, match="is not a contract file"):
        keeper.mirrors.switch_on("contract")
    assert project.file(REGISTRY).read_text() == "- mine\n"
