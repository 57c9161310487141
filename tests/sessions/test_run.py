"""Real commands as agents of a session: what is recorded, who waits, what is tried again."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Conflict, Failed, Invalid, Refused
from holdfast.core.events import AgentResumed, AgentStarted, EventData
from holdfast.core.model import Agent, Session
from holdfast.core.state import State
from holdfast.keeper.keeper import Keeper
from holdfast.keeper.session import SessionHandle
from holdfast.machine.command import CommandOutcome, run_command
from holdfast.machine.wall import Wall
from holdfast.sessions import run as session_run
from holdfast.sessions.agents import process
from holdfast.sessions.run import RunResult, categories_from, run
from holdfast.workspace.recorder import BuildEvents

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and sh")


class Clock:
    """A wall clock that can be put forward."""

    def __init__(self) -> None:
        self.ahead = 0

    def read(self) -> int:
        return time.time_ns() + self.ahead * 10**9


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keeper(tmp_path: Path, clock: Clock) -> Iterator[Keeper]:
    project = tmp_path / "project"
    project.mkdir()
    wall = Wall(read=clock.read)
    with Keeper.open(str(project), home=str(tmp_path / "home"), actor="me", device="here", wall=wall) as opened:
        yield opened


@pytest.fixture
def session(keeper: Keeper) -> SessionHandle:
    return keeper.start("Run things")


def python(code: str, *words: str) -> list[str]:
    return [sys.executable, "-c", code, *words]


def exits(code: int) -> list[str]:
    return python(f"raise SystemExit({code})")


def agent_of(session: SessionHandle, ran: RunResult) -> Agent:
    return next(agent for agent in session.document().agents if agent.id == ran.agent_id)


def types(session: SessionHandle) -> list[str]:
    return [event.type for event in session.keeper.events(session.id)][1:]


def never(seconds: float) -> None:
    raise AssertionError(f"nothing should wait, but something waits {seconds} s")


def alone(session: SessionHandle, argv: list[str], **said: Any) -> RunResult:
    """Run with no wait allowed and no retry unless asked for."""
    return run(session.keeper, session.id, argv, **{"retries": 0, "sleep": never, **said})


# ── what is recorded ─────────────────────────────────────────────────────────────────────────────────────


def test_a_command_that_succeeds_is_a_completed_agent(session: SessionHandle, tmp_path: Path) -> None:
    """Start, process, command, code, duration and end of a command are in the session."""
    note = tmp_path / "pid"
    ran = alone(session, python("import os, sys; open(sys.argv[1], 'w').write(str(os.getpid()))", str(note)))
    agent, document = agent_of(session, ran), session.document()
    assert ran == RunResult(0, "run-1")
    assert (agent.status, agent.type, agent.error) == ("completed", "command", None)
    assert agent.pid == int(note.read_text())
    assert agent.task is not None
    assert agent.task.startswith(sys.executable)
    assert (document.commands.total, document.commands.failed) == (1, 0)
    assert types(session) == ["agent.started", "agent.resumed", "command.ran", "agent.completed"]


def test_the_agent_is_recorded_before_its_command_starts(
    session: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the command begins to run, the log already knows of it."""
    seen: list[list[str]] = []

    def watched(argv: Sequence[str], **said: Any) -> CommandOutcome:
        seen.append(types(session))
        return run_command(argv, **said)

    monkeypatch.setattr(session_run, "run_command", watched)
    alone(session, exits(0))
    assert seen == [["agent.started"]]


@pytest.mark.parametrize(
    ("code", "category"),
    [(1, "logical"), (3, "logical"), (77, "permanent"), (126, "configuration"), (137, "transient"), (255, "logical")],
)
def test_a_command_that_fails_says_how(session: SessionHandle, code: int, category: str) -> None:
    """The exit code is passed on, and the agent failed with the category that belongs to it."""
    ran = alone(session, exits(code))
    agent = agent_of(session, ran)
    assert ran.code == code
    assert agent.status == "error"
    assert agent.error is not None
    assert agent.error.category == category
    assert session.document().commands.failed == 1


