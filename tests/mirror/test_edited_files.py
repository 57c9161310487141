"""Edits of mirrored files: corrected facts are imported; changes that are impossible are refused and set aside."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Keeper
from holdfast.core.errors import Refused
from holdfast.formats.contract.history import events_of
from holdfast.formats.mirror import settle as mirror_settle
from holdfast.formats.mirror.state import MirrorState
from holdfast.formats.text.read import read_yaml
from holdfast.keeper.session import SessionHandle
from holdfast.machine.locks import locked
from tests.support.mirrored_project import CONTRACT, FORMATS, HISTORY, ORCHESTRATOR, REGISTRY, TIMER, Project


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
    session.agent("code-1", type="code", task="Code", pid=None).done(summary="Coded")
    session.agent("test-1", type="test", task="Test", pid=None)
    session.add_task("Write the tests", task_id="tests")
    session.add_task("Paint it", task_id="paint")
    session.finish_task("paint")
    return session


def facts_of(session: SessionHandle) -> object:
    """What a session contains, at any time."""
    document = session.document()
    return (
        document.id, document.goal, document.status, document.mode, document.created_at, document.progress,
        document.aliases, document.tasks, document.project, document.context,
        [(agent.id, agent.type, agent.task, agent.status, agent.progress) for agent in document.agents],
    )  # fmt: skip


def text_edit(project: Project, name: str, old: str, new: str) -> None:
    text = project.file(name).read_text()
    assert old in text
    project.write(name, text.replace(old, new, 1))


def plan(project: Project) -> Any:
    return read_yaml(project.file(project.plan()).read_bytes(), "").value


# ── corrected facts ──────────────────────────────────────────────────────────────────────────────────────


def test_text_agent_and_files_of_a_task_are_read_from_the_plan(
    project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    document = plan(project)
    task = document["phases"][0]["tasks"][0]
    task.update(description="Write all the tests", agent="test-1", artifacts=["tests/all.py"])
    project.write(project.plan(), document)
    task = session.document().tasks[0]
    assert (task.text, task.agent, list(task.artifacts)) == ("Write all the tests", "test-1", ["tests/all.py"])
    assert task.status == "pending"
    assert "Write all the tests" in project.json(ORCHESTRATOR)["pending_tasks"]
    assert "Write the tests" not in project.json(ORCHESTRATOR)["pending_tasks"]
    assert project.rejected() == []
    project.in_step(keeper)


def test_moved_task_is_only_in_its_new_phase(project: Project, keeper: Keeper, session: SessionHandle) -> None:
    document = plan(project)
    task = document["phases"][0]["tasks"].pop(0)
    document["phases"].append({"phase_id": "later", "name": "Later", "tasks": [task]})
    project.write(project.plan(), document)
    assert session.document().tasks[0].phase == "later"
    where = {task["task_id"]: phase["phase_id"] for phase in plan(project)["phases"] for task in phase["tasks"]}
    assert where == {"tests": "later", "paint": "tasks"}
    project.in_step(keeper)


def test_facts_about_agents_are_read_from_either_format(
    project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    def orchestrator(document: Any) -> None:
        document["agents"][0].update(type="backend", task="Code it all", result_summary="Coded it all")
        document["completed_work"][0].update(outcome="Blue", files=["door.txt"])

    project.edit(ORCHESTRATOR, orchestrator)
    agent = session.document().agents[0]
    assert (agent.type, agent.task, agent.summary) == ("backend", "Code it all", "Coded it all")
    done = session.document().tasks[1]
    assert (done.outcome, list(done.artifacts), done.status) == ("Blue", ["door.txt"], "completed")
    project.in_step(keeper)

    def craft(document: Any) -> None:
        document["agents"][0].update(type="frontend", output_summary="Coded by craft")
        document["agents"][1].update(blocking_on="code-1")

    project.edit(project.craft(), craft)
    one, two = session.document().agents
    assert (one.type, one.summary, two.blocking_on) == ("frontend", "Coded by craft", "code-1")
    assert project.json(ORCHESTRATOR)["agents"][0]["result_summary"] == "Coded by craft"
    assert project.rejected() == []
    project.in_step(keeper)


def test_corrected_work_keeps_its_time(project: Project, session: SessionHandle) -> None:
    before = session.document().tasks[1].completed_at
    project.edit(ORCHESTRATOR, lambda document: document["completed_work"][0].update(outcome="Blue"))
    assert session.document().tasks[1].outcome == "Blue"
    assert session.document().tasks[1].completed_at == before


# ── refused edits ────────────────────────────────────────────────────────────────────────────────────────


def in_json(name: Callable[[Project], str], *place: str | int, value: object) -> Callable[[Project], str]:
    def edit(project: Project) -> str:
        def change(document: Any) -> None:
            for step in place[:-1]:
                document = document[step]
            document[place[-1]] = value

        project.edit(name(project), change)
        return name(project)

    return edit


def in_text(name: Callable[[Project], str], old: str, new: str) -> Callable[[Project], str]:
    def edit(project: Project) -> str:
        text_edit(project, name(project), old, new)
        return name(project)

    return edit


def since(name: Callable[[Project], str], key: str) -> Callable[[Project], str]:
    """Another start, in a YAML file."""

    def edit(project: Project) -> str:
        lines = project.file(name(project)).read_text().splitlines()
        changed = [
            line.partition(":")[0] + ': "2026-01-02T00:00:00Z"' if line.strip().startswith(f"{key}:") else line
            for line in lines
        ]
        assert changed != lines
        project.write(name(project), "\n".join(changed) + "\n")
        return name(project)

    return edit


REFUSED: dict[str, tuple[Callable[[Project], str], str]] = {
    "unknown status of a task": (in_text(Project.plan, 'status: "pending"', 'status: "finished"'), "finished"),
    "unknown status of a done task": (in_text(Project.plan, 'status: "completed"', 'status: "finished"'), "finished"),
    "unknown status of the registry": (in_text(lambda _: REGISTRY, '"active"', '"finished"'), "finished"),
    "another feature": (in_text(Project.state, 'feature_id: "build', 'feature_id: "sell'), "id"),
    "another feature in the plan": (in_text(Project.plan, 'id: "build', 'id: "sell'), "id"),
    "another craft session": (
        in_json(Project.craft, "session_id", value="0b5ed5d4-6a4f-4a3e-9a51-1f6a2d3c4b5e"), "id",
    ),
    "orchestrator began": (in_json(lambda _: ORCHESTRATOR, "created", value="2026-01-02T00:00:00Z"), "began"),
    "timer began": (in_json(lambda _: TIMER, "startTime", value="2026-01-02T00:00:00Z"), ""),
    "craft began": (in_json(Project.craft, "created_at", value="2026-01-02T00:00:00.000Z"), "began"),
    "state began": (since(Project.state, "started_at"), "began"),
    "plan began": (since(Project.plan, "created_at"), "began"),
    "registry began": (since(lambda _: REGISTRY, "started_at"), "began"),
    "progress beyond 1": (in_json(Project.craft, "progress", value=7.5), "7.5"),
    "progress as a share": (in_json(lambda _: ORCHESTRATOR, "agents", 1, "progress", value=0.5), "0.5"),
    "newer craft": (in_json(Project.craft, "schema_version", value="1.0.1"), "1.0.1"),
    "newer orchestrator": (in_json(lambda _: ORCHESTRATOR, "schema_version", value="1.1"), "1.1"),
    "newer contract": (in_text(Project.state, 'version: "1.0"', 'version: "1.1"'), "1.1"),
    "older craft": (in_json(Project.craft, "schema_version", value="0.9.0"), "0.9.0"),
    "no mode of ours": (in_json(lambda _: ORCHESTRATOR, "mode", value="dancing"), "dancing"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_edit_that_breaks_the_rules_is_set_aside_and_the_file_restored(
    kind: str, project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    edit, why = REFUSED[kind]
    before = facts_of(session)
    name = edit(project)
    written = project.file(name).read_bytes()
    assert facts_of(session) == before
    (aside,) = project.rejected()
    assert aside.startswith(f"{name}.rejected-")
    assert project.file(aside).read_bytes() == written
    (notice,) = [notice for notice in keeper.notices if "set aside" in notice]
    assert why in notice
    assert [row.id for row in keeper.history()] == [session.id]
    project.in_step(keeper)


def test_changed_id_in_an_archive_is_refused(project: Project, keeper: Keeper, session: SessionHandle) -> None:
    session.stop()
    archive = f"{HISTORY}/{project.archives()[0]}"
    project.edit(archive, lambda document: document.update(session_id="2026-11-02-abcdef"))
    assert [row.id for row in keeper.history()] == [session.id]
    assert len(project.rejected()) == 1
    project.in_step(keeper)


def test_other_spellings_are_understood(project: Project, keeper: Keeper, session: SessionHandle) -> None:
    """A synonym of complete, numbers as text, times with an offset, plain text for an object."""

    def change(document: Any) -> None:
        document["agents"][1].update(status="Completed", completed=document["updated"].replace("Z", "+00:00"))
        document["agents"][1].update(context_tokens="1200")
        document["decisions_made"].append("Use SQLite")

    project.edit(ORCHESTRATOR, change)
    document = session.document()
    assert document.agents[1].status == "completed"
    assert document.context.by_agent["test-1"] == 1200
    assert document.decisions[0].chosen == "Use SQLite"
    assert project.rejected() == []
    project.in_step(keeper)


# ── omissions ────────────────────────────────────────────────────────────────────────────────────────────

KEYS = ("goal", "status", "mode", "agents", "session_id", "created", "completed_work", "context_usage", "project")


@pytest.mark.parametrize("key", KEYS)
def test_omitted_key_changes_nothing(key: str, project: Project, keeper: Keeper, session: SessionHandle) -> None:
    session.pause()
    before = facts_of(session)
    project.edit(ORCHESTRATOR, lambda document: document.pop(key))
    assert facts_of(keeper.session()) == before
    assert key in project.json(ORCHESTRATOR)
    assert project.rejected() == []
    project.in_step(keeper)


def test_plan_without_its_phases_is_rewritten(project: Project, keeper: Keeper, session: SessionHandle) -> None:
    text = project.file(project.plan()).read_text()
    project.write(project.plan(), text[: text.index("phases:")])
    assert len(session.document().tasks) == 2
    assert project.file(project.plan()).read_text() == text
    project.in_step(keeper)


# ── folders ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("name", "folder"), [("orchestrator", ".claude"), ("timer", ".claude"),
                                              ("contract", CONTRACT), ("craft", ".craft")])  # fmt: skip
def test_mirror_is_refused_in_a_linked_folder(name: str, folder: str, tmp_path: Path) -> None:
    project = Project(tmp_path)
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    project.file(folder).symlink_to(outside)
    with project.open() as keeper:
        with pytest.raises(Refused, match="a mirrored folder is a link"):
            keeper.mirrors.switch_on(name)
        assert keeper.mirrors.status() == []
    assert os.listdir(outside) == []


def test_leftovers_of_a_killed_writer_are_removed(
    project: Project, keeper: Keeper, session: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a minute: ours and torn ones; what somebody else wrote is kept under another name."""
    ours = project.file(ORCHESTRATOR).read_bytes()
    theirs = json.dumps({**json.loads(ours), "goal": "Sell the shop"})
    folder = project.file(ORCHESTRATOR).parent
    for name, content in (("1", ours), ("2", ours[:50]), ("3", theirs.encode())):
        (folder / f".holdfast-{name}.tmp").write_bytes(content)
    (project.feature() / ".holdfast-4.tmp").write_bytes(project.file(project.state()).read_bytes())
    session.note("young")
    assert len(project.leftovers()) == 4
    monkeypatch.setattr(keeper.wall, "_read", lambda: time.time_ns() + 120_000_000_000)
    session.note("old")
    assert project.leftovers() == []
    (aside,) = project.rejected()
    assert project.file(aside).read_text() == theirs


