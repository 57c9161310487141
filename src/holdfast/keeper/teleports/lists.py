"""The lists beside the store, of remotes and of people: small files of JSON that are written whole.

A newer version may have left fields there that are not known here. They stay when the list is changed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from holdfast.core.decoding import decodable
from holdfast.machine import files


def save(path: str, rows: Sequence[msgspec.Struct], *, by: str, largest: int, what: str) -> None:
    """Write the list. Rows are the same when their field `by` is."""
    before: dict[object, dict[str, object]] = {}
    if os.path.lexists(path):
        written = files.read_limited(path, largest, what=what)
        found = msgspec.json.decode(written, type=decodable(list[dict[str, object]]))
        before = {one.get(by): one for one in found}
    told = [msgspec.to_builtins(one) for one in rows]
    data = msgspec.json.encode([{**before.get(one[by], {}), **one} for one in told])
    files.write_atomic(path, msgspec.json.format(data, indent=2) + b"\n")
