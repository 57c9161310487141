"""Clean up objects of retired writers: earlier ones of this device, and those of removed devices.

No other device cleans up what they left at the remote. Erased data must be removed there too, and what other devices
vouch for by now need not stay. Unaccepted packs of a removed device stay until an admin has decided,
but without erased data, as far as it can be read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from holdfast.core.envelope import Event
from holdfast.core.errors import HoldfastError
from holdfast.sync import removal
from holdfast.sync.outbox import sign_stretches
from holdfast.sync.protocol import heads, packs, sealing
from holdfast.sync.protocol.heads import HeadName, IndexedPack, PublishedHead
from holdfast.sync.protocol.packs import Stretch
from holdfast.sync.pull import read_pack
from holdfast.sync.remotes.wrappers import OverLimit
from holdfast.sync.state import Published, ReadPosition, StreamSpan
from holdfast.workspace.keys.device_keys import certifies

if TYPE_CHECKING:
    from holdfast.sync.push import Objects, Publisher
    from holdfast.sync.read_heads import HeadListing
    from holdfast.sync.vault import Vault

Pushes: TypeAlias = Collection[tuple[int, int]]  # from this one to that one

_HEAD_LIMIT: Final = 16 << 20
_MAX_RIVALS: Final = 16
# Bytes per life of a removed device that are searched for erased data: it could publish any amount.
_MAX_SEARCHED_BYTES: Final = 64 << 20


def rewrite(push: Publisher, listing: HeadListing, sessions: frozenset[str]) -> None:
    """Repack what our earlier lives published of these sessions, whose data was erased."""
    vault = push.vault
    _remove_unnamed_packs(vault, listing)
    searched = vault.memory.raw_under("looked")
    if searched:
        with vault.local.transaction() as transaction:
            for life in searched:  # what removed devices left is searched again
                vault.memory.forget(transaction, "looked", life)
    for life, cursor in vault.memory.cursors().items():
        listed = listing.newest.get(life)
        if cursor.device == vault.me and cursor.writer != push.writer and listed is not None:
            head = _read_head(vault, listed, cursor)
            if head is not None:
                _rewrite_life(push, head, life, sessions)


def _rewrite_life(push: Publisher, head: PublishedHead, life: str, sessions: frozenset[str]) -> None:
    vault = push.vault
    objects: Objects = []
    packs_now, obsolete = [], []
    for pack in head.packs:
        name = f"p/{vault.tag}/{pack.name}"
        try:
            sealed = vault.remote.get(name, pack.size)
            packed = packs.unpack(vault.open("pack", name, sealed, vault.ring))
        except HoldfastError as error:
            if error.retry_helps:
                raise
            packs_now.append(pack)  # unreadable; a pull reports it
            continue
        if not any(events.session in sessions for events in packed):
            packs_now.append(pack)
            continue
        stretches = [piece for events in packed for piece in sign_stretches(vault, _stored_events(vault, events))]
        packs_now.append(push.pack(stretches, pack.first, pack.last, objects)[0])
        obsolete.append(name)
    if not obsolete:
        return
    obsolete.append(heads.name_of(vault.id, head.writer, head.counter))
    _publish_head(push, replace(head, packs=tuple(packs_now)), life, objects, obsolete)


def _publish_head(push: Publisher, head: PublishedHead, life: str, objects: Objects, obsolete: list[str]) -> None:
    """Publish a new head for a life that is over."""
    vault = push.vault
    new = replace(
        head, counter=head.counter + 1, at=vault.local.now(), tips=push.tips(), seen=push.seen(), wanting=()
    )  # fmt: skip
    name = heads.name_of(vault.id, head.writer, new.counter)
    sealed = push.seal_head(new)
    objects.append((name, sealed))
    with vault.local.transaction() as transaction:
        # If this is interrupted, no head names these packs.
        for name_made, _ in objects[:-1]:
            vault.memory.write(transaction, life, "loose", name_made.rpartition("/")[2])
    is_taken = name in vault.remote.put(objects, remove=obsolete)
    cursor = vault.memory.cursors().get(life)
    with vault.local.transaction() as transaction:
        if not is_taken:
            if cursor is not None:
                digest = hashlib.sha256(sealed).digest()[:8]
                updated = replace(cursor, counter=new.counter, digest=digest, published_at=new.at)
                vault.memory.write(transaction, updated, "life", life)
            for name_made, _ in objects[:-1]:
                vault.memory.forget(transaction, "loose", name_made.rpartition("/")[2])


# ── restoring what the remote lost ─────────────────────────────────────────────────────────────────────


class Life(NamedTuple):
    """One of this device's lives: its newest known head, and whether the remote shows it."""

    writer: str
    counter: int
    packs: tuple[IndexedPack, ...]
    shown: bool


