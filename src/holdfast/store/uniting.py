"""Uniting a store of any kind with a backup.

Restoring adds and never takes away: the log only grows, so what is here and what the backup has are both true.
What was deleted since stays deleted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from holdfast.core.errors import Damaged
from holdfast.core.event import Event, trouble
from holdfast.store.interface import Store


def unite(store: Store, path: str) -> int:
    """Read every event of the backup, check it, and add what is missing: all of it, or nothing. Says how many."""
    from holdfast.store.sqlite import copies

    path = os.path.abspath(path)
    with copies.reading(path) as backup:
        sessions = backup.sessions()
        for session in sessions:
            _refuse_damage(backup.events(session), session, path)
        new = 0
        with store.transaction() as transaction:
            for session in sessions:
                new += transaction.receive(backup.events(session))
                state = transaction.state(session)
                if state.project is not None and not state.deleted:
                    transaction.know_project(state.project)
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
