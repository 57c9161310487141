"""Whether what was asked for was recorded, when the server goes away before it could be said.

Who is told "run it again" does it again. So it is known of every turn whether it came to its end, and who asked is
told: nothing was recorded, all of it was and only the answer is missing, or a part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from holdfast.core.errors import HoldfastError, Unreachable
from holdfast.store.interface import AWAY

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

_LOOK: Final = "Do not repeat it: when the server is back, see what is there: holdfast log, holdfast status"


class ToBeSeen(Unreachable):
    """The server is away, and something was recorded before: doing it again would do it twice."""

    retry_helps = False


class Recorded:
    """What became of the turns since somebody began to act."""

    __slots__ = ("_beside", "anything", "last", "unfinished")

    def __init__(self) -> None:
        self._beside = 0
        self.begin()

    def begin(self) -> None:
        """Somebody acts anew."""
        self.anything = False
        self.unfinished = False
        self.last: BaseException | None = None

    @contextmanager
    def beside(self) -> Iterator[None]:
        """What is recorded in this block was not asked for: what hooks left, what follows a change."""
        self._beside += 1
        try:
            yield
        finally:
            self._beside -= 1

    def turn_begins(self) -> None:
        if not self._beside:
            self.unfinished = True

    def turn_ended(self, *, recorded: bool) -> None:
        if not self._beside:
            self.unfinished = False
            self.anything = self.anything or recorded

    def not_saved(self, error: BaseException) -> None:
        """A turn came to its end, and was not saved for certain: the store has said what is known of it."""
        if not self._beside:
            self.last = error


def told(keeper: Keeper, error: HoldfastError, *, writes: bool = True) -> HoldfastError:
    """The error to show for this one. `writes`: something was to be recorded, begun or not."""
    if not isinstance(error, Unreachable) or keeper.address.path is not None or error.file != keeper.address.url:
        return error
    known = keeper.upkeep.recorded
    if known.anything:
        part = "part of it was recorded, and then the server went away"
        whole = "it was recorded, but the server went away before the answer"
        return ToBeSeen(
            part if known.unfinished else whole,
            hint=_LOOK, operation=error.operation, file=error.file, session=error.session,
            feature_id=error.feature_id, details=error.details,
        )  # fmt: skip
    if (writes or known.unfinished) and (error is not known.last or error.hint == AWAY):
        error.message += "; nothing was recorded"
    return error
