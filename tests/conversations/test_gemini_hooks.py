"""The hooks of Gemini CLI: its own behaviour."""

from __future__ import annotations

import json
import os

import pytest

from holdfast.conversations.adapters.base import HookAnswer, HookEvent
from holdfast.conversations.adapters.gemini.hooks import AGENT
from holdfast.conversations.conformance import samples_in
from holdfast.conversations.signals import AgentEnded, AnySignal, Called, Edited, Prompted, Ran, Waits
from holdfast.core.canonical import Json

SAMPLES = {
    sample.name: sample for sample in samples_in(os.path.join(os.path.dirname(__file__), "payloads", "gemini"))
}
ID = "bfb80a18-5296-4134-a07f-30b14532a433"


def parse(event: str, **fields: Json) -> HookEvent:
    parsed = AGENT.parse({"session_id": ID, "hook_event_name": event, "cwd": "/home/anna/shop", **fields})
    assert parsed is not None
    return parsed


def after(tool: str, given: Json, response: Json) -> AnySignal:
    return parse("AfterTool", tool_name=tool, tool_input=given, tool_response=response).signals[0]


def shell(output: str) -> Ran:
    ran = after("run_shell_command", {"command": "make"}, {"llmContent": output})
    assert isinstance(ran, Ran)
    return ran


def test_automatic_compression_gives_no_signal() -> None:
    """Gemini announces a possible compression before every request."""
    nothing = AGENT.parse(SAMPLES["pre_compress_nothing"].payload)
    assert nothing is not None
    assert (nothing.signals, nothing.occasion, nothing.rest) == ((), None, {})
    asked_for = AGENT.parse(SAMPLES["pre_compress_manual"].payload)
    assert asked_for is not None
    assert asked_for.occasion == "compact"


def test_subagent_end_matches_call() -> None:
    """Gemini's calls have no id: start and end match by the request."""
    before = AGENT.parse(SAMPLES["before_tool_agent"].payload)
    done = AGENT.parse(SAMPLES["after_tool_agent"].payload)
    assert before is not None
    assert done is not None
    called, ended = before.signals[0], done.signals[0]
    assert isinstance(called, Called)
    assert isinstance(ended, AgentEnded)
    assert called.call == ended.call


def test_hook_context_is_removed_from_prompt() -> None:
    """Without a terminal the hooks' context precedes the prompt."""
    prompt = "<hook_context>Recorded facts\nof yesterday</hook_context>\n\nMake the cart faster"
    assert parse("BeforeAgent", prompt=prompt).signals == (Prompted(text="Make the cart faster"),)


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("<untrusted_context>\nOutput: fine\nProcess Group PGID: 7\n</untrusted_context>", 0),
        ("<untrusted_context>\nOutput: bad\nExit Code: 3\nProcess Group PGID: 7\n</untrusted_context>", 3),
        ("Output: bad\nError: spawn\nExit Code: 127\nSignal: 15\nBackground PIDs: (none)", 1),
        ("Output: Exit Code: 9\nall fine\nProcess Group PGID: 7", 0),
        ("Output: \nExit Code: 9\nand then more", 0),
        ("Command was cancelled by user before it could complete.", 130),
        ("", 0),
    ],
)
def test_exit_code_is_read_from_model_text(output: str, code: int) -> None:
    """It stands below the output."""
    assert shell(output).code == code


@pytest.mark.parametrize(
    ("path", "before", "content", "sure"),
    [
        ("/home/anna/shop/a.txt", None, "one\ntwo\n", True),
        ("C:\\Users\\anna\\shop\\a.txt", None, "one\ntwo\n", False),
        ("C:\\Users\\anna\\shop\\a.txt", None, "one", True),
        ("/home/anna/shop/a.txt", "one\n", "one\ntwo\n", True),
        ("/home/anna/shop/a.txt", "one\r\n", "one\ntwo\n", False),
        ("/home/anna/shop/a.txt", "one", "one\ntwo\n", False),
    ],
)
def test_hash_is_given_only_when_certain(path: str, before: str | None, content: str, sure: bool) -> None:
    """Gemini keeps a file's line ends and shows others."""
    shown: dict[str, Json] = {
        "filePath": path, "originalContent": before or "", "newContent": content, "isNewFile": before is None,
    }  # fmt: skip
    edited = after("write_file", {"file_path": "a.txt", "content": content}, {"returnDisplay": shown})
    assert isinstance(edited, Edited)
    assert (edited.after is not None) is sure
    assert (edited.before is not None) is (before is not None)
    assert edited.path == path


def test_edit_without_display_has_no_hash() -> None:
    """It is still an edit."""
    edited = after("write_file", {"file_path": "a.txt", "content": "x"}, {"llmContent": "done"})
    assert edited == Edited(path="a.txt", after=getattr(edited, "after", None))


def test_notification_waits_for_person() -> None:
    """A question waits for input, other requests for permission; other notices are no wait."""
    asked = parse("Notification", notification_type="ToolPermission", details={"type": "ask_user"}, message="?")
    assert asked.signals == (Waits(what="input", text="?"),)
    assert not isinstance(parse("Notification", notification_type="Idle").signals[0], Waits)


def test_reply_uses_gemini_fields() -> None:
    """Facts go to the model at the start and with a prompt; a compression accepts none."""
    start = json.loads(AGENT.reply(HookAnswer(context="facts", say="a word"), "SessionStart").stdout)
    assert start == {
        "hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "facts"},
        "systemMessage": "a word",
    }
    assert AGENT.reply(HookAnswer(context="facts"), "PreCompress").stdout == ""
    assert json.loads(AGENT.reply(HookAnswer(say="a word"), "PreCompress").stdout) == {"systemMessage": "a word"}


def test_blocked_prompt_is_denied() -> None:
    """With the reason alone: a message would be shown instead."""
    blocked = AGENT.reply(HookAnswer(say="a word", block="Ninety minutes: rest"), "BeforeAgent")
    assert json.loads(blocked.stdout) == {"decision": "deny", "reason": "Ninety minutes: rest"}
    assert blocked.code == 0
    assert AGENT.reply(HookAnswer(block="rest"), "SessionStart").stdout == ""


def test_resume_command_has_safe_id() -> None:
    """The id is one word."""
    assert parse("SessionEnd").resume == f"gemini --resume {ID}"
    hostile = AGENT.parse({"session_id": "$(reboot)", "hook_event_name": "SessionEnd"})
    assert hostile is not None
    assert hostile.resume == "gemini --resume '$(reboot)'"
