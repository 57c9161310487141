"""`holdfast run` while the server goes away: how the command ended is kept here and recorded once, with its times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.core.model import Agent
from holdfast.machine.command import CommandOutcome, run_command
from holdfast.sessions import run, run_deferred
from holdfast.store.postgres import transaction
from holdfast.workspace import spool
from tests.postgres.failing_proxy import Cutter, committing
from tests.postgres.machines import LONGEST, Machine
from tests.postgres.team import Team
from tests.support.postgres.fixtures import prepared
from tests.support.postgres.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.keeper import Keeper


@pytest.fixture
def machine(postgres: Server, database: str, line: Cutter, tmp_path: Path) -> Machine:
    return Machine(tmp_path, Team(postgres, database, line=line).url())


def exits(code: int) -> list[str]:
    return [sys.executable, "-c", f"raise SystemExit({code})"]


def agent(keeper: Keeper) -> Agent:
    (agent_,) = keeper.session().document().agents
    return agent_


def events(keeper: Keeper) -> list[tuple[str, int]]:
    """What was recorded of the command and its agent, with its times."""
    recorded = keeper.events(keeper.session().id)
    return [
        (event.type, event.at) for event in recorded if event.type == "command.ran" or event.type.startswith("agent.")
    ]


def then(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Something happens right after the command has ended."""

    def ran(argv: Sequence[str], **options: Any) -> CommandOutcome:
        outcome = run_command(argv, **options)
        happens()
        return outcome

    monkeypatch.setattr(run, "run_command", ran)


def test_a_server_that_was_stopped_while_a_command_ran(tmp_path: Path) -> None:
    """The real program, and a real server: its exit code is the command's, and the log has all of it later, once."""
    with Server(durable=True) as server:
        database = prepared(server, "shop")
        machine = Machine(tmp_path, Team(server, database).url())
        with machine.keeper() as keeper:
            keeper.start("Build the shop")
        go = tmp_path / "go"
        waits = (
            f"import os, time\nuntil = time.monotonic() + {LONGEST}\n"
            f"while not os.path.exists({str(go)!r}) and time.monotonic() < until: time.sleep(0.02)\n"
            "raise SystemExit(3)"
        )
        environ = {**os.environ, "HOLDFAST_HOME": str(machine.home), "HOLDFAST_STORE": machine.url}
        begun = int(time.time() * 1000)
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "run", "--retries", "0", "--", sys.executable, "-c", waits],
            cwd=machine.project, env=environ, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        until = time.monotonic() + LONGEST
        while True:
            with machine.keeper() as keeper:
                if [item for item in keeper.session().document().agents if item.status == "running"]:
                    break
            assert time.monotonic() < until
            time.sleep(0.05)
        server.stop()
        go.touch()
        output = process.communicate(timeout=LONGEST)[1]
        assert process.returncode == 3
        assert "the server is away: the result of run-1 is kept here, and recorded when it is back" in output
        assert len(output.splitlines()) == 1
        assert machine.waiting() == 1
        ended = int(time.time() * 1000)
        server.start()
        time.sleep(0.01)
        for _ in range(2):
            with machine.keeper() as keeper:
                stopped = agent(keeper)
                assert (stopped.status, stopped.error is not None) == ("error", True)
                assert stopped.duration_ms is not None
                assert 0 < stopped.duration_ms <= ended - begun
                kinds = [kind for kind, _ in events(keeper)]
                assert kinds == ["agent.started", "agent.resumed", "command.ran", "agent.failed"]
                assert all(at <= ended for _, at in events(keeper))
                (ran,) = (event for event in keeper.events(keeper.session().id) if event.type == "command.ran")
                data = json.loads(ran.data or b"")
                assert (data["code"], data["duration_ms"] > 0, data["agent"]) == (3, True, "run-1")
        assert (machine.waiting(), machine.unread()) == (0, [])


def test_the_start_is_kept_too(machine: Machine, line: Cutter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server goes when the command begins: both its beginning and its end are recorded later, in their order."""
    monkeypatch.setattr(transaction, "PATIENCE", 0.2)
    with machine.keeper() as keeper:
        session = keeper.start("Build the shop")

        def ran(argv: Sequence[str], *, started: Callable[[int], None], **options: Any) -> CommandOutcome:
            def begun(pid: int) -> None:
                line.refuse()
                started(pid)

            return run_command(argv, started=begun, **options)

        monkeypatch.setattr(run, "run_command", ran)
        outcome = session.run(exits(0))
        assert (outcome.code, outcome.unrecorded, outcome.later) == (0, None, True)
        assert machine.waiting() == 2
        line.accept()
        assert agent(keeper).status == "completed"
        kinds = [kind for kind, _ in events(keeper)]
        assert kinds == ["agent.started", "agent.resumed", "command.ran", "agent.completed"]


def test_an_end_that_was_saved_after_all_is_there_once(
    machine: Machine, line: Cutter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the commit is lost and the server stays away: it is handed over, and found to be known."""
    monkeypatch.setattr(transaction, "PATIENCE", 0.2)

    def refuse_answers() -> None:
        def trap(direction: str, data: bytes) -> bool:
            is_commit = committing(direction, data) and b"pg_notify" in data
            line._refusing = line._refusing or is_commit
            return is_commit

        line.cut_when(trap)

    with machine.keeper() as keeper:
        session = keeper.start("Build the shop")
        then(monkeypatch, refuse_answers)
        is_commit = session.run(exits(4), retries=0)
        assert (is_commit.code, is_commit.unrecorded, is_commit.later) == (4, None, True)
        assert line.happened.is_set()
        line.accept()
        assert agent(keeper).status == "error"
        kinds = [kind for kind, _ in events(keeper)]
        assert kinds == ["agent.started", "agent.resumed", "command.ran", "agent.failed"]
        assert machine.waiting() == 0


def test_what_is_of_another_store_waits(machine: Machine, line: Cutter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same home with a file as its store does not take in what belongs on the server."""
    with machine.keeper() as keeper:
        session = keeper.start("Build the shop")
        then(monkeypatch, line.refuse)
        session.run(exits(0))
    url, machine.url = machine.url, f"sqlite:///{machine.home}/store.db"
    with machine.keeper() as keeper:
        assert keeper.history() == []
    assert machine.waiting() == 1
    machine.url = url
    line.accept()
    with machine.keeper() as keeper:
        assert agent(keeper).status == "completed"
    assert machine.waiting() == 0


@pytest.mark.parametrize("content", [b"{}", b"not JSON", b'{"store": 5}'])
def test_what_makes_no_sense_is_put_aside(machine: Machine, content: bytes) -> None:
    """Whatever somebody wrote there, nothing stops for it."""
    with machine.keeper() as keeper:
        keeper.start("Build the shop")
        path = spool.add_payload(str(machine.home), run_deferred.OWN, "run", 0, content, store=keeper.address.url)
        assert agents_of(keeper) == []
        assert machine.waiting() == 1  # somebody may still be writing it
        os.utime(path, (1, 1))
        assert agents_of(keeper) == []
        assert (machine.waiting(), len(machine.unread())) == (0, 1)


def agents_of(keeper: Keeper) -> list[Agent]:
    return list(keeper.session().document().agents)
