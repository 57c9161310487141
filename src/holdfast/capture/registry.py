"""The agents Holdfast knows, each loaded only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from holdfast.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.capture.interface import Agent, Heard, Payload

NAMES: Final = ("claude", "codex", "gemini", "opencode", "copilot", "cursor", "goose", "cline")
_SHOWING: Final = ("claude",)  # the agents that have a status line


def agent(name: str) -> Agent:
    """How an agent's hooks speak."""
    if name not in NAMES:
        raise Invalid(f"{name[:40]!a} is no agent Holdfast knows", hint=f"Agents are {', '.join(NAMES)}.")
    found: Agent = import_module(f"holdfast.capture.{name}.hooks").AGENT
    return found


def status(name: str) -> Callable[[Payload], Heard | None]:
    """What the input of an agent's status line says."""
    if name not in _SHOWING:
        raise Invalid(f"{name[:40]!a} has no status line", hint=f"Agents that have one: {', '.join(_SHOWING)}.")
    found: Callable[[Payload], Heard | None] = import_module(f"holdfast.capture.{name}.statusline").heard
    return found
