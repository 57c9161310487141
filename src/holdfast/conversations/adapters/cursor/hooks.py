"""Cursor's hooks and tools.

Hooks get a changed file twice, from the tool and from an event of its own, and subagents as well: the events count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from holdfast.conversations.adapters.base import HookAnswer, HookEvent, Payload, Reply
from holdfast.conversations.adapters.clean_text import reply_json
from holdfast.conversations.adapters.fields import (
    MAX_ID_LENGTH,
    decode_any,
    get_conversation,
    get_flag,
    get_int,
    get_objects,
    get_string,
    get_text,
    unknown_fields,
)
from holdfast.conversations.adapters.tools import (
    Table,
    ToolCall,
    active,
    agent_done,
    asks_for_agent,
    deletes,
    edits,
    patches,
    runs,
    todos_of,
    waits_for_input,
    writes,
)
from holdfast.conversations.signals import (
    Active,
    AgentBegan,
    AgentEnded,
    AnySignal,
    Chosen,
    Closed,
    Compacting,
    Edited,
    Measured,
    Opened,
    Planned,
    Prompted,
    Replied,
)
from holdfast.core.agent_programs import AGENT_PROGRAMS, resume_command
from holdfast.core.canonical import Json


def _plans(call: ToolCall) -> tuple[AnySignal, ...]:
    """To-dos: the whole list, or entries to merge into it."""
    todos = tuple(todos_of(call.input, "todos"))
    if call.failed is not None or type(call.input.get("todos")) is not list:
        return active(call)
    return (Planned(agent=call.agent, todos=todos, whole=not get_flag(call.input, "merge")),)


AFTER: Final[Table] = {
    "Shell": runs,
    "run_terminal_cmd": runs,
    "Delete": deletes,
    "delete_file": deletes,
    "TodoWrite": _plans,
    "todo_write": _plans,
}
BEFORE: Final[Table] = {
    "Task": asks_for_agent,
    "AskQuestion": waits_for_input,
}
# Transcripts have no events besides the calls.
WRITTEN: Final[Table] = {
    **AFTER,
    "Write": writes,
    "StrReplace": edits,
    "Edit": edits,
    "MultiEdit": edits,
    "search_replace": edits,
    "ApplyPatch": patches,
    "Task": agent_done,
}


_ADDRESS: Final = frozenset({"conversation_id", "session_id", "workspace_roots", "transcript_path", "cwd"})
# In the payloads of all hooks; the account is deliberately not kept.
_EVERYWHERE: Final = _ADDRESS | {
    "generation_id", "model", "model_id", "model_params", "hook_event_name", "cursor_version", "user_email",
}  # fmt: skip
_STOPPED: Final = frozenset({"aborted", "cancelled", "canceled", "interrupted"})
_MAX_FILES: Final = 500
_DRIVE: Final = re.compile(r"/(?=[A-Za-z]:[\\/])")


def path_of(written: str) -> str:
    """A path in the system's form: on Windows, Cursor puts a slash before the drive."""
    return _DRIVE.sub("", written, count=1) if written.startswith("/") else written


def _chosen(payload: Payload) -> tuple[AnySignal, ...]:
    model, mode = get_text(payload, "model"), get_text(payload, "composer_mode")
    return () if model is None and mode is None else (Chosen(model=model, permission=mode),)


def _opened(payload: Payload) -> tuple[AnySignal, ...]:
    return (Opened(), *_chosen(payload))


def _closed(payload: Payload) -> tuple[AnySignal, ...]:
    reason = get_text(payload, "reason", "final_status")
    closed = Closed(reason=reason)
    return (*_error(payload), closed) if reason == "error" else (closed,)


def _prompted(payload: Payload) -> tuple[AnySignal, ...]:
    return (Prompted(text=get_text(payload, "prompt") or ""), *_chosen(payload))


def _stopped(payload: Payload) -> tuple[AnySignal, ...]:
    return (*_error(payload), Replied()) if payload.get("status") == "error" else (Replied(),)


def _error(payload: Payload) -> tuple[AnySignal, ...]:
    from holdfast.conversations.adapters.errors import classify

    return (classify(None, get_text(payload, "error_message", "error")),)


def _active(_: Payload) -> tuple[AnySignal, ...]:
    return (Active(),)


def _no_signals(_: Payload) -> tuple[AnySignal, ...]:
    return ()


def _before_tool(payload: Payload) -> tuple[AnySignal, ...]:
    from holdfast.conversations.adapters.tools import signals_of

    tool, call = get_text(payload, "tool_name") or "", get_text(payload, "tool_use_id")
    return signals_of(tool, _input(payload), call=call, table=BEFORE)


