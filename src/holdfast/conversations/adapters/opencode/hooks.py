"""opencode's hooks, which are events of our plugin, and its tools.

To-do lists have an event of their own, so that the tool behind them is only a sign of activity.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.conversations.adapters.base import HookAnswer, HookEvent, Payload, Reply
from holdfast.conversations.adapters.clean_text import reply_json
from holdfast.conversations.adapters.errors import classify
from holdfast.conversations.adapters.fields import (
    MAX_ID_LENGTH,
    get_conversation,
    get_flag,
    get_float,
    get_int,
    get_object,
    get_objects,
    get_text,
    unknown_fields,
)
from holdfast.conversations.adapters.tools import (
    Table,
    ToolCall,
    active,
    asks_for_agent,
    edits,
    patches,
    runs,
    signals_of,
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
    Compacted,
    Compacting,
    Measured,
    Opened,
    Planned,
    Prompted,
    Replied,
    Waits,
)
from holdfast.core.agent_programs import AGENT_PROGRAMS, resume_command
from holdfast.core.canonical import Json


def agent_done(call: ToolCall) -> tuple[AnySignal, ...]:
    """After a subagent, which is a conversation of its own; one in the background reports its end itself."""
    agent = get_text(get_object(call.result, "metadata"), "sessionId")
    ended = call.failed is not None or 'state="completed"' in (call.text or "")
    if not ended or (agent is None and call.id is None):
        return active(call)
    task = get_text(call.input, "description")
    return (AgentEnded(agent=agent, call=call.id, task=task, failed=call.failed, stopped=call.stopped),)


AFTER: Final[Table] = {
    "edit": edits,
    "multiedit": edits,
    "write": writes,
    "patch": patches,
    "apply_patch": patches,
    "bash": runs,
    "shell": runs,
    "task": agent_done,
}
BEFORE: Final[Table] = {"task": asks_for_agent, "question": waits_for_input}


def outcome(tool: str, metadata: Json, output: Json) -> Json:
    """The result of a call, in the fields that the meanings know."""
    meta = metadata if type(metadata) is dict else {}
    result: dict[str, Json] = {
        "metadata": {"exit": meta.get("exit"), "sessionId": meta.get("sessionId")}, "output": output
    }  # fmt: skip
    if tool == "write" and type(meta.get("exists")) is bool:
        result["type"] = "update" if meta["exists"] else "create"
    return result


_OCCASIONS: Final = AGENT_PROGRAMS["opencode"].occasions
_BASE: Final = frozenset({"hook_event_name", "session_id", "agent_id", "cwd", "event_id", "at"})
_TOOL: Final = frozenset({"tool", "call_id", "args", "title", "metadata", "output", "error", "took_ms"})
_ASKED: Final = frozenset(
    {"id", "permission", "patterns", "always", "metadata", "tool", "type", "pattern", "title", "time", "messageID",
     "callID", "requestID", "reply", "response", "questions", "answers"}
)  # fmt: skip
_KNOWN: Final[dict[str, frozenset[str]]] = {
    "session.created": frozenset({"title", "model", "agent_type", "version"}),
    "session.resumed": frozenset(),
    "chat.message": frozenset({"message_id", "prompt", "person", "model", "mode"}),
    "command.execute.before": frozenset({"command", "arguments"}),
    "message.updated": frozenset(
        {"message_id", "model", "mode", "tokens", "window", "cost", "finish", "summary", "error"}
    ),
    "tool.execute.before": _TOOL,
    "tool.execute.after": _TOOL,
    "tool.execute.error": _TOOL,
    "todo.updated": frozenset({"todos"}),
    "permission.asked": _ASKED,
    "permission.updated": _ASKED,
    "permission.replied": _ASKED,
    "question.asked": _ASKED,
    "question.replied": _ASKED,
    "question.rejected": _ASKED,
    "session.compacting": frozenset(),
    "session.compacted": frozenset(),
    "session.error": frozenset({"error"}),
    "session.idle": frozenset({"reply", "error", "cost", "title", "tokens"}),
    "session.closed": frozenset({"cost"}),
    "session.deleted": frozenset(),
}
# The field that distinguishes an event from the next of its type, where the event bus gave it no id.
_ID_FIELDS: Final[dict[str, str]] = {
    "chat.message": "message_id",
    "message.updated": "message_id",
    "tool.execute.before": "call_id",
    "tool.execute.after": "call_id",
    "tool.execute.error": "call_id",
}
# opencode's words when a person stops the agent, and for calls that were running then.
ABORTED: Final = "MessageAbortedError"
_ABORTED_CALL: Final = "Tool execution aborted"
_UNTITLED: Final = re.compile(r"(?:New|Child) session - \d{4}-\d\d-\d\dT")
_SUBAGENT: Final = re.compile(r"\s*\(@[^()]{1,100} subagent\)\s*\Z")


class Opencode:
    name = "opencode"
    room = 9_500
    notifies = False

    def parse(self, payload: Payload) -> HookEvent | None:
        conversation = get_conversation(payload, "session_id")
        if conversation is None:
            return None
        event = (get_text(payload, "hook_event_name") or "")[:MAX_ID_LENGTH]
        known = _KNOWN.get(event)
        if known is None:
            return HookEvent(
                agent=self.name, conversation=conversation, event=event, cwd=get_text(payload, "cwd"),
                resume=resume_command(self.name, conversation),
                rest=unknown_fields(payload, frozenset({"session_id", "cwd"})),
            )  # fmt: skip
        agent = get_text(payload, "agent_id")
        return HookEvent(
            agent=self.name,
            conversation=conversation,
            event=event,
            signals=_signals(event, payload, agent),
            cwd=get_text(payload, "cwd"),
            mark=_mark(event, payload),
            # A subagent's own beginning and prompts are not answered.
            occasion=None if agent else _OCCASIONS.get(event),
            resume=resume_command(self.name, conversation),
            rest=unknown_fields(payload, _BASE | known),
        )

    def reply(self, answer: HookAnswer, event: str) -> Reply:
        """What the plugin reads: context for the agent, a sentence for the person, or why the prompt is blocked."""
        if event not in _OCCASIONS:
            return Reply()
        return Reply(
            reply_json(
                {
                    "block": answer.block if event == "chat.message" else None,
                    "context": answer.context,
                    "say": answer.say if event != "session.compacting" else None,
                }
            )
        )


def own_title(title: str | None) -> str | None:
    """A title that somebody gave; None for opencode's default, which has a date."""
    return None if title is None or _UNTITLED.match(title) else title


