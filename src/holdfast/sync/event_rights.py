"""Decide which events of other devices count: deletions, erasures, and what guests may not write.

Whether anything of a device is read is decided by `Vault.takes_part`.

An event may be erased by its author or by an admin of the vault that owns the session. A session may be deleted by
such an admin or by the device that started it. What counts is who wrote the event: an admin that passes it on,
restores a backup or removes the author lends it no rights. All others may write, but their stream counts only up
to the first event that oversteps these rules: so no stream has a gap, and all devices agree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.envelope import Event
from holdfast.core.event_data import parse_erasure, read_data
from holdfast.core.events import EventErased
from holdfast.store import origin
from holdfast.sync import provenance
from holdfast.sync.read_heads import name_of
from holdfast.workspace.keys.device_keys import certifies, is_certified

if TYPE_CHECKING:
    from holdfast.store.interface import Transaction
    from holdfast.sync.protocol.packs import Stretch
    from holdfast.sync.vault import Vault

_GUEST_STARTS: Final = "a guest may not start the session again"
_GUEST_DELETES: Final = "a guest may not delete the session"
_DELETES: Final = "only an admin device, or the device that started the session, may delete it"
_MAX_OF_GUEST: Final = 4 << 20  # bytes
_GUEST_LARGE: Final = "it is larger than a guest may write"
_LEAVES: Final = "only an admin device may leave a shared session for all devices"
_GUEST_ERASES: Final = "a guest may erase only their own events"
_ERASES: Final = "a device that is not an admin may erase only its own events"
_UNKNOWN: Final = "it erases events that are missing here"
_UNREADABLE: Final = "the erasure cannot be read; it may be from a newer Holdfast"
_DISPLACES: Final = "it would replace what another device recorded"
_GAP: Final = "the events it follows were not accepted"
_SHARED: Final = "it came through a share, and you have a session of your own with this id"
# Such events are judged again once everything is read: the first to publish need not be the first to record.
NOT_YET_READ: Final = "it depends on events that are not read yet"
_UNCONFIRMED: Final = "the session was here before, and the vault is not confirmed yet"
_MEMBERS: Final = "session {} belongs to another member of this device's store: the two are not merged"
_ELSEWHERE: Final = "the session is your own and is not sent to this vault"


class RefusedEvents(NamedTuple):
    """Events that were not accepted: whose they are, and why."""

    device: str
    reason: str


class StreamAuthor(NamedTuple):
    """The author of a stream who may not decide over the session. The device that vouches for it adds no rights."""

    writer: str
    # The signing key of the author's device; empty when no known device matches the writer.
    signing: bytes
    guest: bool
    # Whether the vault is the one whose devices decide over the session.
    owning: bool
    # The device that vouches for the stream.
    voucher: str


class EventRights:
    """Judges what the members of a vault wrote, during one pull."""

    def __init__(self, vault: Vault, *, everything_read: bool = False) -> None:
        """`everything_read`: nothing at the remote is left to read, so it is known who started a session."""
        self._vault = vault
        self._everything_read = everything_read
        # The devices of the main vault decide over what it shares, also if another device created the share.
        self._main = vault.main or vault
        # Sessions that were here before, while the vault is not confirmed.
        self._earlier = frozenset(self._main.memory.read(tuple[str, ...], "earlier") or ())
        # By session and event hash: the writer and the type.
        self._logs: dict[str, dict[str, tuple[str, str]]] = {}
        # By session and key: the events with that key.
        self._keyed: dict[str, dict[str, list[Event]]] = {}

    def accept(self, stretches: Iterable[Stretch]) -> tuple[list[Stretch], list[RefusedEvents]]:
        """Split events that came together into acceptable ones and refused ones."""
        accepted: list[Stretch] = []
        refused: list[RefusedEvents] = []
        new: dict[str, tuple[str, str]] = {}
        for stretch in sorted(stretches, key=lambda stretch: stretch.events[0].seq):
            reason = _SHARED if self._came_through_share(stretch) else self._session_refusal(stretch.session)
            if reason is not None:
                refused.append(RefusedEvents(stretch.device, reason))
                continue
            author = self.author(stretch.session, stretch.writer, stretch.device)
            if author is None:
                accepted.append(stretch)
                new.update({event.hash: (event.writer, event.type) for event in stretch.events})
                continue
            number, reason = self._count_allowed(stretch, author, new)
            if number:
                accepted.append(stretch._replace(events=stretch.events[:number]))
            if reason is not None:
                refused.append(RefusedEvents(stretch.device, reason))
        return accepted, refused

    def author(self, session: str, writer: str, voucher: str) -> StreamAuthor | None:
        """Who wrote a stream; None when the author may do anything.

        Streams from before devices had keys name no device, and anybody could continue them: then their voucher
        counts as their author.
        """
        vault, main = self._vault, self._main
        foreign = vault.main is None and vault.membership.session is not None
        owning = foreign or provenance.owner(vault.local, session, main.id) == main.id
        share_device = None if vault is main else vault.membership.author_of(writer)
        if (
            share_device is not None
            and share_device.kind == "guest"
            and not main.membership.is_member(share_device.keys.id)
        ):
            return StreamAuthor(writer, share_device.keys.signing, guest=True, owning=owning, voucher=voucher)
        device = main.membership.author_of(writer)
        if device is None and not is_certified(writer):
            device = main.membership.members.get(voucher) or main.membership.removed.get(voucher)
        if device is not None:
            if owning and device.admin:
                return None
            return StreamAuthor(writer, device.keys.signing, device.kind == "guest", owning, voucher)
        guest = vault.membership.author_of(writer)
        if guest is None:  # perhaps a guest of a share, whose stream a device of the vault passes on
            known = writer in origin.guests(vault.local.store, session)
            announced = main.membership.guests.get(session, ())
            signing = next((key for key in announced if certifies(writer, key)), b"")
            return StreamAuthor(writer, signing, guest=known or bool(signing), owning=owning, voucher=voucher)
        return StreamAuthor(writer, guest.keys.signing, guest=True, owning=owning, voucher=voucher)

    def _is_by(self, author: StreamAuthor, session: str, writer: str) -> bool:
        """Whether an event's writer is this author. A stream without keys belongs to its only voucher."""
        if is_certified(writer):
            return writer == author.writer or (bool(author.signing) and certifies(writer, author.signing))
        return self._main.memory.vouched(session, writer).by.keys() == {author.voucher}

    def _came_through_share(self, stretch: Stretch) -> bool:
        """Whether a device passes on something it was offered under the id of the vault's own session."""
        main, session = self._main, stretch.session
        origins = main.membership.origins.get(session)
        if origins is None or main.membership.session is not None or stretch.device not in origins.guests:
            return False
        if origin.share_of(self._vault.local.store, session) is not None:
            return False
        state = self._vault.local.store.state(session)
        own = origins.share is None or state is not None
        known = state is not None and stretch.writer in state.heads
        return own and not known and not provenance.belongs_to_vault(main, session, stretch.writer)

    def _session_refusal(self, session: str) -> str | None:
        """Why the vault may not touch this session of ours: it was never sent there."""
        main, local = self._main, self._vault.local
        if origin.is_members(local.store, session):
            return _MEMBERS.format(session[:8])
        if main.membership.session is not None or local.store.state(session) is None:
            return None
        if session in self._earlier:
            return _UNCONFIRMED
        vaults = local.vaults(session)
        return _ELSEWHERE if vaults is not None and main.id not in vaults else None

    def _count_allowed(
        self, stretch: Stretch, author: StreamAuthor, new: dict[str, tuple[str, str]]
    ) -> tuple[int, str | None]:
        """How many of the events count, and why no more do. `new`: accepted events that came with them."""
        first, last = stretch.events[0], stretch.events[-1]
        stored = self._vault.local.store.stream(stretch.session, stretch.writer, max(1, first.seq - 1), last.seq)
        # What is here already was accepted before.
        stored_hashes = {event.hash for event in stored}
        if first.prev is not None and first.prev not in stored_hashes and first.prev not in new:
            return 0, _GAP
        for number, event in enumerate(stretch.events):
            reason = None if event.hash in stored_hashes else self._objection(event, author, new)
            if reason is not None:
                return number, reason
            new[event.hash] = event.writer, event.type
        return len(stretch.events), None

    def objection(self, stretch: Stretch, author: StreamAuthor) -> str | None:
        """Why this author may not write all of these events; None when they may."""
        new = {event.hash: (event.writer, event.type) for event in stretch.events}
        reasons = (self._objection(event, author, new) for event in stretch.events)
        return next((reason for reason in reasons if reason is not None), None)

    def _objection(self, event: Event, author: StreamAuthor, new: Mapping[str, tuple[str, str]]) -> str | None:
        """Why this author may not write this event; None when they may."""
        if author.guest and len(event.data or b"") > _MAX_OF_GUEST:
            return _GUEST_LARGE
        if author.guest and event.key is not None and (reason := self._displacement(event, author)) is not None:
            return reason
        if event.type == "session.started" and author.guest:
            return _GUEST_STARTS
        if event.type == "session.deleted":
            if author.guest:
                return _GUEST_DELETES
            if self._main.membership.session is None and origin.share_of(self._vault.local.store, event.session):
                return _LEAVES
            if not self._everything_read:
                return NOT_YET_READ
            return None if author.owning and self._started_session(event, author, new) else _DELETES
        if event.type != "event.erased" or event.data is None:
            return None  # an erased erasure was replaced by another one, which is judged itself
        erasure = read_data(event)
        return (
            self._erasure_objection(event, erasure, author, new) if isinstance(erasure, EventErased) else _UNREADABLE
        )

    def _displacement(self, event: Event, author: StreamAuthor) -> str | None:
        """Of equal keys the first counts: a guest's event must not replace another device's event."""
        if not self._everything_read:
            return NOT_YET_READ
        keyed = self._keyed.get(event.session)
        if keyed is None:
            keyed = self._keyed[event.session] = {}
            for known in self._vault.local.store.events(event.session):
                if known.key is not None:
                    keyed.setdefault(known.key, []).append(known)
        for known in keyed.get(event.key or "", ()):
            if _precedes(event, known) and not self._is_by(author, event.session, known.writer):
                return _DISPLACES
        return None

    def _started_session(self, event: Event, author: StreamAuthor, new: Mapping[str, tuple[str, str]]) -> bool:
        """Whether only the author started the session: a start can be added later."""
        known = origin.owned(self._vault.local.store, event.session)
        if known is not None and known.began and not self._is_by(author, event.session, known.began):
            return False
        log = {**self._log(event.session), **new}
        starts = [writer for writer, kind in log.values() if kind == "session.started"]
        return bool(starts) and all(self._is_by(author, event.session, writer) for writer in starts)

    def _erasure_objection(
        self, event: Event, erasure: EventErased, author: StreamAuthor, new: Mapping[str, tuple[str, str]]
    ) -> str | None:
        for name in erasure.hashes:
            known = new.get(name) or self._log(event.session).get(name)
            if known is None:
                return _UNKNOWN
            writer, kind = known
            if not self._is_by(author, event.session, writer):
                return _GUEST_ERASES if author.guest else _ERASES
            # What replaces an erasure erases too.
            inner = parse_erasure(erasure.instead.get(name)) if kind == "event.erased" else None
            reason = None if inner is None else self._erasure_objection(event, inner, author, new)
            if reason is not None:
                return reason
        return None

    def _log(self, session: str) -> dict[str, tuple[str, str]]:
        log = self._logs.get(session)
        if log is None:
            events = self._vault.local.store.events(session)
            log = self._logs[session] = {event.hash: (event.writer, event.type) for event in events}
        return log


