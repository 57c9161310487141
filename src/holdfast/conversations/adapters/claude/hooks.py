"""What Claude Code's hooks say, and the form in which it takes an answer.

One table, event by event: the fields that are known and what they mean. The same dialect comes from Copilot, which
reads Claude Code's settings and runs the hooks it finds there; its conversations are told apart by where they lie.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from holdfast.conversations.adapters.base import Adapter, HookAnswer, HookEvent, Occasion, Payload, Reply
from holdfast.conversations.adapters.fields import LONGEST_ID, conversation_of, flag, number, rest, word
from holdfast.conversations.hooks.reply_text import clean, cut
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
from holdfast.core.canonical import Json, digest

LONGEST_REPLY: Final = 9_900  # characters; from 10,000 on Claude Code puts it into a file and shows a beginning

_HOW: Final[dict[str, Literal["startup", "resume", "clear", "compact", "fork"]]] = {
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
# Prompts that the program hands to itself carry no name of their author; they open with one of these.
_OWN_WORDS: Final = ("<task-notification>", "<system-reminder>", "<teammate-message")
_ABOUT_AGENT: Final = (
    r"(?s)\A\s*(?:<system-reminder>[^<]{0,1000})?<task-notification>\s*<task-id>([^<]{1,200})</task-id>"
    r".*<subagent_tokens>(\d{1,12})</subagent_tokens>"
)
_CAME_TO: Final = r"<status>\s*([a-z_]{1,20})\s*</status>(?:\s*<summary>([^<]{1,500}))?"
_STOPPED: Final = frozenset({"killed", "stopped"})

_Says = Callable[[Payload, str | None], tuple[AnySignal, ...]]


def _silent(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:  # noqa: ARG001 - the table's signature
    """Nothing the agent or the person did."""
    return ()


def _active(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:  # noqa: ARG001 - the table's signature
    return (Active(agent=agent),)


def _opened(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    found: list[AnySignal] = [
        Opened(
            agent=agent, how=_HOW.get(word(payload, "source") or "", "startup"), title=word(payload, "session_title")
        )
    ]
    if model := word(payload, "model"):
        found.append(Chosen(model=model))
    return (*found, *_measured(payload, agent))


def _measured(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    """What the next request sends again. Before the first answer it is told as zero, and means nothing."""
    tokens = number(payload, "context_tokens")
    return (Measured(agent=agent, tokens=tokens),) if tokens else ()


def _prompted(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    text = word(payload, "prompt") or ""
    own = text.lstrip()[:40].startswith(_OWN_WORDS)
    person = word(payload, "source") in (None, "user") and not own
    asked = Prompted(agent=agent, text=text, person=person)
    about = re.search(_ABOUT_AGENT, text[:100_000]) if own else None
    # What a subagent in the background has used is told nowhere else.
    return (asked, _notified_of(about)) if about else (asked,)


def _notified_of(about: re.Match[str]) -> AgentEnded:
    came_to = re.search(_CAME_TO, about[0].partition("<result>")[0])
    status = came_to[1] if came_to else "completed"
    why = (came_to[2] if came_to else None) or f"it was told to be {status}"
    stopped = status in _STOPPED
    failed = why.strip() if stopped or status == "failed" else None
    return AgentEnded(agent=about[1], tokens=int(about[2]), failed=failed, stopped=stopped)


def _before_tool(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    from holdfast.conversations.adapters.tools import CLAUDE_BEFORE, signals_of

    return signals_of(
        word(payload, "tool_name") or "",
        payload.get("tool_input"),
        agent=agent,
        call=word(payload, "tool_use_id"),
        table=CLAUDE_BEFORE,
    )


def _after_tool(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    from holdfast.conversations.adapters.tools import signals_of

    failed = word(payload, "hook_event_name") == "PostToolUseFailure"
    return signals_of(
        word(payload, "tool_name") or "",
        payload.get("tool_input"),
        payload.get("tool_response"),
        agent=agent,
        call=word(payload, "tool_use_id"),
        failed=(word(payload, "error") or "it failed without a message") if failed else None,
        took_ms=number(payload, "duration_ms"),
        stopped=failed and flag(payload, "is_interrupt"),
    )


def _wants_permission(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    tool = word(payload, "tool_name")
    if tool == "AskUserQuestion":  # a question comes this way too
        return _before_tool(payload, agent)
    return (Waits(agent=agent, what="permission", text=tool),)


def _elicits(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    return (Waits(agent=agent, what="input", text=word(payload, "message")),)


def _notified(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    what = _WAITING.get(word(payload, "notification_type") or "")
    return (Waits(agent=agent, what=what, text=word(payload, "message")),) if what else ()


def _agent_began(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    kind = word(payload, "agent_type")
    return (AgentBegan(agent=agent, type=kind),) if agent and kind else (Active(agent=agent),)


def _agent_ended(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    kind = word(payload, "agent_type")
    if not agent or not kind:  # Claude Code's own helpers, such as the one that compresses, are of no type
        return (Active(),)
    return (AgentEnded(agent=agent, type=kind, summary=word(payload, "last_assistant_message")),)


def _replied(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    return (Replied(agent=agent, text=word(payload, "last_assistant_message")),)


def _failed(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    from holdfast.conversations.adapters.errors import classify

    said = word(payload, "last_assistant_message", "error_details")
    return (classify(word(payload, "error"), said, agent=agent),)


def _compacting(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    return (Compacting(agent=agent, surely=payload.get("trigger") != "manual"),)


def _compacted(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:  # noqa: ARG001 - the table's signature
    return (Compacted(agent=agent),)


def _switched(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    model = word(payload, "to_model")
    return (*((Chosen(agent=agent, model=model),) if model else ()), *_measured(payload, agent))


def _task(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    name, subject = word(payload, "task_id"), word(payload, "task_subject")
    if name is None or subject is None:
        return (Active(agent=agent),)
    done = payload.get("hook_event_name") == "TaskCompleted"
    todo = Todo(subject, "completed" if done else "pending", name)
    return (Planned(agent=agent, todos=(todo,), whole=False),)


def _closed(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    return (Closed(agent=agent, reason=word(payload, "reason")),)


class _Event(NamedTuple):
    says: _Says
    # Known fields, kept as signals or deliberately not kept; any other is somebody's news.
    fields: frozenset[str]
    occasion: Occasion | None = None
    # The field that tells this one from the next of its kind.
    told_by: str | None = None


def _event(says: _Says, fields: str = "", occasion: Occasion | None = None, told_by: str | None = None) -> _Event:
    return _Event(says, frozenset(fields.split()), occasion, told_by)


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

EVENTS: Final[Mapping[str, _Event]] = {
    "SessionStart": _event(
        _opened,
        "source model session_title seconds_since_last_response context_tokens prompt_cache_likely_expired"
        " estimated_cache_write_usd",
        "start",
    ),
    "Setup": _event(_silent, "trigger"),
    "UserPromptSubmit": _event(_prompted, "prompt source session_title", "prompt", "prompt_id"),
    "UserPromptExpansion": _event(
        _active, "expansion_type command_name command_args command_source prompt", told_by="prompt_id"
    ),
    "PreToolUse": _event(_before_tool, _TOOL, told_by="tool_use_id"),
    "PostToolUse": _event(_after_tool, f"{_TOOL} tool_response duration_ms", told_by="tool_use_id"),
    "PostToolUseFailure": _event(_after_tool, f"{_TOOL} error is_interrupt duration_ms", told_by="tool_use_id"),
    "PostToolBatch": _event(_active, "tool_calls"),
    "PermissionRequest": _event(_wants_permission, f"{_TOOL} permission_suggestions", told_by="tool_use_id"),
    "PermissionDenied": _event(_active, f"{_TOOL} reason", told_by="tool_use_id"),
    "SubagentStart": _event(_agent_began),
    "SubagentStop": _event(_agent_ended, f"{_TURN} agent_transcript_path"),
    "Stop": _event(_replied, _TURN),
    "StopFailure": _event(_failed, "error error_details last_assistant_message"),
    "PreCompact": _event(_compacting, "trigger custom_instructions", "compact"),
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
    "Elicitation": _event(_elicits, f"{_ASKED} message url requested_schema", told_by="elicitation_id"),
    "ElicitationResult": _event(_active, f"{_ASKED} action content", told_by="elicitation_id"),
    "MessageDisplay": _event(_active, "turn_id message_id index final delta"),
}  # fmt: skip


class ClaudeCode:
    """`interface.Agent` for Claude Code."""

    name = "claude"
    title = "Claude Code"
    room = 9_500
    notifies = True
    asking = frozenset({"SessionStart", "UserPromptSubmit", "PreCompact"})

    def parse(self, payload: Payload) -> HookEvent | None:
        stranger = _stranger(payload)
        if stranger is not None:
            return stranger.parse(payload)
        conversation = conversation_of(payload, "session_id")
        if conversation is None:
            return None
        event = (word(payload, "hook_event_name") or "")[:LONGEST_ID]
        known = EVENTS.get(event)
        if known is None:
            apart = {"session_id", "cwd", "transcript_path"}
            return HookEvent(
                agent=self.name,
                conversation=conversation,
                event=event,
                cwd=word(payload, "cwd"),
                resume=resume(conversation),
                rest=rest(payload, apart),
            )
        about = word(payload, "agent_id")
        signals = known.says(payload, about)
        mode = word(payload, "permission_mode")
        if mode and about is None:
            signals = (*signals, Chosen(permission=mode))
        return HookEvent(
            agent=self.name,
            conversation=conversation,
            event=event,
            signals=signals,
            cwd=word(payload, "new_cwd", "cwd") if event == "CwdChanged" else word(payload, "cwd"),
            mark=_mark(payload, event, known),
            occasion=known.occasion,
            resume=resume(conversation),
            rest=rest(payload, _BASE.union(known.fields)),
        )

    def reply(self, answer: HookAnswer, event: str) -> Reply:
        if event not in self.asking:
            return Reply()
        context = clean(answer.context)
        if event == "PreCompact":
            # What begins with a brace would be read as JSON instead of being added to the instructions.
            return Reply(cut(f"Recorded: {context}" if context.startswith("{") else context, LONGEST_REPLY))
        said: dict[str, Json] = {}
        if (block := clean(answer.block)) and event == "UserPromptSubmit":
            said |= {"decision": "block", "reason": cut(block, 1_000)}
        if say := clean(answer.say):
            said["systemMessage"] = cut(say, 1_000)
            if answer.notify:
                said["terminalSequence"] = f"\x1b]9;Holdfast: {cut(' '.join(say.split()), 200)}\x07\x07"
        if not context:
            return Reply(_written(said)) if said else Reply()
        room = LONGEST_REPLY
        while True:
            facts: Json = {"hookEventName": event, "additionalContext": cut(context, room)}
            written = _written({**said, "hookSpecificOutput": facts})
            if len(written) <= LONGEST_REPLY:
                return Reply(written)
            # Quotes and line ends take two characters in JSON.
            room = min(room - 1, room * LONGEST_REPLY // len(written))


def resume(conversation: str) -> str | None:
    """The command that reopens a conversation; none where its id could be taken for an option."""
    if conversation.startswith("-"):
        return None
    from shlex import quote

    return f"claude --resume {quote(conversation)}"


def _written(said: Mapping[str, Json]) -> str:
    return msgspec.json.encode(said).decode()


def _mark(payload: Payload, event: str, known: _Event) -> str:
    told_by = word(payload, known.told_by) if known.told_by else None
    if told_by is None:
        return ""
    if known.told_by != "prompt_id":
        return f"{event}:{told_by[:LONGEST_ID]}"
    # Prompts that follow while the first is still worked on have the same id.
    text = digest((word(payload, "prompt") or "").encode(errors="replace"))
    return f"{event}:{told_by[:LONGEST_ID]}:{text[:16]}"


def _stranger(payload: Payload) -> Adapter | None:
    """Another program that runs the hooks it finds in these settings, known by what only it says."""
    from importlib import import_module

    where = (word(payload, "transcript_path") or "").replace("\\", "/")
    dated = "timestamp" in payload and not where and "prompt_id" not in payload
    if "cursor_version" in payload:
        name = "cursor"
    elif "/.copilot/" in where or "sessionId" in payload or dated:
        name = "copilot"
    else:
        return None
    found: Adapter = import_module(f"holdfast.conversations.adapters.{name}.hooks").AGENT
    return found


AGENT: Final[Adapter] = ClaudeCode()
