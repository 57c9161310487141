"""Repair damaged rows where that is certain, and otherwise quarantine them, never delete them.

Most of the log is redundant, and an event's hash covers all of it, so that a guess that fits the hash is certain: the
id of a session or writer whose own row is lost, a digest computed again, a hash that the next event repeats. Damaged
rows go to a file of lines in `aside/` next to the store, damaged files there too under another name, private like the
store. Deleting a session removes its traces from there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from holdfast.core.decode import decodable
from holdfast.core.envelope import Event, StreamHead, find_problem
from holdfast.machine import files
from holdfast.store.checks import repair_candidates

# The columns of `events` in their order, texts as bytes: they may be no valid text.
RawRow: TypeAlias = tuple[Any, ...]
COLUMNS = (
    "ord", "session", "writer", "seq", "clock", "at", "v", "type", "actor", "key", "double", "seen", "body", "prev",
    "hash", "data", "salt",
)  # fmt: skip
_TEXTS, _BLOBS = ("type", "actor", "key"), ("seen", "body", "prev", "hash", "data", "salt")
# One flipped bit turns text into bytes or bytes into text, so both are read as bytes.
_READ = ", ".join(
    f"CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) ELSE {name} END" if name in _TEXTS + _BLOBS else name
    for name in COLUMNS
)
SELECT = f"SELECT {_READ} FROM events"  # noqa: S608 (constants)
_WRONG = " OR ".join(
    f"typeof({name}) NOT IN ('{'text' if name in _TEXTS else 'blob'}', 'null')" for name in _TEXTS + _BLOBS
)
# The rows with a value that is not of its column's type, which the store cannot read.
SELECT_MISTYPED = f"SELECT ord FROM events WHERE {_WRONG}"  # noqa: S608 (constants)

_heads = msgspec.json.Decoder(decodable(tuple[StreamHead, ...]))


class RowRepair:
    """Reads rows as events, and repairs them with what is known about the log around them."""

    def __init__(
        self,
        sessions: dict[int, str],
        writers: dict[int, str],
        *,
        find_ids: Callable[[], tuple[set[str], set[str]]],
        hashes_before: Callable[[RawRow], Iterable[bytes]],
        is_named: Callable[[RawRow, str], bool],
    ) -> None:
        self._sessions = dict(sessions)
        self._writers = dict(writers)
        self._spare = find_ids
        self._names: tuple[set[str], set[str]] | None = None
        self._hashes_before = hashes_before
        self._is_named = is_named

    def session(self, row: RawRow) -> str | None:
        return self._sessions.get(row[1])

    def writer(self, row: RawRow) -> str | None:
        return self._writers.get(row[2])

    def intact_event(self, row: RawRow) -> Event | None:
        """The event, if the row is intact."""
        session, writer = self._sessions.get(row[1]), self._writers.get(row[2])
        if session is None or writer is None:
            return None
        event = event_of_row(row, session, writer)
        return event if event is not None and _has_true_hash(event) else None

    def repaired_event(self, row: RawRow) -> Event | None:
        """The event that the row once was, if that is certain."""
        for event in self._candidates(row):
            if _has_true_hash(event):
                # The row's neighbours refer to the same session and writer: try these first there.
                self._sessions.setdefault(row[1], event.session)
                self._writers.setdefault(row[2], event.writer)
                return event
        return None

    def _candidates(self, row: RawRow) -> Iterator[Event]:
        session, writer = self._sessions.get(row[1]), self._writers.get(row[2])
        if session is not None and writer is not None:
            yield from self._recomputed(row, session, writer)
        if self._names is None:
            sessions, writers = self._spare()
            self._names = (sessions | set(self._sessions.values()), writers | set(self._writers.values()))
        sessions, writers = self._names
        for item in sorted(sessions) if writer is not None else ():
            yield from _parsed(row, item, str(writer))
        for item in sorted(writers) if session is not None else ():
            yield from _parsed(row, str(session), item)
        if session is None and writer is None:
            for item in sorted(sessions):
                for other in sorted(writers):
                    yield from _parsed(row, item, other)

    def _recomputed(self, row: RawRow, session: str, writer: str) -> Iterator[Event]:
        for event in _parsed(row, session, writer):
            yield event
            before = (data.hex() for data in self._hashes_before(row))
            yield from repair_candidates(event, before, lambda computed: self._is_named(row, computed))


def _parsed(row: RawRow, session: str, writer: str) -> Iterator[Event]:
    event = event_of_row(row, session, writer)
    if event is not None:
        yield event


def _has_true_hash(event: Event) -> bool:
    try:
        return find_problem(event) is None
    except (ValueError, OverflowError, TypeError, msgspec.MsgspecError):
        return False


def event_of_row(row: RawRow, session: str, writer: str) -> Event | None:
    _, _, _, seq, clock, at, v, kind, actor, key, _, seen, body, prev, own, data, salt = row
    if not all(type(number) is int for number in (seq, clock, at, v)):
        return None
    if not (isinstance(kind, bytes) and isinstance(actor, bytes)):
        return None
    if not all(each is None or isinstance(each, bytes) for each in (key, seen, data, salt)):
        return None
    # Values that can be recomputed may be wrong here: if they do not fit, they are computed.
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


# ── setting aside ────────────────────────────────────────────────────────────────────────────────────────


_MAX_BYTES = 4 << 30
_TEXTS = ("type", "actor", "key")


def directory(store: str) -> str:
    return os.path.join(os.path.dirname(store), "aside")


def entries(store: str) -> list[str]:
    """The names of the files that were set aside."""
    try:
        return sorted(name for name in os.listdir(directory(store)) if not name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []


def keep_rows(store: str, stamp: str, rows: Iterable[tuple[str | None, str | None, RawRow]]) -> str:
    """Write rows of the log as they are (with the ids of session and writer), one JSON object a line."""
    folder = directory(store)
    files.make_private_dir(folder)
    path = os.path.join(folder, f"events-{stamp}.jsonl")
    lines = [msgspec.json.encode(_line(*row)) for row in rows]
    files.write_atomic(path, b"\n".join(lines) + b"\n")
    return path


def _line(session: str | None, writer: str | None, row: RawRow) -> dict[str, object]:
    """Bytes in hex, except what should be text and still is."""
    line: dict[str, object] = {"session_id": session, "writer_id": writer}
    for name, value in zip(COLUMNS, row, strict=True):
        if isinstance(value, bytes) and name in _TEXTS:
            line[name] = value.decode(errors="backslashreplace")
        else:
            line[name] = value.hex() if isinstance(value, bytes) else value
    return line


def keep_file(store: str, stamp: str, content: bytes, wal: bytes) -> str:
    """Give the damaged store and its journal a second name; the first is about to be replaced."""
    folder = directory(store)
    files.make_private_dir(folder)
    name = os.path.join(folder, f"{os.path.basename(store)}.damaged-{stamp}")
    for ending, data in (("", content), ("-wal", wal)):
        if os.path.lexists(store + ending) and (data or not ending):
            try:
                os.link(store + ending, name + ending)
            except OSError:  # no hard links here
                files.write_atomic(name + ending, data)
    files.sync_directory(folder)
    return name


def forget(store: str, sessions: Iterable[str]) -> None:
    """Remove deleted sessions from what was set aside.

    Damaged stores, and rows whose session may be damaged, go too: they may hold text of the deleted session.
    """
    folder = directory(store)
    deleted = set(sessions)
    if not deleted or not os.path.isdir(folder):
        return
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name.endswith(".jsonl"):
            lines = files.read_limited(path, _MAX_BYTES, subject="the quarantined file").splitlines()
            stay = [line for line in lines if _is_of_another(line, deleted)]
            if not stay:
                os.unlink(path)
            elif len(stay) < len(lines):
                files.write_atomic(path, b"\n".join(stay) + b"\n")
        elif ".damaged-" in name or name.startswith(files.PREFIX):
            os.unlink(path)
    files.sync_directory(folder)


def _is_of_another(line: bytes, deleted: set[str]) -> bool:
    """Whether the row certainly belongs to another session: its envelope fits its hash, only its data is damaged."""
    from holdfast.core.envelope import hash_of
    from holdfast.store.sqlite.quarantine import event_of_row

    try:
        row = msgspec.json.decode(line)
        session, writer = row["session_id"], row["writer_id"]
        if session is None or writer is None or session in deleted:
            return False
        values = []
        for name in COLUMNS:
            value = row[name]
            if isinstance(value, str):
                value = value.encode() if name in _TEXTS else bytes.fromhex(value)
            values.append(value)
        event = event_of_row(tuple(values), session, writer)
        return event is not None and hash_of(event) == event.hash
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError):
        return False