@posix
def test_a_command_ended_by_a_signal_failed_for_the_moment(session: SessionHandle) -> None:
    """A signal is 128 plus its number, and a transient failure."""
    ran = alone(session, ["sh", "-c", "kill -KILL $$"])
    assert ran.code == 137
    error = agent_of(session, ran).error
    assert error is not None
    assert (error.category, error.message) == ("transient", "sh was ended by SIGKILL")


def test_a_command_that_is_not_there_is_a_matter_of_configuration(session: SessionHandle) -> None:
    """Exit code 127; the person is told, because no command can tell them."""
    told: list[str] = []
    ran = alone(session, ["no-such-command-here"], announce=told.append)
    error = agent_of(session, ran).error
    assert ran.code == 127
    assert error is not None
    assert error.category == "configuration"
    assert told == ["no-such-command-here was not found"]


def test_a_command_that_takes_too_long_is_stopped(session: SessionHandle) -> None:
    """After the timeout the agent has status `timeout` and the code is 124."""
    ran = alone(session, python("import time; time.sleep(60)"), timeout=0.2)
    agent = agent_of(session, ran)
    assert ran.code == 124
    assert agent.status == "timeout"
    assert agent.error is not None
    assert agent.error.category == "transient"


def test_run_uses_the_given_options(session: SessionHandle) -> None:
    """Id, type and task are the caller's, and the agent belongs to the command."""
    ran = alone(session, exits(0), agent_id="tests", type="tester", task="Run the tests")
    agent = agent_of(session, ran)
    assert (agent.id, agent.type, agent.task) == ("tests", "tester", "Run the tests")


