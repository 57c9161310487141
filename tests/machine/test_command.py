"""Running a command as if Holdfast were not there: real processes, real signals, a real terminal."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.core.errors import Failed, Invalid, NotFound
from holdfast.machine import command
from holdfast.machine.command import CommandOutcome, run_command
from holdfast.machine.process import identify, liveness
from tests.support.processes import end

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.machine.process import ProcessIdentity

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and groups are those of POSIX")

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]

# Prints `ready`, then each signal it receives; ends with 7 a moment after the first, so that a second would show.
LISTENER = """
import os, signal, sys, time
def heard(number, frame):
    os.write(1, f"heard {signal.Signals(number).name}\\n".encode())
    signal.setitimer(signal.ITIMER_REAL, 0.2)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, heard)
signal.signal(signal.SIGALRM, lambda number, frame: os._exit(7))
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


# --- how it ends -------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 3, 77, 124, 255])
def test_exit_code_is_returned_unchanged(code: int) -> None:
    outcome = run_command(sh(f"exit {code}"))
    assert outcome.code == code
    assert outcome[1:4] == (None, False, False)
    assert outcome.message == f"ended with exit code {code}"
    assert outcome.duration_ms >= 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_command_ended_by_a_signal_has_code_128_plus_its_number(number: signal.Signals) -> None:
    """As in shells."""
    outcome = run_command(sh(f"ulimit -c 0; kill -{number.value} $$"))
    assert (outcome.code, outcome.signal) == (128 + number, number)
    assert outcome.message == f"was ended by {number.name}"


def test_signal_without_a_name_is_reported_by_number() -> None:
    """As real-time signals are."""
    assert command.signal_name(40) == "signal 40"


def test_missing_program_has_code_127() -> None:
    """By name and by path."""
    for name in ("no-such-program-here", "/no/such/program"):
        outcome = run_command([name])
        assert outcome.code == 127
        assert outcome.message == f"{name} was not found"


def test_missing_program_has_code_127_with_a_forbidden_directory_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a directory answers `permission denied` for every name."""

    def closed(*args: Any, **kwargs: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(subprocess, "Popen", closed)
    assert run_command(["no-such-program-here"]).code == 127
    assert run_command(["no-such-program-here"], env={"PATH": "/bin"}).code == 127
    assert run_command(["sh"]).code == 126


def test_program_that_cannot_be_executed_has_code_126(tmp_path: Path) -> None:
    """A file without permission, a directory, a file that is no program."""
    (tmp_path / "plain").write_text("echo")
    (tmp_path / "rubbish").write_bytes(b"\x00\x01rubbish")
    (tmp_path / "rubbish").chmod(0o755)
    for path in (tmp_path / "plain", tmp_path / "rubbish", tmp_path):
        outcome = run_command([str(path)])
        assert outcome.code == 126
        assert "cannot be executed" in outcome.message


def test_empty_command_is_invalid() -> None:
    for argv in ([], [""]):
        with pytest.raises(Invalid):
            run_command(argv)


def test_arguments_with_nul_are_invalid() -> None:
    """The system cannot pass them on."""
    with pytest.raises(Invalid):
        run_command(["echo", "a\0b"])


def test_missing_working_directory_raises_not_found(tmp_path: Path) -> None:
    """It is not taken for a missing program."""
    with pytest.raises(NotFound):
        run_command(["true"], cwd=str(tmp_path / "missing"))


@pytest.mark.parametrize("name", ["EAGAIN", "ENOMEM", "EMFILE"])
def test_failure_to_start_any_process_is_a_typed_error(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It is no outcome, as it says nothing about the command."""
    import errno

    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError(getattr(errno, name), "none left")

    monkeypatch.setattr(subprocess, "Popen", fail)
    with pytest.raises(Failed):
        run_command(["true"])


def test_arguments_are_passed_without_a_shell(tmp_path: Path) -> None:
    """Spaces, quotes, stars and dollars stay as they are."""
    arguments = ["a b", "*", "$HOME", "'", '"', ";", "\n", ""]
    script = f"import sys; open({str(tmp_path / 'out')!r}, 'w').write(repr(sys.argv[1:]))"
    assert run_command([sys.executable, "-c", script, *arguments]).code == 0
    assert (tmp_path / "out").read_text() == repr(arguments)


def test_command_gets_the_given_directory_and_environment(tmp_path: Path) -> None:
    """Ours by default."""
    environment = {"PATH": os.environ["PATH"], "COLOUR": "green"}
    run_command(sh('echo "$COLOUR" > out'), cwd=str(tmp_path), env=environment)
    assert (tmp_path / "out").read_text() == "green\n"