def lives(vault: Vault, listing: HeadListing) -> list[Life]:
    """Every life of this device that has published something. A copy of this home may have continued any of them.

    Each head is read, since it may have been replaced.
    """
    published = dict(vault.memory.under(Published, "own"))
    cursors = {cursor.writer: cursor for cursor in vault.memory.cursors().values() if cursor.device == vault.me}
    result = []
    signing = vault.local.keys.public.signing
    # Only a device that has the keys of a life can put back its head.
    for writer in sorted(name for name in {*published, *cursors} if certifies(name, signing)):
        own, cursor = published.get(writer, Published()), cursors.get(writer)
        known = max(own.there, 0 if cursor is None else cursor.counter)
        rivals = [
            name
            for name in listing.rivals.get(sealing.life_tag(vault.id, writer), ())
            if name.counter >= max(known, 1)
        ]
        newer = newest_verified(vault, rivals, ReadPosition(writer=writer, device=vault.me)) if rivals else None
        if newer is not None:
            result.append(Life(writer, newer[0].counter, newer[0].packs, shown=True))
        elif known:
            packs = own.packs
            if not packs and cursor is not None and cursor.applied:
                packs = (IndexedPack("0" * 40, 1, cursor.applied, 1, bytes(32)),)  # it is not known which packs
            result.append(Life(writer, max(known, own.counter), packs, shown=False))
    return result


def is_requested(vault: Vault, writer: str, requested: Mapping[str, Pushes]) -> bool:
    """Whether somebody could not read what an earlier life of this device published."""
    signing = vault.local.keys.public.signing
    earlier = {cursor.writer for cursor in vault.memory.cursors().values() if cursor.device == vault.me}
    earlier |= dict(vault.memory.under(Published, "own")).keys()
    return any(
        sealing.life_tag(vault.id, name) in requested
        for name in earlier
        if name != writer and certifies(name, signing)
    )


def restore(push: Publisher, listing: HeadListing, requested: Mapping[str, Pushes]) -> None:
    """Put back what the remote lost of our earlier lives: no other device would.

    `requested`: by life, the pushes that others could not read; they count as lost if we cannot read them either.
    """
    vault = push.vault
    earlier_lives = [life for life in lives(vault, listing) if life.writer != push.writer]
    listed = {item.name for item in vault.remote.list(f"p/{vault.tag}/")} if earlier_lives else set()
    complete = True
    for life in earlier_lives:
        pushes_requested = requested.get(sealing.life_tag(vault.id, life.writer), ())
        lost = [
            pack
            for pack in life.packs
            if vault.pack_name(pack.name) not in listed
            or (any(pack.overlaps(*pushes) for pushes in pushes_requested) and not _is_readable(vault, pack))
        ]
        if life.shown and not lost:
            continue
        objects: Objects = []
        packs = []
        for pack in life.packs:
            if pack not in lost:
                packs.append(pack)
                continue
            spans = _spans_of_pack(push, life.writer, pack)
            complete = complete and bool(spans)
            events = [event for span in spans for event in _span_events(vault, span)]
            packs.append(push.pack(sign_stretches(vault, events), pack.first, pack.last, objects)[0])
        head = PublishedHead(
            vault=vault.id, device=vault.me, writer=life.writer, counter=life.counter, at=0, packs=tuple(packs)
        )  # fmt: skip
        obsolete = [vault.pack_name(pack.name) for pack in lost]  # unreadable packs are useless
        obsolete += [heads.name_of(vault.id, life.writer, life.counter)] if life.shown else []
        _publish_head(push, head, sealing.life_tag(vault.id, life.writer), objects, obsolete)
    if not complete:
        push.republish_all()


def _is_readable(vault: Vault, pack: IndexedPack) -> bool:
    try:
        read_pack(vault, pack)
    except HoldfastError as error:
        if error.retry_helps:
            raise
        return False
    return True


