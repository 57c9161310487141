"""Conflicts between devices: shown side by side, settled by a person, the same everywhere."""

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


def disagreeing(devices: Devices) -> tuple[SessionHandle, SessionHandle]:
    """A session whose goal both devices changed without knowing of each other."""
    begun = devices.laptop.start("Build the shop")
    devices.meet()
    here, there = begun, devices.desktop.session(begun.id)
    here.edit(goal="Ship on Friday", progress=0.4)
    there.agent("arch-1", type="architect")
    there.edit(goal="Ship on Monday")
    devices.meet()
    return here, there


def only(session: SessionHandle) -> str:
    (found,) = [conflict.conflict.id for conflict in session.conflicts() if conflict.conflict.chosen is None]
    return found


def test_conflict_shows_the_state_on_both_sides(devices: Devices) -> None:
    """Each value has its device and time, and the progress and agents of that device when it was written."""
    here, there = disagreeing(devices)
    (found,) = here.conflicts()
    assert (found.conflict.field, found.conflict.chosen) == ("goal", None)
    shown = {
        value.device: (value.value, side.progress, side.agents)
        for value, side in zip(found.conflict.values, found.sides, strict=True)
        if side is not None
    }
    assert shown == {"laptop": ("Ship on Friday", 0.4, ()), "desktop": ("Ship on Monday", 0.0, ("arch-1",))}
    assert found.conflict.values[found.stands - 1].value == here.document().goal
    assert [conflict.conflict for conflict in there.conflicts()] == [found.conflict] == here.document().conflicts


def test_conflict_side_ends_when_its_device_received_the_other_value(devices: Devices) -> None:
    """The side of a value ends where its device got to know the others."""
    here, _ = disagreeing(devices)
    here.edit(progress=0.9)
    (found,) = here.conflicts()
    assert sorted(side.progress for side in found.sides if side is not None) == [0.0, 0.4]


@pytest.mark.parametrize("take", [1, 2])
def test_a_choice_stands_on_every_device(devices: Devices, take: int) -> None:
    """Whichever is chosen is the goal everywhere, the conflict is settled under the same id."""
    here, there = disagreeing(devices)
    name = only(here)
    values = [value.value for value in here.conflicts()[0].conflict.values]
    settled = here.resolve(name, take)
    devices.meet()
    assert (settled.id, settled.chosen) == (name, take)
    for session in (here, there):
        document = session.document()
        assert document.goal == values[take - 1]
        assert [(conflict.id, conflict.chosen) for conflict in document.conflicts] == [(name, take)]


def test_choice_event_holds_the_chosen_value(devices: Devices) -> None:
    """Hashes of what was chosen and overruled, and the value itself, for devices that have replaced all of them."""
    here, _ = disagreeing(devices)
    here.resolve(only(here), 2)
    event = devices.laptop.events(here.id)[-1]
    assert event.data is not None
    data = msgspec.json.decode(event.data, type=ConflictResolved)
    hashes = {event.hash for event in devices.laptop.events(here.id)}
    assert data.field == "goal"
    assert data.value == here.document().goal
    assert {data.chosen, *data.overruled} <= hashes
    assert len(data.overruled) == 1


def test_a_choice_can_be_changed_but_not_made_twice(devices: Devices) -> None:
    """The other value may be chosen later; the same one is chosen already."""
    here, _ = disagreeing(devices)
    name = only(here)
    here.resolve(name, 1)
    with pytest.raises(Conflict, match="already"):
        here.resolve(name, 1)
    assert here.resolve(name, 2).chosen == 2
    assert here.document().goal == here.conflicts()[0].conflict.values[1].value


