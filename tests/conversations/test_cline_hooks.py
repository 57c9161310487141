"""Payloads of Cline's hooks, beyond the conformance suite."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.conversations.adapters.base import HookAnswer, HookEvent
from holdfast.conversations.adapters.cline.hooks import AGENT, person_words
from holdfast.conversations.signals import (
    Active,
    AgentBegan,
    AgentEnded,
    Called,
    Closed,
    Edited,
    Erred,
    Opened,
    Prompted,
    Ran,
    Replied,
    Waits,
)

BASE: dict[str, Any] = {
    "timestamp": "2026-11-15T16:07:02.885Z", "taskId": "conv_1", "sessionContext": {"rootSessionId": "1794_r8"},
    "workspaceRoots": ["/home/anna/shop"], "agent_id": "agent_1", "parent_agent_id": None,
}  # fmt: skip


def parse(hook: str, **more: Any) -> HookEvent:
    parsed = AGENT.parse({**BASE, "hookName": hook, **more})
    assert parsed is not None
    return parsed


def after(name: str, given: Any, output: Any = None, **more: Any) -> tuple[Any, ...]:
    return parse(
        "tool_result", tool_result={"id": "c", "name": name, "input": given, "output": output, **more}
    ).signals


def test_extension_and_program_are_distinguished() -> None:
    """The program reopens its conversation by id; the extension's is identified by its prompt."""
    program = parse("agent_start")
    extension = AGENT.parse({"hookName": "TaskStart", "taskId": "1794", "workspaceRoots": ["/home/anna/shop"]})
    assert extension is not None
    assert (program.event, program.conversation, program.resume) == ("TaskStart", "1794_r8", "cline --id 1794_r8")
    assert (extension.event, extension.conversation, extension.resume) == ("TaskStart", "1794", None)
    assert program.signals == (Opened(), Prompted())
    assert extension.signals == (Opened(),)
    assert program.cwd == extension.cwd == "/home/anna/shop"


def test_subagent_gives_signals_from_start_to_end() -> None:
    """Requested, started under its own id, and ended: done, failed or stopped."""
    below = {"agent_id": "agent_2", "parent_agent_id": "agent_1", "taskId": "conv_2"}
    call = {"id": "c4", "name": "spawn_agent", "input": {"task": "Look", "systemPrompt": "You look"}}
    assert parse("tool_call", tool_call=call).signals == (Called(call="c4", type="subagent", task="Look"),)
    began = parse("agent_start", **below)
    assert (began.conversation, began.occasion) == ("1794_r8", None)
    assert began.signals == (AgentBegan(agent="agent_2", type="subagent"),)
    signals = parse("agent_end", turn={"outputText": "Fine."}, **below).signals
    assert signals == (AgentEnded(agent="agent_2", type="subagent", summary="Fine."),)
    failed = parse("agent_error", error={"name": "Error", "message": "no"}, **below).signals
    assert failed == (AgentEnded(agent="agent_2", type="subagent", failed="no"),)
    stopped = parse("agent_abort", **below).signals
    assert stopped == (AgentEnded(agent="agent_2", type="subagent", failed="it was cancelled", stopped=True),)
    assert parse("session_shutdown", **below).signals == ()


def test_each_way_a_turn_ends_gives_its_signals() -> None:
    """Answered, cancelled by the person, failed, or the end of the task."""
    assert parse("agent_end", turn={"outputText": "Fine."}).signals == (Replied(text="Fine."),)
    assert parse("agent_abort", reason="user cancelled").signals == (Replied(),)
    (erred,) = parse("agent_error", error={"name": "Error", "message": "fetch failed"}).signals
    assert type(erred) is Erred
    assert erred.category == "transient"
    assert parse("session_shutdown", reason="bye").signals == (Closed(reason="bye"),)


