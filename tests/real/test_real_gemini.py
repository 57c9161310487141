"""What only Gemini CLI does, with its real program: it works nowhere it has not been told to trust."""

from __future__ import annotations

from pathlib import Path

from tests.real import real_programs
from tests.real.real_plays import GEMINI, GOAL

real_programs.wanted()
pytestmark = real_programs.needs("gemini")


def test_a_folder_that_is_not_trusted_is_named_as_an_obstacle(tmp_path: Path) -> None:
    """Where Gemini refuses to work, Holdfast says why nothing is recorded; once trusted, nothing is in the way."""
    stage = GEMINI.stage(tmp_path)
    settings = stage.home / GEMINI.settings
    settings.write_text(settings.read_text().replace('"enabled": false', '"enabled": true'))
    ran = stage.run("gemini", *GEMINI.words, GOAL, steps=[], environ=GEMINI.environ)
    assert ran.code != 0
    assert stage.sessions() == []
    obstacles = {item["name"]: item["obstacles"] for item in stage.holdfast("agents")["agents"]}
    assert "trust" in " ".join(obstacles["gemini"])
    (stage.home / ".gemini" / "trustedFolders.json").write_text(f'{{"{stage.project}": "TRUST_FOLDER"}}')
    obstacles = {item["name"]: item["obstacles"] for item in stage.holdfast("agents")["agents"]}
    assert obstacles["gemini"] == []
    GEMINI.speaks(stage, GOAL)
    assert [session["goal"] for session in stage.sessions()] == [GOAL]


def test_a_command_that_failed_is_counted_as_such(tmp_path: Path) -> None:
    """Gemini hands over the exit code."""
    stage = GEMINI.stage(tmp_path)
    GEMINI.works(stage)
    assert stage.session()["commands"]["failed"] == 1
