"""Codex payloads beyond the conformance suite, and the replies."""

from __future__ import annotations

import json
from typing import Literal, TypeAlias

import pytest

from holdfast.conversations.adapters.base import HookAnswer, HookEvent
from holdfast.conversations.adapters.codex.hooks import AGENT, MAX_CONTEXT_LENGTH
from holdfast.conversations.adapters.codex.tools import outcome, plain_name
from holdfast.conversations.signals import Active, AgentBegan, Called, Chosen, Opened, Prompted, Ran
from holdfast.core.canonical import Json

How: TypeAlias = Literal["startup", "resume", "clear", "compact", "fork"]
ID = "019b2f00-1111-7000-8000-000000000001"


def parse(event: str, **fields: Json) -> HookEvent:
    parsed = AGENT.parse({"session_id": ID, "hook_event_name": event, "cwd": "/home/anna/shop", **fields})
    assert parsed is not None
    return parsed


def test_resume_command_has_conversation_id() -> None:
    """As `codex resume` takes it."""
    assert parse("Stop").resume == f"codex resume {ID}"


def test_every_event_has_model() -> None:
    """With the permission mode; without them nothing is recorded."""
    both = parse("Stop", model="gpt-6.1-sol", permission_mode="plan")
    assert both.signals[-1] == Chosen(model="gpt-6.1-sol", permission="plan")
    assert not any(isinstance(signal, Chosen) for signal in parse("SessionEnd").signals)


@pytest.mark.parametrize("source", ["startup", "resume", "clear", "compact", "fork"])
def test_session_start_source_says_how_it_opened(source: How) -> None:
    """An unknown source is a start."""
    assert parse("SessionStart", source=source).signals[0] == Opened(how=source)
    assert parse("SessionStart", source="teleport").signals[0] == Opened()


def test_subagent_events_have_agent_id() -> None:
    """A prompt to a subagent is no person's and is not answered."""
    prompt = parse("UserPromptSubmit", agent_id="a1", prompt="Write the tests")
    assert prompt.signals == (Prompted(agent="a1", text="Write the tests", person=False),)
    assert prompt.occasion is None
    ran = parse("PostToolUse", agent_id="a1", tool_name="Bash", tool_input={"command": "ls"}, tool_response="")
    assert ran.signals == (Ran(agent="a1", command="ls", code=None),)
    for event in ("PreCompact", "PostCompact"):
        assert parse(event, agent_id="a1", model="gpt-mini").signals == (Active(agent="a1"),)


def test_spawned_agent_task_is_its_name() -> None:
    """The message may be encrypted, so the task is the given name, if there is one."""
    given: dict[str, Json] = {"task_name": "tests", "message": "gAAAAABencrypted"}
    parsed = parse("PreToolUse", tool_name="collaborationspawn_agent", tool_input=given, tool_use_id="c1")
    assert parsed.signals == (Called(call="c1", type="default", task="tests", background=True),)
    began = parse(
        "PostToolUse", tool_name="spawn_agent", tool_input={"message": "Look", "agent_type": "explorer"},
        tool_use_id="c1", tool_response='{"agent_id": "a1"}',
    )  # fmt: skip
    assert began.signals == (AgentBegan(agent="a1", type="explorer", task="Look", background=True),)


def test_namespace_is_removed_only_from_known_tools() -> None:
    """A foreign tool with a similar prefix keeps its name."""
    assert plain_name("collaborationspawn_agent") == "spawn_agent"
    assert plain_name("functions.apply_patch") == "apply_patch"
    assert plain_name("collaboration_board") == "collaboration_board"
    assert plain_name("mcp__functions__Bash") == "mcp__functions__Bash"


def test_exit_code_is_read_from_output() -> None:
    """Only from outputs that start with one."""
    assert outcome("hello\n").failed is None
    assert outcome("Exit code: 0\nWall time: 0.5 seconds\nOutput:\n").took_ms == 500
    failed = outcome("Chunk ID: 1\nWall time: 0.0 seconds\nProcess exited with code 3\nOutput:\nno\n")
    assert failed.failed == "exit code 3: no"
    assert outcome(["Exit code: 1"]).failed is None


def test_failed_patch_gives_no_edit() -> None:
    patch = "*** Begin Patch\n*** Delete File: a\n*** End Patch\n"
    fields: dict[str, Json] = {"tool_name": "apply_patch", "tool_input": {"command": patch}}
    good = parse("PostToolUse", **fields, tool_response="Exit code: 0\nOutput:\nSuccess.")
    bad = parse("PostToolUse", **fields, tool_response="Exit code: 1\nOutput:\nno such file")
    assert [type(signal).__name__ for signal in good.signals] == ["Edited"]
    assert "Edited" not in [type(signal).__name__ for signal in bad.signals]


def test_prompts_of_one_turn_have_no_mark() -> None:
    """Text typed during a turn belongs to the same turn."""
    assert parse("UserPromptSubmit", turn_id="t", prompt="a").mark == ""
    assert (
        parse("PreToolUse", turn_id="t", tool_use_id="c").mark
        != parse("PostToolUse", turn_id="t", tool_use_id="c").mark
    )
    first, again = (parse("SubagentStart", agent_id="a", turn_id=turn).mark for turn in "12")
    assert first != again


def test_reply_has_only_fields_of_schema() -> None:
    """Codex refuses unknown fields; each event has its own schema."""
    whole = HookAnswer(context="facts", say="a word", notify=True, block="not now")
    start = json.loads(AGENT.reply(whole, "SessionStart").stdout)
    assert start == {
        "systemMessage": "a word",
        "hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "facts"},
    }
    prompt = json.loads(AGENT.reply(whole, "UserPromptSubmit").stdout)
    assert prompt == {"systemMessage": "a word", "decision": "block", "reason": "not now"}
    assert json.loads(AGENT.reply(whole, "PreCompact").stdout) == {"systemMessage": "a word"}
    assert AGENT.reply(HookAnswer(context="facts"), "PreCompact") == ("", "", 0)


def test_context_fits_codex_limit() -> None:
    """However long the briefing is."""
    for text in ("word\n" * 10_000, '"' * 50_000, "é" * 50_000):
        printed = json.loads(AGENT.reply(HookAnswer(context=text), "SessionStart").stdout)
        context = printed["hookSpecificOutput"]["additionalContext"]
        assert MAX_CONTEXT_LENGTH // 3 < len(context) <= MAX_CONTEXT_LENGTH
