"""The agents Holdfast knows. An agent's package is loaded only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from holdfast.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.conversations.adapters.base import Adapter, HookEvent, Payload

NAMES: Final = ("claude", "codex", "gemini", "opencode", "copilot", "cursor", "goose", "cline")
# Programs that run no hooks and leave no transcripts: they only get the MCP server.
MCP_ONLY: Final = {"claude-desktop": "Claude Desktop"}
CONNECTABLE: Final = (*NAMES, *MCP_ONLY)
_WITH_STATUS_LINE: Final = ("claude",)


def load_adapter(name: str) -> Adapter:
    """The adapter of an agent's hooks."""
    if name not in NAMES:
        raise Invalid(f"unknown agent {name[:40]!a}", hint=f"Known agents: {', '.join(NAMES)}.")
    adapter: Adapter = import_module(f"holdfast.conversations.adapters.{name}.hooks").AGENT
    return adapter


def title(name: str) -> str:
    """What people call a program that can be connected."""
    if name not in CONNECTABLE:
        raise Invalid(f"unknown agent {name[:40]!a}", hint=f"These can be connected: {', '.join(CONNECTABLE)}.")
    return MCP_ONLY[name] if name in MCP_ONLY else load_adapter(name).title


def load_status_parser(name: str) -> Callable[[Payload], HookEvent | None]:
    """The parser for the input of an agent's status line."""
    if name not in _WITH_STATUS_LINE:
        raise Invalid(
            f"{name[:40]!a} has no status line", hint=f"Agents that have one: {', '.join(_WITH_STATUS_LINE)}."
        )
    parser: Callable[[Payload], HookEvent | None] = import_module(
        f"holdfast.conversations.adapters.{name}.hooks"
    ).parse_status
    return parser
