"""What Copilot's hooks say, in both of its dialects: Claude Code's, for events named as Claude Code names them, and
its own in camelCase, in which most events do not say what they are and are known by their fields.

It also runs the hooks it finds in a repository's `.claude/settings.json`: the same event then comes twice, field by
field the same, and bears the same mark.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from shlex import quote
from typing import Final, Literal

from holdfast.capture.copilot.meanings import AFTER, BEFORE, outcome
from holdfast.capture.fitting import fitted
from holdfast.capture.interface import Answer, Heard, Occasion, Payload, Reply
from holdfast.capture.moments import moment
from holdfast.capture.payload import LONGEST_ID, conversation_of, part, rest, word
from holdfast.capture.signals import (
    Active,
    AgentBegan,
    AgentEnded,
    AnySignal,
    Closed,
    Compacting,
    Limited,
    Opened,
    Prompted,
    Replied,
    Waits,
)
from holdfast.capture.tools import signals_of
from holdfast.capture.troubles import trouble

# Its own names beside Claude Code's; those are what events go by here.
NAMES: Final[dict[str, str]] = {
    "sessionStart": "SessionStart",
    "sessionEnd": "SessionEnd",
    "userPromptSubmitted": "UserPromptSubmit",
    "userPromptTransformed": "UserPromptTransformed",
    "preToolUse": "PreToolUse",
    "postToolUse": "PostToolUse",
    "postToolUseFailure": "PostToolUseFailure",
    "permissionRequest": "PermissionRequest",
    "agentStop": "Stop",
    "subagentStart": "SubagentStart",
    "subagentStop": "SubagentStop",
    "preCompact": "PreCompact",
    "notification": "Notification",
    "errorOccurred": "ErrorOccurred",
}
_EVENTS: Final = frozenset(NAMES.values())
_OCCASIONS: Final[dict[str, Occasion]] = {"SessionStart": "start", "UserPromptSubmit": "prompt"}
_WAITING: Final[dict[str, Literal["permission", "input"]]] = {
    "permission_prompt": "permission",
    "elicitation_dialog": "input",
    "agent_idle": "input",
    "idle_prompt": "input",
}
_KNOWN: Final = frozenset(
    {"session_id", "sessionId", "hook_event_name", "hookName", "timestamp", "cwd", "transcript_path",
     "transcriptPath", "agent_id", "agentId", "agent_type", "agentType", "agent_name", "agentName",
     "agent_display_name", "agentDisplayName", "agent_description", "agentDescription", "parent_agent_id",
     "parentAgentId", "source", "initial_prompt", "initialPrompt", "prompt", "transformed_prompt",
     "transformedPrompt", "tool_name", "toolName", "tool_input", "toolInput", "toolArgs", "tool_result",
     "toolResult", "error", "errorContext", "error_context", "recoverable", "permission_suggestions",
     "permissionSuggestions", "stop_reason", "stopReason", "stop_hook_active", "response",
     "last_assistant_message", "trigger", "custom_instructions", "customInstructions", "message", "title",
     "notification_type", "notificationType", "reason", "finalMessage", "final_message", "traceparent",
     "tracestate"}
)  # fmt: skip
_TRANSCRIPT: Final = re.compile(r"[/\\]session-state[/\\]([^/\\]+)[/\\]events\.jsonl\Z")


class Copilot:
    name = "copilot"
    title = "Copilot CLI"
    room = 9_500
    notifies = False
    # What a hook says before a compression is not listened to.
    asking = frozenset(_OCCASIONS)

    def heard(self, payload: Payload) -> Heard | None:
        own = conversation_of(payload, "session_id", "sessionId")
        if own is None:
            return None
        agent = word(payload, "agent_id", "agentId")
        conversation = _conversation(payload, own, agent)
        event = event_of(payload)
        known = event in _EVENTS
        return Heard(
            agent=self.name,
            conversation=conversation,
            event=event,
            signals=_signals(event, payload, agent) if known else (),
            cwd=word(payload, "cwd"),
            mark=_mark(event, payload, own),
            # A subagent's prompts are nobody's to answer.
            occasion=None if agent else _OCCASIONS.get(event),
            resume=resume(conversation),
            rest=rest(payload, _KNOWN if known else frozenset({"session_id", "sessionId", "cwd"})),
        )

    def reply(self, answer: Answer, event: str) -> Reply:
        if event not in self.asking:
            return Reply()
        if answer.block and event == "UserPromptSubmit":
            return Reply(fitted({"decision": "block", "reason": answer.block}))
        # There is no way to the person past the agent.
        said = "\n\n".join(one for one in (answer.context, answer.say) if one)
        return Reply(fitted({"additionalContext": said}))


def resume(conversation: str) -> str | None:
    """The command that reopens a conversation; none where its id could be taken for an option."""
    return None if conversation.startswith("-") else f"copilot --resume={quote(conversation)}"


def event_of(payload: Payload) -> str:
    """The event, by Claude Code's name for it; by its fields where it does not say."""
    name = word(payload, "hook_event_name", "hookName")
    if name is not None:
        return NAMES.get(name, name)[:LONGEST_ID]
    told = payload.keys()
    tool = bool(told & {"toolName", "tool_name"})
    for meant, found in (
        ("PostToolUse", bool(told & {"toolResult", "tool_result"})),
        ("PostToolUseFailure", tool and "error" in told),
        ("PermissionRequest", bool(told & {"permissionSuggestions", "permission_suggestions"})),
        ("PreToolUse", tool),
        ("UserPromptTransformed", bool(told & {"transformedPrompt", "transformed_prompt"})),
        ("UserPromptSubmit", "prompt" in told),
        ("SubagentStop", bool(told & {"agentName", "agent_name"} and told & {"stopReason", "stop_reason"})),
        ("SubagentStart", bool(told & {"agentName", "agent_name"})),
        ("Stop", bool(told & {"stopReason", "stop_reason"})),
        ("SessionStart", "source" in told),
        ("PreCompact", "trigger" in told),
        ("Notification", bool(told & {"notification_type", "notificationType"})),
        ("ErrorOccurred", "error" in told),
        ("SessionEnd", "reason" in told),
    ):
        if found:
            return meant
    return ""


