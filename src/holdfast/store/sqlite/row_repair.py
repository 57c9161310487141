"""Decide whether a row of the log is an event. The log says most things twice, so some damage can be undone.

An event's hash covers everything it says, so a guess that fits the hash is no guess any more: the id of a session or
writer whose own row is lost, a digest that can be computed again, a hash that the next event repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from holdfast.core.decode import decodable
from holdfast.core.envelope import Event, StreamHead, find_problem
from holdfast.store.chain_checks import mended

# The columns of `events` in their order, texts as bytes: whether they are text is not known yet.
Raw: TypeAlias = tuple[Any, ...]
COLUMNS = (
    "ord", "session", "writer", "seq", "clock", "at", "v", "type", "actor", "key", "double", "seen", "body", "prev",
    "hash", "data", "salt",
)  # fmt: skip
_TEXTS, _BLOBS = ("type", "actor", "key"), ("seen", "body", "prev", "hash", "data", "salt")
# One turned bit makes a text of bytes, or bytes of a text, that are otherwise the same: both are read as bytes.
_READ = ", ".join(
    f"CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) ELSE {name} END" if name in _TEXTS + _BLOBS else name
    for name in COLUMNS
)
SELECT = f"SELECT {_READ} FROM events"  # noqa: S608 (constants)
_WRONG = " OR ".join(
    f"typeof({name}) NOT IN ('{'text' if name in _TEXTS else 'blob'}', 'null')" for name in _TEXTS + _BLOBS
)
# The rows that hold another type than their columns: whatever they say, the store does not read it as that.
SELECT_MISTYPED = f"SELECT ord FROM events WHERE {_WRONG}"  # noqa: S608 (constants)

_heads = msgspec.json.Decoder(decodable(tuple[StreamHead, ...]))


class Mender:
    """What is known about the log around a row."""

    def __init__(
        self,
        sessions: dict[int, str],
        writers: dict[int, str],
        *,
        spare: Callable[[], tuple[set[str], set[str]]],
        hashes_before: Callable[[Raw], Iterable[bytes]],
        is_named: Callable[[Raw, str], bool],
    ) -> None:
        self._sessions = dict(sessions)
        self._writers = dict(writers)
        self._spare = spare
        self._names: tuple[set[str], set[str]] | None = None
        self._hashes_before = hashes_before
        self._is_named = is_named

    def session(self, row: Raw) -> str | None:
        return self._sessions.get(row[1])

    def writer(self, row: Raw) -> str | None:
        return self._writers.get(row[2])

    def sound(self, row: Raw) -> Event | None:
        """The event, when the row is one just as it stands."""
        session, writer = self._sessions.get(row[1]), self._writers.get(row[2])
        if session is None or writer is None:
            return None
        event = event_of_row(row, session, writer)
        return event if event is not None and _fits(event) else None

    def mended(self, row: Raw) -> Event | None:
        """The event that the row once was, when that is certain."""
        for event in self._guesses(row):
            if _fits(event):
                # What was true of this row is true of its neighbours: try it first there.
                self._sessions.setdefault(row[1], event.session)
                self._writers.setdefault(row[2], event.writer)
                return event
        return None

    def _guesses(self, row: Raw) -> Iterator[Event]:
        session, writer = self._sessions.get(row[1]), self._writers.get(row[2])
        if session is not None and writer is not None:
            yield from self._repeated(row, session, writer)
        if self._names is None:
            sessions, writers = self._spare()
            self._names = (sessions | set(self._sessions.values()), writers | set(self._writers.values()))
        sessions, writers = self._names
        for item in sorted(sessions) if writer is not None else ():
            yield from _maybe(row, item, str(writer))
        for item in sorted(writers) if session is not None else ():
            yield from _maybe(row, str(session), item)
        if session is None and writer is None:
            for item in sorted(sessions):
                for other in sorted(writers):
                    yield from _maybe(row, item, other)

    def _repeated(self, row: Raw, session: str, writer: str) -> Iterator[Event]:
        for event in _maybe(row, session, writer):
            yield event
            before = (data.hex() for data in self._hashes_before(row))
            yield from mended(event, before, lambda computed: self._is_named(row, computed))


def _maybe(row: Raw, session: str, writer: str) -> Iterator[Event]:
    event = event_of_row(row, session, writer)
    if event is not None:
        yield event


def _fits(event: Event) -> bool:
    try:
        return find_problem(event) is None
    except (ValueError, OverflowError, TypeError, msgspec.MsgspecError):
        return False


def event_of_row(row: Raw, session: str, writer: str) -> Event | None:
    _, _, _, seq, clock, at, v, kind, actor, key, _, seen, body, prev, own, data, salt = row
    if not all(type(number) is int for number in (seq, clock, at, v)):
        return None
    if not (isinstance(kind, bytes) and isinstance(actor, bytes)):
        return None
    if not all(each is None or isinstance(each, bytes) for each in (key, seen, data, salt)):
        return None
    # What can be computed again may be anything: it will not fit, and then it is computed.
    body, own = (each if isinstance(each, bytes) else b"" for each in (body, own))
    prev = prev if prev is None or isinstance(prev, bytes) else b""
    try:
        return Event(
            v=v, session=session, writer=writer, seq=seq, clock=clock, at=at,
            seen=_heads.decode(seen) if seen else (), key=None if key is None else key.decode(),
            actor=actor.decode(), type=kind.decode(), body=body.hex(), prev=None if prev is None else prev.hex(),
            hash=own.hex(), data=data, salt=salt,
        )  # fmt: skip
    except (UnicodeDecodeError, msgspec.MsgspecError):
        return None
