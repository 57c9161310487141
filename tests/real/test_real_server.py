"""The MCP server, registered by `connect`, as the real programs see it: listed, and started where they do that."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.real import real_programs
from tests.real.real_programs import needs
from tests.real.real_stage import Stage

real_programs.wanted()

TRUSTING = {
    "GEMINI_CLI_TRUST_WORKSPACE": "true",
    "PATH": os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"])),  # where holdfast is
}
PROGRAMS = [
    pytest.param("claude", "Connected", id="claude", marks=needs("claude")),
    pytest.param("codex", "enabled", id="codex", marks=needs("codex")),
    pytest.param("gemini", "Connected", id="gemini", marks=needs("gemini")),
]


@pytest.mark.parametrize(("agent", "well"), PROGRAMS)
def test_a_person_s_server_is_listed_and_answers(agent: str, well: str, tmp_path: Path) -> None:
    """`mcp list` names it with our script; where the program tries it, it is connected; disconnected, it is gone."""
    stage = Stage(tmp_path)
    stage.holdfast("connect", agent)
    listed = stage.run(agent, "mcp", "list", environ=TRUSTING)
    assert listed.code == 0, listed.said
    [line] = [line for line in listed.said.splitlines() if "holdfast-mcp" in line]
    assert str(stage.kept / "hooks" / "holdfast-mcp") in line
    assert well in line
    stage.holdfast("disconnect", agent)
    assert "holdfast-mcp" not in stage.run(agent, "mcp", "list", environ=TRUSTING).said


@pytest.mark.parametrize(("agent", "well"), PROGRAMS)
def test_a_project_s_server_is_listed(agent: str, well: str, tmp_path: Path) -> None:
    """What the project shares is read, as far as the program trusts the project."""
    stage = Stage(tmp_path)
    if agent == "codex":
        config = stage.home / ".codex" / "config.toml"
        config.parent.mkdir()
        config.write_text(f'[projects."{stage.project}"]\ntrust_level = "trusted"\n')
    stage.holdfast("connect", agent, "--scope", "project")
    listed = stage.run(agent, "mcp", "list", environ=TRUSTING)
    assert listed.code == 0, listed.said
    [line] = [line for line in listed.said.splitlines() if "mcp" in line.split() and "holdfast" in line]
    # Claude Code asks a person once before it starts what a project brings.
    assert well in line or (agent == "claude" and "approv" in line), line
