"""What a tool call means, whichever agent made it: tables from the names of an agent's tools to meanings.

The meanings read arguments and results generously, by all the names agents give the same thing, so that an agent
brings only its own table. Whatever is in no table is a sign of activity and nothing more.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from holdfast.conversations.adapters.base import Payload
from holdfast.conversations.adapters.edits import (
    LineCounts,
    counted,
    digest,
    exact,
    exchanged,
    growth,
    in_turn,
    patch_lines,
    patch_of,
    patched,
    written,
)
from holdfast.conversations.adapters.errors import LONGEST, category
from holdfast.conversations.adapters.fields import flag, number, part, parts, text, word
from holdfast.conversations.adapters.todos import checklist, status_of, todos_of
from holdfast.conversations.signals import (
    Active,
    AgentBegan,
    AgentEnded,
    AnySignal,
    Called,
    Edited,
    Erred,
    Planned,
    Ran,
    Todo,
    Waits,
)
from holdfast.core.canonical import Json
from holdfast.core.text import shorten


class ToolCall(NamedTuple):
    """One tool call: what was asked for and, once it is over, what came of it."""

    tool: str
    input: Payload
    result: Payload  # the response, where it is an object
    text: str | None  # the response, where it is text
    agent: str | None = None  # the subagent that called
    id: str | None = None
    failed: str | None = None
    took_ms: int | None = None
    stopped: bool = False  # it failed because somebody ended it


Meaning: TypeAlias = Callable[[ToolCall], tuple[AnySignal, ...]]
Table: TypeAlias = Mapping[str, Meaning]

PATH: Final = ("file_path", "filePath", "path", "absolute_path", "target_file", "filename", "file", "notebook_path")
OLD: Final = ("old_string", "oldString", "old_str", "oldText", "old_text", "old_source")
NEW: Final = ("new_string", "newString", "new_str", "newText", "new_text", "new_source")
CONTENT: Final = ("content", "contents", "file_text", "fileText", "text")
ORIGINAL: Final = ("originalFile", "original_file", "originalContent", "original_content")

_CODE = re.compile(r"\bexit(?:ed with)?(?: code| status)?:?\s+(\d{1,3})\b", re.IGNORECASE)


def signals_of(
    tool: str,
    input: Json,  # noqa: A002 - every agent calls it so
    response: Json = None,
    *,
    agent: str | None = None,
    call: str | None = None,
    failed: str | None = None,
    took_ms: int | None = None,
    stopped: bool = False,
    table: Table | None = None,
) -> tuple[AnySignal, ...]:
    """What a tool call means by a table of names, Claude Code's unless another is given."""
    meaning = (CLAUDE if table is None else table).get(tool, active)
    given: Payload = input if type(input) is dict else {"patch": input} if type(input) is str else {}
    result: Payload = response if type(response) is dict else {}
    return meaning(ToolCall(tool, given, result, _text_of(response), agent, call, failed, took_ms, stopped))


def active(call: ToolCall) -> tuple[AnySignal, ...]:
    """Nothing that leaves a trace. A failure the agent will mend by itself is no trouble; one from outside is."""
    done = Active(agent=call.agent)
    if call.failed is None or call.stopped:
        return (done,)
    # Also where it speaks of a limit: that is the limit of whatever the tool asked, not of the agent's account.
    meant = category(None, call.failed)
    said = shorten(f"{call.tool}: {call.failed[:2000]}", LONGEST)
    return (done,) if meant == "logical" else (done, Erred(agent=call.agent, message=said, category=meant))


def edits(call: ToolCall) -> tuple[AnySignal, ...]:
    """Texts in a file exchanged for others: one, or several in turn."""
    result = call.result
    path = word(result, *PATH) or word(call.input, *PATH)
    if path is None or _came_to_nothing(call):
        return active(call)
    several = [
        (old, new, flag(entry, "replace_all"))
        for entry in parts(call.input, "edits", "replacements")
        if (old := text(entry, *OLD)) is not None and (new := text(entry, *NEW)) is not None
    ]
    old = text(result, *OLD) if not several else None
    new = text(result, *NEW) if not several else None
    old = old if old is not None else text(call.input, *OLD)
    new = new if new is not None else text(call.input, *NEW)
    original = text(result, *ORIGINAL) or None  # Claude Code empties it in what it stores
    after: str | None = None
    if original is not None and not flag(result, "userModified"):
        if several:
            after = in_turn(original, several)
        elif old is not None and new is not None:
            every = flag(call.input, "replace_all") or flag(result, "replaceAll")
            after = exchanged(original, old, new, every=every, grown=growth(result))
    created = original is None and old == "" and not several
    if created and new is not None:
        return (written(path, new, None, new=True, agent=call.agent),)
    lines = patch_lines(result)
    if lines.added is None:
        lines = _lines(original, after, [(old, new, False)] if old is not None and new is not None else several)
    sure = exact(path, original)
    return (
        Edited(
            agent=call.agent, path=path, old=old, new=new, lines_added=lines.added, lines_removed=lines.removed,
            before=digest(original) if sure else None, after=digest(after) if sure else None,
        ),
    )  # fmt: skip


