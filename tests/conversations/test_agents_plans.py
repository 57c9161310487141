"""To-dos of a subagent are the subagent's, whichever tool tells them."""

from __future__ import annotations

import pytest

from holdfast.conversations.adapters.claude.hooks import AGENT
from holdfast.conversations.adapters.cline.hooks import tool_signals
from holdfast.conversations.adapters.codex import tools as codex
from holdfast.conversations.adapters.copilot import hooks as copilot
from holdfast.conversations.adapters.cursor import hooks as cursor
from holdfast.conversations.adapters.gemini import hooks as gemini
from holdfast.conversations.adapters.goose import hooks as goose
from holdfast.conversations.adapters.opencode.hooks import AGENT as OPENCODE
from holdfast.conversations.adapters.tools import CLAUDE, Table, signals_of
from holdfast.conversations.signals import Planned
from holdfast.core.canonical import Json

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
    """A list that a subagent wrote names the subagent, and one of the conversation names none."""
    for agent in ("a1", None):
        (found,) = signals_of(tool, given, response, agent=agent, table=table)
        assert isinstance(found, Planned)
        assert found.agent == agent
        assert found.todos


def test_todo_events_name_subagent() -> None:
    """So it is where an event of its own tells of the list, and where any tool carries it along."""
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
    """The list that comes with another tool is of whoever called it."""
    found = tool_signals(
        "read_files", {"task_progress": TICKED}, None, agent="a1", call=None, failed=None, took_ms=None
    )
    assert [match.agent for match in found if isinstance(match, Planned)] == ["a1"]
