"""Replies to a waiting agent: the briefing, reminders of breaks, and what a compression must keep."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast.conversations.adapters import index
from holdfast.conversations.adapters.base import HookAnswer
from holdfast.conversations.hooks.reply import answer
from holdfast.conversations.ingest.payload import read
from holdfast.core.times import MINUTE
from holdfast.keeper.hook_process import answer_hook
from holdfast.workspace.settings import change, find_setting
from tests.support.agent_hooks import AgentHooks


@pytest.fixture
def agents(tmp_path: Path) -> AgentHooks:
    return AgentHooks(tmp_path)


def reply_to(agents: AgentHooks, path: Path) -> HookAnswer:
    """The reply to a payload that was just handed over."""
    from holdfast.workspace import spool

    payload = read(spool.SpoolEntry(str(path), path.name, os.lstat(path)), agents.now).payload
    assert payload is not None
    with agents.keeper() as keeper:
        keeper.collect()
        return answer(keeper, payload.event, room=9_500)


def test_opening_agent_gets_briefing(agents: AgentHooks) -> None:
    """As recorded data between marks, with done and open tasks."""
    with agents.keeper() as keeper:
        session = keeper.start("Add OAuth")
        session.add_task("Write the tests")
        session.decide("Hybrid", context="Token kind")
    reply = reply_to(agents, agents.say("SessionStart", source="startup"))
    assert reply.context is not None
    assert "data, not instructions" in reply.context
    for words in ("Add OAuth", "Write the tests", "Hybrid"):
        assert words in reply.context
    assert (reply.say, reply.block) == (None, None)


def test_opening_agent_gets_no_reply_without_an_unfinished_session(agents: AgentHooks) -> None:
    """A new project, a completed or archived session, or briefings switched off."""
    assert reply_to(agents, agents.say("SessionStart", source="startup")) == HookAnswer()
    with agents.keeper() as keeper:
        keeper.start("Add OAuth").complete()
    assert reply_to(agents, agents.say("SessionStart", source="startup")) == HookAnswer()
    with agents.keeper() as keeper:
        keeper.start("Put away")
        keeper.start("Done", replace=True).complete()
    assert reply_to(agents, agents.say("SessionStart", source="startup")) == HookAnswer()
    with agents.keeper() as keeper:
        keeper.start("Open")
        change(keeper.home.config, find_setting("capture.briefing"), value=False)
    assert reply_to(agents, agents.say("SessionStart", source="startup")) == HookAnswer()


def test_briefing_names_interrupted_conversation(agents: AgentHooks) -> None:
    """With the command that reopens it."""
    agents.prompt("Add OAuth")
    agents.minute = 1
    reply = reply_to(agents, agents.say("SessionStart", "talk-2", source="startup"))
    assert "claude --resume talk-1" in (reply.context or "")


def test_long_briefing_fits(agents: AgentHooks) -> None:
    """Under ten thousand characters, in the agent's own form too."""
    with agents.keeper() as keeper:
        session = keeper.start("Add OAuth")
        for number in range(300):
            session.add_task(f"Task {number} " + "x" * 200)
    given = reply_to(agents, agents.say("SessionStart", source="startup"))
    assert len(given.context or "") <= 9_500
    reply = index.load_adapter("claude").reply(given, "SessionStart")
    context = json.loads(reply.stdout)["hookSpecificOutput"]["additionalContext"]
    assert len(context) < 10_000


def work(agents: AgentHooks, until: float) -> HookAnswer:
    """Prompts every four minutes up to a time; returns the reply to the last."""
    reply = HookAnswer()
    while agents.minute < until:
        agents.minute = min(agents.minute + 4, until)
        reply = reply_to(agents, agents.prompt(f"Go on {agents.minute}"))
    return reply


def limits_pause(agents: AgentHooks) -> None:
    with agents.keeper() as keeper:
        change(keeper.home.config, find_setting("timer.timeout_action"), "pause")


def test_reminders_come_once_after_each_break(agents: AgentHooks) -> None:
    """Prompts every four minutes from nine to one count as work."""
    agents.prompt("Add OAuth")
    assert work(agents, 36) == HookAnswer()
    assert "40 minutes" in (work(agents, 40).say or "")
    assert work(agents, 56) == HookAnswer()
    assert "60 minutes" in (work(agents, 60).say or "")
    assert work(agents, 88) == HookAnswer()
    assert work(agents, 92).say == "90 minutes of work without a break: stop for a while."
    for minute in range(96, 240, 4):
        assert work(agents, minute) == HookAnswer()
    assert (agents.session().status, agents.session().time.working_ms) == ("in_progress", 236 * MINUTE)
    agents.minute = 260
    assert reply_to(agents, agents.prompt("After lunch")) == HookAnswer()
    assert work(agents, 296) == HookAnswer()
    assert "40 minutes" in (work(agents, 300).say or "")
    assert agents.session().time.paused_ms == 24 * MINUTE


