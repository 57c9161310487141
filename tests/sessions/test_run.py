"""Real commands as agents of a session: what is recorded, what waits, and what is retried."""

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
    """A wall clock that can be moved ahead."""

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


def run_once(session: SessionHandle, argv: list[str], **options: Any) -> RunResult:
    """Run without waiting, and without retries unless asked for."""
    return run(session.keeper, session.id, argv, **{"retries": 0, "sleep": never, **options})


# ── what is recorded ─────────────────────────────────────────────────────────────────────────────────────


def test_successful_command_is_a_completed_agent(session: SessionHandle, tmp_path: Path) -> None:
    """With start, process, command, code, duration and end."""
    note = tmp_path / "pid"
    ran = run_once(session, python("import os, sys; open(sys.argv[1], 'w').write(str(os.getpid()))", str(note)))
    agent, document = agent_of(session, ran), session.document()
    assert ran == RunResult(0, "run-1")
    assert (agent.status, agent.type, agent.error) == ("completed", "command", None)
    assert agent.pid == int(note.read_text())
    assert agent.task is not None
    assert agent.task.startswith(sys.executable)
    assert (document.commands.total, document.commands.failed) == (1, 0)
    assert types(session) == ["agent.started", "agent.resumed", "command.ran", "agent.completed"]


def test_agent_is_recorded_before_its_command_starts(session: SessionHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def watched(argv: Sequence[str], **options: Any) -> CommandOutcome:
        seen.append(types(session))
        return run_command(argv, **options)

    monkeypatch.setattr(session_run, "run_command", watched)
    run_once(session, exits(0))
    assert seen == [["agent.started"]]


@pytest.mark.parametrize(
    ("code", "category"),
    [(1, "logical"), (3, "logical"), (77, "permanent"), (126, "configuration"), (137, "transient"), (255, "logical")],
)
def test_failed_command_has_its_exit_code_and_category(session: SessionHandle, code: int, category: str) -> None:
    ran = run_once(session, exits(code))
    agent = agent_of(session, ran)
    assert ran.code == code
    assert agent.status == "error"
    assert agent.error is not None
    assert agent.error.category == category
    assert session.document().commands.failed == 1


@posix
def test_command_ended_by_a_signal_is_a_transient_failure(session: SessionHandle) -> None:
    """Its code is 128 plus the number of the signal."""
    ran = run_once(session, ["sh", "-c", "kill -KILL $$"])
    assert ran.code == 137
    error = agent_of(session, ran).error
    assert error is not None
    assert (error.category, error.message) == ("transient", "sh was ended by SIGKILL")


def test_missing_command_is_a_configuration_failure(session: SessionHandle) -> None:
    """Exit code 127; the person is told, since no command can print it."""
    messages: list[str] = []
    ran = run_once(session, ["no-such-command-here"], announce=messages.append)
    error = agent_of(session, ran).error
    assert ran.code == 127
    assert error is not None
    assert error.category == "configuration"
    assert messages == ["no-such-command-here was not found"]


def test_command_is_stopped_after_the_timeout(session: SessionHandle) -> None:
    """The agent has status `timeout` and the code is 124."""
    ran = run_once(session, python("import time; time.sleep(60)"), timeout=0.2)
    agent = agent_of(session, ran)
    assert ran.code == 124
    assert agent.status == "timeout"
    assert agent.error is not None
    assert agent.error.category == "transient"


def test_run_uses_the_given_options(session: SessionHandle) -> None:
    """Id, type and task are the caller's."""
    ran = run_once(session, exits(0), agent_id="tests", type="tester", task="Run the tests")
    agent = agent_of(session, ran)
    assert (agent.id, agent.type, agent.task) == ("tests", "tester", "Run the tests")


def test_command_that_fails_on_a_full_disk_is_a_resource_failure(
    session: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_run, "free_space", lambda _: 0)
    error = agent_of(session, run_once(session, exits(1))).error
    assert error is not None
    assert error.category == "resource"


def test_secrets_in_a_command_are_removed_and_counted(session: SessionHandle) -> None:
    """From task and command, also where the text is cut within one."""
    secret = "sk-ant-api03-" + "aB3dE5fG7h" * 9 + "-AAAA"
    for filler in (0, session_run.MAX_TASK_LENGTH - 60, session_run.MAX_COMMAND_LENGTH - 130):
        run_once(session, python("", "x" * filler, secret))
    kept = "".join(repr(event.data) for event in session.keeper.events(session.id))
    assert "aB3dE5fG7h" not in kept
    assert session.document().extra["redacted"]


@posix
def test_argument_outside_utf8_reaches_the_command_unchanged(
    session: SessionHandle, capfd: pytest.CaptureFixture[str]
) -> None:
    """The log has a replacement character in its place."""
    ran = run_once(session, ["sh", "-c", 'printf %s "$1" | od -An -tx1', "sh", os.fsdecode(b"a\xffb")])
    assert capfd.readouterr().out.split() == ["61", "ff", "62"]
    assert "a�b" in (agent_of(session, ran).task or "")


def test_long_command_is_shortened_in_the_log(session: SessionHandle) -> None:
    ran = run_once(session, python("", "y" * 50_000))
    assert len(agent_of(session, ran).task or "") == session_run.MAX_TASK_LENGTH
    assert len(session.document().commands.last or "") == session_run.MAX_COMMAND_LENGTH


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0.0}, {"timeout": -1.0}, {"timeout": float("nan")}, {"timeout": float("inf")}, {"retries": -1},
        {"retries": 1000}, {"agent_id": "../x"}, {"agent_id": ""}, {"type": " "}, {"type": "x" * 101}, {"task": ""},
    ],
)  # fmt: skip
def test_invalid_options_are_refused(session: SessionHandle, options: dict[str, object]) -> None:
    """Nothing is recorded or run."""
    with pytest.raises(Invalid):
        run_once(session, exits(0), **options)
    assert types(session) == []


