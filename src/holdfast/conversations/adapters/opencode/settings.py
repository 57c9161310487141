"""opencode's settings: a plugin of our own among its plugins, with the command lines written into it."""

from __future__ import annotations

import json
import os
import re
from importlib.resources import files
from typing import Final, get_args

from holdfast.conversations.adapters.base import Scope
from holdfast.conversations.connect.agent_settings import Command, HookMode, SettingsChange, SettingsEntry
from holdfast.conversations.connect.mcp_entry import NAME, Server
from holdfast.core.canonical import Json
from holdfast.workspace.agent_dirs import AgentDirs

_FILE: Final = "holdfast.js"
_SCHEMA: Final = "https://opencode.ai/config.json"


class OpencodeSettings:
    name = "opencode"
    programs = ("opencode",)

    def traces(self, places: AgentDirs) -> tuple[str, ...]:
        return places.data("opencode"), places.config("opencode"), places.in_project(".opencode")

    def changes(self, places: AgentDirs, scope: Scope, command: Command) -> tuple[SettingsChange, ...]:
        return (SettingsChange(plugin(places, scope), content=render_plugin(command)),)

    def server(self, places: AgentDirs, scope: Scope, server: Server) -> SettingsChange | None:
        entry: dict[str, Json] = {"type": "local", "command": [server.command, *server.args], "enabled": True}
        # opencode would otherwise add the first line by itself.
        entries = (SettingsEntry(("$schema",), _SCHEMA, only=True), SettingsEntry(("mcp", NAME), entry, only=True))
        return SettingsChange(config(places, scope), entries)

    def obstacles(self, places: AgentDirs, scope: Scope) -> tuple[str, ...]:
        obstacles = []
        if _is_set(places, "OPENCODE_PURE"):
            obstacles.append("OPENCODE_PURE is set, so opencode loads no plugins: remove it from the environment.")
        if scope == "project" and _is_set(places, "OPENCODE_DISABLE_PROJECT_CONFIG"):
            obstacles.append(
                "OPENCODE_DISABLE_PROJECT_CONFIG is set, so opencode ignores the project's settings: "
                "remove it from the environment, or connect for the user."
            )
        return tuple(obstacles)


def plugin(places: AgentDirs, scope: Scope) -> str:
    """The plugin file of a scope."""
    root = places.config("opencode") if scope == "user" else places.in_project(".opencode")
    return os.path.join(root, "plugins", _FILE)


def config(places: AgentDirs, scope: Scope) -> str:
    """The settings file of a scope, by whichever of its names exists."""
    root = places.config("opencode") if scope == "user" else places.project
    default, other = os.path.join(root, "opencode.json"), os.path.join(root, "opencode.jsonc")
    return other if os.path.lexists(other) and not os.path.lexists(default) else default


def render_plugin(command: Command) -> bytes:
    """The plugin with its command lines as JSON strings: whatever is in them stays text."""
    lines: dict[str, str] = {f'"@{mode}@"': json.dumps(command(mode)) for mode in get_args(HookMode)}
    text = files(__package__).joinpath(_FILE).read_text(encoding="utf-8")
    return re.sub('"@[a-z]+@"', lambda match: lines[match[0]], text).encode()


def _is_set(places: AgentDirs, variable: str) -> bool:
    return places.environ.get(variable, "").strip().lower() not in ("", "0", "false")


SETTINGS: Final = OpencodeSettings()
