"""Sessions that others shared with this device, and what this device may do in them.

Loaded only where there is a list of remotes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.errors import HoldfastError, Refused
from holdfast.store import origin
from holdfast.sync import open_vault, provenance, remote_list
from holdfast.sync.state import VaultState
from holdfast.workspace.keys import key_files
from holdfast.workspace.keys.device_keys import certifies, is_certified

if TYPE_CHECKING:
    from holdfast.core.envelope import Event
    from holdfast.sync.remote_list import KnownRemote
    from holdfast.workspace.home import Home
    from holdfast.workspace.workspace import Workspace


def shares(home: Home) -> dict[str, str]:
    """The vault of each session that was shared with this device."""
    try:
        return {
            remote.session: remote.vault
            for remote in remote_list.load(home)
            if remote.kind == "share" and remote.session
        }
    except HoldfastError:
        return {}  # a damaged list is reported by commands on remotes, and stops nothing else


def is_shared_with_us(ws: Workspace, session: str, vault: str) -> bool:
    """Whether a session that is listed as shared with us is not our own."""
    store = ws.store()
    if origin.owned(store, session) is not None:
        return False
    share = origin.share_of(store, session)
    # Accepted by an earlier version, which kept no record: it is through the share unless it started here.
    return share == vault or (share is None and not any(wrote(ws, event) for event in _starts(ws, session)))


def _starts(ws: Workspace, session: str) -> list[Event]:
    return [event for event in ws.store().events(session) if event.type == "session.started"]


def _own_vaults(ws: Workspace, session: str) -> list[KnownRemote]:
    """The vaults of ours that a session is sent to and this device belongs to."""
    store = ws.store()
    state = store.state(session)
    return [
        remote
        for remote in remote_list.load(ws.home)
        if remote.kind == "vault"
        and remote.receives(state)
        and VaultState(store, remote.vault).status().place == "member"
    ]


def _is_admin(ws: Workspace, remote: KnownRemote) -> bool:
    vault = open_vault.open_offline(ws, remote)
    return vault.membership.is_admin(vault.me)


def may_decide(ws: Workspace, session: str) -> bool:
    """Whether this device may delete or share a session: as an admin, or as the device that started it."""
    store = ws.store()
    if origin.share_of(store, session) is not None:
        return False
    own = _own_vaults(ws, session)
    if not own:
        return True
    known = origin.owned(store, session)
    owner = next((remote for remote in own if known is not None and remote.vault == known.vault), own[0])
    return _is_admin(ws, owner) or _started(ws, owner, session)


def _started(ws: Workspace, owner: KnownRemote, session: str) -> bool:
    known = origin.owned(ws.store(), session)
    if known is not None and known.began:
        public = key_files.public(ws.home.path)
        return public is not None and certifies(known.began, public.signing)
    # Streams without keys: what others vouched for came from them.
    me, memory = open_vault.device_keys(ws).public.id, VaultState(ws.store(), owner.vault)
    starts = _starts(ws, session)
    unsigned = [event.writer for event in starts if not is_certified(event.writer)]
    others = (memory.vouched(session, writer).by.keys() - {me} for writer in unsigned)
    return any(wrote(ws, event) for event in starts) or any(not devices for devices in others)


def may_erase(ws: Workspace, event: Event) -> bool:
    """Whether this device may erase an event: as its author, or as an admin of every vault it is sent to."""
    if wrote(ws, event):
        return True
    if origin.share_of(ws.store(), event.session) is not None:
        return False
    return all(_is_admin(ws, remote) for remote in _own_vaults(ws, event.session))


def refuse_deleting(ws: Workspace, session: str) -> None:
    """Refuse to delete a session, or leave a share, for all devices of a vault without the right to."""
    shared = origin.share_of(ws.store(), session) is not None
    allowed = all(_is_admin(ws, vault) for vault in _own_vaults(ws, session)) if shared else may_decide(ws, session)
    if not allowed:
        raise Refused(
            "only an admin device may delete a shared session for all devices of the vault"
            if shared
            else "only an admin device, or the device that started the session, may delete it for the vault",
            hint=f"On an admin device: holdfast delete {session[:8]} --confirm. Or make this one an admin, there:"
            f" holdfast device approve {open_vault.device_keys(ws).public.words} --admin",
            session=session,
        )


def refuse_sharing(ws: Workspace, session: str) -> None:
    """Refuse to share a session that is not ours to share."""
    if origin.share_of(ws.store(), session) is not None:
        raise Refused(
            "the session was shared with you: only its owner may share it",
            hint=f"Ask them; or share a copy of your own: holdfast fork {session[:8]}",
            session=session,
        )
    if not may_decide(ws, session):
        raise Refused(
            "only an admin device, or the device that started the session, may share it",
            hint="Share it on an admin device; see: holdfast device list",
            session=session,
        )


def is_read_only(ws: Workspace, vault: str) -> bool:
    """Whether the others accept nothing that is recorded here, as of the last sync."""
    status = VaultState(ws.store(), vault).status()
    # With a pending request to write, recording goes on: it is sent once the request is approved.
    return status.place in ("reader", "out") and status.request is None


def wrote(ws: Workspace, event: Event) -> bool:
    """Whether this device wrote the event, as others can verify."""
    try:
        public = key_files.public(ws.home.path)
    except HoldfastError:  # damaged, or readable by others
        return False
    return public is not None and certifies(event.writer, public.signing)


def leave(ws: Workspace, session: str) -> list[str]:
    """Leave this shared session without telling the others; return the remotes that are removed."""
    with open_vault.exclusive(ws):
        followed = [
            remote for remote in remote_list.load(ws.home) if remote.kind == "share" and remote.session == session
        ]
        for remote in followed:
            _forget_share(ws, remote)
    return [remote.name for remote in followed]


def leave_deleted(ws: Workspace, remote: KnownRemote) -> bool:
    """Leave a shared session that another device of ours deleted: the others keep theirs."""
    if remote.kind != "share" or remote.session is None:
        return False
    store = ws.store()
    state = store.state(remote.session)
    if state is None or not state.deleted:
        return False
    memory = VaultState(store, remote.vault)
    deletions = [event for event in store.events(remote.session) if event.type == "session.deleted"]
    known = {event.writer: memory.vouched(event.session, event.writer).by.values() for event in deletions}
    if any(max(known[event.writer], default=0) >= event.seq for event in deletions):
        return False  # its owner deleted it: what we wrote has to be removed there too
    _forget_share(ws, remote)
    return True


def leave_superseded(ws: Workspace, remote: KnownRemote) -> bool:
    """Leave a share whose session id belongs to our own session, or to another share's."""
    if remote.kind != "share" or remote.session is None or ws.store().state(remote.session) is None:
        return False
    with ws.transaction() as transaction:
        if provenance.may_accept_from_share(transaction, open_vault.this_device(ws), remote.session, remote.vault):
            return False
        if origin.share_of(transaction, remote.session) is None:
            origin.record_own(transaction, remote.session)
    _forget_share(ws, remote)
    return True


def _forget_share(ws: Workspace, remote: KnownRemote) -> None:
    remote_list.remove(ws.home, remote.name)
    memory = VaultState(ws.store(), remote.vault)
    with ws.transaction() as transaction:
        for name in ws.store().remembered_under(memory.name("")):
            transaction.remember(name, None)
