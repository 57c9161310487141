"""Signals of subagents in every agent program: a stopped one is no failure, and to-dos have an owner."""

from __future__ import annotations

import pytest

from holdfast.conversations.adapters import index
from holdfast.conversations.adapters.claude.hooks import AGENT
from holdfast.conversations.adapters.cline.hooks import tool_signals
from holdfast.conversations.adapters.codex import tools as codex
from holdfast.conversations.adapters.copilot import hooks as copilot
from holdfast.conversations.adapters.cursor import hooks as cursor
from holdfast.conversations.adapters.gemini import hooks as gemini
from holdfast.conversations.adapters.goose import hooks as goose
from holdfast.conversations.adapters.opencode.hooks import AGENT as OPENCODE
from holdfast.conversations.adapters.tools import CLAUDE, Table, signals_of
from holdfast.conversations.signals import Active, AgentEnded, AnySignal, Planned, Ran
from holdfast.core.canonical import Json


def signals_from(agent: str, **fields: Json) -> tuple[AnySignal, ...]:
    parsed = index.load_adapter(agent).parse({"session_id": "s", "cwd": "/home/anna/shop", **fields})
    assert parsed is not None
    return parsed.signals


def ended(agent: str, **fields: Json) -> AgentEnded:
    parsed = next(line for line in signals_from(agent, **fields) if isinstance(line, AgentEnded))
    assert isinstance(parsed, AgentEnded)
    return parsed


@pytest.mark.parametrize("tool", ["Task", "Agent"])
def test_claude_subagent_interrupted_by_person_is_stopped(tool: str) -> None:
    """An error ends it as failed."""
    after: dict[str, Json] = {
        "hook_event_name": "PostToolUseFailure", "tool_name": tool, "tool_use_id": "toolu_1",
        "tool_input": {"subagent_type": "Explore"}, "error": "[Request interrupted by user for tool use]",
    }  # fmt: skip
    assert ended("claude", **after, is_interrupt=True).stopped
    assert not ended("claude", **after, is_interrupt=False).stopped
    assert not ended("claude", **after, is_interrupt="yes").stopped


def test_claude_interrupted_tool_is_no_error() -> None:
    """A stopped command ended by a signal; other stopped tools are only activity."""
    after: dict[str, Json] = {
        "hook_event_name": "PostToolUseFailure", "error": "Connection error.", "is_interrupt": True,
    }  # fmt: skip
    assert signals_from("claude", **after, tool_name="WebFetch", tool_input={}) == (Active(),)
    ran = signals_from("claude", **after, tool_name="Bash", tool_input={"command": "make"})
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
    """The notification's status counts, not its text."""
    prompt = (
        f"{opening}<task-notification>\n<task-id>a93</task-id>\n<status>{status}</status>\n"
        '<summary>Agent "Look" was stopped</summary>\n<result><status>killed</status></result>\n'
        "<usage><subagent_tokens>139</subagent_tokens></usage>\n</task-notification>"
    )
    parsed = ended("claude", hook_event_name="UserPromptSubmit", source="system", prompt=prompt)
    assert parsed == AgentEnded(agent="a93", tokens=139, stopped=stopped, failed=failed)


@pytest.mark.parametrize(("status", "stopped"), [("aborted", True), ("error", False), ("completed", False)])
def test_cursor_aborted_subagent_is_stopped(status: str, stopped: bool) -> None:
    parsed = ended("cursor", hook_event_name="subagentStop", subagent_id="x", subagent_type="explore", status=status)
    assert (parsed.stopped, parsed.failed is None) == (stopped, status == "completed")


def test_cline_cancelled_subagent_is_stopped() -> None:
    """One with an error failed."""
    base: dict[str, Json] = {
        "taskId": "t", "sessionContext": {"rootSessionId": "s"}, "agent_id": "a", "parent_agent_id": "b",
    }  # fmt: skip
    assert ended("cline", **base, hookName="agent_abort", reason="user cancelled").stopped
    assert not ended("cline", **base, hookName="agent_error", error={"message": "no"}).stopped


