"""A sync in a thread with a keeper of its own: whoever asked for it goes on when it is done or the time is over.

What is cut short by the end of the program is what any crash would cut short, and the next sync goes on with it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from holdfast.core.errors import Failed, HoldfastError
from holdfast.machine import errorlog

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.teleports.syncing import Synced

_running: dict[str, Alongside] = {}
_lock = threading.Lock()


class Alongside:
    """A sync with every remote, begun. `patient`: a person waits for it."""

    def __init__(self, keeper: Keeper, *, patient: bool) -> None:
        self._keeper = keeper
        self._patient = patient
        self._actor, self._device = keeper.recorder.actor, keeper.device()
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
        from holdfast.keeper.keeper import Keeper
        from holdfast.keeper.teleports.syncing import sync

        home = self._keeper.home.path
        try:
            # Of no project: its mirrored files are the asker's business.
            with Keeper.open(
                home, home=home, store=self._keeper.address.secret, actor=self._actor, device=self._device,
                wall=self._keeper.wall,
            ) as other:  # fmt: skip
                other.environ = self._keeper.environ
                self._done.append(sync(other, patient=self._patient))
        except HoldfastError as error:
            self._done.append(error)
        except Exception as error:  # noqa: BLE001 (whoever asked has something else to do; the log tells)
            errorlog.note(home, "sync", f"{type(error).__name__}: {error}")
            self._done.append(Failed(f"the sync broke off ({type(error).__name__})"))


def begin(keeper: Keeper) -> Alongside | None:
    """A sync that a person asked for; None while one that was asked for here is under way: one is enough."""
    with _lock:
        before = _running.get(keeper.home.path)
        if before is not None and not before.over:
            return None
        made = _running[keeper.home.path] = Alongside(keeper, patient=True)
    return made
