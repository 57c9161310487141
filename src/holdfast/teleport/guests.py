"""What a guest may not say in a session that was shared with them: nobody but its owners deletes or erases it.

Guests erase what they wrote themselves, and nothing else. Of a stream of theirs everything counts up to the first
event that goes further, and nothing after it: what is taken in never has a gap, and is the same on all devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.core.canonical import Json
from holdfast.core.event import Event
from holdfast.core.reading import read
from holdfast.core.vocabulary import EventErased
from holdfast.teleport.keys import certifies

if TYPE_CHECKING:
    from holdfast.teleport.packs import Stretch
    from holdfast.teleport.vault import Vault

_DELETES: Final = "a guest may not delete the session"
_ERASES: Final = "a guest may erase only what they wrote themselves"
_UNKNOWN: Final = "a guest erases events that are not here"
_UNREADABLE: Final = "what a guest erases cannot be read: by a newer Holdfast, perhaps"
_GAP: Final = "what it goes on from was not taken in"


class Refused(NamedTuple):
    """What of a stretch was not taken in: whose it is, and why."""

    device: str
    reason: str


class Guests:
    """One reading of what guests wrote. Others say what they like: theirs is passed on as it is."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        # Of each session: who wrote each event of the log, and of which type it is.
        self._logs: dict[str, dict[str, tuple[str, str]]] = {}

    def taken(self, stretches: Iterable[Stretch]) -> tuple[list[Stretch], list[Refused]]:
        """What may be taken in of these, which come together; and what not."""
        good: list[Stretch] = []
        refused: list[Refused] = []
        new: dict[str, tuple[str, str]] = {}
        for one in sorted(stretches, key=lambda one: one.events[0].seq):
            member = self._vault.membership.members.get(one.device)
            if member is None or member.kind != "guest":
                good.append(one)
                continue
            number, reason = self._allowed(one, member.keys.signing, new)
            if number:
                good.append(one._replace(events=one.events[:number]))
            if reason is not None:
                refused.append(Refused(one.device, reason))
        return good, refused

    def _allowed(self, stretch: Stretch, signing: bytes, new: dict[str, tuple[str, str]]) -> tuple[int, str | None]:
        """How many of the events count, and why no more do. `new`: events that came with it and do."""
        first, last = stretch.events[0], stretch.events[-1]
        kept = self._vault.here.store.stream(stretch.session, stretch.writer, max(1, first.seq - 1), last.seq)
        # What is here already was said by somebody who may, or at a time when they might.
        here = {event.hash for event in kept}
        if first.prev is not None and first.prev not in here and first.prev not in new:
            return 0, _GAP
        for number, event in enumerate(stretch.events):
            reason = None if event.hash in here else self._objection(event, signing, new)
            if reason is not None:
                return number, reason
            new[event.hash] = event.writer, event.type
        return len(stretch.events), None

    def objection(self, stretch: Stretch, signing: bytes) -> str | None:
        """Why a guest may not say all of this; None when they may."""
        new = {event.hash: (event.writer, event.type) for event in stretch.events}
        found = (self._objection(event, signing, new) for event in stretch.events)
        return next((reason for reason in found if reason is not None), None)

    def _objection(self, event: Event, signing: bytes, new: Mapping[str, tuple[str, str]]) -> str | None:
        if event.type == "session.deleted":
            return _DELETES
        if event.type != "event.erased" or event.data is None:
            return None  # an erasure that was erased says what another says in its place, and that is looked at
        said = read(event)
        return self._erasure(event.session, said, signing, new) if isinstance(said, EventErased) else _UNREADABLE

    def _erasure(
        self, session: str, said: EventErased, signing: bytes, new: Mapping[str, tuple[str, str]]
    ) -> str | None:
        for name in said.hashes:
            known = new.get(name) or self._log(session).get(name)
            if known is None:
                return _UNKNOWN
            writer, kind = known
            if not certifies(writer, signing):
                return _ERASES
            # What stands in the place of an erasure erases, too.
            inner = _inner(said.instead.get(name)) if kind == "event.erased" else None
            reason = None if inner is None else self._erasure(session, inner, signing, new)
            if reason is not None:
                return reason
        return None

    def _log(self, session: str) -> dict[str, tuple[str, str]]:
        found = self._logs.get(session)
        if found is None:
            events = self._vault.here.store.events(session)
            found = self._logs[session] = {event.hash: (event.writer, event.type) for event in events}
        return found


def _inner(data: Json) -> EventErased | None:
    try:
        return msgspec.convert(data, EventErased)
    except msgspec.MsgspecError:
        return None