def settle_guests(vault: Vault) -> None:
    """Record which streams are guests', and withdraw guests' events that replace those of others.

    `EventRights` refuses such an event when the other one is known by then. When the guest's came first, its stream
    is withdrawn from there on as soon as the other one arrives: all devices end up with the same events.
    """
    if vault.membership.session is None:
        _settle_announced_guests(vault)
    else:
        _settle_share_guests(vault, vault.membership.session)


def _settle_announced_guests(main: Vault) -> None:
    """Settle guests of shares at other remotes, which this device may not see."""
    local, members = main.local, main.membership
    if not members.guests:
        return
    is_settled = main.memory.read(tuple[str, ...], "settled") == members.tips
    is_device = provenance.member_test(members)
    for session, keys in members.guests.items():
        state = local.store.state(session)
        if state is None or (is_settled and session not in main.report.sessions):
            continue
        guests = {writer for writer in state.heads if any(certifies(writer, key) for key in keys)}
        guests |= origin.guests(local.store, session)
        others = {writer for writer in guests if not local.is_ours(writer) and not is_device(writer)}
        with local.transaction() as transaction:
            _settle(main, transaction, session, others)
    if not is_settled:
        with local.transaction() as transaction:
            main.memory.write(transaction, members.tips, "settled")


def _settle(vault: Vault, transaction: Transaction, session: str, guests: Collection[str]) -> None:
    origin.record_guests(transaction, session, guests)
    displacing = _displacing(vault.local.store.events(session), guests)
    transaction.withdraw(session, {writer: first - 1 for writer, first in displacing.items()})
    for writer in displacing:
        device = vault.membership.author_of(writer)
        vault.report.reject("", "" if device is None else name_of(vault, device.keys.id), _DISPLACES)


