"""Holdfast as a plugin of Goose: a directory of its own below `.agents/plugins`, which Goose finds by itself.

The directory belongs to "Open Plugins", not to Goose alone; other programs that read it would run the same commands.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

from holdfast.conversations.adapters.base import Scope
from holdfast.conversations.adapters.fields import get_object
from holdfast.conversations.connect.agent_settings import (
    AgentSettings,
    Command,
    HookMode,
    SettingsChange,
    content,
    settings_in,
)
from holdfast.core.canonical import Json
from holdfast.workspace.agent_dirs import AgentDirs

PLUGIN: Final = "holdfast"
# Before a tool only what begins something: everything else is reported after it. A hook without output blocks
# nothing.
BEFORE: Final = "(^|__)(delegate|subagent)$"
HOOKS: Final[dict[str, HookMode]] = {
    "SessionStart": "ask",
    "UserPromptSubmit": "ask",
    "PreToolUse": "stir",
    "PostToolUse": "tell",
    "PostToolUseFailure": "tell",
    "Stop": "stir",
    "SessionEnd": "stir",
}
TIMEOUTS: Final[dict[HookMode, int]] = {"tell": 5, "stir": 5, "ask": 10}  # seconds
_ROOT: Final = "GOOSE_PATH_ROOT"


class GooseSettings:
    """`AgentSettings` for Goose."""

    name = "goose"
    programs: tuple[str, ...] = ("goose",)

    def traces(self, places: AgentDirs) -> tuple[str, ...]:
        return (_config(places), data(places))

    def changes(self, places: AgentDirs, scope: Scope, command: Command) -> tuple[SettingsChange, ...]:
        root = plugin(places, scope)
        manifest: dict[str, Json] = {
            "name": PLUGIN,
            "version": "1.0.0",
            "description": "Keeps the sessions of this agent with Holdfast",
        }
        hooks: dict[str, Json] = {"hooks": {event: [_rule(event, how, command)] for event, how in HOOKS.items()}}
        return (
            SettingsChange(os.path.join(root, "plugin.json"), content=_written(manifest)),
            SettingsChange(os.path.join(root, "hooks", "hooks.json"), content=_written(hooks)),
        )

    def server(self, *_: object, **__: object) -> None:
        return None  # its servers are in a YAML file, among all its other settings

    def obstacles(self, places: AgentDirs, scope: Scope) -> tuple[str, ...]:
        obstacles: list[str] = []
        path = _disabling(places)
        if path is not None:
            obstacles.append(f"{path} disables the plugin {PLUGIN}: remove it from disabledPlugins.")
        config = os.path.join(_config(places), "config.yaml")
        if _switched_off(config, plugin(places, scope)):
            obstacles.append(f"{config} disables the plugin {PLUGIN}: set enabled to true under plugins.")
        if places.system == "win32":
            obstacles.append("Goose runs hooks with sh: put that of Git for Windows on the PATH.")
        return tuple(obstacles)


def plugin(places: AgentDirs, scope: Scope) -> str:
    """The directory of Holdfast's plugin."""
    if scope == "project":
        return places.in_project(".agents", "plugins", PLUGIN)
    return os.path.join(places.under(_ROOT), ".agents", "plugins", PLUGIN)


def data(places: AgentDirs) -> str:
    """Where Goose keeps its data."""
    return _custom_directory(places, "data") or places.data("goose")


def _config(places: AgentDirs) -> str:
    return _custom_directory(places, "config") or places.config("goose")


def _custom_directory(places: AgentDirs, name: str) -> str | None:
    """A directory that is not where XDG has it: below a root that a variable names, or on Windows."""
    if places.environ.get(_ROOT, "").strip():
        return os.path.join(places.under(_ROOT), name)
    if places.system == "win32":
        return os.path.join(places.under("APPDATA", "AppData", "Roaming"), "Block", "goose", name)
    return None


def _rule(event: str, mode: HookMode, command: Command) -> dict[str, Json]:
    action: dict[str, Json] = {"type": "command", "command": command(mode), "timeout": TIMEOUTS[mode]}
    matcher: dict[str, Json] = {"matcher": BEFORE} if event == "PreToolUse" else {}
    return matcher | {"hooks": [action]}


def _written(value: dict[str, Json]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _disabling(places: AgentDirs) -> str | None:
    """The settings file that disables the plugin: the nearest that names it decides."""
    for path in (
        places.in_project(".config", "goose", "settings.local.json"),
        places.in_project(".config", "goose", "settings.json"),
        os.path.join(places.under(_ROOT), ".config", "goose", "settings.json"),
    ):
        read = settings_in(path)
        for field in ("disabledPlugins", "enabledPlugins"):
            names = read.get(field)
            if type(names) is list and PLUGIN in names:
                return path if field == "disabledPlugins" else None
    return None


def _switched_off(path: str, root: str) -> bool:
    """Whether Goose's own list of plugins has this one, by its directory, switched off."""
    written = content(path)
    if b"plugins" not in written:
        return False
    from ruamel.yaml import YAML  # slow to load, and few people have plugins there
    from ruamel.yaml.error import YAMLError

    try:
        config = YAML(typ="safe", pure=True).load(written)
    except (YAMLError, ValueError, RecursionError, TypeError, AttributeError):
        return False
    entry = get_object(get_object(config, "plugins"), root) if type(config) is dict else {}
    return entry.get("enabled") is False


SETTINGS: Final[AgentSettings] = GooseSettings()
