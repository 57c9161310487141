"""Holdfast as a plugin of Goose: a directory of its own below `.agents/plugins`, which Goose finds by itself.

The directory is that of "Open Plugins" and not of Goose alone; whoever else reads it one day runs the same commands.
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
    Manner,
    SettingsChange,
    content,
    settings_in,
)
from holdfast.core.canonical import Json
from holdfast.workspace.agent_dirs import AgentDirs

PLUGIN: Final = "holdfast"
# Before a tool only what begins something: everything else is told after it. Nothing is ever held up by a hook that
# says nothing.
BEFORE: Final = "(^|__)(delegate|subagent)$"
HOOKS: Final[dict[str, Manner]] = {
    "SessionStart": "ask",
    "UserPromptSubmit": "ask",
    "PreToolUse": "stir",
    "PostToolUse": "tell",
    "PostToolUseFailure": "tell",
    "Stop": "stir",
    "SessionEnd": "stir",
}
PATIENCE: Final[dict[Manner, int]] = {"tell": 5, "stir": 5, "ask": 10}  # seconds
_ROOT: Final = "GOOSE_PATH_ROOT"


class GooseSettings:
    """`AgentSettings` for Goose."""

    name = "goose"
    programs: tuple[str, ...] = ("goose",)

    def traces(self, places: AgentDirs) -> tuple[str, ...]:
        return (_config(places), data(places))

    def changes(self, places: AgentDirs, scope: Scope, command: Command) -> tuple[SettingsChange, ...]:
        top = plugin(places, scope)
        manifest: dict[str, Json] = {
            "name": PLUGIN,
            "version": "1.0.0",
            "description": "Keeps the sessions of this agent with Holdfast",
        }
        hooks: dict[str, Json] = {"hooks": {event: [_rule(event, how, command)] for event, how in HOOKS.items()}}
        return (
            SettingsChange(os.path.join(top, "plugin.json"), content=_written(manifest)),
            SettingsChange(os.path.join(top, "hooks", "hooks.json"), content=_written(hooks)),
        )

    def server(self, *_: object, **__: object) -> None:
        return None  # its servers stand in YAML, among everything else it is told

    def obstacles(self, places: AgentDirs, scope: Scope) -> tuple[str, ...]:
        found: list[str] = []
        path = _disabling(places)
        if path is not None:
            found.append(f"{path} disables the plugin {PLUGIN}: remove it from disabledPlugins.")
        config = os.path.join(_config(places), "config.yaml")
        if _switched_off(config, plugin(places, scope)):
            found.append(f"{config} disables the plugin {PLUGIN}: set enabled to true under plugins.")
        if places.system == "win32":
            found.append("Goose runs hooks with sh: have the one of Git for Windows on the PATH.")
        return tuple(found)


def plugin(places: AgentDirs, scope: Scope) -> str:
    """The directory of Holdfast's plugin."""
    if scope == "project":
        return places.in_project(".agents", "plugins", PLUGIN)
    return os.path.join(places.under(_ROOT), ".agents", "plugins", PLUGIN)


def data(places: AgentDirs) -> str:
    """Where Goose keeps what it remembers."""
    return _apart(places, "data") or places.data("goose")


def _config(places: AgentDirs) -> str:
    return _apart(places, "config") or places.config("goose")


def _apart(places: AgentDirs, what: str) -> str | None:
    """Where it is when it is not where XDG has it: below a root that is named, or on Windows."""
    if places.environ.get(_ROOT, "").strip():
        return os.path.join(places.under(_ROOT), what)
    if places.system == "win32":
        return os.path.join(places.under("APPDATA", "AppData", "Roaming"), "Block", "goose", what)
    return None


def _rule(event: str, manner: Manner, command: Command) -> dict[str, Json]:
    action: dict[str, Json] = {"type": "command", "command": command(manner), "timeout": PATIENCE[manner]}
    matcher: dict[str, Json] = {"matcher": BEFORE} if event == "PreToolUse" else {}
    return matcher | {"hooks": [action]}


def _written(value: dict[str, Json]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _disabling(places: AgentDirs) -> str | None:
    """The settings file that disables the plugin: of all that name it, the nearest decides."""
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


def _switched_off(path: str, top: str) -> bool:
    """Whether Goose's own list of plugins, by their directories, has this one switched off."""
    written = content(path)
    if b"plugins" not in written:
        return False
    from ruamel.yaml import YAML  # slow to load, and few have plugins there
    from ruamel.yaml.error import YAMLError

    try:
        config = YAML(typ="safe", pure=True).load(written)
    except (YAMLError, ValueError, RecursionError, TypeError, AttributeError):
        return False
    entry = get_object(get_object(config, "plugins"), top) if type(config) is dict else {}
    return entry.get("enabled") is False


SETTINGS: Final[AgentSettings] = GooseSettings()
