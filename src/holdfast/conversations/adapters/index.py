"""The agents Holdfast knows, each loaded only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from holdfast.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.conversations.adapters.base import Adapter, HookEvent, Payload

NAMES: Final = ("claude", "codex", "gemini", "opencode", "copilot", "cursor", "goose", "cline")
# Programs that run no hooks and leave no transcripts: all they get is the MCP server.
SERVED: Final = {"claude-desktop": "Claude Desktop"}
CONNECTABLE: Final = (*NAMES, *SERVED)
_SHOWING: Final = ("claude",)  # the agents that have a status line


def agent(name: str) -> Adapter:
    """How an agent's hooks speak."""
    if name not in NAMES:
        raise Invalid(f"{name[:40]!a} is not an agent Holdfast knows", hint=f"Agents are {', '.join(NAMES)}.")
    found: Adapter = import_module(f"holdfast.conversations.adapters.{name}.hooks").AGENT
    return found


def title(name: str) -> str:
    """What people call a program that can be connected."""
    if name not in CONNECTABLE:
        known = ", ".join(CONNECTABLE)
        raise Invalid(f"{name[:40]!a} is not an agent Holdfast knows", hint=f"What can be connected: {known}.")
    return SERVED[name] if name in SERVED else agent(name).title


def status(name: str) -> Callable[[Payload], HookEvent | None]:
    """What the input of an agent's status line says."""
    if name not in _SHOWING:
        raise Invalid(f"{name[:40]!a} has no status line", hint=f"Agents that have one: {', '.join(_SHOWING)}.")
    found: Callable[[Payload], HookEvent | None] = import_module(
        f"holdfast.conversations.adapters.{name}.statusline"
    ).parse
    return found
