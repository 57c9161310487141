"""Goose payloads beyond the conformance suite, and the replies."""

from __future__ import annotations

import json

import pytest

from holdfast.conversations.adapters.base import HookAnswer, HookEvent
from holdfast.conversations.adapters.goose.hooks import AGENT
from holdfast.conversations.signals import Active, AgentEnded, Called, Edited, Opened, Planned, Prompted, Ran, Todo
from holdfast.core.canonical import Json


def parse(event: str, **fields: Json) -> HookEvent:
    parsed = AGENT.parse({"event": event, "session_id": "20261115_3", **fields})
    assert parsed is not None
    return parsed


def test_resume_command_has_conversation_id() -> None:
    """As `goose session` takes it."""
    assert parse("Stop").resume == "goose session --resume --session-id 20261115_3"


def test_other_dialect_is_understood() -> None:
    """`hook_event_name`, `prompt` and `cwd` mean the same."""
    parsed = AGENT.parse(
        {"hook_event_name": "UserPromptSubmit", "session_id": "s", "message": "Empty the carts", "cwd": "/home/anna"}
    )
    assert parsed is not None
    assert (parsed.signals, parsed.cwd) == ((Prompted(text="Empty the carts"),), "/home/anna")


@pytest.mark.parametrize("name", ["developer__edit", "edit"])
def test_edit_before_and_after_are_old_and_new(name: str) -> None:
    """With and without the extension's name."""
    parsed = parse("PostToolUse", tool_name=name, tool_input={"path": "a.py", "before": "x\n", "after": "y\nz\n"})
    assert parsed.signals == (Edited(path="a.py", old="x\n", new="y\nz\n", lines_added=2, lines_removed=1),)


def test_text_editor_commands_are_distinguished() -> None:
    """Older versions have one editor tool with commands."""

    def did(**given: Json) -> tuple[object, ...]:
        return parse("PostToolUse", tool_name="developer__text_editor", tool_input={"path": "a.py", **given}).signals

    assert did(command="view") == (Active(),)
    assert isinstance(did(command="write", file_text="x")[0], Edited)
    assert isinstance(did(command="str_replace", old_str="a", new_str="b")[0], Edited)
    patch = "--- a/a.py\n+++ b/a.py\n@@ -1,1 +1,1 @@\n-a\n+b\n"
    assert did(command="str_replace", diff=patch) == (Edited(path="a.py", lines_added=1, lines_removed=1),)


def test_failed_tool_gives_no_edit() -> None:
    """A failed command is recorded as failed."""
    given: dict[str, Json] = {"path": "a.py", "content": "x"}
    assert parse("PostToolUseFailure", tool_name="developer__write", tool_input=given).signals == (Active(),)
    shell = parse("PostToolUseFailure", tool_name="developer__shell", tool_input={"command": "make"})
    assert shell.signals == (Ran(command="make", code=1),)


def test_commands_are_reported_once() -> None:
    """Goose's extra events for shells and files repeat the tool's own."""
    given: dict[str, Json] = {"tool_name": "developer__shell", "tool_input": {"command": "make"}}
    assert parse("AfterShellExecution", **given).signals == (Active(),)
    assert parse("BeforeShellExecution", **given).signals == (Active(),)
    assert parse("PostToolUse", **given).signals == (Ran(command="make"),)


def test_tools_of_other_extensions_are_only_activity() -> None:
    """A tool of the same name may do anything."""
    assert parse("PostToolUse", tool_name="wiki__write", tool_input={"path": "a", "content": "b"}).signals == (
        Active(),
    )


def test_todo_list_is_checkboxes() -> None:
    """Text without boxes is ignored."""
    parsed = parse("PostToolUse", tool_name="todo__todo_write", tool_input={"content": "- [x] One\n* [ ] Two\n"})
    assert parsed.signals == (Planned(todos=(Todo("One", "completed"), Todo("Two"))),)
    assert parse("PostToolUse", tool_name="todo_write", tool_input={"content": "None yet"}).signals == (Active(),)


def test_subagent_is_identified_by_call() -> None:
    """It starts and ends with the call; one in the background ends unreported."""
    given: dict[str, Json] = {"instructions": "Review", "source": "reviewer"}
    before = parse("PreToolUse", tool_name="delegate", tool_call_id="c1", tool_input=given)
    assert before.signals == (Called(call="c1", type="reviewer", task="Review", begins=True),)
    after = parse("PostToolUse", tool_name="delegate", tool_call_id="c1", tool_input=given)
    assert after.signals == (AgentEnded(call="c1", type="reviewer", task="Review"),)
    later = parse("PostToolUse", tool_name="delegate", tool_call_id="c1", tool_input={**given, "async": True})
    assert later.signals == (Active(),)
    assert before.mark != after.mark


def test_reply_is_a_banner() -> None:
    """At the session's start, with message and facts; other events get no answer."""
    whole = HookAnswer(context="facts", say="a word", notify=True, block="not now")
    assert json.loads(AGENT.reply(whole, "SessionStart").stdout) == {"banner": "a word\n\nfacts"}
    assert AGENT.reply(whole, "UserPromptSubmit") == ("", "", 0)
    assert parse("SessionStart").signals == (Opened(),)
