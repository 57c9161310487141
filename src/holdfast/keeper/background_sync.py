"""The process that syncs after something was recorded."""

from __future__ import annotations

import contextlib
import os
import time

from holdfast.core.errors import Busy, HoldfastError
from holdfast.keeper.keeper import Keeper
from holdfast.machine import error_log
from holdfast.machine.private_paths import open_private
from holdfast.sync.background import INTERVAL, LAST_RUN_FILE, REQUEST_FILE, STORE_VARIABLE, age_of


def run(home: str) -> None:
    """Wait for the interval to pass, remove the mark, and sync. Errors go to the error log."""
    store = os.environ.pop(STORE_VARIABLE, None)  # it may hold a password, which no child process needs
    last = os.path.join(home, LAST_RUN_FILE)
    age = age_of(last)
    if age is not None and age < INTERVAL:
        time.sleep(INTERVAL - max(age, 0.0))

    def begun() -> None:
        with contextlib.suppress(HoldfastError, OSError):
            os.close(open_private(last, os.O_WRONLY | os.O_CREAT))
            os.utime(last)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(home, REQUEST_FILE))

    try:
        from holdfast.sync.sync import sync

        with Keeper.open(home, home=home, store=store, environ=dict(os.environ)) as ws:
            sync(ws, patient=False, begun=begun)
    except Busy:
        return  # another sync is running; the mark stays
    except HoldfastError as error:
        error_log.note(home, "sync", error.message)
    except Exception as error:  # noqa: BLE001 (there is no output to watch: it goes to the log)
        error_log.note(home, "sync", f"{type(error).__name__}: {error}")
