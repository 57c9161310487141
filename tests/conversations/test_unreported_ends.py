"""Subagents whose end was not reported: later events of their conversation show it, and the clock continues."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.clock import Clock
from holdfast.cli.paint import Paint
from holdfast.cli.status_view import render_status
from holdfast.conversations import move
from holdfast.conversations.adapters.transcript import TimedSignal, Transcript
from holdfast.conversations.backfill.placement import TranscriptRecorder
from holdfast.conversations.ingest import subagents
from holdfast.conversations.signals import AgentBegan, Edited, Prompted
from holdfast.core import view
from holdfast.core.agents import failed_agents
from holdfast.core.times import DAY, MINUTE
from holdfast.keeper import Keeper
from holdfast.machine.wall import Wall
from holdfast.sessions import overview
from tests.support.agent_hooks import BEGAN, AgentHooks


@pytest.fixture
def agents(tmp_path: Path) -> AgentHooks:
    """A conversation in which a subagent has started, one minute after the first prompt."""
    speaking = AgentHooks(tmp_path)
    speaking.prompt("Add OAuth")
    begin(speaking, "a1", minute=1)
    return speaking


def begin(agents: AgentHooks, name: str, *, minute: float, background: bool = False) -> None:
    agents.minute = minute
    given = {"description": "Look", "subagent_type": name, "run_in_background": background}
    agents.say("PreToolUse", tool_name="Task", tool_use_id=f"call-{name}", tool_input=given)
    agents.say("SubagentStart", agent_id=name, agent_type=name)


def edit(agents: AgentHooks, minute: float, path: str, **fields: str) -> None:
    agents.minute = minute
    file = str(agents.project / path)
    agents.say(
        "PostToolUse", tool_name="Write", tool_use_id=f"write-{path}",
        tool_input={"file_path": file, "content": "x\n"}, **fields,
        tool_response={"type": "create", "filePath": file, "content": "x\n", "structuredPatch": [],
                       "originalFile": None},
    )  # fmt: skip


def hour_of_work(agents: AgentHooks, since: int) -> None:
    """Four turns of 14 minutes, with an edit every three minutes."""
    for turn in range(4):
        agents.minute = since + 15 * turn
        agents.prompt(f"Turn {turn}")
        for number in (3, 6, 9, 12):
            edit(agents, since + 15 * turn + number, f"file-{turn}-{number}.py")
        agents.minute = since + 15 * turn + 14
        agents.say("Stop", last_assistant_message="Done.")


def statuses(agents: AgentHooks) -> dict[str, str]:
    return {agent.id: agent.status for agent in agents.session().agents}


def test_working_time_counts_every_turn_when_a_subagent_never_reported_its_end(agents: AgentHooks) -> None:
    """Interrupted with Esc: the person's next prompt shows that it has ended."""
    hour_of_work(agents, 5)
    session = agents.session()
    assert (session.time.working_ms, session.time.paused_ms) == (64 * MINUTE, 0)
    (agent,) = session.agents
    assert (agent.status, agent.duration_ms) == ("interrupted", 0)


def test_session_is_over_and_blocks_no_start_when_a_subagent_never_reported_its_end(agents: AgentHooks) -> None:
    """Closing the conversation ends its subagents, and a later `resume` changes no hours."""
    begin(agents, "b1", minute=2, background=True)
    hour_of_work(agents, 5)
    agents.say("SessionEnd", reason="other")
    worked = agents.session().time.working_ms
    agents.minute += 2 * 24 * 60
    session = agents.session()
    assert (session.status, session.over) == ("paused", True)
    with agents.keeper() as keeper:
        keeper.session(session.id).resume(force=True)
        assert keeper.session(session.id).document().time.working_ms == worked


def test_start_is_not_refused_when_the_current_session_is_over(agents: AgentHooks) -> None:
    hour_of_work(agents, 5)
    agents.say("SessionEnd", reason="other")
    agents.minute += 2 * 24 * 60
    with agents.keeper() as keeper:
        assert keeper.start("Something else").id == keeper.session().id


NOTICE = "<task-notification>\n<task-id>x1</task-id>\n</task-notification>"


