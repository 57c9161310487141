"""Locks: one writer or many readers, released by a death, and an error that names the holder."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Self

import pytest

from holdfast.core.errors import Busy, Failed, HoldfastError, Refused
from holdfast.machine.locks import holder, locked

HOLD = textwrap.dedent("""
    import sys
    from holdfast.machine.locks import locked
    with locked(sys.argv[1], shared=sys.argv[2] == "shared", purpose="holdfast task done"):
        print("held", flush=True)
        sys.stdin.read()
""")
COUNT = textwrap.dedent("""
    import sys
    from holdfast.machine.locks import locked
    for _ in range(int(sys.argv[3])):
        with locked(sys.argv[1], patience=60):
            with open(sys.argv[2]) as file:
                number = int(file.read())
            with open(sys.argv[2], "w") as file:
                file.write(str(number + 1))
""")


class Other:
    """Another process that holds the lock until it is released."""

    def __init__(self, path: str, how: str = "alone") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, path, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "held\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def lock(tmp_path: Path) -> str:
    return str(tmp_path / ".state.lock")


def test_lock_error_names_the_holder(lock: str) -> None:
    with Other(lock) as other, pytest.raises(Busy) as caught, locked(lock, patience=0.05):
        pass
    assert f"locked by process {other.process.pid} (holdfast task done)" in caught.value.message
    assert (caught.value.operation, caught.value.file) == ("lock", lock)
    assert caught.value.retry_helps


def test_readers_and_writers_exclude_each_other(lock: str) -> None:
    with Other(lock), pytest.raises(Busy), locked(lock, shared=True, patience=0.05):
        pass
    with Other(lock, "shared"), pytest.raises(Busy, match="locked by another process"), locked(lock, patience=0.05):
        pass


def test_readers_share_the_lock(lock: str) -> None:
    with Other(lock, "shared"), locked(lock, shared=True, patience=0):
        pass


def test_waiting_ends_as_soon_as_the_lock_is_released(lock: str) -> None:
    other = Other(lock)
    release = threading.Timer(0.05, other.__exit__)
    release.start()
    with locked(lock, patience=60):
        assert other.process.wait() == 0
    release.join()


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
def test_lock_of_a_dead_holder_is_free(lock: str) -> None:
    other = Other(lock)
    assert holder(lock) is not None
    other.kill()
    assert Path(lock).read_text() != "", "the killed process left its name"
    assert holder(lock) is None
    with locked(lock, patience=0, purpose="me"):
        messages = holder(lock)
        assert messages is not None
        assert (messages.pid, messages.what) == (os.getpid(), "me")
    assert holder(lock) is None
    other.process.communicate()


def test_lock_is_released_when_the_block_raises(lock: str) -> None:
    with pytest.raises(ZeroDivisionError), locked(lock):
        _ = 1 / 0
    with locked(lock, patience=0):
        pass


def test_lock_file_is_private_and_empty_without_a_writer(lock: str) -> None:
    with locked(lock, purpose="x"):
        assert Path(lock).read_bytes()
    assert Path(lock).read_bytes() == b""
    if os.name != "nt":
        assert stat.S_IMODE(os.lstat(lock).st_mode) == 0o600


def test_lock_keeps_counts_of_many_processes(lock: str, tmp_path: Path) -> None:
    """Each reads, adds one and writes."""
    number = tmp_path / "number"
    number.write_text("0")
    many = [subprocess.Popen([sys.executable, "-c", COUNT, lock, str(number), "25"]) for _ in range(6)]
    assert [popen.wait() for popen in many] == [0] * 6
    assert number.read_text() == "150"


def test_lock_excludes_other_threads(lock: str) -> None:
    with locked(lock):
        failures: list[HoldfastError] = []

        def other() -> None:
            try:
                with locked(lock, patience=0):
                    pass
            except HoldfastError as error:
                failures.append(error)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert [type(error) for error in failures] == [Busy]


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps open files where they are")
def test_lock_file_removed_while_waiting_is_replaced(lock: str) -> None:
    """The lock must be on the file that others see."""
    with Other(lock):
        os.unlink(lock)
        with locked(lock, patience=5), pytest.raises(Busy), locked(lock, patience=0):
            pass


def test_lock_refuses_planted_files(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("keep")
    link = tmp_path / ".a.lock"
    link.symlink_to(secret)
    twin = tmp_path / ".b.lock"
    os.link(secret, twin)
    for path in (link, twin):
        with pytest.raises(Refused), locked(str(path)):
            pass
    assert secret.read_text() == "keep"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_reader_needs_no_lock_in_a_read_only_directory(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    path = str(tmp_path / ".state.lock")
    try:
        with locked(path, shared=True):
            pass
        with pytest.raises(Failed), locked(path):
            pass
    finally:
        tmp_path.chmod(0o700)
