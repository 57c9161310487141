"""A commit whose answer never came: was it done?

The line is gone, not necessarily the transaction: the server may still be at it. Whoever takes the installation's
lock knows that it is over; then the event that was recorded last is there, and everything with it, or it is not.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from holdfast.core.errors import HoldfastError, Unreachable
from holdfast.core.event import Event
from holdfast.machine.wall import monotonic
from holdfast.store.postgres.locks import INSTALLATION
from holdfast.store.postgres.talking import Talk

if TYPE_CHECKING:
    from holdfast.store.postgres.store import PostgresStore

PATIENCE = 20.0  # seconds for the server to come back
_PAUSE: Final = 0.25
GRACE = 2000  # milliseconds for the server to be done with what was cut off
_WRITE: Final = "write to the store"
# Of our own role, and only where it has what it had: after a restart the number may be anybody's.
_END_IT: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE pid = %s AND locktype = 'advisory' AND objsubid = 2"
    " AND classid = %s::oid AND objid = %s::oid AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_FIND: Final = (
    "SELECT 1 FROM events e JOIN sessions s ON s.ref = e.session"
    " WHERE s.vault = %s AND s.id = %s AND e.clock = %s AND e.hash = %s"
)


def confirm(store: PostgresStore, last: Event | None, backend: int) -> None:
    """Return if the transaction with this event happened; else raise, with what is known of it."""
    if last is None:
        raise Unreachable(
            "the server was cut off while it saved; what was to be kept is there, or is not",
            hint="When it is back, do it again: twice does no harm.",
            operation=_WRITE, file=store.url,
        )  # fmt: skip
    if not _is_done(store, last, backend):
        raise Unreachable(
            "the server was cut off before it saved; nothing was recorded",
            hint="Do it again.", operation=_WRITE, file=store.url,
        )  # fmt: skip


def _is_done(store: PostgresStore, last: Event, backend: int) -> bool:
    until = monotonic() + PATIENCE
    waited = False
    while True:
        try:
            return store.asked(lambda talk: _look(store, talk, last, backend if waited else None), _WRITE)  # noqa: B023
        except HoldfastError as error:
            if monotonic() > until or not error.retry_helps:
                raise Unreachable(
                    "the server was cut off while it saved; whether it did is not known",
                    hint="When it is back, look before you repeat it: holdfast log",
                    operation=_WRITE, file=store.url,
                ) from None  # fmt: skip
        waited = True
        time.sleep(_PAUSE)


def _look(store: PostgresStore, talk: Talk, last: Event, end: int | None) -> bool:
    lock = (INSTALLATION, store.settle_in() % 2**31)
    if end is not None:
        # It does not come to an end by itself: its client, that is us, will never say another word.
        talk.ask(_END_IT, (end, *lock))
    talk.tell("BEGIN")
    talk.tell(f"SET LOCAL lock_timeout = {GRACE}")
    talk.tell("SELECT pg_advisory_xact_lock(%s, %s::integer)", lock)
    found = talk.one(_FIND, (store.vault, last.session, last.clock, bytes.fromhex(last.hash)))
    talk.tell("COMMIT")
    if found is not None:
        talk.tell("SELECT pg_notify(%s, '')", (f"holdfast_{store.vault}",))
    return found is not None