def test_resolve_is_refused_when_the_value_does_not_exist(devices: Devices) -> None:
    """An unknown conflict is not found, a number of none of its values is invalid; nothing is recorded."""
    here, _ = disagreeing(devices)
    before = len(devices.laptop.events(here.id))
    for name in ("00000000", "", "zz", only(here)[:3]):
        with pytest.raises(NotFound):
            here.resolve(name, 1)
    for take in (0, 3, -1):
        with pytest.raises(Invalid):
            here.resolve(only(here), take)
    assert len(devices.laptop.events(here.id)) == before
    assert here.resolve(only(here)[:5].upper(), 1).chosen == 1


def test_devices_see_the_same_conflict_when_they_choose_differently_at_once(devices: Devices) -> None:
    """Both see the same goal and one open conflict between the two choices; a third choice settles it for good."""
    here, there = disagreeing(devices)
    name = only(here)
    here.resolve(name, 1)
    there.resolve(name, 2)
    devices.meet()
    one, two = devices.documents(here.id)
    assert one == two
    again = only(here)
    assert again == only(there) != name
    here.resolve(again, 1)
    devices.meet()
    one, two = devices.documents(here.id)
    assert one == two
    assert all(conflict.chosen is not None for conflict in one.conflicts)


def test_two_devices_that_choose_the_same_at_once_have_settled_it(devices: Devices) -> None:
    """No new conflict comes of agreeing."""
    here, there = disagreeing(devices)
    name = only(here)
    here.resolve(name, 2)
    there.resolve(name, 2)
    devices.meet()
    one, two = devices.documents(here.id)
    assert one == two
    assert [conflict.chosen for conflict in one.conflicts] == [2]


def test_work_that_went_on_can_be_chosen_over_an_ending(devices: Devices) -> None:
    """Completed here, paused there: the ending stands until a person says that the work goes on."""
    here, there = disagreeing(devices)
    here.resolve(only(here), 1)
    devices.meet()
    here.complete()
    there.pause("lunch")
    devices.meet()
    assert here.document().status == there.document().status == "completed"
    (found,) = [conflict for conflict in there.conflicts() if conflict.conflict.chosen is None]
    values = [value.value for value in found.conflict.values]
    assert (found.conflict.field, values[found.stands - 1]) == ("status", "completed")
    there.resolve(found.conflict.id, values.index("paused") + 1)
    devices.meet()
    assert here.document().status == there.document().status == "paused"
    there.resume()


def test_work_somewhere_else_is_not_buried_by_an_ending(devices: Devices) -> None:
    """Completed here while the other device worked on: both see it, and choosing the work lets it go on."""
    begun = devices.laptop.start("Build the shop")
    devices.meet()
    there = devices.desktop.session(begun.id)
    begun.complete()
    there.add_task("Still to do")
    devices.meet()
    (found,) = begun.conflicts()
    values = {value.device: value.value for value in found.conflict.values}
    assert (found.conflict.field, values) == ("status", {"laptop": "completed", "desktop": "in_progress"})
    assert begun.document().status == "completed"
    there.resume(device="desktop")
    devices.meet()
    assert begun.document().status == "in_progress"


def test_chosen_ending_keeps_its_time(devices: Devices) -> None:
    """Saying later that the ending counts does not move it."""
    begun = devices.laptop.start("Build the shop")
    devices.meet()
    there = devices.desktop.session(begun.id)
    begun.complete()
    there.pause()
    devices.meet()
    ended = begun.document().ended_at
    (found,) = there.conflicts()
    there.resolve(found.conflict.id, found.stands)
    assert there.document().ended_at == ended


def test_statuses_of_agents_and_tasks_are_chosen_too(devices: Devices) -> None:
    """Done here, failed or dropped there: each is a conflict of its own."""
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
    for found in begun.conflicts():
        wanted = next(n for n, value in enumerate(found.conflict.values, 1) if value.device == "desktop")
        begun.resolve(found.conflict.id, wanted)
    devices.meet()
    one, two = devices.documents(begun.id)
    assert one == two
    assert [(agent.id, agent.status) for agent in one.agents] == [("a1", "error")]
    assert [(task.id, task.status) for task in one.tasks] == [("t1", "dropped")]
    assert all(conflict.chosen is not None for conflict in one.conflicts)


