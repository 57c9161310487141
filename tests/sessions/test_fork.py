"""A fork is a session of one's own with what is open in another, which stays unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.errors import NotFound
from tests.support.two_devices import Devices, carry


@pytest.fixture
def devices(tmp_path: Path) -> Devices:
    return Devices(tmp_path)


def test_fork_takes_over_goal_open_tasks_decisions_and_notes(devices: Devices) -> None:
    """And phases, but nothing that happened."""
    origin = devices.laptop.start(
        "Build the shop", scope="web", task="build shop", mode="optimize", tags=["a", "b"], model="m"
    )
    origin.edit(progress=0.4, summary="Half of it")
    done, going = origin.add_task("Done", phase="one"), origin.add_task("Going", phase="two", agent="a1")
    stuck, free = origin.add_task("Stuck"), origin.add_task("Free", task_id="free")
    dropped = origin.add_task("Dropped")
    origin.finish_task(done)
    origin.start_task(going, artifacts=["a.py"])
    origin.block_task(stuck, outcome="no key")
    origin.drop_task(dropped)
    origin.decide("Hybrid", context="Token", options=["JWT", "Hybrid"], why="Scales")
    origin.note("Ask them")
    origin.agent("a1", type="coder", pid=None)
    origin.measure_context(5000)
    before = devices.laptop.events(origin.id)
    fork = origin.fork()
    made, old = fork.document(), origin.document()
    assert (made.continues, made.status, made.id != old.id) == (origin.id, "in_progress", True)
    for name in ("goal", "scope", "task", "mode", "tags", "model", "summary", "progress", "phases"):
        assert getattr(made, name) == getattr(old, name), name
    assert [(task.id, task.text, task.phase, task.agent, task.status, task.outcome) for task in made.tasks] == [
        (going, "Going", "two", "a1", "in_progress", None),
        (stuck, "Stuck", None, None, "blocked", "no key"),
        (free, "Free", None, None, "pending", None),
    ]
    assert made.tasks[0].artifacts == ["a.py"]
    assert [(decision.chosen, decision.context, decision.options, decision.why) for decision in made.decisions] == [
        ("Hybrid", "Token", ["JWT", "Hybrid"], "Scales")
    ]
    assert [note.text for note in made.notes] == ["Ask them"]
    assert (made.agents, made.files, made.context.tokens, made.branch) == ([], [], None, None)
    assert made.time.elapsed_ms < 60_000
    assert devices.laptop.events(origin.id) == before
    current = devices.laptop.current()
    assert current is not None
    assert current.id == fork.id


def test_fork_takes_this_devices_side_of_a_conflict(devices: Devices) -> None:
    begun = devices.laptop.start("Build the shop")
    task = begun.add_task("Write it")
    devices.meet()
    there = devices.desktop.session(begun.id)
    begun.edit(goal="Ship on Friday")
    begun.finish_task(task)
    there.edit(goal="Ship on Monday")
    there.block_task(task, outcome="no key")
    begun.add_task("Mine", task_id="next")
    there.add_task("Theirs", task_id="next")
    devices.meet()
    here, elsewhere = begun.fork().document(), there.fork().document()
    assert (here.goal, elsewhere.goal) == ("Ship on Friday", "Ship on Monday")
    assert [(task.id, task.text, task.status) for task in here.tasks] == [("next", "Mine", "pending")]
    assert [(task.id, task.text, task.status) for task in elsewhere.tasks] == [
        (task, "Write it", "blocked"), ("next", "Theirs", "pending"),
    ]  # fmt: skip
    assert here.conflicts == elsewhere.conflicts == []
    assert len([conflict for conflict in begun.document().conflicts if conflict.chosen is None]) == 3


def test_fork_copies_both_tasks_with_one_id(tmp_path: Path) -> None:
    """Under ids of their own."""
    devices = Devices(tmp_path)
    begun = devices.laptop.start("Build the shop")
    devices.meet()
    begun.add_task("One", task_id="t1")
    devices.desktop.session(begun.id).add_task("Two", task_id="t1")
    devices.meet()
    phone = devices.opened("phone", devices.here)
    carry(devices.laptop, phone)
    made = phone.session(begun.id).fork().document()
    assert sorted(task.text for task in made.tasks) == ["One", "Two"]
    assert len({task.id for task in made.tasks}) == 2


def test_fork_starts_from_a_finished_session(devices: Devices) -> None:
    """Which stays completed."""
    origin = devices.laptop.start("Build the shop")
    origin.add_task("Later")
    origin.complete()
    made = origin.fork().document()
    assert (made.status, [task.text for task in made.tasks]) == ("in_progress", ["Later"])
    assert origin.document().status == "completed"


def test_fork_is_refused_when_the_session_was_deleted(devices: Devices) -> None:
    origin = devices.laptop.start("Build the shop")
    devices.laptop.delete(origin.id, force=True)
    with pytest.raises(NotFound):
        origin.fork()


def test_forks_of_both_devices_are_visible_to_both(devices: Devices) -> None:
    """After a sync there are three sessions."""
    begun = devices.laptop.start("Build the shop")
    devices.meet()
    mine, theirs = begun.fork(), devices.desktop.session(begun.id).fork()
    devices.meet()
    for keeper in (devices.laptop, devices.desktop):
        rows = keeper.history(all_projects=True)
        assert {row.id for row in rows} == {begun.id, mine.id, theirs.id}
