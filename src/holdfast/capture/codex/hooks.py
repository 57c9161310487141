"""How Codex's hooks speak: Claude Code's dialect with a model and a turn in every payload, and a schema of its own
for answers that refuses any field it does not name. The shell's exit code is not told here, only in the rollout.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.capture.codex.meanings import AFTER, BEFORE, DEFAULT_TYPE, outcome, plain_name
from holdfast.capture.fitting import clean, written
from holdfast.capture.interface import Answer, Heard, Occasion, Payload, Reply
from holdfast.capture.payload import conversation_of, rest, word
from holdfast.capture.signals import (
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
from holdfast.capture.tools import command_of, signals_of
from holdfast.core.canonical import Json

# Codex writes longer texts to a file and shows the model their beginning and end.
LONGEST: Final = 8_000
EVENTS: Final = (
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "PreCompact", "PostCompact",
    "SubagentStart", "SubagentStop", "Stop", "Interrupt", "SessionEnd",
)  # fmt: skip
_OCCASIONS: Final[dict[str, Occasion]] = {
    "SessionStart": "start", "UserPromptSubmit": "prompt", "PreCompact": "compact",
}  # fmt: skip
_TAKES_CONTEXT: Final = frozenset({"SessionStart", "UserPromptSubmit"})
_KNOWN: Final = frozenset(
    {"session_id", "turn_id", "transcript_path", "cwd", "hook_event_name", "model", "permission_mode", "source",
     "prompt", "tool_name", "tool_input", "tool_response", "tool_use_id", "agent_id", "agent_type",
     "agent_transcript_path", "stop_hook_active", "last_assistant_message", "trigger", "reason"}
)  # fmt: skip


class Codex:
    name = "codex"
    title = "Codex"
    room = 7_900
    notifies = False
    asking = frozenset(_OCCASIONS)

    def heard(self, payload: Payload) -> Heard | None:
        conversation = conversation_of(payload, "session_id")
        if conversation is None:
            return None
        event = word(payload, "hook_event_name") or ""
        if event not in EVENTS:
            return Heard(
                agent=self.name, conversation=conversation, event=event, cwd=word(payload, "cwd"),
                resume=resume(conversation), rest=rest(payload, ()),
            )  # fmt: skip
        return Heard(
            agent=self.name,
            conversation=conversation,
            event=event,
            signals=(*_signals(event, payload), *_chosen(payload)),
            cwd=word(payload, "cwd"),
            mark=_mark(event, payload),
            # A subagent's own beginning and prompts are nobody's to answer.
            occasion=None if word(payload, "agent_id") else _OCCASIONS.get(event),
            resume=resume(conversation),
            rest=rest(payload, _KNOWN),
        )

    def reply(self, answer: Answer, event: str) -> Reply:
        if event not in self.asking:
            return Reply()
        said: dict[str, Json] = {}
        if say := clean(answer.say):
            said["systemMessage"] = written(say, 1_000)
        if (block := clean(answer.block)) and event == "UserPromptSubmit":
            said |= {"decision": "block", "reason": written(block, 1_000)}
        elif (context := clean(answer.context)) and event in _TAKES_CONTEXT:
            said["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": written(context, LONGEST)}
        return Reply(msgspec.json.encode(said).decode()) if said else Reply()


def resume(conversation: str) -> str | None:
    """The command that reopens a conversation. It is shown to be typed: nothing a shell would take apart."""
    fit = conversation.isascii() and conversation.replace("-", "").isalnum() and conversation[0] != "-"
    return f"codex resume {conversation}" if fit else None


def _signals(event: str, payload: Payload) -> tuple[AnySignal, ...]:
    agent = word(payload, "agent_id")
    match event:
        case "SessionStart":
            return (_opened(word(payload, "source")),)
        case "UserPromptSubmit":
            return (Prompted(agent=agent, text=word(payload, "prompt") or "", person=agent is None),)
        case "PreToolUse":
            return signals_of(
                plain_name(word(payload, "tool_name") or ""), payload.get("tool_input"), agent=agent,
                call=word(payload, "tool_use_id"), table=BEFORE,
            )  # fmt: skip
        case "PermissionRequest":
            return (Waits(agent=agent, what="permission", text=_asked_for(payload)),)
        case "PostToolUse":
            came = outcome(payload.get("tool_response"))
            return signals_of(
                plain_name(word(payload, "tool_name") or ""), payload.get("tool_input"), came.response, agent=agent,
                call=word(payload, "tool_use_id"), failed=came.failed, took_ms=came.took_ms, table=AFTER,
            )  # fmt: skip
        case "PreCompact" | "PostCompact" if agent is not None:
            return (Active(agent=agent),)  # the conversation's own context is as it was
        case "PreCompact":
            return (Compacting(surely=word(payload, "trigger") != "manual"),)
        case "PostCompact":
            return (Compacted(),)
        case "SubagentStart":
            return () if agent is None else (AgentBegan(agent=agent, type=_type(payload)),)
        case "SubagentStop":
            if agent is None:
                return (Active(),)
            said = word(payload, "last_assistant_message")
            return (AgentEnded(agent=agent, type=_type(payload), summary=said),)
        case "Stop":
            return (Replied(agent=agent, text=word(payload, "last_assistant_message")),)
        case "Interrupt":
            return (Active(agent=agent),)  # the person took the turn back
        case "SessionEnd":
            return (Closed(reason=word(payload, "reason")),)
    return ()


def _opened(source: str | None) -> Opened:
    match source:
        case "resume" | "clear" | "compact" | "fork":
            return Opened(how=source)
    return Opened()


def _type(payload: Payload) -> str:
    return word(payload, "agent_type") or DEFAULT_TYPE


def _asked_for(payload: Payload) -> str | None:
    given = payload.get("tool_input")
    given = given if type(given) is dict else {}
    return word(given, "description") or command_of(given) or word(payload, "tool_name")


def _chosen(payload: Payload) -> tuple[AnySignal, ...]:
    """The conversation's model and permission mode; those of a subagent are its own affair."""
    model, permission = word(payload, "model"), word(payload, "permission_mode")
    if (model is None and permission is None) or word(payload, "agent_id"):
        return ()
    return (Chosen(model=model, permission=permission),)


def _mark(event: str, payload: Payload) -> str:
    """What makes it this one event; for all others the payload as a whole does, as one turn can have many."""
    turn = word(payload, "turn_id") or ""
    name = word(payload, {"SubagentStart": "agent_id", "SubagentStop": "agent_id"}.get(event, "tool_use_id"))
    return f"{event}:{turn[:200]}:{name[:200]}" if name else ""


AGENT: Final = Codex()