def _spans_of_pack(push: Publisher, writer: str, pack: IndexedPack) -> tuple[StreamSpan, ...]:
    """The spans of a pack of an earlier life, by the pushes it covers: it may have been repacked since."""
    known = [
        indexed
        for indexed in push.memory.own(writer).packs
        if pack.first <= indexed.first and indexed.last <= pack.last
    ]
    if [indexed.first for indexed in known[:1]] != [pack.first] or known[-1].last != pack.last:
        return ()
    return tuple(span for indexed in known for span in push.spans_in(indexed.name))


def _span_events(vault: Vault, span: StreamSpan) -> list[Event]:
    events: list[Event] = vault.local.store.stream(span.session, span.writer, span.first, span.last)
    return events


# ── removing objects ──────────────────────────────────────────────────────────────────────────────────────────


def _stored_events(vault: Vault, stretch: Stretch) -> list[Event]:
    """The same events as the store has them now."""
    first, last = stretch.events[0].seq, stretch.events[-1].seq
    hashes = {event.hash for event in stretch.events}
    stored = vault.local.store.stream(stretch.session, stretch.writer, first, last)
    return [event for event in stored if event.hash in hashes]


def remove_unused_objects(vault: Vault, listing: HeadListing) -> None:
    """Remove objects that are no longer used."""
    _remove_unnamed_packs(vault, listing)
    cursors = vault.memory.cursors()
    own = vault.memory.own(vault.local.writer())
    newest = {life: cursor.counter for life, cursor in cursors.items() if cursor.device == vault.me}
    newest[sealing.life_tag(vault.id, vault.local.writer())] = own.there
    # Only heads older than one that is certainly ours: a planted newer name proves nothing.
    obsolete = [
        name.name
        for life, rivals in listing.rivals.items()
        if any(name.counter == newest.get(life) for name in rivals)
        for name in rivals
        if name.counter < newest[life]
    ]
    settled = []
    for writer, own in vault.memory.under(Published, "own"):
        if own.stale and writer != vault.local.writer():
            obsolete += [f"p/{vault.tag}/{name}" for name in own.stale]
            settled.append((writer, replace(own, stale=())))
    adopted = vault.memory.raw_under("adopt")
    if obsolete:
        vault.remote.put([], remove=obsolete)
    if settled or adopted:
        with vault.local.transaction() as transaction:
            for writer, own in settled:
                vault.memory.write(transaction, own, "own", writer)
            for device in adopted:
                vault.memory.forget(transaction, "adopt", device)
                vault.memory.write(transaction, True, "sweep", device)
    for device in vault.memory.raw_under("sweep"):
        _remove_packs_of(vault, listing, device)
    if vault.membership.removed and vault.membership.is_admin(vault.me):
        _purge_removed_devices(vault, listing)


def _remove_packs_of(vault: Vault, listing: HeadListing, device: str) -> None:
    """Remove packs of a removed device whose accepted events we vouch for by now."""
    lives = {life: cursor for life, cursor in vault.memory.cursors().items() if cursor.device == device}
    if device not in vault.membership.removed or not vault.membership.is_admin(vault.me):
        lives = {}  # let in again, or we are no admin
    incomplete = False
    for life, cursor in lives.items():
        listed = listing.newest.get(life)
        if listed is None:
            continue
        if cursor.unaccepted or cursor.gaps or cursor.counter != listed.counter:
            incomplete = True  # not all of it was accepted or read: it stays and is reported
            continue
        verified = newest_verified(vault, [listed], cursor)
        if verified is None or verified[1] != cursor.digest:
            incomplete = True  # not what was read under this number
            continue
        packs = [vault.pack_name(pack.name) for pack in verified[0].packs]
        vault.remote.put([], remove=[*packs, listed.name])
        with vault.local.transaction() as transaction:
            # Whatever it publishes from now on is read, under whichever number.
            unread = replace(cursor, counter=0, digest=b"", applied=0, read=max(cursor.read, cursor.applied))
            vault.memory.write(transaction, unread, "life", life)
            vault.memory.forget(transaction, "looked", life)
    if not incomplete:
        with vault.local.transaction() as transaction:
            vault.memory.forget(transaction, "sweep", device)