def test_gemini_aborted_subagent_is_stopped() -> None:
    """One of Gemini's reasons for an end."""

    def with_reason(reason: str) -> AgentEnded:
        return ended(
            "gemini", hook_event_name="AfterTool", tool_name="invoke_agent", tool_input={"prompt": "look"},
            tool_response={"returnDisplay": {"terminateReason": reason, "result": "r"}},
        )  # fmt: skip

    assert with_reason("ABORTED").stopped
    assert not with_reason("TIMEOUT").stopped
    assert not with_reason("GOAL").stopped


def test_opencode_aborted_subagent_is_stopped() -> None:
    """Reported by its own conversation and by the call."""
    error: Json = {"name": "MessageAbortedError", "data": {"message": "The operation was aborted."}}
    assert ended("opencode", hook_event_name="session.idle", agent_id="ses_2", error=error).stopped
    assert not ended("opencode", hook_event_name="session.idle", agent_id="ses_2", reply="Done.").stopped
    call: dict[str, Json] = {"hook_event_name": "tool.execute.error", "tool": "task", "call_id": "c", "args": {}}
    assert ended("opencode", **call, error="Tool execution aborted").stopped
    assert ended("opencode", **call, error="stopped", metadata={"interrupted": True}).stopped
    assert not ended("opencode", **call, error="No such agent").stopped


TODOS: Json = [{"content": "Empty the carts", "status": "pending"}]
TICKED = "- [ ] Empty the carts"


@pytest.mark.parametrize(
    ("table", "tool", "given", "response"),
    [
        (CLAUDE, "TodoWrite", {"todos": TODOS}, None),
        (CLAUDE, "TaskCreate", {"subject": "Empty"}, {"task": {"id": "1", "subject": "Empty"}}),
        (CLAUDE, "TaskUpdate", {"taskId": "1", "status": "completed"}, {"success": True}),
        (CLAUDE, "TaskList", {}, {"tasks": [{"id": "1", "subject": "Empty", "status": "pending"}]}),
        (codex.AFTER, "update_plan", {"plan": [{"step": "Empty", "status": "pending"}]}, None),
        (copilot.AFTER, "update_todo", {"todos": TICKED}, None),
        (cursor.AFTER, "TodoWrite", {"todos": TODOS, "merge": True}, None),
        (gemini.AFTER, "write_todos", {"todos": TODOS}, None),
        (goose.AFTER, "todo__todo_write", {"content": TICKED}, None),
    ],
)
def test_subagent_todos_have_its_id(table: Table, tool: str, given: Json, response: Json) -> None:
    """A conversation's list names none."""
    for agent in ("a1", None):
        (parsed,) = signals_of(tool, given, response, agent=agent, table=table)
        assert isinstance(parsed, Planned)
        assert parsed.agent == agent
        assert parsed.todos


def test_todo_events_name_subagent() -> None:
    """Whether the list has its own event or comes with a tool."""
    task: dict[str, Json] = {"task_id": "1", "task_subject": "Empty", "agent_id": "a1"}
    created = AGENT.parse({"session_id": "s", "hook_event_name": "TaskCreated", **task})
    updated = OPENCODE.parse({"session_id": "s", "hook_event_name": "todo.updated", "agent_id": "a1", "todos": TODOS})
    assert created is not None
    assert updated is not None
    assert [signal.agent for signal in (*created.signals, *updated.signals) if isinstance(signal, Planned)] == [
        "a1",
        "a1",
    ]


def test_cline_todos_come_with_any_tool() -> None:
    """They belong to the caller."""
    parsed = tool_signals(
        "read_files", {"task_progress": TICKED}, None, agent="a1", call=None, failed=None, took_ms=None
    )
    assert [match.agent for match in parsed if isinstance(match, Planned)] == ["a1"]
