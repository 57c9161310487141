"""An event as a row of the log, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.core.decode import decodable
from holdfast.core.envelope import Event, StreamHead
from holdfast.core.errors import Damaged

OWN: Final = (
    "e.writer, e.seq, e.clock, e.at, e.v, e.type, e.actor, e.key, e.seen, e.body, e.prev, e.hash, e.data, e.salt"
)
ORDER: Final = "ORDER BY e.clock, e.writer, e.seq, e.hash"
_heads = msgspec.json.Decoder(decodable(tuple[StreamHead, ...]))
_write_heads = msgspec.json.Encoder().encode


def row_of(ref: int, event: Event) -> tuple[Any, ...]:
    return (
        ref, event.writer, event.seq, event.clock, event.at, event.v, event.type, event.actor, event.key,
        _write_heads(event.seen) if event.seen else None, bytes.fromhex(event.body),
        None if event.prev is None else bytes.fromhex(event.prev), bytes.fromhex(event.hash), event.data, event.salt,
    )  # fmt: skip


def _seen(encoded: bytes | None) -> tuple[StreamHead, ...]:
    """What cannot be read counts as nothing: then the hash does not fit, and whoever verifies chains says so. Anybody
    who may write can put it there, and one event must not keep everybody from all others.
    """
    try:
        return _heads.decode(encoded) if encoded else ()
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return ()


def event_of(session: str, row: Sequence[Any]) -> Event:
    """An event from its row. Whether it is true is checked by whoever verifies chains, not here."""
    writer, seq, clock, at, v, kind, actor, key, seen, body, prev, own, data, salt = row
    try:
        return Event(
            v=v, session=session, writer=writer, seq=seq, clock=clock, at=at,
            seen=_seen(seen), key=key, actor=actor, type=kind,
            body=body.hex(), prev=None if prev is None else prev.hex(), hash=own.hex(),
            data=None if data is None else bytes(data), salt=None if salt is None else bytes(salt),
        )  # fmt: skip
    except (AttributeError, TypeError, ValueError, msgspec.MsgspecError):
        raise Damaged("the store is damaged (an event cannot be read)", session=session) from None
