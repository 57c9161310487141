"""The hooks of Cursor: its own behaviour."""

from __future__ import annotations

import json
import os

from holdfast.conversations.adapters.base import HookAnswer, HookEvent
from holdfast.conversations.adapters.cursor.hooks import AGENT
from holdfast.conversations.conformance import samples_in
from holdfast.conversations.signals import Active, AgentBegan, AgentEnded, Edited, Planned, Ran, Todo
from holdfast.core.canonical import Json

SAMPLES = {
    sample.name: sample for sample in samples_in(os.path.join(os.path.dirname(__file__), "payloads", "cursor"))
}
ID = "5b0d6c1e-8a4f-4f1e-9d8e-2b7f1c3a9e10"


def parse(event: str, **fields: Json) -> HookEvent:
    parsed = AGENT.parse({"conversation_id": ID, "hook_event_name": event, **fields})
    assert parsed is not None
    return parsed


def sample(name: str) -> HookEvent:
    parsed = AGENT.parse(SAMPLES[name].payload)
    assert parsed is not None
    return parsed


def test_file_edit_is_reported_once() -> None:
    """A written file only by its own event, a command only by its tool."""
    assert isinstance(sample("after_file_edit").signals[0], Edited)
    assert sample("post_tool_use_write").signals == (Active(),)
    assert isinstance(sample("post_tool_use_shell").signals[0], Ran)
    assert sample("after_shell_execution").signals == (Active(),)


def test_call_events_have_marks() -> None:
    """A call reported by two configurations is one; a started one differs from an ended one."""
    first = parse("postToolUse", tool_name="Shell", tool_use_id="a", tool_input={"command": "x"}, duration=1)
    again = parse("postToolUse", tool_name="Shell", tool_use_id="a", tool_input={"command": "x"}, duration=2)
    assert first.mark == again.mark != ""
    assert parse("preToolUse", tool_use_id="a").mark != first.mark


def test_denied_command_gives_no_ran() -> None:
    assert sample("post_tool_use_failure_denied").signals == (Active(),)


def test_subagent_belongs_to_parent_conversation() -> None:
    """Although it has a conversation id of its own."""
    own = parse("subagentStop", parent_conversation_id="other", subagent_id="s", status="aborted")
    assert own.conversation == "other"
    ended = own.signals[0]
    assert isinstance(ended, AgentEnded)
    assert (ended.agent, ended.failed) == ("s", "it ended as aborted")


def test_subagent_without_id_gets_one() -> None:
    """Its end is matched to the start of the same type by the same prompt."""
    began = parse("subagentStart", subagent_type="shell", prompt="Run it", generation_id="g").signals[0]
    ended = parse("subagentStop", subagent_type="shell", status="completed", generation_id="g").signals[0]
    assert isinstance(began, AgentBegan)
    assert isinstance(ended, AgentEnded)
    assert began.agent == ended.agent
    assert began.task == "Run it"


def test_todos_are_merged_or_whole() -> None:
    """Cursor says whether its to-dos are the complete list."""
    todos: Json = [{"id": "1", "content": "Pack", "status": "cancelled"}]
    for merge in (True, False):
        parsed = parse("postToolUse", tool_name="TodoWrite", tool_input={"todos": todos, "merge": merge})
        assert parsed.signals == (Planned(todos=(Todo("Pack", "dropped", "1"),), whole=not merge),)


def test_windows_paths_lose_slash() -> None:
    """Cursor adds a slash before the drive."""
    assert sample("session_start_windows").cwd == "c:/Users/anna/shop"
    edited = parse("afterFileEdit", file_path="/c:/Users/anna/shop/a.ts", edits=[]).signals[0]
    assert isinstance(edited, Edited)
    assert edited.path == "c:/Users/anna/shop/a.ts"
    assert parse("stop", workspace_roots=[7, "", "/srv/shop"], cwd="/srv/shop/src").cwd == "/srv/shop"
    assert parse("stop", cwd="/srv/shop").cwd == "/srv/shop"


def test_account_is_not_kept() -> None:
    """Every payload contains the person's address."""
    for name in SAMPLES:
        assert "anna@example.com" not in repr(sample(name))


def test_reply_uses_cursor_fields() -> None:
    """Facts are context, a message is for the person; a compression accepts only the message."""
    answer = HookAnswer(context="facts", say="a word")
    for event in ("sessionStart", "beforeSubmitPrompt"):
        fields = json.loads(AGENT.reply(answer, event).stdout)
        assert fields == {"additional_context": "facts", "user_message": "a word"}
    assert json.loads(AGENT.reply(answer, "preCompact").stdout) == {"user_message": "a word"}
    assert AGENT.reply(HookAnswer(context="facts"), "preCompact").stdout == ""
    blocked = AGENT.reply(HookAnswer(context="facts", block="rest"), "beforeSubmitPrompt")
    assert json.loads(blocked.stdout) == {"continue": False, "user_message": "rest"}
    assert blocked.code == 0
    assert "continue" not in AGENT.reply(HookAnswer(context="facts", block="rest"), "sessionStart").stdout


def test_resume_command_has_safe_id() -> None:
    """The id is one word."""
    assert parse("stop").resume == f"cursor-agent --resume={ID}"
    hostile = AGENT.parse({"conversation_id": "a b", "hook_event_name": "stop"})
    assert hostile is not None
    assert hostile.resume == "cursor-agent --resume='a b'"


def test_subagent_modified_files_are_edits() -> None:
    """Reported with its end, each file once, as the subagent's and without hashes."""
    files: Json = ["/C:/shop/a.py", "b.py", "b.py", "", 7, None]
    parsed = parse("subagentStop", subagent_id="x", subagent_type="explore", status="completed", modified_files=files)
    assert parsed.signals[:2] == (Edited(agent="x", path="C:/shop/a.py"), Edited(agent="x", path="b.py"))
    assert parsed.signals[2:] == (AgentEnded(agent="x", type="explore"),)
    none = parse("subagentStop", subagent_id="x", subagent_type="explore", modified_files="b.py")
    assert none.signals == (AgentEnded(agent="x", type="explore"),)
