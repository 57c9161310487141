"""Where Codex looks for hooks, those that stand there once it is connected, what may keep it from running them."""

from __future__ import annotations

import os
from typing import Final

from holdfast.capture.codex import trust
from holdfast.capture.interface import Scope
from holdfast.capture.places import Places
from holdfast.capture.serving import NAME, Server
from holdfast.capture.wiring import Change, Command, Entry, Manner
from holdfast.core.canonical import Json

# Before a tool only what begins or asks something: everything else is told after it.
BEFORE: Final = ".*(spawn_agent|request_user_input).*"
HOOKS: Final[dict[str, Manner]] = {
    "SessionStart": "ask",
    "UserPromptSubmit": "ask",
    "PreToolUse": "tell",
    "PermissionRequest": "tell",
    "PostToolUse": "tell",
    "PreCompact": "ask",
    "PostCompact": "tell",
    "SubagentStart": "stir",
    "SubagentStop": "stir",
    "Stop": "stir",
    "Interrupt": "tell",
    "SessionEnd": "stir",
}
# Seconds. Codex gives the end of a session and an interruption one of its own accord, and never more than three.
PATIENCE: Final[dict[Manner, int]] = {"tell": 5, "stir": 5, "ask": 10}
_SHORT: Final = {"Interrupt": 3, "SessionEnd": 3}

_HANDED_ON: Final = ("HOLDFAST_HOME", "HOLDFAST_STORE", "XDG_DATA_HOME")
_MANAGED: Final = {"win32": "C:\\ProgramData\\OpenAI\\Codex"}


class CodexWiring:
    """`wiring.Wiring` for Codex."""

    name = "codex"
    programs = ("codex",)

    def traces(self, places: Places) -> tuple[str, ...]:
        return (home(places), places.in_project(".codex"))

    def changes(self, places: Places, scope: Scope, command: Command) -> tuple[Change, ...]:
        entries = tuple(_entry(event, manner, command) for event, manner in HOOKS.items())
        return (Change(hooks_file(places, scope), entries),)

    def server(self, places: Places, scope: Scope, server: Server) -> Change | None:
        values: dict[str, Json] = {"command": server.command}
        if server.args:
            values["args"] = list(server.args)
        if scope == "project":
            # Codex hands on little of its environment; where somebody's home is stays theirs to say.
            values["env_vars"] = list(_HANDED_ON)
        top = home(places) if scope == "user" else places.in_project(".codex")
        return Change(os.path.join(top, "config.toml"), (Entry(("mcp_servers", NAME), values, only=True),))

    def obstacles(self, places: Places, scope: Scope) -> tuple[str, ...]:
        path = os.path.join(home(places), "config.toml")
        config = trust.settings(path)
        found: list[str] = []
        if trust.switched_off(config):
            found.append(f"{path} switches hooks off: remove `hooks = false` from its [features].")
        managed = os.path.join(_MANAGED.get(places.system, "/etc/codex"), "requirements.toml")
        required = trust.settings(managed)
        if trust.switched_off(required) or required.get("allow_managed_hooks_only") is True:
            found.append(f"{managed} does not allow hooks of your own: ask whoever manages this machine.")
        if scope == "project" and not trust.project_trusted(config, places.project):
            found.append("Codex passes over .codex in a project it does not trust: start codex here and trust it.")
        match trust.standing(config, hooks_file(places, scope)):
            case "untrusted":
                found.append("Codex runs hooks only once they are trusted: start codex, enter /hooks, trust them.")
            case "disabled":
                found.append("Some of Holdfast's hooks are disabled: start codex, enter /hooks, enable them.")
        return tuple(found)


def home(places: Places) -> str:
    return places.under("CODEX_HOME", ".codex")


def hooks_file(places: Places, scope: Scope) -> str:
    """The file of a scope that holds nothing but hooks."""
    if scope == "user":
        return os.path.join(home(places), "hooks.json")
    return places.in_project(".codex", "hooks.json")


def _entry(event: str, manner: Manner, command: Command) -> Entry:
    seconds = _SHORT.get(event, PATIENCE[manner])
    hook: dict[str, Json] = {"type": "command", "command": command(manner), "timeout": seconds}
    group: dict[str, Json] = {"matcher": BEFORE} if event == "PreToolUse" else {}
    return Entry(("hooks", event), group | {"hooks": [hook]})


WIRING: Final = CodexWiring()
