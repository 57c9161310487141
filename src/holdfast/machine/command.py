"""Run a command for `holdfast run` as if Holdfast were not there: same terminal, same signals, same exit code.

Imported only when a command is run, so it may import what it needs. `StopSignals` covers the time between two
attempts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from holdfast.core.errors import Invalid
from holdfast.machine.os_errors import display_path, explain
from holdfast.machine.process import ProcessIdentity, identify, liveness
from holdfast.machine.wall import monotonic, monotonic_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

TIMED_OUT: Final = 124
NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
_STOP_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGBREAK")
_WAIT_SECONDS: Final = 0.1  # how soon a signal ends a wait
_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)
_POLL_SECONDS: Final = 0.05


class CommandOutcome(NamedTuple):
    """How a command ended. `code` is what to exit with: its own code, 128+N for signal N, 124, 126 or 127."""

    code: int
    signal: int | None
    timed_out: bool
    out_of_memory: bool
    message: str
    duration_ms: int


def run_command(
    argv: Sequence[str],
    *,
    timeout: float | None = None,
    grace: float = 10.0,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    started: Callable[[int], None] | None = None,
) -> CommandOutcome:
    """Run `argv` without a shell and wait for its end; `started` is called with its pid.

    After `timeout` seconds it is interrupted, and after `grace` more killed with all it started.
    """
    if not argv or not argv[0]:
        raise Invalid("there is no command to run", hint="Write it after --: holdfast run -- COMMAND")
    begun = monotonic_ns()
    kills_before = _memory_kills()
    with _terminal() as terminal, _Relay(terminal) as relay:
        own_group = _own_group(timeout, terminal)
        relay.child_shares_group = not own_group
        try:
            child = _Child(argv, cwd, env, own_group=own_group)
        except (OSError, ValueError) as error:
            return _start_failure(error, argv[0], cwd, env, begun)
        try:
            relay.attach(child)
            if started is not None:
                started(child.pid)
            in_time = child.wait(timeout)
            if not in_time:
                child.stop(grace)
        except BaseException:
            # Never leave a process running that the caller does not know of.
            child.end(_KILL, child.descendants())
            child.wait(None)
            raise
    return _outcome_of(child.returncode, None if in_time else timeout, kills_before, begun)


# --- the child and its descendants -------------------------------------------------------------------


def _own_group(timeout: float | None, terminal: int | None) -> bool:
    """Whether the child gets a separate process group, so that a timeout can end all it started.

    Not with a terminal: its own group would be in the background and be stopped at its first read. Handing the
    terminal over, as shells do, would put the rest of `holdfast run -- x | less` in the background, keep Ctrl-C from
    the script that called us, and require mirroring every Ctrl-Z. In one group all of that works, and a timeout looks
    for the child's descendants instead.

    Not without a timeout either: killing our group would then leave the child behind.
    """
    return os.name == "posix" and timeout is not None and terminal is None


class _Child:
    def __init__(
        self, argv: Sequence[str], cwd: str | None, env: Mapping[str, str] | None, *, own_group: bool
    ) -> None:
        self.own_group = own_group
        self._process = subprocess.Popen(  # noqa: S603 -- running what the user wrote is the point; no shell
            list(argv), cwd=cwd, env=env, process_group=0 if own_group else None
        )
        self.pid = self._process.pid

    @property
    def returncode(self) -> int:
        return self._process.returncode

    def wait(self, timeout: float | None) -> bool:
        """Whether it ended in time."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def send(self, number: int) -> None:
        """Pass a signal on: to its group if it has its own, otherwise to the process alone."""
        if not self.own_group:
            with contextlib.suppress(OSError):
                self._process.send_signal(number)
        elif self._process.returncode is None:
            self._signal_group(number)

    def descendants(self) -> list[ProcessIdentity]:
        """The processes it started, unless they share its own group."""
        return [] if self.own_group else _descendants(self.pid)

    def stop(self, grace: float) -> None:
        """Ask it to end, wait, and kill what is left."""
        until = monotonic() + grace
        descendants = self.descendants()
        self.end(signal.SIGINT if os.name == "posix" else signal.SIGTERM, descendants)
        if not self.wait(grace):
            descendants += self.descendants()  # what it started meanwhile
        # Shells start background jobs with SIGINT ignored, so these outlive them.
        while self._left(descendants) and monotonic() < until:
            time.sleep(_POLL_SECONDS)
        self.end(_KILL, descendants)
        self.wait(None)

    def end(self, number: int, descendants: Sequence[ProcessIdentity]) -> None:
        if self.own_group:
            self._signal_group(number)
            return
        with contextlib.suppress(OSError):
            self._process.send_signal(number)
        for process in descendants:
            if liveness(process) == "alive":
                with contextlib.suppress(OSError):
                    os.kill(process.pid, number)

    def _signal_group(self, number: int) -> bool:
        if sys.platform != "win32":
            with contextlib.suppress(OSError):
                os.killpg(self.pid, number)
                return True
        return False

    def _left(self, descendants: Sequence[ProcessIdentity]) -> bool:
        return (
            self._signal_group(0) if self.own_group else any(liveness(process) == "alive" for process in descendants)
        )


