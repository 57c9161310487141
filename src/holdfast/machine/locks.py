"""Advisory file locks between the processes of one machine: one writer, or many readers.

The system releases a lock when its process ends, so no stale lock remains. Lock files are never removed and are empty
while no process writes: removing one would let two writers lock two different files.
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
_MAX_WAIT: Final = 0.1
_MAX_HOLDER_SIZE: Final = 4096  # bytes
_LOCKED_ERRNOS: Final = frozenset({errno.EAGAIN, errno.EACCES, errno.EDEADLK})
# Where nothing can be written there are no writers, so a reader needs no lock.
_UNWRITABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
# Windows hides a locked byte from others, so it lies beyond the text of the holder.
_BYTE: Final = 1 << 30


class Holder(msgspec.Struct, frozen=True):
    """Who has locked a file for writing, as written into the lock file."""

    pid: int
    host: str = ""
    what: str = ""
    started: str = ""
    boot: str = ""
    namespace: str = ""
    machine: str = ""


@contextlib.contextmanager
def locked(path: str, *, shared: bool = False, patience: float = PATIENCE, purpose: str = "") -> Iterator[None]:
    """Lock the file at `path`: exclusively for writing, or `shared` with other readers.

    Waits up to `patience` seconds, then raises `Busy` naming the holder. Not reentrant: a process that asks for a
    lock that it already has waits for itself.
    """
    fd = _acquired(path, shared=shared, patience=patience)
    if fd is None:
        yield
        return
    try:
        if not shared:
            _write_holder(fd, purpose)
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
    """Who has locked the file for writing, as far as is known."""
    try:
        fd = open_private(path, os.O_RDONLY)
    except HoldfastError:
        return None
    try:
        entry = msgspec.json.decode(os.read(fd, _MAX_HOLDER_SIZE), type=decodable(Holder))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    finally:
        os.close(fd)
    # A killed process leaves its entry behind.
    identity = process.ProcessIdentity(entry.pid, entry.started, entry.boot, entry.namespace, entry.machine)
    return None if process.liveness(identity) == "dead" else entry


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
        locked = False
        try:
            locked = _try_lock(fd, shared=shared) and _is_current_file(fd, path)
        except OSError as error:
            raise explain(error, "lock", path) from error
        finally:
            if not locked:
                os.close(fd)
        if locked:
            return fd
        remaining = until - monotonic()
        if remaining <= 0:
            raise _busy(path, patience)
        time.sleep(min(wait, remaining))
        wait = min(wait * 2, _MAX_WAIT)


def _is_current_file(fd: int, path: str) -> bool:
    """Whether the file still exists: if it was removed while we waited, others lock a new one."""
    try:
        current = os.lstat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(current, os.fstat(fd))


def _write_holder(fd: int, purpose: str) -> None:
    """Write the holder into the file, for the message of those who wait. On a full disk it stays empty."""
    own = Holder(os.getpid(), host.device_name(), purpose[:200])
    identity = process.identify(os.getpid())
    if identity is not None:
        own = msgspec.structs.replace(own, **identity._asdict())
    with contextlib.suppress(OSError, UnicodeEncodeError):
        os.ftruncate(fd, 0)
        os.lseek(fd, 0, os.SEEK_SET)
        os.write(fd, msgspec.json.encode(own) + b"\n")


def _busy(path: str, patience: float) -> Busy:
    holding = holder(path)
    if holding is None:
        process = "another process"
    else:
        process = f"process {holding.pid}"
        if holding.host and holding.host != host.device_name():
            process += f" on {display_path(holding.host)}"
        if holding.what:
            process += f" ({display_path(holding.what)})"
    return Busy(
        f"{display_path(path)} is locked by {process}, for longer than {patience:g} s",
        hint="Try again when it has ended.",
        operation="lock",
        file=path,
    )


if sys.platform == "win32":

    def _try_lock(fd: int, *, shared: bool) -> bool:  # noqa: ARG001
        # `msvcrt` has no shared locks: readers wait for each other, which is slower but as safe.
        import msvcrt

        os.lseek(fd, _BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in _LOCKED_ERRNOS:
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
        """Unlock before closing: a child that inherited the descriptor would keep the lock."""
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)
