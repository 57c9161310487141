"""Copilot's hooks: a file of our own among them, for the user or in the repository.

Events have Claude Code's names, which makes Copilot use that dialect. There are no hooks before a tool or a
permission: if one failed, Copilot would refuse, and Holdfast must not stop anybody's work.
"""

from __future__ import annotations

import json
import os
from typing import Final

from holdfast.conversations.adapters.base import Scope
from holdfast.conversations.connect.agent_settings import (
    Command,
    HookMode,
    SettingsChange,
    SettingsEntry,
    settings_in,
)
from holdfast.conversations.connect.mcp_entry import NAME, Server
from holdfast.core.canonical import Json
from holdfast.workspace.agent_dirs import AgentDirs

_FILE: Final = "holdfast.json"
HOOKS: Final[dict[str, HookMode]] = {
    "SessionStart": "ask",
    "UserPromptSubmit": "ask",
    "PostToolUse": "tell",
    "PostToolUseFailure": "tell",
    "Notification": "tell",
    "SubagentStart": "stir",
    "SubagentStop": "stir",
    "ErrorOccurred": "tell",
    "PreCompact": "stir",
    "Stop": "stir",
    "SessionEnd": "stir",
}
_TIMEOUTS: Final[dict[HookMode, int]] = {"tell": 5, "stir": 5, "ask": 10}  # seconds


class CopilotSettings:
    name = "copilot"
    programs = ("copilot",)

    def traces(self, places: AgentDirs) -> tuple[str, ...]:
        return (_home(places),)

    def changes(self, places: AgentDirs, scope: Scope, command: Command) -> tuple[SettingsChange, ...]:
        windows = places.system == "win32"
        hooks: dict[str, Json] = {event: [_hook(mode, command, windows)] for event, mode in HOOKS.items()}
        content = json.dumps({"version": 1, "hooks": hooks}, indent=2) + "\n"
        return (SettingsChange(hook_file(places, scope), content=content.encode()),)

    def server(self, places: AgentDirs, scope: Scope, server: Server) -> SettingsChange | None:
        if scope == "project":
            return None
        entry: dict[str, Json] = {"type": "local", **server.entry, "tools": ["*"]}
        path = os.path.join(_home(places), "mcp-config.json")
        return SettingsChange(path, (SettingsEntry(("mcpServers", NAME), entry, only=True),))

    def obstacles(self, places: AgentDirs, scope: Scope) -> tuple[str, ...]:
        files = [os.path.join(_home(places), "settings.json")]
        if scope == "project":
            files += [places.in_project(".github", "copilot", name) for name in _SETTINGS]
        return tuple(
            f"Hooks are switched off: remove `disableAllHooks` from {path}."
            for path in files
            if settings_in(path, comments=True).get("disableAllHooks") is True
        )


_SETTINGS: Final = ("settings.json", "settings.local.json")


def hook_file(places: AgentDirs, scope: Scope) -> str:
    """Our file in a scope."""
    root = _home(places) if scope == "user" else places.in_project(".github")
    return os.path.join(root, "hooks", _FILE)


def _hook(mode: HookMode, command: Command, windows: bool) -> Json:
    line = command(mode)
    # One shell ignores the other's line: a shared file does nothing on systems it was not made on.
    shell = {"powershell": in_powershell(line)} if windows else {"bash": line}
    return {"type": "command", **shell, "timeoutSec": _TIMEOUTS[mode]}


def in_powershell(line: str) -> str:
    """A command line of cmd, as PowerShell runs it."""
    return "cmd.exe /d /c '" + line.replace("'", "''") + "'"


def _home(places: AgentDirs) -> str:
    return places.under("COPILOT_HOME", ".copilot")


SETTINGS: Final = CopilotSettings()
