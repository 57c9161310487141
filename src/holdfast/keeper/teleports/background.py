"""Syncing by itself: after something was recorded, in a process of its own, at most every ten seconds.

Whoever records something only leaves a mark, and begins a process if none is waiting already: no command is held up.
The process waits until the last sync is ten seconds old and nobody else is at it, takes the mark away and syncs; what
is recorded from then on leaves a new one. Offline is quiet: the error stands in `status`, and the next mark tries
again; looking at `status` leaves one too, while something waits to be sent.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Final

from holdfast.core.errors import Busy, HoldfastError
from holdfast.keeper.teleports import remotes
from holdfast.machine import detached, errorlog
from holdfast.machine.private import open_private

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

EVERY: Final = 10.0  # seconds
# A mark this old was left to a process that is gone.
_FORSAKEN: Final = 60.0
_MARK: Final = "sync.wanted"
_LAST: Final = "sync.last"
STORE: Final = "HOLDFAST_STORE"


def ask(keeper: Keeper) -> None:
    """Let a sync happen soon, if there is any remote. Never raises: the command itself has been carried out."""
    try:
        if remotes.load(keeper.home) and keeper.settings["sync.background"] and _mark(keeper.home.path):
            # Every user of the machine can read a program's words, but not what it finds around it.
            detached.start(__name__, "run", keeper.home.path, around={STORE: keeper.address.secret})
    except (HoldfastError, OSError) as error:
        errorlog.note(keeper.home.path, "sync", str(error))


def _mark(home: str) -> bool:
    """Leave the mark; True when nobody is waiting to take it away."""
    path = os.path.join(home, _MARK)
    try:
        os.close(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        return True
    except (HoldfastError, OSError):
        age = _age(path)
        if age is None or age < _FORSAKEN:
            return False
        os.utime(path)
        return True


def _age(path: str) -> float | None:
    """Seconds since the file was touched; None when it is not there. One from the future was touched long ago."""
    try:
        touched = os.lstat(path).st_mtime_ns
    except OSError:
        return None
    from holdfast.machine.wall import Wall

    age = Wall().now() / 1000 - touched / 1e9
    return age if age > -1 else _FORSAKEN


def run(home: str) -> None:
    """The process: wait, take the mark away, sync. Says nothing, whatever happens."""
    from holdfast.keeper.keeper import Keeper

    store = os.environ.pop(STORE, None)  # no program that it starts needs to know
    last = os.path.join(home, _LAST)
    age = _age(last)
    if age is not None and age < EVERY:
        time.sleep(EVERY - max(age, 0.0))

    def begun() -> None:
        with contextlib.suppress(HoldfastError, OSError):
            os.close(open_private(last, os.O_WRONLY | os.O_CREAT))
            os.utime(last)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(home, _MARK))

    try:
        from holdfast.keeper.teleports.syncing import sync

        with Keeper.open(home, home=home, store=store) as keeper:
            keeper.environ = dict(os.environ)
            sync(keeper, patient=False, begun=begun)
    except Busy:
        return  # whoever is at it takes its time; the mark stands
    except HoldfastError as error:
        errorlog.note(home, "sync", error.message)
    except Exception as error:  # noqa: BLE001 (nobody is there to see it; the log is)
        errorlog.note(home, "sync", f"{type(error).__name__}: {error}")
