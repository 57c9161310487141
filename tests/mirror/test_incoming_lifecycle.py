"""Incoming: sessions ended by their file, backward changes, times of edits, and history lines recorded once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Keeper
from holdfast.core.times import parse_time
from holdfast.formats.mirror.contract import feature_files, registry, yaml_files
from holdfast.machine import files
from tests.support.mirrored_project import FORMATS, HISTORY, ORCHESTRATOR, REGISTRY, TIMER, Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, *FORMATS)


@pytest.fixture
def keeper(project: Project) -> Iterator[Keeper]:
    with project.open() as keeper:
        yield keeper


# ── sessions ended by their file ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("word", "status"), [("complete", "completed"), ("aborted", "aborted")])
def test_session_ended_by_another_program_moves_into_the_archive(
    word: str, status: str, project: Project, keeper: Keeper
) -> None:
    """The current file is removed: its content is in the log and in the archive."""
    session = keeper.start("Build the shop")
    name = f"{project.json(ORCHESTRATOR)['session_id']}.json"
    project.edit(ORCHESTRATOR, lambda one: one.update(status=word, reviewer="Grace"))
    with project.open() as other:
        assert other.current() is None
        assert other.session(session.id).document().status == status
    assert not project.file(ORCHESTRATOR).exists()
    assert not project.file(TIMER).exists()
    assert project.archives() == [name]
    assert project.json(f"{HISTORY}/{name}")["reviewer"] == "Grace"
    project.in_step(keeper)


def test_ended_foreign_session_moves_into_the_archive(project: Project, keeper: Keeper) -> None:
    session = keeper.start("Build the shop")
    document = project.json(ORCHESTRATOR)
    session.stop()
    project.write(ORCHESTRATOR, {**document, "session_id": "2026-11-02-abcdef", "status": "complete"})
    with project.open() as other:
        assert other.current() is None
        assert other.session("2026-11-02-abcdef").document().status == "completed"
    assert not project.file(ORCHESTRATOR).exists()
    assert "2026-11-02-abcdef.json" in project.archives()
    project.in_step(keeper)


# ── backward changes ─────────────────────────────────────────────────────────────────────────────────────


def _agent_back(status: str) -> Callable[[Any], object]:
    return lambda one: one["agents"][0].update(status=status)


BACK: dict[str, tuple[Callable[[Project], str], Callable[[Any], object]]] = {
    "orchestrator": (lambda _: ORCHESTRATOR, _agent_back("in_progress")),
    "orchestrator, pending": (lambda _: ORCHESTRATOR, _agent_back("pending")),
    "craft": (lambda project: project.craft(), _agent_back("running")),
    "craft, pending": (lambda project: project.craft(), _agent_back("pending")),
}


@pytest.mark.parametrize("name", BACK)
def test_status_of_an_agent_does_not_go_back(name: str, project: Project, keeper: Keeper) -> None:
    """The file is set aside, restored and reported: a forbidden change is not dropped silently."""
    session = keeper.start("Build the shop")
    session.agent("code-1", type="code", task="Code").done(summary="Done")
    where, change = BACK[name]
    path = where(project)
    before = project.json(path)
    project.edit(path, change)
    with project.open() as other:
        assert other.session(session.id).document().agents[0].status == "completed"
        assert any("set aside" in notice and "code-1" in notice for notice in other.notices), other.notices
    assert [name.partition(".rejected-")[0] for name in project.rejected()] == [path]
    assert project.json(path) == before


@pytest.mark.parametrize("status", ["pending", "in_progress", "blocked"])
def test_status_of_a_task_does_not_go_back(status: str, project: Project, keeper: Keeper) -> None:
    session = keeper.start("Build the shop", at=keeper.now() - 60_000)
    session.add_task("Write the tests", at=keeper.now() - 30_000)
    session.finish_task("t1")
    path = project.plan()
    before = project.file(path).read_text()
    assert 'status: "completed"' in before
    project.write(path, before.replace('status: "completed"', f'status: "{status}"'))
    with project.open() as other:
        assert other.session(session.id).document().tasks[0].status == "completed"
        assert any("set aside" in notice and "t1" in notice for notice in other.notices), other.notices
    assert [name.partition(".rejected-")[0] for name in project.rejected()] == [path]
    assert project.file(path).read_text() == before


def test_status_of_a_feature_does_not_go_back(project: Project, keeper: Keeper) -> None:
    """Others' entries stay; ours is rewritten."""
    keeper.start("Build the shop", at=keeper.now() - 60_000).stop()
    theirs = '  - feature_id: "billing-2026-11-01"\n    status: "paused"\n'
    before = project.file(REGISTRY).read_text() + theirs
    project.write(REGISTRY, before.replace('status: "completed"', 'status: "active"'))
    with project.open() as other:
        other.collect()
        assert any("set aside" in notice for notice in other.notices), other.notices
    assert [name.partition(".rejected-")[0] for name in project.rejected()] == [REGISTRY]
    assert project.file(REGISTRY).read_text() == before


