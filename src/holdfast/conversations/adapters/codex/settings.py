"""Where Codex keeps its settings, the hooks in them once it is connected, and whether it runs them.

That depends on its switches, on the trust in the project, and on the trust in each hook, which a person gives in
Codex by `/hooks` and Codex keeps as a hash of the hook in `config.toml`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from holdfast.conversations.adapters.base import Payload, Scope
from holdfast.conversations.adapters.fields import get_object, get_objects, get_text
from holdfast.conversations.connect.agent_settings import (
    Command,
    HookMode,
    SettingsChange,
    SettingsEntry,
    content,
    settings_in,
)
from holdfast.conversations.connect.mcp_entry import NAME, Server
from holdfast.core import toml_text
from holdfast.core.canonical import Json
from holdfast.workspace.agent_dirs import AgentDirs

_OURS: Final = "holdfast"
_DEFAULT_TIMEOUT: Final = 600


class CodexHook(NamedTuple):
    """One of our hooks in a `hooks.json`."""

    key: tuple[str, str, str]  # event, number of its group, number within the group
    hash: str


def settings(path: str) -> Payload:
    """A TOML file of Codex; an unreadable one counts as empty."""
    try:
        return toml_text.loads(content(path).decode("utf-8-sig"))
    except ValueError:
        return {}


def switched_off(config: Payload) -> bool:
    """Whether hooks are switched off; the older name of the switch still counts."""
    features = get_object(config, "features")
    return features.get("hooks") is False or features.get("codex_hooks") is False


def project_trusted(config: Payload, project: str) -> bool:
    """Whether a project, or the repository it is in, is trusted: otherwise Codex ignores its `.codex`."""
    ancestors = {os.path.normcase(name) for name in _upwards(os.path.realpath(project))}
    for name, entry in get_object(config, "projects").items():
        trusted = type(entry) is dict and entry.get("trust_level") == "trusted"
        if trusted and os.path.normcase(os.path.realpath(name)) in ancestors:
            return True
    return False


def installed_hooks(config: Payload, hooks_file: str) -> Literal["absent", "untrusted", "disabled", "trusted"]:
    """The status of our hooks in a file: that of the worst of them."""
    ours = list(_hooks(hooks_file))
    if not ours:
        return "absent"
    states: dict[tuple[str, str, str], Payload] = {}
    own_path = os.path.normcase(os.path.realpath(hooks_file))
    for name, state in get_object(get_object(config, "hooks"), "state").items():
        pieces = name.rsplit(":", 3)
        if len(pieces) == 4 and type(state) is dict and os.path.normcase(os.path.realpath(pieces[0])) == own_path:
            states[pieces[1], pieces[2], pieces[3]] = state
    if any(states.get(hook.key, {}).get("trusted_hash") != hook.hash for hook in ours):
        return "untrusted"
    return "disabled" if any(states[hook.key].get("enabled") is False for hook in ours) else "trusted"


def hook_hash(event: str, handler: Payload, matcher: str | None = None) -> str:
    """The hash by which Codex knows a hook: that of its canonical JSON, with all defaults written out."""
    timeout = handler.get("timeout")
    hook: dict[str, Json] = {
        "type": "command", "command": handler.get("command"), "async": False,
        "timeout": timeout if type(timeout) is int else _DEFAULT_TIMEOUT,
    }  # fmt: skip
    fields: dict[str, Json] = {"event_name": event, "hooks": [hook]}
    if matcher is not None:
        fields["matcher"] = matcher
    written = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(written.encode(errors='replace')).hexdigest()}"


def label(event: str) -> str:
    """An event's name in keys and hashes: `pre_tool_use` for `PreToolUse`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in event).lstrip("_")


def _hooks(path: str) -> Iterator[CodexHook]:
    events = get_object(settings_in(path), "hooks")
    for event in events:
        for group, entry in enumerate(get_objects(events, event)):
            for place, handler in enumerate(get_objects(entry, "hooks")):
                if _OURS in (get_text(handler, "command") or "").lower():
                    digest = hook_hash(label(event), handler, get_text(entry, "matcher"))
                    yield CodexHook((label(event), str(group), str(place)), digest)


