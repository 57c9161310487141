"""Tasks and agents that were given one id on several devices: shown apart, and which one a command meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from holdfast.cli.call import Call
from holdfast.core import duplicates
from holdfast.core.lifecycle import TABLES, allows
from holdfast.core.state import AgentState, State, TaskState
from holdfast.core.text import shorten

_Entry = TypeVar("_Entry", AgentState, TaskState)


def place_of(entries: Iterable[_Entry], id_: str, ref: str | None) -> int:
    """Where the entry stands in the document, which has them in this order: by `ref`, else the newest of its id."""
    found = [(place, entry) for place, entry in enumerate(entries) if entry.id == id_]
    return next((place for place, match in found if match.ref == ref), found[-1][0])


def tell(
    call: Call, state: State, entries: Iterable[_Entry], place: int, event: str, status_of: Callable[[_Entry], str]
) -> None:
    """Say which one was meant, while the same command would mean another."""
    known = list(entries)
    own, kind = known[place], event.partition(".")[0]
    others = [item for item in known if item.id == own.id and item is not own]
    if any(allows(TABLES[kind], status_of(other), event) for other in others):
        device = duplicates.disambiguating_labels(state, known)[place]
        call.note(
            f"There are {len(others) + 1} {kind}s {own.id}. This was the one of {device} "
            f"({shorten(str(own.made.value), 60)}); the same command again means the next."
        )
