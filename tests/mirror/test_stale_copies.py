"""Stale copies of mirrored files, and files under names and ids that other programs chose."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Keeper
from holdfast.formats.import_ import import_files
from tests.support.mirrored_project import CONTRACT, CRAFT, ORCHESTRATOR, REGISTRY, TIMER, Project

_FOREIGN = "abc12345-def6-7890-ghij-klmnopqrstuv"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def keeper(project: Project) -> Iterator[Keeper]:
    with project.open() as keeper:
        yield keeper


def _status(project: Project, path: str) -> str:
    return str(project.json(path)["status"])


# ── sessions that have ended ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", [ORCHESTRATOR, TIMER])
@pytest.mark.parametrize("edited", [False, True])
def test_stale_copy_of_a_finished_session_is_removed_and_reported(
    path: str, edited: bool, project: Project, keeper: Keeper
) -> None:
    keeper.mirrors.switch_on("orchestrator" if path == ORCHESTRATOR else "timer")
    session = keeper.start("Build the shop", scope="Shop", task="Build it")
    copy = project.json(path)
    session.add_task("Write the tests")
    session.stop()
    assert not project.file(path).exists()
    project.write(path, {**copy, "owner": "anna"} if edited else project_text(copy))
    keeper.notices.clear()
    assert keeper.current() is None
    assert not project.file(path).exists()
    assert session.document().status == "completed"
    assert any("but it is completed: the file was removed" in line for line in keeper.notices)


def project_text(document: Any) -> str:
    """A document as the mirror writes it."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def test_stale_copy_of_a_finished_session_stays_where_git_tracks_it(project: Project) -> None:
    subprocess.run(["git", "init", "-q", str(project.path)], check=True)
    with project.open() as keeper:
        keeper.mirrors.switch_on("orchestrator")
        session = keeper.start("Build the shop")
        copy = project.file(ORCHESTRATOR).read_bytes()
        subprocess.run(["git", "-C", str(project.path), "add", "-f", ORCHESTRATOR], check=True)
        session.stop()
        project.file(ORCHESTRATOR).write_bytes(copy)
        keeper.notices.clear()
        assert keeper.current() is None
        assert any("left as git has it" in line for line in keeper.notices)
        keeper.notices.clear()
        assert keeper.current() is None
        assert not keeper.notices
    assert project.file(ORCHESTRATOR).read_bytes() == copy


def test_stale_copy_of_a_finished_craft_session_is_updated_and_reported(project: Project, keeper: Keeper) -> None:
    keeper.mirrors.switch_on("craft")
    session = keeper.start("Build the shop")
    copy = project.file(project.craft()).read_bytes()
    session.stop()
    project.file(project.craft()).write_bytes(copy)
    keeper.notices.clear()
    assert keeper.current() is None
    assert _status(project, project.craft()) == "completed"
    assert any("as unfinished, but it is completed: the file was updated" in line for line in keeper.notices)


def test_stale_registry_with_a_finished_feature_is_updated_and_reported(project: Project, keeper: Keeper) -> None:
    keeper.mirrors.switch_on("contract")
    session = keeper.start("Build the shop")
    shutil.copytree(project.file(CONTRACT), project.path / "copy")
    session.stop()
    shutil.copy(project.path / "copy" / "active-features.yaml", project.file(REGISTRY))
    keeper.notices.clear()
    assert keeper.current() is None
    assert 'status: "completed"' in project.file(REGISTRY).read_text()
    assert any("but it is completed" in line for line in keeper.notices)


def test_stale_copy_of_an_unfinished_session_is_not_reported(project: Project, keeper: Keeper) -> None:
    keeper.mirrors.switch_on("craft")
    session = keeper.start("Build the shop")
    copy = project.file(project.craft()).read_bytes()
    session.add_task("Write the tests")
    project.file(project.craft()).write_bytes(copy)
    keeper.notices.clear()
    assert keeper.current() is not None
    assert project.json(project.craft())["pending_tasks"] == ["Write the tests"]
    assert keeper.notices == []


# ── stale copies ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("left_out", [False, True])
def test_stale_craft_copy_adds_no_key_of_ours_when_its_agent_has_ended(
    left_out: bool, project: Project, keeper: Keeper
) -> None:
    """Its null is unchanged: the later end does not contradict the status in the copy."""
    keeper.mirrors.switch_on("craft")
    session = keeper.start("Build the shop")
    agent = session.agent("code-1", type="feature-dev", task="Code", pid=None)
    stale = project.json(project.craft())
    agent.done(summary="ok")
    before = project.json(project.craft())["agents"]
    stale["pending_tasks"].append("Write the tests")
    if left_out:
        del stale["agents"][0]["completed_at"]
    project.write(project.craft(), stale)
    assert [task.text for task in session.document().tasks] == ["Write the tests"]
    assert project.json(project.craft())["agents"] == before
    assert "_as_found" not in project.file(project.craft()).read_text()
    project.in_step(keeper, ("craft",))


