"""What the tools of Gemini CLI mean. Its results come in two forms, one for the model and one for the screen: the
exit code of a command stands only in the first, the content of a changed file only in the second.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from holdfast.capture.edits import Lines, counted, digest
from holdfast.capture.interface import Payload
from holdfast.capture.payload import flag, number, part, text, word
from holdfast.capture.signals import Active, AgentEnded, AnySignal, Called, Chosen, Edited, Ran
from holdfast.capture.tools import Call, Table, active, command_of, plans, waits_for_input, waits_for_permission
from holdfast.capture.values import value
from holdfast.core.canonical import Json

# What stands below a command's output in the form for the model.
_BELOW: Final = re.compile(
    r"(?:</untrusted_context>|Process Group PGID: \d+|Background PIDs: .*|Error: .*|Exit Code: \d+|Signal: .*)"
)
_CODE: Final = re.compile(r"Exit Code: (\d{1,10})")
_STOPPED: Final = ("Command was cancelled", "Command was automatically cancelled", "Command timed out")
_WINDOWS: Final = re.compile(r"[A-Za-z]:[\\/]|\\\\")
# How a subagent that did what it was asked for ends.
_REACHED: Final = "GOAL"
_ABORTED: Final = "ABORTED"


def failure(response: Payload) -> str | None:
    """Why a tool failed; None when it did not."""
    error = response.get("error")
    if type(error) is dict:
        return word(error, "message", "type") or "the tool failed"
    return word(response, "error")


def said(response: Payload) -> str | None:
    """The result as the model gets it: text, or a list of parts."""
    content: Json = response.get("llmContent")
    if type(content) is dict:
        content = [content]
    if type(content) is list:
        found = [one["text"] for one in content if type(one) is dict and type(one.get("text")) is str]
        content = "\n".join(str(one) for one in found)
    return content if type(content) is str and content.strip() else None


def _changes(call: Call) -> tuple[AnySignal, ...]:
    """A file written or edited. The screen gets the file as it was and as it is, but not always to the byte."""
    shown = part(call.result, "returnDisplay")
    path = word(shown, "filePath") or word(call.input, "file_path", "absolute_path", "path")
    if path is None or call.failed is not None:
        return active(call)
    new = flag(shown, "isNewFile")
    before = None if new else text(shown, "originalContent")
    after = text(shown, "newContent")
    if after is None and call.tool == "write_file":
        after = text(call.input, "content")
    stat = part(shown, "diffStat")
    lines = Lines(number(stat, "model_added_lines"), number(stat, "model_removed_lines"))
    if lines.added is None and after is not None and (new or before is not None):
        lines = counted(before or "", after)
    whole = call.tool == "write_file"
    return (
        Edited(
            agent=call.agent,
            path=path,
            action="created" if new else "modified",
            before=digest(before) if before is not None and (whole or "\n" not in before) else None,
            after=digest(after) if _as_on_disk(path, before, after, new=new, whole=whole) else None,
            old=None if whole else text(call.input, "old_string"),
            new=None if whole else text(call.input, "new_string"),
            lines_added=lines.added,
            lines_removed=lines.removed,
        ),
    )


def _as_on_disk(path: str, before: str | None, after: str | None, *, new: bool, whole: bool) -> bool:
    """Whether the file's content is what is shown. Line ends are not: the program writes those the file had, and
    those of the system into a new one, while it shows plain ones after an edit.
    """
    if after is None:
        return False
    if "\n" not in after:
        return True
    if new:
        return not _WINDOWS.match(path)
    return whole and before is not None and "\n" in before and "\r\n" not in before


def _runs(call: Call) -> tuple[AnySignal, ...]:
    command = command_of(call.input)
    if command is None:
        return active(call)
    return (Ran(agent=call.agent, command=command, code=_code(call), took_ms=call.took_ms),)


def _code(call: Call) -> int:
    told = said(call.result) or call.text or ""
    if told.startswith(_STOPPED):
        return 130
    # From the end: the output above may hold such lines of its own.
    for line in reversed(told[-4_000:].splitlines()):
        if not _BELOW.fullmatch(line):
            break
        code = _CODE.fullmatch(line)
        if code:
            return int(code[1])
        if line.startswith("Signal: "):
            return 1
    return 0 if call.failed is None else 1


def _assignment(call: Call) -> tuple[str, str | None, str]:
    """Which kind of subagent, what it is to do, and a name for the call. Hooks are told none: what a call asks for
    is the same before and after it.
    """
    kind = word(call.input, "agent_name", "agentName") or "generalist"
    task = word(call.input, "prompt", "objective", "request", "task", "query")
    asked = f"{kind}\0{task}".encode(errors="surrogatepass")
    return kind, task, call.id or f"{call.tool}-{hashlib.sha256(asked).hexdigest()[:16]}"


def _asks_for_agent(call: Call) -> tuple[AnySignal, ...]:
    kind, task, name = _assignment(call)
    return (Called(agent=call.agent, call=name, type=kind, task=task, begins=True),)


def _agent_done(call: Call) -> tuple[AnySignal, ...]:
    kind, task, name = _assignment(call)
    shown = part(call.result, "returnDisplay")
    why = word(shown, "terminateReason")
    outcome = _response(word(shown, "result")) or said(call.result) or call.text
    failed = call.failed
    if failed is None and why is not None and why != _REACHED:
        failed = f"{why}: {word(shown, 'result') or 'it did not finish'}"
    return (
        AgentEnded(
            # Hooks are not told who it was; transcripts are.
            agent=word(call.result, "agentId"),
            call=name,
            type=word(shown, "agentName") or kind,
            task=task,
            summary=outcome,
            took_ms=call.took_ms,
            failed=failed,
            stopped=call.stopped or why == _ABORTED,
        ),
    )


def _response(result: str | None) -> str | None:
    """What a subagent hands back: text, or its answer in an object."""
    if result is not None and result.startswith("{"):
        read = value(result)
        return (word(read, "response") if type(read) is dict else None) or result
    return result


def _plans_ahead(call: Call) -> tuple[AnySignal, ...]:
    """From here on the program only reads."""
    return active(call) if call.failed is not None else (Active(agent=call.agent), Chosen(permission="plan"))


AFTER: Final[Table] = {
    "write_file": _changes,
    "replace": _changes,
    "edit": _changes,
    "run_shell_command": _runs,
    "write_todos": plans,
    "invoke_agent": _agent_done,
    "delegate_to_agent": _agent_done,
    "enter_plan_mode": _plans_ahead,
}
BEFORE: Final[Table] = {
    "invoke_agent": _asks_for_agent,
    "delegate_to_agent": _asks_for_agent,
    "ask_user": waits_for_input,
    "exit_plan_mode": waits_for_permission,
}
