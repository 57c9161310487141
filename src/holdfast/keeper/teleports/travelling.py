"""How a session travels, as this device remembers it: no remote is asked, and no key is needed.

Loaded only where there is a remote: `status` pays nothing for what nobody uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
    for remote in remotes.load(keeper.home):
        if remote.kind == "share":
            if remote.session == state.session:
                yield remote
        elif not remote.projects or state.project is None or state.project.id in remote.projects:
            yield remote


def _at(keeper: Keeper, remote: Remote, state: State) -> Sync:
    memory = Memory(keeper.store(), remote.vault)
    standing = memory.standing()
    sync = Sync(
        remote=remote.name,
        status="synced",
        last_sync=None if standing.last_sync is None else text(standing.last_sync),
        error=_REMOVED if standing.place == "out" else standing.error,
        shared_with=list(memory.read(tuple[str, ...], "shared", state.session) or ()),
    )
    if sync.error is not None:
        sync.status = "error"
    elif standing.last_sync is None or _waits(keeper, memory, standing, state):
        sync.status = "pending"
    return sync


def _waits(keeper: Keeper, memory: Memory, standing: Standing, state: State) -> bool:
    """Whether there is anything here that this device could tell the vault, and has not."""
    if not standing.confirmed and state.session in (memory.read(tuple[str, ...], "earlier") or ()):
        return True
    try:
        public = key_files.public(keeper.home.path)
    except HoldfastError:  # damaged, or open to others: nothing can be signed before that is mended
        return True
    known = {writer: max(one.by.values(), default=0) for _, writer, one in memory.streams(state.session)}
    return any(
        head.seq > known.get(writer, 0)
        and (standing.admin or not is_certified(writer) or (public is not None and certifies(writer, public.signing)))
        for writer, head in state.heads.items()
    )