def test_old_copy_of_the_registry_is_rewritten(project: Project, keeper: Keeper) -> None:
    """Nothing in it is new, and it does not stay."""
    session = keeper.start("Build the shop")
    old = project.file(REGISTRY).read_text()
    session.stop()
    before = project.file(REGISTRY).read_text()
    assert old != before
    project.write(REGISTRY, old + "# copied\n")
    with project.open() as other:
        other.collect()
        assert [line.partition(":")[0] for line in other.notices] == [
            f"{REGISTRY} showed session {session.id[:8]} as unfinished, but it is completed"
        ]
    assert project.file(REGISTRY).read_text() == before + "# copied\n"


# ── when an edit was made ────────────────────────────────────────────────────────────────────────────────


def _last_goal(keeper: Keeper, session: str) -> int:
    return next(event.at for event in reversed(keeper.events(session)) if event.type == "session.edited")


@pytest.mark.parametrize("name", ["orchestrator", "craft", "contract"])
def test_edit_has_the_time_its_file_was_written(name: str, project: Project, keeper: Keeper) -> None:
    """Not the time it was noticed."""
    session = keeper.start("Build the shop", at=keeper.now() - 3_600_000)
    path = {"orchestrator": lambda: ORCHESTRATOR, "craft": project.craft, "contract": project.plan}[name]()
    project.write(path, project.file(path).read_text().replace("Build the shop", "Sell the shop"))
    edited = keeper.now() - 600_000
    os.utime(project.file(path), ns=(edited * 1_000_000, edited * 1_000_000))
    with project.open() as other:
        assert other.session(session.id).document().goal == "Sell the shop"
        assert _last_goal(other, session.id) == edited


@pytest.mark.parametrize("away", [-86_400_000 * 400, 86_400_000], ids=["before the session", "in the future"])
def test_impossible_file_time_is_ignored(away: int, project: Project, keeper: Keeper) -> None:
    session = keeper.start("Build the shop")
    project.edit(ORCHESTRATOR, lambda one: one.update(goal="Sell the shop"))
    now = keeper.now()
    os.utime(project.file(ORCHESTRATOR), ns=((now + away) * 1_000_000,) * 2)
    with project.open() as other:
        assert other.session(session.id).document().goal == "Sell the shop"
        assert now <= _last_goal(other, session.id) <= other.now()


# ── lines of history ─────────────────────────────────────────────────────────────────────────────────────


def _line(number: int) -> str:
    return json.dumps(
        {
            "timestamp": "2026-11-15T10:00:00Z", "command": f"make {number}", "arguments": "x" * 100, "model": "opus",
            "agent": "bot", "task_id": None, "status": "success", "duration_ms": 5,
        }
    )  # fmt: skip


def _ran(keeper: Keeper, session: str) -> int:
    return sum(event.type == "command.ran" for event in keeper.events(session))


