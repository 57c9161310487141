"""Tasks and agents that two devices gave one id are all reachable."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core import agents, tasks
from holdfast.core.display_names import disambiguating_labels
from holdfast.core.errors import Refused
from holdfast.keeper.session import SessionHandle
from tests.support.two_devices import Devices


def session_with_duplicates(tmp_path: Path) -> tuple[Devices, SessionHandle]:
    """A session with two tasks t1 and two agents a-1, one of each from each device."""
    devices = Devices(tmp_path)
    begun = devices.laptop.start("Build the shop")
    devices.meet()
    there = devices.desktop.session(begun.id)
    for session, words in ((begun, "Write the query"), (there, "Print the receipt")):
        session.add_task(words)
        session.agent("a-1", type="coder", task=words, pid=None)
    devices.meet()
    return devices, begun


def statuses(session: SessionHandle) -> list[str]:
    return [tasks.status_of(task) for task in session.state().tasks.values()]


def test_repeated_verb_applies_to_the_next_duplicate_task(tmp_path: Path) -> None:
    """The newest first; then nothing is left to do."""
    _, session = session_with_duplicates(tmp_path)
    session.finish_task("t1")
    assert statuses(session) == ["pending", "completed"]
    session.finish_task("t1")
    assert statuses(session) == ["completed", "completed"]
    with pytest.raises(Refused, match="completed already"):
        session.finish_task("t1")
    session.reopen_task("t1").drop_task("t1")
    assert statuses(session) == ["completed", "dropped"]


def test_repeated_verb_applies_to_the_next_duplicate_agent(tmp_path: Path) -> None:
    """Each keeps what was recorded of it."""
    devices, session = session_with_duplicates(tmp_path)
    first = session.find_agent("a-1").progress(0.5)
    first.done(summary="one")
    session.find_agent("a-1").fail("broken")
    with pytest.raises(Refused, match="completed already"):
        first.done()
    assert [agents.status_of(agent) for agent in session.state().agents.values()] == ["error", "completed"]
    devices.meet()
    one, other = devices.documents(session.id)
    assert one == other


def test_block_ends_its_own_agent_when_a_duplicate_arrives(tmp_path: Path) -> None:
    devices = Devices(tmp_path)
    begun = devices.laptop.start("Build the shop")
    devices.meet()
    with begun.agent("a-1", type="coder", task="here", pid=None):
        devices.desktop.session(begun.id).agent("a-1", type="coder", task="there", pid=None)
        devices.meet()
    statuses_of_agents = {agent.task: agents.status_of(agent) for agent in begun.state().agents.values()}
    assert statuses_of_agents == {"here": "completed", "there": "running"}


def test_duplicates_have_distinct_names(tmp_path: Path) -> None:
    """By device, or by more where that is equal; ids that are unique need no addition."""
    devices, session = session_with_duplicates(tmp_path)
    session.add_task("Alone")
    state = session.state()
    assert sorted(disambiguating_labels(state, state.tasks.values())) == ["", "desktop", "laptop"]
    for writer in state.devices:
        state.devices[writer] = "laptop"
    marks = disambiguating_labels(state, state.tasks.values())
    assert len(set(marks)) == 3
    assert sum(mark.startswith("laptop ") for mark in marks) == 2
    assert devices.desktop.session(session.id).document().tasks