def _settle_share_guests(share: Vault, session: str) -> None:
    local = share.local
    state = local.store.state(session)
    if state is None:
        return
    reports = (share.report,) if share.main is None else (share.report, share.main.report)
    tips = share.membership.tips
    if share.memory.read(tuple[str, ...], "settled") == tips and all(
        session not in item.sessions for item in reports
    ):
        return
    streams = _guests(share, state.heads)
    # This share knows nothing of other shares of the session, at other remotes.
    elsewhere = {writer for writer in origin.guests(local.store, session) if not share.membership.author_of(writer)}
    keys = origin.guest_keys(local.store).get(session, {})
    with local.transaction() as transaction:
        if share.main is not None and keys.get(share.main.id, frozenset()) != streams.keys():
            origin.record_guest_keys(transaction, session, {**keys, share.main.id: frozenset(streams)})
        share.memory.write(transaction, tips, "settled")
        _settle(share, transaction, session, elsewhere.union(*streams.values()))


def _guests(share: Vault, writers: Iterable[str]) -> dict[bytes, list[str]]:
    """The streams written by guests of a share, by signing key. Its owner and this device are no guests."""
    streams: dict[tuple[str, bytes], list[str]] = {}
    for writer in writers:
        device = share.membership.author_of(writer)
        if device is not None and device.kind == "guest":
            streams.setdefault((device.keys.id, device.keys.signing), []).append(writer)
    # Checked once per device: a guest can write any number of streams.
    return {
        signing: writers_of
        for (device, signing), writers_of in streams.items()
        if not (share.main is not None and share.main.membership.is_member(device))
        and not share.local.is_ours(writers_of[0])
    }