# ── ids other than UUIDs ─────────────────────────────────────────────────────────────────────────────────


def _document(**more: object) -> dict[str, object]:
    return {
        "schema_version": "1.0.0", "session_id": _FOREIGN, "created_at": "2026-01-17T14:30:00.000Z",
        "updated_at": "2026-01-17T14:45:23.142Z", "device": "MacBook Pro", "project": "/Users/dt/my-app",
        "goal": "Add sign-in", "mode": "default", "status": "in_progress", "progress": 0.5, "agents": [],
        "completed_work": [], "pending_tasks": ["Add unit tests"], "decisions_made": [],
        "files_modified": [
            {
                "path": "src/auth.ts", "action": "created", "agent_id": "code-1",
                "timestamp": "2026-01-17T14:35:00.000Z", "lines_added": 127, "lines_removed": 0, "hash_before": None,
                "hash_after": "a1b2c3d4e5f6789012345678901234567890abcd",
            }
        ],
        "context_usage": {"estimated_tokens": 1, "compression_count": 0, "last_compression": None, "by_agent": {}},
        "teleportation": {
            "enabled": False, "last_sync": None, "sync_status": None, "sync_error": None, "devices": ["MacBook Pro"],
            "storage_backend": "local", "encrypted": False, "shared_with": None,
        },
        **more,
    }  # fmt: skip


@pytest.mark.parametrize("name", [_FOREIGN, "my session", "login"])
def test_craft_file_keeps_its_name_and_the_id_of_its_program(name: str, project: Project, keeper: Keeper) -> None:
    path = f"{CRAFT}/{name}.json"
    project.write(path, _document())
    keeper.mirrors.switch_on("craft")
    session = keeper.session(_FOREIGN)
    for number in range(2):
        document = project.json(path)
        project.write(path, {**document, "pending_tasks": [*document["pending_tasks"], f"task {number}"]})
        session.note(f"note {number}")
        document_now = project.json(path)
        assert document_now["session_id"] == _FOREIGN
        assert document_now["files_modified"][0]["hash_after"] == "a1b2c3d4e5f6789012345678901234567890abcd"
        assert document_now["pending_tasks"][-1] == f"task {number}"
    assert sorted(path.name for path in project.file(CRAFT).iterdir()) == sorted([f"{name}.json", "index.json"])
    (entry,) = project.json(f"{CRAFT}/index.json")["sessions"]
    assert (entry["session_id"], entry["file"]) == (_FOREIGN, f"{name}.json")
    text = project.file(path).read_text()
    assert ("_as_found" in text, '"holdfast"' in text) == (False, False)
    assert session.document().aliases.craft == _FOREIGN


def test_craft_file_named_by_the_session_id_is_the_current_one_of_two(project: Project, keeper: Keeper) -> None:
    project.write(f"{CRAFT}/{_FOREIGN}.json", _document())
    project.write(f"{CRAFT}/a copy.json", _document())
    keeper.mirrors.switch_on("craft")
    session = keeper.session(_FOREIGN)
    session.add_task("Write the guide")
    assert "Write the guide" in project.json(f"{CRAFT}/{_FOREIGN}.json")["pending_tasks"]
    assert project.json(f"{CRAFT}/a copy.json") == _document()
    assert len(project.json(f"{CRAFT}/index.json")["sessions"]) == 1


# ── files that are replaced ──────────────────────────────────────────────────────────────────────────────


def test_torn_craft_file_is_reported_as_set_aside_once_when_its_session_is_written_there(
    project: Project, keeper: Keeper
) -> None:
    path = f"{CRAFT}/{_FOREIGN}.json"
    whole = project.path / "whole.json"
    whole.write_text(json.dumps(_document()))
    import_files(keeper, [str(whole)], None, salvage=False)
    torn = json.dumps(_document(), indent=2)[:-200]
    project.write(path, torn)
    keeper.session(_FOREIGN).resume()
    keeper.notices.clear()
    keeper.mirrors.switch_on("craft")
    notices = [line for line in keeper.notices if path in line]
    assert len(notices) == 1
    assert "was set aside as" in notices[0]
    (kept,) = project.rejected()
    assert project.file(kept).read_text() == torn
    (mirrored,) = keeper.mirrors.status()
    assert (mirrored.left_alone, mirrored.changed_outside) == ({}, False)