def _after_tool(payload: Payload) -> tuple[AnySignal, ...]:
    from holdfast.conversations.adapters.tools import signals_of

    tool, call = get_text(payload, "tool_name") or "", get_text(payload, "tool_use_id")
    result = _parse(payload.get("tool_output"))
    return signals_of(
        tool, _input(payload), result, call=call, took_ms=get_int(payload, "duration", "duration_ms"), table=AFTER
    )


def _tool_failed(payload: Payload) -> tuple[AnySignal, ...]:
    """A tool that failed; if it was not allowed to run, nothing happened."""
    from holdfast.conversations.adapters.tools import signals_of

    if payload.get("failure_type") == "permission_denied":
        return (Active(),)
    return signals_of(
        get_text(payload, "tool_name") or "",
        _input(payload),
        call=get_text(payload, "tool_use_id"),
        failed=get_text(payload, "error_message", "error", "failure_type") or "the tool failed",
        took_ms=get_int(payload, "duration", "duration_ms"),
        stopped=get_flag(payload, "is_interrupt"),
        table=AFTER,
    )


def _edited(payload: Payload) -> tuple[AnySignal, ...]:
    """A changed file: texts replaced, one after the other."""
    from holdfast.conversations.adapters.edits import LineCounts, count_changed_lines

    path = get_text(payload, "file_path")
    if path is None:
        return (Active(),)
    replacements = [
        (get_string(entry, "old_string"), get_string(entry, "new_string")) for entry in get_objects(payload, "edits")
    ]
    complete = [(old, new) for old, new in replacements if old is not None and new is not None]
    lines = [count_changed_lines(old, new) for old, new in complete]
    known = bool(complete) and len(complete) == len(replacements) and all(line.added is not None for line in lines)
    total = (
        LineCounts(sum(line.added or 0 for line in lines), sum(line.removed or 0 for line in lines))
        if known
        else LineCounts()
    )
    old, new = complete[0] if len(replacements) == len(complete) == 1 else (None, None)
    return (
        Edited(
            path=path_of(path),
            # Without an old text, the whole file is new; whether it existed before is unknown.
            old=old or None,
            new=new if old else None,
            lines_added=total.added,
            lines_removed=total.removed,
        ),
    )


def _compacting(payload: Payload) -> tuple[AnySignal, ...]:
    tokens, window = get_int(payload, "context_tokens"), get_int(payload, "context_window_size")
    measured = () if tokens is None and window is None else (Measured(tokens=tokens, window=window),)
    return (*measured, Compacting())


def _agent(payload: Payload) -> str:
    """The subagent's id. Older versions have none, and start one at a time."""
    kind, prompt = get_text(payload, "subagent_type") or "agent", get_text(payload, "generation_id") or ""
    return get_text(payload, "subagent_id", "tool_call_id") or f"{kind}-{prompt}"


def _agent_began(payload: Payload) -> tuple[AnySignal, ...]:
    return (
        AgentBegan(
            agent=_agent(payload),
            type=get_text(payload, "subagent_type") or "agent",
            task=get_text(payload, "task", "description", "prompt"),
            background=get_flag(payload, "is_parallel_worker"),
        ),
    )


def _agent_ended(payload: Payload) -> tuple[AnySignal, ...]:
    status = get_text(payload, "status")
    failed = None
    if status is not None and status != "completed":
        failed = get_text(payload, "error_message", "error") or f"it ended as {status}"
    agent = _agent(payload)
    ended = AgentEnded(
        agent=agent,
        call=get_text(payload, "tool_call_id"),
        type=get_text(payload, "subagent_type"),
        task=get_text(payload, "task", "description"),
        summary=get_text(payload, "summary", "result"),
        took_ms=get_int(payload, "duration_ms", "duration"),
        failed=failed,
        stopped=status in _STOPPED,
    )
    return (*_modified_files(payload, agent), ended)


def _modified_files(payload: Payload, agent: str) -> Iterator[AnySignal]:
    """The files that a subagent has changed; their content is unknown."""
    listed = payload.get("modified_files")
    paths = [item for item in listed if type(item) is str and item.strip()] if type(listed) is list else []
    for path in list(dict.fromkeys(paths))[:_MAX_FILES]:
        yield Edited(agent=agent, path=path_of(path))


def _input(payload: Payload) -> Json:
    return _parse(payload.get("tool_input"))


def _parse(value: Json) -> Json:
    """Results, and some inputs, are JSON within a string."""
    if type(value) is not str or not value.startswith("{"):
        return value
    parsed = decode_any(value)
    return value if parsed is None else parsed


class _Event(msgspec.Struct, frozen=True):
    meaning: Callable[[Payload], tuple[AnySignal, ...]]
    fields: tuple[str, ...] = ()
    # A field with an id that distinguishes this event from the next of its type.
    id_field: str | None = None


