"""Claude Code's hooks and the input of its status line: what they say, and how the hooks are answered.

One table has the events: their known fields and what these mean. The same dialect comes from Copilot, which reads
Claude Code's settings and runs the hooks in them; its conversations are recognised by their paths.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from holdfast.conversations.adapters.base import Adapter, HookAnswer, HookEvent, Payload, Reply
from holdfast.conversations.adapters.clean_text import cut, without_controls
from holdfast.conversations.adapters.fields import (
    MAX_ID_LENGTH,
    get_conversation,
    get_flag,
    get_float,
    get_int,
    get_object,
    get_text,
    unknown_fields,
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
    Measured,
    Opened,
    Planned,
    Prompted,
    Replied,
    Todo,
    Waits,
)
from holdfast.core.agent_programs import AGENT_PROGRAMS, resume_command
from holdfast.core.canonical import Json, digest

STATUS_EVENT: Final = "Status"
MAX_REPLY_LENGTH: Final = 9_900  # characters; from 10,000 on Claude Code puts it into a file and shows a beginning

_HOW_OPENED: Final[dict[str, Literal["startup", "resume", "clear", "compact", "fork"]]] = {
    "startup": "startup",
    "resume": "resume",
    "clear": "clear",
    "compact": "compact",
    "fork": "fork",
}
_WAITING: Final[dict[str, Literal["permission", "input"]]] = {
    "permission_prompt": "permission",
    "idle_prompt": "input",
    "agent_needs_input": "input",
    "elicitation_dialog": "input",
}
# Prompts that the program gives itself name no author; they begin with one of these.
_PROGRAM_PROMPTS: Final = ("<task-notification>", "<system-reminder>", "<teammate-message")
_AGENT_NOTICE: Final = (
    r"(?s)\A\s*(?:<system-reminder>[^<]{0,1000})?<task-notification>\s*<task-id>([^<]{1,200})</task-id>"
    r".*<subagent_tokens>(\d{1,12})</subagent_tokens>"
)
_AGENT_RESULT: Final = r"<status>\s*([a-z_]{1,20})\s*</status>(?:\s*<summary>([^<]{1,500}))?"
_MAX_LIMITS: Final = 10
_STOPPED: Final = frozenset({"killed", "stopped"})

_Interpret = Callable[[Payload, str | None], tuple[AnySignal, ...]]


def _silent(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:  # noqa: ARG001 - the table's signature
    """No signals: neither the agent nor the person did anything."""
    return ()


def _active(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:  # noqa: ARG001 - the table's signature
    return (Active(agent=agent),)


def _opened(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    signals: list[AnySignal] = [
        Opened(
            agent=agent,
            how=_HOW_OPENED.get(get_text(payload, "source") or "", "startup"),
            title=get_text(payload, "session_title"),
        )
    ]
    if model := get_text(payload, "model"):
        signals.append(Chosen(model=model))
    return (*signals, *_measured(payload, agent))


def _measured(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    """The tokens that the next request sends again. Before the first answer it is zero, and means nothing."""
    tokens = get_int(payload, "context_tokens")
    return (Measured(agent=agent, tokens=tokens),) if tokens else ()


def _prompted(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    text = get_text(payload, "prompt") or ""
    own = text.lstrip()[:40].startswith(_PROGRAM_PROMPTS)
    person = get_text(payload, "source") in (None, "user") and not own
    prompted = Prompted(agent=agent, text=text, person=person)
    notice = re.search(_AGENT_NOTICE, text[:100_000]) if own else None
    # Nothing else says what a subagent in the background has used.
    return (prompted, _background_agent_ended(notice)) if notice else (prompted,)


def _background_agent_ended(notice: re.Match[str]) -> AgentEnded:
    result = re.search(_AGENT_RESULT, notice[0].partition("<result>")[0])
    status = result[1] if result else "completed"
    reason = (result[2] if result else None) or f"it ended with status {status}"
    stopped = status in _STOPPED
    failed = reason.strip() if stopped or status == "failed" else None
    return AgentEnded(agent=notice[1], tokens=int(notice[2]), failed=failed, stopped=stopped)


def _before_tool(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    from holdfast.conversations.adapters.tools import CLAUDE_BEFORE, signals_of

    return signals_of(
        get_text(payload, "tool_name") or "",
        payload.get("tool_input"),
        agent=agent,
        call=get_text(payload, "tool_use_id"),
        table=CLAUDE_BEFORE,
    )


def _after_tool(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    from holdfast.conversations.adapters.tools import signals_of

    failed = get_text(payload, "hook_event_name") == "PostToolUseFailure"
    return signals_of(
        get_text(payload, "tool_name") or "",
        payload.get("tool_input"),
        payload.get("tool_response"),
        agent=agent,
        call=get_text(payload, "tool_use_id"),
        failed=(get_text(payload, "error") or "it failed without a message") if failed else None,
        took_ms=get_int(payload, "duration_ms"),
        stopped=failed and get_flag(payload, "is_interrupt"),
    )


def _wants_permission(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    tool = get_text(payload, "tool_name")
    if tool == "AskUserQuestion":  # questions come this way, too
        return _before_tool(payload, agent)
    return (Waits(agent=agent, what="permission", text=tool),)


def _elicits(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    return (Waits(agent=agent, what="input", text=get_text(payload, "message")),)


def _notified(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    awaited = _WAITING.get(get_text(payload, "notification_type") or "")
    return (Waits(agent=agent, what=awaited, text=get_text(payload, "message")),) if awaited else ()


def _agent_began(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    kind = get_text(payload, "agent_type")
    return (AgentBegan(agent=agent, type=kind),) if agent and kind else (Active(agent=agent),)


def _agent_ended(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    kind = get_text(payload, "agent_type")
    if not agent or not kind:  # Claude Code's own helpers, such as the one that compresses, are of no type
        return (Active(),)
    return (AgentEnded(agent=agent, type=kind, summary=get_text(payload, "last_assistant_message")),)


def _replied(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    return (Replied(agent=agent, text=get_text(payload, "last_assistant_message")),)


def _failed(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    from holdfast.conversations.adapters.errors import classify

    message = get_text(payload, "last_assistant_message", "error_details")
    return (classify(get_text(payload, "error"), message, agent=agent),)


def _compacting(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    return (Compacting(agent=agent, surely=payload.get("trigger") != "manual"),)


def _compacted(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:  # noqa: ARG001 - the table's signature
    return (Compacted(agent=agent),)


def _switched(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    model = get_text(payload, "to_model")
    return (*((Chosen(agent=agent, model=model),) if model else ()), *_measured(payload, agent))


def _task(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    name, subject = get_text(payload, "task_id"), get_text(payload, "task_subject")
    if name is None or subject is None:
        return (Active(agent=agent),)
    done = payload.get("hook_event_name") == "TaskCompleted"
    todo = Todo(subject, "completed" if done else "pending", name)
    return (Planned(agent=agent, todos=(todo,), whole=False),)


def _closed(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    return (Closed(agent=agent, reason=get_text(payload, "reason")),)


class _Event(NamedTuple):
    interpret: _Interpret
    # Known fields, kept as signals or deliberately not kept; any other is news.
    fields: frozenset[str]
    # The field that distinguishes this event from the next of its type.
    id_field: str | None = None


def _event(interpret: _Interpret, fields: str = "", id_field: str | None = None) -> _Event:
    return _Event(interpret, frozenset(fields.split()), id_field)


_BASE: Final = frozenset(
    [
        "session_id",
        "transcript_path",
        "cwd",
        "hook_event_name",
        "prompt_id",
        "permission_mode",
        "agent_id",
        "agent_type",
        "effort",
    ]
)
_TOOL: Final = "tool_name tool_input tool_use_id mcp_server"
_TURN: Final = "stop_hook_active last_assistant_message background_tasks session_crons"
_SWITCH: Final = (
    "from_model to_model requested_model source context_tokens prompt_cache_warm cache_ttl estimated_cache_write_usd"
    " pricing"
)
_TASK: Final = "task_id task_subject task_description teammate_name team_name"
_ASKED: Final = "mcp_server_name elicitation_id mode"

_OCCASIONS: Final = AGENT_PROGRAMS["claude"].occasions
EVENTS: Final[Mapping[str, _Event]] = {
    "SessionStart": _event(
        _opened,
        "source model session_title seconds_since_last_response context_tokens prompt_cache_likely_expired"
        " estimated_cache_write_usd",
    ),
    "Setup": _event(_silent, "trigger"),
    "UserPromptSubmit": _event(_prompted, "prompt source session_title", id_field="prompt_id"),
    "UserPromptExpansion": _event(
        _active, "expansion_type command_name command_args command_source prompt", id_field="prompt_id"
    ),
    "PreToolUse": _event(_before_tool, _TOOL, id_field="tool_use_id"),
    "PostToolUse": _event(_after_tool, f"{_TOOL} tool_response duration_ms", id_field="tool_use_id"),
    "PostToolUseFailure": _event(_after_tool, f"{_TOOL} error is_interrupt duration_ms", id_field="tool_use_id"),
    "PostToolBatch": _event(_active, "tool_calls"),
    "PermissionRequest": _event(_wants_permission, f"{_TOOL} permission_suggestions", id_field="tool_use_id"),
    "PermissionDenied": _event(_active, f"{_TOOL} reason", id_field="tool_use_id"),
    "SubagentStart": _event(_agent_began),
    "SubagentStop": _event(_agent_ended, f"{_TURN} agent_transcript_path"),
    "Stop": _event(_replied, _TURN),
    "StopFailure": _event(_failed, "error error_details last_assistant_message"),
    "PreCompact": _event(_compacting, "trigger custom_instructions"),
    "PostCompact": _event(_compacted, "trigger compact_summary"),
    "PreModelSwitch": _event(_silent, _SWITCH),
    "PostModelSwitch": _event(_switched, _SWITCH),
    "TaskCreated": _event(_task, _TASK),
    "TaskCompleted": _event(_task, _TASK),
    "TeammateIdle": _event(_active, "teammate_name team_name"),
    "Notification": _event(_notified, "message title notification_type"),
    "SessionEnd": _event(_closed, "reason"),
    "ConfigChange": _event(_silent, "source file_path"),
    "InstructionsLoaded": _event(
        _silent, "file_path memory_type load_reason globs trigger_file_path parent_file_path"
    ),
    "CwdChanged": _event(_active, "old_cwd new_cwd"),
    "DirectoryAdded": _event(_silent, "directory source"),
    "FileChanged": _event(_silent, "file_path event"),
    "WorktreeCreate": _event(_active, "name"),
    "WorktreeRemove": _event(_active, "worktree_path"),
    "Elicitation": _event(_elicits, f"{_ASKED} message url requested_schema", id_field="elicitation_id"),
    "ElicitationResult": _event(_active, f"{_ASKED} action content", id_field="elicitation_id"),
    "MessageDisplay": _event(_active, "turn_id message_id index final delta"),
}  # fmt: skip


class ClaudeCode:
    name = "claude"
    room = 9_500
    notifies = True

    def parse(self, payload: Payload) -> HookEvent | None:
        other = _find_other_program(payload)
        if other is not None:
            return other.parse(payload)
        conversation = get_conversation(payload, "session_id")
        if conversation is None:
            return None
        event = (get_text(payload, "hook_event_name") or "")[:MAX_ID_LENGTH]
        known = EVENTS.get(event)
        if known is None:
            address = {"session_id", "cwd", "transcript_path"}
            return HookEvent(
                agent=self.name,
                conversation=conversation,
                event=event,
                cwd=get_text(payload, "cwd"),
                resume=resume_command(self.name, conversation),
                rest=unknown_fields(payload, address),
            )
        agent = get_text(payload, "agent_id")
        signals = known.interpret(payload, agent)
        mode = get_text(payload, "permission_mode")
        if mode and agent is None:
            signals = (*signals, Chosen(permission=mode))
        return HookEvent(
            agent=self.name,
            conversation=conversation,
            event=event,
            signals=signals,
            cwd=get_text(payload, "new_cwd", "cwd") if event == "CwdChanged" else get_text(payload, "cwd"),
            mark=_mark(payload, event, known),
            occasion=_OCCASIONS.get(event),
            resume=resume_command(self.name, conversation),
            rest=unknown_fields(payload, _BASE.union(known.fields)),
        )

    def reply(self, answer: HookAnswer, event: str) -> Reply:
        if event not in _OCCASIONS:
            return Reply()
        context = without_controls(answer.context)
        if event == "PreCompact":
            # Claude Code reads what begins with a brace as JSON instead of adding it to the instructions.
            return Reply(cut(f"Recorded: {context}" if context.startswith("{") else context, MAX_REPLY_LENGTH))
        fields: dict[str, Json] = {}
        if (block := without_controls(answer.block)) and event == "UserPromptSubmit":
            fields |= {"decision": "block", "reason": cut(block, 1_000)}
        if say := without_controls(answer.say):
            fields["systemMessage"] = cut(say, 1_000)
            if answer.notify:
                fields["terminalSequence"] = f"\x1b]9;Holdfast: {cut(' '.join(say.split()), 200)}\x07\x07"
        if not context:
            return Reply(_encode(fields)) if fields else Reply()
        room = MAX_REPLY_LENGTH
        while True:
            output: Json = {"hookEventName": event, "additionalContext": cut(context, room)}
            encoded = _encode({**fields, "hookSpecificOutput": output})
            if len(encoded) <= MAX_REPLY_LENGTH:
                return Reply(encoded)
            # Quotes and line ends take two characters in JSON.
            room = min(room - 1, room * MAX_REPLY_LENGTH // len(encoded))


def _encode(fields: Mapping[str, Json]) -> str:
    return msgspec.json.encode(fields).decode()


def _mark(payload: Payload, event: str, known: _Event) -> str:
    name = get_text(payload, known.id_field) if known.id_field else None
    if name is None:
        return ""
    if known.id_field != "prompt_id":
        return f"{event}:{name[:MAX_ID_LENGTH]}"
    # Prompts entered while the agent still works on the first have the same id.
    text = digest((get_text(payload, "prompt") or "").encode(errors="replace"))
    return f"{event}:{name[:MAX_ID_LENGTH]}:{text[:16]}"


def _find_other_program(payload: Payload) -> Adapter | None:
    """Another program that runs the hooks in these settings, recognised by the fields that only it has."""
    from importlib import import_module

    path = (get_text(payload, "transcript_path") or "").replace("\\", "/")
    dated = "timestamp" in payload and not path and "prompt_id" not in payload
    if "cursor_version" in payload:
        name = "cursor"
    elif "/.copilot/" in path or "sessionId" in payload or dated:
        name = "copilot"
    else:
        return None
    adapter: Adapter = import_module(f"holdfast.conversations.adapters.{name}.hooks").AGENT
    return adapter


# ── the status line ──


def parse_status(payload: Payload) -> HookEvent | None:
    """What the input of the status line says; None when it is of no conversation.

    It alone says live how full the context is, what the conversation costs and how much of the limits is used.
    """
    conversation = get_conversation(payload, "session_id")
    if conversation is None:
        return None
    context = get_object(payload, "context_window")
    cost = get_float(get_object(payload, "cost"), "total_cost_usd")
    tokens, window, limits = _context_tokens(context), get_int(context, "context_window_size"), _limits(payload)
    signals: list[AnySignal] = []
    if tokens is not None or cost is not None or limits is not None:
        signals.append(Measured(tokens=tokens, window=window, cost_usd=cost, limits=limits))
    if model := get_text(get_object(payload, "model"), "id"):
        signals.append(Chosen(model=model))
    return HookEvent(
        agent="claude",
        conversation=conversation,
        event=STATUS_EVENT,
        signals=tuple(signals),
        cwd=get_text(get_object(payload, "workspace"), "current_dir") or get_text(payload, "cwd"),
        resume=resume_command("claude", conversation),
    )


def _context_tokens(context: Payload) -> int | None:
    """The tokens in the context, counted as its percentage is: all input of the last request, without the answer."""
    usage = get_object(context, "current_usage")
    counts = [
        get_int(usage, name) for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    ]
    if any(count is not None for count in counts):
        return sum(count or 0 for count in counts)
    # Before the first answer the total is zero and means nothing.
    return get_int(context, "total_input_tokens") or None


def _limits(payload: Payload) -> dict[str, Json] | None:
    """How much of each limit is used and when it is lifted, by the agent's names of the limits."""
    limits: dict[str, Json] = {}
    for name, limit in get_object(payload, "rate_limits").items():
        if type(limit) is dict and len(name) <= 40 and len(limits) < _MAX_LIMITS:
            used, resets = get_float(limit, "used_percentage"), get_int(limit, "resets_at")
            if used is not None:
                usage: dict[str, Json] = {"used_percentage": used}
                limits[name] = usage if resets is None else usage | {"resets_at": resets}
    return limits or None


AGENT: Final[Adapter] = ClaudeCode()
