"""What is heard of Goose beyond the suite that every agent passes, and how it is answered."""

from __future__ import annotations

import json

import pytest

from holdfast.conversations.adapters.base import HookAnswer, HookEvent
from holdfast.conversations.adapters.goose.hooks import AGENT, resume
from holdfast.conversations.signals import Active, AgentEnded, Called, Edited, Opened, Planned, Prompted, Ran, Todo
from holdfast.core.canonical import Json


def heard(event: str, **fields: Json) -> HookEvent:
    found = AGENT.parse({"event": event, "session_id": "20261115_3", **fields})
    assert found is not None
    return found


def test_a_conversation_is_reopened_by_its_id() -> None:
    """The command that reopens a conversation holds its id, and none is given for what is not an id."""
    assert heard("Stop").resume == "goose session --resume --session-id 20261115_3"
    assert resume("--help") is None
    assert resume("a;b") is None
    assert resume("é") is None


def test_the_names_of_the_other_dialect_are_understood() -> None:
    """Whoever speaks of `hook_event_name`, `prompt` and `cwd` instead says the same."""
    found = AGENT.parse(
        {"hook_event_name": "UserPromptSubmit", "session_id": "s", "message": "Empty the carts", "cwd": "/home/anna"}
    )
    assert found is not None
    assert (found.signals, found.cwd) == ((Prompted(text="Empty the carts"),), "/home/anna")


@pytest.mark.parametrize("name", ["developer__edit", "edit"])
def test_edits_say_before_and_after(name: str) -> None:
    """Goose's own words for the texts of an edit are understood, with and without its extension's name."""
    found = heard("PostToolUse", tool_name=name, tool_input={"path": "a.py", "before": "x\n", "after": "y\nz\n"})
    assert found.signals == (Edited(path="a.py", old="x\n", new="y\nz\n", lines_added=2, lines_removed=1),)


def test_the_older_editor_is_many_tools() -> None:
    """What the one editor of older versions did is told by its command."""

    def did(**given: Json) -> tuple[object, ...]:
        return heard("PostToolUse", tool_name="developer__text_editor", tool_input={"path": "a.py", **given}).signals

    assert did(command="view") == (Active(),)
    assert isinstance(did(command="write", file_text="x")[0], Edited)
    assert isinstance(did(command="str_replace", old_str="a", new_str="b")[0], Edited)
    patch = "--- a/a.py\n+++ b/a.py\n@@ -1,1 +1,1 @@\n-a\n+b\n"
    assert did(command="str_replace", diff=patch) == (Edited(path="a.py", lines_added=1, lines_removed=1),)


def test_what_failed_did_nothing() -> None:
    """A failed edit is no edit; a failed command is one that failed."""
    given: dict[str, Json] = {"path": "a.py", "content": "x"}
    assert heard("PostToolUseFailure", tool_name="developer__write", tool_input=given).signals == (Active(),)
    shell = heard("PostToolUseFailure", tool_name="developer__shell", tool_input={"command": "make"})
    assert shell.signals == (Ran(command="make", code=1),)


def test_commands_are_counted_once() -> None:
    """The events that Goose adds for shells and files say nothing that the tool's own do not say."""
    given: dict[str, Json] = {"tool_name": "developer__shell", "tool_input": {"command": "make"}}
    assert heard("AfterShellExecution", **given).signals == (Active(),)
    assert heard("BeforeShellExecution", **given).signals == (Active(),)
    assert heard("PostToolUse", **given).signals == (Ran(command="make"),)


def test_tools_of_other_extensions_are_not_ours_to_read() -> None:
    """Another extension's tool of the same name may do anything."""
    assert heard("PostToolUse", tool_name="wiki__write", tool_input={"path": "a", "content": "b"}).signals == (
        Active(),
    )


def test_lists_are_boxes_to_tick() -> None:
    """The to-do list is text; one without boxes says nothing."""
    found = heard("PostToolUse", tool_name="todo__todo_write", tool_input={"content": "- [x] One\n* [ ] Two\n"})
    assert found.signals == (Planned(todos=(Todo("One", "completed"), Todo("Two"))),)
    assert heard("PostToolUse", tool_name="todo_write", tool_input={"content": "None yet"}).signals == (Active(),)


def test_subagents_are_known_by_the_call() -> None:
    """A subagent begins and ends with the call for it; one in the background ends unheard."""
    given: dict[str, Json] = {"instructions": "Review", "source": "reviewer"}
    before = heard("PreToolUse", tool_name="delegate", tool_call_id="c1", tool_input=given)
    assert before.signals == (Called(call="c1", type="reviewer", task="Review", begins=True),)
    after = heard("PostToolUse", tool_name="delegate", tool_call_id="c1", tool_input=given)
    assert after.signals == (AgentEnded(call="c1", type="reviewer", task="Review"),)
    later = heard("PostToolUse", tool_name="delegate", tool_call_id="c1", tool_input={**given, "async": True})
    assert later.signals == (Active(),)
    assert before.mark != after.mark


def test_only_the_banner_is_shown() -> None:
    """As a session starts, both word and facts are in the banner; to nothing else is there an answer."""
    whole = HookAnswer(context="facts", say="a word", notify=True, block="not now")
    assert json.loads(AGENT.reply(whole, "SessionStart").stdout) == {"banner": "a word\n\nfacts"}
    assert AGENT.reply(whole, "UserPromptSubmit") == ("", "", 0)
    assert heard("SessionStart").signals == (Opened(),)
