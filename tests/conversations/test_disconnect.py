"""A session whose conversations are all closed shows as paused until something happens in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.core import view
from holdfast.core.events import NativeClosed, NativeLinked, NoteAdded, ProjectFacts, SessionStarted
from holdfast.core.fold import fold
from holdfast.core.times import MINUTE
from holdfast.formats import registry
from holdfast.formats.remainder import render_with_remainder
from tests.support.agent_hooks import AgentHooks
from tests.support.histories import Device
from tests.support.mirrored_project import valid

ORCHESTRATOR = ".claude/orchestrator-session.json"


@pytest.fixture
def agents(tmp_path: Path) -> AgentHooks:
    """A conversation with a session, closed after two minutes."""
    speaking = AgentHooks(tmp_path)
    speaking.prompt()
    speaking.minute = 2
    speaking.say("SessionEnd", reason="other")
    return speaking


def test_closed_conversation_pauses_its_session(agents: AgentHooks) -> None:
    """On every surface, without a recorded pause or a conflict."""
    session = agents.session()
    assert (session.status, session.conflicts) == ("paused", [])
    assert "session.paused" not in agents.types()
    with agents.keeper() as keeper:
        assert [row.status for row in keeper.history()] == ["paused"]
        assert [row.id for row in keeper.history(status="paused")] == [session.id]
        assert keeper.history(status="in_progress") == []
        assert all(check.status != "failed" for check in keeper.doctor()[0])


def test_working_time_of_a_disconnected_session_follows_the_idle_rule(agents: AgentHooks) -> None:
    agents.minute = 5
    assert agents.session().time.working_ms == 5 * MINUTE
    agents.minute = 60
    time = agents.session().time
    assert (time.working_ms, time.paused_ms) == (0, 60 * MINUTE)  # the prompt was the last sign of activity
    assert [pause.kind for pause in time.pauses] == ["idle"]


@pytest.mark.parametrize("how", ["prompt", "note", "resume", "open"])
def test_activity_ends_the_pause_of_a_disconnected_session(agents: AgentHooks, how: str) -> None:
    assert agents.session().status == "paused"
    agents.minute = 4
    with agents.keeper() as keeper:
        match how:
            case "prompt":
                agents.prompt("Go on")
            case "open":
                agents.say("SessionStart", source="resume")
            case "note":
                keeper.session().note("By hand")
            case "resume":
                keeper.session().resume()
    assert agents.session().status == "in_progress"


def test_another_open_conversation_keeps_its_session_in_progress(tmp_path: Path) -> None:
    agents = AgentHooks(tmp_path)
    agents.prompt()
    agents.prompt("Also this", "talk-2")
    agents.minute = 1
    agents.say("SessionEnd", reason="other")
    assert agents.session().status == "in_progress"
    agents.minute = 2
    agents.say("SessionEnd", "talk-2", reason="other")
    assert agents.session().status == "paused"


def test_running_agent_keeps_a_disconnected_session_in_progress_until_it_ends(agents: AgentHooks) -> None:
    agents.minute = 1
    with agents.keeper() as keeper:
        agent = keeper.session().agent("bg-1", type="build", background=True)
        agents.minute = 2
        agents.say("SessionEnd", reason="other")
        assert keeper.session().document().status == "in_progress"
        agents.minute = 3
        agent.done()
        assert keeper.session().document().status == "paused"


def test_late_payload_of_a_closed_conversation_does_not_end_its_pause(agents: AgentHooks) -> None:
    """Its time is before the end."""
    assert agents.session().status == "paused"
    agents.minute = 1
    agents.say("PostToolUse", tool_name="Bash", tool_input={"command": "ls"}, tool_use_id="t1")
    agents.minute = 3
    assert agents.session().status == "paused"
    assert agents.session().commands.total == 1


def test_pause_and_stop_work_on_a_disconnected_session(agents: AgentHooks) -> None:
    agents.minute = 4
    with agents.keeper() as keeper:
        keeper.session().pause("Lunch")
        assert keeper.session().document().time.pauses[-1].reason == "Lunch"
        agents.minute = 5
        keeper.session().complete()
    assert [session.status for session in agents.sessions()] == ["completed"]


def test_disconnected_session_has_one_status_on_all_devices() -> None:
    """One device closes the conversation while another works: in whatever order the events arrive."""
    first, second = Device("laptop"), Device("desk")
    begun = first.record(SessionStarted(goal="Shop", project=ProjectFacts(id="p", name="shop"), device="laptop"))
    linked = first.record(NativeLinked(agent="claude", id="talk"))
    second.receive(first)
    closed = first.record(NativeClosed(agent="claude", id="talk"))
    noted = second.record(NoteAdded(text="Elsewhere"))
    statuses = {
        view.shown_status(fold(order)) for order in ([begun, linked, closed, noted], [noted, closed, linked, begun])
    }
    assert len(statuses) == 1
    assert view.conflicts(fold([begun, linked, closed, noted])) == []
    assert view.shown_status(fold([begun, linked, closed])) == "paused"


def test_mirrored_file_of_a_disconnected_session_is_paused_and_can_be_resumed(agents: AgentHooks) -> None:
    """By a program that writes its status."""
    with agents.keeper() as keeper:
        keeper.mirrors.switch_on("orchestrator")
    path = agents.project / ORCHESTRATOR
    document = json.loads(path.read_text())
    assert document["status"] == "paused"
    agents.minute = 4
    path.write_text(json.dumps({**document, "status": "in_progress"}))
    assert agents.session().status == "in_progress"
    assert json.loads(path.read_text())["status"] == "in_progress"


def test_files_of_every_format_are_valid_while_a_session_is_disconnected(agents: AgentHooks) -> None:
    """Each shows the pause in its own term, and reading it back gives no events."""
    with agents.keeper() as keeper:
        for name in registry.NAMES:
            keeper.mirrors.switch_on(name)
        valid(agents.project)
        before = len(keeper.events(keeper.session().id))
        document = render_with_remainder(keeper.session().state(), registry.format_named("timer"))
    assert document["status"] == "PAUSED"
    for path in agents.project.rglob("*.json"):
        path.touch()
    with agents.keeper() as keeper:
        assert keeper.session().document().status == "paused"
        assert len(keeper.events(keeper.session().id)) == before
