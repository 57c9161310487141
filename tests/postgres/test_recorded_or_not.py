"""The server goes away in the middle of a command: who asked is told whether it was recorded, and does it once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.cli.main import main
from holdfast.core.errors import Unreachable
from holdfast.mcp import errors
from holdfast.mcp.context import KeeperCache
from holdfast.store.interface import AWAY
from holdfast.store.postgres.pipeline import StatementPipeline
from holdfast.workspace.unit import explain_outage
from tests.postgres.failing_proxy import Cutter
from tests.postgres.machines import Desk
from tests.postgres.team import Team
from tests.support.postgres.server import Server

if TYPE_CHECKING:
    from holdfast.keeper import Keeper

VERBS = [
    (["note", "blue"], "note.added"),
    (["task", "add", "Paint it"], "task.added"),
    (["decide", "blue", "--why", "the sea"], "decision.made"),
]


@pytest.fixture
def desk(postgres: Server, database: str, line: Cutter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    desk = Desk(tmp_path, Team(postgres, database, line=line).url())
    monkeypatch.setenv("HOLDFAST_HOME", str(desk.home))
    monkeypatch.setenv("HOLDFAST_STORE", desk.url)
    monkeypatch.chdir(desk.project)
    return desk


def goes_after(commits: int, line: Cutter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server goes away as soon as so many transactions that write were answered."""
    real, left = StatementPipeline.commit, [commits]

    def commit(pipeline: StatementPipeline, channel: str) -> None:
        real(pipeline, channel)
        left[0] -= 1
        if left[0] == 0:
            line.refuse()

    monkeypatch.setattr(StatementPipeline, "commit", commit)


def recorded(desk: Desk, kind: str) -> int:
    with desk.keeper() as keeper:
        rows = keeper.history(limit=None)
        return sum(event.type == kind for row in rows for event in keeper.events(row.id))


@pytest.mark.parametrize(("words", "kind"), [*VERBS, (["start", "Build the shop"], "session.started")])
def test_what_was_recorded_is_not_to_be_repeated(
    desk: Desk, line: Cutter, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: list[str], kind: str,
) -> None:  # fmt: skip
    """The transaction is over when the server goes: the code says that it is away, the words that it was recorded."""
    if kind != "session.started":
        assert main(["start", "Build the shop", "--quiet"]) == 0
    goes_after(1, line, monkeypatch)
    assert main(words) == 7
    said = capsys.readouterr().err
    assert "it was recorded, but the server went away before the answer" in said
    assert "Do not repeat it" in said
    assert "again" not in said
    line.accept()
    assert recorded(desk, kind) == 1


def test_programs_are_told_too(
    desk: Desk, line: Cutter, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same in the document of `--json`."""
    assert main(["start", "Build the shop", "--quiet"]) == 0
    goes_after(1, line, monkeypatch)
    assert main(["note", "blue", "--json"]) == 7
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] == "unreachable"
    assert error["message"].startswith("it was recorded")
    assert error["file"].startswith("postgresql://")


@pytest.mark.parametrize(("words", "kind"), VERBS)
def test_what_was_not_recorded_can_be_repeated(
    desk: Desk, line: Cutter, capsys: pytest.CaptureFixture[str], words: list[str], kind: str
) -> None:
    """The server was away before anything happened: that is said, and the command can be run again."""
    assert main(["start", "Build the shop", "--quiet"]) == 0
    line.refuse()
    assert main(words) == 7
    said = capsys.readouterr().err
    assert "; nothing was recorded" in said
    assert "run the command again when the server is back" in said
    line.accept()
    assert recorded(desk, kind) == 0


def test_looking_says_nothing_of_recording(desk: Desk, line: Cutter, capsys: pytest.CaptureFixture[str]) -> None:
    """Who only looks did not want anything recorded."""
    assert main(["start", "Build the shop", "--quiet"]) == 0
    line.refuse()
    assert main(["status"]) == 7
    assert "recorded" not in capsys.readouterr().err


def test_what_hooks_left_is_not_what_was_asked_for(
    desk: Desk, line: Cutter, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is taken in before the command begins, and the server goes in between: that is not the command's."""
    desk.connect()
    assert main(["start", "Build the shop", "--quiet"]) == 0
    desk.ran(0)
    goes_after(1, line, monkeypatch)
    assert main(["note", "blue"]) == 7
    assert "; nothing was recorded" in capsys.readouterr().err
    line.accept()
    assert (recorded(desk, "command.ran"), recorded(desk, "note.added")) == (1, 0)


def test_a_part_of_it(desk: Desk, line: Cutter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two turns one came to its end; and what began afterwards counts anew."""

    def failed(keeper: Keeper) -> Unreachable:
        with pytest.raises(Unreachable) as caught:
            keeper.session().note("second")
        found = explain_outage(keeper, caught.value)
        assert isinstance(found, Unreachable)
        return found

    with desk.keeper() as keeper:
        session = keeper.start("Build the shop")
        keeper.outcome.begin()
        session.note("first")
        keeper.outcome.unit_begins(keeper)
        line.refuse()
        found = failed(keeper)
        assert found.message.startswith("part of it was recorded")
        assert not found.retry_helps
        keeper.outcome.begin()
        found = failed(keeper)
        assert found.message.endswith("; nothing was recorded")
        assert found.hint == AWAY  # for who ran no command


@pytest.mark.parametrize("commits", [0, 1])
def test_an_agent_is_told_too(desk: Desk, line: Cutter, monkeypatch: pytest.MonkeyPatch, commits: int) -> None:
    """Through MCP: trying again is offered where nothing was recorded, and only there."""
    with desk.keeper() as keeper:
        keeper.start("Build the shop")

    def work(keeper: Keeper) -> None:
        session = keeper.session()
        if commits:
            goes_after(commits, line, monkeypatch)
        else:
            line.refuse()
        session.note("blue")
        session.document()

    async def ask() -> str:
        keepers = KeeperCache(lambda _: desk.open())
        try:
            await keepers.run(lambda: str(desk.project), work)
        except Unreachable as error:
            return errors.error_text(error, str(desk.home), "mcp")
        finally:
            keepers.close()
        raise AssertionError

    said = asyncio.run(ask())
    assert said.startswith("It was recorded, but") == bool(commits)
    assert ("nothing was recorded" in said) == (not commits)
    assert ("Trying again may help" in said) == (not commits)
    assert "command again" not in said
