"""What Cline's tools mean, those of the terminal program and those of the extension before it, shared by its hooks
and its store. Parameters come as they were given, or each of them as text.
"""

from __future__ import annotations

import re
from shlex import quote
from typing import Final

from holdfast.conversations.adapters import fields
from holdfast.conversations.adapters.base import HookAnswer, HookEvent, Occasion, Payload, Reply
from holdfast.conversations.adapters.errors import classify
from holdfast.conversations.adapters.fields import LONGEST_ID, conversation_of, number, part, rest, word
from holdfast.conversations.adapters.todos import checklist
from holdfast.conversations.adapters.tools import (
    Table,
    ToolCall,
    active,
    deletes,
    edits,
    patches,
    signals_of,
    waits_for_input,
    writes,
)
from holdfast.conversations.hooks.reply_text import fitted
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
from holdfast.core.canonical import Json

SUBAGENT: Final = "subagent"
_MOST: Final = 100  # commands in one call
_CODE: Final = re.compile(r"exited with code (\d{1,10})\b")
_BLOCK: Final = re.compile(r"^-{3,} SEARCH\n(.*?)\n?={3,}\n(.*?)\n?\+{3,} REPLACE$", re.DOTALL | re.MULTILINE)


def edits_file(call: ToolCall) -> tuple[AnySignal, ...]:
    """A text exchanged for another; with nothing to exchange, a file written or lines put into one."""
    if "old_text" in call.input and type(call.input["old_text"]) is str:
        return edits(call)
    if number(call.input, "insert_line") is not None:
        path = word(call.input, "path")
        return (Edited(agent=call.agent, path=path),) if path and call.failed is None else active(call)
    said = (call.text or "")[:200]
    given: dict[str, Json] = {"path": call.input.get("path"), "content": call.input.get("new_text")}
    result: dict[str, Json] = {"type": "create"} if "created" in said else {}
    return writes(call._replace(input=given, result=result))


def replaces(call: ToolCall) -> tuple[AnySignal, ...]:
    """Blocks of text searched for and replaced, as the extension writes them."""
    diff = call.input.get("diff")
    blocks = _BLOCK.findall(diff[:1_000_000]) if type(diff) is str else []
    pairs: list[Json] = [{"old_text": old, "new_text": new} for old, new in blocks[:_MOST]]
    return edits(call._replace(input={"path": call.input.get("path"), "edits": pairs}, result={}))


def runs_each(call: ToolCall) -> tuple[AnySignal, ...]:
    """Shell commands, one or several, each with its own end."""
    commands = [name for name in _listed(call.input.get("commands", call.input.get("command"))) if name.strip()]
    if not commands:
        return active(call)
    ends = call.result.get("each")
    told = ends if type(ends) is list else []
    return tuple(
        Ran(
            agent=call.agent,
            command=command,
            code=_code(told[place] if place < len(told) else None, call.failed),
            took_ms=call.took_ms if len(commands) == 1 else None,
        )
        for place, command in enumerate(commands[:_MOST])
    )


def asks_for_agent(call: ToolCall) -> tuple[AnySignal, ...]:
    if call.id is None:
        return active(call)
    return (Called(agent=call.agent, call=call.id, type=SUBAGENT, task=word(call.input, "task")),)