def test_empty_command_is_refused(session: SessionHandle) -> None:
    for nothing in ([], [""]):
        with pytest.raises(Invalid):
            run_once(session, nothing)


@pytest.mark.parametrize(
    "word", ["", "1", "x=logical", "0=logical", "256=logical", "1=strange", "-1=logical", "²=logical"]
)
def test_invalid_category_is_refused(word: str) -> None:
    """A code is 1 to 255, a kind one of the five."""
    with pytest.raises(Invalid):
        categories_from([word])


def test_category_of_an_exit_code_can_be_set(session: SessionHandle) -> None:
    """As `CODE=KIND`."""
    assert categories_from(["75=transient", "2=permanent"]) == {75: "transient", 2: "permanent"}
    error = agent_of(session, run_once(session, exits(3), categories={3: "permanent"})).error
    assert error is not None
    assert error.category == "permanent"


def test_run_takes_the_first_free_id(session: SessionHandle) -> None:
    """`run-1`, `run-2` and so on; giving a taken id is a conflict."""
    session.agent("run-2", type="x").done()
    assert [run_once(session, exits(0)).agent_id for _ in range(2)] == ["run-1", "run-3"]
    with pytest.raises(Conflict):
        run_once(session, exits(0), agent_id="run-2")


def test_command_is_not_run_when_it_cannot_be_recorded(
    session: SessionHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made"

    def full(*_: object, **__: object) -> State:
        raise Failed("the disk is full")

    monkeypatch.setattr(session.keeper.recorder, "record", full)
    with pytest.raises(Failed, match="disk is full"):
        run_once(session, python("import sys; open(sys.argv[1], 'w')", str(made)))
    assert not made.exists()


def fail_when_recording(session: SessionHandle, monkeypatch: pytest.MonkeyPatch, kind: type[EventData]) -> None:
    """Lets the store fail whenever an event of this type is recorded."""
    real = session.keeper.recorder.within

    def within(transaction: Any, which: str, build: BuildEvents, **options: Any) -> State:
        def checked(state: State) -> Iterator[EventData]:
            for data in build(state):
                if isinstance(data, kind):
                    raise Failed("the disk is full")
                yield data

        return real(transaction, which, checked, **options)

    monkeypatch.setattr(session.keeper.recorder, "within", within)


def test_started_command_continues_when_the_store_fails(
    session: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is reported."""
    fail_when_recording(session, monkeypatch, AgentResumed)
    ran = run_once(session, exits(5))
    assert ran.code == 5
    assert ran.unrecorded is not None
    assert agent_of(session, ran).status == "error"


def test_exit_code_is_kept_when_the_session_ends_meanwhile(
    session: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is reported."""

    def run_and_complete(argv: Sequence[str], **options: Any) -> CommandOutcome:
        outcome = run_command(argv, **options)
        session.complete()
        return outcome

    monkeypatch.setattr(session_run, "run_command", run_and_complete)
    ran = run_once(session, exits(4))
    assert ran.code == 4
    assert isinstance(ran.unrecorded, Refused)


# ── retries ──────────────────────────────────────────────────────────────────────────────────────────────


def test_transient_failure_is_retried_after_growing_waits(session: SessionHandle) -> None:
    """Two, four and eight seconds; each attempt is recorded."""
    waits: list[float] = []
    messages: list[str] = []
    ran = run(
        session.keeper,
        session.id,
        exits(9),
        retries=3,
        categories={9: "transient"},
        sleep=waits.append,
        announce=messages.append,
    )
    agent = agent_of(session, ran)
    assert waits == [2, 4, 8]
    assert messages == [f"run-1: try {number} of 4 in {wait} s" for number, wait in ((2, 2), (3, 4), (4, 8))]
    assert (ran.code, agent.status, agent.retries) == (9, "error", 3)
    assert types(session).count("command.ran") == 4
    assert types(session).count("agent.retried") == 3


@pytest.mark.parametrize(("mode", "retries"), [("default", 3), ("debug", 5), ("optimize", 2), ("release", 1)])
def test_retries_default_to_those_of_the_mode(keeper: Keeper, mode: str, retries: int) -> None:
    waits: list[float] = []
    session = keeper.start("In a mode", mode=mode)
    run(session.keeper, session.id, ["no-such-command-here"], categories={127: "transient"}, sleep=waits.append)
    assert waits == [2, 4, 8, 16, 16][:retries]


def test_only_transient_failures_are_retried(session: SessionHandle) -> None:
    assert run(session.keeper, session.id, exits(1), retries=5, sleep=never).code == 1


def test_successful_attempt_ends_the_retries(session: SessionHandle, tmp_path: Path) -> None:
    """It completes the agent, with a process of its own."""
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


def test_agent_aborted_between_attempts_is_not_retried(session: SessionHandle) -> None:
    """The last code is returned."""
    messages: list[str] = []

    def abort(_: float) -> None:
        session.find_agent("run-1").abort()

    ran = run(
        session.keeper, session.id, exits(9), categories={9: "transient"}, sleep=abort, announce=messages.append
    )
    assert (ran.code, agent_of(session, ran).status) == (9, "aborted")
    assert "is not retried" in messages[-1]


# ── the circuit ──────────────────────────────────────────────────────────────────────────────────────────


def test_run_is_refused_after_three_failures_in_a_row(session: SessionHandle, clock: Clock) -> None:
    """For a minute, per type; two successes close the circuit."""
    for _ in range(3):
        run_once(session, exits(1), type="flaky")
    with pytest.raises(Refused, match=r"start in \d\d s"):
        run_once(session, exits(0), type="flaky")
    assert run_once(session, exits(0), type="other").code == 0
    clock.ahead = 61
    assert run_once(session, exits(0), type="flaky").code == 0
    assert run_once(session, exits(0), type="flaky").code == 0
    for _ in range(2):
        run_once(session, exits(1), type="flaky")
    assert run_once(session, exits(0), type="flaky").code == 0


def test_success_resets_the_count_of_failures(session: SessionHandle) -> None:
    for code in (1, 1, 0, 1, 1):
        run_once(session, exits(code))
    assert run_once(session, exits(0)).code == 0


def test_trial_run_is_not_retried(session: SessionHandle, clock: Clock) -> None:
    """After the minute one attempt is made, with no other meanwhile; a failure opens the circuit again."""
    for _ in range(3):
        run_once(session, exits(1), type="flaky")
    clock.ahead = 61
    session.agent("trying", type="flaky", pid=None)
    with pytest.raises(Refused, match="trying"):
        run_once(session, exits(0), type="flaky")
    session.find_agent("trying").abort()
    assert run_once(session, exits(9), type="flaky", retries=3, categories={9: "transient"}).code == 9
    with pytest.raises(Refused, match="start in"):
        run_once(session, exits(0), type="flaky")


def test_first_waiting_run_makes_the_trial(session: SessionHandle, clock: Clock) -> None:
    """Two waiting runs do not block each other."""
    for _ in range(3):
        run_once(session, exits(1), type="flaky")
    clock.ahead = 61
    session.agent("a", type="x", pid=None)
    session.agent("b", type="x", pid=None)
    later = AgentStarted(id="later", type="flaky", pending=True, pid=1, process=process(os.getpid()))

    def meanwhile(_: float) -> None:
        session.keeper.recorder.record(session.id, lambda _: [later])
        session.find_agent("a").done()

    assert run(session.keeper, session.id, exits(0), type="flaky", sleep=meanwhile).code == 0


def test_failed_retries_count_for_the_circuit(session: SessionHandle) -> None:
    """Of whichever agent of the type."""
    run(session.keeper, session.id, exits(9), retries=2, categories={9: "transient"}, sleep=lambda _: None)
    with pytest.raises(Refused, match="three times"):
        run_once(session, exits(0))


# ── the queue ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("background", [False, True])
def test_run_waits_when_the_limit_of_agents_is_reached(session: SessionHandle, background: bool) -> None:
    """The third is pending, and runs once one of the two ends."""
    session.agent("a", type="x", pid=None, background=background)
    session.agent("b", type="x", pid=None, background=background)
    messages: list[str] = []
    seen: list[str] = []

    def meanwhile(_: float) -> None:
        seen.append(session.document().agents[-1].status)
        if len(seen) == 3:
            session.find_agent("a").done()

    ran = run(session.keeper, session.id, exits(0), sleep=meanwhile, announce=messages.append)
    assert ran.code == 0
    assert seen == ["pending"] * 3
    assert messages == ["run-1 waits for its turn, behind a, b"]


def test_agent_does_not_count_when_its_process_ended(
    session: SessionHandle, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_run, "_GRACE_SECONDS", 0.0)
    for name in ("a", "b"):
        with subprocess.Popen(python("import time; time.sleep(60)")) as child:
            session.agent(name, type="x", pid=child.pid)
            child.kill()
    assert run_once(session, exits(0)).code == 0


def test_agent_counts_until_its_end_is_recorded(session: SessionHandle) -> None:
    """Another run may be about to record it, so it gets a moment."""
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


def test_run_waits_behind_earlier_waiting_runs(session: SessionHandle) -> None:
    """Not behind one whose process has ended."""
    record = session.keeper.recorder.record
    own = process(os.getpid())
    orphan = AgentStarted(id="gone", type="x", pending=True)
    record(session.id, lambda _: [orphan, AgentStarted(id="first", type="x", pending=True, pid=1, process=own)])
    session.agent("busy", type="x", pid=None)
    messages: list[str] = []

    def meanwhile(_: float) -> None:
        session.find_agent("first").abort()

    assert run(session.keeper, session.id, exits(0), sleep=meanwhile, announce=messages.append).code == 0
    assert messages == ["run-1 waits for its turn, behind busy, first"]


def test_run_that_is_aborted_while_waiting_does_not_start(session: SessionHandle, tmp_path: Path) -> None:
    made = tmp_path / "made"
    session.agent("a", type="x", pid=None)
    session.agent("b", type="x", pid=None)

    def meanwhile(_: float) -> None:
        session.find_agent("run-1").abort()

    with pytest.raises(Refused, match="aborted"):
        run(session.keeper, session.id, python("import sys; open(sys.argv[1], 'w')", str(made)), sleep=meanwhile)
    assert not made.exists()


def test_waiting_run_is_refused_when_the_session_ends(session: SessionHandle, tmp_path: Path) -> None:
    session.agent("a", type="x", pid=None)
    session.agent("b", type="x", pid=None)

    def meanwhile(_: float) -> None:
        session.complete()

    with pytest.raises(Refused, match="completed"):
        run(session.keeper, session.id, exits(0), sleep=meanwhile)


def test_run_works_outside_the_main_thread(tmp_path: Path, keeper: Keeper) -> None:
    """Without signal handlers."""
    results: list[tuple[int, Session]] = []

    def work() -> None:
        with Keeper.open(keeper.place.root, home=keeper.home.path, actor="me", device="here") as own:
            session = own.start("In a thread")
            results.append((run_once(session, exits(6)).code, session.document()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [(code, document.agents[0].status) for code, document in results] == [(6, "error")]
