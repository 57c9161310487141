"""`init`: a project set up by flags or by answers, or only inspected."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from tests.support.command_line import Calling


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], empty_home: Path
) -> Calling:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (empty_home / ".claude").mkdir()
    (empty_home / ".codex").mkdir()
    return Calling(tmp_path, monkeypatch, capsys)


def _connected(cli: Calling) -> set[str]:
    return {item["name"] for item in cli.document("agents")["agents"] if item["connected"]}


def test_init_only_reports_without_terminal_and_flags(cli: Calling, monkeypatch: pytest.MonkeyPatch) -> None:
    """What exists and what to run."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    document = cli.document("init")
    assert document["next"] == ["holdfast connect claude codex", "holdfast mirror on FORMAT", "holdfast backfill"]
    assert (document["connections"], document["mirrors"], document["backfill"]) == ([], [], None)
    assert "holdfast connect claude codex" in cli("init").out
    assert _connected(cli) == set()
    assert not (cli.home / "hooks").exists()


def test_init_flags_answer_every_question(cli: Calling) -> None:
    document = cli.document(
        "init", "--connect", "claude,goose", "--connect", "cline", "--mirror", "timer", "--backfill", "no"
    )
    assert [item["agent"] for item in document["connections"]] == ["claude", "goose", "cline"]
    assert (document["mirrors"], document["backfill"], document["next"]) == (["timer"], None, [])
    assert _connected(cli) == {"claude", "goose", "cline"}


def test_init_yes_connects_and_backfills_all_agents(cli: Calling) -> None:
    """`--connect none` connects nothing."""
    document = cli.document("init", "--connect", "none", "--yes")
    assert (document["connections"], document["backfill"]) == ([], [])
    document = cli.document("init", "--yes")
    assert [item["agent"] for item in document["connections"]] == ["claude", "codex"]
    assert cli.document("init", "--yes")["connections"] == []
    assert "Work as usual" in cli("init", "--yes", "--mirror", "none").out


def test_init_asks_on_a_terminal(cli: Calling, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enter accepts the proposal, names choose, and anything else is asked again."""
    monkeypatch.setattr(sys, "stdin", Terminal("vim\ncodex, cline\nfancy\ntimer\nn\n"))
    done = cli("init")
    assert done.code == 0
    assert "Agents are" in done.err
    assert _connected(cli) == {"codex", "cline"}
    monkeypatch.setattr(sys, "stdin", Terminal("\n\n\n"))
    assert "Claude Code is connected" in cli("init").out
    assert _connected(cli) == {"claude", "codex", "cline"}


@pytest.mark.parametrize("answers", ["", "y\n", "vim\n", "y\n\n", "n\ntimer\n"])
def test_init_took_the_end_of_input_for_yes(cli: Calling, monkeypatch: pytest.MonkeyPatch, answers: str) -> None:
    """Ctrl-D at any question stops it like Ctrl-C, before anything is done."""
    monkeypatch.setattr(sys, "stdin", Terminal(answers))
    done = cli("init")
    assert (done.code, done.out) == (130, "")
    assert _connected(cli) == set()
    assert cli.document("mirror", "status")["mirrors"] == []
    assert not (cli.home / "hooks").exists()


def test_init_proposes_the_script_for_hooks_of_the_project(cli: Calling) -> None:
    """In the scope of those hooks."""
    cli("connect", "claude", "--scope", "project")
    (cli.home / "hooks" / "hook").unlink()
    assert "holdfast connect claude --scope project" in cli.document("init", "--backfill", "no")["next"]
    document = cli.document("init", "--yes", "--backfill", "no")
    assert [(item["agent"], item["scope"]) for item in document["connections"]] == [
        ("claude", "project"),
        ("codex", "user"),
    ]
    assert (cli.home / "hooks" / "hook").exists()
    assert document["problems"] == []


def test_init_connects_the_other_agents_when_one_fails(cli: Calling, empty_home: Path) -> None:
    """The exit code and a sentence say so."""
    (empty_home / ".claude" / "settings.json").write_text("{")
    done = cli("init", "--yes", "--json")
    document = json.loads(done.out)
    assert done.code == 1
    assert [item["agent"] for item in document["connections"]] == ["codex"]
    assert "settings.json" in document["problems"][0]
    assert cli.refused(4, "init", "--connect", "vim")
    assert cli.refused(4, "init", "--backfill", "perhaps")