def _descendants(pid: int) -> list[ProcessIdentity]:
    children: dict[int, list[int]] = {}
    for process, parent in _parents():
        children.setdefault(parent, []).append(process)
    descendants: list[ProcessIdentity] = []
    pending = [pid]
    while pending:
        for child in children.pop(pending.pop(), []):
            pending.append(child)
            if (identity := identify(child)) is not None:
                descendants.append(identity)
    return descendants


def _parents() -> Iterator[tuple[int, int]]:
    """Every process with its parent."""
    if sys.platform == "linux":
        for name in os.listdir("/proc"):
            if name.isdecimal():
                with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
                    line = file.read()
                    yield int(name), int(line[line.rfind(b")") + 1 :].split()[1])
        return
    from importlib import import_module

    with contextlib.suppress(ImportError):
        for process in import_module("psutil").process_iter(["pid", "ppid"]):
            yield process.info["pid"], process.info["ppid"] or 0


# --- signals -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _terminal() -> Iterator[int | None]:
    """The controlling terminal, opened, if there is one."""
    try:
        fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC) if os.name == "posix" else None
    except OSError:
        fd = None
    try:
        yield fd
    finally:
        if fd is not None:
            os.close(fd)


class _Relay:
    """Passes signals on to the command while it runs; we end when it does."""

    def __init__(self, terminal: int | None) -> None:
        self._terminal = terminal
        self._child: _Child | None = None
        self._early: list[int] = []
        # Set when the child is about to start in our group: it may run long before this process does again.
        self.child_shares_group = False
        self._before: dict[int, Callable[[int, FrameType | None], object] | int] = {}

    def __enter__(self) -> Self:
        # Only the main thread can set handlers; a server that runs commands keeps its own.
        if threading.current_thread() is threading.main_thread():
            for name in _STOP_SIGNALS:
                number = getattr(signal, name, None)
                before = None if number is None else signal.getsignal(number)
                # An ignored signal (nohup, `&` in a script) stays ignored, for the child too.
                if number is not None and before not in (None, signal.SIG_IGN):
                    self._before[number] = before
                    signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def attach(self, child: _Child) -> None:
        self._child = child
        while self._early:
            child.send(self._early.pop(0))

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._terminal_delivers(number):
            return
        if self._child is None:
            self._early.append(number)
        else:
            self._child.send(number)

    def _terminal_delivers(self, number: int) -> bool:
        """Whether the terminal sent the signal to the child too: many programs take a second Ctrl-C as `now!`.

        A terminal sends Ctrl-C to every process of its foreground group, so while our group is in the foreground the
        child gets it too. A SIGINT to us alone (kill -INT) looks the same, for no portable call names the sender.
        SIGTERM never comes from a terminal and is always passed on.

        When the terminal closes, SIGHUP goes to the session leader, usually a shell, and from there to the whole
        group. If we are the leader, the child has not received it.
        """
        if os.name != "posix":
            return self._child is not None  # a Windows console signals every attached process
        if self._terminal is None or not self.child_shares_group:
            return False
        try:
            is_foreground = os.tcgetpgrp(self._terminal) == os.getpgrp()
        except OSError:
            return number == signal.SIGHUP and os.getsid(0) != os.getpid()  # the terminal closed
        return is_foreground and number in (signal.SIGINT, signal.SIGQUIT)


# --- how it ended ------------------------------------------------------------------------------------


