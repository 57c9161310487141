"""Where Claude Desktop looks for MCP servers. It only has settings of the person, with nothing else of ours."""

from __future__ import annotations

import os
from typing import Final

from holdfast.conversations.adapters.base import Scope
from holdfast.conversations.connect.agent_settings import AgentSettings, SettingsChange, SettingsEntry
from holdfast.conversations.connect.mcp_entry import NAME, Server
from holdfast.workspace.agent_dirs import AgentDirs


class ClaudeDesktopSettings:
    """`AgentSettings` for Claude Desktop."""

    name = "claude-desktop"
    programs: tuple[str, ...] = ("claude-desktop",)

    def traces(self, places: AgentDirs) -> tuple[str, ...]:
        return (_directory(places),)

    def changes(self, *_: object, **__: object) -> tuple[SettingsChange, ...]:
        return ()

    def server(self, places: AgentDirs, scope: Scope, server: Server) -> SettingsChange | None:
        if scope == "project":
            return None
        path = os.path.join(_directory(places), "claude_desktop_config.json")
        return SettingsChange(path, (SettingsEntry(("mcpServers", NAME), server.entry, only=True),))

    def obstacles(self, *_: object, **__: object) -> tuple[str, ...]:
        return ()


def _directory(places: AgentDirs) -> str:
    if places.system == "darwin":
        return places.in_home("Library", "Application Support", "Claude")
    if places.system == "win32":
        return os.path.join(places.under("APPDATA", "AppData", "Roaming"), "Claude")
    return places.config("Claude")


SETTINGS: Final[AgentSettings] = ClaudeDesktopSettings()
