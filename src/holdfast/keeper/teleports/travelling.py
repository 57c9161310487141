"""How a session travels, as this device remembers it: no remote is asked, and no key is needed.

Loaded only where there is a remote: `status` pays nothing for what nobody uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.errors import HoldfastError
from holdfast.core.model import Sync
from holdfast.core.times import text
from holdfast.formats.interface import Travel
from holdfast.keeper.teleports import remotes
from holdfast.teleport import key_files
from holdfast.teleport.keys import certifies, is_certified
from holdfast.teleport.memory import Memory, Standing
from holdfast.teleport.remotes.registry import backend_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.state import State
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.teleports.remotes import Remote

_REMOVED: Final = "this device was removed from the vault: nothing of it is sent any more"
_GONE: Final = "this device's keys are gone"
_STUCK: Final = "some of it is by keys that this device does not have, and cannot be sent from here: holdfast doctor"
# Where the store remembers of a work tree that its session was deleted on another device.
GONE: Final = "gone/"
# What is looked at to count what waits: nobody reads on from there.
_MOST_EVENTS: Final = 2_000
_MOST_SESSIONS: Final = 200
_WORST_FIRST: Final = ("error", "pending", "synced")


def sync_of(keeper: Keeper, state: State) -> Sync:
    """Where the session stands with its remotes: with the one where it stands worst."""
    try:
        found = _worst(keeper, state)
    except HoldfastError as error:  # of what lies beside the store: it is told, and keeps nobody from their work
        return Sync(status="error", error=error.message)
    return Sync() if found is None else found[1]


def travel_of(keeper: Keeper, state: State) -> Travel | None:
    """The same for formats; None when the session goes nowhere."""
    try:
        found = _worst(keeper, state)
    except HoldfastError:
        return None
    return None if found is None else Travel(found[1], backend_of(found[0].url))


def _worst(keeper: Keeper, state: State) -> tuple[Remote, Sync] | None:
    found = [(remote, _at(keeper, remote, state)) for remote in _taking(keeper, state)]
    if not found:
        return None
    remote, worst = min(found, key=lambda one: _WORST_FIRST.index(one[1].status))
    people = dict.fromkeys(email for _, sync in found for email in sync.shared_with)
    worst.shared_with = list(people)
    return remote, worst


def _taking(keeper: Keeper, state: State) -> Iterator[Remote]:
    """The remotes that the session goes to."""
    return (remote for remote in remotes.load(keeper.home) if remote.takes(state))


def _at(keeper: Keeper, remote: Remote, state: State) -> Sync:
    memory = Memory(keeper.store(), remote.vault)
    standing = memory.standing()
    sync = Sync(
        remote=remote.name,
        status="synced",
        last_sync=None if standing.last_sync is None else text(standing.last_sync),
        error=_wrong(keeper, remote, standing),
        shared_with=list(memory.read(tuple[str, ...], "shared", state.session) or ()),
    )
    if sync.error is not None:
        sync.status = "error"
        return sync
    waits = _waits(keeper, memory, standing, state)
    if waits.here or waits.stuck or standing.last_sync is None:
        sync.status = "pending"
    if waits.stuck and not waits.here:
        sync.error = _STUCK
    return sync


def _wrong(keeper: Keeper, remote: Remote, standing: Standing) -> str | None:
    """What keeps this device from sending anything."""
    if standing.place == "out":
        return _REMOVED
    try:
        public = key_files.public(keeper.home.path)
    except HoldfastError:
        return standing.error
    if public is None:
        return _GONE
    if standing.device not in ("", public.id) and standing.place != "reader":
        return remotes.other_keys(remote)
    return standing.error


class _Waits(NamedTuple):
    """Whether the vault lacks something of a session that this device could tell it, or that it may not."""

    here: bool
    stuck: bool


def _waits(keeper: Keeper, memory: Memory, standing: Standing, state: State) -> _Waits:
    if standing.place == "reader" and standing.request is None:
        return _Waits(here=False, stuck=False)  # it only reads
    if not standing.confirmed and state.session in (memory.read(tuple[str, ...], "earlier") or ()):
        return _Waits(here=True, stuck=False)
    try:
        public = key_files.public(keeper.home.path)
    except HoldfastError:  # damaged, or open to others: nothing can be signed before that is mended
        return _Waits(here=True, stuck=False)
    known = {writer: max(one.by.values(), default=0) for _, writer, one in memory.streams(state.session)}
    unsaid = [writer for writer, head in state.heads.items() if head.seq > known.get(writer, 0)]
    ours = [
        writer
        for writer in unsaid
        if standing.admin or not is_certified(writer) or (public is not None and certifies(writer, public.signing))
    ]
    return _Waits(bool(ours), len(ours) < len(unsaid))


def unsendable(keeper: Keeper, remote: Remote) -> int:
    """How many sessions that go to a remote hold something this device may not vouch for, and nobody else has."""
    memory = Memory(keeper.store(), remote.vault)
    standing = memory.standing()
    if standing.place != "member" or standing.last_sync is None:
        return 0
    found = 0
    for session in keeper.store().sessions():
        state = keeper.store().state(session)
        if state is not None and not state.deleted and remote in _taking(keeper, state):
            found += _waits(keeper, memory, standing, state).stuck
    return found


class Unsent(NamedTuple):
    """How many sessions hold something that a remote was not sent, and whether there may be more than these."""

    sessions: int
    more: bool


def unsent(keeper: Keeper, remote: Remote) -> Unsent:
    """Counted among what came into the store since the last push: asked often, it looks at no more than that."""
    store, memory = keeper.store(), Memory(keeper.store(), remote.vault)
    standing = memory.standing()
    if remote.session is not None:
        sessions, more = {remote.session}, False
    else:
        arrived = store.arrived(memory.own(keeper.home.writer(keeper.address)).place, _MOST_EVENTS)
        sessions = {one.event.session for one in arrived}
        more = len(arrived) == _MOST_EVENTS or len(sessions) > _MOST_SESSIONS
    found = 0
    for session in sorted(sessions)[:_MOST_SESSIONS]:
        state = store.state(session)
        if state is not None and not state.deleted and remote in _taking(keeper, state):
            found += any(_waits(keeper, memory, standing, state))
    return Unsent(found, more and found > 0)


def gone(keeper: Keeper) -> tuple[str, str] | None:
    """The session that this work tree was at, if another device deleted it, and which one; told once."""
    store, name = keeper.existing_store(), GONE + keeper.place.root
    left = None if store is None else store.remembered(name)
    if left is None:
        return None
    with keeper.transaction() as transaction:
        transaction.remember(name, None)
    session, _, device = left.decode(errors="replace").partition("\n")
    return session, device