def test_commands_have_separate_exit_codes() -> None:
    """Several commands in one call are separate, also when given as text."""
    given = {"commands": ["make", {"command": "make test"}, "ls"]}
    output = [{"success": True}, {"success": False, "error": "Command exited with code 2"}, {"success": False}]
    each = [("make", 0), ("make test", 2), ("ls", 1)]
    assert [(item.command, item.code) for item in after("run_commands", given, output)] == each
    written = {"commands": json.dumps(given["commands"])}
    assert [(item.command, item.code) for item in after("run_commands", written, json.dumps(output))] == each
    assert after("execute_command", {"command": "[ -f a ]"}) == (Ran(command="[ -f a ]"),)
    assert after("run_commands", {"commands": []}) == (Active(),)


@pytest.mark.parametrize(
    ("name", "given", "action", "texts"),
    [
        ("editor", {"path": "a", "old_text": "x", "new_text": "y"}, "modified", ("x", "y")),
        ("editor", {"path": "a", "insert_line": 3, "new_text": "y"}, "modified", (None, None)),
        ("write_to_file", {"path": "a", "content": "y\n"}, "modified", (None, None)),
        ("replace_in_file", {"path": "a", "diff": "------- SEARCH\nx\n=======\ny\n+++++++ REPLACE\n"}, "modified",
         (None, None)),
        ("apply_patch", {"input": "*** Begin Patch\n*** Add File: a\n+y\n*** End Patch"}, "created", (None, None)),
    ],
)  # fmt: skip
def test_file_tools_give_edits(name: str, given: Any, action: str, texts: tuple[str | None, str | None]) -> None:
    """Except when the tool failed."""
    (edited,) = after(name, given, "done")
    assert type(edited) is Edited
    assert (edited.path, edited.action, (edited.old, edited.new)) == ("a", action, texts)
    assert after(name, given, error="refused") == (Active(),)


def test_created_file_is_an_edit() -> None:
    """Only Cline's word distinguishes a new file from an overwritten one."""
    (new,) = after("editor", {"path": "a", "new_text": "y\n"}, {"result": "File created successfully at: a"})
    (old,) = after("editor", {"path": "a", "new_text": "y\n"}, {"result": "File overwritten"})
    assert (new.action, old.action) == ("created", "modified")
    assert new.after == old.after


def test_question_waits_for_person() -> None:
    """With the question's text."""
    asked = parse("tool_call", tool_call={"name": "ask_question", "input": {"question": "Which port?"}}).signals
    assert asked == (Waits(what="input", text="Which port?"),)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ('<user_input mode="act">Add a sitemap</user_input>', "Add a sitemap"),
        ("<task>\nAdd it\n</task>\n<environment_details>…</environment_details>", "Add it"),
        ("Use <b>bold</b>", "Use <b>bold</b>"),
        ("<user_input>never closed", "<user_input>never closed"),
    ],
)
def test_prompt_is_unwrapped(prompt: str, words: str) -> None:
    """Only Cline's own wrapper is removed."""
    assert person_words(prompt) == words
    assert parse("prompt_submit", userPromptSubmit={"prompt": prompt}).signals == (Prompted(text=words),)


def test_event_in_two_hook_files_has_one_mark() -> None:
    """Of user and project; two calls in one moment are two."""
    call = {"id": "c1", "name": "editor", "input": {}}
    assert parse("tool_call", tool_call=call).mark == parse("tool_call", tool_call=call).mark != ""
    assert parse("tool_call", tool_call=call).mark != parse("tool_call", tool_call={**call, "id": "c2"}).mark
    assert parse("agent_start", timestamp=None).mark == ""


def test_reply_uses_cline_fields() -> None:
    """Context with the person's message in it, or a reason to stop the task."""
    answer = HookAnswer(context="facts", say="a word")
    assert json.loads(AGENT.reply(answer, "TaskStart").stdout) == {
        "cancel": False, "contextModification": "facts\n\na word",
    }  # fmt: skip
    blocked = json.loads(AGENT.reply(HookAnswer(block="no"), "UserPromptSubmit").stdout)
    assert blocked == {"cancel": True, "errorMessage": "no"}
    assert AGENT.reply(HookAnswer(block="no"), "TaskStart").stdout == ""
