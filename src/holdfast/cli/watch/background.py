"""Run an action in a thread with a keeper of its own, so that keys are handled while it waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.cli.watch.actions import act
from holdfast.cli.watch.bindings import Deed
from holdfast.core.errors import Unreachable
from holdfast.workspace.unit import explain_outage

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper


class BackgroundCall:
    """Begins at once, and wakes whoever waits when it is over."""

    def __init__(
        self,
        open_keeper: Callable[[], Keeper],
        deed: Deed,
        prepare: Callable[[Keeper], None],
        wake: Callable[[], None],
    ) -> None:
        self.deed = deed
        self._open, self._prepare, self._wake = open_keeper, prepare, wake
        self._told = ""
        self._error: BaseException | None = None
        self._over = threading.Event()
        # Whoever leaves without it may: the store takes in a deed as a whole, or nothing of it.
        threading.Thread(target=self._do, name="doing", daemon=True).start()

    def over(self, within: float = 0.0) -> bool:
        """Whether it has come to an end, waiting for it so many seconds."""
        return self._over.wait(within)

    def told(self) -> str:
        """What came of it, in sentences; raises what went wrong."""
        if self._error is not None:
            raise self._error
        return self._told

    def _do(self) -> None:
        try:
            with self._open() as keeper:
                try:
                    self._told = act(keeper, self.deed, self._prepare)
                except Unreachable as error:
                    raise explain_outage(keeper, error) from None
        except BaseException as error:  # noqa: BLE001 (it is raised where somebody can tell of it)
            self._error = error
        self._over.set()
        self._wake()