def _upwards(path: str) -> Iterator[str]:
    while True:
        yield path
        above = os.path.dirname(path)
        if above == path:
            return
        path = above


# Before a tool only what begins or asks something: everything else is reported after it.
BEFORE: Final = ".*(spawn_agent|request_user_input).*"
HOOKS: Final[dict[str, HookMode]] = {
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
# Seconds. By default, Codex gives the end of a session and an interruption one second, and at most three.
TIMEOUTS: Final[dict[HookMode, int]] = {"tell": 5, "stir": 5, "ask": 10}
_SHORT_TIMEOUTS: Final = {"Interrupt": 3, "SessionEnd": 3}

_PASSED_VARIABLES: Final = ("HOLDFAST_HOME", "HOLDFAST_STORE", "XDG_DATA_HOME")
_MANAGED: Final = {"win32": "C:\\ProgramData\\OpenAI\\Codex"}


class CodexSettings:
    """`AgentSettings` for Codex."""

    name = "codex"
    programs = ("codex",)

    def traces(self, places: AgentDirs) -> tuple[str, ...]:
        return (home(places), places.in_project(".codex"))

    def changes(self, places: AgentDirs, scope: Scope, command: Command) -> tuple[SettingsChange, ...]:
        entries = tuple(_entry(event, mode, command) for event, mode in HOOKS.items())
        return (SettingsChange(hooks_file(places, scope), entries),)

    def server(self, places: AgentDirs, scope: Scope, server: Server) -> SettingsChange | None:
        values: dict[str, Json] = {"command": server.command}
        if server.args:
            values["args"] = list(server.args)
        if scope == "project":
            # Codex passes on little of its environment, and each person's home is their own.
            values["env_vars"] = list(_PASSED_VARIABLES)
        root = home(places) if scope == "user" else places.in_project(".codex")
        return SettingsChange(
            os.path.join(root, "config.toml"), (SettingsEntry(("mcp_servers", NAME), values, only=True),)
        )

    def obstacles(self, places: AgentDirs, scope: Scope) -> tuple[str, ...]:
        path = os.path.join(home(places), "config.toml")
        config = settings(path)
        obstacles: list[str] = []
        if switched_off(config):
            obstacles.append(f"{path} switches hooks off: remove `hooks = false` from its [features].")
        managed = os.path.join(_MANAGED.get(places.system, "/etc/codex"), "requirements.toml")
        required = settings(managed)
        if switched_off(required) or required.get("allow_managed_hooks_only") is True:
            obstacles.append(f"{managed} does not allow hooks of your own: ask whoever manages this machine.")
        if scope == "project" and not project_trusted(config, places.project):
            obstacles.append("Codex ignores .codex in a project it does not trust: start codex here and trust it.")
        match installed_hooks(config, hooks_file(places, scope)):
            case "untrusted":
                obstacles.append(
                    "Codex runs hooks only once they are trusted: start codex, enter /hooks, trust them."
                )
            case "disabled":
                obstacles.append("Some of Holdfast's hooks are disabled: start codex, enter /hooks, enable them.")
        return tuple(obstacles)


def home(places: AgentDirs) -> str:
    return places.under("CODEX_HOME", ".codex")


def hooks_file(places: AgentDirs, scope: Scope) -> str:
    """The file of a scope that holds nothing but hooks."""
    if scope == "user":
        return os.path.join(home(places), "hooks.json")
    return places.in_project(".codex", "hooks.json")


def _entry(event: str, mode: HookMode, command: Command) -> SettingsEntry:
    seconds = _SHORT_TIMEOUTS.get(event, TIMEOUTS[mode])
    hook: dict[str, Json] = {"type": "command", "command": command(mode), "timeout": seconds}
    group: dict[str, Json] = {"matcher": BEFORE} if event == "PreToolUse" else {}
    return SettingsEntry(("hooks", event), group | {"hooks": [hook]})


SETTINGS: Final = CodexSettings()
