"""What a tool call means, whichever agent made it: tables from the names of an agent's tools to meanings.

The meanings accept all the names that agents give to the same argument or result, so that an agent brings only its
own table. A tool in no table is a sign of activity and nothing more.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from holdfast.conversations.adapters.base import Payload
from holdfast.conversations.adapters.edits import (
    LineCounts,
    count_changed_lines,
    count_patch_lines,
    find_patch,
    hash_content,
    is_exact,
    line_growth,
    parse_patch,
    replace_in_turn,
    replace_text,
    whole_file_edit,
)
from holdfast.conversations.adapters.errors import MAX_MESSAGE_LENGTH, categorize
from holdfast.conversations.adapters.fields import get_flag, get_int, get_object, get_objects, get_string, get_text
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
    TodoStatus,
    Waits,
)
from holdfast.core.canonical import Json
from holdfast.core.text import shorten


class ToolCall(NamedTuple):
    """One tool call: what was asked for and, once it is over, its result."""

    tool: str
    input: Payload
    result: Payload  # the response, where it is an object
    text: str | None  # the text of the response
    agent: str | None = None  # the subagent that called
    id: str | None = None
    failed: str | None = None
    took_ms: int | None = None
    stopped: bool = False  # it failed because somebody ended it


Meaning: TypeAlias = Callable[[ToolCall], tuple[AnySignal, ...]]
Table: TypeAlias = Mapping[str, Meaning]

PATH_FIELDS: Final = (
    "file_path",
    "filePath",
    "path",
    "absolute_path",
    "target_file",
    "filename",
    "file",
    "notebook_path",
)
OLD_FIELDS: Final = ("old_string", "oldString", "old_str", "oldText", "old_text", "old_source")
NEW_FIELDS: Final = ("new_string", "newString", "new_str", "newText", "new_text", "new_source")
CONTENT_FIELDS: Final = ("content", "contents", "file_text", "fileText", "text")
ORIGINAL_FIELDS: Final = ("originalFile", "original_file", "originalContent", "original_content")

_EXIT_CODE = re.compile(r"\bexit(?:ed with)?(?: code| status)?:?\s+(\d{1,3})\b", re.IGNORECASE)


def signals_of(
    tool: str,
    input: Json,  # noqa: A002 - every agent's name for it
    response: Json = None,
    *,
    agent: str | None = None,
    call: str | None = None,
    failed: str | None = None,
    took_ms: int | None = None,
    stopped: bool = False,
    table: Table | None = None,
) -> tuple[AnySignal, ...]:
    """The signals of a tool call by a table of names, Claude Code's unless another is given."""
    meaning = (CLAUDE if table is None else table).get(tool, active)
    arguments: Payload = input if type(input) is dict else {"patch": input} if type(input) is str else {}
    result: Payload = response if type(response) is dict else {}
    return meaning(ToolCall(tool, arguments, result, _text_of(response), agent, call, failed, took_ms, stopped))


def active(call: ToolCall) -> tuple[AnySignal, ...]:
    """Only activity. A failure that the agent can repair itself is no error; one from outside is."""
    activity = Active(agent=call.agent)
    if call.failed is None or call.stopped:
        return (activity,)
    # Even where it speaks of a limit: that is a limit of what the tool asked, not of the agent's account.
    category = categorize(None, call.failed)
    if category == "logical":
        return (activity,)
    message = shorten(f"{call.tool}: {call.failed[:2000]}", MAX_MESSAGE_LENGTH)
    return (activity, Erred(agent=call.agent, message=message, category=category))


