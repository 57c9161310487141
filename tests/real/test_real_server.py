"""The MCP server registered by `connect`, in the real programs: listed, and started where they do that."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.real import real_programs
from tests.real.machine import Machine
from tests.real.real_programs import needs

real_programs.skip_unless_requested()

TRUSTING = {
    "GEMINI_CLI_TRUST_WORKSPACE": "true",
    "PATH": os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"])),  # the directory of holdfast
}
PROGRAMS = [
    pytest.param("claude", "Connected", id="claude", marks=needs("claude")),
    pytest.param("codex", "enabled", id="codex", marks=needs("codex")),
    pytest.param("gemini", "Connected", id="gemini", marks=needs("gemini")),
]


@pytest.mark.parametrize(("agent", "well"), PROGRAMS)
def test_server_of_user_scope_is_listed_and_answers(agent: str, well: str, tmp_path: Path) -> None:
    """`mcp list` names our script; it is connected where the program tries, and removed by disconnecting."""
    machine = Machine(tmp_path)
    machine.holdfast("connect", agent)
    listed = machine.run(agent, "mcp", "list", environ=TRUSTING)
    assert listed.code == 0, listed.output
    [line] = [line for line in listed.output.splitlines() if "holdfast-mcp" in line]
    assert str(machine.kept / "hooks" / "holdfast-mcp") in line
    assert well in line
    machine.holdfast("disconnect", agent)
    assert "holdfast-mcp" not in machine.run(agent, "mcp", "list", environ=TRUSTING).output


@pytest.mark.parametrize(("agent", "well"), PROGRAMS)
def test_server_of_project_scope_is_listed(agent: str, well: str, tmp_path: Path) -> None:
    """As far as the program trusts the project."""
    machine = Machine(tmp_path)
    if agent == "codex":
        config = machine.home / ".codex" / "config.toml"
        config.parent.mkdir()
        config.write_text(f'[projects."{machine.project}"]\ntrust_level = "trusted"\n')
    machine.holdfast("connect", agent, "--scope", "project")
    listed = machine.run(agent, "mcp", "list", environ=TRUSTING)
    assert listed.code == 0, listed.output
    [line] = [line for line in listed.output.splitlines() if "mcp" in line.split() and "holdfast" in line]
    # Claude Code asks once before it starts a project's server.
    assert well in line or (agent == "claude" and "approv" in line), line
