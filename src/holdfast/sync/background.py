"""Sync beside other work: in a process after something was recorded, or in a thread with a time limit.

What is cut short by the end of the program is what any crash would cut short, and the next sync goes on with it.
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
    from holdfast.sync.sync import Synced
    from holdfast.workspace.workspace import Workspace

_running: dict[str, Alongside] = {}
_lock = threading.Lock()


class Alongside:
    """A sync with every remote, begun. `patient`: a person waits for it."""

    def __init__(self, ws: Workspace, *, patient: bool) -> None:
        self._patient = patient
        # Of no project: its mirrored files are the asker's business.
        self._other = ws.apart(ws.home.path)
        self._done: list[Synced | HoldfastError] = []
        self._thread = threading.Thread(target=self._sync, name="sync", daemon=True)
        self._thread.start()

    def outcome(self, seconds: float) -> Synced | HoldfastError | None:
        """What came of it, if that is known within this time."""
        self._thread.join(seconds)
        return self._done[0] if self._done else None

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def _sync(self) -> None:
        from holdfast.sync.sync import sync

        home = self._other.home.path
        try:
            with self._other as other:
                self._done.append(sync(other, patient=self._patient))
        except HoldfastError as error:
            self._done.append(error)
        except Exception as error:  # noqa: BLE001 (whoever asked has something else to do; the log tells)
            error_log.note(home, "sync", f"{type(error).__name__}: {error}")
            self._done.append(Failed(f"the sync broke off ({type(error).__name__})"))


def begin(ws: Workspace) -> Alongside | None:
    """A sync that a person asked for; None while one that was asked for here is under way: one is enough."""
    with _lock:
        before = _running.get(ws.home.path)
        if before is not None and not before.over:
            return None
        made = _running[ws.home.path] = Alongside(ws, patient=True)
    return made


EVERY: Final = 10.0  # seconds
# A mark this old was left to a process that is gone.
_FORSAKEN: Final = 60.0
MARK: Final = "sync.wanted"
LAST: Final = "sync.last"
STORE: Final = "HOLDFAST_STORE"
_PROCESS: Final = "holdfast.keeper.background_sync"


def ask(ws: Workspace) -> None:
    """Let a sync happen soon, if there is any remote. Never raises: the command itself has been carried out."""
    try:
        if remote_list.load(ws.home) and ws.settings["sync.background"] and _mark(ws.home.path):
            # Every user of the machine can read a program's words, but not what it finds around it.
            background_process.start(_PROCESS, "run", ws.home.path, around={STORE: ws.address.secret})
    except (HoldfastError, OSError) as error:
        error_log.note(ws.home.path, "sync", str(error))


def _mark(home: str) -> bool:
    """Leave the mark; True when nobody is waiting to take it away."""
    path = os.path.join(home, MARK)
    try:
        os.close(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        return True
    except (HoldfastError, OSError):
        age = age_of(path)
        if age is None or age < _FORSAKEN:
            return False
        os.utime(path)
        return True


def age_of(path: str) -> float | None:
    """Seconds since the file was touched; None when it is not there. One from the future was touched long ago."""
    try:
        touched = os.lstat(path).st_mtime_ns
    except OSError:
        return None
    from holdfast.machine.wall import Wall

    age = Wall().now() / 1000 - touched / 1e9
    return age if age > -1 else _FORSAKEN


SECONDS: Final = 10.0


def catch_up(ws: Workspace, *, seconds: float = SECONDS) -> list[str]:
    """Sync with every remote, in a hurry; gives what a person should know of it, and nothing when all is well."""
    try:
        names = [remote.name for remote in remote_list.load(ws.home)]
    except HoldfastError as error:
        return [_sentence(error.message)]
    if not names:
        return []
    # What waits here is taken in first, so that the other keeper has nothing of that kind to do.
    ws.collect()
    found = Alongside(ws, patient=False).outcome(seconds)
    if found is None:
        return [f"Could not reach {', '.join(names)} in time; going on with what is here."]
    if isinstance(found, HoldfastError):
        return [f"Not synced: {found.message}. Going on with what is here."]
    return [*_failed(found), *found.report.notes, *_rejected(found)]


def _failed(found: Synced) -> list[str]:
    return [
        f"Could not reach {name}; going on with what is here."
        if error.retry_helps
        else f"Not synced with {name}: {one_line(error.message)}. Going on with what is here."
        for name, error in found.failed.items()
    ]


def _rejected(found: Synced) -> list[str]:
    turned = found.report.rejected
    if not turned:
        return []
    first = turned[0]
    by = f" of {one_line(first.device)}" if first.device else ""
    what = f"{count(len(turned), 'thing')} at the remote {'was' if len(turned) == 1 else 'were'} not taken in"
    return [f"{what}, the first{by}: {one_line(first.reason)}. See: holdfast doctor"]


def _sentence(message: str) -> str:
    return f"{message[:1].upper()}{message[1:]}. Going on with what is here."
