"""Decide how a session comes to this store: through a vault of our own, or through a share.

A session that came one way is never accepted the other way as well. The record (`store.origin`) is written in the
transaction that stores the first event, and announced to the other devices of the vault (`entries.Origin`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from holdfast.core.errors import Refused
from holdfast.store.origin import guest_keys, owned, record_own, record_share, share_of, through_shares
from holdfast.sync.protocol.entries import Guests, Origin
from holdfast.workspace.keys.device_keys import certifies, is_certified

if TYPE_CHECKING:
    from holdfast.core.envelope import Event
    from holdfast.store.interface import Transaction
    from holdfast.sync.protocol.membership import Membership
    from holdfast.sync.vault import LocalDevice, Vault, VaultChange

_MAX_GUESTS: Final = 1_000  # in one entry
_VAULT_ID: Final = re.compile(r"[0-9a-f]{64}\Z")

# ── accepting a session ──────────────────────────────────────────────────────────────────────────────────


def claim_for_share(transaction: Transaction, session: str, share: str) -> None:
    """Record that a session comes through this share; `Refused` when its id is in use here."""
    known = share_of(transaction, session)
    if known == share:
        return
    if known is not None:
        raise Refused(
            "a session with this id is here already, through another share",
            hint=f"Nothing was accepted. To see it: holdfast show {session[:8]}",
            session=session,
        )
    if transaction.state(session).last is not None or owned(transaction, session) is not None:
        raise Refused(
            "this offer has the id of a session of your own",
            hint="Nothing was accepted, and your session is unchanged. Ids are no secret: ask the sender about it.",
            session=session,
        )
    record_share(transaction, session, share)


def may_accept_from_share(transaction: Transaction, local: LocalDevice, session: str, share: str) -> bool:
    """Whether events of this share may be accepted: none are, once a session with its id is our own.

    A store written by an earlier version has no record: then it comes through the share unless we started it.
    """
    known = share_of(transaction, session)
    if (
        known is None
        and owned(transaction, session) is None
        and not any(map(local.is_ours, _starting_writers(local, session)))
    ):
        record_share(transaction, session, share)
        return True
    return known == share


def _starting_writers(local: LocalDevice, session: str) -> list[str]:
    """The writers that started a session, by the log."""
    return [event.writer for event in local.store.events(session) if event.type == "session.started"]


def is_own(vault: Vault, session: str) -> bool:
    """Whether a session is this device's own, as seen from a vault of ours."""
    local = vault.local
    if share_of(local.store, session) is not None:
        return False
    if owned(local.store, session) is not None:
        return True
    # From an earlier version, which kept no record. What only others vouch for was not started here.
    for writer in _starting_writers(local, session):
        by = vault.memory.vouched(session, writer).by
        if local.is_ours(writer) or (not is_certified(writer) and (not by or vault.me in by)):
            return True
    return False


def note_arrival(transaction: Transaction, vault: Vault, session: str, events: Iterable[Event]) -> None:
    """Record how a new session comes to this store."""
    if transaction.state(session).last is not None:
        return
    main = vault.main or vault
    origin = main.membership.origins.get(session)
    if origin is not None and origin.share is not None and origin.share != vault.id:
        record_share(transaction, session, origin.share)
    elif main.membership.session is None:
        began = next((event.writer for event in events if event.type == "session.started"), "")
        record_own(transaction, session, main.id, began)


# ── the other devices of the vault ───────────────────────────────────────────────────────────────────────


def announce_origins(vault: Vault) -> None:
    """Announce in a vault of our own what came through shares, and follow what its other devices announced.

    Where one device holds a session as its own and another device one with the same id through a share, the own one
    stays: the other device gives up the share.
    """
    if vault.memory.read(tuple[str, ...], "earlier"):
        return  # an unconfirmed vault learns nothing of what was here before
    members, store = vault.membership, vault.local.store
    change = vault.change()
    changed = False
    for session, share in through_shares(store).items():
        if not _VAULT_ID.match(share):  # a backup may contain anything
            continue
        origin = members.origins.get(session)
        if origin is None:
            change.add(Origin, session=session, share=share)
            changed = True
        elif origin.share != share:
            withdraw_share(vault, session, origin.share)
    for session, origin in members.origins.items():
        if origin.share is None or share_of(store, session) is not None or store.state(session) is None:
            continue
        if is_own(vault, session):
            change.add(Origin, session=session, share=None)
            changed = True
        else:
            with vault.local.transaction() as transaction:
                record_share(transaction, session, origin.share)
    changed |= _announce_guests(vault, change)
    if changed:
        change.commit()


def _announce_guests(vault: Vault, change: VaultChange) -> bool:
    """Announce guests of shares at other remotes whose streams we pass on: no other device here can know them."""
    members = vault.membership
    if not members.is_admin(vault.me):
        return False
    devices = set(signing_keys(members))
    announced = False
    for session, keys in guest_keys(vault.local.store).items():
        elsewhere = (signing for main, signing in keys.items() if main != vault.id)
        new = frozenset[bytes]().union(*elsewhere) - members.guests.get(session, frozenset()) - devices
        if new and _is_sent_to(vault, session):
            change.add(Guests, session=session, keys=tuple(sorted(new)[:_MAX_GUESTS]))
            announced = True
    return announced


def _is_sent_to(vault: Vault, session: str) -> bool:
    vaults = vault.local.vaults(session)
    return share_of(vault.local.store, session) is None and (vaults is None or vault.id in vaults)


def withdraw_share(vault: Vault, session: str, share: str | None) -> None:
    """Withdraw what came through a share whose session id belongs to the vault; our own events stay."""
    with vault.local.transaction() as transaction:
        writers = transaction.state(session).heads
        transaction.withdraw(
            session, {writer: 0 for writer in writers if not belongs_to_vault(vault, session, writer)}
        )
        if share is None:
            record_own(transaction, session, vault.id)
        else:
            record_share(transaction, session, share)
    vault.report.note(
        f"Session {session[:8]} is one of your own on another device: what was shared with you under the same id"
        " is no longer followed."
    )


def belongs_to_vault(vault: Vault, session: str, writer: str) -> bool:
    """Whether a stream is the vault's own: by one of its devices, or vouched for by one without a share of it."""
    origins = vault.membership.origins.get(session)
    guests = frozenset({vault.me}) if origins is None else origins.guests
    return member_test(vault.membership)(writer) or bool(vault.memory.vouched(session, writer).by.keys() - guests)


def member_test(members: Membership) -> Callable[[str], bool]:
    """A test whether a writer is a present or removed device of the vault."""
    known = list(signing_keys(members))

    def is_device(writer: str) -> bool:
        return any(certifies(writer, signing) for signing in known)

    return is_device


def signing_keys(members: Membership) -> Iterator[bytes]:
    """The signing keys of all present and removed devices except guests."""
    yield from (member.keys.signing for member in members.members.values() if member.kind != "guest")
    yield from (removed.keys.signing for removed in members.removed.values())


def owner(local: LocalDevice, session: str, vault: str) -> str:
    """The vault of ours whose admins decide over a session: the first one it was in."""
    vaults = local.vaults(session) or ()
    known = owned(local.store, session)
    if known is not None and known.vault in vaults:
        return known.vault
    return vaults[0] if vaults else vault
