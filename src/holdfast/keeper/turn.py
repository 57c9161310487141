"""A turn of the keeper: one transaction, and what goes before and after it for mirrored files and status lines."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING

from holdfast.core.errors import Unreachable
from holdfast.keeper.recording import note_rules
from holdfast.store.interface import Transaction

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper


class Turn:
    """One transaction: what others wrote into mirrored files is taken in before it, and the files follow it."""

    __slots__ = ("_about", "_inner", "_keeper", "_patience", "_transaction")

    def __init__(self, keeper: Keeper, *, patience: float | None = None, about: str | None = None) -> None:
        self._keeper = keeper
        self._patience = patience
        self._about = about
        self._inner: AbstractContextManager[Transaction] | None = None
        self._transaction: Transaction | None = None

    def __enter__(self) -> Transaction:
        self._keeper.absorb()
        self._keeper.upkeep.recorded.turn_begins()
        self._keeper.upkeep.begin_turn()
        self._inner = self._keeper.store().transaction(patience=self._patience, about=self._about)
        self._transaction = self._inner.__enter__()
        if not self._keeper.recorder.noted_rules:
            try:
                note_rules(self._keeper.store(), self._transaction)
            except BaseException as error:
                self._inner.__exit__(type(error), error, error.__traceback__)
                raise
        self._keeper.upkeep.writing = True
        return self._transaction

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._inner is not None
        self._keeper.upkeep.writing = False
        recorded = self._keeper.upkeep.recorded
        try:
            self._inner.__exit__(kind, error, trace)
        except Unreachable as cut:
            if kind is None:
                recorded.not_saved(cut)
            raise
        if kind is None:
            assert self._transaction is not None
            changed = self._transaction.changed()
            recorded.turn_ended(recorded=bool(changed))
            self._keeper.recorder.noted_rules = True
            self._keeper.upkeep.follow(changed)
            if self._keeper.recorder.matters:
                self._keeper.recorder.matters = False
                self._keeper.upkeep.travel()
