"""A commit whose answer never came: was it done?

The line is gone, not necessarily the transaction: the server may still be at it. Whoever takes the installation's lock
knows that it is over; then the event that was recorded last is there, and everything with it, or it is not.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from holdfast.core.errors import HoldfastError, Unreachable
from holdfast.core.event import Event
from holdfast.store.postgres.tables import INSTALLATION
from holdfast.store.postgres.talking import Talk

if TYPE_CHECKING:
    from holdfast.store.postgres.store import PostgresStore

_PATIENCE: Final = 20.0  # seconds for the server to come back
_PAUSE: Final = 0.25


def is_done(store: PostgresStore, last: Event | None) -> bool:
    """Whether the transaction with this event happened. Raises when that cannot be known."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return _look(store, last)
        except Exception as error:
            told = store.spoken(error, "write to the store") or error
            if time.monotonic() > until or not (isinstance(told, HoldfastError) and told.retry_helps):
                raise Unreachable(
                    "the server was cut off while it saved; whether it did is not known",
                    hint="When it is back, look before you repeat it: holdfast log",
                    operation="write to the store",
                    file=store.url,
                ) from None
        time.sleep(_PAUSE)


def _look(store: PostgresStore, last: Event | None) -> bool:
    here = store.settle_in()

    def look(talk: Talk) -> bool:
        # Waits for the one that was cut off: until the server has noticed, it holds the lock.
        talk.ask("SELECT pg_advisory_lock(%s, %s::integer)::text", (INSTALLATION, here % 2**31))
        try:
            if last is None:
                return False
            sql = (
                "SELECT 1 FROM events e JOIN sessions s ON s.ref = e.session"
                " WHERE s.vault = %s AND s.id = %s AND e.clock = %s AND e.hash = %s"
            )
            values = (store.vault, last.session, last.clock, bytes.fromhex(last.hash))
            return talk.one(sql, values) is not None
        finally:
            talk.ask("SELECT pg_advisory_unlock(%s, %s::integer)", (INSTALLATION, here % 2**31))

    return store.asked(look)
