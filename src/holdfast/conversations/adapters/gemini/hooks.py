"""Gemini CLI's hooks and tools.

Results of tools have two forms, one for the model and one for the screen: only the first has the exit code of a
command, only the second the content of a changed file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.conversations.adapters.base import HookAnswer, HookEvent, Payload, Reply
from holdfast.conversations.adapters.clean_text import reply_json
from holdfast.conversations.adapters.edits import LineCounts, count_changed_lines, hash_content
from holdfast.conversations.adapters.fields import (
    decode_any,
    get_conversation,
    get_flag,
    get_int,
    get_object,
    get_string,
    get_text,
    unknown_fields,
)
from holdfast.conversations.adapters.tools import (
    Table,
    ToolCall,
    active,
    command_of,
    plans,
    waits_for_input,
    waits_for_permission,
)
from holdfast.conversations.signals import (
    Active,
    AgentEnded,
    AnySignal,
    Called,
    Chosen,
    Closed,
    Compacting,
    Edited,
    Measured,
    Opened,
    Prompted,
    Ran,
    Replied,
    Waits,
)
from holdfast.core.agent_programs import AGENT_PROGRAMS, resume_command
from holdfast.core.canonical import Json

# Lines after a command's output in the form for the model.
_AFTER_OUTPUT: Final = re.compile(
    r"(?:</untrusted_context>|Process Group PGID: \d+|Background PIDs: .*|Error: .*|Exit Code: \d+|Signal: .*)"
)
_EXIT_CODE: Final = re.compile(r"Exit Code: (\d{1,10})")
_STOPPED: Final = ("Command was cancelled", "Command was automatically cancelled", "Command timed out")
_WINDOWS: Final = re.compile(r"[A-Za-z]:[\\/]|\\\\")
# Why a subagent that has done its task ends.
_REACHED: Final = "GOAL"
_ABORTED: Final = "ABORTED"


def failure(response: Payload) -> str | None:
    """Why a tool failed; None when it did not."""
    error = response.get("error")
    if type(error) is dict:
        return get_text(error, "message", "type") or "the tool failed"
    return get_text(response, "error")


def model_text(response: Payload) -> str | None:
    """The text of a result in the form for the model: text, or a list of parts."""
    content: Json = response.get("llmContent")
    if type(content) is dict:
        content = [content]
    if type(content) is list:
        texts = [item["text"] for item in content if type(item) is dict and type(item.get("text")) is str]
        content = "\n".join(str(text) for text in texts)
    return content if type(content) is str and content.strip() else None


def _changes(call: ToolCall) -> tuple[AnySignal, ...]:
    """A file written or edited. The form for the screen has it before and after, but not always byte by byte."""
    shown = get_object(call.result, "returnDisplay")
    path = get_text(shown, "filePath") or get_text(call.input, "file_path", "absolute_path", "path")
    if path is None or call.failed is not None:
        return active(call)
    new = get_flag(shown, "isNewFile")
    before = None if new else get_string(shown, "originalContent")
    after = get_string(shown, "newContent")
    if after is None and call.tool == "write_file":
        after = get_string(call.input, "content")
    stat = get_object(shown, "diffStat")
    lines = LineCounts(get_int(stat, "model_added_lines"), get_int(stat, "model_removed_lines"))
    if lines.added is None and after is not None and (new or before is not None):
        lines = count_changed_lines(before or "", after)
    is_whole_file = call.tool == "write_file"
    return (
        Edited(
            agent=call.agent,
            path=path,
            action="created" if new else "modified",
            before=hash_content(before) if before is not None and (is_whole_file or "\n" not in before) else None,
            after=hash_content(after)
            if _as_on_disk(path, before, after, new=new, is_whole_file=is_whole_file)
            else None,
            old=None if is_whole_file else get_string(call.input, "old_string"),
            new=None if is_whole_file else get_string(call.input, "new_string"),
            lines_added=lines.added,
            lines_removed=lines.removed,
        ),
    )


def _as_on_disk(path: str, before: str | None, after: str | None, *, new: bool, is_whole_file: bool) -> bool:
    """Whether the file has exactly the content that is shown. Line ends may differ: the program keeps those of the
    file, and writes those of the system into a new one, but shows plain ones after an edit.
    """
    if after is None:
        return False
    if "\n" not in after:
        return True
    if new:
        return not _WINDOWS.match(path)
    return is_whole_file and before is not None and "\n" in before and "\r\n" not in before


def _runs(call: ToolCall) -> tuple[AnySignal, ...]:
    command = command_of(call.input)
    if command is None:
        return active(call)
    return (Ran(agent=call.agent, command=command, code=_exit_code(call), took_ms=call.took_ms),)


def _exit_code(call: ToolCall) -> int:
    output = model_text(call.result) or call.text or ""
    if output.startswith(_STOPPED):
        return 130
    # From the end: the output itself may have such lines.
    for line in reversed(output[-4_000:].splitlines()):
        if not _AFTER_OUTPUT.fullmatch(line):
            break
        code = _EXIT_CODE.fullmatch(line)
        if code:
            return int(code[1])
        if line.startswith("Signal: "):
            return 1
    return 0 if call.failed is None else 1


def _assignment(call: ToolCall) -> tuple[str, str | None, str]:
    """The type of the subagent, its task, and a name for the call. Hooks get no id of the call: its content, which is
    the same before and after it, stands in for one.
    """
    kind = get_text(call.input, "agent_name", "agentName") or "generalist"
    task = get_text(call.input, "prompt", "objective", "request", "task", "query")
    content = f"{kind}\0{task}".encode(errors="surrogatepass")
    return kind, task, call.id or f"{call.tool}-{hashlib.sha256(content).hexdigest()[:16]}"


def _asks_for_agent(call: ToolCall) -> tuple[AnySignal, ...]:
    kind, task, name = _assignment(call)
    return (Called(agent=call.agent, call=name, type=kind, task=task, begins=True),)


def _agent_done(call: ToolCall) -> tuple[AnySignal, ...]:
    kind, task, name = _assignment(call)
    shown = get_object(call.result, "returnDisplay")
    reason = get_text(shown, "terminateReason")
    outcome = _response(get_text(shown, "result")) or model_text(call.result) or call.text
    failed = call.failed
    if failed is None and reason is not None and reason != _REACHED:
        failed = f"{reason}: {get_text(shown, 'result') or 'it did not finish'}"
    return (
        AgentEnded(
            # Only transcripts have the subagent's id.
            agent=get_text(call.result, "agentId"),
            call=name,
            type=get_text(shown, "agentName") or kind,
            task=task,
            summary=outcome,
            took_ms=call.took_ms,
            failed=failed,
            stopped=call.stopped or reason == _ABORTED,
        ),
    )


def _response(result: str | None) -> str | None:
    """The answer of a subagent: text, or within an object."""
    if result is not None and result.startswith("{"):
        parsed = decode_any(result)
        return (get_text(parsed, "response") if type(parsed) is dict else None) or result
    return result


def _enters_plan_mode(call: ToolCall) -> tuple[AnySignal, ...]:
    """The program only reads from now on."""
    return active(call) if call.failed is not None else (Active(agent=call.agent), Chosen(permission="plan"))


AFTER: Final[Table] = {
    "write_file": _changes,
    "replace": _changes,
    "edit": _changes,
    "run_shell_command": _runs,
    "write_todos": plans,
    "invoke_agent": _agent_done,
    "delegate_to_agent": _agent_done,
    "enter_plan_mode": _enters_plan_mode,
}
BEFORE: Final[Table] = {
    "invoke_agent": _asks_for_agent,
    "delegate_to_agent": _asks_for_agent,
    "ask_user": waits_for_input,
    "exit_plan_mode": waits_for_permission,
}


MAX_CONTEXT_LENGTH: Final = 8_500  # characters, as they are written
MAX_MESSAGE_LENGTH: Final = 1_000
_HOOK_CONTEXT: Final = r"(?s)<hook_context>.*?</hook_context>"
_ADDRESS: Final = frozenset({"session_id", "transcript_path", "cwd"})
# In the payloads of all hooks.
_EVERYWHERE: Final = _ADDRESS | {"hook_event_name", "timestamp"}


def person_words(prompt: str) -> str:
    """A prompt as the person typed it, without the answers of hooks that the program adds."""
    return re.sub(_HOOK_CONTEXT, "", prompt).strip() if "<hook_context>" in prompt else prompt


def _opened(payload: Payload) -> tuple[AnySignal, ...]:
    source = get_text(payload, "source")
    return (Opened(how="resume" if source == "resume" else "clear" if source == "clear" else "startup"),)


def _closed(payload: Payload) -> tuple[AnySignal, ...]:
    return (Closed(reason=get_text(payload, "reason")),)


def _prompted(payload: Payload) -> tuple[AnySignal, ...]:
    return (Prompted(text=person_words(get_text(payload, "prompt") or "")),)


def _replied(payload: Payload) -> tuple[AnySignal, ...]:
    return (Replied(text=get_text(payload, "prompt_response")),)


def _asks_model(payload: Payload) -> tuple[AnySignal, ...]:
    model = get_text(get_object(payload, "llm_request"), "model")
    return (Active(),) if model is None else (Active(), Chosen(model=model))


def _model_answered(payload: Payload) -> tuple[AnySignal, ...]:
    """A piece of an answer; the last one has the tokens used."""
    tokens = get_int(get_object(get_object(payload, "llm_response"), "usageMetadata"), "promptTokenCount")
    return (*_asks_model(payload), *(() if tokens is None else (Measured(tokens=tokens),)))


def _before_tool(payload: Payload) -> tuple[AnySignal, ...]:
    from holdfast.conversations.adapters.tools import signals_of

    return signals_of(get_text(payload, "tool_name") or "", payload.get("tool_input"), table=BEFORE)


def _after_tool(payload: Payload) -> tuple[AnySignal, ...]:
    from holdfast.conversations.adapters.tools import signals_of

    tool, arguments = get_text(payload, "tool_name") or "", payload.get("tool_input")
    response = get_object(payload, "tool_response")
    return signals_of(tool, arguments, dict(response), failed=failure(response), table=AFTER)


def _compacting(payload: Payload) -> tuple[AnySignal, ...]:
    """This comes before every request, whether or not anything is compressed: only `/compress` makes it certain."""
    return (Compacting(),) if payload.get("trigger") == "manual" else ()


def _notified(payload: Payload) -> tuple[AnySignal, ...]:
    if payload.get("notification_type") != "ToolPermission":
        return (Active(),)
    details = get_object(payload, "details")
    text = get_text(details, "title") or get_text(payload, "message")
    return (Waits(what="input" if details.get("type") == "ask_user" else "permission", text=text),)


class _Event(msgspec.Struct, frozen=True):
    meaning: Callable[[Payload], tuple[AnySignal, ...]]
    fields: frozenset[str] = frozenset()


_TOOL: Final = frozenset({"tool_name", "tool_input", "tool_response", "mcp_context", "original_request_name"})
_MODEL: Final = frozenset({"llm_request", "llm_response"})
_OCCASIONS: Final = AGENT_PROGRAMS["gemini"].occasions
_EVENTS: Final[dict[str, _Event]] = {
    "SessionStart": _Event(_opened, frozenset({"source"})),
    "SessionEnd": _Event(_closed, frozenset({"reason"})),
    "BeforeAgent": _Event(_prompted, frozenset({"prompt"})),
    "AfterAgent": _Event(_replied, frozenset({"prompt", "prompt_response", "stop_hook_active"})),
    "BeforeModel": _Event(_asks_model, _MODEL),
    "BeforeToolSelection": _Event(_asks_model, _MODEL),
    "AfterModel": _Event(_model_answered, _MODEL),
    "BeforeTool": _Event(_before_tool, _TOOL),
    "AfterTool": _Event(_after_tool, _TOOL),
    "PreCompress": _Event(_compacting, frozenset({"trigger"})),
    "Notification": _Event(_notified, frozenset({"notification_type", "message", "details"})),
}


class Gemini:
    name = "gemini"
    room = 9_500
    notifies = False

    def parse(self, payload: Payload) -> HookEvent | None:
        conversation = get_conversation(payload, "session_id")
        if conversation is None:
            return None
        name = get_text(payload, "hook_event_name") or ""
        event = _EVENTS.get(name)
        known = _ADDRESS if event is None else _EVERYWHERE | event.fields
        signals = () if event is None else event.meaning(payload)
        return HookEvent(
            agent=self.name,
            conversation=conversation,
            event=name,
            signals=signals,
            cwd=get_text(payload, "cwd"),
            occasion=_OCCASIONS.get(name) if signals else None,
            resume=resume_command(self.name, conversation),
            rest=unknown_fields(payload, known),
        )

    def reply(self, answer: HookAnswer, event: str) -> Reply:
        occasion = _OCCASIONS.get(event)
        if occasion is None:
            return Reply()
        if answer.block and occasion == "prompt":
            # A message in addition would be shown in place of the reason.
            return Reply(reply_json({"decision": "deny", "reason": answer.block}, longest=MAX_MESSAGE_LENGTH))
        parts = []
        if answer.context and occasion != "compact":
            output = reply_json(
                {"hookEventName": event, "additionalContext": answer.context}, longest=MAX_CONTEXT_LENGTH
            )
            parts.append(f'"hookSpecificOutput":{output}')
        if message := reply_json({"systemMessage": answer.say}, longest=MAX_MESSAGE_LENGTH):
            parts.append(message[1:-1])
        return Reply(f"{{{','.join(parts)}}}") if parts else Reply()


AGENT: Final = Gemini()
