"""Whose a session is, as far as this device may act on it: sessions that others shared with it, and its own.

Loaded only where there is a list of remotes: who takes part in nothing pays nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.errors import HoldfastError, Refused
from holdfast.keeper.teleports import opening, remotes
from holdfast.store import origin
from holdfast.teleport import key_files, provenance
from holdfast.teleport.keys import certifies, is_certified
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


def is_through(keeper: Keeper, session: str, vault: str) -> bool:
    """Whether a session that is listed as shared with us is no session of our own."""
    store = keeper.store()
    if origin.owned(store, session) is not None:
        return False
    share = origin.share_of(store, session)
    # Accepted by an earlier version, which kept no record: it is through the share unless it began here.
    return share == vault or (share is None and not any(wrote(keeper, event) for event in _starts(keeper, session)))


def _starts(keeper: Keeper, session: str) -> list[Event]:
    return [event for event in keeper.store().events(session) if event.type == "session.started"]


def _own_vaults(keeper: Keeper, session: str) -> list[Remote]:
    """The vaults of ours that a session travels by and that this device belongs to."""
    store = keeper.store()
    state = store.state(session)
    return [
        remote
        for remote in remotes.load(keeper.home)
        if remote.kind == "vault" and remote.takes(state) and Memory(store, remote.vault).standing().place == "member"
    ]


def _is_admin(keeper: Keeper, remote: Remote) -> bool:
    vault = opening.remembered(keeper, remote)
    return vault.membership.is_admin(vault.me)


def decides(keeper: Keeper, session: str) -> bool:
    """Whether others obey when this device deletes or shares a session: an admin, or the device that began it."""
    store = keeper.store()
    if origin.share_of(store, session) is not None:
        return False
    own = _own_vaults(keeper, session)
    if not own:
        return True
    known = origin.owned(store, session)
    owner = next((one for one in own if known is not None and one.vault == known.vault), own[0])
    return _is_admin(keeper, owner) or _began(keeper, owner, session)


def _began(keeper: Keeper, owner: Remote, session: str) -> bool:
    known = origin.owned(keeper.store(), session)
    if known is not None and known.began:
        public = key_files.public(keeper.home.path)
        return public is not None and certifies(known.began, public.signing)
    # Of days without keys: what others vouched for, they brought.
    me, memory = opening.keys(keeper).public.id, Memory(keeper.store(), owner.vault)
    starts = _starts(keeper, session)
    unsigned = [event.writer for event in starts if not is_certified(event.writer)]
    others = (memory.vouched(session, writer).by.keys() - {me} for writer in unsigned)
    return any(wrote(keeper, event) for event in starts) or any(not some for some in others)


def may_erase(keeper: Keeper, event: Event) -> bool:
    """Whether all others obey when this device erases an event: as its author, or an admin wherever it goes."""
    if wrote(keeper, event):
        return True
    if origin.share_of(keeper.store(), event.session) is not None:
        return False
    return all(_is_admin(keeper, remote) for remote in _own_vaults(keeper, event.session))


def refuse_deleting(keeper: Keeper, session: str) -> None:
    """A session is deleted for all devices of a vault: not by any of them. What others share is left, as one."""
    shared = origin.share_of(keeper.store(), session) is not None
    may = all(_is_admin(keeper, one) for one in _own_vaults(keeper, session)) if shared else decides(keeper, session)
    if not may:
        raise Refused(
            "only an admin device may delete a session that somebody shared, for all devices of the vault"
            if shared
            else "only an admin device, or the device that began the session, may delete it for the vault",
            hint=f"On an admin device: holdfast delete {session[:8]} --confirm."
            f" Or make this one an admin, there: holdfast device approve {opening.keys(keeper).public.words} --admin",
            session=session,
        )


def refuse_widening(keeper: Keeper, session: str) -> None:
    """Who was given a session does not pass it on."""
    if origin.share_of(keeper.store(), session) is not None:
        raise Refused(
            "the session was shared with you: only its owner shares it with others",
            hint=f"Ask them; or share a copy of your own: holdfast fork {session[:8]}",
            session=session,
        )
    if not decides(keeper, session):
        raise Refused(
            "only an admin device, or the device that began the session, may share it",
            hint="Share it on an admin device; holdfast device list shows which are.",
            session=session,
        )


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


def leave_superseded(keeper: Keeper, remote: Remote) -> bool:
    """Leave a share whose session is our own, or came through another share: its id is all they have in common."""
    if remote.kind != "share" or remote.session is None or keeper.store().state(remote.session) is None:
        return False
    with keeper.transaction() as transaction:
        if provenance.comes_through(transaction, opening.here(keeper), remote.session, remote.vault):
            return False
        if origin.share_of(transaction, remote.session) is None:
            origin.record_own(transaction, remote.session)
    _forget(keeper, remote)
    return True


def _forget(keeper: Keeper, remote: Remote) -> None:
    remotes.remove(keeper.home, remote.name)
    memory = Memory(keeper.store(), remote.vault)
    with keeper.transaction() as transaction:
        for name in keeper.store().remembered_under(memory.name("")):
            transaction.remember(name, None)
