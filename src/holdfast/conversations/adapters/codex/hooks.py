"""What Codex's tools mean: the names its hooks and its rollouts give them, and how it says what came of a call.

Its hooks hand the shell over as `Bash` and put the name of a namespace before a tool's own without anything between
(`collaborationspawn_agent`); rollouts keep both apart and know every name the shell ever had.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

import msgspec

from holdfast.conversations.adapters.base import HookAnswer, HookEvent, Occasion, Payload, Reply
from holdfast.conversations.adapters.fields import conversation_of, rest, word
from holdfast.conversations.adapters.tools import (
    Table,
    ToolCall,
    active,
    command_of,
    patches,
    plans,
    runs,
    signals_of,
    waits_for_input,
)
from holdfast.conversations.hooks.reply_text import clean, written
from holdfast.conversations.signals import (
    Active,
    AgentBegan,
    AgentEnded,
    AnySignal,
    Called,
    Chosen,
    Closed,
    Compacted,
    Compacting,
    Opened,
    Prompted,
    Ran,
    Replied,
    Waits,
)
from holdfast.core.canonical import Json

DEFAULT_TYPE: Final = "default"  # what it calls an agent without a role
_NAMESPACES: Final = ("collaboration", "functions")
_CODE: Final = re.compile(r"(?:Exit code:|Process exited with code) (-?\d{1,10})\b")
_SECONDS: Final = re.compile(r"Wall time: (\d{1,7}(?:\.\d{1,6})?) seconds")


def ran(call: ToolCall) -> tuple[AnySignal, ...]:
    """A shell command. Hooks hand over what it printed and not how it ended: without a word on that, nobody knows."""
    found = runs(call)
    if call.failed is not None or call.result:
        return found
    return tuple(msgspec.structs.replace(match, code=None) if isinstance(match, Ran) else match for match in found)


def calls_agent(call: ToolCall) -> tuple[AnySignal, ...]:
    """Before a subagent. The message to it may be encrypted; its name is not, and says in a word what it is for."""
    if call.id is None:
        return active(call)
    task = word(call.input, "task_name", "message", "prompt")
    return (Called(agent=call.agent, call=call.id, type=_subagent_type(call), task=task, background=True),)


def called_agent(call: ToolCall) -> tuple[AnySignal, ...]:
    """After the call a subagent goes on by itself. Some versions say here by which id."""
    said = call.result or _object(call.text)
    name = word(said, "agent_id", "thread_id")
    if name is None or call.failed is not None:
        return active(call)
    task = word(call.input, "task_name", "message", "prompt")
    return (AgentBegan(agent=name, type=_subagent_type(call), task=task, background=True),)


def _subagent_type(call: ToolCall) -> str:
    return word(call.input, "agent_type", "agent_role") or DEFAULT_TYPE


def _object(text: str | None) -> dict[str, Json]:
    if text is None or not text.startswith("{") or len(text) > 4_096:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if type(value) is dict else {}


BEFORE: Final[Table] = {
    "spawn_agent": calls_agent,
    "request_user_input": waits_for_input,
    "request_user_input_async": waits_for_input,
}
AFTER: Final[Table] = {
    "Bash": ran,
    "shell": ran,
    "shell_command": ran,
    "local_shell": ran,
    "exec_command": ran,
    "container.exec": ran,
    "apply_patch": patches,
    "update_plan": plans,
    "spawn_agent": called_agent,
}


def plain_name(tool: str) -> str:
    """A tool's own name, without the namespace that is glued to it."""
    for space in _NAMESPACES:
        rest = tool.removeprefix(space).lstrip("._")
        if rest != tool and (rest in AFTER or rest in BEFORE):
            return rest
    return tool


class CodexOutcome(NamedTuple):
    """What a call came to, as far as its output says: most calls say it in words for the model."""

    response: Json
    failed: str | None = None
    took_ms: int | None = None


def outcome(response: Json) -> CodexOutcome:
    """How a call ended, read from the first lines of its output."""
    if type(response) is not str:
        return CodexOutcome(response)
    head = response[:200]
    code = _CODE.search(head)
    seconds = _SECONDS.search(head)
    took = round(float(seconds[1]) * 1000) if seconds else None
    if code is None:
        return CodexOutcome(response, took_ms=took or None)
    number = abs(int(code[1]))
    said = response.partition("Output:\n")[2][:500].strip()
    failed = f"exit code {number}: {said}" if number else None
    return CodexOutcome({"exit_code": number, "output": response}, failed, took or None)


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

    def parse(self, payload: Payload) -> HookEvent | None:
        conversation = conversation_of(payload, "session_id")
        if conversation is None:
            return None
        event = word(payload, "hook_event_name") or ""
        if event not in EVENTS:
            return HookEvent(
                agent=self.name, conversation=conversation, event=event, cwd=word(payload, "cwd"),
                resume=resume(conversation), rest=rest(payload, ()),
            )  # fmt: skip
        return HookEvent(
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

    def reply(self, answer: HookAnswer, event: str) -> Reply:
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
