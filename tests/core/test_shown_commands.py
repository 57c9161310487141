"""Which commands of recorded conversations are shown to be pasted: those in which a shell expands nothing."""

from __future__ import annotations

import pytest

from holdfast.core.view import plain_command


@pytest.mark.parametrize(
    "command",
    ["claude --resume 5f0c", "copilot --resume='two words'", "codex resume 0199-ab", "opencode -s ses_1", None],
)
def test_plain_command_is_shown(command: str | None) -> None:
    """A program and its words, quoted where need be."""
    assert plain_command(command) == command


@pytest.mark.parametrize(
    "command",
    [
        "claude --resume a; touch x",
        "claude $(id)",
        "claude `id`",
        "a && b",
        "a | b",
        "a > b",
        "a\nb",
        "a 'b' \"$c\"",
        "~/x",
        "",
    ],
)
def test_command_that_a_shell_expands_is_not_shown(command: str) -> None:
    """Whoever shares a session could have it run by who pastes it."""
    assert plain_command(command) is None
