"""The process that syncs after something was recorded: it waits its turn, takes the mark away and syncs."""

from __future__ import annotations

import contextlib
import os
import time

from holdfast.core.errors import Busy, HoldfastError
from holdfast.keeper.keeper import Keeper
from holdfast.machine import error_log
from holdfast.machine.private_paths import open_private
from holdfast.sync.background import INTERVAL, LAST, MARK, STORE, age_of


def run(home: str) -> None:
    """The process: wait, take the mark away, sync. Says nothing, whatever happens."""
    store = os.environ.pop(STORE, None)  # no program that it starts needs to know
    last = os.path.join(home, LAST)
    age = age_of(last)
    if age is not None and age < INTERVAL:
        time.sleep(INTERVAL - max(age, 0.0))

    def begun() -> None:
        with contextlib.suppress(HoldfastError, OSError):
            os.close(open_private(last, os.O_WRONLY | os.O_CREAT))
            os.utime(last)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(home, MARK))

    try:
        from holdfast.sync.sync import sync

        with Keeper.open(home, home=home, store=store) as ws:
            ws.environ = dict(os.environ)
            sync(ws, patient=False, begun=begun)
    except Busy:
        return  # whoever is at it takes its time; the mark stands
    except HoldfastError as error:
        error_log.note(home, "sync", error.message)
    except Exception as error:  # noqa: BLE001 (nobody is there to see it; the log is)
        error_log.note(home, "sync", f"{type(error).__name__}: {error}")
