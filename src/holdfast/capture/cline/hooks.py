"""What Cline's hooks say: executable files named after events. The terminal program and the extension before it use
the same file names and other words inside; both are heard under the names of the files.

A subagent has a conversation of its own in Cline; the payload names the one it belongs to. The terminal program
listens to answers only around tools, the extension at the beginning of a task and at each prompt.
"""

from __future__ import annotations

import re
from shlex import quote
from typing import Final

from holdfast.capture.cline.meanings import AFTER, BEFORE, SUBAGENT, given, outcome
from holdfast.capture.fitting import fitted
from holdfast.capture.interface import Answer, Heard, Occasion, Payload, Reply
from holdfast.capture.payload import LONGEST_ID, conversation_of, number, part, rest, word
from holdfast.capture.signals import (
    Active,
    AgentBegan,
    AgentEnded,
    AnySignal,
    Chosen,
    Closed,
    Compacting,
    Opened,
    Planned,
    Prompted,
    Replied,
)
from holdfast.capture.todos import checklist
from holdfast.capture.tools import signals_of
from holdfast.capture.troubles import trouble
from holdfast.core.canonical import Json

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

    def heard(self, payload: Payload) -> Heard | None:
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
        return Heard(
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

    def reply(self, answer: Answer, event: str) -> Reply:
        if event not in self.asking:
            return Reply()
        if answer.block and event == "UserPromptSubmit":
            return Reply(fitted({"errorMessage": answer.block}, cancel=True))
        # There is no way to the person past the agent.
        said = "\n\n".join(one for one in (answer.context, answer.say) if one)
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
            return (trouble(None if kind == "Error" else kind, message),)
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
    return ":".join(parts) if parts[2] and all(len(one) <= LONGEST_ID for one in parts) else ""


AGENT: Final = Cline()
