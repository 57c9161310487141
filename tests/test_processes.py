"""What every test relies on: signals do what they usually do, whatever the caller ignores, and every wait ends."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.support import processes

IGNORED = "trap '' INT HUP QUIT TERM USR1 CHLD; exec \"$@\""
CHILD = """
import signal
print([int(number) for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN])
"""


def python(code: str, *, limit: float = 60, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", IGNORED, "sh", sys.executable, "-c", code], capture_output=True, text=True, check=False,
        timeout=limit, env={**processes.environ_with_tests(), **more},
    )  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX: Windows has no ignored signals to inherit")
def test_processes_that_tests_start_ignore_no_signal_that_the_caller_ignores() -> None:
    """Under `nohup` or in the background too, a program under test is ended by the signals that end it elsewhere."""
    start = (
        "from tests.support import processes; import subprocess, sys; "
        f"subprocess.run([sys.executable, '-c', {CHILD!r}], check=True)"
    )
    by_itself = f"[{int(signal.SIGPIPE)}, {int(signal.SIGXFSZ)}]\n"
    assert python(start).stdout != by_itself
    done = python(start.replace("; subprocess.run", "; processes.reset_signals(); subprocess.run", 1))
    assert (done.returncode, done.stdout, done.stderr) == (0, by_itself, "")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX: Windows has no ignored signals to inherit")
def test_tests_outlive_a_terminal_that_the_caller_told_them_to_outlive() -> None:
    """`nohup make test` goes on when the terminal closes; Ctrl-C still interrupts."""
    done = python(
        "from tests.support import processes; import signal; processes.reset_signals()\n"
        "signal.raise_signal(signal.SIGHUP); print('goes on', flush=True)\n"
        "signal.raise_signal(signal.SIGINT)"
    )
    assert (done.returncode, done.stdout) == (-signal.SIGINT, "goes on\n")
    assert "KeyboardInterrupt" in done.stderr


@pytest.mark.parametrize("way", ["wait()", "communicate()"])
def test_hanging_process_blocks_no_caller(way: str) -> None:
    """Also where a test, or the code under test, names no limit: it fails, and says what it waited for."""
    done = python(
        "from tests.support import processes; import subprocess, sys\n"
        "processes.LONGEST_WAIT = 0.1; processes.limit_waits()\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], stdout=subprocess.PIPE)\n"
        f"try: child.{way}\n"
        "finally: processes.LONGEST_WAIT = 60; processes.end(child)"
    )
    assert "TimeoutExpired" in done.stderr
    assert "time.sleep(60)" in done.stderr


def test_a_test_that_never_ends_is_ended_and_says_where_it_was() -> None:
    """Whatever it waits for: the last line of defence prints every stack."""
    done = python(
        "import threading; from tests.support import processes\n"
        "with processes.limited(0.5, 2): threading.Event().wait()"
    )
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert "in wait" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX: sessions")
def test_a_process_is_ended_though_another_holds_its_pipes() -> None:
    """What it started lives on for a while and does not close them."""
    other = [sys.executable, "-c", "import time; time.sleep(5)"]
    starts = f"import subprocess; subprocess.Popen({other}, start_new_session=True); print(flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", starts], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"\n"
    processes.end(process)
    assert process.returncode == -signal.SIGKILL
