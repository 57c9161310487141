"""Where Cursor keeps its hooks, and which of them Holdfast uses.

Cursor refuses a whole file for one unknown entry, so the file is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.conversations.adapters.base import Payload, Scope
from holdfast.conversations.adapters.fields import get_object
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

VERSION: Final = 1
HOOKS: Final[dict[str, HookMode]] = {
    "sessionStart": "ask",
    "beforeSubmitPrompt": "ask",
    "postToolUse": "tell",
    "postToolUseFailure": "tell",
    # Files; commands and everything else are reported after the tool.
    "afterFileEdit": "tell",
    "subagentStart": "stir",
    "subagentStop": "stir",
    "preCompact": "ask",
    "stop": "stir",
    "sessionEnd": "stir",
}
# Seconds. Nothing takes so long unless the machine is stuck.
TIMEOUTS: Final[dict[HookMode, int]] = {"tell": 5, "stir": 5, "ask": 10}
KNOWN: Final = frozenset(
    {*HOOKS, "preToolUse", "beforeShellExecution", "afterShellExecution", "beforeMCPExecution", "afterMCPExecution",
     "beforeReadFile", "beforeTabFileRead", "afterTabFileEdit", "afterAgentResponse", "afterAgentThought",
     "workspaceOpen"}
)  # fmt: skip


class CursorSettings:
    """`AgentSettings` for Cursor."""

    name = "cursor"
    # The editor, and its agent on the command line.
    programs: tuple[str, ...] = ("cursor-agent", "cursor")

    def traces(self, places: AgentDirs) -> tuple[str, ...]:
        return (places.in_home(".cursor"), places.in_project(".cursor"))

    def changes(self, places: AgentDirs, scope: Scope, command: Command) -> tuple[SettingsChange, ...]:
        return (
            SettingsChange(
                hooks_file(places, scope), (SettingsEntry(("version",), VERSION, only=True), *_entries(command))
            ),
        )

    def server(self, places: AgentDirs, scope: Scope, server: Server) -> SettingsChange | None:
        place = places.in_home if scope == "user" else places.in_project
        return SettingsChange(
            place(".cursor", "mcp.json"), (SettingsEntry(("mcpServers", NAME), server.entry, only=True),)
        )

    def obstacles(self, places: AgentDirs, scope: Scope) -> tuple[str, ...]:
        path = hooks_file(places, scope)
        return tuple(_refused(path, settings_in(path, comments=True)))


def hooks_file(places: AgentDirs, scope: Scope) -> str:
    """The hooks file of a scope."""
    place = places.in_home if scope == "user" else places.in_project
    return place(".cursor", "hooks.json")


def _entries(command: Command) -> Iterator[SettingsEntry]:
    for event, mode in HOOKS.items():
        hook: dict[str, Json] = {"command": command(mode), "timeout": TIMEOUTS[mode]}
        yield SettingsEntry(("hooks", event), hook)


def _refused(path: str, content: Payload) -> Iterator[str]:
    """Why Cursor would refuse the file as it is."""
    if not content:
        return
    version = content.get("version")
    if version is not None and (type(version) is not int or version < 1):
        yield f'{path} has a version that Cursor does not accept: make it "version": {VERSION}.'
    for event, hooks in get_object(content, "hooks").items():
        # A newer Cursor may know more events, so this is only a hint.
        if event not in KNOWN:
            yield f"{path} has hooks for {event[:60]!a}: a Cursor that does not know them runs no hook in the file."
        for hook in hooks if type(hooks) is list else ():
            line = hook.get("command") if type(hook) is dict else None
            if type(line) is str and "//" in line:
                yield f"{path} has `//` in a command: Cursor takes it for a comment and cannot read the file."


SETTINGS: Final = CursorSettings()