def _conversation(payload: Payload, own: str, agent: str | None) -> str:
    """What a subagent does comes under its own id; where it belongs stands beside it."""
    if agent is None or agent != own:
        return own
    path = word(payload, "transcript_path", "transcriptPath")
    told = _TRANSCRIPT.search(path) if path else None
    above = told[1] if told else word(payload, "parent_agent_id", "parentAgentId")
    return above if above is not None and len(above) <= LONGEST_ID and above.isprintable() else own


def _signals(event: str, payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    # A request for permission is told before anybody is asked, even where everything is allowed: no sign of waiting.
    match event:
        case "SessionStart":
            return (Opened(how="resume" if payload.get("source") == "resume" else "startup"),)
        case "UserPromptSubmit":
            return _prompted(payload, agent)
        case "PreToolUse" | "PostToolUse" | "PostToolUseFailure":
            return _tool(event, payload, agent)
        case "Notification":
            what = _WAITING.get(word(payload, "notification_type", "notificationType") or "")
            return (Waits(agent=agent, what=what, text=word(payload, "message")),) if what else ()
        case "SubagentStop":
            if agent is None:
                return (Active(),)
            said = word(payload, "last_assistant_message", "response")
            return (AgentEnded(agent=agent, type=_type(payload), summary=said),)
        case "Stop":
            return (Active(agent=agent),) if agent else (Replied(text=word(payload, "last_assistant_message")),)
        case "PreCompact":
            return (Compacting(agent=agent),)
        case "ErrorOccurred":
            return _failed(payload, agent)
        case "SessionEnd":
            return () if agent else _closed(payload)
    return (Active(agent=agent),)


def _closed(payload: Payload) -> tuple[AnySignal, ...]:
    closed = Closed(reason=word(payload, "reason"))
    if closed.reason != "error":
        return (closed,)
    return trouble(None, _inner(word(payload, "error")) or "the turn ended with an error"), closed


def _prompted(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    text = word(payload, "prompt") or ""
    if agent is None:
        return (Prompted(text=text),)
    # Its beginning says what kind of agent it is; only its prompt says what it is to do.
    return (AgentBegan(agent=agent, type=_type(payload), task=text or None),)


def _tool(event: str, payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    tool = word(payload, "tool_name", "toolName") or ""
    given = payload.get("tool_input", payload.get("toolArgs"))
    if type(given) is str and given.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            given = json.loads(given)
    result = part(payload, "tool_result", "toolResult")
    said = word(result, "text_result_for_llm", "textResultForLlm")
    kind = word(result, "result_type", "resultType")
    failed = None
    if event == "PostToolUseFailure":
        failed = word(payload, "error") or word(part(payload, "error"), "message") or "it failed without a message"
    elif kind in ("failure", "denied", "rejected"):
        failed = said or f"it was {kind}"
    table = BEFORE if event == "PreToolUse" else AFTER
    return signals_of(tool, given, outcome(tool, said), agent=agent, failed=failed, table=table)


def _failed(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    error = part(payload, "error")
    kind, said = word(error, "name"), word(payload, "error") or word(error, "message")
    met = trouble(None if kind == "Error" else kind, _inner(said), agent=agent)
    # A failed tool is told by the tool, and what Copilot tries again by itself is none yet, but for a limit.
    of_tool = word(payload, "errorContext", "error_context") == "tool_execution"
    again = payload.get("recoverable") is True and type(met) is not Limited
    return (Active(agent=agent),) if of_tool or again else (met,)


def _inner(said: str | None) -> str | None:
    """The sentence in what a service answered, where that is JSON."""
    if said is not None and said.startswith("{"):
        with suppress(ValueError, RecursionError):
            told = json.loads(said[:100_000])
            return word(told if type(told) is dict else {}, "message") or said
    return said


def _type(payload: Payload) -> str:
    return word(payload, "agent_type", "agentType", "agent_name", "agentName") or "agent"


def _mark(event: str, payload: Payload, own: str) -> str:
    """When it happened, to the millisecond, and to whom: the same in both dialects."""
    written = payload.get("timestamp")
    at = moment(written) if type(written) is str else written
    return f"{event}:{own}:{at}" if type(at) is int else ""


AGENT: Final = Copilot()
