"""Find the adapters of agents. An agent's package is loaded only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from holdfast.core.agent_programs import AGENT_PROGRAMS, MCP_ONLY, with_status_line
from holdfast.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.conversations.adapters.base import Adapter, HookEvent, Payload

NAMES: Final = tuple(AGENT_PROGRAMS)
CONNECTABLE: Final = (*NAMES, *MCP_ONLY)


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
    return MCP_ONLY[name] if name in MCP_ONLY else AGENT_PROGRAMS[name].title


def load_status_parser(name: str) -> Callable[[Payload], HookEvent | None]:
    """The parser for the input of an agent's status line."""
    if name not in with_status_line():
        raise Invalid(
            f"{name[:40]!a} has no status line", hint=f"Agents that have one: {', '.join(with_status_line())}."
        )
    parser: Callable[[Payload], HookEvent | None] = import_module(
        f"holdfast.conversations.adapters.{name}.hooks"
    ).parse_status
    return parser