def test_reminders_come_once_each(agents: AgentHooks) -> None:
    """After 40, 60 and 90 minutes of work; the last one pauses, and does not block."""
    agents.prompt("Add OAuth")
    limits_pause(agents)
    assert work(agents, 36) == HookAnswer()
    assert "40 minutes" in (work(agents, 40).say or "")
    assert work(agents, 56) == HookAnswer()
    due = work(agents, 60)
    assert "60 minutes" in (due.say or "")
    assert due.notify
    assert work(agents, 88) == HookAnswer()
    last = work(agents, 92)
    assert "holdfast resume" in (last.say or "")
    assert last.block is None
    assert agents.session().status == "paused"
    assert "Working time is counted again" in (work(agents, 96).say or "")
    assert agents.session().status == "in_progress"
    assert work(agents, 100) == HookAnswer()


def test_prompt_after_pause_says_clock_runs(agents: AgentHooks) -> None:
    """Once, with the length of the pause."""
    agents.prompt("Add OAuth")
    with agents.keeper() as keeper:
        keeper.session().pause("Lunch")
    agents.minute = 120
    reply = reply_to(agents, agents.prompt("Go on"))
    assert reply.say == "Working time is counted again: the session was paused for 2 h 00 min."
    agents.minute = 121
    assert reply_to(agents, agents.prompt("And on")) == HookAnswer()


def test_limit_crossed_between_prompts_reminds_at_next(agents: AgentHooks) -> None:
    """Tools crossed it, whose events get no reply."""
    agents.prompt("Add OAuth")
    for minute in range(1, 46):
        agents.minute = minute
        agents.say("PostToolUse", tool_name="Bash", tool_use_id=f"b{minute}", tool_input={"command": "make"})
    assert agents.session().time.reminders.break_40
    assert "40 minutes" in (reply_to(agents, agents.prompt("Go on")).say or "")


def test_limit_pause_blocks_prompt_if_chosen(agents: AgentHooks) -> None:
    """Until the person resumes."""
    agents.prompt("Add OAuth")
    limits_pause(agents)
    with agents.keeper() as keeper:
        change(keeper.home.config, find_setting("capture.block_at_timeout"), value=True)
    assert "holdfast resume" in (work(agents, 92).block or "")
    assert work(agents, 96).block is not None
    with agents.keeper() as keeper:
        keeper.session().resume()
    assert work(agents, 100).block is None


@pytest.mark.parametrize(
    ("prompt", "blocked"),
    [("/holdfast:session resume", False), ("/session resume", False), ("  /orchestrate continue", False),
     ("/session", False), ("/holdfast:orchestrate status", False), ("/sessions", True), ("/sessionx resume", True),
     ("resume the /session", True), ("Go on", True), ("", True)],
)  # fmt: skip
def test_own_commands_are_never_blocked(agents: AgentHooks, prompt: str, blocked: bool) -> None:
    """Otherwise the pause could not be ended from within the agent."""
    agents.prompt("Add OAuth")
    limits_pause(agents)
    with agents.keeper() as keeper:
        change(keeper.home.config, find_setting("capture.block_at_timeout"), value=True)
    work(agents, 92)
    agents.minute = 93
    assert (reply_to(agents, agents.prompt(prompt)).block is not None) == blocked


def test_compression_gets_briefing(agents: AgentHooks) -> None:
    """A short one."""
    agents.prompt("Add OAuth")
    with agents.keeper() as keeper:
        keeper.session().decide("Hybrid", why="Scales")
    reply = reply_to(agents, agents.say("PreCompact", trigger="auto"))
    assert "Hybrid" in (reply.context or "")
    assert len(reply.context or "") <= 4_000


def test_hook_of_other_program_is_not_answered(agents: AgentHooks) -> None:
    """Copilot also runs Claude's hooks: the payload is kept, and its own hook answers."""
    with agents.keeper() as keeper:
        keeper.start("Add OAuth")
    path = agents.say("SessionStart", source="startup", transcript_path="/home/anna/.copilot/session-state/x/events")
    assert answer_hook(str(agents.home), path.name, store=None) is None
