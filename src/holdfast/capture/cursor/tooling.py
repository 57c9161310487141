"""What the tools of Cursor mean, after a call and in its transcripts. A changed file is told twice to hooks, by the
tool and by an event of its own, and so is a subagent: hooks hear both from the events.
"""

from __future__ import annotations

from typing import Final

from holdfast.capture.payload import flag
from holdfast.capture.signals import AnySignal, Planned
from holdfast.capture.todos import todos_of
from holdfast.capture.tools import (
    Call,
    Table,
    active,
    agent_done,
    asks_for_agent,
    deletes,
    edits,
    patches,
    runs,
    waits_for_input,
    writes,
)


def _plans(call: Call) -> tuple[AnySignal, ...]:
    """To-dos: the whole list, or entries to be merged into it."""
    todos = tuple(todos_of(call.input, "todos"))
    if call.failed is not None or type(call.input.get("todos")) is not list:
        return active(call)
    return (Planned(agent=call.agent, todos=todos, whole=not flag(call.input, "merge")),)


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
# In transcripts nobody else tells.
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
