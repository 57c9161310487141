"""Cline's hooks: one file for each event, named after it. Both the terminal program and the extensions use them.

On Windows the files are PowerShell scripts and named accordingly.
"""

from __future__ import annotations

import os
from typing import Final

from holdfast.conversations.adapters.base import Scope
from holdfast.conversations.connect.agent_settings import AgentSettings, Command, HookMode, SettingsChange
from holdfast.workspace.agent_dirs import AgentDirs

HOOKS: Final[dict[str, HookMode]] = {
    "TaskStart": "ask",
    "TaskResume": "ask",
    "UserPromptSubmit": "ask",
    "PreCompact": "ask",
    "PreToolUse": "tell",
    "PostToolUse": "tell",
    "TaskComplete": "stir",
    "TaskCancel": "stir",
    "TaskError": "stir",
    "SessionShutdown": "stir",
}
# In every file of ours, which is recognised by it.
OURS: Final = "Holdfast keeps the session. `holdfast disconnect cline` takes this file away."


class ClineSettings:
    name = "cline"
    programs: tuple[str, ...] = ("cline",)

    def traces(self, places: AgentDirs) -> tuple[str, ...]:
        return (
            places.under("CLINE_DIR", ".cline"),
            places.in_home("Documents", "Cline"),
            places.in_project(".clinerules"),
        )

    def changes(self, places: AgentDirs, scope: Scope, command: Command) -> tuple[SettingsChange, ...]:
        windows = places.system == "win32"
        root = directory(places, scope)
        return tuple(
            SettingsChange(
                os.path.join(root, f"{event}.ps1" if windows else event),
                content=_for_powershell(command(mode)) if windows else _for_shell(command(mode)),
                executable=True,
            )
            for event, mode in HOOKS.items()
        )

    def server(self, *_: object, **__: object) -> None:
        return None  # each editor that it runs in keeps servers in a place of its own

    def obstacles(self, places: AgentDirs, scope: Scope) -> tuple[str, ...]:
        obstacles = []
        if scope == "project" and os.path.isfile(places.in_project(".clinerules")):
            obstacles.append("`.clinerules` is a file here, so hooks cannot be put below it: connect for the user.")
        if places.system == "win32":
            obstacles.append(
                "Where PowerShell runs no scripts, Cline cannot run its hooks: allow them with "
                "`Set-ExecutionPolicy -Scope CurrentUser RemoteSigned`."
            )
        return tuple(obstacles)


def directory(places: AgentDirs, scope: Scope) -> str:
    """The directory of a scope's hooks that every version of Cline reads."""
    if scope == "user":
        return places.in_home("Documents", "Cline", "Hooks")
    return places.in_project(".clinerules", "hooks")


def _for_shell(command: str) -> bytes:
    return f"#!/bin/sh\n# {OURS}\n{command}\n".encode()


def _for_powershell(command: str) -> bytes:
    quoted = command.replace("'", "''")
    return f"# {OURS}\r\ncmd.exe /d /c '{quoted}'\r\n".encode()


SETTINGS: Final[AgentSettings] = ClineSettings()
