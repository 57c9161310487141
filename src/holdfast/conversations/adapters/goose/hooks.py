"""Goose's hooks and tools.

A tool's name begins with the extension it belongs to (`developer__shell`), except in versions and extensions that
leave the prefix out. Only tools of Goose's own extensions are known: another's `write` may be anything.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.conversations.adapters.base import HookAnswer, HookEvent, Payload, Reply
from holdfast.conversations.adapters.clean_text import cut_for_json, without_controls
from holdfast.conversations.adapters.fields import get_conversation, get_flag, get_string, get_text, unknown_fields
from holdfast.conversations.adapters.tools import (
    Meaning,
    Table,
    ToolCall,
    active,
    edits,
    patches,
    plans,
    runs,
    signals_of,
    writes,
)
from holdfast.conversations.signals import Active, AgentEnded, AnySignal, Called, Closed, Opened, Prompted, Replied
from holdfast.core.agent_programs import AGENT_PROGRAMS, resume_command
from holdfast.core.canonical import Json

AGENT_TYPE: Final = "subagent"


def exchanges(call: ToolCall) -> tuple[AnySignal, ...]:
    """`edit`: Goose's `before` and `after` are what others call old and new."""
    return edits(call._replace(input=_renamed(call, {"before": "old_string", "after": "new_string"})))


def edits_text(call: ToolCall) -> tuple[AnySignal, ...]:
    """`text_editor`: one tool of older versions for reading, writing and changing, distinguished by its `command`."""
    match get_text(call.input, "command"):
        case "write" | "create":
            return writes(call)
        case "str_replace" | "insert" | "edit_file" | "undo_edit":
            return patches(call) if get_string(call.input, "diff") else edits(call)
    return active(call)


def writes_list(call: ToolCall) -> tuple[AnySignal, ...]:
    """The whole to-do list, as text with checkboxes."""
    return plans(call._replace(input=_renamed(call, {"content": "todos"})))


def calls_agent(call: ToolCall) -> tuple[AnySignal, ...]:
    """Before a subagent."""
    if call.id is None:
        return active(call)
    kind, task = _assignment(call)
    background = get_flag(call.input, "async")
    return (
        Called(agent=call.agent, call=call.id, type=kind, task=task, background=background, begins=not background),
    )


def agent_done(call: ToolCall) -> tuple[AnySignal, ...]:
    """After a subagent; hooks report nothing more of one in the background."""
    if call.id is None or (get_flag(call.input, "async") and call.failed is None):
        return active(call)
    kind, task = _assignment(call)
    return (AgentEnded(call=call.id, type=kind, task=task, summary=call.text, failed=call.failed),)


def _assignment(call: ToolCall) -> tuple[str, str | None]:
    kind = get_text(call.input, "source", "subrecipe", "agent") or AGENT_TYPE
    return kind, get_text(call.input, "instructions", "task", "prompt", "message")


def _renamed(call: ToolCall, names: dict[str, str]) -> dict[str, Json]:
    return {names.get(name, name): value for name, value in call.input.items()}


def _with_prefix(extension: str, tools: dict[str, Meaning]) -> dict[str, Meaning]:
    return {**tools, **{f"{extension}__{name}": meaning for name, meaning in tools.items()}}


BEFORE: Final[Table] = _with_prefix("summon", {"delegate": calls_agent, "subagent": calls_agent})
AFTER: Final[Table] = {
    **_with_prefix("developer", {"shell": runs, "write": writes, "edit": exchanges, "text_editor": edits_text}),
    **_with_prefix("todo", {"todo_write": writes_list}),
    "todo__write": writes_list,
    **_with_prefix("summon", {"delegate": agent_done, "subagent": agent_done}),
}


MAX_BANNER_LENGTH: Final = 8_000
_OCCASIONS: Final = AGENT_PROGRAMS["goose"].occasions
# In addition to the events of the tool itself: only signs of activity.
_EXTRA: Final = frozenset({"BeforeReadFile", "AfterFileEdit", "BeforeShellExecution", "AfterShellExecution"})
_TOOL: Final = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure"})
_EVENTS: Final = frozenset({*_OCCASIONS, *_EXTRA, *_TOOL, "Stop", "SessionEnd"})
_KNOWN: Final = frozenset(
    {"event", "hook_event_name", "session_id", "matcher_context", "tool_call_id", "tool_name", "tool_input",
     "tool_output", "tool_response", "message", "prompt", "last_assistant_message", "working_dir", "cwd", "reason"}
)  # fmt: skip


class Goose:
    name = "goose"
    room = 9_500
    notifies = False

    def parse(self, payload: Payload) -> HookEvent | None:
        conversation = get_conversation(payload, "session_id")
        if conversation is None:
            return None
        event = get_text(payload, "event", "hook_event_name") or ""
        known = event in _EVENTS
        call = get_text(payload, "tool_call_id") if event in _TOOL else None
        return HookEvent(
            agent=self.name,
            conversation=conversation,
            event=event,
            signals=_signals(event, payload) if known else (),
            cwd=get_text(payload, "working_dir", "cwd"),
            mark=f"{event}:{call[:200]}" if call else "",
            occasion=_OCCASIONS.get(event),
            resume=resume_command(self.name, conversation),
            rest=unknown_fields(payload, _KNOWN if known else ()),
        )

    def reply(self, answer: HookAnswer, event: str) -> Reply:
        banner = "\n\n".join(
            text for text in (without_controls(answer.say), without_controls(answer.context)) if text
        )
        if not banner or event != "SessionStart":
            return Reply()
        return Reply(msgspec.json.encode({"banner": cut_for_json(banner, MAX_BANNER_LENGTH)}).decode())


def _signals(event: str, payload: Payload) -> tuple[AnySignal, ...]:
    match event:
        case "SessionStart":
            return (Opened(),)
        case "UserPromptSubmit":
            return (Prompted(text=get_text(payload, "message", "prompt") or ""),)
        case "PreToolUse":
            return signals_of(
                get_text(payload, "tool_name") or "", payload.get("tool_input"),
                call=get_text(payload, "tool_call_id"), table=BEFORE,
            )  # fmt: skip
        case "PostToolUse" | "PostToolUseFailure":
            reason = get_text(payload, "tool_output", "tool_response", "reason") or "failed"
            failed = None if event == "PostToolUse" else reason
            response = payload.get("tool_output", payload.get("tool_response"))
            return signals_of(
                get_text(payload, "tool_name") or "", payload.get("tool_input"), response,
                call=get_text(payload, "tool_call_id"), failed=failed, table=AFTER,
            )  # fmt: skip
        case "Stop":
            return (Replied(text=get_text(payload, "last_assistant_message")),)
        case "SessionEnd":
            return (Closed(reason=get_text(payload, "reason")),)
    return (Active(),)


AGENT: Final = Goose()