def _purge_removed_devices(vault: Vault, listing: HeadListing) -> None:
    """Remove erased data from what removed devices left at the remote, when something changed."""
    for life, cursor in vault.memory.cursors().items():
        rivals = listing.rivals.get(life)
        if not rivals or not cursor.counter or cursor.device not in vault.membership.removed:
            continue
        if vault.memory.read(int, "looked", life) == rivals[0].counter:
            continue
        verified = newest_verified(vault, rivals, cursor)
        known = verified is not None and _purge_erased(vault, verified[0], cursor.device)
        with vault.local.transaction() as transaction:
            vault.memory.write(transaction, rivals[0].counter, "looked", life)
            if verified is not None and known and cursor.counter == verified[0].counter:
                last = verified[0].packs[-1].last if verified[0].packs else 0
                settled = replace(cursor, applied=max(cursor.applied, last), gaps=(), unaccepted=False, unread=0)
                vault.memory.write(transaction, settled, "life", life)


def _purge_erased(vault: Vault, head: PublishedHead, device: str) -> bool:
    """Remove packs with erased data; keep aside here what else is in them and was not accepted.

    True when nothing is left to accept: all that the head names was read and is in the log.
    """
    known = True
    author, bytes_left = removal.RemovedAuthor(vault, device), _MAX_SEARCHED_BYTES
    erased: dict[str, removal.ErasedEvents] = {}
    for pack in head.packs:
        bytes_left -= pack.size
        if bytes_left < 0:
            return False
        try:
            stretches = read_pack(vault, pack)
        except HoldfastError as error:
            if error.retry_helps or isinstance(error, OverLimit):
                raise
            known = False  # unreadable
            continue
        for session in {stretch.session for stretch in stretches} - erased.keys():
            erased[session] = removal.find_erased(vault, session)
        known = known and all(len(_stored_events(vault, stretch)) == len(stretch.events) for stretch in stretches)
        without_erased = [
            (stretch, removal.without_erased(erased[stretch.session], stretch.events)) for stretch in stretches
        ]
        if all(list(stretch.events) == events for stretch, events in without_erased):
            continue
        with vault.local.transaction() as transaction:
            for stretch, events in without_erased:
                stored = {known.hash for known in _stored_events(vault, stretch)}
                unknown = [event for event in events if event.hash not in stored]
                if unknown and author.objection(stretch) is None:
                    removal.add_unaccepted(
                        vault.memory, transaction, stretch.session, stretch.writer, device, unknown
                    )
            vault.memory.write(transaction, True, "purged", pack.name)
        vault.remote.put([], remove=[vault.pack_name(pack.name)])
    return known


def _remove_unnamed_packs(vault: Vault, listing: HeadListing) -> None:
    """After a crash, remove packs that no head names."""
    loose = dict(vault.memory.under(str, "loose"))
    if not loose:
        return
    named: set[str] = set()
    cursors = vault.memory.cursors()
    for life in set(loose.values()):
        listed, cursor = listing.newest.get(life), cursors.get(life)
        if listed is not None and cursor is not None:
            head = _read_head(vault, listed, cursor)
            named |= {pack.name for pack in head.packs} if head is not None else set()
    vault.remote.put([], remove=[f"p/{vault.tag}/{name}" for name in loose if name not in named])
    with vault.local.transaction() as transaction:
        for name in loose:
            vault.memory.forget(transaction, "loose", name)


def _read_head(vault: Vault, listed: HeadName, cursor: ReadPosition) -> PublishedHead | None:
    verified = newest_verified(vault, [listed], cursor)
    return None if verified is None else verified[0]


def newest_verified(
    vault: Vault, rivals: Iterable[HeadName], cursor: ReadPosition
) -> tuple[PublishedHead, bytes] | None:
    """The first of these heads that is signed by the life's device, and its digest."""
    signing = vault.membership.signing_of(cursor.device)
    for listed in list(rivals)[:_MAX_RIVALS]:
        try:
            sealed = vault.remote.get(listed.name, _HEAD_LIMIT)
            claimed = heads.read(vault.open("head", listed.name, sealed, vault.candidates), vault.id, listed)
        except HoldfastError as error:
            if error.retry_helps:
                raise
            continue
        if signing is not None and claimed.is_by(signing):
            return claimed.head, hashlib.sha256(sealed).digest()[:8]
    return None