@pytest.mark.parametrize(
    ("event", "fields", "foreground", "background"),
    [
        ("Stop", {}, "interrupted", "running"),
        ("UserPromptSubmit", {"prompt": "Go on"}, "interrupted", "running"),
        ("SessionEnd", {"reason": "other"}, "interrupted", "interrupted"),
        ("SessionStart", {"source": "resume"}, "interrupted", "interrupted"),
        ("SessionStart", {"source": "compact"}, "running", "running"),
        ("UserPromptSubmit", {"prompt": NOTICE}, "running", "running"),
        ("Stop", {"agent_id": "a1"}, "running", "running"),
        ("Stop", {"talk": "talk-2"}, "running", "running"),
        ("SessionEnd", {"talk": "talk-2"}, "running", "running"),
    ],
)
def test_subagent_ends_when_its_conversation_shows_it(
    tmp_path: Path, event: str, fields: dict[str, str], foreground: str, background: str
) -> None:
    """Only those of that conversation; background ones continue beyond a turn."""
    agents = AgentHooks(tmp_path)
    with agents.keeper() as keeper:
        keeper.start("Both conversations")
    agents.minute = 0.5
    agents.prompt("Add OAuth")
    agents.prompt("Something else", "talk-2")
    begin(agents, "a1", minute=1)
    begin(agents, "b1", minute=1, background=True)
    with agents.keeper() as keeper:
        keeper.collect()
        keeper.session().agent("by-hand", type="build", pid=None)
    agents.minute = 12
    agents.say(event, **fields)
    assert statuses(agents) == {"a1": foreground, "b1": background, "by-hand": "running"}


def test_late_end_gives_the_same_hours_as_one_in_order(tmp_path: Path) -> None:
    """Hooks run concurrently, so an end may be reported after the turn's."""
    results = []
    for late in (False, True):
        agents = AgentHooks(tmp_path / str(late))
        agents.prompt("Add OAuth")
        begin(agents, "a1", minute=1)
        edit(agents, 3, "map.md", agent_id="a1")
        for event in ("Stop", "SubagentStop") if late else ("SubagentStop", "Stop"):
            agents.minute = 16
            fields = {"agent_id": "a1", "agent_type": "a1"} if event == "SubagentStop" else {}
            agents.say(event, last_assistant_message="Done.", **fields)
        session = agents.session()
        (agent,) = session.agents
        results.append((agent.status, agent.summary, agent.duration_ms, session.time.working_ms))
    assert results[0] == results[1] == ("completed", "Done.", 15 * MINUTE, MINUTE)


def test_late_end_changes_no_hours_when_the_person_has_worked_since(agents: AgentHooks) -> None:
    hour_of_work(agents, 5)
    worked = agents.session().time.working_ms
    agents.say("SubagentStop", agent_id="a1", agent_type="a1", last_assistant_message="Found it.")
    session = agents.session()
    assert (session.agents[0].status, session.agents[0].summary) == ("completed", "Found it.")
    assert session.time.working_ms == worked


def status_screen(agents: AgentHooks) -> str:
    with agents.keeper() as keeper:
        session = keeper.session()
        failed = failed_agents(session.state())
        return str(render_status(Paint(width=80), session.document(), Clock(agents.now), failed=failed))


def test_status_shows_an_unreported_end(agents: AgentHooks) -> None:
    agents.minute = 5
    agents.prompt("Go on")
    assert "Ended without a report\n  a1" in status_screen(agents)


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("UserPromptSubmit", {"prompt": "Go on"}),
        ("Stop", {"last_assistant_message": "Done."}),
        ("SessionEnd", {"reason": "other"}),
        ("SessionStart", {"source": "resume"}),
    ],
)
def test_nothing_waits_for_the_person_after_an_unreported_end(
    agents: AgentHooks, event: str, fields: dict[str, str]
) -> None:
    """The conversation continued."""
    agents.minute = 5
    agents.say(event, **fields)
    with agents.keeper() as keeper:
        session = keeper.session()
        assert [agent.status for agent in session.document().agents] == ["interrupted"]
        assert overview.session_card(keeper, session.id).attention == ()
        briefing = session.briefing(reader="person")
    assert "Resuming from the goal..." in briefing
    assert "agent retry" not in status_screen(agents)
    agents.minute = 7
    agents.prompt("And now the tests")
    assert "Ended without a report" not in status_screen(agents)


