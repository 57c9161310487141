"""Copilot's hooks and tools, under its own names and under those of Claude Code, whose dialect it can use.

Inputs differ only by the tool's name; results are text for the model.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Final, Literal

from holdfast.conversations.adapters.base import HookAnswer, HookEvent, Payload, Reply
from holdfast.conversations.adapters.clean_text import reply_json
from holdfast.conversations.adapters.errors import classify
from holdfast.conversations.adapters.fields import (
    MAX_ID_LENGTH,
    get_conversation,
    get_object,
    get_text,
    parse_timestamp,
    unknown_fields,
)
from holdfast.conversations.adapters.tools import (
    Table,
    active,
    deletes,
    edits,
    patches,
    plans,
    runs,
    signals_of,
    waits_for_input,
    writes,
)
from holdfast.conversations.signals import (
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
from holdfast.core.agent_programs import AGENT_PROGRAMS, resume_command
from holdfast.core.canonical import Json

AFTER: Final[Table] = {
    "create": writes,
    "Write": writes,
    "edit": edits,
    "Edit": edits,
    "MultiEdit": edits,
    "delete": deletes,
    "apply_patch": patches,
    "update_todo": plans,
    "bash": runs,
    "Bash": runs,
    "powershell": runs,
    "PowerShell": runs,
    # Subagents have events of their own.
    "task": active,
    "Agent": active,
    "Task": active,
}
BEFORE: Final[Table] = {"ask_user": waits_for_input, "AskUserQuestion": waits_for_input}
AGENTS: Final = frozenset({"task", "Agent", "Task"})
_WRITES: Final = frozenset({"create", "Write"})
_SHELLS: Final = frozenset({"bash", "Bash", "powershell", "PowerShell"})
# At the end of a command's output.
_EXIT_CODE: Final = re.compile(r"exit(?:ed with)? (?:exit )?code:? (\d{1,10})>?\s*\Z")


def outcome(tool: str, text: str | None) -> Json:
    """The result of a call, in the fields that the meanings know."""
    if tool in _WRITES:
        return {"type": "create"}  # it refuses to write over a file
    if tool in _SHELLS:
        code = _EXIT_CODE.search((text or "")[-200:])
        return {"exitCode": int(code[1])} if code else {}
    return {}


# Its own names of events, and Claude Code's, which are used here.
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
_OCCASIONS: Final = AGENT_PROGRAMS["copilot"].occasions
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
    room = 9_500
    notifies = False

    def parse(self, payload: Payload) -> HookEvent | None:
        own = get_conversation(payload, "session_id", "sessionId")
        if own is None:
            return None
        agent = get_text(payload, "agent_id", "agentId")
        conversation = _conversation(payload, own, agent)
        event = event_of(payload)
        known = event in _EVENTS
        return HookEvent(
            agent=self.name,
            conversation=conversation,
            event=event,
            signals=_signals(event, payload, agent) if known else (),
            cwd=get_text(payload, "cwd"),
            mark=_mark(event, payload, own),
            # A subagent's prompts are not answered.
            occasion=None if agent else _OCCASIONS.get(event),
            resume=resume_command(self.name, conversation),
            rest=unknown_fields(payload, _KNOWN if known else frozenset({"session_id", "sessionId", "cwd"})),
        )

    def reply(self, answer: HookAnswer, event: str) -> Reply:
        if event not in _OCCASIONS:
            return Reply()
        if answer.block and event == "UserPromptSubmit":
            return Reply(reply_json({"decision": "block", "reason": answer.block}))
        # Only the agent can pass a message on to the person.
        context = "\n\n".join(text for text in (answer.context, answer.say) if text)
        return Reply(reply_json({"additionalContext": context}))


def event_of(payload: Payload) -> str:
    """The event, under Claude Code's name; recognised by its fields where it has none."""
    name = get_text(payload, "hook_event_name", "hookName")
    if name is not None:
        return NAMES.get(name, name)[:MAX_ID_LENGTH]
    fields = payload.keys()
    tool = bool(fields & {"toolName", "tool_name"})
    for event, matches in (
        ("PostToolUse", bool(fields & {"toolResult", "tool_result"})),
        ("PostToolUseFailure", tool and "error" in fields),
        ("PermissionRequest", bool(fields & {"permissionSuggestions", "permission_suggestions"})),
        ("PreToolUse", tool),
        ("UserPromptTransformed", bool(fields & {"transformedPrompt", "transformed_prompt"})),
        ("UserPromptSubmit", "prompt" in fields),
        ("SubagentStop", bool(fields & {"agentName", "agent_name"} and fields & {"stopReason", "stop_reason"})),
        ("SubagentStart", bool(fields & {"agentName", "agent_name"})),
        ("Stop", bool(fields & {"stopReason", "stop_reason"})),
        ("SessionStart", "source" in fields),
        ("PreCompact", "trigger" in fields),
        ("Notification", bool(fields & {"notification_type", "notificationType"})),
        ("ErrorOccurred", "error" in fields),
        ("SessionEnd", "reason" in fields),
    ):
        if matches:
            return event
    return ""