# ── many at once ─────────────────────────────────────────────────────────────────────────────────────────


def test_process_served_by_the_lock_holder_does_not_wait_for_the_lock(
    project: Project, session: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder announces that the requested state is written."""
    settled: list[str] = []
    settle = mirror_settle._settle_for_all

    def counted(*words: Any, **more: Any) -> None:
        settled.append(threading.current_thread().name)
        settle(*words, **more)

    monkeypatch.setattr(mirror_settle, "_settle_for_all", counted)

    def work() -> None:
        with project.open() as other:
            other.session(session.id).note("waiting")

    waiting = threading.Thread(target=work, name="waiting")
    memory, root = MirrorState(str(project.home)), str(project.path)
    with locked(memory.lock(root)):
        waiting.start()
        while waiting.is_alive():
            tree = memory.tree(root)
            tree.served = memory.request_count(root)
            memory.save(tree)
            waiting.join(0.01)
    assert settled == []
    assert session.document().notes[-1].text == "waiting"
    assert settled == ["MainThread"]


def test_lock_holder_writes_what_others_record_meanwhile(
    project: Project, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it releases the lock, whatever the clock says."""
    memory, root = keeper.mirrors.stored, str(project.path)
    turns: list[int] = []
    settle = mirror_settle._settle

    def turn(*words: Any, **more: Any) -> None:
        settle(*words, **more)
        turns.append(memory.request_settling(root) if not turns else 0)

    monkeypatch.setattr(mirror_settle, "_settle", turn)
    keeper.mirrors.write()
    assert len(turns) == 2
    assert memory.tree(root).served >= turns[0]


def test_request_counter_starts_again_when_it_is_large(project: Project, keeper: Keeper) -> None:
    memory, root = keeper.mirrors.stored, str(project.path)
    memory.request_settling(root)
    with open(memory.place(root) + ".asked", "ab") as file:
        file.write(b"." * (1 << 17))
    session = keeper.start("Build the shop")
    assert (memory.request_count(root), memory.tree(root).served) == (0, 0)
    session.note("on")
    project.in_step(keeper)


# ── lines of history ─────────────────────────────────────────────────────────────────────────────────────


def test_event_of_a_foreign_line_is_not_written_as_a_second_line(
    project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    """It is stored with our next line: no event is repeated, and none is missing."""
    history = project.feature() / "history.jsonl"
    foreign = {
        "timestamp": "2026-11-15T10:00:00Z", "command": "deploy", "arguments": "--now", "model": "gemini",
        "agent": "other", "task_id": None, "status": "success", "duration_ms": 7,
    }  # fmt: skip
    with history.open("a") as file:
        file.write(json.dumps(foreign) + "\n")
    session.document()
    session.note("on")
    session.note("and on")
    lines = [json.loads(line) for line in history.read_text().splitlines()]
    assert [line for line in lines if "deploy" in json.dumps({**line, "x-holdfast-also": None})] == [foreign]
    known = {event.hash for event in keeper.store().events(session.id)}
    assert "command.ran" in {event.type for event in keeper.store().events(session.id)}
    assert {event.hash for event in events_of(lines)} == known
    check = next(check for check in keeper.doctor()[0] if check.name == "contract")
    assert check.status == "ok", check.detail
    project.in_step(keeper)
