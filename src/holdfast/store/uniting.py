"""Uniting a store of any kind with a backup.

Restoring adds and never takes away: the log only grows, so what is here and what the backup has are both true.
What was deleted since stays deleted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.core.errors import Damaged, Refused
from holdfast.core.event import Event, trouble
from holdfast.core.fold import fold
from holdfast.store import origin
from holdfast.store.interface import Copied, Refuses, Store
from holdfast.store.leaving import ANOTHER, is_refused, left_out, missing, refusal

if TYPE_CHECKING:
    from holdfast.store.sqlite.copies import Backup


def unite(store: Store, path: str, refuses: Refuses = lambda _session, _events: None) -> Copied:
    """Read every event of the backup, check it, and add what is missing: all of it, or nothing.

    Only sessions that are not ours to write in this store, and those that `refuses` gives a reason for, are left out,
    and named.
    """
    from holdfast.store.sqlite import copies

    path = os.path.abspath(path)
    with copies.reading(path) as backup:
        sessions = backup.sessions()
        for session in sessions:
            _refuse_damage(backup.events(session), session, path)
        left: dict[str, str] = {}
        for session in sessions:
            if store.state(session) is None:
                continue
            reason = ANOTHER if origin.differs(store, backup, session) else refuses(session, backup.events(session))
            if reason is not None:
                left[session] = reason
        while True:
            wanted = [session for session in sessions if session not in left]
            try:
                new = _take(store, backup, wanted)
            except Refused:
                refused = [session for session in wanted if is_refused(store, backup.events(session))]
                if not refused:
                    raise
                left |= {session: refusal(store, session) for session in refused}
            else:
                return Copied(len(wanted), new, left_out(left, lambda one: fold(backup.events(one), one)))


def _take(store: Store, backup: Backup, sessions: list[str]) -> int:
    """Says how many events were new."""
    new = 0
    missed = backup.missed()
    with store.transaction() as transaction:
        for session in sessions:
            if transaction.state(session).last is None:
                share = origin.share_of(backup, session)
                if share is None:
                    origin.record_own(transaction, session)
                else:
                    origin.record_share(transaction, session, share)
                origin.record_guests(transaction, session, origin.guests(backup, session))
            new += transaction.receive(backup.events(session))
            state = transaction.state(session)
            if state.project is not None and not state.deleted:
                transaction.know_project(state.project)
            if any(session in name for name in missed):
                transaction.miss(session, missed & missing(session, store.events(session)))
    return new


def _refuse_damage(events: Iterable[Event], session: str, path: str) -> None:
    for event in events:
        wrong = trouble(event)
        if wrong is not None:
            raise Damaged(
                f"event {event.seq} of the backup is damaged: {wrong}",
                hint=f"Save what can be saved: holdfast --store sqlite:///{path} doctor --repair. Then restore it.",
                file=path,
                session=session,
            )
