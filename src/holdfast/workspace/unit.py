"""One unit of work: followers collect what others left, a transaction, and followers react to what was recorded.

Also whether what was asked for was recorded. People repeat a command that asks for it when a server fails, so
the answer is one of three: nothing was recorded, part of it was, or all of it was and only the answer was lost.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final

from holdfast.core.errors import HoldfastError, Unreachable
from holdfast.store.interface import AWAY, Transaction
from holdfast.workspace.recorder import note_secret_rules

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

_LOOK: Final = (
    "Do not repeat the command. Once the server is back, check what was recorded: holdfast log, holdfast status"
)


class Unit:
    """One transaction, with what followers do before and after it."""

    __slots__ = ("_about", "_inner", "_patience", "_ws", "transaction")

    def __init__(self, ws: Workspace, *, patience: float | None = None, about: str | None = None) -> None:
        self._ws = ws
        self._patience = patience
        self._about = about
        self._inner: AbstractContextManager[Transaction] | None = None
        self.transaction: Transaction | None = None

    def __enter__(self) -> Transaction:
        ws = self._ws
        ws.collect(follow=False)
        ws.outcome.unit_begins(ws)
        try:
            self._inner = ws.store().transaction(patience=self._patience, about=self._about)
            self.transaction = self._inner.__enter__()
            if not ws.recorder.tally.noted_rules:
                try:
                    note_secret_rules(ws.store(), self.transaction)
                except BaseException as error:
                    self._inner.__exit__(type(error), error, error.__traceback__)
                    raise
        except BaseException:
            self._follow_collected()
            raise
        ws.unit = self
        return self.transaction

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ws = self._ws
        assert self._inner is not None
        assert self.transaction is not None
        ws.unit = None
        try:
            self._inner.__exit__(kind, error, trace)
        except BaseException as cut:
            if kind is None and isinstance(cut, Unreachable):
                ws.outcome.not_saved(ws, cut)
            self._follow_collected()
            raise
        if kind is not None:
            self._follow_collected()
            return
        changed = self.transaction.changed()
        ws.outcome.unit_ended(ws, recorded=bool(changed))
        ws.recorder.tally.noted_rules = True
        ws.recorded(changed)
        ws.follow()

    def _follow_collected(self) -> None:
        """Run followers for what was collected before a verb that failed; the verb's own error is raised."""
        with suppress(Unreachable):
            self._ws.follow()


class PartlyRecorded(Unreachable):
    """The server went away after something was recorded: repeating the command would record it twice."""

    retry_helps = False


class UnitOutcome:
    """The result of all units since a command began, without what followers recorded."""

    __slots__ = ("anything", "last", "unfinished")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A new command begins."""
        self.anything = False
        self.unfinished = False
        self.last: BaseException | None = None

    def unit_begins(self, ws: Workspace) -> None:
        if not ws.is_quiet:
            self.unfinished = True

    def unit_ended(self, ws: Workspace, *, recorded: bool) -> None:
        if not ws.is_quiet:
            self.unfinished = False
            self.anything = self.anything or recorded

    def not_saved(self, ws: Workspace, error: BaseException) -> None:
        """A unit ended without being saved for certain; the store's error says what is known."""
        if not ws.is_quiet:
            self.last = error


def explain_outage(ws: Workspace, error: HoldfastError, *, writes: bool = True) -> HoldfastError:
    """The error to show for this one. `writes`: the command was to record something."""
    if not isinstance(error, Unreachable) or ws.address.path is not None or error.file != ws.address.url:
        return error
    outcome = ws.outcome
    if outcome.anything:
        part = "part of it was recorded, then the connection was lost"
        recorded = "it was recorded, but the connection was lost before the confirmation"
        return PartlyRecorded(
            part if outcome.unfinished else recorded,
            hint=_LOOK, operation=error.operation, file=error.file, session=error.session,
            feature_id=error.feature_id, details=error.details,
        )  # fmt: skip
    if (writes or outcome.unfinished) and (error is not outcome.last or error.hint == AWAY):
        error.message += "; nothing was recorded"
    return error


def name_feature(ws: Workspace, error: HoldfastError) -> None:
    """Add the contract's id of the session that an error is about, where the session has one."""
    if error.session is None or error.feature_id is not None or error.retry_helps:
        return
    with suppress(HoldfastError):
        store = ws.existing_store()
        state = None if store is None else store.state(error.session)
        error.feature_id = None if state is None else state.aliases.get("contract")
