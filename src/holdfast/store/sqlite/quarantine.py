"""Set damaged things aside, never throw them away: rows into a file of lines, whole files under another name.

They lie in `aside/` beside the store, private like it. Deleting a session takes its traces out of there too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from holdfast.machine import files
from holdfast.store.sqlite.row_repair import COLUMNS, Raw

_MOST = 4 << 30
_TEXTS = ("type", "actor", "key")


def directory(store: str) -> str:
    return os.path.join(os.path.dirname(store), "aside")


def kept(store: str) -> list[str]:
    """The names of what was set aside."""
    try:
        return sorted(name for name in os.listdir(directory(store)) if not name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []


def keep_rows(store: str, stamp: str, rows: Iterable[tuple[str | None, str | None, Raw]]) -> str:
    """Write rows of the log as they were found (with the ids of session and writer), one JSON object a line."""
    place = directory(store)
    files.make_private_dir(place)
    path = os.path.join(place, f"events-{stamp}.jsonl")
    lines = [msgspec.json.encode(_line(*row)) for row in rows]
    files.write_atomic(path, b"\n".join(lines) + b"\n")
    return path


def _line(session: str | None, writer: str | None, row: Raw) -> dict[str, object]:
    """Bytes in hex; what is text in a sound row as text, if it still is."""
    line: dict[str, object] = {"session_id": session, "writer_id": writer}
    for name, value in zip(COLUMNS, row, strict=True):
        if isinstance(value, bytes) and name in _TEXTS:
            line[name] = value.decode(errors="backslashreplace")
        else:
            line[name] = value.hex() if isinstance(value, bytes) else value
    return line


def keep_file(store: str, stamp: str, content: bytes, wal: bytes) -> str:
    """A second name for the damaged store and its journal; the first one is about to be replaced."""
    place = directory(store)
    files.make_private_dir(place)
    name = os.path.join(place, f"{os.path.basename(store)}.damaged-{stamp}")
    for ending, data in (("", content), ("-wal", wal)):
        if os.path.lexists(store + ending) and (data or not ending):
            try:
                os.link(store + ending, name + ending)
            except OSError:  # no hard links here
                files.write_atomic(name + ending, data)
    files.sync_directory(place)
    return name


def forget(store: str, sessions: Iterable[str]) -> None:
    """Take deleted sessions out of what was set aside.

    A damaged store cannot be searched, nor a row whose own id of the session may be what is damaged: both may hold
    text of the deleted session, so both go.
    """
    place = directory(store)
    deleted = set(sessions)
    if not deleted or not os.path.isdir(place):
        return
    for name in sorted(os.listdir(place)):
        path = os.path.join(place, name)
        if name.endswith(".jsonl"):
            lines = files.read_limited(path, _MOST, what="what was set aside").splitlines()
            stay = [line for line in lines if _is_of_another(line, deleted)]
            if not stay:
                os.unlink(path)
            elif len(stay) < len(lines):
                files.write_atomic(path, b"\n".join(stay) + b"\n")
        elif ".damaged-" in name or name.startswith(files.PREFIX):
            os.unlink(path)
    files.sync_directory(place)


def _is_of_another(line: bytes, deleted: set[str]) -> bool:
    """Surely another session's: its envelope fits its hash, only the data is damaged."""
    from holdfast.core.envelope import hash_of
    from holdfast.store.sqlite.row_repair import event_of_row

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