def agent_done(call: ToolCall) -> tuple[AnySignal, ...]:
    if call.id is None:
        return active(call)
    usage = part(call.result, "usage")
    tokens = (number(usage, "inputTokens") or 0) + (number(usage, "outputTokens") or 0)
    return (
        AgentEnded(
            call=call.id, type=SUBAGENT, task=word(call.input, "task"), summary=word(call.result, "text"),
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


def given(value: Json) -> dict[str, Json]:
    return value if type(value) is dict else {}


def outcome(value: Json) -> Json:
    """What came of a call: an object, several of them, or either as text."""
    if type(value) is str and value.lstrip()[:1] in ("{", "["):
        read = fields.value(value)
        value = value if read is None else read
    return {"each": value} if type(value) is list else value


def _listed(value: Json) -> list[str]:
    if type(value) is str:
        found = outcome(value)
        value = found["each"] if type(found) is dict and "each" in found else [value]
    if type(value) is not list:
        return []
    named = [item.get("command") if type(item) is dict else item for item in value]
    return [item for item in named if type(item) is str]


def _code(end: Json, failed: str | None) -> int:
    told = given(end)
    said = f"{word(told, 'error') or ''} {failed or ''}"
    code = _CODE.search(said[:500])
    if code is not None:
        return int(code[1])
    return 1 if failed is not None or told.get("success") is False else 0


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
_OCCASIONS: Final[dict[str, Occasion]] = {
    "TaskStart": "start",
    "TaskResume": "start",
    "UserPromptSubmit": "prompt",
    "PreCompact": "compact",
}
_KNOWN: Final = frozenset(
    {"clineVersion", "hookName", "timestamp", "taskId", "sessionContext", "workspaceRoots", "workspaceInfo", "userId",
     "agent_id", "parent_agent_id", "model", "iteration", "tool_call", "tool_result", "turn", "error", "reason",
     "preToolUse", "postToolUse", "userPromptSubmit", "taskStart", "taskResume", "taskCancel", "taskComplete",
     "preCompact"}
)  # fmt: skip
_WRAPPED: Final = re.compile(r"<(user_input|task|feedback|user_message)\b[^<>]{0,200}>(.*?)</\1>", re.DOTALL)


class Cline:
    name = "cline"
    title = "Cline"
    room = 9_500
    notifies = False
    asking = frozenset(_OCCASIONS)

    def parse(self, payload: Payload) -> HookEvent | None:
        context = part(payload, "sessionContext")
        rooted = word(context, "rootSessionId")
        root = conversation_of(context, "rootSessionId")
        conversation = conversation_of(payload, "taskId") if rooted is None else root
        if conversation is None:
            return None
        said = word(payload, "hookName") or ""
        event = NAMES.get(said, said)[:LONGEST_ID]
        known = event in EVENTS
        agent = word(payload, "agent_id") if word(payload, "parent_agent_id") else None
        return HookEvent(
            agent=self.name,
            conversation=conversation,
            event=event,
            signals=(*_signals(event, payload, agent), *_chosen(payload, agent)) if known else (),
            cwd=_cwd(payload),
            mark=_mark(event, payload),
            occasion=None if agent else _OCCASIONS.get(event),
            # Only the terminal program can be asked for a conversation.
            resume=resume(conversation) if rooted else None,
            rest=rest(payload, _KNOWN if known else frozenset({"taskId", "workspaceRoots"})),
        )

    def reply(self, answer: HookAnswer, event: str) -> Reply:
        if event not in self.asking:
            return Reply()
        if answer.block and event == "UserPromptSubmit":
            return Reply(fitted({"errorMessage": answer.block}, cancel=True))
        # There is no way to the person past the agent.
        said = "\n\n".join(name for name in (answer.context, answer.say) if name)
        return Reply(fitted({"contextModification": said}, cancel=False))


def resume(conversation: str) -> str | None:
    """The command that reopens a conversation; none where its id could be taken for an option."""
    return None if conversation.startswith("-") else f"cline --id {quote(conversation)}"


def words_of(prompt: str) -> str:
    """What the person wrote, without what Cline wraps around it."""
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
    """What a finished call means, the list of to-dos included that the extension lets any tool carry along."""
    found = signals_of(
        tool, parameters, outcome(result), agent=agent, call=call, failed=failed, took_ms=took_ms, table=AFTER
    )
    ticked = word(given(parameters), "task_progress")
    todos = checklist(ticked[:100_000]) if ticked else ()
    return (*found, Planned(agent=agent, todos=todos)) if todos else found


def _signals(event: str, payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    match event:
        case "TaskStart" | "TaskResume":
            return _began(event, payload, agent)
        case "UserPromptSubmit":
            text = words_of(word(part(payload, "userPromptSubmit"), "prompt") or "")
            return (Active(agent=agent),) if agent else (Prompted(text=text),)
        case "PreToolUse" | "PostToolUse":
            return _tool(event, payload, agent)
        case "TaskComplete":
            said = word(part(payload, "turn"), "outputText")
            return (AgentEnded(agent=agent, type=SUBAGENT, summary=said),) if agent else (Replied(text=said),)
        case "TaskCancel":
            why = word(payload, "reason") or "it was cancelled"
            # The person took the turn back.
            return (AgentEnded(agent=agent, type=SUBAGENT, failed=why, stopped=True),) if agent else (Replied(),)
        case "TaskError":
            error = part(payload, "error")
            kind, message = word(error, "name"), word(error, "message")
            if agent:
                return (AgentEnded(agent=agent, type=SUBAGENT, failed=message or kind or "it failed"),)
            return (classify(None if kind == "Error" else kind, message),)
        case "PreCompact":
            return (Compacting(agent=agent),)
        case "SessionShutdown":
            return () if agent else (Closed(reason=word(payload, "reason")),)
    return (Active(agent=agent),)


def _began(event: str, payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    if agent is not None:
        return (AgentBegan(agent=agent, type=SUBAGENT),)
    opened = Opened(how="resume" if event == "TaskResume" else "startup")
    if payload.get("hookName") in EVENTS:
        return (opened,)  # the extension tells the prompt by itself
    # The terminal program begins a run for every prompt and keeps the words to itself.
    return opened, Prompted()


def _tool(event: str, payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    if event == "PreToolUse":
        told, classic = part(payload, "tool_call"), part(payload, "preToolUse")
        tool = word(told, "name") or word(classic, "toolName") or ""
        parameters = told.get("input", classic.get("parameters"))
        return signals_of(tool, parameters, agent=agent, call=word(told, "id"), table=BEFORE)
    told, classic = part(payload, "tool_result"), part(payload, "postToolUse")
    result = told.get("output", classic.get("result"))
    failed = word(told, "error")
    if failed is None and classic.get("success") is False:
        failed = result if type(result) is str and result.strip() else "it failed without a message"
    return tool_signals(
        word(told, "name") or word(classic, "toolName") or "",
        told.get("input", classic.get("parameters")),
        result,
        agent=agent,
        call=word(told, "id"),
        failed=failed,
        took_ms=number(told, "durationMs") if told else number(classic, "executionTimeMs"),
    )


def _chosen(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    model = part(payload, "model")
    provider, name = word(model, "provider"), word(model, "slug")
    if name is None or name == "unknown" or agent is not None:
        return ()
    return (Chosen(model=f"{provider}/{name}" if provider else name),)


def _cwd(payload: Payload) -> str | None:
    root = word(part(payload, "workspaceInfo"), "rootPath")
    roots = payload.get("workspaceRoots")
    first = roots[0] if type(roots) is list and roots else None
    return root or (first if type(first) is str and first.strip() else None)


def _mark(event: str, payload: Payload) -> str:
    """When it happened and to whom, which is the same in all files that hear of it."""
    call = word(part(payload, "tool_call", "tool_result"), "id") or ""
    parts = [event, word(payload, "taskId") or "", word(payload, "timestamp") or "", call]
    return ":".join(parts) if parts[2] and all(len(name) <= LONGEST_ID for name in parts) else ""


AGENT: Final = Cline()
