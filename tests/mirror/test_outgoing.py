"""Outgoing: after every change, every mirrored file equals an export."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Keeper
from holdfast.core.errors import Conflict, HoldfastError
from holdfast.formats.mirror.contract import history
from holdfast.keeper.session import SessionHandle
from tests.support.mirrored_project import CONTRACT, CRAFT, FORMATS, HISTORY, ORCHESTRATOR, REGISTRY, TIMER, Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, *FORMATS)


@pytest.fixture
def keeper(project: Project) -> Iterator[Keeper]:
    with project.open() as keeper:
        yield keeper


# ── switching on ─────────────────────────────────────────────────────────────────────────────────────────


def test_mirror_on_without_a_session_creates_the_contract_directory(project: Project) -> None:
    """README and an empty registry; the other formats have nothing to show yet."""
    assert "history.jsonl" in project.file(f"{CONTRACT}/README.md").read_text()
    assert "active_features" in project.file(REGISTRY).read_text()
    assert not project.file(ORCHESTRATOR).exists()
    assert not project.file(TIMER).exists()
    assert not project.file(CRAFT).exists()


def test_mirror_on_shows_the_current_session(tmp_path: Path) -> None:
    """With its whole content."""
    project = Project(tmp_path)
    with project.open() as keeper:
        keeper.start("Build the shop").note("one")
        for name in FORMATS:
            keeper.mirrors.switch_on(name)
        project.in_step(keeper)
        lines = [line for _, line in history.read(str(project.feature() / "history.jsonl"))]
        assert [line["command"] for line in lines if isinstance(line, dict)][:2] == ["session.started", "note.added"]


def test_mirror_on_or_off_twice_is_a_conflict(keeper: Keeper) -> None:
    with pytest.raises(Conflict, match="on already"):
        keeper.mirrors.switch_on("timer")
    keeper.mirrors.switch_off("timer")
    with pytest.raises(Conflict, match="off already"):
        keeper.mirrors.switch_off("timer")


def test_mirror_off_leaves_the_files_and_stops_writing(project: Project, keeper: Keeper) -> None:
    session = keeper.start("Build the shop")
    before = {name: project.file(name).read_bytes() for name in (ORCHESTRATOR, TIMER, project.craft())}
    for item in FORMATS:
        keeper.mirrors.switch_off(item)
    session.note("after")
    session.stop()
    assert {name: project.file(name).read_bytes() for name in before} == before
    assert keeper.mirrors.status() == []


def test_mirror_on_again_catches_up(project: Project, keeper: Keeper) -> None:
    """Changes made while it was off are shown; the file of an ended session is removed."""
    session = keeper.start("Build the shop")
    for name in FORMATS:
        keeper.mirrors.switch_off(name)
    session.stop()
    for name in FORMATS:
        keeper.mirrors.switch_on(name)
    assert not project.file(TIMER).exists()
    project.in_step(keeper)


# ── each trigger ─────────────────────────────────────────────────────────────────────────────────────────


TRIGGERS: dict[str, Callable[[SessionHandle], object]] = {
    "agent starts": lambda session: session.agent("code-2", type="code", task="More"),
    "agent makes progress": lambda session: session.find_agent("code-1").progress(0.7),
    "agent completes": lambda session: session.find_agent("code-1").done(summary="Done", tokens=12),
    "agent fails": lambda session: session.find_agent("code-1").fail("It broke", category="logical"),
    "decision": lambda session: session.decide("Hybrid", why="It scales"),
    "save": lambda session: session.save(),
    "before compression": lambda session: session.measure_context(90_000).compress(10_000),
    "pause": lambda session: session.pause("Lunch"),
    "task": lambda session: session.add_task("Write the tests"),
    "message": lambda session: session.message(),
    "edit": lambda session: session.edit(goal="Build the better shop"),
}


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_every_trigger_saves(trigger: str, project: Project, keeper: Keeper) -> None:
    """Every trigger of the orchestrator's text, for all formats."""
    session = keeper.start("Build the shop")
    session.agent("code-1", type="code", task="Code")
    before = keeper.events(session.id)
    TRIGGERS[trigger](session)
    assert len(keeper.events(session.id)) > len(before)
    project.in_step(keeper)


