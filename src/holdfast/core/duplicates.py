"""Tasks or agents that were given one id on several devices at once. They stay two; both can be addressed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from holdfast.core.lifecycle import TABLES, allows
from holdfast.core.state import AgentState, State, TaskState

_Entry = TypeVar("_Entry", AgentState, TaskState)

_SHORT: Final = 4  # characters of the hash that tells two of one device apart


def find_target(
    entries: Iterable[_Entry], id_: str, event: str, status_of: Callable[[_Entry], str], ref: str | None = None
) -> _Entry | None:
    """The one that an event is about: by `ref`, else the newest of that id which allows it, else the newest."""
    alike = [entry for entry in entries if entry.id == id_]
    exact = next((entry for entry in alike if entry.ref == ref), None)
    if exact is not None:
        return exact
    table = TABLES[event.partition(".")[0]]
    able = [entry for entry in alike if allows(table, status_of(entry), event)]
    return next(reversed(able or alike), None)


def disambiguating_labels(state: State, entries: Iterable[_Entry]) -> list[str]:
    """What tells each of them from others of its id: nothing for most, else its device, and more if need be."""
    known: Sequence[_Entry] = list(entries)
    alike = Counter(entry.id for entry in known)
    devices = [state.devices.get(entry.made.writer) or "unknown" for entry in known]
    shared = Counter(zip((entry.id for entry in known), devices, strict=True))
    return [
        "" if alike[entry.id] == 1
        else device if shared[entry.id, device] == 1
        else f"{device} {entry.ref[:_SHORT]}"
        for entry, device in zip(known, devices, strict=True)
    ]  # fmt: skip
