"""`holdfast run` during an outage of the server: the command's result is kept locally and recorded once, with its
times.
"""

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
from tests.postgres.failing_proxy import FailingProxy, committing
from tests.postgres.machines import TIMEOUT, Machine
from tests.postgres.team import Team
from tests.support.postgres.fixtures import prepared
from tests.support.postgres.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.keeper import Keeper


@pytest.fixture
def machine(postgres: Server, database: str, line: FailingProxy, tmp_path: Path) -> Machine:
    return Machine(tmp_path, Team(postgres, database, line=line).url())


def exit_command(code: int) -> list[str]:
    return [sys.executable, "-c", f"raise SystemExit({code})"]


def agent(keeper: Keeper) -> Agent:
    (agent_,) = keeper.session().document().agents
    return agent_


def events(keeper: Keeper) -> list[tuple[str, int]]:
    """The events of the command and its agent, with their times."""
    recorded = keeper.events(keeper.session().id)
    return [
        (event.type, event.at) for event in recorded if event.type == "command.ran" or event.type.startswith("agent.")
    ]


def after_command(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Call something right after the command has ended."""

    def run_then_act(argv: Sequence[str], **options: Any) -> CommandOutcome:
        outcome = run_command(argv, **options)
        action()
        return outcome

    monkeypatch.setattr(run, "run_command", run_then_act)


def test_result_is_recorded_later_when_the_server_stops_during_the_command(tmp_path: Path) -> None:
    """With the real program and a real server: the exit code is the command's."""
    with Server(durable=True) as server:
        database = prepared(server, "shop")
        machine = Machine(tmp_path, Team(server, database).url())
        with machine.keeper() as keeper:
            keeper.start("Build the shop")
        go = tmp_path / "go"
        waits = (
            f"import os, time\nuntil = time.monotonic() + {TIMEOUT}\n"
            f"while not os.path.exists({str(go)!r}) and time.monotonic() < until: time.sleep(0.02)\n"
            "raise SystemExit(3)"
        )
        environ = {**os.environ, "HOLDFAST_HOME": str(machine.home), "HOLDFAST_STORE": machine.url}
        begun = int(time.time() * 1000)
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "run", "--retries", "0", "--", sys.executable, "-c", waits],
            cwd=machine.project, env=environ, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        until = time.monotonic() + TIMEOUT
        while True:
            with machine.keeper() as keeper:
                if [item for item in keeper.session().document().agents if item.status == "running"]:
                    break
            assert time.monotonic() < until
            time.sleep(0.05)
        server.stop()
        go.touch()
        output = process.communicate(timeout=TIMEOUT)[1]
        assert process.returncode == 3
        assert (
            "the server cannot be reached: the result of run-1 is stored here, and recorded once the server is back"
            in output
        )
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
                (command_event,) = (
                    event for event in keeper.events(keeper.session().id) if event.type == "command.ran"
                )
                data = json.loads(command_event.data or b"")
                assert (data["code"], data["duration_ms"] > 0, data["agent"]) == (3, True, "run-1")
        assert (machine.waiting(), machine.unread()) == (0, [])


def test_start_is_recorded_later_when_the_server_disconnects_at_the_start(
    machine: Machine, line: FailingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Start and end are recorded in their order."""
    monkeypatch.setattr(transaction, "PATIENCE", 0.2)
    with machine.keeper() as keeper:
        session = keeper.start("Build the shop")

        def run_disconnected(
            argv: Sequence[str], *, started: Callable[[int], None], **options: Any
        ) -> CommandOutcome:
            def begun(pid: int) -> None:
                line.refuse()
                started(pid)

            return run_command(argv, started=begun, **options)

        monkeypatch.setattr(run, "run_command", run_disconnected)
        outcome = session.run(exit_command(0))
        assert (outcome.code, outcome.unrecorded, outcome.later) == (0, None, True)
        assert machine.waiting() == 2
        line.accept()
        assert agent(keeper).status == "completed"
        kinds = [kind for kind, _ in events(keeper)]
        assert kinds == ["agent.started", "agent.resumed", "command.ran", "agent.completed"]


def test_result_is_recorded_once_when_the_answer_of_its_commit_is_lost(
    machine: Machine, line: FailingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is handed over again, and recognised."""
    monkeypatch.setattr(transaction, "PATIENCE", 0.2)

    def refuse_answers() -> None:
        def trap(direction: str, data: bytes) -> bool:
            is_commit = committing(direction, data) and b"pg_notify" in data
            line._refusing = line._refusing or is_commit
            return is_commit

        line.cut_when(trap)

    with machine.keeper() as keeper:
        session = keeper.start("Build the shop")
        after_command(monkeypatch, refuse_answers)
        is_commit = session.run(exit_command(4), retries=0)
        assert (is_commit.code, is_commit.unrecorded, is_commit.later) == (4, None, True)
        assert line.triggered.is_set()
        line.accept()
        assert agent(keeper).status == "error"
        kinds = [kind for kind, _ in events(keeper)]
        assert kinds == ["agent.started", "agent.resumed", "command.ran", "agent.failed"]
        assert machine.waiting() == 0


def test_result_for_another_store_waits(
    machine: Machine, line: FailingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same home, opened with a file as its store, does not record it."""
    with machine.keeper() as keeper:
        session = keeper.start("Build the shop")
        after_command(monkeypatch, line.refuse)
        session.run(exit_command(0))
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
def test_invalid_result_file_is_set_aside(machine: Machine, content: bytes) -> None:
    with machine.keeper() as keeper:
        keeper.start("Build the shop")
        path = spool.add_payload(str(machine.home), run_deferred.OWN, "run", 0, content, store=keeper.address.url)
        assert agents_of(keeper) == []
        assert machine.waiting() == 1  # it may still be being written
        os.utime(path, (1, 1))
        assert agents_of(keeper) == []
        assert (machine.waiting(), len(machine.unread())) == (0, 1)


def agents_of(keeper: Keeper) -> list[Agent]:
    return list(keeper.session().document().agents)
