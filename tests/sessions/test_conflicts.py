"""Conflicts between devices are shown with both values, settled by a person, and the same on every device."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Keeper
from holdfast.core.errors import Conflict, Invalid, NotFound
from holdfast.core.events import ConflictResolved
from holdfast.keeper.session import SessionHandle
from tests.support.two_devices import Devices


@pytest.fixture
def devices(tmp_path: Path) -> Devices:
    return Devices(tmp_path)


def conflicting_goals(devices: Devices) -> tuple[SessionHandle, SessionHandle]:
    """A session whose goal both devices changed without knowing of each other."""
    begun = devices.laptop.start("Build the shop")
    devices.meet()
    here, there = begun, devices.desktop.session(begun.id)
    here.edit(goal="Ship on Friday", progress=0.4)
    there.agent("arch-1", type="architect")
    there.edit(goal="Ship on Monday")
    devices.meet()
    return here, there


def open_conflict(session: SessionHandle) -> str:
    (conflict_id,) = [conflict.conflict.id for conflict in session.conflicts() if conflict.conflict.chosen is None]
    return conflict_id


def test_conflict_shows_the_state_on_both_sides(devices: Devices) -> None:
    """Each value with its device and time, and that device's progress and agents at that time."""
    here, there = conflicting_goals(devices)
    (view,) = here.conflicts()
    assert (view.conflict.field, view.conflict.chosen) == ("goal", None)
    shown = {
        value.device: (value.value, side.progress, side.agents)
        for value, side in zip(view.conflict.values, view.sides, strict=True)
        if side is not None
    }
    assert shown == {"laptop": ("Ship on Friday", 0.4, ()), "desktop": ("Ship on Monday", 0.0, ("arch-1",))}
    assert view.conflict.values[view.stands - 1].value == here.document().goal
    assert [conflict.conflict for conflict in there.conflicts()] == [view.conflict] == here.document().conflicts


def test_conflict_side_ends_when_its_device_received_the_other_value(devices: Devices) -> None:
    """Later work of that device belongs to both values."""
    here, _ = conflicting_goals(devices)
    here.edit(progress=0.9)
    (view,) = here.conflicts()
    assert sorted(side.progress for side in view.sides if side is not None) == [0.0, 0.4]


@pytest.mark.parametrize("take", [1, 2])
def test_choice_counts_on_every_device(devices: Devices, take: int) -> None:
    """The conflict is settled under the same id."""
    here, there = conflicting_goals(devices)
    name = open_conflict(here)
    values = [value.value for value in here.conflicts()[0].conflict.values]
    settled = here.resolve(name, take)
    devices.meet()
    assert (settled.id, settled.chosen) == (name, take)
    for session in (here, there):
        document = session.document()
        assert document.goal == values[take - 1]
        assert [(conflict.id, conflict.chosen) for conflict in document.conflicts] == [(name, take)]


def test_choice_event_holds_the_chosen_value(devices: Devices) -> None:
    """And the hashes of all values, for devices that have replaced them since."""
    here, _ = conflicting_goals(devices)
    here.resolve(open_conflict(here), 2)
    event = devices.laptop.events(here.id)[-1]
    assert event.data is not None
    data = msgspec.json.decode(event.data, type=ConflictResolved)
    hashes = {event.hash for event in devices.laptop.events(here.id)}
    assert data.field == "goal"
    assert data.value == here.document().goal
    assert {data.chosen, *data.overruled} <= hashes
    assert len(data.overruled) == 1


def test_choice_can_be_changed_but_not_repeated(devices: Devices) -> None:
    here, _ = conflicting_goals(devices)
    name = open_conflict(here)
    here.resolve(name, 1)
    with pytest.raises(Conflict, match="already"):
        here.resolve(name, 1)
    assert here.resolve(name, 2).chosen == 2
    assert here.document().goal == here.conflicts()[0].conflict.values[1].value


