"""The command shown for reopening a conversation is made from the agent and the id, never taken from an event."""

from __future__ import annotations

import pytest

from holdfast.core.agent_programs import AGENT_PROGRAMS, resume_command
from holdfast.core.state import NativeState
from holdfast.core.view import reopen_command

ID = "0199-ab"


def shown(agent: str, id_: str, resume: str | None) -> str | None:
    return reopen_command(NativeState(agent, id_, resume, None, 0))


@pytest.mark.parametrize("recorded", ["claude --resume 5f0c-1", "rm -rf /home/ada", "claude --resume 6a; id", ""])
def test_resume_command_is_made_from_the_id_whatever_was_recorded(recorded: str) -> None:
    """Otherwise a member of a shared session could have others run a command of his."""
    assert shown("claude", "5f0c-1", recorded) == "claude --resume 5f0c-1"


@pytest.mark.parametrize(
    "id_",
    ["-p", "a b", "a;id", "$(id)", "`id`", "a&b", "a|b", "a>b", "a\nb", "'a'", '"a"', "~", "%x%", "ä", "a\n", ""],
)
def test_resume_command_is_omitted_when_the_id_could_be_an_option_or_shell_syntax(id_: str) -> None:
    assert shown("claude", id_, "claude --resume x") is None


def test_resume_command_is_omitted_without_a_recorded_one_or_a_known_agent() -> None:
    assert shown("claude", "5f0c", None) is None
    assert shown("rm", "5f0c", "rm 5f0c") is None


@pytest.mark.parametrize("agent", AGENT_PROGRAMS)
def test_resume_command_equals_the_one_that_hooks_record(agent: str) -> None:
    """Both are made from the agent's record."""
    assert shown(agent, ID, "x") == resume_command(agent, ID)