def test_foreign_history_lines_are_stored_only_as_events(project: Project, keeper: Keeper) -> None:
    """Twenty lines, one by one: each is recorded once, and stored documents do not grow with them."""
    session = keeper.start("Build the shop")
    path = project.feature() / "history.jsonl"
    for number in range(20):
        with path.open("a") as file:
            file.write(_line(number) + "\n")
        with project.open() as other:
            other.session(session.id).document()
    assert _ran(keeper, session.id) == 20
    kept = [event for event in keeper.events(session.id) if event.type == "extra.kept"]
    assert sum(len(str(event.data)) for event in kept) < 2000
    assert keeper.notices == []


def test_history_line_is_recorded_once_whatever_else_changes(project: Project, keeper: Keeper) -> None:
    """Even after the session's end, when it accepts nothing more; two equal lines are two."""
    session = keeper.start("Build the shop")
    path = project.feature() / "history.jsonl"
    with path.open("a") as file:
        file.write(f"{_line(1)}\n{_line(1)}\n")
    with project.open() as other:
        other.session(session.id).add_task("Paint it")
    assert _ran(keeper, session.id) == 2
    plan = project.plan()
    project.write(plan, project.file(plan).read_text().replace("Paint it", "Paint it red"))
    session.stop()
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    with project.open() as other:
        other.collect()
        assert other.notices == []
        assert _ran(other, session.id) == 2


# ── concurrent writes ────────────────────────────────────────────────────────────────────────────────────


def _write_in_between(monkeypatch: pytest.MonkeyPatch, path: str, change: Callable[[str], str]) -> list[str]:
    """Write to a file once, without a lock, after it was read and before it is replaced."""
    real = files.write_atomic
    done: list[str] = []

    def late(where: str, data: bytes, **more: Any) -> None:
        if where == path and not done:
            done.append(path)
            Path(path).write_text(change(Path(path).read_text()))
        real(where, data, **more)

    monkeypatch.setattr("holdfast.formats.mirror.contract.yaml_files.write_atomic", late)
    return done


def test_concurrently_added_registry_entry_stays(
    project: Project, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper.start("Build the shop")
    root = str(project.file(REGISTRY).parent)
    name = project.feature().name
    done = _write_in_between(
        monkeypatch, str(project.file(REGISTRY)),
        lambda text: text + '  - feature_id: "billing-2026-11-01"\n    status: "paused"\n',
    )  # fmt: skip
    registry.put(root, {"feature_id": name, "status": "paused"})
    assert done
    assert [(entry["feature_id"], entry["status"]) for entry in registry.entries(root)] == [
        (name, "paused"),
        ("billing-2026-11-01", "paused"),
    ]


def test_concurrently_added_key_of_state_stays(
    project: Project, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even without a follower that wants to know."""
    session = keeper.start("Build the shop")
    root = str(project.file(REGISTRY).parent)
    path = project.file(project.state())
    files_now = {"state": yaml_files.load(str(path)), "plan": yaml_files.load(str(project.file(project.plan())))}
    document: Any = {key: dict(value.value) for key, value in files_now.items() if value is not None}
    document["entry"] = registry.entry(root, project.feature().name)
    document["state"]["current_state"] = {**document["state"]["current_state"], "model_in_use": "opus"}
    done = _write_in_between(monkeypatch, str(path), lambda text: text + 'reviewer: "Grace"\n')
    feature_files.update(root, document)
    assert done
    assert 'reviewer: "Grace"' in path.read_text()
    assert 'model_in_use: "opus"' in path.read_text()
    assert session.id


def test_concurrent_pause_in_the_registry_is_imported(
    project: Project, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in our own entry, which we would have overwritten."""
    session = keeper.start("Build the shop", at=keeper.now() - 5000)
    done = _write_in_between(
        monkeypatch, str(project.file(REGISTRY)), lambda text: text.replace('status: "active"', 'status: "paused"')
    )
    session.note("one")
    assert done
    with project.open() as other:
        assert other.session(session.id).document().status == "paused"
    assert parse_time(str(registry.entries(str(project.file(REGISTRY).parent))[0]["last_active"]))