def test_resolve_is_refused_when_the_value_does_not_exist(devices: Devices) -> None:
    """An unknown conflict is not found, an unknown number is invalid; nothing is recorded."""
    here, _ = conflicting_goals(devices)
    before = len(devices.laptop.events(here.id))
    for name in ("00000000", "", "zz", open_conflict(here)[:3]):
        with pytest.raises(NotFound):
            here.resolve(name, 1)
    for take in (0, 3, -1):
        with pytest.raises(Invalid):
            here.resolve(open_conflict(here), take)
    assert len(devices.laptop.events(here.id)) == before
    assert here.resolve(open_conflict(here)[:5].upper(), 1).chosen == 1


def test_concurrent_different_choices_make_one_open_conflict(devices: Devices) -> None:
    """A third choice settles it for good."""
    here, there = conflicting_goals(devices)
    name = open_conflict(here)
    here.resolve(name, 1)
    there.resolve(name, 2)
    devices.meet()
    one, two = devices.documents(here.id)
    assert one == two
    again = open_conflict(here)
    assert again == open_conflict(there) != name
    here.resolve(again, 1)
    devices.meet()
    one, two = devices.documents(here.id)
    assert one == two
    assert all(conflict.chosen is not None for conflict in one.conflicts)


def test_concurrent_equal_choices_settle_the_conflict(devices: Devices) -> None:
    here, there = conflicting_goals(devices)
    name = open_conflict(here)
    here.resolve(name, 2)
    there.resolve(name, 2)
    devices.meet()
    one, two = devices.documents(here.id)
    assert one == two
    assert [conflict.chosen for conflict in one.conflicts] == [2]


def test_work_can_be_chosen_over_a_concurrent_ending(devices: Devices) -> None:
    """Completed on one device, paused on the other."""
    here, there = conflicting_goals(devices)
    here.resolve(open_conflict(here), 1)
    devices.meet()
    here.complete()
    there.pause("lunch")
    devices.meet()
    assert here.document().status == there.document().status == "completed"
    (view,) = [conflict for conflict in there.conflicts() if conflict.conflict.chosen is None]
    values = [value.value for value in view.conflict.values]
    assert (view.conflict.field, values[view.stands - 1]) == ("status", "completed")
    there.resolve(view.conflict.id, values.index("paused") + 1)
    devices.meet()
    assert here.document().status == there.document().status == "paused"
    there.resume()


def test_concurrent_work_of_another_device_conflicts_with_an_ending(devices: Devices) -> None:
    """Both devices see it, and choosing the work continues the session."""
    begun = devices.laptop.start("Build the shop")
    devices.meet()
    there = devices.desktop.session(begun.id)
    begun.complete()
    there.add_task("Still to do")
    devices.meet()
    (view,) = begun.conflicts()
    values = {value.device: value.value for value in view.conflict.values}
    assert (view.conflict.field, values) == ("status", {"laptop": "completed", "desktop": "in_progress"})
    assert begun.document().status == "completed"
    there.resume(device="desktop")
    devices.meet()
    assert begun.document().status == "in_progress"


def test_chosen_ending_keeps_its_time(devices: Devices) -> None:
    """However late it is chosen."""
    begun = devices.laptop.start("Build the shop")
    devices.meet()
    there = devices.desktop.session(begun.id)
    begun.complete()
    there.pause()
    devices.meet()
    ended = begun.document().ended_at
    (view,) = there.conflicts()
    there.resolve(view.conflict.id, view.stands)
    assert there.document().ended_at == ended


def test_conflicting_statuses_of_agents_and_tasks_can_be_chosen(devices: Devices) -> None:
    """Completed on one device, failed or dropped on the other."""
    begun = devices.laptop.start("Build the shop")
    begun.agent("a1", type="coder", pid=None)
    task = begun.add_task("Write it")
    devices.meet()
    there = devices.desktop.session(begun.id)
    begun.find_agent("a1").done()
    begun.finish_task(task)
    there.find_agent("a1").fail("no room", category="resource")
    there.drop_task(task)
    devices.meet()
    for view in begun.conflicts():
        wanted = next(n for n, value in enumerate(view.conflict.values, 1) if value.device == "desktop")
        begun.resolve(view.conflict.id, wanted)
    devices.meet()
    one, two = devices.documents(begun.id)
    assert one == two
    assert [(agent.id, agent.status) for agent in one.agents] == [("a1", "error")]
    assert [(task.id, task.status) for task in one.tasks] == [("t1", "dropped")]
    assert all(conflict.chosen is not None for conflict in one.conflicts)


