"""A session that an agent started and nobody continued is over: this is computed, never recorded, and blocks
nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.core.errors import Refused
from holdfast.core.times import HOUR, MINUTE, format_time
from holdfast.sessions import overview
from tests.support.agent_hooks import BEGAN, AgentHooks

CLOSED = 2
OVER = CLOSED + 12 * 60


@pytest.fixture
def agents(tmp_path: Path) -> AgentHooks:
    """A conversation with a session, closed after two minutes."""
    speaking = AgentHooks(tmp_path)
    speaking.prompt()
    speaking.minute = CLOSED
    speaking.say("SessionEnd", reason="other")
    return speaking


def test_abandoned_session_is_over_after_twelve_hours_without_a_conversation(agents: AgentHooks) -> None:
    before = [*agents.types()]
    agents.minute = OVER - 0.001
    assert (agents.session().status, agents.session().over) == ("paused", False)
    agents.minute = OVER
    assert (agents.session().status, agents.session().over) == ("paused", True)
    with agents.keeper() as keeper:
        assert [row.over for row in keeper.history()] == [True]
        then = BEGAN + CLOSED * MINUTE + 12 * HOUR - 1
        assert [row.over for row in keeper.history(at=then)] == [False]
        assert keeper.session().document(at=then).over is False
    assert agents.types() == before


@pytest.mark.parametrize("open_thing", ["task", "agent", "pending agent", "conversation", "person's start"])
def test_session_is_not_over_while_something_in_it_is_open(tmp_path: Path, open_thing: str) -> None:
    agents = AgentHooks(tmp_path)
    with agents.keeper() as keeper:
        if open_thing == "person's start":
            keeper.start("Mine")
            agents.minute = 0.1
    agents.prompt()
    agents.minute = 1
    with agents.keeper() as keeper:
        match open_thing:
            case "task":
                keeper.session().add_task("Write tests")
            case "agent":
                keeper.session().agent("bg-1", type="build", background=True)
            case "pending agent":
                keeper.session().add_agent("bg-1", type="build")
            case "conversation":
                agents.prompt("Also this", "talk-2")
    agents.minute = CLOSED
    agents.say("SessionEnd", reason="other")
    agents.minute = OVER + 60
    assert agents.session().over is False


def test_session_that_is_over_blocks_neither_start_nor_delete(agents: AgentHooks) -> None:
    agents.minute = OVER - 1
    with agents.keeper() as keeper:
        left = keeper.session().id
        with pytest.raises(Refused):
            keeper.delete(left)
    agents.minute = OVER
    with agents.keeper() as keeper:
        count = keeper.state(left).count
        started = keeper.start("Something else")
        assert keeper.session().id == started.id
        assert keeper.state(left).count == count
        assert keeper.delete(left) == left


def test_prompt_in_its_conversation_continues_a_session_that_was_over(agents: AgentHooks) -> None:
    agents.minute = OVER + 60
    before = agents.session()
    assert before.over
    agents.prompt("Go on")
    after = agents.session()
    assert (after.id, after.status, after.over) == (before.id, "in_progress", False)


def test_session_that_is_over_is_not_listed_as_open(agents: AgentHooks) -> None:
    """History lists it, and the next prompt reopens it."""
    agents.minute = OVER - 1
    with agents.keeper() as keeper:
        assert [row.goal for row in overview.unfinished(keeper)] == ["Add OAuth with PKCE"]
    agents.minute = OVER
    with agents.keeper() as keeper:
        assert overview.unfinished(keeper) == []
        assert overview.unfinished(keeper) == []
        agents.prompt("Go on")
        assert [row.over for row in overview.unfinished(keeper)] == [False]


def test_commands_say_that_a_session_is_over(agents: AgentHooks) -> None:
    agents.session()
    then = format_time(BEGAN + OVER * MINUTE)
    done = {
        verb: subprocess.run(
            [sys.executable, "-m", "holdfast", verb, *words, "--at", then], cwd=agents.project, check=True, text=True,
            capture_output=True, env=os.environ | {"HOLDFAST_HOME": str(agents.home)},
        ).stdout
        for verb, words in (("status", ()), ("history", ()), ("show", ("@",)))
    }  # fmt: skip
    assert all("paused (inactive)" in expected_text for expected_text in done.values()), done


def test_corrections_of_hours_do_not_continue_a_session_that_is_over(tmp_path: Path) -> None:
    """Three corrections on the next day, four minutes apart."""
    agents = AgentHooks(tmp_path)
    agents.prompt()
    agents.minute = 4
    agents.prompt("And this")
    agents.minute = 5
    agents.say("SessionEnd", reason="other")
    for number in range(3):
        agents.minute = OVER + 60 + 4 * number
        with agents.keeper() as keeper:
            correct = keeper.session().worked if number == 2 else keeper.session().away
            correct(BEGAN + 1 * MINUTE, BEGAN + 2 * MINUTE)
    agents.minute += 60
    session = agents.session()
    assert (session.status, session.over, session.time.working_ms) == ("paused", True, 4 * MINUTE)


def test_history_and_show_agree_on_the_time_of_a_session_closed_a_day_ago(agents: AgentHooks) -> None:
    """The two minutes between the last prompt and the end of the conversation are not work."""
    for minute in (CLOSED, 60, OVER, 3 * 24 * 60):
        agents.minute = minute
        with agents.keeper() as keeper:
            assert [row.working_ms for row in keeper.history()] == [keeper.session().document().time.working_ms]


def test_rows_of_another_project_follow_its_own_settings(tmp_path: Path) -> None:
    """A session is over or not, wherever it is listed."""
    agents = AgentHooks(tmp_path)
    patient, eager = tmp_path / "patient", tmp_path / "eager"
    for project, hours in ((patient, 48), (eager, 2)):
        project.mkdir()
        (project / ".holdfast.toml").write_text(f"[capture]\njoin_hours = {hours}\n")
        agents.prompt(f"Work on {project.name}", talk=project.name, cwd=str(project))
        agents.say("SessionEnd", talk=project.name, cwd=str(project), reason="other")
    agents.prompt("Work on the default", talk="default")
    agents.say("SessionEnd", talk="default", reason="other")
    for hours, expected in (
        (1, set()),
        (3, {"eager"}),
        (13, {"eager", "default"}),
        (49, {"eager", "default", "patient"}),
    ):
        agents.minute = hours * 60
        for place in (patient, eager, agents.project):
            with agents.keeper(place) as keeper:
                rows = keeper.history(all_projects=True)
                assert {row.goal.split()[-1] for row in rows if row.over} == expected
                assert {row.over == keeper.session(row.id).document().over for row in rows} == {True}
                then = keeper.history(all_projects=True, at=agents.now)
                assert {row.goal.split()[-1] for row in then if row.over} == expected
                assert {row.goal.split()[-1] for row in overview.unfinished(keeper)} == {
                    row.goal.split()[-1] for row in rows if not row.over
                }


def test_listing_of_all_projects_archives_by_the_homes_setting(tmp_path: Path) -> None:
    """A project's own listing uses the project's setting."""
    agents = AgentHooks(tmp_path)
    early = tmp_path / "early"
    early.mkdir()
    (early / ".holdfast.toml").write_text("[history]\narchive_after_days = 1\n")
    for place in (early, agents.project):
        with agents.keeper(place) as keeper:
            keeper.start(place.name).complete()
    for days, expected in ((2, set()), (8, {"early", "project"})):
        agents.minute = days * 24 * 60
        for place in (early, agents.project):
            with agents.keeper(place) as keeper:
                for rows in (keeper.history(all_projects=True), keeper.history(all_projects=True, at=agents.now)):
                    assert {row.goal for row in rows if row.archived} == expected
        with agents.keeper(early) as keeper:
            assert [row.archived for row in keeper.history()] == [True]
