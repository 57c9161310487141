"""What Copilot's tools mean, by its own names and by those of Claude Code, under which it speaks to hooks of that
dialect. What it is given differs by the tool's name alone; what comes of it is text for the model.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.capture.tools import Table, active, deletes, edits, patches, plans, runs, waits_for_input, writes
from holdfast.core.canonical import Json

AFTER: Final[Table] = {
    "create": writes,
    "Write": writes,
    "edit": edits,
    "Edit": edits,
    "MultiEdit": edits,
    "delete": deletes,
    "apply_patch": patches,
    "update_todo": plans,
    "bash": runs,
    "Bash": runs,
    "powershell": runs,
    "PowerShell": runs,
    # Subagents tell of themselves.
    "task": active,
    "Agent": active,
    "Task": active,
}
BEFORE: Final[Table] = {"ask_user": waits_for_input, "AskUserQuestion": waits_for_input}
AGENTS: Final = frozenset({"task", "Agent", "Task"})
_NEW: Final = frozenset({"create", "Write"})
_SHELLS: Final = frozenset({"bash", "Bash", "powershell", "PowerShell"})
# At the end of what a command printed.
_CODE: Final = re.compile(r"exit(?:ed with)? (?:exit )?code:? (\d{1,10})>?\s*\Z")


def outcome(tool: str, said: str | None) -> Json:
    """What came of a call, in the words that the meanings know."""
    if tool in _NEW:
        return {"type": "create"}  # it refuses to write over a file
    if tool in _SHELLS:
        code = _CODE.search((said or "")[-200:])
        return {"exitCode": int(code[1])} if code else {}
    return {}
