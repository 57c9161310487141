"""Subagents that somebody ended before they were done: stopped, and no failure of theirs."""

from __future__ import annotations

import pytest

from holdfast.conversations.adapters import index
from holdfast.conversations.signals import Active, AgentEnded, AnySignal, Ran
from holdfast.core.canonical import Json


def told(agent: str, **fields: Json) -> tuple[AnySignal, ...]:
    found = index.load_adapter(agent).parse({"session_id": "s", "cwd": "/home/anna/shop", **fields})
    assert found is not None
    return found.signals


def ended(agent: str, **fields: Json) -> AgentEnded:
    found = next(line for line in told(agent, **fields) if isinstance(line, AgentEnded))
    assert isinstance(found, AgentEnded)
    return found


@pytest.mark.parametrize("tool", ["Task", "Agent"])
def test_claude_subagent_interrupted_by_person_is_stopped(tool: str) -> None:
    """Escape ends a subagent as stopped; an error ends it as failed."""
    after: dict[str, Json] = {
        "hook_event_name": "PostToolUseFailure", "tool_name": tool, "tool_use_id": "toolu_1",
        "tool_input": {"subagent_type": "Explore"}, "error": "[Request interrupted by user for tool use]",
    }  # fmt: skip
    assert ended("claude", **after, is_interrupt=True).stopped
    assert not ended("claude", **after, is_interrupt=False).stopped
    assert not ended("claude", **after, is_interrupt="yes").stopped


def test_claude_interrupted_tool_is_no_error() -> None:
    """A command that the person stopped ended by a signal, and anything else that was stopped is only activity."""
    after: dict[str, Json] = {
        "hook_event_name": "PostToolUseFailure", "error": "Connection error.", "is_interrupt": True,
    }  # fmt: skip
    assert told("claude", **after, tool_name="WebFetch", tool_input={}) == (Active(),)
    ran = told("claude", **after, tool_name="Bash", tool_input={"command": "make"})
    assert ran == (Ran(command="make", code=130),)


@pytest.mark.parametrize(
    ("status", "stopped", "failed"),
    [("completed", False, None), ("killed", True, 'Agent "Look" was stopped'),
     ("stopped", True, 'Agent "Look" was stopped'), ("failed", False, 'Agent "Look" was stopped')],
)  # fmt: skip
@pytest.mark.parametrize("opening", ["", "<system-reminder>\nNot typed by the user.\n"])
def test_claude_background_subagent_killed_is_stopped(
    opening: str, status: str, stopped: bool, failed: str | None
) -> None:
    """What a notification says of a subagent's end is how it ended; its result may say anything."""
    prompt = (
        f"{opening}<task-notification>\n<task-id>a93</task-id>\n<status>{status}</status>\n"
        '<summary>Agent "Look" was stopped</summary>\n<result><status>killed</status></result>\n'
        "<usage><subagent_tokens>139</subagent_tokens></usage>\n</task-notification>"
    )
    found = ended("claude", hook_event_name="UserPromptSubmit", source="system", prompt=prompt)
    assert found == AgentEnded(agent="a93", tokens=139, stopped=stopped, failed=failed)


@pytest.mark.parametrize(("status", "stopped"), [("aborted", True), ("error", False), ("completed", False)])
def test_cursor_aborted_subagent_is_stopped(status: str, stopped: bool) -> None:
    """Cursor says of a subagent's end whether somebody aborted it."""
    found = ended("cursor", hook_event_name="subagentStop", subagent_id="x", subagent_type="explore", status=status)
    assert (found.stopped, found.failed is None) == (stopped, status == "completed")


def test_cline_cancelled_subagent_is_stopped() -> None:
    """A cancelled run of a subagent was stopped; one with an error failed."""
    base: dict[str, Json] = {
        "taskId": "t", "sessionContext": {"rootSessionId": "s"}, "agent_id": "a", "parent_agent_id": "b",
    }  # fmt: skip
    assert ended("cline", **base, hookName="agent_abort", reason="user cancelled").stopped
    assert not ended("cline", **base, hookName="agent_error", error={"message": "no"}).stopped


def test_gemini_aborted_subagent_is_stopped() -> None:
    """Of all the reasons Gemini has for an agent's end, one is that it was aborted."""

    def with_reason(reason: str) -> AgentEnded:
        return ended(
            "gemini", hook_event_name="AfterTool", tool_name="invoke_agent", tool_input={"prompt": "look"},
            tool_response={"returnDisplay": {"terminateReason": reason, "result": "r"}},
        )  # fmt: skip

    assert with_reason("ABORTED").stopped
    assert not with_reason("TIMEOUT").stopped
    assert not with_reason("GOAL").stopped


def test_opencode_aborted_subagent_is_stopped() -> None:
    """An aborted subagent is stopped, told by its own conversation and by the call that asked for it."""
    error: Json = {"name": "MessageAbortedError", "data": {"message": "The operation was aborted."}}
    assert ended("opencode", hook_event_name="session.idle", agent_id="ses_2", error=error).stopped
    assert not ended("opencode", hook_event_name="session.idle", agent_id="ses_2", reply="Done.").stopped
    call: dict[str, Json] = {"hook_event_name": "tool.execute.error", "tool": "task", "call_id": "c", "args": {}}
    assert ended("opencode", **call, error="Tool execution aborted").stopped
    assert ended("opencode", **call, error="stopped", metadata={"interrupted": True}).stopped
    assert not ended("opencode", **call, error="No such agent").stopped