def test_kill_by_the_kernel_is_recognized_when_memory_ran_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL with a higher kernel counter, also when a shell reports it as 137."""
    for script in ("kill -9 $$", "exit 137"):
        counts = iter([4, 5])
        monkeypatch.setattr(command, "_memory_kills", lambda counts=counts: next(counts))
        outcome = run_command(sh(script))
        assert outcome.out_of_memory
        assert outcome.code == 137
        assert outcome.message == "was killed because memory ran out"


def test_other_ends_are_not_taken_for_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A SIGKILL by somebody else, or a failure while other processes were killed."""
    assert not run_command(sh("kill -9 $$")).out_of_memory
    counts = iter(range(100))
    monkeypatch.setattr(command, "_memory_kills", lambda: next(counts))
    assert not run_command(sh("exit 1")).out_of_memory
    assert not run_command(sh("kill -15 $$")).out_of_memory


def test_out_of_memory_count_is_zero_when_the_kernel_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS."""
    assert command._memory_kills() >= 0

    def missing(*args: Any, **kwargs: Any) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", missing)
    assert command._memory_kills() == 0


def test_caller_gets_the_pid_while_the_process_runs() -> None:
    identities: list[ProcessIdentity | None] = []
    run_command(["cat", "/dev/null"], started=lambda pid: identities.append(identify(pid)))
    assert identities[0] is not None
    assert liveness(identities[0]) == "dead"


def test_process_is_killed_when_the_caller_fails() -> None:
    """If the start cannot be recorded, nothing keeps running."""
    identities: list[ProcessIdentity] = []

    def fail(pid: int) -> None:
        who = identify(pid)
        assert who is not None
        identities.append(who)
        raise RuntimeError("cannot record")

    with pytest.raises(RuntimeError):
        run_command(["sleep", "60"], started=fail)
    assert liveness(identities[0]) == "dead"


# --- time ------------------------------------------------------------------------------------------


def test_command_within_its_timeout_is_undisturbed() -> None:
    assert run_command(sh("exit 4"), timeout=60).code == 4


def test_timeout_interrupts_the_command() -> None:
    """SIGINT first, so that it can clean up; the code is 124."""
    outcome = run_command(["sleep", "60"], timeout=0.1, grace=30)
    assert outcome[:4] == (124, signal.SIGINT, True, False)
    assert outcome.message == "ran longer than 0.1 s and was stopped"


def run_until_timeout(script: str, folder: Path, grace: float) -> CommandOutcome:
    """The outcome of a run that wrote `up` before the timeout; a busy machine gets longer timeouts."""
    for timeout in (0.4, 2, 10):
        outcome = run_command(sh(script), timeout=timeout, grace=grace)
        if (folder / "up").exists():
            return outcome
    pytest.fail("the command never got going")


def test_timeout_gives_the_command_time_to_clean_up(tmp_path: Path) -> None:
    script = f"trap 'echo clean > {tmp_path}/out; exit 5' INT; echo > {tmp_path}/up; while :; do sleep 0.05; done"
    outcome = run_until_timeout(script, tmp_path, 30)
    assert outcome.timed_out
    assert outcome.code == 124
    assert (tmp_path / "out").read_text() == "clean\n"


def test_command_that_ignores_interruption_is_killed_after_the_grace_period(tmp_path: Path) -> None:
    outcome = run_until_timeout(f"trap '' INT; echo > {tmp_path}/up; while :; do sleep 0.05; done", tmp_path, 0.2)
    assert outcome[:3] == (124, signal.SIGKILL, True)


def living_family(folder: Path) -> list[ProcessIdentity]:
    """The processes that wrote their pids into a directory and are alive; killed ones get a moment to disappear."""
    written = [int((folder / name).read_text()) for name in "ab"]
    left: list[ProcessIdentity] = []
    for _ in range(100):
        left = [who for who in map(identify, written) if who is not None and liveness(who) == "alive"]
        if not left:
            break
        time.sleep(0.02)
    return left


FAMILY = """
sleep 61 & echo $! > {0}/a
(trap '' INT; exec sleep 62) & echo $! > {0}/b
echo > {0}/up
sleep 63
"""


def test_timeout_ends_all_descendants(tmp_path: Path) -> None:
    """Including background jobs, for which shells ignore SIGINT."""
    outcome = run_until_timeout(FAMILY.format(tmp_path), tmp_path, 0.2)
    assert outcome.timed_out
    assert living_family(tmp_path) == []


# --- signals, without a terminal -------------------------------------------------------------------


DRIVER = """
import json, signal, sys
argv, options, terminal, ignored = json.loads(sys.argv[1])
if terminal:
    import fcntl, termios
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
for number in ignored:
    signal.signal(number, signal.SIG_IGN)