def _outcome_of(returncode: int, limit: float | None, kills_before: int, begun: int) -> CommandOutcome:
    """The outcome of a command that ended. `limit` is the timeout that it exceeded, if it did."""
    ended_by = -returncode if returncode < 0 else None
    code = 128 + ended_by if ended_by is not None else returncode
    # A shell reports its child's SIGKILL as 137. Anybody can send SIGKILL; the kernel counts its own for memory.
    out_of_memory = limit is None and code == 128 + 9 and _memory_kills() > kills_before
    if limit is not None:
        code, message = TIMED_OUT, f"ran longer than {limit:g} s and was stopped"
    elif out_of_memory:
        message = "was killed because memory ran out"
    elif ended_by is not None:
        message = f"was ended by {signal_name(ended_by)}"
    else:
        message = f"ended with exit code {code}"
    return CommandOutcome(code, ended_by, limit is not None, out_of_memory, message, _elapsed_ms(begun))


def _start_failure(
    error: OSError | ValueError, name: str, cwd: str | None, env: Mapping[str, str] | None, begun: int
) -> CommandOutcome:
    if not isinstance(error, OSError):
        raise Invalid(
            "the command contains a NUL or text this system cannot pass on", hint="Check its arguments."
        ) from error
    if cwd is not None and error.filename == cwd:
        raise explain(error, "run a command in", cwd) from error
    if error.errno == errno.ENOENT or not _program_exists(name, env):
        code, reason = NOT_FOUND, "was not found"
    elif error.errno in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE):
        raise explain(error, "start", name) from error  # the machine's problem, not the command's
    else:
        code, reason = NOT_EXECUTABLE, f"cannot be executed: {(error.strerror or 'no reason given').lower()}"
    return CommandOutcome(code, None, False, False, f"{display_path(name)} {reason}", _elapsed_ms(begun))


def _program_exists(name: str, env: Mapping[str, str] | None) -> bool:
    """Whether the program exists: with unreadable directories in PATH, any name gives `permission denied`."""
    import shutil

    path = (os.environ if env is None else env).get("PATH")
    return os.path.dirname(name) != "" or shutil.which(name, mode=os.F_OK, path=path) is not None


def _memory_kills() -> int:
    """How many processes the kernel has killed because memory ran out; 0 where it does not count."""
    try:
        with open("/proc/vmstat", "rb") as file:
            for line in file:
                if line.startswith(b"oom_kill "):
                    return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return 0


def _elapsed_ms(begun: int) -> int:
    return (monotonic_ns() - begun) // 1_000_000


# --- signals while nothing runs ---------------------------------------------------------------------------


class SignalReceived(Exception):
    """A signal asks us to end; `number` is the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class StopSignals:
    """Records signals that ask us to stop, instead of ending at once.

    Python writes the number of a signal into a pipe before any handler runs, so signals that `run_command` passes on
    are recorded too. Works only in the main thread.
    """

    def __init__(self, sleep: Callable[[float], None] | None = None) -> None:
        self._sleep = sleep
        self._pipe: tuple[int, int] | None = None
        self._pipe_before = -1
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
        self._number: int | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        self._pipe = os.pipe()
        if os.name == "posix":
            os.set_blocking(self._pipe[1], False)
        self._pipe_before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        for name in _STOP_SIGNALS:
            number = getattr(signal, name, None)
            # An ignored signal (nohup, `&` in a script) stays ignored.
            if number is not None and signal.getsignal(number) not in (None, signal.SIG_IGN):
                self._before[number] = signal.signal(number, lambda *_: None)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        if self._pipe is not None:
            signal.set_wakeup_fd(self._pipe_before)
            os.close(self._pipe[0])
            os.close(self._pipe[1])

    def received(self) -> int | None:
        """The first stop signal received, if any."""
        if self._pipe is not None and self._number is None:
            os.write(self._pipe[1], b"\0")  # so that reading never blocks
            self._number = next((number for number in os.read(self._pipe[0], 4096) if number in self._before), None)
        return self._number

    def wait(self, seconds: float) -> None:
        """Sleep; a stop signal raises `SignalReceived`."""
        if self._sleep is not None and seconds > 0:
            self._sleep(seconds)
            seconds = 0
        until = monotonic() + seconds
        while True:
            number = self.received()
            if number is not None:
                raise SignalReceived(number)
            remaining = until - monotonic()
            if remaining <= 0:
                return
            time.sleep(min(remaining, _WAIT_SECONDS))


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
