"""Sessions that somebody else shared with this device: which they are, whether it may write, and leaving one.

Loaded only where there is a list of remotes: who takes part in nothing pays nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.errors import HoldfastError
from holdfast.keeper.teleports import opening, remotes
from holdfast.teleport import key_files
from holdfast.teleport.keys import certifies
from holdfast.teleport.memory import Memory

if TYPE_CHECKING:
    from holdfast.core.event import Event
    from holdfast.keeper.home import Home
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.teleports.remotes import Remote


def shares(home: Home) -> dict[str, str]:
    """The vault of each session that was shared with this device."""
    try:
        return {one.session: one.vault for one in remotes.load(home) if one.kind == "share" and one.session}
    except HoldfastError:
        return {}  # a damaged list is told where remotes are asked for, and keeps nobody from their work


def reads_only(keeper: Keeper, vault: str) -> bool:
    """Whether nothing that is recorded here could ever reach the others, as of the last sync."""
    standing = Memory(keeper.store(), vault).standing()
    # Who asked to write, and waits to be let in, may go on: it is sent once they are.
    return standing.place in ("reader", "out") and standing.request is None


def wrote(keeper: Keeper, event: Event) -> bool:
    """Whether this device wrote it, as others can tell: they heed no erasure of a guest but of their own events."""
    try:
        public = key_files.public(keeper.home.path)
    except HoldfastError:  # damaged, or open to others
        return False
    return public is not None and certifies(event.writer, public.signing)


def leave(keeper: Keeper, session: str) -> list[str]:
    """Take part in this shared session no longer, and tell nobody there; gives the remotes that are forgotten."""
    with opening.alone(keeper):
        gone = [one for one in remotes.load(keeper.home) if one.kind == "share" and one.session == session]
        for one in gone:
            _forget(keeper, one)
    return [one.name for one in gone]


def leave_deleted(keeper: Keeper, remote: Remote) -> bool:
    """Leave a shared session that was deleted on another device of ours: the others keep theirs."""
    if remote.kind != "share" or remote.session is None:
        return False
    store = keeper.store()
    state = store.state(remote.session)
    if state is None or not state.deleted:
        return False
    memory = Memory(store, remote.vault)
    deletions = [event for event in store.events(remote.session) if event.type == "session.deleted"]
    known = {event.writer: memory.vouched(event.session, event.writer).by.values() for event in deletions}
    if any(max(known[event.writer], default=0) >= event.seq for event in deletions):
        return False  # its owner deleted it: what we wrote there has to go from there, too
    _forget(keeper, remote)
    return True


def _forget(keeper: Keeper, remote: Remote) -> None:
    remotes.remove(keeper.home, remote.name)
    memory = Memory(keeper.store(), remote.vault)
    with keeper.transaction() as transaction:
        for name in keeper.store().remembered_under(memory.name("")):
            transaction.remember(name, None)
