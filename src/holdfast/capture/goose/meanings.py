"""What Goose's tools mean. A tool is named after the extension it belongs to (`developer__shell`), or stands alone in
versions and extensions that leave the prefix out; only Goose's own extensions are read, another's `write` may be
anything.
"""

from __future__ import annotations

from typing import Final

from holdfast.capture.payload import flag, text, word
from holdfast.capture.signals import AgentEnded, AnySignal, Called
from holdfast.capture.tools import Call, Meaning, Table, active, edits, patches, plans, runs, writes
from holdfast.core.canonical import Json

AGENT_TYPE: Final = "subagent"


def exchanges(call: Call) -> tuple[AnySignal, ...]:
    """`edit`: Goose says before and after where others say old and new."""
    return edits(call._replace(input=_renamed(call, {"before": "old_string", "after": "new_string"})))


def edits_text(call: Call) -> tuple[AnySignal, ...]:
    """`text_editor`: one tool of older versions for reading, writing and changing, told apart by its `command`."""
    match word(call.input, "command"):
        case "write" | "create":
            return writes(call)
        case "str_replace" | "insert" | "edit_file" | "undo_edit":
            return patches(call) if text(call.input, "diff") else edits(call)
    return active(call)


def writes_list(call: Call) -> tuple[AnySignal, ...]:
    """The to-do list, written whole as text with boxes to tick."""
    return plans(call._replace(input=_renamed(call, {"content": "todos"})))


def calls_agent(call: Call) -> tuple[AnySignal, ...]:
    """Before a subagent."""
    if call.id is None:
        return active(call)
    kind, task = _assignment(call)
    aside = flag(call.input, "async")
    return (Called(agent=call.agent, call=call.id, type=kind, task=task, background=aside, begins=not aside),)


def agent_done(call: Call) -> tuple[AnySignal, ...]:
    """After a subagent; of one in the background no hook tells any more."""
    if call.id is None or (flag(call.input, "async") and call.failed is None):
        return active(call)
    kind, task = _assignment(call)
    return (AgentEnded(call=call.id, type=kind, task=task, summary=call.text, failed=call.failed),)


def _assignment(call: Call) -> tuple[str, str | None]:
    kind = word(call.input, "source", "subrecipe", "agent") or AGENT_TYPE
    return kind, word(call.input, "instructions", "task", "prompt", "message")


def _renamed(call: Call, names: dict[str, str]) -> dict[str, Json]:
    return {names.get(name, name): value for name, value in call.input.items()}


def _with_prefix(extension: str, tools: dict[str, Meaning]) -> dict[str, Meaning]:
    return {**tools, **{f"{extension}__{name}": meaning for name, meaning in tools.items()}}


BEFORE: Final[Table] = _with_prefix("summon", {"delegate": calls_agent, "subagent": calls_agent})
AFTER: Final[Table] = {
    **_with_prefix("developer", {"shell": runs, "write": writes, "edit": exchanges, "text_editor": edits_text}),
    **_with_prefix("todo", {"todo_write": writes_list}),
    "todo__write": writes_list,
    **_with_prefix("summon", {"delegate": agent_done, "subagent": agent_done}),
}