from holdfast.machine.command import run_command
handlers = [signal.getsignal(number) for number in (1, 2, 3, 15)]
outcome = run_command(argv, **options)
same = handlers == [signal.getsignal(number) for number in (1, 2, 3, 15)]
print("restored" if same else "changed", tuple(outcome)[:4], flush=True)
"""


# Stands in for a shell: leads the session, has the terminal, and dies when the terminal is closed.
SHELL = """
import fcntl, json, subprocess, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
order = json.loads(sys.argv[1])
order[2] = False
subprocess.call([sys.executable, "-c", sys.argv[2], json.dumps(order)])
"""


class Driver:
    """A process of its own that runs a command through `run_command` and prints the outcome."""

    def __init__(
        self,
        argv: list[str],
        options: dict[str, float] | None = None,
        *,
        terminal: int | None = None,
        leader: bool = True,
        ignored: tuple[int, ...] = (),
    ) -> None:
        order = json.dumps([argv, options or {}, terminal is not None, ignored])
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER if leader else SHELL, order, DRIVER],
            start_new_session=True,
            stdin=subprocess.PIPE if terminal is None else terminal,
            stdout=subprocess.PIPE if terminal is None else terminal,
            stderr=terminal,
        )

    def wait_for(self, text: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if text in line.decode():
                return
        pytest.fail(f"{text!r} was never said")

    def rest(self) -> str:
        return self.process.communicate(timeout=30)[0].decode()


@pytest.fixture
def drivers() -> Iterator[list[Driver]]:
    """Ends the processes of a failed test with all they started."""
    made: list[Driver] = []
    yield made
    for driver in made:
        end(driver.process, group=True)


LISTEN = [sys.executable, "-c", LISTENER]


@pytest.mark.parametrize("options", [{}, {"timeout": 60}], ids=["same group", "own group"])
@pytest.mark.parametrize("number", SIGNALS)
def test_signal_to_us_is_forwarded_once(
    drivers: list[Driver], number: signal.Signals, options: dict[str, float]
) -> None:
    """We wait for the command's end and restore our handlers."""
    driver = Driver(LISTEN, options)
    drivers.append(driver)
    driver.wait_for("ready")
    driver.process.send_signal(number)
    output = driver.rest()
    assert output.count("heard") == 1
    assert f"heard {number.name}" in output
    assert "restored (7, None, False, False)" in output
    assert driver.process.returncode == 0


@pytest.mark.parametrize("number", SIGNALS)
def test_command_that_dies_of_a_forwarded_signal_is_reported(drivers: list[Driver], number: signal.Signals) -> None:
    """With 128 plus the number; we survive to record it."""
    driver = Driver(sh("ulimit -c 0; echo ready; exec sleep 60"))
    drivers.append(driver)
    driver.wait_for("ready")
    driver.process.send_signal(number)
    assert f"restored ({128 + number}, {number.value}, False, False)" in driver.rest()


def test_ignored_signal_stays_ignored(drivers: list[Driver]) -> None:
    """Under nohup neither we nor the command react to SIGHUP."""
    driver = Driver(sh("echo ready; sleep 0.3; exit 9"), ignored=(signal.SIGHUP,))
    drivers.append(driver)
    driver.wait_for("ready")
    driver.process.send_signal(signal.SIGHUP)
    assert "restored (9, None, False, False)" in driver.rest()


def test_standard_input_and_output_reach_the_command_unchanged(drivers: list[Driver]) -> None:
    driver = Driver(["cat"])
    drivers.append(driver)
    output = driver.process.communicate(b"through\n", timeout=30)[0]
    assert output.startswith(b"through\n")


def test_command_runs_in_another_thread_without_handlers() -> None:
    """Python allows signal handlers only in the main thread."""
    outcomes: list[CommandOutcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(run_command(sh("exit 6"))))
    thread.start()
    thread.join()
    assert outcomes[0].code == 6


class FakeChild(list[int]):
    """The signals that it was sent."""

    def send(self, number: int) -> None:
        self.append(number)


def test_signal_before_the_child_exists_is_forwarded_once_it_does() -> None:
    relay = command._Relay(None)
    child: Any = FakeChild()
    relay._on_signal(signal.SIGTERM, None)
    relay.attach(child)
    relay._on_signal(signal.SIGINT, None)
    assert child == [signal.SIGTERM, signal.SIGINT]


