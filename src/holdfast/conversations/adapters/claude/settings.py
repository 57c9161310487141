"""Where Claude Code keeps its settings, and the hooks in them once it is connected."""

from __future__ import annotations

import os
from typing import Final

from holdfast.conversations.adapters.base import Scope
from holdfast.conversations.adapters.files import list_names
from holdfast.conversations.connect.agent_settings import (
    AgentSettings,
    Command,
    HookMode,
    SettingsChange,
    SettingsEntry,
    settings_in,
)
from holdfast.conversations.connect.mcp_entry import NAME, Server
from holdfast.core.canonical import Json
from holdfast.workspace.agent_dirs import AgentDirs

# Before a tool only what begins or asks something: everything else is reported after it.
BEFORE: Final = "Task|Agent|AskUserQuestion|ExitPlanMode"
HOOKS: Final[dict[str, HookMode]] = {
    "SessionStart": "ask",
    "UserPromptSubmit": "ask",
    "PreToolUse": "tell",
    "PostToolUse": "tell",
    "PostToolUseFailure": "tell",
    "PermissionRequest": "tell",
    "Notification": "tell",
    "Elicitation": "tell",
    "SubagentStart": "stir",
    "SubagentStop": "stir",
    "TaskCreated": "tell",
    "TaskCompleted": "tell",
    "CwdChanged": "tell",
    "PostModelSwitch": "tell",
    "PreCompact": "ask",
    "PostCompact": "tell",
    "Stop": "stir",
    "StopFailure": "stir",
    "SessionEnd": "stir",
}
# Seconds. Nothing takes so long unless the machine is stuck; without a timeout, Claude Code would wait for minutes.
TIMEOUTS: Final[dict[HookMode, int]] = {"tell": 5, "stir": 5, "ask": 10}

_MANAGED: Final = {
    "darwin": "/Library/Application Support/ClaudeCode",
    "win32": "C:\\Program Files\\ClaudeCode",
}
_MAX_FILES: Final = 100


class ClaudeCodeSettings:
    """`AgentSettings` for Claude Code."""

    name = "claude"
    programs: tuple[str, ...] = ("claude",)

    def traces(self, places: AgentDirs) -> tuple[str, ...]:
        return (_home(places), places.in_home(".claude.json"), places.in_project(".claude"))

    def changes(self, places: AgentDirs, scope: Scope, command: Command) -> tuple[SettingsChange, ...]:
        entries = tuple(_entry(event, mode, command) for event, mode in HOOKS.items())
        return (SettingsChange(settings(places, scope), entries),)

    def server(self, places: AgentDirs, scope: Scope, server: Server) -> SettingsChange | None:
        # Not among its other settings: Claude Code looks for servers here.
        own = places.environ.get("CLAUDE_CONFIG_DIR", "").strip()
        user = os.path.join(_home(places), ".claude.json") if own else places.in_home(".claude.json")
        path = user if scope == "user" else places.in_project(".mcp.json")
        return SettingsChange(
            path, (SettingsEntry(("mcpServers", NAME), {"type": "stdio", **server.entry}, only=True),)
        )

    def obstacles(self, places: AgentDirs, scope: Scope) -> tuple[str, ...]:
        obstacles = [
            f"{path} sets disableAllHooks: remove it, or nothing is recorded."
            for path in _own_settings(places, scope)
            if settings_in(path).get("disableAllHooks") is True
        ]
        for path in _managed_settings(places):
            managed = settings_in(path)
            if managed.get("disableAllHooks") not in (None, False, "false"):
                obstacles.append(f"{path} disables all hooks: ask whoever manages this machine.")
            if managed.get("allowManagedHooksOnly") is True or _only_plugins(
                managed.get("strictPluginOnlyCustomization")
            ):
                obstacles.append(f"{path} does not allow hooks of your own: ask whoever manages this machine.")
        return tuple(obstacles)


def settings(places: AgentDirs, scope: Scope) -> str:
    """The settings file of a scope."""
    if scope == "user":
        return os.path.join(_home(places), "settings.json")
    return places.in_project(".claude", "settings.json")


def status_line(command: str) -> SettingsEntry:
    """Holdfast's status line, for whoever has none."""
    return SettingsEntry(("statusLine",), {"type": "command", "command": command}, only=True)


def _entry(event: str, mode: HookMode, command: Command) -> SettingsEntry:
    hook: dict[str, Json] = {"type": "command", "command": command(mode), "timeout": TIMEOUTS[mode]}
    group: dict[str, Json] = {"matcher": BEFORE} if event == "PreToolUse" else {}
    return SettingsEntry(("hooks", event), group | {"hooks": [hook]})


def _home(places: AgentDirs) -> str:
    return places.under("CLAUDE_CONFIG_DIR", ".claude")


def _own_settings(places: AgentDirs, scope: Scope) -> tuple[str, ...]:
    # Settings of all places are merged: each holds for the hooks of all others.
    local = places.in_project(".claude", "settings.local.json")
    both = (settings(places, "user"), settings(places, "project"), local)
    return both if scope == "user" else both[1:] + both[:1]


def _managed_settings(places: AgentDirs) -> list[str]:
    root = _MANAGED.get(places.system, "/etc/claude-code")
    pieces = os.path.join(root, "managed-settings.d")
    listed = [name for name in list_names(pieces) if name.endswith(".json")]
    return [
        os.path.join(root, "managed-settings.json"),
        *(os.path.join(pieces, name) for name in listed[:_MAX_FILES]),
    ]


def _only_plugins(value: Json) -> bool:
    return value is True or (type(value) is list and "hooks" in value)


SETTINGS: Final[AgentSettings] = ClaudeCodeSettings()
