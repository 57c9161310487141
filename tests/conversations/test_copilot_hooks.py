"""Payloads of Copilot's two dialects, beyond the conformance suite."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from holdfast.conversations.adapters import index
from holdfast.conversations.adapters.base import HookAnswer, HookEvent
from holdfast.conversations.adapters.copilot.hooks import AGENT, NAMES, event_of
from holdfast.conversations.signals import Active, AgentBegan, Closed, Edited, Erred, Limited, Ran

PAYLOADS = os.path.join(os.path.dirname(__file__), "payloads")
BASE = {"session_id": "3f6c", "timestamp": "2026-11-15T16:05:42.123Z", "cwd": "/home/anna/shop"}


def samples(agent: str) -> dict[str, dict[str, Any]]:
    parsed = {}
    for name in sorted(name for name in os.listdir(os.path.join(PAYLOADS, agent)) if name.endswith(".json")):
        with open(os.path.join(PAYLOADS, agent, name), encoding="utf-8") as file:
            parsed[name.removesuffix(".json")] = json.load(file)
    return parsed


def parse(event: str, **more: Any) -> HookEvent:
    parsed = AGENT.parse({"hook_event_name": event, **BASE, **more})
    assert parsed is not None
    return parsed


def test_dialects_give_same_signals() -> None:
    """An event recorded in both has the same name, meaning, and time in its mark."""
    recorded = samples("copilot")
    pairs = [(recorded[name], recorded[f"camel-{name}"]) for name in recorded if f"camel-{name}" in recorded]
    assert len(pairs) > 10
    for pascal, camel in pairs:
        one, other = AGENT.parse(pascal["payload"]), AGENT.parse(camel["payload"])
        assert one is not None
        assert other is not None
        assert (one.event, one.occasion, one.cwd) == (other.event, other.occasion, other.cwd)
        assert [type(signal) for signal in one.signals] == [type(signal) for signal in other.signals]
        assert one.mark.rpartition(":")[2] == other.mark.rpartition(":")[2]
        assert one.mark


def test_dialects_give_same_mark() -> None:
    """A formatted time equals one in milliseconds."""
    camel = AGENT.parse({"sessionId": "3f6c", "timestamp": 1794758742123, "cwd": "/home/anna/shop", "prompt": "hi"})
    assert camel is not None
    assert camel.mark == parse("UserPromptSubmit", prompt="hi").mark == "UserPromptSubmit:3f6c:1794758742123"


def test_event_is_recognised_by_fields() -> None:
    """Copilot's own dialect does not name the event; every recorded one is recognized."""
    for name, sample in samples("copilot").items():
        unnamed = {key: item for key, item in sample["payload"].items() if key not in ("hook_event_name", "hookName")}
        assert event_of(unnamed) == sample["event"], name
    assert event_of({"sessionId": "x"}) == ""
    assert event_of({"hookName": "preCompact"}) == NAMES["preCompact"]


def test_payload_belongs_to_copilot_or_claude() -> None:
    """Copilot's payloads are recognized whichever hooks report them."""
    for agent in ("copilot", "claude"):
        for name, sample in samples(agent).items():
            event = index.load_adapter("claude").parse(sample["payload"])
            assert event is not None
            assert event.agent == agent, name


def test_subagent_belongs_to_conversation() -> None:
    """Its own prompt is its task; its events have its own id and belong to the caller's conversation."""
    parsed = parse(
        "UserPromptSubmit",
        session_id="child",
        agent_id="child",
        agent_type="explore",
        parent_agent_id="root",
        prompt="Look",
    )
    assert parsed.conversation == "root"
    assert parsed.signals == (AgentBegan(agent="child", type="explore", task="Look"),)
    assert parsed.occasion is None
    deeper = parse(
        "Stop", session_id="child", agent_id="child", parent_agent_id="middle", stop_reason="end_turn",
        transcript_path="/home/anna/.copilot/session-state/root/events.jsonl",
    )  # fmt: skip
    assert deeper.conversation == "root"
    assert deeper.signals == (Active(agent="child"),)


@pytest.mark.parametrize(
    ("error", "recoverable", "kind"),
    [
        ('{"message": "Rate limit reached for requests"}', True, Limited),
        ("Overloaded", True, Active),
        ("Overloaded", False, Erred),
    ],
)
def test_recoverable_error_is_no_failure(error: str, recoverable: bool, kind: type) -> None:
    """Copilot reports every attempt; only a limit or a final failure is recorded."""
    error_fields = {"name": "Error", "message": error}
    (signal,) = parse(
        "ErrorOccurred", error=error_fields, error_context="model_call", recoverable=recoverable
    ).signals
    assert type(signal) is kind
    tool = parse("ErrorOccurred", error=error_fields, error_context="tool_execution", recoverable=False)
    assert tool.signals == (Active(),)


def test_session_end_with_error_is_a_failure() -> None:
    """And an end."""
    assert [type(signal) for signal in parse("SessionEnd", reason="error").signals] == [Erred, Closed]
    assert parse("SessionEnd", reason="user_exit").signals == (Closed(reason="user_exit"),)


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("moon\n<shellId: 0 completed with exit code 3>", 3),
        ("moon\n<exited with exit code 0>", 0),
        ("exit code 4 was expected\nall fine", 0),
    ],
)
def test_exit_code_is_read_from_end_of_output(output: str, code: int) -> None:
    """Earlier output of the command is not mistaken for it."""
    parsed = parse(
        "PostToolUse", tool_name="Bash", tool_input={"command": "make"},
        tool_result={"result_type": "success", "text_result_for_llm": output},
    )  # fmt: skip
    assert parsed.signals == (Ran(command="make", code=code),)


def test_arguments_as_text_are_decoded() -> None:
    """Older versions send JSON in a string; invalid JSON gives no signal."""
    payload: dict[str, Any] = {"sessionId": "3f6c", "timestamp": 1, "cwd": "/", "toolName": "edit", "toolResult": {}}
    given = json.dumps({"path": "a", "old_str": "x", "new_str": "y"})
    parsed = AGENT.parse({**payload, "toolArgs": given})
    assert parsed is not None
    assert [type(signal) for signal in parsed.signals] == [Edited]
    broken = AGENT.parse({**payload, "toolArgs": given[:-1]})
    assert broken is not None
    assert broken.signals == (Active(),)


def test_refused_tool_gives_no_edit() -> None:
    parsed = parse(
        "PostToolUse", tool_name="Edit", tool_input={"path": "a", "old_str": "x", "new_str": "y"},
        tool_result={"result_type": "denied", "text_result_for_llm": "no"},
    )  # fmt: skip
    assert parsed.signals == (Active(),)


def test_reply_uses_copilot_fields() -> None:
    """Context with the person's message in it, or a reason to block the prompt."""
    answer = HookAnswer(context="facts", say="a word")
    assert json.loads(AGENT.reply(answer, "SessionStart").stdout) == {"additionalContext": "facts\n\na word"}
    assert json.loads(AGENT.reply(HookAnswer(block="no"), "UserPromptSubmit").stdout) == {
        "decision": "block",
        "reason": "no",
    }
    assert AGENT.reply(answer, "PreCompact").stdout == ""