def test_terminal_signal_while_the_child_starts_is_not_forwarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child may have received it before we know of the child: on a busy machine, it received Ctrl-C twice."""
    monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp())
    relay = command._Relay(0)
    child: Any = FakeChild()
    relay._on_signal(signal.SIGQUIT, None)
    relay.child_shares_group = True
    relay._on_signal(signal.SIGINT, None)
    relay._on_signal(signal.SIGTERM, None)
    relay.attach(child)
    assert child == [signal.SIGQUIT, signal.SIGTERM]


# --- with a terminal -------------------------------------------------------------------------------


class AtTerminal:
    """A driver with a real controlling terminal, whose keyboard the test operates."""

    def __init__(self, argv: list[str], options: dict[str, float] | None = None, *, leader: bool = True) -> None:
        self.keyboard, terminal = os.openpty()
        self.driver = Driver(argv, options, terminal=terminal, leader=leader)
        os.close(terminal)
        self.said = ""

    def wait_for(self, text: str) -> str:
        while text not in self.said:
            if not select.select([self.keyboard], [], [], 30)[0]:
                pytest.fail(f"{text!r} was never said, but {self.said!r}")
            try:
                self.said += os.read(self.keyboard, 4096).decode()
            except OSError:
                pytest.fail(f"{text!r} was never said, but {self.said!r}")
        return self.said

    def press(self, keys: bytes) -> None:
        os.write(self.keyboard, keys)


@pytest.fixture
def terminals(drivers: list[Driver]) -> Iterator[list[AtTerminal]]:
    """Closes the terminals afterwards, which ends all their processes."""
    made: list[AtTerminal] = []
    yield made
    for terminal in made:
        drivers.append(terminal.driver)
        os.close(terminal.keyboard)


@pytest.mark.parametrize("options", [{}, {"timeout": 60}], ids=["without timeout", "with timeout"])
def test_command_can_read_the_terminal(terminals: list[AtTerminal], options: dict[str, float]) -> None:
    """It is not stopped like a background job."""
    terminal = AtTerminal(sh('echo ready; read answer; echo "answer: $answer"'), options)
    terminals.append(terminal)
    terminal.wait_for("ready")
    terminal.press(b"forty-two\n")
    terminal.wait_for("answer: forty-two")
    terminal.wait_for("restored (0,")


@pytest.mark.parametrize("options", [{}, {"timeout": 60}], ids=["without timeout", "with timeout"])
@pytest.mark.parametrize(("key", "name"), [(b"\x03", "SIGINT"), (b"\x1c", "SIGQUIT")])
def test_ctrl_c_reaches_the_command_once(
    terminals: list[AtTerminal], key: bytes, name: str, options: dict[str, float]
) -> None:
    """The terminal signals the whole group, so forwarding would make it two."""
    terminal = AtTerminal(LISTEN, options)
    terminals.append(terminal)
    terminal.wait_for("ready")
    terminal.press(key)
    output = terminal.wait_for("restored (7, None, False, False)")
    assert output.count(f"heard {name}") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_are_forwarded_at_a_terminal(terminals: list[AtTerminal], number: signal.Signals) -> None:
    """They do not come from the keyboard, so the command has not received them."""
    terminal = AtTerminal(LISTEN)
    terminals.append(terminal)
    terminal.wait_for("ready")
    terminal.driver.process.send_signal(number)
    output = terminal.wait_for("restored (7, None, False, False)")
    assert output.count(f"heard {number.name}") == 1


def test_timeout_at_a_terminal_ends_all_descendants(terminals: list[AtTerminal], tmp_path: Path) -> None:
    """Without a process group of their own they are looked up one by one, and we survive."""
    terminal = AtTerminal(sh(FAMILY.format(tmp_path)), {"timeout": 1, "grace": 0.2})
    terminals.append(terminal)
    terminal.wait_for("restored (124,")
    assert living_family(tmp_path) == []


@pytest.mark.parametrize("leader", [True, False], ids=["without a shell", "under a shell"])
def test_hangup_reaches_the_command_once_when_the_terminal_closes(
    drivers: list[Driver], tmp_path: Path, leader: bool
) -> None:
    """Whoever leads the session."""
    log = tmp_path / "log"
    listener = LISTENER.replace("os.write(1, ", f"os.write(os.open({str(log)!r}, 1089, 0o600), ")
    terminal = AtTerminal([sys.executable, "-c", "print('up', flush=True)\n" + listener], leader=leader)
    drivers.append(terminal.driver)
    terminal.wait_for("up")
    for _ in range(500):
        if log.exists() and "ready" in log.read_text():
            break
        time.sleep(0.02)
    os.close(terminal.keyboard)
    terminal.driver.process.wait(30)
    for _ in range(500):
        if "heard" in log.read_text():
            break
        time.sleep(0.02)
    assert log.read_text().count("heard SIGHUP") == 1