def edits(call: ToolCall) -> tuple[AnySignal, ...]:
    """Texts in a file replaced by others: one, or several in turn."""
    result = call.result
    path = get_text(result, *PATH_FIELDS) or get_text(call.input, *PATH_FIELDS)
    if path is None or _changed_nothing(call):
        return active(call)
    several = [
        (old, new, get_flag(entry, "replace_all"))
        for entry in get_objects(call.input, "edits", "replacements")
        if (old := get_string(entry, *OLD_FIELDS)) is not None and (new := get_string(entry, *NEW_FIELDS)) is not None
    ]
    old = get_string(result, *OLD_FIELDS) if not several else None
    new = get_string(result, *NEW_FIELDS) if not several else None
    old = old if old is not None else get_string(call.input, *OLD_FIELDS)
    new = new if new is not None else get_string(call.input, *NEW_FIELDS)
    original = get_string(result, *ORIGINAL_FIELDS) or None  # Claude Code stores it empty
    after: str | None = None
    if original is not None and not get_flag(result, "userModified"):
        if several:
            after = replace_in_turn(original, several)
        elif old is not None and new is not None:
            every = get_flag(call.input, "replace_all") or get_flag(result, "replaceAll")
            after = replace_text(original, old, new, every=every, grown=line_growth(result))
    created = original is None and old == "" and not several
    if created and new is not None:
        return (whole_file_edit(path, new, None, new=True, agent=call.agent),)
    lines = count_patch_lines(result)
    if lines.added is None:
        lines = _count_lines(original, after, [(old, new, False)] if old is not None and new is not None else several)
    is_certain = is_exact(path, original)
    return (
        Edited(
            agent=call.agent, path=path, old=old, new=new, lines_added=lines.added, lines_removed=lines.removed,
            before=hash_content(original) if is_certain else None, after=hash_content(after) if is_certain else None,
        ),
    )  # fmt: skip


def writes(call: ToolCall) -> tuple[AnySignal, ...]:
    """A file written as a whole."""
    result = call.result
    path = get_text(result, *PATH_FIELDS) or get_text(call.input, *PATH_FIELDS)
    new = {"create": True, "update": False}.get(get_text(result, "type") or "")
    reported = get_string(result, *CONTENT_FIELDS) if new is not None else None
    # Claude Code stores updates with empty content: then the input is more reliable.
    content = reported or get_string(call.input, *CONTENT_FIELDS)
    if path is None or content is None or _changed_nothing(call):
        return active(call)
    if not reported and get_flag(result, "userModified"):
        return (Edited(agent=call.agent, path=path, action="created" if new else "modified"),)
    return (whole_file_edit(path, content, get_string(result, *ORIGINAL_FIELDS), new=new, agent=call.agent),)


def edits_notebook(call: ToolCall) -> tuple[AnySignal, ...]:
    """A changed cell of a notebook; the result has the whole file before and after."""
    path = get_text(call.result, "notebook_path") or get_text(call.input, *PATH_FIELDS)
    if path is None or _changed_nothing(call):
        return active(call)
    before, after = get_string(call.result, "original_file"), get_string(call.result, "updated_file")
    lines = _count_lines(before, after, [])
    return (
        Edited(
            agent=call.agent, path=path, before=hash_content(before), after=hash_content(after),
            lines_added=lines.added, lines_removed=lines.removed,
        ),
    )  # fmt: skip


def patches(call: ToolCall) -> tuple[AnySignal, ...]:
    """Files changed by a patch, perhaps one that a shell command carries."""
    names = ("patch", "input", "patchText", "diff", "command", "content")
    patch = next((text for name in names if (text := find_patch(call.input.get(name))) is not None), None)
    if patch is None or _changed_nothing(call):
        return active(call)
    return parse_patch(patch, agent=call.agent) or active(call)


def deletes(call: ToolCall) -> tuple[AnySignal, ...]:
    """A file removed."""
    path = get_text(call.input, *PATH_FIELDS)
    if path is None or _changed_nothing(call):
        return active(call)
    return (Edited(agent=call.agent, path=path, action="deleted"),)


def runs(call: ToolCall) -> tuple[AnySignal, ...]:
    """A shell command, or the patch that it only carries."""
    command = command_of(call.input)
    if command is None:
        return active(call)
    if call.failed is None and "apply_patch" in command and find_patch(command):
        return patches(call)
    return (Ran(agent=call.agent, command=command, code=_exit_code(call), took_ms=call.took_ms),)