def test_agents_with_one_id_are_settled_without_losing_either(devices: Devices) -> None:
    """Choosing only confirms that the person has seen them."""
    begun = devices.laptop.start("Build the shop")
    devices.meet()
    there = devices.desktop.session(begun.id)
    begun.agent("a1", type="coder", task="Here", pid=None)
    there.agent("a1", type="coder", task="There", pid=None)
    devices.meet()
    (view,) = there.conflicts()
    assert view.conflict.field == "agents.a1"
    there.resolve(view.conflict.id, 2)
    devices.meet()
    one, two = devices.documents(begun.id)
    assert one == two
    assert [conflict.chosen for conflict in one.conflicts] == [2]
    assert {agent.task for agent in one.agents} == {"Here", "There"}


def test_chosen_value_is_recorded_without_its_removed_secret(devices: Devices) -> None:
    begun = devices.laptop.start("Build the shop")
    devices.meet()
    there = devices.desktop.session(begun.id)
    begun.edit(goal="Use ghp_" + "c4n4ry0" * 5 + "x")
    there.edit(goal="Use nothing")
    devices.meet()
    (view,) = begun.conflicts()
    for take in (1, 2):
        begun.resolve(view.conflict.id, take)
    assert not any(b"c4n4ry0" in (event.data or b"") for event in devices.laptop.events(begun.id))


ACTS = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["goal", "task", "resolve 1", "resolve 2", "meet"])), max_size=12
)


@settings(max_examples=15)
@given(acts=ACTS)
def test_devices_converge_whatever_values_are_written_and_chosen(
    tmp_path_factory: pytest.TempPathFactory, acts: list[tuple[bool, str]]
) -> None:
    """Edits, choices and syncs in any order."""
    devices = Devices(tmp_path_factory.mktemp("law"))
    with devices.laptop as laptop, devices.desktop as desktop:
        begun = laptop.start("Build the shop")
        task = begun.add_task("Write it")
        devices.meet()
        for number, (mine, act) in enumerate(acts):
            _apply(devices, (laptop if mine else desktop).session(begun.id), act, number, task)
        devices.meet()
        one, two = devices.documents(begun.id)
        assert one == two
        session = laptop.session(begun.id)
        for _ in range(len(acts) + 1):
            left = [view.conflict.id for view in session.conflicts() if view.conflict.chosen is None]
            if left:
                session.resolve(left[0], 1)
        assert all(view.conflict.chosen is not None for view in session.conflicts())


def _apply(devices: Devices, session: SessionHandle, act: str, number: int, task: str) -> None:
    if act == "meet":
        devices.meet()
    elif act == "goal":
        session.edit(goal=f"Goal {number}")
    elif act == "task":
        status = {task.id: task.status for task in session.document().tasks}[task]
        {"pending": session.finish_task, "completed": session.reopen_task}.get(status, session.drop_task)(task)
    else:
        take = int(act[-1])
        view = [conflict.conflict for conflict in session.conflicts() if conflict.conflict.chosen != take]
        if view:
            session.resolve(view[0].id, take)


def test_conflicts_can_be_shown_as_of_a_past_moment(devices: Devices) -> None:
    """Before the devices synced there was none."""
    here, _ = conflicting_goals(devices)
    began = here.state().created_at
    assert began is not None
    assert here.conflicts(at=began) == []


def test_resolved_conflict_is_visible_to_another_keeper(devices: Devices) -> None:
    here, _ = conflicting_goals(devices)
    here.resolve(open_conflict(here), 1)
    with Keeper.open(str(devices.here), home=str(devices.root / "laptop" / "home")) as again:
        assert [conflict.conflict.chosen for conflict in again.session(here.id).conflicts()] == [1]
