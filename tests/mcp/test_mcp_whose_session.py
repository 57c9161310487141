"""Whose session a call is about: the agent's own, at its own place, and never somebody else's by accident."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp.agent_at_work import AgentClient, text_of


@pytest.fixture
def work(tmp_path: Path) -> Iterator[AgentClient]:
    at_work = AgentClient(tmp_path)
    yield at_work
    at_work.close()


def replaced(work: AgentClient, goal: str) -> str:
    """A person begins something else in the same directory."""
    with work.keeper() as keeper:
        return keeper.start(goal, replace=True).id


def test_an_agent_does_not_write_into_a_session_somebody_else_began(work: AgentClient) -> None:
    """Its own was put away for another: what it records, pauses or finishes is refused, and says which is which."""
    mine = work.done("start_session", goal="Mine")["id"]
    other = replaced(work, "Theirs")
    for tool, arguments in (("record", {"notes": ["x"]}), ("finish_session", {}), ("pause_session", {})):
        text = work.refused(tool, **arguments)
        for part in ("Mine", mine[:8], "Theirs", other[:8], "resume_session"):
            assert part in text
    status = work.done("get_status")
    assert status["session"]["id"] == other
    assert mine[:8] in status["notes"][-1]
    assert work.done("record", session=mine[:8], notes=["by name"])["id"] == mine
    work.done("resume_session", session=other)
    assert work.done("record", notes=["taken up"])["id"] == other


def test_agent_learns_that_somebody_completed_its_session(work: AgentClient) -> None:
    """Stopped elsewhere: it is told so, not to begin one as if there had been none; a new one is its own again."""
    mine = work.done("start_session", goal="Mine")["id"]
    with work.keeper() as keeper:
        keeper.session(mine).complete()
    text = work.refused("record", notes=["x"])
    assert "was completed by ada" in text
    assert mine[:8] in text
    replaced(work, "Theirs")
    assert "was completed by ada" in work.refused("finish_session")
    work.done("start_session", goal="Next", replace=True)
    assert work.done("finish_session")["goal"] == "Next"
    replaced(work, "Whoever")
    assert work.done("record", notes=["none of its own"])["status"] == "in_progress"


def test_agent_learns_that_its_session_was_deleted(work: AgentClient) -> None:
    """Erased by the person: said so."""
    mine = work.done("start_session", goal="Mine")["id"]
    with work.keeper() as keeper:
        keeper.delete(mine, force=True)
    assert "was deleted" in text_of(work.call("record", notes=["x"]))


def test_resuming_a_session_of_another_project_leaves_this_one_its_own(work: AgentClient, tmp_path: Path) -> None:
    """It goes on in its own directory, and the answer says how to speak of it."""
    other = tmp_path / "api"
    other.mkdir()
    theirs = work.done("start_session", goal="Theirs", project=str(other))["id"]
    work.done("pause_session", session=theirs)
    mine = work.done("start_session", goal="Mine")["id"]
    answer = work.done("resume_session", session=theirs)
    assert (answer["session"]["id"], answer["session"]["status"]) == (theirs, "in_progress")
    assert theirs[:8] in answer["notes"][-1]
    assert work.done("get_status")["session"]["id"] == mine
    assert work.done("record", notes=["here"])["id"] == mine
    assert work.done("record", notes=["there"], project=str(other))["id"] == theirs
    other.rename(tmp_path / "gone")
    assert "not on this machine" in text_of(work.call("resume_session", session=theirs))
    assert work.done("get_status")["session"]["id"] == mine


def test_missing_directory_asks_for_the_project(
    work: AgentClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's own directory was deleted: every call says what to pass, and with that it works."""
    missing = tmp_path / "gone"
    missing.mkdir()
    monkeypatch.chdir(missing)
    work.context.options = work.context.options._replace(directory=".")
    missing.rmdir()
    try:
        for tool, arguments in (("get_status", {}), ("start_session", {"goal": "x"}), ("search_history", {})):
            text = text_of(work.call(tool, **arguments))
            assert "no longer exists" in text
            assert "`project`" in text
        assert work.done("start_session", goal="There", project=str(work.project))["goal"] == "There"
    finally:
        os.chdir(tmp_path)


def test_a_home_that_is_a_file_is_not_an_empty_one(work: AgentClient, tmp_path: Path) -> None:
    """Where Holdfast's directory is a file, nobody is told that there is no session."""
    (tmp_path / "file").write_text("x")
    work.context.options = work.context.options._replace(home=str(tmp_path / "file"))
    assert "is not a directory" in text_of(work.call("get_status"))
    assert "HOLDFAST_HOME" in text_of(work.call("start_session", goal="x"))


def test_from_nowhere_the_status_asks_for_the_project(work: AgentClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Started in no project, it does not speak of "this project"."""
    monkeypatch.setenv("HOME", str(work.project))
    text = text_of(work.call("get_status"))
    assert "outside any project" in text
    assert "`project`" in text
    assert "this project" not in text