def test_twins_are_settled_without_losing_either(devices: Devices) -> None:
    """Two agents given one id at once stay two; choosing says only that the person has seen it."""
    begun = devices.laptop.start("Build the shop")
    devices.meet()
    there = devices.desktop.session(begun.id)
    begun.agent("a1", type="coder", task="Here", pid=None)
    there.agent("a1", type="coder", task="There", pid=None)
    devices.meet()
    (found,) = there.conflicts()
    assert found.conflict.field == "agents.a1"
    there.resolve(found.conflict.id, 2)
    devices.meet()
    one, two = devices.documents(begun.id)
    assert one == two
    assert [conflict.chosen for conflict in one.conflicts] == [2]
    assert {agent.task for agent in one.agents} == {"Here", "There"}


def test_a_secret_in_a_value_is_not_written_again(devices: Devices) -> None:
    """The chosen value is recorded as it was stored: without what was cut out of it."""
    begun = devices.laptop.start("Build the shop")
    devices.meet()
    there = devices.desktop.session(begun.id)
    begun.edit(goal="Use ghp_" + "c4n4ry0" * 5 + "x")
    there.edit(goal="Use nothing")
    devices.meet()
    (found,) = begun.conflicts()
    for take in (1, 2):
        begun.resolve(found.conflict.id, take)
    assert not any(b"c4n4ry0" in (event.data or b"") for event in devices.laptop.events(begun.id))


ACTS = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["goal", "task", "resolve 1", "resolve 2", "meet"])), max_size=12
)


@settings(max_examples=15)
@given(acts=ACTS)
def test_devices_see_the_same_whatever_values_are_written_and_chosen(
    tmp_path_factory: pytest.TempPathFactory, acts: list[tuple[bool, str]]
) -> None:
    """Edits, choices and meetings in any order: once both have heard everything, they agree."""
    devices = Devices(tmp_path_factory.mktemp("law"))
    with devices.laptop as laptop, devices.desktop as desktop:
        begun = laptop.start("Build the shop")
        task = begun.add_task("Write it")
        devices.meet()
        for number, (mine, act) in enumerate(acts):
            _do(devices, (laptop if mine else desktop).session(begun.id), act, number, task)
        devices.meet()
        one, two = devices.documents(begun.id)
        assert one == two
        session = laptop.session(begun.id)
        for _ in range(len(acts) + 1):
            left = [found.conflict.id for found in session.conflicts() if found.conflict.chosen is None]
            if left:
                session.resolve(left[0], 1)
        assert all(found.conflict.chosen is not None for found in session.conflicts())


def _do(devices: Devices, session: SessionHandle, act: str, number: int, task: str) -> None:
    if act == "meet":
        devices.meet()
    elif act == "goal":
        session.edit(goal=f"Goal {number}")
    elif act == "task":
        status = {task.id: task.status for task in session.document().tasks}[task]
        {"pending": session.finish_task, "completed": session.reopen_task}.get(status, session.drop_task)(task)
    else:
        take = int(act[-1])
        found = [conflict.conflict for conflict in session.conflicts() if conflict.conflict.chosen != take]
        if found:
            session.resolve(found[0].id, take)


def test_looking_at_conflicts_of_the_past(devices: Devices) -> None:
    """As of a moment before the devices met, there was none."""
    here, _ = disagreeing(devices)
    began = here.state().created_at
    assert began is not None
    assert here.conflicts(at=began) == []


def test_keeper_reads_a_conflict_that_another_one_resolved(devices: Devices) -> None:
    """A choice is in the log: whoever opens the store sees it."""
    here, _ = disagreeing(devices)
    here.resolve(only(here), 1)
    with Keeper.open(str(devices.here), home=str(devices.root / "laptop" / "home")) as again:
        assert [conflict.conflict.chosen for conflict in again.session(here.id).conflicts()] == [1]
