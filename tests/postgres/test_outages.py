"""The server is killed, restarted or away in the middle of a command: what was recorded, and what may be repeated."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
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
from tests.postgres.machines import Machine
from tests.postgres.team import Process, Task, Team, judge, note
from tests.support.postgres.fixtures import prepared
from tests.support.postgres.server import Server
from tests.support.scale import scale

if TYPE_CHECKING:
    from holdfast.keeper import Keeper

# ── restarts ─────────────────────────────────────────────────────────────────────────────────────────────


_KILLS = scale(3, 40, 400)
_PAUSES = ((0.1, 0.5), (1.0, 5.0), (5.0, 40.0))[scale(0, 1, 2)]


@pytest.fixture(scope="module")
def durable() -> Iterator[Server]:
    """A server that keeps what it acknowledged, whatever is done to it."""
    with Server(durable=True) as server:
        yield server


def test_the_server_is_killed_under_writers(durable: Server) -> None:
    """What eight machines were told is there, once; the rest is there whole, or not at all; every chain holds."""
    team = Team(durable, prepared(durable, "killed"))
    sessions = team.begin(["one", "two"])
    rng = random.Random(24)
    pauses = [rng.uniform(*_PAUSES) for _ in range(_KILLS)]
    with ExitStack() as stack:
        running = [
            stack.enter_context(
                Process(Task(team.url(), [f"{name}{n}" for n in range(4)], sessions, 20, sum(pauses) + _KILLS / 2))
            )
            for name in ("m", "n")
        ]
        time.sleep(0.5)  # they have begun
        for pause in pauses:
            time.sleep(pause)
            durable.kill()
            durable.start()
        outcomes = [outcomes for process in running for outcomes in process.said()]
    with closing(team.store("judge")) as store:
        count = judge(store, sessions, outcomes)
    assert count >= 8 * 20
    assert len([item for item in outcomes if item.hash is None]) <= len(outcomes) // 10


def test_the_server_is_restarted_between_commands(durable: Server) -> None:
    """While it is away, that is said at once; when it is back, the same store goes on."""
    team = Team(durable, prepared(durable, "restarted"))
    (session,) = team.begin(["one"])
    with closing(team.store()) as store:
        note(store, session, "n 1")
        durable.stop()
        with pytest.raises(Unreachable):
            note(store, session, "n 2")
        with pytest.raises(Unreachable):
            store.state(session)
        with pytest.raises(Unreachable):
            team.store("another")
        durable.start()
        note(store, session, "n 3")
        state = store.state(session)
        assert state is not None
        assert [item.text for item in state.notes] == ["n 1", "n 3"]


# ── what was recorded ────────────────────────────────────────────────────────────────────────────────────


VERBS = [
    (["note", "blue"], "note.added"),
    (["task", "add", "Paint it"], "task.added"),
    (["decide", "blue", "--why", "the sea"], "decision.made"),
]


@pytest.fixture
def machine(
    postgres: Server, database: str, line: Cutter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Machine:
    machine = Machine(tmp_path, Team(postgres, database, line=line).url())
    monkeypatch.setenv("HOLDFAST_HOME", str(machine.home))
    monkeypatch.setenv("HOLDFAST_STORE", machine.url)
    monkeypatch.chdir(machine.project)
    return machine


def goes_after(commits: int, line: Cutter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server goes away as soon as so many transactions that write were answered."""
    real, left = StatementPipeline.commit, [commits]

    def commit(pipeline: StatementPipeline, channel: str) -> None:
        real(pipeline, channel)
        left[0] -= 1
        if left[0] == 0:
            line.refuse()

    monkeypatch.setattr(StatementPipeline, "commit", commit)


def recorded(machine: Machine, kind: str) -> int:
    with machine.keeper() as keeper:
        rows = keeper.history(limit=None)
        return sum(event.type == kind for row in rows for event in keeper.events(row.id))


@pytest.mark.parametrize(("words", "kind"), [*VERBS, (["start", "Build the shop"], "session.started")])
def test_what_was_recorded_is_not_to_be_repeated(
    machine: Machine, line: Cutter, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: list[str], kind: str,
) -> None:  # fmt: skip
    """The transaction is over when the server goes: the code says that it is away, the words that it was recorded."""
    if kind != "session.started":
        assert main(["start", "Build the shop", "--quiet"]) == 0
    goes_after(1, line, monkeypatch)
    assert main(words) == 7
    output = capsys.readouterr().err
    assert "it was recorded, but the server went away before the answer" in output
    assert "Do not repeat it" in output
    assert "again" not in output
    line.accept()
    assert recorded(machine, kind) == 1


def test_python_callers_get_the_same_error(
    machine: Machine, line: Cutter, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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
    machine: Machine, line: Cutter, capsys: pytest.CaptureFixture[str], words: list[str], kind: str
) -> None:
    """The server was away before anything happened: that is said, and the command can be run again."""
    assert main(["start", "Build the shop", "--quiet"]) == 0
    line.refuse()
    assert main(words) == 7
    output = capsys.readouterr().err
    assert "; nothing was recorded" in output
    assert "run the command again when the server is back" in output
    line.accept()
    assert recorded(machine, kind) == 0


def test_looking_says_nothing_of_recording(
    machine: Machine, line: Cutter, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who only looks did not want anything recorded."""
    assert main(["start", "Build the shop", "--quiet"]) == 0
    line.refuse()
    assert main(["status"]) == 7
    assert "recorded" not in capsys.readouterr().err


def test_what_hooks_left_is_not_what_was_asked_for(
    machine: Machine, line: Cutter, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is taken in before the command begins, and the server goes in between: that is not the command's."""
    machine.connect()
    assert main(["start", "Build the shop", "--quiet"]) == 0
    machine.ran(0)
    goes_after(1, line, monkeypatch)
    assert main(["note", "blue"]) == 7
    assert "; nothing was recorded" in capsys.readouterr().err
    line.accept()
    assert (recorded(machine, "command.ran"), recorded(machine, "note.added")) == (1, 0)


def test_a_part_of_it(machine: Machine, line: Cutter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two turns one came to its end; and what began afterwards counts anew."""

    def failed(keeper: Keeper) -> Unreachable:
        with pytest.raises(Unreachable) as caught:
            keeper.session().note("second")
        explained = explain_outage(keeper, caught.value)
        assert isinstance(explained, Unreachable)
        return explained

    with machine.keeper() as keeper:
        session = keeper.start("Build the shop")
        keeper.outcome.begin()
        session.note("first")
        keeper.outcome.unit_begins(keeper)
        line.refuse()
        explained = failed(keeper)
        assert explained.message.startswith("part of it was recorded")
        assert not explained.retry_helps
        keeper.outcome.begin()
        explained = failed(keeper)
        assert explained.message.endswith("; nothing was recorded")
        assert explained.hint == AWAY  # for who ran no command


@pytest.mark.parametrize("commits", [0, 1])
def test_agents_get_the_same_error(
    machine: Machine, line: Cutter, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    """Through MCP: trying again is offered where nothing was recorded, and only there."""
    with machine.keeper() as keeper:
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
        keepers = KeeperCache(lambda _: machine.open())
        try:
            await keepers.run(lambda: str(machine.project), work)
        except Unreachable as error:
            return errors.error_text(error, str(machine.home), "mcp")
        finally:
            keepers.close()
        raise AssertionError

    answer = asyncio.run(ask())
    assert answer.startswith("It was recorded, but") == bool(commits)
    assert ("nothing was recorded" in answer) == (not commits)
    assert ("Trying again may help" in answer) == (not commits)
    assert "command again" not in answer