@pytest.mark.parametrize("ended", ["fails", "times out", "is gone"])
def test_failed_agent_waits_for_the_person_until_they_write_again(tmp_path: Path, ended: str) -> None:
    """Neither `resume` nor agents' events end the wait."""
    agents = AgentHooks(tmp_path)
    with agents.keeper() as keeper:
        session = keeper.start("Build the shop")
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        agent = session.agent("build", type="build", pid=child.pid)
        child.communicate(b"\n")
        if ended == "fails":
            agent.fail("it broke", category="logical")
        elif ended == "times out":
            agent.time_out("too slow")
        agents.minute = 1
        session.resume()
        agents.minute = 2
        session.agent("other", type="build", pid=None).done()
        session.message("assistant")
        (attention,) = overview.session_card(keeper, session.id).attention
        assert attention.startswith("Agent build ")
        assert "holdfast agent retry build" in status_screen(agents)
        agents.minute = 3
        session.message()
        assert overview.session_card(keeper, session.id).attention == ()
        assert "agent retry" not in status_screen(agents)


def test_agent_of_another_person_continues_when_our_conversation_ends(agents: AgentHooks) -> None:
    """A guest of a session can name any conversation."""
    with agents.keeper() as keeper:
        keeper.collect()
        state = keeper.session().state()
    own = state.agents[next(iter(state.agents))].writer
    for ours, expected in (({own}, ["a1"]), (set[str](), [])):
        ended = subagents.end_unreported(
            state, "claude:talk-1", agents.now, is_own=ours.__contains__, background=True
        )
        assert [agent.id for agent in ended] == expected


def test_agents_end_in_the_session_that_their_conversation_leaves(agents: AgentHooks) -> None:
    """Their ends are reported to the session it moved to."""
    with agents.keeper() as keeper:
        keeper.collect()
        left = keeper.session().id
        begun = keeper.start("Something else", replace=True)
        move.move(keeper, "claude:talk-1", begun.id)
        assert [agent.status for agent in keeper.session(left).document().agents] == ["interrupted"]


def test_unreported_end_is_the_same_when_recorded_live_and_by_backfill(agents: AgentHooks, tmp_path: Path) -> None:
    edit(agents, 3, "map.md", agent_id="a1")
    begin(agents, "b1", minute=3.5, background=True)
    signals = [TimedSignal(BEGAN, Prompted(text="Add OAuth"), "p0")]
    signals.append(TimedSignal(BEGAN + MINUTE, AgentBegan(agent="a1", type="a1", task="Look"), "a1"))
    signals.append(TimedSignal(BEGAN + 3 * MINUTE, Edited(agent="a1", path=str(agents.project / "map.md")), "e1"))
    signals.append(
        TimedSignal(BEGAN + 7 * MINUTE // 2, AgentBegan(agent="b1", type="b1", task="Look", background=True), "b1")
    )
    hour_of_work(agents, 5)
    signals += [
        TimedSignal(BEGAN + (5 + 15 * turn) * MINUTE, Prompted(text=f"Turn {turn}"), f"p{turn + 1}")
        for turn in range(4)
    ]
    signs = [BEGAN, BEGAN + MINUTE, BEGAN + 3 * MINUTE]
    signs += [BEGAN + (5 + 15 * turn + number) * MINUTE for turn in range(4) for number in (0, 3, 6, 9, 12, 14)]
    agents.say("SessionEnd", reason="other")
    story = Transcript(
        agent="claude", conversation="talk-1", began=BEGAN, ended=signs[-1], signals=signals, signs=signs,
        cwd=str(agents.project),
    )  # fmt: skip
    wall = Wall(lambda: (BEGAN + DAY) * 1_000_000)
    with Keeper.open(str(agents.project), home=str(tmp_path / "past"), actor="anna", wall=wall) as keeper:
        with keeper.store().transaction() as transaction:
            TranscriptRecorder(keeper).record(transaction, story)
        (row,) = keeper.history(limit=None, all_projects=True)
        past = view.session(keeper.state(row.id), agents.now)
    live = agents.session()
    assert [agent.id for agent in live.agents] == ["a1", "b1"]
    for item, other in zip(live.agents, past.agents, strict=True):
        assert (item.status, item.started_at, item.completed_at, item.background) == (
            other.status, other.started_at, other.completed_at, other.background,
        )  # fmt: skip
        assert item.status == "interrupted"
    assert live.time.working_ms == past.time.working_ms == 64 * MINUTE
