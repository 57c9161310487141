"""Damaged things are set aside, never thrown away: rows into a file of lines, whole files under another name.

They lie in `aside/` beside the store, private like it. Deleting a session takes its traces out of there too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.machine import files

_MOST = 1 << 30


def directory(store: str) -> str:
    return os.path.join(os.path.dirname(store), "aside")


def keep_rows(store: str, stamp: str, rows: Iterable[dict[str, Any]]) -> str:
    """Write the rows as they were found, bytes in hex, one JSON object a line."""
    place = directory(store)
    files.make_private_dir(place)
    path = os.path.join(place, f"events-{stamp}.jsonl")
    lines = [msgspec.json.encode({k: v.hex() if isinstance(v, bytes) else v for k, v in row.items()}) for row in rows]
    files.write_atomic(path, b"\n".join(lines) + b"\n")
    return path


def keep_file(store: str, stamp: str) -> str:
    """A second name for the damaged store and its journal; the first one is about to be replaced."""
    place = directory(store)
    files.make_private_dir(place)
    kept = os.path.join(place, f"{os.path.basename(store)}.damaged-{stamp}")
    for ending in ("", "-wal"):
        if os.path.exists(store + ending):
            try:
                os.link(store + ending, kept + ending)
            except OSError:  # no hard links here
                files.write_atomic(kept + ending, files.read_limited(store + ending, _MOST, what="the damaged store"))
    files.sync_directory(place)
    return kept


def forget(store: str, session: str) -> None:
    """Take a deleted session out of what was set aside. A damaged store cannot be searched: it goes whole."""
    place = directory(store)
    if not os.path.isdir(place):
        return
    for name in sorted(os.listdir(place)):
        path = os.path.join(place, name)
        if name.endswith(".jsonl"):
            lines = files.read_limited(path, _MOST, what="what was set aside").splitlines()
            kept = [line for line in lines if session.encode() not in line]
            if len(kept) < len(lines):
                files.write_atomic(path, b"\n".join(kept) + b"\n" if kept else b"")
        elif ".damaged-" in name:
            os.unlink(path)
    files.sync_directory(place)
