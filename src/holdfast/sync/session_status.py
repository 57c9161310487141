"""How far a session was synced, from memory: no remote is asked, and no key is needed.

Loaded only where there is a remote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.errors import HoldfastError
from holdfast.core.model import Sync, SyncFacts
from holdfast.core.times import format_time
from holdfast.sync import remote_list
from holdfast.sync.remotes.index import backend_of
from holdfast.sync.state import DeviceStatus, VaultState
from holdfast.workspace.keys import key_files
from holdfast.workspace.keys.device_keys import certifies, is_certified

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.state import State
    from holdfast.sync.remote_list import KnownRemote
    from holdfast.workspace.workspace import Workspace

_REMOVED: Final = "this device was removed from the vault: it no longer sends anything"
_NO_KEYS: Final = "this device's keys are missing"
_UNSENDABLE: Final = (
    "some events are signed by keys that this device does not have, and cannot be sent: holdfast doctor"
)
# The name in the store's memory under which a work tree's deleted session is remembered.
DELETED_AT: Final = "gone/"
# Limits for counting what is pending: the number is only shown.
_MAX_EVENTS: Final = 2_000
_MAX_SESSIONS: Final = 200
_WORST_FIRST: Final = ("error", "pending", "synced")


def sync_of(ws: Workspace, state: State) -> Sync:
    """The sync status of a session: that of the remote with the worst one."""
    try:
        worst = _worst(ws, state)
    except HoldfastError as error:  # damaged files in the home are shown, and stop nothing
        return Sync(status="error", error=error.message)
    return Sync() if worst is None else worst[1]


def sync_facts(ws: Workspace, state: State) -> SyncFacts | None:
    """The same for formats; None when the session is not synced."""
    try:
        worst = _worst(ws, state)
    except HoldfastError:
        return None
    return None if worst is None else SyncFacts(worst[1], backend_of(worst[0].url))


def _worst(ws: Workspace, state: State) -> tuple[KnownRemote, Sync] | None:
    syncs = [(remote, _status_at(ws, remote, state)) for remote in _remotes_of(ws, state)]
    if not syncs:
        return None
    remote, worst = min(syncs, key=lambda item: _WORST_FIRST.index(item[1].status))
    people = dict.fromkeys(email for _, sync in syncs for email in sync.shared_with)
    worst.shared_with = list(people)
    return remote, worst


def _remotes_of(ws: Workspace, state: State) -> Iterator[KnownRemote]:
    """The remotes that the session is sent to."""
    return (remote for remote in remote_list.load(ws.home) if remote.receives(state))


def _status_at(ws: Workspace, remote: KnownRemote, state: State) -> Sync:
    memory = VaultState(ws.store(), remote.vault)
    status = memory.status()
    sync = Sync(
        remote=remote.name,
        status="synced",
        last_sync=None if status.last_sync is None else format_time(status.last_sync),
        error=_send_error(ws, remote, status),
        shared_with=list(memory.read(tuple[str, ...], "shared", state.session) or ()),
    )
    if sync.error is not None:
        sync.status = "error"
        return sync
    pending = _pending(ws, memory, status, state)
    if pending.sendable or pending.unsendable or status.last_sync is None:
        sync.status = "pending"
    if pending.unsendable and not pending.sendable:
        sync.error = _UNSENDABLE
    return sync


def _send_error(ws: Workspace, remote: KnownRemote, status: DeviceStatus) -> str | None:
    """Why this device cannot send anything, if it cannot."""
    if status.place == "out":
        return _REMOVED
    try:
        public = key_files.public(ws.home.path)
    except HoldfastError:
        return status.error
    if public is None:
        return _NO_KEYS
    if status.device not in ("", public.id) and status.place != "reader":
        return remote_list.other_keys_message(remote)
    return status.error


class _Pending(NamedTuple):
    """Whether the vault lacks events of a session that this device can send, or that it may not send."""

    sendable: bool
    unsendable: bool


def _pending(ws: Workspace, memory: VaultState, status: DeviceStatus, state: State) -> _Pending:
    if status.place == "reader" and status.request is None:
        return _Pending(sendable=False, unsendable=False)  # it only reads
    if not status.confirmed and state.session in (memory.read(tuple[str, ...], "earlier") or ()):
        return _Pending(sendable=True, unsendable=False)
    try:
        public = key_files.public(ws.home.path)
    except HoldfastError:  # damaged, or readable by others: nothing can be signed
        return _Pending(sendable=True, unsendable=False)
    known = {writer: max(stream.by.values(), default=0) for _, writer, stream in memory.streams(state.session)}
    unsent = [writer for writer, head in state.heads.items() if head.seq > known.get(writer, 0)]
    ours = [
        writer
        for writer in unsent
        if status.admin or not is_certified(writer) or (public is not None and certifies(writer, public.signing))
    ]
    return _Pending(bool(ours), len(ours) < len(unsent))


def count_unsendable(ws: Workspace, remote: KnownRemote) -> int:
    """How many sessions of a remote hold events that this device may not vouch for and that no other device has."""
    memory = VaultState(ws.store(), remote.vault)
    status = memory.status()
    if status.place != "member" or status.last_sync is None:
        return 0
    count = 0
    for session in ws.store().sessions():
        state = ws.store().state(session)
        if state is not None and not state.deleted and remote in _remotes_of(ws, state):
            count += _pending(ws, memory, status, state).unsendable
    return count


class UnsentSessions(NamedTuple):
    """How many sessions have unsent events, and whether there may be more."""

    sessions: int
    more: bool


def count_unsent(ws: Workspace, remote: KnownRemote) -> UnsentSessions:
    """Count sessions with unsent events, among those that changed since the last push."""
    store, memory = ws.store(), VaultState(ws.store(), remote.vault)
    status = memory.status()
    if remote.session is not None:
        sessions, more = {remote.session}, False
    else:
        arrived = store.arrived(memory.own(ws.home.writer(ws.address)).place, _MAX_EVENTS)
        sessions = {arrival.event.session for arrival in arrived}
        more = len(arrived) == _MAX_EVENTS or len(sessions) > _MAX_SESSIONS
    count = 0
    for session in sorted(sessions)[:_MAX_SESSIONS]:
        state = store.state(session)
        if state is not None and not state.deleted and remote in _remotes_of(ws, state):
            count += any(_pending(ws, memory, status, state))
    return UnsentSessions(count, more and count > 0)


def take_deleted_session(ws: Workspace) -> tuple[str, str] | None:
    """The deleted session that this work tree was at, and the device that deleted it; returned once."""
    store, name = ws.existing_store(), DELETED_AT + ws.place.root
    remembered = None if store is None else store.remembered(name)
    if remembered is None:
        return None
    with ws.transaction() as transaction:
        transaction.remember(name, None)
    session, _, device = remembered.decode(errors="replace").partition("\n")
    return session, device
