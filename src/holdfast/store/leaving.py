"""What cannot be carried to another store, because it is somebody else's: said in words, never left in silence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from holdfast.core import view
from holdfast.core.errors import HoldfastError, Refused
from holdfast.core.event import Event
from holdfast.core.state import State
from holdfast.store import derived
from holdfast.store.interface import LeftOut, Store
from holdfast.store.verify import flaws

OWNER_REPAIRS: Final = "its owner repairs it: holdfast doctor --repair"
OTHERS_DAMAGE: Final = "holdfast doctor --repair sets such events aside"
ANOTHER: Final = "one of the two is your own, the other one came through somebody's share: they are not united"
_HIDDEN: Final = "it is there already, from somebody who does not share it with you (holdfast store share)"
_READ_ONLY: Final = "it is there already, from somebody who does not let you write that to it (holdfast store share)"

# Only who owns such a session can change that.
OTHERS: Final = frozenset({_HIDDEN, _READ_ONLY})


def refusal(target: Store, session: str) -> str:
    """Why a store does not take in events of a session."""
    return _HIDDEN if target.state(session) is None else _READ_ONLY


def partly(number: int, reason: str) -> str:
    """Why a session is not carried over whole."""
    return f"without {number} event{'s' * (number > 1)} that somebody else put there: {reason}; {OTHERS_DAMAGE}"


def left_out(why: Mapping[str, str], state: Callable[[str], State | None]) -> tuple[LeftOut, ...]:
    return tuple(LeftOut(session, reason, _goal(session, state)) for session, reason in why.items())


def _goal(session: str, state: Callable[[str], State | None]) -> str | None:
    try:
        found = state(session)
    except HoldfastError:  # damaged, or unshared since: the reason is told without it
        return None
    return None if found is None else view.word(found, "goal") or None


def missing(session: str, events: Iterable[Event]) -> frozenset[str]:
    """The names of what is not there, though what follows it is."""
    return frozenset(derived.aside(session, flaw.writer, flaw.seq) for flaw in flaws(events) if flaw.damaged is None)


class _Undone(Exception):
    """Ends a transaction that only tried."""


def is_refused(store: Store, events: Iterable[Event]) -> bool:
    """Whether the store does not take in these; nothing of the attempt stays."""
    try:
        with store.transaction() as transaction:
            transaction.receive(events)
            raise _Undone
    except _Undone:
        return False
    except Refused:
        return True
