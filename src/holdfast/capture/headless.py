"""Which runs of an agent program nobody sits at: their prompts come from a script, not from the person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

# By agent: options that take the prompt from the command line or from a program, and subcommands that do.
_OPTIONS: Final[dict[str, frozenset[str]]] = {
    "claude": frozenset({"-p", "--print", "--input-format"}),
    "gemini": frozenset({"-p", "--prompt"}),
    "copilot": frozenset({"-p", "--prompt"}),
    "cursor": frozenset({"-p", "--print"}),
}
_COMMANDS: Final[dict[str, frozenset[str]]] = {
    "codex": frozenset({"exec", "e", "app-server", "mcp-server", "proto"}),
    "opencode": frozenset({"run", "serve", "acp"}),
    "goose": frozenset({"run"}),
}


def is_headless(agent: str, words: Sequence[str]) -> bool:
    """By its command line; a run whose command line cannot be seen counts as one that a person sits at."""
    options, commands = _OPTIONS.get(agent, frozenset()), _COMMANDS.get(agent, frozenset())
    given = [word.partition("=")[0] for word in words]
    return any(word in options for word in given) or any(word in commands for word in given[1:4])
