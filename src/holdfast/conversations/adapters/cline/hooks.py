"""Cline's hooks and tools, of the terminal program and of the extension before it.

The reader of its transcripts uses the tools as well. Parameters come as they were given, or each of them as text.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.conversations.adapters.base import HookAnswer, HookEvent, Payload, Reply
from holdfast.conversations.adapters.clean_text import reply_json
from holdfast.conversations.adapters.errors import classify
from holdfast.conversations.adapters.fields import (
    MAX_ID_LENGTH,
    decode_any,
    get_conversation,
    get_int,
    get_object,
    get_text,
    unknown_fields,
)
from holdfast.conversations.adapters.tools import (
    Table,
    ToolCall,
    active,
    checklist,
    deletes,
    edits,
    patches,
    signals_of,
    waits_for_input,
    writes,
)
from holdfast.conversations.signals import (
    Active,
    AgentBegan,
    AgentEnded,
    AnySignal,
    Called,
    Chosen,
    Closed,
    Compacting,
    Edited,
    Opened,
    Planned,
    Prompted,
    Ran,
    Replied,
)
from holdfast.core.agent_programs import AGENT_PROGRAMS, resume_command
from holdfast.core.canonical import Json

SUBAGENT: Final = "subagent"
_MAX_COMMANDS: Final = 100  # commands in one call
_EXIT_CODE: Final = re.compile(r"exited with code (\d{1,10})\b")
_DIFF_BLOCK: Final = re.compile(r"^-{3,} SEARCH\n(.*?)\n?={3,}\n(.*?)\n?\+{3,} REPLACE$", re.DOTALL | re.MULTILINE)


def edits_file(call: ToolCall) -> tuple[AnySignal, ...]:
    """A text replaced by another; with nothing to replace, a file written or lines inserted into one."""
    if "old_text" in call.input and type(call.input["old_text"]) is str:
        return edits(call)
    if get_int(call.input, "insert_line") is not None:
        path = get_text(call.input, "path")
        return (Edited(agent=call.agent, path=path),) if path and call.failed is None else active(call)
    message = (call.text or "")[:200]
    arguments: dict[str, Json] = {"path": call.input.get("path"), "content": call.input.get("new_text")}
    result: dict[str, Json] = {"type": "create"} if "created" in message else {}
    return writes(call._replace(input=arguments, result=result))


def replaces(call: ToolCall) -> tuple[AnySignal, ...]:
    """Blocks of text searched for and replaced, as the extension writes them."""
    diff = call.input.get("diff")
    blocks = _DIFF_BLOCK.findall(diff[:1_000_000]) if type(diff) is str else []
    pairs: list[Json] = [{"old_text": old, "new_text": new} for old, new in blocks[:_MAX_COMMANDS]]
    return edits(call._replace(input={"path": call.input.get("path"), "edits": pairs}, result={}))


def runs_each(call: ToolCall) -> tuple[AnySignal, ...]:
    """Shell commands, one or several, each with its own result."""
    listed = _list_commands(call.input.get("commands", call.input.get("command")))
    commands = [command for command in listed if command.strip()]
    if not commands:
        return active(call)
    each = call.result.get("each")
    results = each if type(each) is list else []
    return tuple(
        Ran(
            agent=call.agent,
            command=command,
            code=_exit_code(results[place] if place < len(results) else None, call.failed),
            took_ms=call.took_ms if len(commands) == 1 else None,
        )
        for place, command in enumerate(commands[:_MAX_COMMANDS])
    )


def asks_for_agent(call: ToolCall) -> tuple[AnySignal, ...]:
    if call.id is None:
        return active(call)
    return (Called(agent=call.agent, call=call.id, type=SUBAGENT, task=get_text(call.input, "task")),)


def agent_done(call: ToolCall) -> tuple[AnySignal, ...]:
    if call.id is None:
        return active(call)
    usage = get_object(call.result, "usage")
    tokens = (get_int(usage, "inputTokens") or 0) + (get_int(usage, "outputTokens") or 0)
    return (
        AgentEnded(
            call=call.id, type=SUBAGENT, task=get_text(call.input, "task"), summary=get_text(call.result, "text"),
            tokens=tokens or None, took_ms=call.took_ms, failed=call.failed,
        ),
    )  # fmt: skip


AFTER: Final[Table] = {
    "editor": edits_file,
    "apply_patch": patches,
    "run_commands": runs_each,
    "spawn_agent": agent_done,
    "write_to_file": writes,
    "new_file": writes,
    "replace_in_file": replaces,
    "execute_command": runs_each,
    "delete_file": deletes,
}
BEFORE: Final[Table] = {
    "spawn_agent": asks_for_agent,
    "ask_question": waits_for_input,
    "ask_followup_question": waits_for_input,
}


def as_object(value: Json) -> dict[str, Json]:
    return value if type(value) is dict else {}


def outcome(value: Json) -> Json:
    """The result of a call: an object, several of them, or either as text."""
    if type(value) is str and value.lstrip()[:1] in ("{", "["):
        parsed = decode_any(value)
        value = value if parsed is None else parsed
    return {"each": value} if type(value) is list else value


def _list_commands(value: Json) -> list[str]:
    if type(value) is str:
        parsed = outcome(value)
        value = parsed["each"] if type(parsed) is dict and "each" in parsed else [value]
    if type(value) is not list:
        return []
    commands = [item.get("command") if type(item) is dict else item for item in value]
    return [command for command in commands if type(command) is str]


def _exit_code(result: Json, failed: str | None) -> int:
    fields = as_object(result)
    message = f"{get_text(fields, 'error') or ''} {failed or ''}"
    code = _EXIT_CODE.search(message[:500])
    if code is not None:
        return int(code[1])
    return 1 if failed is not None or fields.get("success") is False else 0


# The terminal program's words for the events that its files are named after.
NAMES: Final[dict[str, str]] = {
    "agent_start": "TaskStart",
    "agent_resume": "TaskResume",
    "agent_abort": "TaskCancel",
    "agent_end": "TaskComplete",
    "agent_error": "TaskError",
    "tool_call": "PreToolUse",
    "tool_result": "PostToolUse",
    "prompt_submit": "UserPromptSubmit",
    "pre_compact": "PreCompact",
    "session_shutdown": "SessionShutdown",
}
EVENTS: Final = frozenset(NAMES.values())
_OCCASIONS: Final = AGENT_PROGRAMS["cline"].occasions
_KNOWN: Final = frozenset(
    {"clineVersion", "hookName", "timestamp", "taskId", "sessionContext", "workspaceRoots", "workspaceInfo", "userId",
     "agent_id", "parent_agent_id", "model", "iteration", "tool_call", "tool_result", "turn", "error", "reason",
     "preToolUse", "postToolUse", "userPromptSubmit", "taskStart", "taskResume", "taskCancel", "taskComplete",
     "preCompact"}
)  # fmt: skip
_WRAPPED: Final = re.compile(r"<(user_input|task|feedback|user_message)\b[^<>]{0,200}>(.*?)</\1>", re.DOTALL)


class Cline:
    name = "cline"
    room = 9_500
    notifies = False

    def parse(self, payload: Payload) -> HookEvent | None:
        context = get_object(payload, "sessionContext")
        has_root = get_text(context, "rootSessionId") is not None
        conversation = get_conversation(context if has_root else payload, "rootSessionId" if has_root else "taskId")
        if conversation is None:
            return None
        name = get_text(payload, "hookName") or ""
        event = NAMES.get(name, name)[:MAX_ID_LENGTH]
        known = event in EVENTS
        agent = get_text(payload, "agent_id") if get_text(payload, "parent_agent_id") else None
        return HookEvent(
            agent=self.name,
            conversation=conversation,
            event=event,
            signals=(*_signals(event, payload, agent), *_chosen(payload, agent)) if known else (),
            cwd=_cwd(payload),
            mark=_mark(event, payload),
            occasion=None if agent else _OCCASIONS.get(event),
            # Only the terminal program can reopen a conversation.
            resume=resume_command(self.name, conversation) if has_root else None,
            rest=unknown_fields(payload, _KNOWN if known else frozenset({"taskId", "workspaceRoots"})),
        )

    def reply(self, answer: HookAnswer, event: str) -> Reply:
        if event not in _OCCASIONS:
            return Reply()
        if answer.block and event == "UserPromptSubmit":
            return Reply(reply_json({"errorMessage": answer.block}, cancel=True))
        # Only the agent can pass a message on to the person.
        context = "\n\n".join(text for text in (answer.context, answer.say) if text)
        return Reply(reply_json({"contextModification": context}, cancel=False))


def person_words(prompt: str) -> str:
    """What the person wrote, without the tags that Cline wraps around it."""
    wrapped = _WRAPPED.search(prompt)
    return (wrapped[2] if wrapped else prompt).strip()


def tool_signals(
    tool: str,
    parameters: Json,
    result: Json,
    *,
    agent: str | None,
    call: str | None,
    failed: str | None,
    took_ms: int | None,
) -> tuple[AnySignal, ...]:
    """The signals of a finished call, and of the to-do list that the extension may add to any call."""
    signals = signals_of(
        tool, parameters, outcome(result), agent=agent, call=call, failed=failed, took_ms=took_ms, table=AFTER
    )
    progress = get_text(as_object(parameters), "task_progress")
    todos = checklist(progress[:100_000]) if progress else ()
    return (*signals, Planned(agent=agent, todos=todos)) if todos else signals


def _signals(event: str, payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    match event:
        case "TaskStart" | "TaskResume":
            return _begin_signals(event, payload, agent)
        case "UserPromptSubmit":
            prompt = person_words(get_text(get_object(payload, "userPromptSubmit"), "prompt") or "")
            return (Active(agent=agent),) if agent else (Prompted(text=prompt),)
        case "PreToolUse" | "PostToolUse":
            return _tool(event, payload, agent)
        case "TaskComplete":
            text = get_text(get_object(payload, "turn"), "outputText")
            return (AgentEnded(agent=agent, type=SUBAGENT, summary=text),) if agent else (Replied(text=text),)
        case "TaskCancel":
            reason = get_text(payload, "reason") or "it was cancelled"
            # The person took the turn back.
            return (AgentEnded(agent=agent, type=SUBAGENT, failed=reason, stopped=True),) if agent else (Replied(),)
        case "TaskError":
            error = get_object(payload, "error")
            kind, message = get_text(error, "name"), get_text(error, "message")
            if agent:
                return (AgentEnded(agent=agent, type=SUBAGENT, failed=message or kind or "it failed"),)
            return (classify(None if kind == "Error" else kind, message),)
        case "PreCompact":
            return (Compacting(agent=agent),)
        case "SessionShutdown":
            return () if agent else (Closed(reason=get_text(payload, "reason")),)
    return (Active(agent=agent),)


def _begin_signals(event: str, payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    if agent is not None:
        return (AgentBegan(agent=agent, type=SUBAGENT),)
    opened = Opened(how="resume" if event == "TaskResume" else "startup")
    if payload.get("hookName") in EVENTS:
        return (opened,)  # the extension has an event of its own for prompts
    # The terminal program begins a run for every prompt, and does not say its text.
    return opened, Prompted()


def _tool(event: str, payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    if event == "PreToolUse":
        call, classic = get_object(payload, "tool_call"), get_object(payload, "preToolUse")
        tool = get_text(call, "name") or get_text(classic, "toolName") or ""
        parameters = call.get("input", classic.get("parameters"))
        return signals_of(tool, parameters, agent=agent, call=get_text(call, "id"), table=BEFORE)
    call, classic = get_object(payload, "tool_result"), get_object(payload, "postToolUse")
    result = call.get("output", classic.get("result"))
    failed = get_text(call, "error")
    if failed is None and classic.get("success") is False:
        failed = result if type(result) is str and result.strip() else "it failed without a message"
    return tool_signals(
        get_text(call, "name") or get_text(classic, "toolName") or "",
        call.get("input", classic.get("parameters")),
        result,
        agent=agent,
        call=get_text(call, "id"),
        failed=failed,
        took_ms=get_int(call, "durationMs") if call else get_int(classic, "executionTimeMs"),
    )


def _chosen(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    model = get_object(payload, "model")
    provider, name = get_text(model, "provider"), get_text(model, "slug")
    if name is None or name == "unknown" or agent is not None:
        return ()
    return (Chosen(model=f"{provider}/{name}" if provider else name),)


def _cwd(payload: Payload) -> str | None:
    root = get_text(get_object(payload, "workspaceInfo"), "rootPath")
    roots = payload.get("workspaceRoots")
    first = roots[0] if type(roots) is list and roots else None
    return root or (first if type(first) is str and first.strip() else None)


def _mark(event: str, payload: Payload) -> str:
    """When it happened and to whom, which is the same in all hook files that run for it."""
    call = get_text(get_object(payload, "tool_call", "tool_result"), "id") or ""
    parts = [event, get_text(payload, "taskId") or "", get_text(payload, "timestamp") or "", call]
    return ":".join(parts) if parts[2] and all(len(name) <= MAX_ID_LENGTH for name in parts) else ""


AGENT: Final = Cline()