def writes(call: ToolCall) -> tuple[AnySignal, ...]:
    """A file written as a whole."""
    result = call.result
    path = word(result, *PATH) or word(call.input, *PATH)
    new = {"create": True, "update": False}.get(word(result, "type") or "")
    told = text(result, *CONTENT) if new is not None else None
    # What Claude Code stores of an update has its content emptied: then what was asked for is surer.
    content = told or text(call.input, *CONTENT)
    if path is None or content is None or _came_to_nothing(call):
        return active(call)
    if not told and flag(result, "userModified"):
        return (Edited(agent=call.agent, path=path, action="created" if new else "modified"),)
    return (written(path, content, text(result, *ORIGINAL), new=new, agent=call.agent),)


def edits_notebook(call: ToolCall) -> tuple[AnySignal, ...]:
    """A cell of a notebook changed; the result tells the whole file on either side."""
    path = word(call.result, "notebook_path") or word(call.input, *PATH)
    if path is None or _came_to_nothing(call):
        return active(call)
    before, after = text(call.result, "original_file"), text(call.result, "updated_file")
    lines = _lines(before, after, [])
    return (
        Edited(
            agent=call.agent, path=path, before=digest(before), after=digest(after),
            lines_added=lines.added, lines_removed=lines.removed,
        ),
    )  # fmt: skip


def patches(call: ToolCall) -> tuple[AnySignal, ...]:
    """Files changed by a patch; also where a shell is what carries it."""
    names = ("patch", "input", "patchText", "diff", "command", "content")
    found = next((one for name in names if (one := patch_of(call.input.get(name))) is not None), None)
    if found is None or _came_to_nothing(call):
        return active(call)
    return patched(found, agent=call.agent) or active(call)


def deletes(call: ToolCall) -> tuple[AnySignal, ...]:
    """A file removed."""
    path = word(call.input, *PATH)
    if path is None or _came_to_nothing(call):
        return active(call)
    return (Edited(agent=call.agent, path=path, action="deleted"),)


def runs(call: ToolCall) -> tuple[AnySignal, ...]:
    """A shell command. One that only carries a patch is the patch."""
    command = command_of(call.input)
    if command is None:
        return active(call)
    if call.failed is None and "apply_patch" in command and patch_of(command):
        return patches(call)
    return (Ran(agent=call.agent, command=command, code=_code(call), took_ms=call.took_ms),)


def command_of(given: Payload) -> str | None:
    """The command line, as text or as a list of words; a shell that is only the carrier is left out."""
    for name in ("command", "cmd", "script", "commands"):
        value = given.get(name)
        if type(value) is str and value.strip():
            return value
        if type(value) is list and value and all(type(item) is str for item in value):
            words = [item for item in value if type(item) is str]
            carried = len(words) == 3 and words[1] in ("-c", "-lc", "-ic", "-Command", "/c")
            return words[2] if carried else shlex.join(words)
    return None


def asks_for_agent(call: ToolCall) -> tuple[AnySignal, ...]:
    """Before a subagent: what it is to do."""
    if call.id is None:
        return active(call)
    kind, task = _assignment(call.input)
    return (
        Called(
            agent=call.agent, call=call.id, type=kind, task=task, background=flag(call.input, "run_in_background")
        ),
    )


def agent_done(call: ToolCall) -> tuple[AnySignal, ...]:
    """After a subagent: what came of it, or that it goes on in the background."""
    kind, task = _assignment(call.input)
    result = call.result
    agent = word(result, "agentId", "agent_id", "taskId")
    status = word(result, "status")
    if status in ("async_launched", "remote_launched") and call.failed is None:
        if agent is None:
            return active(call)
        return (AgentBegan(agent=agent, type=kind, task=task, background=True, call=call.id),)
    return (
        AgentEnded(
            agent=agent,
            call=call.id,
            type=word(result, "agentType") or kind,
            task=task,
            summary=call.text,
            tokens=number(result, "totalTokens", "total_tokens"),
            took_ms=number(result, "totalDurationMs", "duration_ms") or call.took_ms,
            failed=call.failed,
            stopped=call.stopped,
        ),
    )


