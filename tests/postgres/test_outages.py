"""The server is killed, restarted or unreachable during a command: what was recorded, and what may be repeated."""

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
from holdfast.mcp.context import McpContext, ServerOptions
from holdfast.store.interface import AWAY
from holdfast.store.postgres.pipeline import StatementPipeline
from holdfast.workspace.unit import explain_outage
from tests.postgres.failing_proxy import FailingProxy
from tests.postgres.machines import Machine
from tests.postgres.team import Process, Task, Team, assert_nothing_lost, note
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
    """A server that keeps what it acknowledged."""
    with Server(durable=True) as server:
        yield server


def test_acknowledged_notes_survive_kills_of_the_server(durable: Server) -> None:
    """Eight machines write: each acknowledged note is there once, the others are complete or absent, every chain is
    valid.
    """
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
        outcomes = [outcomes for process in running for outcomes in process.outcomes()]
    with closing(team.store("judge")) as store:
        count = assert_nothing_lost(store, sessions, outcomes)
    assert count >= 8 * 20
    assert len([item for item in outcomes if item.hash is None]) <= len(outcomes) // 10


def test_store_works_again_after_a_restart_of_the_server(durable: Server) -> None:
    """During the outage, an error is raised at once."""
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
    postgres: Server, database: str, line: FailingProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Machine:
    machine = Machine(tmp_path, Team(postgres, database, line=line).url())
    monkeypatch.setenv("HOLDFAST_HOME", str(machine.home))
    monkeypatch.setenv("HOLDFAST_STORE", machine.url)
    monkeypatch.chdir(machine.project)
    return machine


def disconnect_after(commits: int, line: FailingProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Disconnect the server after so many writing transactions have been acknowledged."""
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
def test_command_recorded_before_an_outage_says_not_to_repeat_it(
    machine: Machine, line: FailingProxy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: list[str], kind: str,
) -> None:  # fmt: skip
    """The exit code reports the outage, the message that it was recorded."""
    if kind != "session.started":
        assert main(["start", "Build the shop", "--quiet"]) == 0
    disconnect_after(1, line, monkeypatch)
    assert main(words) == 7
    output = capsys.readouterr().err
    assert "it was recorded, but the connection was lost before the confirmation" in output
    assert "Do not repeat the command" in output
    assert "again" not in output
    line.accept()
    assert recorded(machine, kind) == 1


def test_json_error_says_that_it_was_recorded(
    machine: Machine, line: FailingProxy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["start", "Build the shop", "--quiet"]) == 0
    disconnect_after(1, line, monkeypatch)
    assert main(["note", "blue", "--json"]) == 7
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] == "unreachable"
    assert error["message"].startswith("it was recorded")
    assert error["file"].startswith("postgresql://")


@pytest.mark.parametrize(("words", "kind"), VERBS)
def test_command_not_recorded_in_an_outage_can_be_repeated(
    machine: Machine, line: FailingProxy, capsys: pytest.CaptureFixture[str], words: list[str], kind: str
) -> None:
    assert main(["start", "Build the shop", "--quiet"]) == 0
    line.refuse()
    assert main(words) == 7
    output = capsys.readouterr().err
    assert "; nothing was recorded" in output
    assert "run the command again when the server is back" in output
    line.accept()
    assert recorded(machine, kind) == 0


def test_read_command_in_an_outage_does_not_mention_recording(
    machine: Machine, line: FailingProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["start", "Build the shop", "--quiet"]) == 0
    line.refuse()
    assert main(["status"]) == 7
    assert "recorded" not in capsys.readouterr().err


def test_command_that_only_drained_before_an_outage_was_not_recorded(
    machine: Machine, line: FailingProxy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Payloads are recorded before the command starts, and the server disconnects in between."""
    machine.connect()
    assert main(["start", "Build the shop", "--quiet"]) == 0
    machine.report_command(0)
    disconnect_after(1, line, monkeypatch)
    assert main(["note", "blue"]) == 7
    assert "; nothing was recorded" in capsys.readouterr().err
    line.accept()
    assert (recorded(machine, "command.ran"), recorded(machine, "note.added")) == (1, 0)


def test_outage_error_says_that_a_part_was_recorded(
    machine: Machine, line: FailingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two units was; an error in a later call counts anew."""

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
        assert explained.hint == AWAY  # for library callers


@pytest.mark.parametrize("commits", [0, 1])
def test_mcp_error_offers_a_retry_only_when_nothing_was_recorded(
    machine: Machine, line: FailingProxy, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    with machine.keeper() as keeper:
        keeper.start("Build the shop")

    def work(keeper: Keeper) -> None:
        session = keeper.session()
        if commits:
            disconnect_after(commits, line, monkeypatch)
        else:
            line.refuse()
        session.note("blue")
        session.document()

    monkeypatch.setattr(McpContext, "_open", lambda *_: machine.open())

    async def ask() -> str:
        context = McpContext(ServerOptions(str(machine.project)))
        try:
            await context.run("", work)
        except Unreachable as error:
            return errors.error_text(error, str(machine.home), "mcp")
        finally:
            context.close()
        raise AssertionError

    answer = asyncio.run(ask())
    assert answer.startswith("It was recorded, but") == bool(commits)
    assert ("nothing was recorded" in answer) == (not commits)
    assert ("Trying again may help" in answer) == (not commits)
    assert "command again" not in answer