def test_file_contains_what_the_triggers_recorded(project: Project, keeper: Keeper) -> None:
    session = keeper.start("Build the shop")
    agent = session.agent("code-1", type="code", task="Code")
    agent.progress(0.6)
    session.decide("Hybrid", why="It scales")
    session.add_task("Write the tests")
    document = project.json(ORCHESTRATOR)
    assert document["agents"][0]["progress"] == 60
    assert document["decisions_made"][0]["decision"] == "Hybrid"
    assert document["pending_tasks"] == ["Write the tests"]
    agent.fail("It broke", category="logical")
    document = project.json(ORCHESTRATOR)
    assert document["agents"][0]["status"] == "failed"
    assert [item["message"] for item in document["errors"]] == ["It broke"]


def test_timer_file_is_current_after_every_message_and_removed_at_stop(project: Project, keeper: Keeper) -> None:
    session = keeper.start("Build the shop", scope="Shop", task="Build it")
    assert project.json(TIMER)["status"] == "IN_PROGRESS"
    seen = []
    for _ in range(3):
        session.message()
        seen.append(project.json(TIMER)["lastMessageTime"])
    assert seen == sorted(set(seen))
    session.pause("Lunch")
    document = project.json(TIMER)
    assert (document["status"], document["pauses"][-1]["endTime"]) == ("PAUSED", None)
    session.resume()
    assert project.json(TIMER)["pauses"][-1]["endTime"] is not None
    session.stop()
    assert not project.file(TIMER).exists()


@pytest.mark.parametrize(("end", "status"), [("stop", "complete"), ("abort", "aborted")])
def test_ended_session_moves_into_the_archive(end: str, status: str, project: Project, keeper: Keeper) -> None:
    """Its file exists once: in the history folder, not as the current one."""
    session = keeper.start("Build the shop")
    name = f"{project.json(ORCHESTRATOR)['session_id']}.json"
    getattr(session, end)()
    assert not project.file(ORCHESTRATOR).exists()
    assert project.archives() == [name]
    assert project.json(f"{HISTORY}/{name}")["status"] == status
    project.in_step(keeper)


def test_replaced_session_is_archived_as_paused(project: Project, keeper: Keeper) -> None:
    keeper.start("Build the shop")
    old = project.json(ORCHESTRATOR)["session_id"]
    keeper.start("Repair the shop", replace=True)
    assert project.json(f"{HISTORY}/{old}.json")["status"] == "paused"
    assert project.json(ORCHESTRATOR)["goal"] == "Repair the shop"
    assert project.json(TIMER)["sessionId"] != old
    project.in_step(keeper)


def test_resumed_session_comes_back_from_the_archive(project: Project, keeper: Keeper) -> None:
    first = keeper.start("Build the shop")
    keeper.start("Repair the shop", replace=True).stop()
    first.resume()
    assert project.json(ORCHESTRATOR)["goal"] == "Build the shop"
    assert len(project.archives()) == 1
    project.in_step(keeper)


def test_deleted_session_leaves_no_file(project: Project, keeper: Keeper) -> None:
    session = keeper.start("Use the secret plan")
    session.stop()
    keeper.delete(session.id, force=True)
    assert project.archives() == []
    assert [path.name for path in project.file(CRAFT).glob("*.json") if path.name != "index.json"] == []


def test_contract_files_contain_everything(project: Project, keeper: Keeper) -> None:
    """State, plan, registry, and a history line with the whole event for every event."""
    session = keeper.start("Add the login", model="opus")
    task = session.add_task("Write the tests", phase="Testing")
    session.start_task(task)
    assert f'active_task: "{task}"' in project.file(project.state()).read_text()
    assert "Testing" in project.file(project.plan()).read_text()
    session.finish_task(task)
    session.stop()
    assert 'status: "completed"' in project.file(REGISTRY).read_text()
    lines = [line for _, line in history.read(str(project.feature() / "history.jsonl"))]
    kept = [line["x-holdfast"] for line in lines if isinstance(line, dict)]
    assert [item["hash"] for item in kept if isinstance(item, dict)] == [
        event.hash for event in keeper.events(session.id)
    ]
    project.in_step(keeper)