def command_of(arguments: Payload) -> str | None:
    """The command line, given as text or as a list of words, without a shell that only carries it."""
    for name in ("command", "cmd", "script", "commands"):
        value = arguments.get(name)
        if type(value) is str and value.strip():
            return value
        if type(value) is list and value and all(type(item) is str for item in value):
            words = [item for item in value if type(item) is str]
            in_shell = len(words) == 3 and words[1] in ("-c", "-lc", "-ic", "-Command", "/c")
            return words[2] if in_shell else shlex.join(words)
    return None


def asks_for_agent(call: ToolCall) -> tuple[AnySignal, ...]:
    """Before a subagent: what it is to do."""
    if call.id is None:
        return active(call)
    kind, task = _assignment(call.input)
    return (
        Called(
            agent=call.agent, call=call.id, type=kind, task=task, background=get_flag(call.input, "run_in_background")
        ),
    )


def agent_done(call: ToolCall) -> tuple[AnySignal, ...]:
    """After a subagent: its result, or that it goes on in the background."""
    kind, task = _assignment(call.input)
    result = call.result
    agent = get_text(result, "agentId", "agent_id", "taskId")
    status = get_text(result, "status")
    if status in ("async_launched", "remote_launched") and call.failed is None:
        if agent is None:
            return active(call)
        return (AgentBegan(agent=agent, type=kind, task=task, background=True, call=call.id),)
    return (
        AgentEnded(
            agent=agent,
            call=call.id,
            type=get_text(result, "agentType") or kind,
            task=task,
            summary=call.text,
            tokens=get_int(result, "totalTokens", "total_tokens"),
            took_ms=get_int(result, "totalDurationMs", "duration_ms") or call.took_ms,
            failed=call.failed,
            stopped=call.stopped,
        ),
    )


def plans(call: ToolCall) -> tuple[AnySignal, ...]:
    """The whole to-do list, as objects or as a list of checkboxes."""
    if call.failed is not None:
        return active(call)
    for source in (call.input, call.result):
        for name in ("todos", "plan", "items", "tasks", "task_progress", "newTodos"):
            value = source.get(name)
            if type(value) is str and (todos := checklist(value)):
                return (Planned(agent=call.agent, todos=todos),)
            if type(value) is list:
                return (Planned(agent=call.agent, todos=tuple(todos_of(source, name))),)
    return active(call)


def plans_one(call: ToolCall) -> tuple[AnySignal, ...]:
    """One new entry of the list. Without an id it cannot be identified: then other events report it."""
    task = get_object(call.result, "task")
    name, subject = get_text(task, "id"), get_text(task, "subject") or get_text(call.input, "subject")
    if name is None or subject is None or call.failed is not None:
        return active(call)
    return (Planned(agent=call.agent, todos=(Todo(subject, "pending", name),), whole=False),)


def plans_change(call: ToolCall) -> tuple[AnySignal, ...]:
    """One changed entry. Where the text is empty, the entry of that id keeps its own."""
    name, status = get_text(call.input, "taskId", "task_id", "id"), status_of(call.input.get("status"))
    if name is None or status is None or call.failed is not None or call.result.get("success") is False:
        return active(call)
    return (
        Planned(agent=call.agent, todos=(Todo(get_text(call.input, "subject") or "", status, name),), whole=False),
    )


def lists_plan(call: ToolCall) -> tuple[AnySignal, ...]:
    """The list as it was shown to the agent: what it has is so, what it lacks may only be hidden."""
    todos = tuple(todos_of(call.result, "tasks"))
    return (Planned(agent=call.agent, todos=todos, whole=False),) if todos else active(call)


def waits_for_input(call: ToolCall) -> tuple[AnySignal, ...]:
    """A question to the person."""
    text = next(
        (question for entry in get_objects(call.input, "questions") if (question := get_text(entry, "question"))),
        None,
    )
    return (Waits(agent=call.agent, what="input", text=text or get_text(call.input, "question", "message")),)


