"""Events of one session that are recorded and not sent to the server yet, with their searched words.

Nearly always there is one, which goes with what it makes of its session. Of many, as a drain has them, all go in one
go: a statement for each costs more than the events themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.core.envelope import Event
from holdfast.store.postgres.pipeline import Talk, kept
from holdfast.store.postgres.rows import row_of

_COLUMNS: Final = "session, writer, seq, clock, at, v, type, actor, key, seen, body, prev, hash, data, salt"
_ONE: Final = f"INSERT INTO events ({_COLUMNS}) VALUES ({', '.join(['%s'] * 15)})"  # noqa: S608 (constants)
# They get their places in the order given.
_MANY: Final = (
    f"INSERT INTO events ({_COLUMNS})"  # noqa: S608 (constants)
    " SELECT %s, given.* FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[],"
    " %s::text[], %s::text[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[]) AS given"
)
_WORDS: Final = (
    "INSERT INTO words (session, word) SELECT %s, word FROM unnest(%s::text[]) AS given (word) ON CONFLICT DO NOTHING"
)
MOST: Final = 500  # events that wait


class Gathering:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.words: list[str] = []

    def is_of(self, session: str) -> bool:
        return bool(self.events) and self.events[0].session == session

    def takes(self, session: str) -> bool:
        """Whether an event of this session can go with what is here."""
        return not self.events or (self.is_of(session) and len(self.events) < MOST)

    def clear(self) -> None:
        self.events, self.words = [], []

    def tell(self, talk: Talk, ref: int) -> None:
        events, words = self.events, self.words
        self.clear()
        tell_events(talk, ref, events)
        if words:
            tell_words(talk, ref, words)


def tell_events(talk: Talk, ref: int, events: Sequence[Event]) -> None:
    """Of one session, whose number this is."""
    if len(events) == 1:
        talk.tell(_ONE, row_of(ref, events[0]))
        return
    rows = [row_of(ref, event)[1:] for event in events]
    columns = ([kept(item) for item in column] for column in zip(*rows, strict=True))
    talk.tell(_MANY, (ref, *columns))


def tell_words(talk: Talk, ref: int, words: Sequence[str]) -> None:
    talk.tell(_WORDS, (ref, sorted(set(words))))
