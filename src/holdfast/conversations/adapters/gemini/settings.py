"""Where Gemini CLI keeps its settings, the hooks in them once it is connected, and what may keep it from running
them: other settings, and folders that the person has not trusted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.conversations.adapters.base import Payload, Scope
from holdfast.conversations.adapters.fields import get_object
from holdfast.conversations.connect.agent_settings import (
    Command,
    HookMode,
    SettingsChange,
    SettingsEntry,
    settings_in,
)
from holdfast.conversations.connect.mcp_entry import NAME as SERVER
from holdfast.conversations.connect.mcp_entry import Server
from holdfast.core.canonical import Json
from holdfast.workspace.agent_dirs import AgentDirs

# A person sees the hooks under this name in `/hooks`, and can switch them off there.
NAME: Final = "holdfast"
# Milliseconds. Nothing takes so long unless the machine is stuck.
TIMEOUTS: Final[dict[HookMode, int]] = {"tell": 5_000, "stir": 5_000, "ask": 10_000}


class GeminiHook(NamedTuple):
    manner: HookMode
    # Which tools, or which trigger; None for all.
    matcher: str | None = None


# Not the hooks around each request to the model: they pass the whole conversation, again for every piece of the
# answer.
HOOKS: Final[dict[str, GeminiHook]] = {
    "SessionStart": GeminiHook("ask"),
    "BeforeAgent": GeminiHook("ask"),
    # Only what begins something: everything else is reported after it.
    "BeforeTool": GeminiHook("stir", "^(invoke_agent|delegate_to_agent)$"),
    "AfterTool": GeminiHook("tell"),
    "Notification": GeminiHook("tell"),
    # Without a matcher it comes before every request, even with nothing to compress.
    "PreCompress": GeminiHook("ask", "manual"),
    "AfterAgent": GeminiHook("stir"),
    "SessionEnd": GeminiHook("stir"),
}

_SYSTEM: Final = {
    "darwin": "/Library/Application Support/GeminiCli/settings.json",
    "win32": "C:\\ProgramData\\gemini-cli\\settings.json",
}


class GeminiSettings:
    """`AgentSettings` for Gemini CLI."""

    name = "gemini"
    programs: tuple[str, ...] = ("gemini",)

    def traces(self, places: AgentDirs) -> tuple[str, ...]:
        return (own_directory(places), places.in_project(".gemini"))

    def changes(self, places: AgentDirs, scope: Scope, command: Command) -> tuple[SettingsChange, ...]:
        return (SettingsChange(settings(places, scope), tuple(_entries(command))),)

    def server(self, places: AgentDirs, scope: Scope, server: Server) -> SettingsChange | None:
        return SettingsChange(
            settings(places, scope), (SettingsEntry(("mcpServers", SERVER), server.entry, only=True),)
        )

    def obstacles(self, places: AgentDirs, scope: Scope) -> tuple[str, ...]:
        return (*_switched_off(places, scope), *_untrusted(places))


def own_directory(places: AgentDirs) -> str:
    """A person's directory of Gemini CLI."""
    return os.path.join(places.under("GEMINI_CLI_HOME"), ".gemini")


def settings(places: AgentDirs, scope: Scope) -> str:
    """The settings file of a scope."""
    if scope == "user":
        return os.path.join(own_directory(places), "settings.json")
    return places.in_project(".gemini", "settings.json")


def _entries(command: Command) -> Iterator[SettingsEntry]:
    for event, hook in HOOKS.items():
        line: dict[str, Json] = {
            "type": "command", "command": command(hook.manner), "name": NAME, "timeout": TIMEOUTS[hook.manner],
        }  # fmt: skip
        group: dict[str, Json] = {} if hook.matcher is None else {"matcher": hook.matcher}
        yield SettingsEntry(("hooks", event), group | {"hooks": [line]})


def _switched_off(places: AgentDirs, scope: Scope) -> Iterator[str]:
    # Settings of all places are merged: each holds for the hooks of all others.
    own = (settings(places, scope), settings(places, "project" if scope == "user" else "user"))
    for path in own:
        config = get_object(_read(path), "hooksConfig")
        if config.get("enabled") is False:
            yield f"{path} sets hooksConfig.enabled to false: remove it, or nothing is recorded."
        disabled = config.get("disabled")
        if type(disabled) is list and NAME in disabled:
            yield f"{path} has {NAME} in hooksConfig.disabled: type `/hooks enable {NAME}` in Gemini CLI."
    default = _SYSTEM.get(places.system, "/etc/gemini-cli/settings.json")
    path = places.environ.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH", "").strip() or default
    if get_object(_read(path), "hooksConfig").get("enabled") is False:
        yield f"{path} disables all hooks: ask whoever manages this machine."


def _untrusted(places: AgentDirs) -> Iterator[str]:
    """Gemini runs no hooks, not even the person's own, in a folder that is not trusted."""
    trusted = places.environ.get("GEMINI_CLI_TRUST_WORKSPACE", "").strip().lower()
    trust = get_object(get_object(_read(settings(places, "user")), "security"), "folderTrust")
    if trusted == "true" or trust.get("enabled") is False:
        return
    path = places.environ.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH", "").strip()
    rules = _read(path or os.path.join(own_directory(places), "trustedFolders.json"))
    level = _level(rules, places.project)
    if trusted == "false" or level == "DO_NOT_TRUST":
        yield f"Gemini CLI does not trust {places.project}: type `/permissions trust` there, or it runs no hooks."
    elif level is None:
        yield f"Gemini CLI does not trust {places.project} yet: start it there and trust the folder once."


def _level(rules: Payload, project: str) -> str | None:
    """The trust level of a folder: that of the longest rule for it."""
    own_path = os.path.realpath(project)
    longest_level, longest = None, -1
    for folder, level in rules.items():
        if level not in ("TRUST_FOLDER", "TRUST_PARENT", "DO_NOT_TRUST") or "\0" in folder:
            continue
        root = os.path.realpath(os.path.dirname(folder) if level == "TRUST_PARENT" else folder)
        inside = own_path == root or own_path.startswith(root.rstrip(os.sep) + os.sep)
        if inside and len(folder) > longest:
            longest_level, longest = str(level), len(folder)
    return longest_level


def _read(path: str) -> Payload:
    return settings_in(path, comments=True)


SETTINGS: Final = GeminiSettings()
