"""The hooks of Gemini CLI: events of its own names around each turn, request and tool call, with one time for all who
hear the same event. A subagent's tool calls come as those of the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.capture.fitting import fitted
from holdfast.capture.interface import Answer, Heard, Occasion, Payload, Reply
from holdfast.capture.payload import conversation_of, number, part, rest, word
from holdfast.capture.signals import (
    Active,
    AnySignal,
    Chosen,
    Closed,
    Compacting,
    Measured,
    Opened,
    Prompted,
    Replied,
    Waits,
)

LONGEST_CONTEXT: Final = 8_500  # characters, as they are written
LONGEST_WORD: Final = 1_000
_HOOKS_WORDS: Final = r"(?s)<hook_context>.*?</hook_context>"
_ADDRESS: Final = frozenset({"session_id", "transcript_path", "cwd"})
# Written to all hooks alike.
_EVERYWHERE: Final = _ADDRESS | {"hook_event_name", "timestamp"}
_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")


def resume(conversation: str) -> str | None:
    """The command that reopens a conversation; None for an id no command line should hold."""
    return f"gemini --resume {conversation}" if _PLAIN_ID.match(conversation) else None


def asked(prompt: str) -> str:
    """A prompt as the person typed it, without the answers of hooks that the program puts around it."""
    return re.sub(_HOOKS_WORDS, "", prompt).strip() if "<hook_context>" in prompt else prompt


def _opened(payload: Payload) -> tuple[AnySignal, ...]:
    source = word(payload, "source")
    return (Opened(how="resume" if source == "resume" else "clear" if source == "clear" else "startup"),)


def _closed(payload: Payload) -> tuple[AnySignal, ...]:
    return (Closed(reason=word(payload, "reason")),)


def _prompted(payload: Payload) -> tuple[AnySignal, ...]:
    return (Prompted(text=asked(word(payload, "prompt") or "")),)


def _replied(payload: Payload) -> tuple[AnySignal, ...]:
    return (Replied(text=word(payload, "prompt_response")),)


def _asks_model(payload: Payload) -> tuple[AnySignal, ...]:
    model = word(part(payload, "llm_request"), "model")
    return (Active(),) if model is None else (Active(), Chosen(model=model))


def _model_said(payload: Payload) -> tuple[AnySignal, ...]:
    """A piece of an answer; what it has used stands in the last one."""
    tokens = number(part(part(payload, "llm_response"), "usageMetadata"), "promptTokenCount")
    return (*_asks_model(payload), *(() if tokens is None else (Measured(tokens=tokens),)))


def _before_tool(payload: Payload) -> tuple[AnySignal, ...]:
    from holdfast.capture.gemini.tooling import BEFORE
    from holdfast.capture.tools import signals_of

    return signals_of(word(payload, "tool_name") or "", payload.get("tool_input"), table=BEFORE)


def _after_tool(payload: Payload) -> tuple[AnySignal, ...]:
    from holdfast.capture.gemini.tooling import AFTER, failure
    from holdfast.capture.tools import signals_of

    tool, given = word(payload, "tool_name") or "", payload.get("tool_input")
    response = part(payload, "tool_response")
    return signals_of(tool, given, dict(response), failed=failure(response), table=AFTER)


def _compacting(payload: Payload) -> tuple[AnySignal, ...]:
    """Told before every request, whether or not anything is to be compressed: only by `/compress` is it sure."""
    return (Compacting(),) if payload.get("trigger") == "manual" else ()


def _notified(payload: Payload) -> tuple[AnySignal, ...]:
    if payload.get("notification_type") != "ToolPermission":
        return (Active(),)
    details = part(payload, "details")
    said = word(details, "title") or word(payload, "message")
    return (Waits(what="input" if details.get("type") == "ask_user" else "permission", text=said),)


class _Event(msgspec.Struct, frozen=True):
    meaning: Callable[[Payload], tuple[AnySignal, ...]]
    fields: frozenset[str] = frozenset()
    occasion: Occasion | None = None


_TOOL: Final = frozenset({"tool_name", "tool_input", "tool_response", "mcp_context", "original_request_name"})
_MODEL: Final = frozenset({"llm_request", "llm_response"})
_EVENTS: Final[dict[str, _Event]] = {
    "SessionStart": _Event(_opened, frozenset({"source"}), "start"),
    "SessionEnd": _Event(_closed, frozenset({"reason"})),
    "BeforeAgent": _Event(_prompted, frozenset({"prompt"}), "prompt"),
    "AfterAgent": _Event(_replied, frozenset({"prompt", "prompt_response", "stop_hook_active"})),
    "BeforeModel": _Event(_asks_model, _MODEL),
    "BeforeToolSelection": _Event(_asks_model, _MODEL),
    "AfterModel": _Event(_model_said, _MODEL),
    "BeforeTool": _Event(_before_tool, _TOOL),
    "AfterTool": _Event(_after_tool, _TOOL),
    "PreCompress": _Event(_compacting, frozenset({"trigger"}), "compact"),
    "Notification": _Event(_notified, frozenset({"notification_type", "message", "details"})),
}


class Gemini:
    name = "gemini"
    title = "Gemini CLI"
    room = 9_500
    notifies = False
    asking = frozenset(name for name, event in _EVENTS.items() if event.occasion is not None)

    def heard(self, payload: Payload) -> Heard | None:
        conversation = conversation_of(payload, "session_id")
        if conversation is None:
            return None
        name = word(payload, "hook_event_name") or ""
        event = _EVENTS.get(name)
        known = _ADDRESS if event is None else _EVERYWHERE | event.fields
        signals = () if event is None else event.meaning(payload)
        return Heard(
            agent=self.name,
            conversation=conversation,
            event=name,
            signals=signals,
            cwd=word(payload, "cwd"),
            occasion=event.occasion if event is not None and signals else None,
            resume=resume(conversation),
            rest=rest(payload, known),
        )

    def reply(self, answer: Answer, event: str) -> Reply:
        known = _EVENTS.get(event)
        if known is None or known.occasion is None:
            return Reply()
        if answer.block and known.occasion == "prompt":
            # A message beside it would be shown in place of the reason.
            return Reply(fitted({"decision": "deny", "reason": answer.block}, longest=LONGEST_WORD))
        said = []
        if answer.context and known.occasion != "compact":
            facts = fitted({"hookEventName": event, "additionalContext": answer.context}, longest=LONGEST_CONTEXT)
            said.append(f'"hookSpecificOutput":{facts}')
        if word_to_person := fitted({"systemMessage": answer.say}, longest=LONGEST_WORD):
            said.append(word_to_person[1:-1])
        return Reply(f"{{{','.join(said)}}}") if said else Reply()


AGENT: Final = Gemini()
