"""Whether an agent was ever used here, seen from its directory alone: eight readers take longer to load than most
machines have agents to read. In doubt it was, and its reader looks for itself.
"""

from __future__ import annotations

import os
from typing import Final

from holdfast.capture.places import Places

# The beginning of the variables that lead an agent elsewhere, and the directory it has otherwise.
_HOMES: Final = {
    "claude": ("CLAUDE_", ".claude"),
    "codex": ("CODEX_", ".codex"),
    "gemini": ("GEMINI_", ".gemini"),
    "copilot": ("COPILOT_", ".copilot"),
    "cursor": ("CURSOR_", ".cursor"),
    "cline": ("CLINE_", ".cline"),
}
_DATA: Final = {"opencode": ("OPENCODE_", "opencode"), "goose": ("GOOSE_", "goose")}


def used(name: str, places: Places) -> bool:
    prefix, directory = _HOMES.get(name) or _DATA.get(name) or ("", "")
    if not prefix or places.system == "win32" or any(one.startswith(prefix) for one in places.environ):
        return True
    return os.path.lexists(places.in_home(directory) if name in _HOMES else places.data(directory))
