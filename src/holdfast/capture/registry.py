"""The agents Holdfast knows, each loaded only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from holdfast.core.errors import Invalid

if TYPE_CHECKING:
    from holdfast.capture.interface import Agent

NAMES: Final = ("claude", "codex", "gemini", "opencode", "copilot", "cursor", "goose", "cline")


def agent(name: str) -> Agent:
    """How an agent's hooks speak."""
    if name not in NAMES:
        raise Invalid(f"{name[:40]!a} is no agent Holdfast knows", hint=f"Agents are {', '.join(NAMES)}.")
    found: Agent = import_module(f"holdfast.capture.{name}.hooks").AGENT
    return found