def task_of(title: str | None) -> str | None:
    """The task of a subagent, from the title of its conversation."""
    return own_title(_SUBAGENT.sub("", title)) if title else None


def context_of(tokens: Payload) -> int | None:
    """How full the context is after an answer: the input, from the cache or not, and the answer itself."""
    cache = get_object(tokens, "cache")
    counts = [get_int(tokens, "input"), get_int(tokens, "output"), get_int(cache, "read"), get_int(cache, "write")]
    return sum(item for item in counts if item is not None) or None


def _signals(event: str, payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    match event:
        case "session.created":
            return _created(payload, agent)
        case "session.resumed":
            return (Opened(how="resume"),)
        case "chat.message":
            return _prompted(payload, agent)
        case "message.updated":
            return _message_updated(payload, agent)
        case "tool.execute.before" | "tool.execute.after" | "tool.execute.error":
            return _tool(event, payload, agent)
        case "todo.updated":
            return (Planned(agent=agent, todos=tuple(todos_of(payload, "todos"))),)
        case "permission.asked" | "permission.updated":
            return (Waits(agent=agent, what="permission", text=_permission_for(payload)),)
        case "question.asked":
            questions = (get_text(entry, "question") for entry in get_objects(payload, "questions"))
            return (Waits(agent=agent, what="input", text=next(filter(None, questions), None)),)
        case "session.compacting":
            return (Compacting(agent=agent, surely=False),)
        case "session.compacted":
            return (Compacted(agent=agent),)
        case "session.error":
            return _failed(payload, agent)
        case "session.idle":
            return _idle(payload, agent)
        case "session.closed":
            return (*_cost(payload, agent), Closed(agent=agent, reason="exit"))
        case "session.deleted":
            return () if agent else (Closed(reason="deleted"),)
    return (Active(agent=agent),)


def _created(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    title = get_text(payload, "title")
    if agent is not None:
        return (AgentBegan(agent=agent, type=get_text(payload, "agent_type") or "general", task=task_of(title)),)
    opened = Opened(title=own_title(title))
    model = get_text(payload, "model")
    return (opened, Chosen(model=model)) if model else (opened,)


def _prompted(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    if agent is not None:
        return (Active(agent=agent),)
    prompted = Prompted(text=get_text(payload, "prompt") or "", person=payload.get("person") is not False)
    model, mode = get_text(payload, "model"), get_text(payload, "mode")
    return (prompted, Chosen(model=model, permission=mode)) if model or mode else (prompted,)


def _message_updated(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    tokens = None if get_flag(payload, "summary") else context_of(get_object(payload, "tokens"))
    active = Active(agent=agent)
    if tokens is None:
        return (active,)
    return active, Measured(agent=agent, tokens=tokens, window=get_int(payload, "window"))


def _tool(event: str, payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    failed = event == "tool.execute.error"
    tool = get_text(payload, "tool") or ""
    aborted = get_flag(get_object(payload, "metadata"), "interrupted") or payload.get("error") == _ABORTED_CALL
    return signals_of(
        tool,
        payload.get("args"),
        outcome(tool, payload.get("metadata"), payload.get("output")),
        agent=agent,
        call=get_text(payload, "call_id"),
        failed=(get_text(payload, "error") or "it failed without a message") if failed else None,
        took_ms=get_int(payload, "took_ms"),
        stopped=failed and aborted,
        table=BEFORE if event == "tool.execute.before" else AFTER,
    )


def _permission_for(payload: Payload) -> str | None:
    patterns = payload.get("patterns")
    first = patterns[0] if type(patterns) is list and patterns and type(patterns[0]) is str else None
    name = get_text(payload, "title", "permission", "type")
    return f"{name}: {first}" if name and first else name or first


def _failed(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    kind, message = error_of(get_object(payload, "error"))
    # A person stopping the agent is no error, and a subagent's failure comes with its end.
    if agent is not None or kind == ABORTED:
        return (Active(agent=agent),)
    return (classify(kind, message),)


def _idle(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    if agent is None:
        return (Replied(text=get_text(payload, "reply")), *_cost(payload, agent))
    kind, message = error_of(get_object(payload, "error"))
    failed = message or kind
    summary = None if failed else get_text(payload, "reply")
    return (
        AgentEnded(
            agent=agent, task=task_of(get_text(payload, "title")), summary=summary,
            tokens=context_of(get_object(payload, "tokens")), failed=failed, stopped=kind == ABORTED,
        ),
    )  # fmt: skip


def _cost(payload: Payload, agent: str | None) -> tuple[AnySignal, ...]:
    cost = get_float(payload, "cost")
    return (Measured(cost_usd=cost),) if cost and agent is None else ()


def error_of(error: Payload) -> tuple[str | None, str | None]:
    """The word for what went wrong, if it says something, and the message."""
    data = get_object(error, "data")
    kind, message = get_text(error, "name"), get_text(data, "message") or get_text(error, "message")
    code = get_int(data, "statusCode")
    if kind in ("APIError", "UnknownError"):
        # Every failure of a service has this name: only its code, or whether it may be tried again, says more.
        kind = "api_error" if get_flag(data, "isRetryable") and code != 429 else None
    if code is not None:
        message = f"{message or 'the service refused'} (status {code})"
    return kind, message


def _mark(event: str, payload: Payload) -> str:
    name = get_text(payload, "event_id") or get_text(payload, _ID_FIELDS.get(event, ""))
    return f"{event}:{name}" if name and len(name) <= MAX_ID_LENGTH else ""


AGENT: Final = Opencode()