_TOOL: Final = ("tool_name", "tool_input", "tool_output", "tool_use_id", "duration", "agent_message")
_SHELL: Final = ("command", "output", "duration", "timeout", "sandbox")
_MCP: Final = ("tool_name", "tool_input", "url", "command", "result_json", "duration")
_FILE: Final = ("file_path", "content", "attachments", "edits")
_AGENT: Final = (
    "subagent_id", "subagent_type", "subagent_model", "task", "prompt", "description", "status", "summary", "result",
    "duration", "duration_ms", "parent_conversation_id", "tool_call_id", "is_parallel_worker", "error_message",
    "agent_transcript_path", "message_count", "tool_call_count", "modified_files", "loop_count", "git_branch",
)  # fmt: skip
_OCCASIONS: Final = AGENT_PROGRAMS["cursor"].occasions
_EVENTS: Final[dict[str, _Event]] = {
    "sessionStart": _Event(_opened, ("is_background_agent", "composer_mode")),
    "sessionEnd": _Event(_closed, ("reason", "duration_ms", "is_background_agent", "final_status", "error_message")),
    "beforeSubmitPrompt": _Event(_prompted, ("prompt", "attachments", "composer_mode"), id_field="generation_id"),
    "stop": _Event(_stopped, ("status", "loop_count", "error_message", "error")),
    "afterAgentResponse": _Event(_active, ("text",)),
    "afterAgentThought": _Event(_active, ("text", "duration_ms")),
    "preToolUse": _Event(_before_tool, _TOOL, id_field="tool_use_id"),
    "postToolUse": _Event(_after_tool, _TOOL, id_field="tool_use_id"),
    "postToolUseFailure": _Event(
        _tool_failed, (*_TOOL, "error_message", "failure_type", "is_interrupt"), id_field="tool_use_id"
    ),
    "beforeShellExecution": _Event(_active, _SHELL),
    "afterShellExecution": _Event(_active, _SHELL),
    "beforeMCPExecution": _Event(_active, _MCP),
    "afterMCPExecution": _Event(_active, _MCP),
    "beforeReadFile": _Event(_active, _FILE),
    "afterFileEdit": _Event(_edited, _FILE),
    # Completions of the person's own typing.
    "beforeTabFileRead": _Event(_no_signals, _FILE),
    "afterTabFileEdit": _Event(_no_signals, _FILE),
    "preCompact": _Event(
        _compacting,
        (
            "trigger",
            "context_usage_percent",
            "context_tokens",
            "context_window_size",
            "message_count",
            "messages_to_compact",
            "is_first_compaction",
        ),
    ),
    "subagentStart": _Event(_agent_began, _AGENT),
    "subagentStop": _Event(_agent_ended, _AGENT),
}


class CursorAdapter:
    name = "cursor"
    room = 9_500
    notifies = False

    def parse(self, payload: Payload) -> HookEvent | None:
        # A subagent has a conversation of its own, which is part of the person's.
        conversation = get_conversation(payload, "parent_conversation_id", "conversation_id", "session_id")
        if conversation is None:
            return None
        name = get_text(payload, "hook_event_name") or ""
        event = _EVENTS.get(name)
        own_id = get_text(payload, event.id_field) if event is not None and event.id_field is not None else None
        known = _ADDRESS if event is None else _EVERYWHERE.union(event.fields)
        return HookEvent(
            agent=self.name,
            conversation=conversation,
            event=name,
            signals=() if event is None else event.meaning(payload),
            cwd=_workspace(payload),
            mark="" if own_id is None else f"{name}:{own_id[:MAX_ID_LENGTH]}",
            occasion=_OCCASIONS.get(name),
            resume=resume_command(self.name, conversation),
            rest=unknown_fields(payload, known),
        )

    def reply(self, answer: HookAnswer, event: str) -> Reply:
        occasion = _OCCASIONS.get(event)
        if occasion is None:
            return Reply()
        if answer.block and occasion == "prompt":
            return Reply(reply_json({"user_message": answer.block}, **{"continue": False}))
        # Cursor drops context that is too long.
        context = None if occasion == "compact" else answer.context
        return Reply(reply_json({"additional_context": context, "user_message": answer.say}))


def _workspace(payload: Payload) -> str | None:
    """The workspace, or a tool's own directory if there is none."""
    roots = payload.get("workspace_roots")
    first = (
        next((root for root in roots if type(root) is str and root.strip()), None) if type(roots) is list else None
    )
    path = first or get_text(payload, "cwd")
    return None if path is None else path_of(path)


AGENT: Final = CursorAdapter()
