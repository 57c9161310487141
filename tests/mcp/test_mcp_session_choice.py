"""Which session a call concerns: the agent's own, in its own work tree, and never somebody else's by accident."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp.agent_client import AgentClient, text_of


@pytest.fixture
def work(tmp_path: Path) -> Iterator[AgentClient]:
    at_work = AgentClient(tmp_path)
    yield at_work
    at_work.close()


def replaced(work: AgentClient, goal: str) -> str:
    """A person starts another session in the same directory."""
    with work.keeper() as keeper:
        return keeper.start(goal, replace=True).id


def test_agent_cannot_write_into_a_session_somebody_else_started(work: AgentClient) -> None:
    """Its own was replaced: records, pauses and ends are refused, and both sessions are named."""
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
    """Instead of "no session"; it can then start a new one."""
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
    mine = work.done("start_session", goal="Mine")["id"]
    with work.keeper() as keeper:
        keeper.delete(mine, force=True)
    assert "was deleted" in text_of(work.call("record", notes=["x"]))


def test_resuming_a_session_elsewhere_does_not_change_the_current_one(work: AgentClient, tmp_path: Path) -> None:
    """It resumes in its own directory, and the answer says how to refer to it."""
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
    """The server's directory was deleted: every call says what to pass, and works with that."""
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


def test_home_that_is_a_file_is_an_error(work: AgentClient, tmp_path: Path) -> None:
    """Not reported as having no session."""
    (tmp_path / "file").write_text("x")
    work.context.options = work.context.options._replace(home=str(tmp_path / "file"))
    assert "is not a directory" in text_of(work.call("get_status"))
    assert "HOLDFAST_HOME" in text_of(work.call("start_session", goal="x"))


def test_status_outside_a_project_asks_for_the_project(work: AgentClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not say "this project"."""
    monkeypatch.setenv("HOME", str(work.project))
    text = text_of(work.call("get_status"))
    assert "outside any project" in text
    assert "`project`" in text
    assert "this project" not in text
