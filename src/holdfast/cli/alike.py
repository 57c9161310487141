"""Tasks and agents of one id, made on several devices at once: shown apart, and which one a command meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from holdfast.cli.call import Call
from holdfast.core import twins
from holdfast.core.lifecycle import TABLES, allows
from holdfast.core.state import AgentState, State, TaskState
from holdfast.core.text import shorten

_Entry = TypeVar("_Entry", AgentState, TaskState)


def place_of(entries: Iterable[_Entry], id_: str, ref: str | None) -> int:
    """Where the entry stands in the document, which has them in this order: by `ref`, else the newest of its id."""
    found = [(place, one) for place, one in enumerate(entries) if one.id == id_]
    return next((place for place, one in found if one.ref == ref), found[-1][0])


def tell(
    call: Call, state: State, entries: Iterable[_Entry], place: int, event: str, status_of: Callable[[_Entry], str]
) -> None:
    """Say which one was meant, while the same command would mean another."""
    known = list(entries)
    own, kind = known[place], event.partition(".")[0]
    others = [one for one in known if one.id == own.id and one is not own]
    if any(allows(TABLES[kind], status_of(one), event) for one in others):
        device = twins.told_apart(state, known)[place]
        call.note(
            f"There are {len(others) + 1} {kind}s {own.id}. This was the one of {device} "
            f"({shorten(str(own.made.value), 60)}); the same command again means the next."
        )
