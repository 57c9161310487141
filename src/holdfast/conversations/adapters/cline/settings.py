"""Where Cline finds Holdfast: one file for each event, named after it, in the directory of its hooks. Both the
terminal program and the extensions look there.

On Windows the files are PowerShell's and are called accordingly.
"""

from __future__ import annotations

import os
from typing import Final

from holdfast.conversations.adapters.base import Scope
from holdfast.conversations.connect.agent_settings import AgentSettings, Command, Manner, SettingsChange
from holdfast.workspace.agent_dirs import AgentDirs

MANNERS: Final[dict[str, Manner]] = {
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
# Stands in every file of ours, and by it they are known.
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
        top = directory(places, scope)
        return tuple(
            SettingsChange(
                os.path.join(top, f"{event}.ps1" if windows else event),
                content=_for_powershell(command(manner)) if windows else _for_shell(command(manner)),
                executable=True,
            )
            for event, manner in MANNERS.items()
        )

    def server(self, *_: object, **__: object) -> None:
        return None  # the editors it lives in keep its servers each in a place of their own

    def obstacles(self, places: AgentDirs, scope: Scope) -> tuple[str, ...]:
        found = []
        if scope == "project" and os.path.isfile(places.in_project(".clinerules")):
            found.append("`.clinerules` is a file here, so that no hooks can stand below it: connect for the user.")
        if places.system == "win32":
            found.append(
                "Where PowerShell runs no scripts, Cline cannot run its hooks: allow them with "
                "`Set-ExecutionPolicy -Scope CurrentUser RemoteSigned`."
            )
        return tuple(found)


def directory(places: AgentDirs, scope: Scope) -> str:
    """The directory of hooks of a scope: the ones that every version of Cline looks into."""
    if scope == "user":
        return places.in_home("Documents", "Cline", "Hooks")
    return places.in_project(".clinerules", "hooks")


def _for_shell(command: str) -> bytes:
    return f"#!/bin/sh\n# {OURS}\n{command}\n".encode()


def _for_powershell(command: str) -> bytes:
    quoted = command.replace("'", "''")
    return f"# {OURS}\r\ncmd.exe /d /c '{quoted}'\r\n".encode()


SETTINGS: Final[AgentSettings] = ClineSettings()
