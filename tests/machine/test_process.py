"""Whether a recorded process is still the same one, with real processes, zombies and odd names."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.machine import host, process
from holdfast.machine.process import ProcessIdentity, identify, liveness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

linux = pytest.mark.skipif(sys.platform != "linux", reason="this is how Linux tells it")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A real process that does nothing."""
    child = subprocess.Popen(["sleep", "60"])
    yield child
    child.kill()
    child.wait()


def known(pid: int) -> ProcessIdentity:
    identity = identify(pid)
    assert identity is not None
    return identity


def test_own_process_is_alive() -> None:
    """And is identified the same each time."""
    me = known(os.getpid())
    assert me.pid == os.getpid()
    assert me == identify(os.getpid())
    assert liveness(me) == "alive"


def test_identity_survives_being_stored() -> None:
    """It consists of plain values."""
    me = known(os.getpid())
    assert ProcessIdentity._make(list(me)) == me
    assert [type(part) for part in me] == [int, str, str, str, str]


def test_child_is_alive_until_it_was_killed(sleeper: subprocess.Popen[bytes]) -> None:
    who = known(sleeper.pid)
    assert liveness(who) == "alive"
    sleeper.kill()
    sleeper.wait()
    assert liveness(who) == "dead"
    assert identify(sleeper.pid) is None


def test_stopped_process_is_alive(sleeper: subprocess.Popen[bytes]) -> None:
    """As after Ctrl-Z."""
    who = known(sleeper.pid)
    sleeper.send_signal(signal.SIGSTOP)
    assert liveness(who) == "alive"


