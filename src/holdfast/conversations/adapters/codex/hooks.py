"""Codex's hooks: what they say, and how they are answered."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.conversations.adapters.base import HookAnswer, HookEvent, Payload, Reply
from holdfast.conversations.adapters.clean_text import cut_for_json, without_controls
from holdfast.conversations.adapters.fields import get_conversation, get_text, unknown_fields
from holdfast.conversations.adapters.tools import (
    command_of,
)
from holdfast.conversations.signals import (
    Active,
    AgentBegan,
    AgentEnded,
    AnySignal,
    Chosen,
    Closed,
    Compacted,
    Compacting,
    Opened,
    Prompted,
    Replied,
    Waits,
)
from holdfast.core.agent_programs import AGENT_PROGRAMS, resume_command
from holdfast.core.canonical import Json

DEFAULT_TYPE: Final = "default"  # what it calls an agent without a role
# Codex writes longer texts to a file and shows the model their beginning and end.
MAX_CONTEXT_LENGTH: Final = 8_000
EVENTS: Final = (
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "PreCompact", "PostCompact",
    "SubagentStart", "SubagentStop", "Stop", "Interrupt", "SessionEnd",
)  # fmt: skip
_OCCASIONS: Final = AGENT_PROGRAMS["codex"].occasions
_TAKES_CONTEXT: Final = frozenset({"SessionStart", "UserPromptSubmit"})
_KNOWN: Final = frozenset(
    {"session_id", "turn_id", "transcript_path", "cwd", "hook_event_name", "model", "permission_mode", "source",
     "prompt", "tool_name", "tool_input", "tool_response", "tool_use_id", "agent_id", "agent_type",
     "agent_transcript_path", "stop_hook_active", "last_assistant_message", "trigger", "reason"}
)  # fmt: skip


class Codex:
    name = "codex"
    room = 7_900
    notifies = False

    def parse(self, payload: Payload) -> HookEvent | None:
        conversation = get_conversation(payload, "session_id")
        if conversation is None:
            return None
        event = get_text(payload, "hook_event_name") or ""
        if event not in EVENTS:
            return HookEvent(
                agent=self.name, conversation=conversation, event=event, cwd=get_text(payload, "cwd"),
                resume=resume_command(self.name, conversation), rest=unknown_fields(payload, ()),
            )  # fmt: skip
        return HookEvent(
            agent=self.name,
            conversation=conversation,
            event=event,
            signals=(*_signals(event, payload), *_chosen(payload)),
            cwd=get_text(payload, "cwd"),
            mark=_mark(event, payload),
            # A subagent's own beginning and prompts are not answered.
            occasion=None if get_text(payload, "agent_id") else _OCCASIONS.get(event),
            resume=resume_command(self.name, conversation),
            rest=unknown_fields(payload, _KNOWN),
        )

    def reply(self, answer: HookAnswer, event: str) -> Reply:
        if event not in _OCCASIONS:
            return Reply()
        fields: dict[str, Json] = {}
        if say := without_controls(answer.say):
            fields["systemMessage"] = cut_for_json(say, 1_000)
        if (block := without_controls(answer.block)) and event == "UserPromptSubmit":
            fields |= {"decision": "block", "reason": cut_for_json(block, 1_000)}
        elif (context := without_controls(answer.context)) and event in _TAKES_CONTEXT:
            fields["hookSpecificOutput"] = {
                "hookEventName": event,
                "additionalContext": cut_for_json(context, MAX_CONTEXT_LENGTH),
            }
        return Reply(msgspec.json.encode(fields).decode()) if fields else Reply()


def _signals(event: str, payload: Payload) -> tuple[AnySignal, ...]:
    agent = get_text(payload, "agent_id")
    match event:
        case "SessionStart":
            return (_opened(get_text(payload, "source")),)
        case "UserPromptSubmit":
            return (Prompted(agent=agent, text=get_text(payload, "prompt") or "", person=agent is None),)
        case "PreToolUse":
            from holdfast.conversations.adapters.codex.tools import BEFORE, plain_name
            from holdfast.conversations.adapters.tools import signals_of

            return signals_of(
                plain_name(get_text(payload, "tool_name") or ""), payload.get("tool_input"), agent=agent,
                call=get_text(payload, "tool_use_id"), table=BEFORE,
            )  # fmt: skip
        case "PermissionRequest":
            return (Waits(agent=agent, what="permission", text=_permission_for(payload)),)
        case "PostToolUse":
            from holdfast.conversations.adapters.codex.tools import AFTER, outcome, plain_name
            from holdfast.conversations.adapters.tools import signals_of

            result = outcome(payload.get("tool_response"))
            return signals_of(
                plain_name(get_text(payload, "tool_name") or ""), payload.get("tool_input"), result.response,
                agent=agent, call=get_text(payload, "tool_use_id"), failed=result.failed, took_ms=result.took_ms,
                table=AFTER,
            )  # fmt: skip
        case "PreCompact" | "PostCompact" if agent is not None:
            return (Active(agent=agent),)  # the conversation's own context is as it was
        case "PreCompact":
            return (Compacting(surely=get_text(payload, "trigger") != "manual"),)
        case "PostCompact":
            return (Compacted(),)
        case "SubagentStart":
            return () if agent is None else (AgentBegan(agent=agent, type=_type(payload)),)
        case "SubagentStop":
            if agent is None:
                return (Active(),)
            summary = get_text(payload, "last_assistant_message")
            return (AgentEnded(agent=agent, type=_type(payload), summary=summary),)
        case "Stop":
            return (Replied(agent=agent, text=get_text(payload, "last_assistant_message")),)
        case "Interrupt":
            return (Active(agent=agent),)  # the person took the turn back
        case "SessionEnd":
            return (Closed(reason=get_text(payload, "reason")),)
    return ()


def _opened(source: str | None) -> Opened:
    match source:
        case "resume" | "clear" | "compact" | "fork":
            return Opened(how=source)
    return Opened()


def _type(payload: Payload) -> str:
    return get_text(payload, "agent_type") or DEFAULT_TYPE


def _permission_for(payload: Payload) -> str | None:

    arguments = payload.get("tool_input")
    arguments = arguments if type(arguments) is dict else {}
    return get_text(arguments, "description") or command_of(arguments) or get_text(payload, "tool_name")


def _chosen(payload: Payload) -> tuple[AnySignal, ...]:
    """The conversation's model and permission mode; those of a subagent are its own affair."""
    model, permission = get_text(payload, "model"), get_text(payload, "permission_mode")
    if (model is None and permission is None) or get_text(payload, "agent_id"):
        return ()
    return (Chosen(model=model, permission=permission),)


def _mark(event: str, payload: Payload) -> str:
    """What identifies this event; for others the payload as a whole does, since one turn can have many."""
    turn = get_text(payload, "turn_id") or ""
    name = get_text(payload, {"SubagentStart": "agent_id", "SubagentStop": "agent_id"}.get(event, "tool_use_id"))
    return f"{event}:{turn[:200]}:{name[:200]}" if name else ""


AGENT: Final = Codex()
