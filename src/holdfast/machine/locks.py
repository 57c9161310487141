"""Advisory locks on files: one writer or many readers at a time, among processes of one machine.

The system drops a lock together with the process that held it, so a lock whose holder is dead is none. Lock files
stay where they are, empty while nobody writes: removing one would let two writers lock two different files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from typing import Final

import msgspec

from holdfast.core.decode import decodable
from holdfast.core.errors import Busy, HoldfastError
from holdfast.machine import host, process
from holdfast.machine.os_errors import display_path, explain, retry_interrupted
from holdfast.machine.private_paths import open_private
from holdfast.machine.wall import monotonic

PATIENCE: Final = 5.0
_FIRST_WAIT: Final = 0.001
_LONGEST_WAIT: Final = 0.1
_MOST: Final = 4096  # of what a holder says about itself
_TAKEN: Final = frozenset({errno.EAGAIN, errno.EACCES, errno.EDEADLK})
# Where nothing can be written, nobody writes: a reader needs no lock there.
_UNWRITABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
# On Windows a locked byte cannot be read by others: it lies beyond what a holder writes.
_BYTE: Final = 1 << 30


class Holder(msgspec.Struct, frozen=True):
    """Who holds a lock for writing, as written into the lock file."""

    pid: int
    host: str = ""
    what: str = ""
    started: str = ""
    boot: str = ""
    namespace: str = ""
    machine: str = ""


@contextlib.contextmanager
def locked(path: str, *, shared: bool = False, patience: float = PATIENCE, what: str = "") -> Iterator[None]:
    """Hold the lock file at `path`: alone for writing, or `shared` with other readers.

    Waits for others up to `patience` seconds, then raises `Busy` naming who holds it. Not to be nested: a process
    that asks for a lock it already holds waits for itself.
    """
    fd = _acquired(path, shared=shared, patience=patience)
    if fd is None:
        yield
        return
    try:
        if not shared:
            _sign(fd, what)
        yield
    finally:
        try:
            if not shared:
                with contextlib.suppress(OSError):
                    os.ftruncate(fd, 0)
            _unlock(fd)
        finally:
            os.close(fd)


def holder(path: str) -> Holder | None:
    """Who holds the lock for writing, as far as is known: None when nobody does, or nobody who says so."""
    try:
        fd = open_private(path, os.O_RDONLY)
    except HoldfastError:
        return None
    try:
        told = msgspec.json.decode(os.read(fd, _MOST), type=decodable(Holder))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    finally:
        os.close(fd)
    # A holder that was killed leaves its name behind.
    life = process.ProcessIdentity(told.pid, told.started, told.boot, told.namespace, told.machine)
    return None if process.fate(life) == "dead" else told


def _acquired(path: str, *, shared: bool, patience: float) -> int | None:
    until = monotonic() + patience
    wait = _FIRST_WAIT
    while True:
        try:
            fd = open_private(path, (os.O_RDONLY if shared else os.O_RDWR) | os.O_CREAT)
        except HoldfastError as error:
            cause = error.__cause__
            if shared and isinstance(cause, OSError) and cause.errno in _UNWRITABLE:
                return None
            raise
        taken = False
        try:
            taken = _try_lock(fd, shared=shared) and _still_there(fd, path)
        except OSError as error:
            raise explain(error, "lock", path) from error
        finally:
            if not taken:
                os.close(fd)
        if taken:
            return fd
        left = until - monotonic()
        if left <= 0:
            raise _busy(path, patience)
        time.sleep(min(wait, left))
        wait = min(wait * 2, _LONGEST_WAIT)


def _still_there(fd: int, path: str) -> bool:
    """Somebody may have removed the file while we waited for it: then others lock another one."""
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(fd))


def _sign(fd: int, what: str) -> None:
    """Say who holds it. Only for the message of those who wait: on a full disk they get a vaguer one."""
    told = Holder(os.getpid(), host.device_name(), what[:200])
    life = process.identify(os.getpid())
    if life is not None:
        told = msgspec.structs.replace(told, **life._asdict())
    with contextlib.suppress(OSError, UnicodeEncodeError):
        os.ftruncate(fd, 0)
        os.lseek(fd, 0, os.SEEK_SET)
        os.write(fd, msgspec.json.encode(told) + b"\n")


def _busy(path: str, patience: float) -> Busy:
    told = holder(path)
    if told is None:
        who = "another process"
    else:
        who = f"process {told.pid}"
        if told.host and told.host != host.device_name():
            who += f" on {display_path(told.host)}"
        if told.what:
            who += f" ({display_path(told.what)})"
    return Busy(
        f"{display_path(path)} is held by {who}, for longer than {patience:g} s",
        hint="Try again when it has ended.",
        operation="lock",
        file=path,
    )


if sys.platform == "win32":

    def _try_lock(fd: int, *, shared: bool) -> bool:  # noqa: ARG001
        # Windows has no shared locks here: readers wait for each other, which is slower and as safe.
        import msvcrt

        os.lseek(fd, _BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in _TAKEN:
                return False
            raise
        finally:
            os.lseek(fd, 0, os.SEEK_SET)
        return True

    def _unlock(fd: int) -> None:
        import msvcrt

        with contextlib.suppress(OSError):
            os.lseek(fd, _BYTE, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:

    def _try_lock(fd: int, *, shared: bool) -> bool:
        import fcntl

        try:
            retry_interrupted(fcntl.flock, fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(fd: int) -> None:
        """Closing lets go by itself; a child that inherited the descriptor must not keep it."""
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)
