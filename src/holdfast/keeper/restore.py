"""Restore a backup: decide which of its sessions may be united with those in the store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from holdfast.core.envelope import Event
from holdfast.core.event_data import ERASING, read_data
from holdfast.core.events import EventErased
from holdfast.core.lifecycle import SESSION
from holdfast.store.interface import CopyResult, RefusalCheck, Store

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

_NOT_THEIRS: Final = "it would delete or erase data here, by a device that neither recorded it nor is yours"
ERASES: Final = "it would delete or erase data here, and a backup cannot prove who ordered that"
DISPLACES: Final = "one of its events would replace an event recorded here"
SPEAKS: Final = (
    "it has events of a device of yours that are missing here, and a backup cannot prove who recorded them"
)
_NUMBERS: Final = (
    "its events of this device leave a gap in the numbering, so that other devices could not verify them"
)
_ANOTHER: Final = "it is a different session with the same id"
DECIDES: Final = "it would delete, erase, end or resume something here, by a device that is not known to be yours"
_DECIDING: Final = ERASING.union(*SESSION.values())


def restore(ws: Workspace, path: str, *, erase: bool = False) -> CopyResult:
    """Add the events of a backup; returns how many were new, and which sessions were left as they are.

    The file may contain anything, in any person's name. So it deletes, erases or displaces events, or
    adds events of this person's devices, only if the person agrees (`erase`).
    """
    new = ws.store().restore(path, lambda session, events: _refusal(ws, session, events, erase=erase))
    if new.events:
        from holdfast.conversations import status_cache_writer

        status_cache_writer.forget(ws.home.path)
    return new


def _refusal(ws: Workspace, session: str, events: Iterable[Event], *, erase: bool) -> str | None:
    """Why a session is left as it is; None when the backup's events are added."""
    events = list(events)
    existing = {event.hash: event for event in ws.store().events(session)}
    if not _has_in_common(existing, events):
        return _ANOTHER
    new = [event for event in events if event.hash not in existing]
    own = ws.home.writer(ws.address)
    last = max((event.seq for event in existing.values() if event.writer == own), default=0)
    beyond = sorted(event.seq for event in new if event.writer == own and event.seq > last)
    if beyond and beyond[-1] != last + len(beyond):
        return _NUMBERS
    # Devices that sync get each other's events that way: a guest could have made the file.
    if not erase and os.path.lexists(ws.home.remotes) and any(_is_ours(ws, event.writer) for event in new):
        return SPEAKS
    if not erase and os.path.lexists(ws.home.remotes) and any(event.type in _DECIDING for event in new):
        return DECIDES
    if not erase and _displaces(existing, events):
        return DISPLACES
    erasing = [event for event in events if event.type in ERASING]
    began = {event.writer for event in existing.values() if event.type == "session.started"}
    for event in erasing:
        if event.hash in existing or _is_ours(ws, event.writer):
            continue
        data = read_data(event)
        if event.type == "session.deleted" and event.writer in began:
            continue
        if isinstance(data, EventErased) and all(
            name in existing and existing[name].writer == event.writer for name in data.hashes
        ):
            continue
        return _NOT_THEIRS
    return None if erase or all(event.hash in existing for event in erasing) else ERASES


def refuses_copy(store: Store, is_ours: Callable[[str], bool]) -> RefusalCheck:
    """Returns a check of why a session of another store's file is not united with the one in this store.

    As with a backup, anybody could have written the file. Only events whose writer `is_ours` decide over a session.
    """

    def refuses(session: str, events: Iterable[Event]) -> str | None:
        events = list(events)
        existing = {event.hash: event for event in store.events(session)}
        new = [event for event in events if event.hash not in existing]
        if not new:
            return None
        if not _has_in_common(existing, events):
            return _ANOTHER
        others = [event for event in new if not is_ours(event.writer)]
        if any(event.type in _DECIDING for event in others):
            return DECIDES
        return DISPLACES if _displaces(existing, others) else None

    return refuses


def _has_in_common(existing: Mapping[str, Event], events: Iterable[Event]) -> bool:
    keys = {event.key for event in existing.values()} - {None}
    return any(event.hash in existing or event.key in keys for event in events)


def _displaces(existing: Mapping[str, Event], events: Iterable[Event]) -> bool:
    """Whether one of these would replace the event recorded here under its key."""
    keyed = {event.key: event for event in existing.values() if event.key is not None}
    for event in events:
        known = None if event.key is None else keyed.get(event.key)
        if known is None or event.hash in existing or event.written > known.written:
            continue
        if (event.type, event.data) != (known.type, known.data):
            return True
    return False


def _is_ours(ws: Workspace, writer: str) -> bool:
    if writer == ws.home.writer(ws.address):
        return True
    if not os.path.lexists(ws.home.device):
        return False
    from holdfast.sync import open_vault

    return open_vault.this_device(ws).is_ours(writer)