def waits_for_permission(call: ToolCall) -> tuple[AnySignal, ...]:
    """A request for the person's permission."""
    return (Waits(agent=call.agent, what="permission", text=call.tool),)


def _text_of(response: Json) -> str | None:
    """The text of a response: itself, its content, or the texts of its blocks."""
    value = response
    if type(value) is dict:
        value = next((value[name] for name in ("content", "output", "result", "text") if name in value), None)
    if type(value) is list:
        texts = [item["text"] for item in value if type(item) is dict and type(item.get("text")) is str]
        value = "\n".join(str(text) for text in texts)
    return value if type(value) is str and value.strip() else None


def _changed_nothing(call: ToolCall) -> bool:
    return call.failed is not None or get_flag(call.result, "staged") or get_text(call.result, "error") is not None


def _assignment(arguments: Payload) -> tuple[str, str | None]:
    kind = get_text(arguments, "subagent_type", "agent_type", "agentType", "agent", "agent_name") or "general-purpose"
    return kind, get_text(arguments, "description", "prompt", "task", "message", "instructions")


def _count_lines(before: str | None, after: str | None, replacements: list[tuple[str, str, bool]]) -> LineCounts:
    if before is not None and after is not None:
        return count_changed_lines(before, after)
    if any(every for _, _, every in replacements) or not replacements:
        return LineCounts()
    counts = [count_changed_lines(old, new) for old, new, _ in replacements]
    if any(count.added is None or count.removed is None for count in counts):
        return LineCounts()
    return LineCounts(sum(count.added or 0 for count in counts), sum(count.removed or 0 for count in counts))


def _exit_code(call: ToolCall) -> int:
    for source in (call.result, get_object(call.result, "metadata")):
        code = get_int(source, "exitCode", "exit_code", "exit", "code", "returnCode")
        if code is not None:
            return code
    if call.stopped or get_flag(call.result, "interrupted"):
        return 130
    if call.failed is None:
        return 0
    match = _EXIT_CODE.search(call.failed[:200])
    return int(match[1]) or 1 if match else 1


# ── to-do lists ──────────────────────────────────────────────────────────────────────────────────────────

MAX_TODOS: Final = 500
_TODO_STATUS: Final[dict[str, TodoStatus]] = {
    "pending": "pending", "todo": "pending", "open": "pending", "not_started": "pending", "blocked": "pending",
    "in_progress": "in_progress", "inprogress": "in_progress", "active": "in_progress", "doing": "in_progress",
    "completed": "completed", "complete": "completed", "done": "completed",
    "deleted": "dropped", "cancelled": "dropped", "canceled": "dropped", "dropped": "dropped", "skipped": "dropped",
}  # fmt: skip
_CHECKBOX: Final = re.compile(r"^[ \t]{0,20}(?:[-*+]|\d{1,4}[.)]) {1,4}\[([ xX~/-])\] {1,4}(\S.*)$", re.MULTILINE)
_CHECKBOX_STATUS: Final[dict[str, TodoStatus]] = {" ": "pending", "x": "completed", "-": "dropped"}


def todos_of(source: Payload, name: str) -> Iterator[Todo]:
    """The entries of a list of objects."""
    for entry in islice(get_objects(source, name), MAX_TODOS):
        content = get_text(entry, "content", "text", "description", "title", "step", "subject", "task")
        if content is not None:
            yield Todo(content, status_of(entry.get("status")) or "pending", get_text(entry, "id"))


def checklist(value: str) -> tuple[Todo, ...]:
    """The entries of a list of checkboxes, such as `- [x] Done`."""
    matches = islice(_CHECKBOX.finditer(value), MAX_TODOS)
    return tuple(Todo(match[2].strip(), _CHECKBOX_STATUS.get(match[1].lower(), "in_progress")) for match in matches)


def status_of(value: Json) -> TodoStatus | None:
    return _TODO_STATUS.get(value.strip().lower().replace("-", "_").replace(" ", "_")) if type(value) is str else None


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
