"""Behaviour of the real Gemini CLI alone: it works only in trusted folders."""

from __future__ import annotations

from pathlib import Path

from tests.real import real_programs
from tests.real.agent_tasks import GEMINI, GOAL

real_programs.skip_unless_requested()
pytestmark = real_programs.needs("gemini")


def test_untrusted_folder_is_reported(tmp_path: Path) -> None:
    """Once trusted, there is no obstacle."""
    machine = GEMINI.machine(tmp_path)
    settings = machine.home / GEMINI.settings
    settings.write_text(settings.read_text().replace('"enabled": false', '"enabled": true'))
    ran = machine.run("gemini", *GEMINI.words, GOAL, steps=[], environ=GEMINI.environ)
    assert ran.code != 0
    assert machine.sessions() == []
    obstacles = {item["name"]: item["obstacles"] for item in machine.holdfast("agents")["agents"]}
    assert "trust" in " ".join(obstacles["gemini"])
    (machine.home / ".gemini" / "trustedFolders.json").write_text(f'{{"{machine.project}": "TRUST_FOLDER"}}')
    obstacles = {item["name"]: item["obstacles"] for item in machine.holdfast("agents")["agents"]}
    assert obstacles["gemini"] == []
    GEMINI.run_prompt(machine, GOAL)
    assert [session["goal"] for session in machine.sessions()] == [GOAL]


def test_failed_command_is_counted_as_failed(tmp_path: Path) -> None:
    """By its exit code."""
    machine = GEMINI.machine(tmp_path)
    GEMINI.run_task(machine)
    assert machine.session()["commands"]["failed"] == 1
