"""How far a session was synced, as this device remembers it; no remote is asked, and no key is needed.

Loaded only where there is a remote: `status` pays nothing for what nobody uses.
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

_REMOVED: Final = "this device was removed from the vault: nothing of it is sent any more"
_GONE: Final = "this device's keys are gone"
_STUCK: Final = "some of it is by keys that this device does not have, and cannot be sent from here: holdfast doctor"
# Where the store remembers of a work tree that its session was deleted on another device.
GONE: Final = "gone/"
# What is looked at to count what waits: nobody reads on from there.
_MOST_EVENTS: Final = 2_000
_MOST_SESSIONS: Final = 200
_WORST_FIRST: Final = ("error", "pending", "synced")


def sync_of(ws: Workspace, state: State) -> Sync:
    """Where the session stands with its remotes: with the one where it stands worst."""
    try:
        found = _worst(ws, state)
    except HoldfastError as error:  # of what lies beside the store: it is told, and keeps nobody from their work
        return Sync(status="error", error=error.message)
    return Sync() if found is None else found[1]


def travel_of(ws: Workspace, state: State) -> SyncFacts | None:
    """The same for formats; None when the session goes nowhere."""
    try:
        found = _worst(ws, state)
    except HoldfastError:
        return None
    return None if found is None else SyncFacts(found[1], backend_of(found[0].url))


def _worst(ws: Workspace, state: State) -> tuple[KnownRemote, Sync] | None:
    found = [(remote, _at(ws, remote, state)) for remote in _taking(ws, state)]
    if not found:
        return None
    remote, worst = min(found, key=lambda one: _WORST_FIRST.index(one[1].status))
    people = dict.fromkeys(email for _, sync in found for email in sync.shared_with)
    worst.shared_with = list(people)
    return remote, worst


def _taking(ws: Workspace, state: State) -> Iterator[KnownRemote]:
    """The remotes that the session goes to."""
    return (remote for remote in remote_list.load(ws.home) if remote.takes(state))


def _at(ws: Workspace, remote: KnownRemote, state: State) -> Sync:
    memory = VaultState(ws.store(), remote.vault)
    standing = memory.standing()
    sync = Sync(
        remote=remote.name,
        status="synced",
        last_sync=None if standing.last_sync is None else format_time(standing.last_sync),
        error=_wrong(ws, remote, standing),
        shared_with=list(memory.read(tuple[str, ...], "shared", state.session) or ()),
    )
    if sync.error is not None:
        sync.status = "error"
        return sync
    waits = _waits(ws, memory, standing, state)
    if waits.here or waits.stuck or standing.last_sync is None:
        sync.status = "pending"
    if waits.stuck and not waits.here:
        sync.error = _STUCK
    return sync


def _wrong(ws: Workspace, remote: KnownRemote, standing: DeviceStatus) -> str | None:
    """What keeps this device from sending anything."""
    if standing.place == "out":
        return _REMOVED
    try:
        public = key_files.public(ws.home.path)
    except HoldfastError:
        return standing.error
    if public is None:
        return _GONE
    if standing.device not in ("", public.id) and standing.place != "reader":
        return remote_list.other_keys(remote)
    return standing.error


class _Waits(NamedTuple):
    """Whether the vault lacks something of a session that this device could tell it, or that it may not."""

    here: bool
    stuck: bool


def _waits(ws: Workspace, memory: VaultState, standing: DeviceStatus, state: State) -> _Waits:
    if standing.place == "reader" and standing.request is None:
        return _Waits(here=False, stuck=False)  # it only reads
    if not standing.confirmed and state.session in (memory.read(tuple[str, ...], "earlier") or ()):
        return _Waits(here=True, stuck=False)
    try:
        public = key_files.public(ws.home.path)
    except HoldfastError:  # damaged, or open to others: nothing can be signed before that is mended
        return _Waits(here=True, stuck=False)
    known = {writer: max(stream.by.values(), default=0) for _, writer, stream in memory.streams(state.session)}
    unsaid = [writer for writer, head in state.heads.items() if head.seq > known.get(writer, 0)]
    ours = [
        writer
        for writer in unsaid
        if standing.admin or not is_certified(writer) or (public is not None and certifies(writer, public.signing))
    ]
    return _Waits(bool(ours), len(ours) < len(unsaid))


def unsendable(ws: Workspace, remote: KnownRemote) -> int:
    """How many sessions that go to a remote hold something this device may not vouch for, and nobody else has."""
    memory = VaultState(ws.store(), remote.vault)
    standing = memory.standing()
    if standing.place != "member" or standing.last_sync is None:
        return 0
    found = 0
    for session in ws.store().sessions():
        state = ws.store().state(session)
        if state is not None and not state.deleted and remote in _taking(ws, state):
            found += _waits(ws, memory, standing, state).stuck
    return found


class Unsent(NamedTuple):
    """How many sessions hold something that a remote was not sent, and whether there may be more than these."""

    sessions: int
    more: bool


def unsent(ws: Workspace, remote: KnownRemote) -> Unsent:
    """Counted among what came into the store since the last push: asked often, it looks at no more than that."""
    store, memory = ws.store(), VaultState(ws.store(), remote.vault)
    standing = memory.standing()
    if remote.session is not None:
        sessions, more = {remote.session}, False
    else:
        arrived = store.arrived(memory.own(ws.home.writer(ws.address)).place, _MOST_EVENTS)
        sessions = {arrival.event.session for arrival in arrived}
        more = len(arrived) == _MOST_EVENTS or len(sessions) > _MOST_SESSIONS
    found = 0
    for session in sorted(sessions)[:_MOST_SESSIONS]:
        state = store.state(session)
        if state is not None and not state.deleted and remote in _taking(ws, state):
            found += any(_waits(ws, memory, standing, state))
    return Unsent(found, more and found > 0)


def is_missing_here(ws: Workspace) -> tuple[str, str] | None:
    """The session that this work tree was at, if another device deleted it, and which one; told once."""
    store, name = ws.existing_store(), GONE + ws.place.root
    left = None if store is None else store.remembered(name)
    if left is None:
        return None
    with ws.transaction() as transaction:
        transaction.remember(name, None)
    session, _, device = left.decode(errors="replace").partition("\n")
    return session, device
