"""Which commands are shown to reopen a conversation: those of the agents' programs, whatever somebody recorded."""

from __future__ import annotations

from importlib import import_module

import pytest

from holdfast.conversations.adapters.index import NAMES
from holdfast.core.state import NativeState
from holdfast.core.view import reopen_command

ID = "0199-ab"


def shown(agent: str, id_: str, resume: str | None) -> str | None:
    return reopen_command(NativeState(agent, id_, resume, None, 0))


@pytest.mark.parametrize("recorded", ["claude --resume 5f0c-1", "rm -rf /home/ada", "claude --resume 6a; id", ""])
def test_command_that_reopens_is_made_from_the_id_whatever_was_recorded(recorded: str) -> None:
    """Whoever shares a session could have another one run by who pastes it."""
    assert shown("claude", "5f0c-1", recorded) == "claude --resume 5f0c-1"


@pytest.mark.parametrize(
    "id_",
    ["-p", "a b", "a;id", "$(id)", "`id`", "a&b", "a|b", "a>b", "a\nb", "'a'", '"a"', "~", "%x%", "ä", "a\n", ""],
)
def test_no_command_is_shown_when_a_shell_or_the_program_takes_the_id_for_more(id_: str) -> None:
    assert shown("claude", id_, "claude --resume x") is None


def test_no_command_is_shown_when_none_was_recorded_or_the_agent_is_unknown() -> None:
    assert shown("claude", "5f0c", None) is None
    assert shown("rm", "5f0c", "rm 5f0c") is None


@pytest.mark.parametrize("agent", NAMES)
def test_command_that_is_shown_is_the_one_that_the_agents_hooks_record(agent: str) -> None:
    recorded = import_module(f"holdfast.conversations.adapters.{agent}.hooks").resume(ID)
    assert recorded is not None
    assert shown(agent, ID, recorded) == recorded