def _conversation(payload: Payload, own: str, agent: str | None) -> str:
    """The conversation: events of a subagent have its own id, and that of the conversation in another field."""
    if agent is None or agent != own:
        return own
    path = get_text(payload, "transcript_path", "transcriptPath")
    match = _TRANSCRIPT.search(path) if path else None
    parent = match[1] if match else get_text(payload, "parent_agent_id", "parentAgentId")
    return parent if parent is not None and len(parent) <= MAX_ID_LENGTH and parent.isprintable() else own


def _signals(event: str, payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    # Requests for permission come before anybody is asked, even where everything is allowed: they are no waiting.
    match event:
        case "SessionStart":
            return (Opened(how="resume" if payload.get("source") == "resume" else "startup"),)
        case "UserPromptSubmit":
            return _prompted(payload, agent)
        case "PreToolUse" | "PostToolUse" | "PostToolUseFailure":
            return _tool(event, payload, agent)
        case "Notification":
            waits_for = _WAITING.get(get_text(payload, "notification_type", "notificationType") or "")
            return (Waits(agent=agent, what=waits_for, text=get_text(payload, "message")),) if waits_for else ()
        case "SubagentStop":
            if agent is None:
                return (Active(),)
            summary = get_text(payload, "last_assistant_message", "response")
            return (AgentEnded(agent=agent, type=_type(payload), summary=summary),)
        case "Stop":
            return (Active(agent=agent),) if agent else (Replied(text=get_text(payload, "last_assistant_message")),)
        case "PreCompact":
            return (Compacting(agent=agent),)
        case "ErrorOccurred":
            return _failed(payload, agent)
        case "SessionEnd":
            return () if agent else _closed(payload)
    return (Active(agent=agent),)


def _closed(payload: Payload) -> tuple[AnySignal, ...]:
    closed = Closed(reason=get_text(payload, "reason"))
    if closed.reason != "error":
        return (closed,)
    return classify(None, _inner_message(get_text(payload, "error")) or "the turn ended with an error"), closed


def _prompted(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    text = get_text(payload, "prompt") or ""
    if agent is None:
        return (Prompted(text=text),)
    # Its beginning has only its type; its prompt has its task.
    return (AgentBegan(agent=agent, type=_type(payload), task=text or None),)


def _tool(event: str, payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    tool = get_text(payload, "tool_name", "toolName") or ""
    arguments = payload.get("tool_input", payload.get("toolArgs"))
    if type(arguments) is str and arguments.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
    result = get_object(payload, "tool_result", "toolResult")
    text = get_text(result, "text_result_for_llm", "textResultForLlm")
    kind = get_text(result, "result_type", "resultType")
    failed = None
    if event == "PostToolUseFailure":
        failed = (
            get_text(payload, "error")
            or get_text(get_object(payload, "error"), "message")
            or "it failed without a message"
        )
    elif kind in ("failure", "denied", "rejected"):
        failed = text or f"it was {kind}"
    table = BEFORE if event == "PreToolUse" else AFTER
    return signals_of(tool, arguments, outcome(tool, text), agent=agent, failed=failed, table=table)


def _failed(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    error = get_object(payload, "error")
    kind, message = get_text(error, "name"), get_text(payload, "error") or get_text(error, "message")
    signal = classify(None if kind == "Error" else kind, _inner_message(message), agent=agent)
    # A failed tool has an event of its own, and what Copilot tries again by itself is no failure yet, except a limit.
    of_tool = get_text(payload, "errorContext", "error_context") == "tool_execution"
    is_retried = payload.get("recoverable") is True and type(signal) is not Limited
    return (Active(agent=agent),) if of_tool or is_retried else (signal,)


def _inner_message(text: str | None) -> str | None:
    """The message in the answer of a service, where that is JSON."""
    if text is not None and text.startswith("{"):
        with suppress(ValueError, RecursionError):
            answer = json.loads(text[:100_000])
            return get_text(answer if type(answer) is dict else {}, "message") or text
    return text


def _type(payload: Payload) -> str:
    return get_text(payload, "agent_type", "agentType", "agent_name", "agentName") or "agent"


def _mark(event: str, payload: Payload, own: str) -> str:
    """When it happened, to the millisecond, and to whom: the same in both dialects."""
    written = payload.get("timestamp")
    at = parse_timestamp(written) if type(written) is str else written
    return f"{event}:{own}:{at}" if type(at) is int else ""


AGENT: Final = Copilot()
