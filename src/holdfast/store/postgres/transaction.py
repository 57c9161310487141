"""The right to write, from `with` to the end of its block: all of it happens, or nothing.

One home's transactions come one after another, as on the embedded store; different homes only wait for each other
where they touch the same session. A commit whose answer is lost is looked for afterwards (`outcome`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import psycopg

from holdfast.core.event import Event
from holdfast.store.interface import UNSEEN, Known
from holdfast.store.postgres.talking import Talk
from holdfast.store.postgres.trouble import is_cut
from holdfast.store.writing import Writing

if TYPE_CHECKING:
    from holdfast.store.postgres.store import PostgresStore

WRITE: Final = "write to the store"


class PostgresTransaction(Writing):
    def __init__(self, store: PostgresStore, *, patience: float | None = None, about: str | None = None) -> None:
        super().__init__(store.journal, store.tables)
        self._store = store
        self._tables = store.tables
        self._patience = patience
        self._about = about
        self._talk: Talk | None = None

    def __enter__(self) -> Self:
        store = self._store
        try:
            here = store.settle_in()
            self._talk = store.connected(lambda talk: self._begin(talk, here))
        except Exception as error:  # noqa: BLE001 (told in a person's words)
            raise (store.spoken(error, WRITE) or error) from None
        store.active = self._talk
        self._journal.begin()
        return self

    def _begin(self, talk: Talk, here: int) -> Talk:
        begin = "BEGIN"
        if self._patience is not None:
            begin += f"; SET LOCAL lock_timeout = {max(1, int(self._patience * 1000))}"
        self._tables.begin_writing(talk, begin, here, self._about)
        talk.begin()
        return talk

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        talk, store = self._talk, self._store
        assert talk is not None
        committing = False
        if error is None:
            try:
                self._journal.flush()
                self._note_time()
                committing = True
                talk.commit(f"holdfast_{store.vault}")
            except BaseException as failed:  # noqa: BLE001 (raised again below)
                error = failed
        last, self._talk, store.active = self._tables.last, None, None
        self._tables.end_writing()
        if error is None:
            self._journal.erased = False
            store.lines.give_back(talk.line)
            return
        self._journal.forget()
        self._tables.forget()
        self._hang_up(talk)
        if not committing or not is_cut(error):
            raise (store.spoken(error, WRITE) or error) from None
        from holdfast.store.postgres import outcome

        outcome.confirm(store, last, talk.backend)

    def _note_time(self) -> None:
        last = self._tables.last
        if last is not None and last is not self._tables.noted:
            self._tables.note_time(last.at)

    def _hang_up(self, talk: Talk) -> None:
        with contextlib.suppress(psycopg.Error):
            talk.end()
        with contextlib.suppress(psycopg.Error):
            if not talk.line.closed:
                talk.line.execute("ROLLBACK")
        self._store.lines.give_back(talk.line)

    # ── what is done with it ─────────────────────────────────────────────────────────────────────────────

    def receive(self, events: Iterable[Event]) -> int:
        taken = list(events)
        self._tables.lock(event.session for event in taken)
        place = self._tables.latest_place()
        new = self._journal.receive(taken)
        if new and self._tables.remembered(UNSEEN) is None:
            self._tables.remember(UNSEEN, b"%d" % place)
        return new

    def miss(self, session: str, names: Iterable[str]) -> None:
        self._tables.miss(session, names)

    def set_current(self, place: str, session: str | None) -> None:
        self._tables.point(place, session)

    def know_evidence(self, known: Known) -> None:
        self._tables.know(known)
