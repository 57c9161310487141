"""How Goose's hooks speak: the events of "Open Plugins" with names of their own for half of the fields.

Goose only tells. The one answer it shows is a banner as a session starts, to the person; nothing a hook prints
reaches the model, and a prompt cannot be held back. Subagents run without hooks.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.capture.fitting import clean, written
from holdfast.capture.goose.meanings import AFTER, BEFORE
from holdfast.capture.interface import Answer, Heard, Occasion, Payload, Reply
from holdfast.capture.payload import conversation_of, rest, word
from holdfast.capture.signals import Active, AnySignal, Closed, Opened, Prompted, Replied
from holdfast.capture.tools import signals_of

LONGEST: Final = 8_000
# A prompt takes no answer, but a reminder may be due that reaches the person outside of the terminal.
_OCCASIONS: Final[dict[str, Occasion]] = {"SessionStart": "start", "UserPromptSubmit": "prompt"}
# Told besides the events of the tool itself: only a sign of activity.
_BESIDE: Final = frozenset({"BeforeReadFile", "AfterFileEdit", "BeforeShellExecution", "AfterShellExecution"})
_TOOL: Final = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure"})
_EVENTS: Final = frozenset({*_OCCASIONS, *_BESIDE, *_TOOL, "Stop", "SessionEnd"})
_KNOWN: Final = frozenset(
    {"event", "hook_event_name", "session_id", "matcher_context", "tool_call_id", "tool_name", "tool_input",
     "tool_output", "tool_response", "message", "prompt", "last_assistant_message", "working_dir", "cwd", "reason"}
)  # fmt: skip


class Goose:
    name = "goose"
    title = "Goose"
    room = 9_500
    notifies = False
    asking = frozenset(_OCCASIONS)

    def heard(self, payload: Payload) -> Heard | None:
        conversation = conversation_of(payload, "session_id")
        if conversation is None:
            return None
        event = word(payload, "event", "hook_event_name") or ""
        known = event in _EVENTS
        call = word(payload, "tool_call_id") if event in _TOOL else None
        return Heard(
            agent=self.name,
            conversation=conversation,
            event=event,
            signals=_signals(event, payload) if known else (),
            cwd=word(payload, "working_dir", "cwd"),
            mark=f"{event}:{call[:200]}" if call else "",
            occasion=_OCCASIONS.get(event),
            resume=resume(conversation),
            rest=rest(payload, _KNOWN if known else ()),
        )

    def reply(self, answer: Answer, event: str) -> Reply:
        said = "\n\n".join(text for text in (clean(answer.say), clean(answer.context)) if text)
        if not said or event != "SessionStart":
            return Reply()
        return Reply(msgspec.json.encode({"banner": written(said, LONGEST)}).decode())


def resume(conversation: str) -> str | None:
    """The command that reopens a conversation. It is shown to be typed: nothing a shell would take apart."""
    fit = conversation.isascii() and conversation.replace("-", "").replace("_", "").isalnum()
    return f"goose session --resume --session-id {conversation}" if fit and conversation[0] != "-" else None


def _signals(event: str, payload: Payload) -> tuple[AnySignal, ...]:
    match event:
        case "SessionStart":
            return (Opened(),)
        case "UserPromptSubmit":
            return (Prompted(text=word(payload, "message", "prompt") or ""),)
        case "PreToolUse":
            return signals_of(
                word(payload, "tool_name") or "", payload.get("tool_input"),
                call=word(payload, "tool_call_id"), table=BEFORE,
            )  # fmt: skip
        case "PostToolUse" | "PostToolUseFailure":
            why = word(payload, "tool_output", "tool_response", "reason") or "failed"
            failed = None if event == "PostToolUse" else why
            response = payload.get("tool_output", payload.get("tool_response"))
            return signals_of(
                word(payload, "tool_name") or "", payload.get("tool_input"), response,
                call=word(payload, "tool_call_id"), failed=failed, table=AFTER,
            )  # fmt: skip
        case "Stop":
            return (Replied(text=word(payload, "last_assistant_message")),)
        case "SessionEnd":
            return (Closed(reason=word(payload, "reason")),)
    return (Active(),)


AGENT: Final = Goose()
