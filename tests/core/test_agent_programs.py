"""The agent programs: one record each, which everything else is derived from."""

from __future__ import annotations

import subprocess
import sys

import pytest

from holdfast.core.agent_programs import resume_command

# Everything that knows agents by their names is loaded after the ninth one has its record.
_NINTH = """
from holdfast.core.agent_programs import AGENT_PROGRAMS, AgentProgram

AGENT_PROGRAMS["ninth"] = AgentProgram(
    "Ninth", "ninth --go-on {}", {"Hello": "start", "Asked": "prompt"}, directory=".ninth", headless=("--alone",)
)

from holdfast.cli import hooking
from holdfast.cli.table import COMMANDS
from holdfast.conversations.adapters import index
from holdfast.conversations.backfill.run import used
from holdfast.conversations.hooks.script import is_call
from holdfast.conversations.ingest.events import is_headless
from holdfast.core.state import NativeState
from holdfast.core.view import reopen_command
from holdfast.workspace.agent_dirs import AgentDirs

for name in ("connect", "disconnect", "hook", "backfill"):
    (command,) = (command for command in COMMANDS if command.name == name)
    assert "ninth" in command.params[0].choices, name
assert "ninth" in index.CONNECTABLE
assert index.title("ninth") == "Ninth"
assert is_call("/home/ada/.local/share/holdfast/hooks/hook ninth ask user")
assert hooking._may_be(b'{"event": "Hello"}', ("start",))
assert hooking._may_be(b'{"event": "Asked"}', ("prompt",))
assert not hooking._may_be(b'{"event": "Asked"}', ("start", "compact"))
assert reopen_command(NativeState("ninth", "4f", "x", None, 0)) == "ninth --go-on 4f"
assert is_headless("ninth", ["ninth", "run", "--alone"])
assert not used("ninth", AgentDirs("/nowhere", "/nowhere/project"))
"""


def test_ninth_agent_is_known_everywhere_when_it_has_a_record() -> None:
    """To commands, hooks, resume commands, ingest and backfill: no other list of agents exists."""
    subprocess.run([sys.executable, "-c", _NINTH], check=True)


@pytest.mark.parametrize(
    ("agent", "command"),
    [
        ("claude", "claude --resume 4f"),
        ("codex", "codex resume 4f"),
        ("gemini", "gemini --resume 4f"),
        ("opencode", "opencode --session 4f"),
        ("copilot", "copilot --resume=4f"),
        ("cursor", "cursor-agent --resume=4f"),
        ("goose", "goose session --resume --session-id 4f"),
        ("cline", "cline --id 4f"),
        ("somebody", None),
    ],
)
def test_resume_command_is_that_of_the_agent_program(agent: str, command: str | None) -> None:
    """None for a program that is not known."""
    assert resume_command(agent, "4f") == command


@pytest.mark.parametrize(
    ("conversation", "command"),
    [
        ("../..", "codex resume ../.."),
        ("a; rm -rf ~", "codex resume 'a; rm -rf ~'"),
        ("{}", "codex resume '{}'"),
        ("--dangerously-bypass-approvals-and-sandbox", None),
    ],
)
def test_resume_command_has_the_id_as_one_word_when_it_has_shell_syntax(
    conversation: str, command: str | None
) -> None:
    """And none at all when the id could be an option."""
    assert resume_command("codex", conversation) == command
