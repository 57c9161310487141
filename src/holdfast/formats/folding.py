"""What a document tells, folded into a state in memory: for conversion, which knows no store."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.event import Event
from holdfast.core.fold import apply
from holdfast.core.state import State
from holdfast.core.vocabulary import TYPE_OF
from holdfast.formats.interface import Heard

_WRITER = "0" * 32


def folded(heard: Iterable[Heard], session: str) -> State:
    """The state these events add up to, in the order given."""
    state = State(session=session)
    for seq, (at, data) in enumerate(heard, 1):
        kind = TYPE_OF[type(data)]
        event = Event(
            v=kind.version, session=session, writer=_WRITER, seq=seq, clock=seq, at=at, seen=(), key=None, actor="",
            type=kind.name, body="", prev=None, hash=f"{seq:064x}", data=b"", salt=b"",
        )  # fmt: skip
        apply(state, event, data)
    return state