def test_files_do_not_change_with_time(project: Project, keeper: Keeper) -> None:
    """They are as of the last event, never of now."""
    keeper.start("Build the shop")
    names = [ORCHESTRATOR, TIMER, project.craft(), project.state(), project.plan(), REGISTRY]
    before = {name: project.file(name).read_bytes() for name in names}
    stamps = {name: project.file(name).stat().st_mtime_ns for name in names}
    for _ in range(5):
        keeper.session().document()
        assert keeper.current() is not None
    assert {name: project.file(name).read_bytes() for name in names} == before
    assert {name: project.file(name).stat().st_mtime_ns for name in names} == stamps


# ── any sequence ─────────────────────────────────────────────────────────────────────────────────────────


def _verbs(keeper: Keeper, chance: random.Random) -> dict[str, Callable[[], object]]:
    session = keeper.current()
    if session is None:
        return {
            "start": lambda: keeper.start(
                chance.choice(["Build the shop", "Add ünïcode: “quotes” & #tags", "x: [y"])
            ),
            "resume": lambda: keeper.latest_unfinished() and keeper.session(keeper.history()[0].id).resume(),
        }
    agent, task = chance.choice("abc"), chance.choice(["t1", "t2", "t3"])
    kept = session
    return {
        "agent": lambda: kept.agent(agent, type="code", task="Code: it", background=chance.random() < 0.5),
        "progress": lambda: kept.find_agent(agent).progress(chance.random()),
        "done": lambda: kept.find_agent(agent).done(summary="Well\ndone", tokens=chance.randrange(9000)),
        "fail": lambda: kept.find_agent(agent).fail("No: why", category=chance.choice(["logical", "transient"])),
        "retry": lambda: kept.find_agent(agent).retry(),
        "task": lambda: kept.add_task(f"Task {chance.randrange(4)}", phase=chance.choice([None, "One", "Two"])),
        "start task": lambda: kept.start_task(task, artifacts=["a/b.py"]),
        "finish task": lambda: kept.finish_task(task, outcome="Good"),
        "block": lambda: kept.block_task(task),
        "drop": lambda: kept.drop_task(task),
        "reopen": lambda: kept.reopen_task(task),
        "decide": lambda: kept.decide("This", context="That", options=["This", "Other"], why="Because"),
        "file": lambda: kept.changed(f"src/{chance.randrange(5)}.py", agent=agent),
        "context": lambda: kept.measure_context(chance.randrange(200_000), agent=chance.choice([None, agent])),
        "compress": lambda: kept.compress(100),
        "note": lambda: kept.note("# not a comment\n- nor a list"),
        "message": lambda: kept.message(chance.choice(["user", "assistant"])),
        "pause": lambda: kept.pause("Lunch"),
        "go on": kept.resume,
        "edit": lambda: kept.edit(goal=chance.choice(["New goal", "Other goal"]), progress=chance.random()),
        "fail session": lambda: kept.fail("Broken", category="resource"),
        "stop": lambda: kept.stop() if chance.random() < 0.3 else None,
        "abort": lambda: kept.abort("No") if chance.random() < 0.2 else None,
        "replace": lambda: keeper.start("Another", replace=True) if chance.random() < 0.3 else None,
    }


@pytest.mark.parametrize("seed", range(4))
def test_files_are_in_step_after_each_of_many_verbs(seed: int, project: Project, keeper: Keeper) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        verbs = _verbs(keeper, chance)
        name = chance.choice(sorted(verbs))
        with contextlib.suppress(HoldfastError):  # a verb that the state forbids changes nothing
            verbs[name]()
        project.in_step(keeper)
        assert keeper.notices == [], name
    assert project.rejected() == []
    assert project.leftovers() == []


def test_cost_of_a_change_does_not_grow_with_the_history(project: Project, keeper: Keeper) -> None:
    """Two thousand events: what is read of the history to append a line stays constant."""
    session = keeper.start("Build the shop")
    read: list[int] = []
    whole = history.read

    def counted(path: str) -> Iterator[Any]:
        read.append(1)
        return whole(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "read", counted)
        with keeper.store().transaction() as transaction:
            from holdfast.core.events import NoteAdded
            from holdfast.store.interface import Draft

            for number in range(1_950):
                transaction.record(session.id, Draft(NoteAdded(text=f"note {number}"), keeper.now(), "a"))
        for number in range(50):
            session.note(f"last {number}")
    assert read == []
    lines = (project.feature() / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["x-holdfast"]["hash"] for line in lines] == [
        event.hash for event in keeper.events(session.id)
    ]
    project.in_step(keeper)
