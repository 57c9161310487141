"""Sync in the background: in a process after something was recorded, or in a thread with a time limit.

A sync that the end of the program interrupts is like one that crashed: the next sync continues it.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from holdfast.core.errors import Failed, HoldfastError
from holdfast.core.wording import count, one_line
from holdfast.machine import background_process, error_log
from holdfast.machine.private_paths import open_private
from holdfast.sync import remote_list

if TYPE_CHECKING:
    from holdfast.sync.sync import SyncResult
    from holdfast.workspace.workspace import Workspace

CATCH_UP_SECONDS: Final = 10.0
INTERVAL: Final = 10.0  # seconds
# A request this old was left by a process that has ended.
_REQUEST_EXPIRES: Final = 60.0
REQUEST_FILE: Final = "sync.wanted"
LAST_RUN_FILE: Final = "sync.last"
STORE_VARIABLE: Final = "HOLDFAST_STORE"
_MODULE: Final = "holdfast.keeper.background_sync"

_running: dict[str, BackgroundSync] = {}
_lock = threading.Lock()


class BackgroundSync:
    """A running sync with every remote. `patient`: a person waits for it."""

    def __init__(self, ws: Workspace, *, patient: bool) -> None:
        self._patient = patient
        # Without a project: its mirrored files are the caller's business.
        self._workspace = ws.apart(ws.home.path)
        self._outcomes: list[SyncResult | HoldfastError] = []
        self._thread = threading.Thread(target=self._sync, name="sync", daemon=True)
        self._thread.start()

    def outcome(self, seconds: float) -> SyncResult | HoldfastError | None:
        """The result, if there is one within this time."""
        self._thread.join(seconds)
        return self._outcomes[0] if self._outcomes else None

    @property
    def finished(self) -> bool:
        return not self._thread.is_alive()

    def _sync(self) -> None:
        from holdfast.sync.sync import sync

        home = self._workspace.home.path
        try:
            with self._workspace as ws:
                self._outcomes.append(sync(ws, patient=self._patient))
        except HoldfastError as error:
            self._outcomes.append(error)
        except Exception as error:  # noqa: BLE001 (the caller has other work; the error is in the log)
            error_log.note(home, "sync", f"{type(error).__name__}: {error}")
            self._outcomes.append(Failed(f"the sync failed unexpectedly ({type(error).__name__})"))


def start_sync(ws: Workspace) -> BackgroundSync | None:
    """Start a sync that a person asked for; None while one is running already."""
    with _lock:
        running = _running.get(ws.home.path)
        if running is not None and not running.finished:
            return None
        sync_run = _running[ws.home.path] = BackgroundSync(ws, patient=True)
    return sync_run


def request_sync(ws: Workspace) -> None:
    """Start a sync in the background, if there is a remote. Never raises: the command itself is done."""
    try:
        if remote_list.load(ws.home) and ws.settings["sync.background"] and _leave_request(ws.home.path):
            # Every user of the machine can read a program's arguments, but not its environment.
            background_process.start(_MODULE, "run", ws.home.path, around={STORE_VARIABLE: ws.address.secret})
    except (HoldfastError, OSError) as error:
        error_log.note(ws.home.path, "sync", str(error))


def _leave_request(home: str) -> bool:
    """Leave the request; True when no process is waiting to take it."""
    path = os.path.join(home, REQUEST_FILE)
    try:
        os.close(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        return True
    except (HoldfastError, OSError):
        age = age_of(path)
        if age is None or age < _REQUEST_EXPIRES:
            return False
        os.utime(path)
        return True


def age_of(path: str) -> float | None:
    """Seconds since the file was touched; None when it does not exist. A time in the future counts as long ago."""
    try:
        touched = os.lstat(path).st_mtime_ns
    except OSError:
        return None
    from holdfast.machine.wall import Wall

    age = Wall().now() / 1000 - touched / 1e9
    return age if age > -1 else _REQUEST_EXPIRES


def catch_up(ws: Workspace, *, seconds: float = CATCH_UP_SECONDS) -> list[str]:
    """Sync with every remote, with a time limit; return what a person should know, nothing when all is well."""
    try:
        names = [remote.name for remote in remote_list.load(ws.home)]
    except HoldfastError as error:
        return [_sentence(error.message)]
    if not names:
        return []
    # Collected here first, so that the background keeper need not.
    ws.collect()
    outcome = BackgroundSync(ws, patient=False).outcome(seconds)
    if outcome is None:
        return [f"Could not reach {', '.join(names)} in time; continuing with the local data."]
    if isinstance(outcome, HoldfastError):
        return [f"Not synced: {outcome.message}. Continuing with the local data."]
    return [*_failure_notes(outcome), *outcome.report.notes, *_rejection_notes(outcome)]


def _failure_notes(result: SyncResult) -> list[str]:
    return [
        f"Could not reach {name}; continuing with the local data."
        if error.retry_helps
        else f"Not synced with {name}: {one_line(error.message)}. Continuing with the local data."
        for name, error in result.failed.items()
    ]


def _rejection_notes(result: SyncResult) -> list[str]:
    rejected = result.report.rejected
    if not rejected:
        return []
    first = rejected[0]
    by = f" from {one_line(first.device)}" if first.device else ""
    summary = f"{count(len(rejected), 'object')} at the remote {'was' if len(rejected) == 1 else 'were'} not accepted"
    return [f"{summary}, the first{by}: {one_line(first.reason)}. See: holdfast doctor"]


def _sentence(message: str) -> str:
    return f"{message[:1].upper()}{message[1:]}. Continuing with the local data."