def test_zombie_counts_as_dead() -> None:
    """Although nobody has asked for its exit code."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    who = known(child.pid)
    assert liveness(who) == "alive"
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert liveness(who) == "dead"
    child.communicate()


def test_process_is_dead_when_its_pid_was_reused(sleeper: subprocess.Popen[bytes]) -> None:
    """The same number has another start time."""
    who = known(sleeper.pid)
    assert liveness(who._replace(started="1")) == "dead"


def test_process_of_another_boot_is_dead(sleeper: subprocess.Popen[bytes]) -> None:
    """In whatever namespace it ran."""
    if host.boot_id().startswith("time:"):
        pytest.skip("this system tells boots by the clock only")
    who = known(sleeper.pid)._replace(boot="another")
    assert liveness(who) == "dead"
    assert liveness(who._replace(namespace="pid:[1]")) == "dead"


def test_process_of_another_machine_is_unknown(sleeper: subprocess.Popen[bytes]) -> None:
    """Another machine also has another boot."""
    who = known(sleeper.pid)._replace(machine="elsewhere", boot="another")
    assert liveness(who) == "unknown"
    assert liveness(who._replace(pid=2**30)) == "unknown"
    assert liveness(who._replace(boot="")) == "unknown"


def test_process_of_another_namespace_is_unknown(sleeper: subprocess.Popen[bytes]) -> None:
    """Pid 7 of a container is not our pid 7."""
    assert liveness(known(sleeper.pid)._replace(namespace="pid:[1]")) == "unknown"


@pytest.mark.parametrize("pid", [0, -1, -7, 2**31, 2**63, 10**30])
def test_impossible_pids_are_no_process(pid: int) -> None:
    """Zero and below mean groups to the system; too large numbers do not overflow."""
    assert identify(pid) is None
    assert liveness(known(os.getpid())._replace(pid=pid)) == "dead"


@linux
@pytest.mark.parametrize("name", ["a b", "a) S 1 (b", ")", "((", "x) Z 1 1", "S 7 )"])
def test_start_time_is_read_behind_names_with_spaces_and_parentheses(tmp_path: Path, name: str) -> None:
    program = tmp_path / name
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    program.chmod(0o755)
    child = subprocess.Popen([str(program), "60"], executable=str(program))
    try:
        who = known(child.pid)
        assert who.started.isdecimal()
        assert abs(int(who.started) - int(known(os.getpid()).started)) < 10**8
        assert liveness(who) == "alive"
    finally:
        child.kill()
        child.wait()


@linux
def test_start_time_is_later_for_later_processes(sleeper: subprocess.Popen[bytes]) -> None:
    assert int(known(sleeper.pid).started) >= int(known(os.getpid()).started) > 0


@linux
@pytest.mark.parametrize("content", [b"", b"7 (x) S 1", b"rubbish"])
def test_fate_is_unknown_when_proc_has_an_unusual_format(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes
) -> None:
    me = known(os.getpid())
    (tmp_path / "stat").write_bytes(content)
    real = open

    def read_unusual(path: Any, *args: Any, **kwargs: Any) -> Any:
        return real(tmp_path / "stat" if str(path).endswith("/stat") else path, *args, **kwargs)

    monkeypatch.setattr("builtins.open", read_unusual)
    assert liveness(me) == "unknown"
    assert known(os.getpid()).started == ""


@linux
def test_hidden_process_is_unknown_and_not_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """With hidepid, processes of other users cannot be read, but their existence can be seen."""
    me = known(os.getpid())
    real = open

    def hidden(path: Any, *args: Any, **kwargs: Any) -> Any:
        if str(path) == f"/proc/{os.getpid()}/stat":
            raise FileNotFoundError(path)
        return real(path, *args, **kwargs)

    def not_ours(pid: int, number: int) -> None:
        raise PermissionError(pid)

    monkeypatch.setattr("builtins.open", hidden)
    assert liveness(me) == "unknown"
    monkeypatch.setattr(os, "kill", not_ours)
    assert liveness(me) == "unknown"


@linux
def test_proc_of_another_namespace_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """When /proc/self is not us."""
    me = known(os.getpid())
    real = os.readlink

    def shifted(path: str) -> str:
        return "1" if path == "/proc/self" else real(path)

    monkeypatch.setattr(os, "readlink", shifted)
    assert liveness(me) == "unknown"

    def missing(path: str) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "readlink", missing)
    assert liveness(me._replace(namespace="")) == "unknown"
    assert liveness(me._replace(namespace="", pid=2**22 + 1)) == "dead"


class FakePsutil(types.ModuleType):
    """The used part of psutil, which is not installed on Linux."""

    STATUS_ZOMBIE = "zombie"

    class Error(Exception):
        pass

    class NoSuchProcess(Error):
        pass

    created: float = 1_800_000_000.25
    state: str = "running"
    failure: Exception | None = None

    def boot_time(self) -> float:
        return 1_800_000_000.0

    def Process(self, pid: int) -> FakePsutil:
        if self.failure is not None:
            raise self.failure
        return self

    def create_time(self) -> float:
        return self.created

    def status(self) -> str:
        return self.state


@pytest.fixture
def not_linux(monkeypatch: pytest.MonkeyPatch) -> FakePsutil:
    """A system that is not Linux."""
    fake = FakePsutil("psutil")
    monkeypatch.setitem(sys.modules, "psutil", fake)
    monkeypatch.setattr(process, "_entry", process._from_psutil)
    return fake


def test_psutil_is_used_outside_linux(not_linux: FakePsutil) -> None:
    """For start time, zombies, missing and hidden processes."""
    who = known(os.getpid())
    assert who.started == "1800000000.25"
    assert liveness(who) == "alive"
    not_linux.created += 1
    assert liveness(who) == "dead"
    not_linux.created -= 1
    not_linux.state = "zombie"
    assert liveness(who) == "dead"
    not_linux.failure = FakePsutil.Error()
    assert liveness(who) == "unknown"
    not_linux.failure = FakePsutil.NoSuchProcess()
    assert liveness(who) == "dead"
    assert identify(os.getpid()) is None


def test_only_existence_is_known_without_psutil(not_linux: FakePsutil, monkeypatch: pytest.MonkeyPatch) -> None:
    """A taken pid is unknown, a free one is dead."""
    monkeypatch.setitem(sys.modules, "psutil", None)
    who = known(os.getpid())
    assert liveness(who) == "unknown"
    assert liveness(who._replace(pid=2**22 + 1)) == "dead"


def test_boot_id_from_the_clock_does_not_prove_a_reboot(
    not_linux: FakePsutil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody may have set the clock."""
    monkeypatch.setattr(host, "boot_id", lambda: "time:1")
    who = known(os.getpid())
    monkeypatch.setattr(host, "boot_id", lambda: "time:2")
    assert liveness(who) == "alive"