def test_a_full_disk_is_a_matter_of_resources(session: SessionHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that fails where nothing more can be written failed for want of resources."""
    monkeypatch.setattr(session_run, "free_space", lambda _: 0)
    error = agent_of(session, alone(session, exits(1))).error
    assert error is not None
    assert error.category == "resource"


def test_secrets_in_a_command_are_not_kept(session: SessionHandle) -> None:
    """Neither task nor command hold them, not even half of one where the text is cut; and they are counted."""
    secret = "sk-ant-api03-" + "aB3dE5fG7h" * 9 + "-AAAA"
    for filler in (0, session_run.LONGEST_TASK - 60, session_run.LONGEST_COMMAND - 130):
        alone(session, python("", "x" * filler, secret))
    kept = "".join(repr(event.data) for event in session.keeper.events(session.id))
    assert "aB3dE5fG7h" not in kept
    assert session.document().extra["redacted"]


@posix
def test_bytes_that_are_no_text_reach_the_command_and_not_the_log(
    session: SessionHandle, capfd: pytest.CaptureFixture[str]
) -> None:
    """An argument that is not UTF-8 is passed on as it is and recorded with a mark in its place."""
    ran = alone(session, ["sh", "-c", 'printf %s "$1" | od -An -tx1', "sh", os.fsdecode(b"a\xffb")])
    assert capfd.readouterr().out.split() == ["61", "ff", "62"]
    assert "a�b" in (agent_of(session, ran).task or "")


def test_a_long_command_is_shortened(session: SessionHandle) -> None:
    """Task and command have bounds, whatever the length of the arguments."""
    ran = alone(session, python("", "y" * 50_000))
    assert len(agent_of(session, ran).task or "") == session_run.LONGEST_TASK
    assert len(session.document().commands.last or "") == session_run.LONGEST_COMMAND


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "said",
    [
        {"timeout": 0.0}, {"timeout": -1.0}, {"timeout": float("nan")}, {"timeout": float("inf")}, {"retries": -1},
        {"retries": 1000}, {"agent_id": "../x"}, {"agent_id": ""}, {"type": " "}, {"type": "x" * 101}, {"task": ""},
    ],
)  # fmt: skip
def test_impossible_wishes_are_refused(session: SessionHandle, said: dict[str, object]) -> None:
    """What cannot be meant is an error of the input, and nothing is recorded or run."""
    with pytest.raises(Invalid):
        alone(session, exits(0), **said)
    assert types(session) == []


def test_no_command_is_refused(session: SessionHandle) -> None:
    """There must be something to run."""
    for nothing in ([], [""]):
        with pytest.raises(Invalid):
            alone(session, nothing)


@pytest.mark.parametrize(
    "word", ["", "1", "x=logical", "0=logical", "256=logical", "1=strange", "-1=logical", "²=logical"]
)
def test_a_category_that_makes_no_sense_is_refused(word: str) -> None:
    """A code is 1 to 255, a kind one of the five."""
    with pytest.raises(Invalid):
        categories_from([word])


def test_categories_are_read(session: SessionHandle) -> None:
    """`CODE=KIND` says what an exit code means."""
    assert categories_from(["75=transient", "2=permanent"]) == {75: "transient", 2: "permanent"}
    error = agent_of(session, alone(session, exits(3), categories={3: "permanent"})).error
    assert error is not None
    assert error.category == "permanent"


def test_ids_are_the_first_that_are_free(session: SessionHandle) -> None:
    """`run-1`, `run-2` and so on, past those that are taken; one that is given twice is a conflict."""
    session.agent("run-2", type="x").done()
    assert [alone(session, exits(0)).agent_id for _ in range(2)] == ["run-1", "run-3"]
    with pytest.raises(Conflict):
        alone(session, exits(0), agent_id="run-2")


def test_command_is_not_run_when_it_cannot_be_recorded(
    session: SessionHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the store fails before the command starts, the command does not start."""
    made = tmp_path / "made"

    def full(*_: object, **__: object) -> State:
        raise Failed("the disk is full")

    monkeypatch.setattr(session.keeper.recorder, "record", full)
    with pytest.raises(Failed, match="disk is full"):
        alone(session, python("import sys; open(sys.argv[1], 'w')", str(made)))
    assert not made.exists()


def failing(session: SessionHandle, monkeypatch: pytest.MonkeyPatch, kind: type[EventData]) -> None:
    """Let the store fail whenever an event of this kind is recorded."""
    real = session.keeper.recorder.within

    def within(transaction: Any, which: str, build: BuildEvents, **said: Any) -> State:
        def checked(state: State) -> Iterator[EventData]:
            for data in build(state):
                if isinstance(data, kind):
                    raise Failed("the disk is full")
                yield data

        return real(transaction, which, checked, **said)

    monkeypatch.setattr(session.keeper.recorder, "within", within)


def test_a_command_that_has_begun_goes_on_whatever_the_store_says(
    session: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store failing right after the start costs the command nothing, and is told."""
    failing(session, monkeypatch, AgentResumed)
    ran = alone(session, exits(5))
    assert ran.code == 5
    assert ran.unrecorded is not None
    assert agent_of(session, ran).status == "error"


def test_the_end_of_the_session_does_not_change_the_exit_code(
    session: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that is completed while its command runs: the code stays, the loss is told."""

    def run_and_complete(argv: Sequence[str], **said: Any) -> CommandOutcome:
        outcome = run_command(argv, **said)
        session.complete()
        return outcome

    monkeypatch.setattr(session_run, "run_command", run_and_complete)
    ran = alone(session, exits(4))
    assert ran.code == 4
    assert isinstance(ran.unrecorded, Refused)


# ── trying again ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_transient_failure_is_tried_again_after_growing_waits(session: SessionHandle) -> None:
    """Two, four, eight seconds before the second, third and fourth attempt; each is recorded."""
    waits: list[float] = []
    told: list[str] = []
    ran = run(
        session.keeper,
        session.id,
        exits(9),
        retries=3,
        categories={9: "transient"},
        sleep=waits.append,
        announce=told.append,
    )
    agent = agent_of(session, ran)
    assert waits == [2, 4, 8]
    assert told == [f"run-1: try {number} of 4 in {wait} s" for number, wait in ((2, 2), (3, 4), (4, 8))]
    assert (ran.code, agent.status, agent.retries) == (9, "error", 3)
    assert types(session).count("command.ran") == 4
    assert types(session).count("agent.retried") == 3


@pytest.mark.parametrize(("mode", "retries"), [("default", 3), ("debug", 5), ("optimize", 2), ("release", 1)])
def test_the_mode_says_how_often(keeper: Keeper, mode: str, retries: int) -> None:
    """Without a number of retries, the mode's counts."""
    waits: list[float] = []
    session = keeper.start("In a mode", mode=mode)
    run(session.keeper, session.id, ["no-such-command-here"], categories={127: "transient"}, sleep=waits.append)
    assert waits == [2, 4, 8, 16, 16][:retries]


def test_only_transient_failures_are_tried_again(session: SessionHandle) -> None:
    """A logical failure would only fail again."""
    assert run(session.keeper, session.id, exits(1), retries=5, sleep=never).code == 1


def test_an_attempt_that_succeeds_ends_it(session: SessionHandle, tmp_path: Path) -> None:
    """The agent is completed by the attempt that works, with another process than the first."""
    code = (
        "import os, sys; first = not os.path.exists(sys.argv[1]); open(sys.argv[1], 'w'); sys.exit(9 if first else 0)"
    )
    waits: list[float] = []
    ran = run(
        session.keeper, session.id, python(code, str(tmp_path / "x")), categories={9: "transient"}, sleep=waits.append
    )
    agent = agent_of(session, ran)
    assert (ran.code, agent.status, agent.retries, agent.error) == (0, "completed", 1, None)
    assert waits == [2]


def test_an_agent_given_up_meanwhile_is_not_tried_again(session: SessionHandle) -> None:
    """Aborting a failed agent while it waits for its next attempt is obeyed; the last code stays."""
    told: list[str] = []

    def abort(_: float) -> None:
        session.find_agent("run-1").abort()

    ran = run(session.keeper, session.id, exits(9), categories={9: "transient"}, sleep=abort, announce=told.append)
    assert (ran.code, agent_of(session, ran).status) == (9, "aborted")
    assert "not tried again" in told[-1]


# ── the circuit ──────────────────────────────────────────────────────────────────────────────────────────


def test_run_is_refused_after_three_failures_in_a_row(session: SessionHandle, clock: Clock) -> None:
    """A type that failed three times is refused for a minute, then tried once; two successes end it."""
    for _ in range(3):
        alone(session, exits(1), type="flaky")
    with pytest.raises(Refused, match=r"start in \d\d s"):
        alone(session, exits(0), type="flaky")
    assert alone(session, exits(0), type="other").code == 0
    clock.ahead = 61
    assert alone(session, exits(0), type="flaky").code == 0
    assert alone(session, exits(0), type="flaky").code == 0
    for _ in range(2):
        alone(session, exits(1), type="flaky")
    assert alone(session, exits(0), type="flaky").code == 0


def test_a_success_in_between_starts_the_count_anew(session: SessionHandle) -> None:
    """Only failures in a row count."""
    for code in (1, 1, 0, 1, 1):
        alone(session, exits(code))
    assert alone(session, exits(0)).code == 0


def test_trial_run_is_not_retried(session: SessionHandle, clock: Clock) -> None:
    """After the minute one attempt is made, without retries and with no other beside it; failing opens it again."""
    for _ in range(3):
        alone(session, exits(1), type="flaky")
    clock.ahead = 61
    session.agent("trying", type="flaky", pid=None)
    with pytest.raises(Refused, match="trying"):
        alone(session, exits(0), type="flaky")
    session.find_agent("trying").abort()
    assert alone(session, exits(9), type="flaky", retries=3, categories={9: "transient"}).code == 9
    with pytest.raises(Refused, match="start in"):
        alone(session, exits(0), type="flaky")


def test_first_waiting_run_makes_the_trial(session: SessionHandle, clock: Clock) -> None:
    """Two runs in the queue do not hold each other up when their type may be tried again."""
    for _ in range(3):
        alone(session, exits(1), type="flaky")
    clock.ahead = 61
    session.agent("a", type="x", pid=None)
    session.agent("b", type="x", pid=None)
    later = AgentStarted(id="later", type="flaky", pending=True, pid=1, process=process(os.getpid()))

    def meanwhile(_: float) -> None:
        session.keeper.recorder.record(session.id, lambda _: [later])
        session.find_agent("a").done()

    assert run(session.keeper, session.id, exits(0), type="flaky", sleep=meanwhile).code == 0


def test_retries_count_as_failures(session: SessionHandle) -> None:
    """Every attempt counts for the type, whichever agent made it."""
    run(session.keeper, session.id, exits(9), retries=2, categories={9: "transient"}, sleep=lambda _: None)
    with pytest.raises(Refused, match="three times"):
        alone(session, exits(0))


# ── the queue ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("background", [False, True])
def test_run_waits_when_the_limit_of_agents_is_reached(session: SessionHandle, background: bool) -> None:
    """With two agents at work the third is pending, and runs as soon as one of them is done."""
    session.agent("a", type="x", pid=None, background=background)
    session.agent("b", type="x", pid=None, background=background)
    told: list[str] = []
    seen: list[str] = []

    def meanwhile(_: float) -> None:
        seen.append(session.document().agents[-1].status)
        if len(seen) == 3:
            session.find_agent("a").done()

    ran = run(session.keeper, session.id, exits(0), sleep=meanwhile, announce=told.append)
    assert ran.code == 0
    assert seen == ["pending"] * 3
    assert told == ["run-1 waits for its turn, behind a, b"]


def test_agent_does_not_count_when_its_process_ended(
    session: SessionHandle, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents recorded as running whose process has died hold nobody up."""
    monkeypatch.setattr(session_run, "_SETTLES", 0.0)
    for name in ("a", "b"):
        with subprocess.Popen(python("import time; time.sleep(60)")) as child:
            session.agent(name, type="x", pid=child.pid)
            child.kill()
    assert alone(session, exits(0)).code == 0


def test_agent_counts_until_its_end_is_recorded(session: SessionHandle) -> None:
    """A process that is gone may be a run about to record its end: it gets a moment."""
    for name in ("a", "b"):
        with subprocess.Popen(python("import time; time.sleep(60)")) as child:
            session.agent(name, type="x", pid=child.pid)
            child.kill()
    waited: list[float] = []

    def meanwhile(seconds: float) -> None:
        waited.append(seconds)
        session.find_agent("a").done()

    run(session.keeper, session.id, exits(0), sleep=meanwhile)
    assert len(waited) == 1


def test_those_who_came_first_go_first(session: SessionHandle) -> None:
    """A run waits behind those that wait already, but not behind one nobody waits for any more."""
    record = session.keeper.recorder.record
    own = process(os.getpid())
    gone = AgentStarted(id="gone", type="x", pending=True)
    record(session.id, lambda _: [gone, AgentStarted(id="first", type="x", pending=True, pid=1, process=own)])
    session.agent("busy", type="x", pid=None)
    told: list[str] = []

    def meanwhile(_: float) -> None:
        session.find_agent("first").abort()

    assert run(session.keeper, session.id, exits(0), sleep=meanwhile, announce=told.append).code == 0
    assert told == ["run-1 waits for its turn, behind busy, first"]


def test_run_that_is_aborted_while_waiting_does_not_start(session: SessionHandle, tmp_path: Path) -> None:
    """Aborting a pending agent ends its waiting, with a refusal."""
    made = tmp_path / "made"
    session.agent("a", type="x", pid=None)
    session.agent("b", type="x", pid=None)

    def meanwhile(_: float) -> None:
        session.find_agent("run-1").abort()

    with pytest.raises(Refused, match="aborted"):
        run(session.keeper, session.id, python("import sys; open(sys.argv[1], 'w')", str(made)), sleep=meanwhile)
    assert not made.exists()


def test_the_end_of_the_session_ends_the_waiting(session: SessionHandle, tmp_path: Path) -> None:
    """A session that ends while a command waits for its turn: the command is not run."""
    session.agent("a", type="x", pid=None)
    session.agent("b", type="x", pid=None)

    def meanwhile(_: float) -> None:
        session.complete()

    with pytest.raises(Refused, match="completed"):
        run(session.keeper, session.id, exits(0), sleep=meanwhile)


def test_other_threads_can_run_commands_too(tmp_path: Path, keeper: Keeper) -> None:
    """Without the main thread's signals everything else works."""
    found: list[tuple[int, Session]] = []

    def work() -> None:
        with Keeper.open(keeper.place.root, home=keeper.home.path, actor="me", device="here") as own:
            session = own.start("In a thread")
            found.append((alone(session, exits(6)).code, session.document()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [(code, document.agents[0].status) for code, document in found] == [(6, "error")]