def _displacing(events: Iterable[Event], guests: Collection[str]) -> dict[str, int]:
    """By guest stream, the first event that would replace one that no guest recorded."""
    keyed: dict[str, list[Event]] = {}
    for event in events:
        if event.key is not None:
            keyed.setdefault(event.key, []).append(event)
    displacing: dict[str, int] = {}
    for same_key in keyed.values():
        others = [event for event in same_key if event.writer not in guests]
        for event in same_key:
            if event.writer in guests and any(_precedes(event, other) for other in others):
                displacing[event.writer] = min(event.seq, displacing.get(event.writer, event.seq))
    return displacing


def _precedes(event: Event, other: Event) -> bool:
    """Whether of two different events with one key this one counts, and the other does not."""
    return event.written < other.written and (event.type, event.data) != (other.type, other.data)


def may_share(main: Vault, by: str, session: str | None) -> bool:
    """Whether a device may share a session of the vault: an admin, or the device that started it."""
    members, store = main.membership, main.local.store
    device = members.members.get(by) or members.removed.get(by)
    if device is None or session is None:
        return False
    if device.admin or by == main.me:
        return True
    known = origin.owned(store, session)
    if known is not None and known.began and is_certified(known.began):
        return certifies(known.began, device.keys.signing)
    starts = [event.writer for event in store.events(session) if event.type == "session.started"]
    # A stream without keys belongs to its only voucher.
    return not starts or all(
        certifies(writer, device.keys.signing)
        if is_certified(writer)
        else main.memory.vouched(session, writer).by.keys() == {by}
        for writer in starts
    )


def has_foreign_devices(share: Vault) -> bool:
    """Whether a share of ours has non-guest devices that do not belong to the main vault."""
    assert share.main is not None
    main = share.main.membership
    return any(
        member.kind != "guest" and not main.is_member(device) for device, member in share.membership.members.items()
    )