def plans(call: ToolCall) -> tuple[AnySignal, ...]:
    """The whole to-do list, as objects or as a list of boxes to tick."""
    if call.failed is not None:
        return active(call)
    for source in (call.input, call.result):
        for name in ("todos", "plan", "items", "tasks", "task_progress", "newTodos"):
            value = source.get(name)
            if type(value) is str and (ticked := checklist(value)):
                return (Planned(agent=call.agent, todos=ticked),)
            if type(value) is list:
                return (Planned(agent=call.agent, todos=tuple(todos_of(source, name))),)
    return active(call)


def plans_one(call: ToolCall) -> tuple[AnySignal, ...]:
    """One entry of the list made. Without its id it could not be told from the others: then somebody else tells."""
    made = part(call.result, "task")
    name, subject = word(made, "id"), word(made, "subject") or word(call.input, "subject")
    if name is None or subject is None or call.failed is not None:
        return active(call)
    return (Planned(agent=call.agent, todos=(Todo(subject, "pending", name),), whole=False),)


def plans_change(call: ToolCall) -> tuple[AnySignal, ...]:
    """One entry changed. An empty text: the entry of that id keeps its own."""
    name, status = word(call.input, "taskId", "task_id", "id"), status_of(call.input.get("status"))
    if name is None or status is None or call.failed is not None or call.result.get("success") is False:
        return active(call)
    return (Planned(agent=call.agent, todos=(Todo(word(call.input, "subject") or "", status, name),), whole=False),)


def lists_plan(call: ToolCall) -> tuple[AnySignal, ...]:
    """The list as it was shown to the agent: what stands in it is so, what does not may only be hidden."""
    todos = tuple(todos_of(call.result, "tasks"))
    return (Planned(agent=call.agent, todos=todos, whole=False),) if todos else active(call)


def waits_for_input(call: ToolCall) -> tuple[AnySignal, ...]:
    """A question to the person."""
    asked = next(
        (question for entry in parts(call.input, "questions") if (question := word(entry, "question"))), None
    )
    return (Waits(agent=call.agent, what="input", text=asked or word(call.input, "question", "message")),)


def waits_for_permission(call: ToolCall) -> tuple[AnySignal, ...]:
    """The person is to allow something."""
    return (Waits(agent=call.agent, what="permission", text=call.tool),)


def _text_of(response: Json) -> str | None:
    """What a response says in words: itself, its content, or the texts of its blocks."""
    value = response
    if type(value) is dict:
        value = next((value[name] for name in ("content", "output", "result", "text") if name in value), None)
    if type(value) is list:
        said = [item["text"] for item in value if type(item) is dict and type(item.get("text")) is str]
        value = "\n".join(str(item) for item in said)
    return value if type(value) is str and value.strip() else None


def _came_to_nothing(call: ToolCall) -> bool:
    return call.failed is not None or flag(call.result, "staged") or word(call.result, "error") is not None


def _assignment(given: Payload) -> tuple[str, str | None]:
    kind = word(given, "subagent_type", "agent_type", "agentType", "agent", "agent_name") or "general-purpose"
    return kind, word(given, "description", "prompt", "task", "message", "instructions")


def _lines(before: str | None, after: str | None, exchanges: list[tuple[str, str, bool]]) -> LineCounts:
    if before is not None and after is not None:
        return counted(before, after)
    if any(every for _, _, every in exchanges) or not exchanges:
        return LineCounts()
    found = [counted(old, new) for old, new, _ in exchanges]
    if any(counts.added is None or counts.removed is None for counts in found):
        return LineCounts()
    return LineCounts(sum(counts.added or 0 for counts in found), sum(counts.removed or 0 for counts in found))


def _code(call: ToolCall) -> int:
    for source in (call.result, part(call.result, "metadata")):
        code = number(source, "exitCode", "exit_code", "exit", "code", "returnCode")
        if code is not None:
            return code
    if call.stopped or flag(call.result, "interrupted"):
        return 130
    if call.failed is None:
        return 0
    said = _CODE.search(call.failed[:200])
    return int(said[1]) or 1 if said else 1


# After a call.
CLAUDE: Final[Table] = {
    "Edit": edits,
    "MultiEdit": edits,
    "Write": writes,
    "NotebookEdit": edits_notebook,
    "Bash": runs,
    "PowerShell": runs,
    "Task": agent_done,
    "Agent": agent_done,
    "TodoWrite": plans,
    "TaskCreate": plans_one,
    "TaskUpdate": plans_change,
    "TaskList": lists_plan,
}
# Before a call.
CLAUDE_BEFORE: Final[Table] = {
    "Task": asks_for_agent,
    "Agent": asks_for_agent,
    "AskUserQuestion": waits_for_input,
    "ExitPlanMode": waits_for_permission,
}
