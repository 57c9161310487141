"""Which deletions and erasures of other devices are obeyed.

An event is erased by its author or by an admin of the vault that owns the session. A session is deleted by such an
admin or by the device that began it. Judged is who wrote it: an admin that passes it on, restores a backup or removes
the author lends it no rights. Everybody else may write, but of their stream everything counts up to the first
event that goes further, and nothing after it: what is taken in never has a gap, and is the same on all devices.
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
    from holdfast.sync.protocol.packs import PackedEvents
    from holdfast.sync.vault import Vault

_GUEST_BEGINS: Final = "a guest may not begin the session anew"
_GUEST_DELETES: Final = "a guest may not delete the session"
_DELETES: Final = "only an admin device, or the one that began the session, may delete it"
_LARGEST_OF_GUEST: Final = 4 << 20  # bytes
_GUEST_LARGE: Final = "it is larger than what a guest may write"
_LEAVES: Final = "only an admin device may leave a shared session for all devices"
_GUEST_ERASES: Final = "a guest may erase only what they wrote themselves"
_ERASES: Final = "a device that is no admin may erase only what it wrote itself"
_UNKNOWN: Final = "it erases events that are not here"
_UNREADABLE: Final = "what it erases cannot be read: by a newer Holdfast, perhaps"
_DISPLACES: Final = "it would stand in the place of what somebody else recorded"
_GAP: Final = "what it goes on from was not taken in"
_SHARED: Final = "it came through somebody's share, and a session of this id is your own"
# Judged once all else is read: whoever was first to publish may not be who began it, or recorded something first.
LATER: Final = "not everything is read yet that it is judged by"
_UNCONFIRMED: Final = "the session was here before, and nobody has confirmed that the vault is yours"
_MEMBERS: Final = "session {} is another member's in the store of this device: they are not united"
_ELSEWHERE: Final = "the session is one of your own that does not travel by this vault"


class NotTaken(NamedTuple):
    """What of a stretch was not taken in: whose it is, and why."""

    device: str
    reason: str


class StreamAuthor(NamedTuple):
    """Who wrote a stream, when they may not decide over the session. Who vouches for it gives it no more rights."""

    writer: str
    # Of the device that the writer names; empty for one that no device of the vault is known to be.
    signing: bytes
    guest: bool
    # Whether the vault is the one whose devices decide over the session.
    owning: bool
    # The device that vouches for what it says.
    voucher: str


class Authority:
    """One reading of what the members of a vault wrote."""

    def __init__(self, vault: Vault, *, everything_read: bool = False) -> None:
        """`everything_read`: nothing that the remote shows is left to read: it is known who began a session."""
        self._vault = vault
        self._everything_read = everything_read
        # The devices of the main vault decide over what it shares, whoever founded the share.
        self._main = vault.main or vault
        # Sessions that were here before, while nobody has confirmed that the vault is ours.
        self._earlier = frozenset(self._main.memory.read(tuple[str, ...], "earlier") or ())
        # Of each session: who wrote each event of the log, and of which type it is.
        self._logs: dict[str, dict[str, tuple[str, str]]] = {}
        # Of each session: its events that have a key, by that.
        self._keyed: dict[str, dict[str, list[Event]]] = {}

    def taken(self, stretches: Iterable[PackedEvents]) -> tuple[list[PackedEvents], list[NotTaken]]:
        """What may be taken in of these, which come together; and what not."""
        good: list[PackedEvents] = []
        refused: list[NotTaken] = []
        new: dict[str, tuple[str, str]] = {}
        for stretch in sorted(stretches, key=lambda stretch: stretch.events[0].seq):
            reason = _SHARED if self._came_through_share(stretch) else self._not_here(stretch.session)
            if reason is not None:
                refused.append(NotTaken(stretch.device, reason))
                continue
            author = self.author(stretch.session, stretch.writer, stretch.device)
            if author is None:
                good.append(stretch)
                new.update({event.hash: (event.writer, event.type) for event in stretch.events})
                continue
            number, reason = self._allowed(stretch, author, new)
            if number:
                good.append(stretch._replace(events=stretch.events[:number]))
            if reason is not None:
                refused.append(NotTaken(stretch.device, reason))
        return good, refused

    def author(self, session: str, writer: str, voucher: str) -> StreamAuthor | None:
        """Who wrote a stream; None when whatever they say is obeyed.

        A stream of days without keys names no device. Anybody could go on with it: it says what its voucher says.
        """
        vault, main = self._vault, self._main
        foreign = vault.main is None and vault.membership.session is not None
        owning = foreign or provenance.owner(vault.here, session, main.id) == main.id
        here = None if vault is main else vault.membership.author_of(writer)
        if here is not None and here.kind == "guest" and not main.membership.is_member(here.keys.id):
            return StreamAuthor(writer, here.keys.signing, guest=True, owning=owning, voucher=voucher)
        device = main.membership.author_of(writer)
        if device is None and not is_certified(writer):
            device = main.membership.members.get(voucher) or main.membership.removed.get(voucher)
        if device is not None:
            if owning and device.admin:
                return None
            return StreamAuthor(writer, device.keys.signing, device.kind == "guest", owning, voucher)
        guest = vault.membership.author_of(writer)
        if guest is None:  # a guest of a share, perhaps, whose stream a device of the vault passes on
            known = writer in origin.guests(vault.here.store, session)
            said = main.membership.guests.get(session, ())
            signing = next((key for key in said if certifies(writer, key)), b"")
            return StreamAuthor(writer, signing, guest=known or bool(signing), owning=owning, voucher=voucher)
        return StreamAuthor(writer, guest.keys.signing, guest=True, owning=owning, voucher=voucher)

    def _wrote(self, author: StreamAuthor, session: str, writer: str) -> bool:
        """Whether an event's writer is this author. A stream of days without keys is of who alone vouches for it."""
        if is_certified(writer):
            return writer == author.writer or (bool(author.signing) and certifies(writer, author.signing))
        return self._main.memory.vouched(session, writer).by.keys() == {author.voucher}

    def _came_through_share(self, stretch: PackedEvents) -> bool:
        """Whether a device passes on what it was offered under the id of a session that is the vault's own."""
        main, session = self._main, stretch.session
        said = main.membership.origins.get(session)
        if said is None or main.membership.session is not None or stretch.device not in said.guests:
            return False
        if origin.share_of(self._vault.here.store, session) is not None:
            return False
        state = self._vault.here.store.state(session)
        own = said.share is None or state is not None
        known = state is not None and stretch.writer in state.heads
        return own and not known and not provenance.belongs(main, session, stretch.writer)

    def _not_here(self, session: str) -> str | None:
        """Why a vault has no say in a session of our own: it was never sent there."""
        main, here = self._main, self._vault.here
        if origin.is_members(here.store, session):
            return _MEMBERS.format(session[:8])
        if main.membership.session is not None or here.store.state(session) is None:
            return None
        if session in self._earlier:
            return _UNCONFIRMED
        taking = here.vaults(session)
        return _ELSEWHERE if taking is not None and main.id not in taking else None

    def _allowed(
        self, stretch: PackedEvents, author: StreamAuthor, new: dict[str, tuple[str, str]]
    ) -> tuple[int, str | None]:
        """How many of the events count, and why no more do. `new`: events that came with it and do."""
        first, last = stretch.events[0], stretch.events[-1]
        kept = self._vault.here.store.stream(stretch.session, stretch.writer, max(1, first.seq - 1), last.seq)
        # What is here already was said by somebody who may, or at a time when they might.
        here = {event.hash for event in kept}
        if first.prev is not None and first.prev not in here and first.prev not in new:
            return 0, _GAP
        for number, event in enumerate(stretch.events):
            reason = None if event.hash in here else self._objection(event, author, new)
            if reason is not None:
                return number, reason
            new[event.hash] = event.writer, event.type
        return len(stretch.events), None

    def objection(self, stretch: PackedEvents, author: StreamAuthor) -> str | None:
        """Why somebody who may not decide over the session may not say all of this; None when they may."""
        new = {event.hash: (event.writer, event.type) for event in stretch.events}
        found = (self._objection(event, author, new) for event in stretch.events)
        return next((reason for reason in found if reason is not None), None)

    def _objection(self, event: Event, author: StreamAuthor, new: Mapping[str, tuple[str, str]]) -> str | None:
        if author.guest and len(event.data or b"") > _LARGEST_OF_GUEST:
            return _GUEST_LARGE
        if author.guest and event.key is not None and (reason := self._displaces(event, author)) is not None:
            return reason
        if event.type == "session.started" and author.guest:
            return _GUEST_BEGINS
        if event.type == "session.deleted":
            if author.guest:
                return _GUEST_DELETES
            if self._main.membership.session is None and origin.share_of(self._vault.here.store, event.session):
                return _LEAVES
            if not self._everything_read:
                return LATER
            return None if author.owning and self._began(event, author, new) else _DELETES
        if event.type != "event.erased" or event.data is None:
            return None  # an erasure that was erased says what another says in its place, and that is looked at
        said = read_data(event)
        return self._erasure(event, said, author, new) if isinstance(said, EventErased) else _UNREADABLE

    def _displaces(self, event: Event, author: StreamAuthor) -> str | None:
        """Of equal keys the first counts: a guest's must not stand in the place of what somebody else recorded."""
        if not self._everything_read:
            return LATER
        keyed = self._keyed.get(event.session)
        if keyed is None:
            keyed = self._keyed[event.session] = {}
            for known in self._vault.here.store.events(event.session):
                if known.key is not None:
                    keyed.setdefault(known.key, []).append(known)
        for known in keyed.get(event.key or "", ()):
            if _stands_before(event, known) and not self._wrote(author, event.session, known.writer):
                return _DISPLACES
        return None

    def _began(self, event: Event, author: StreamAuthor, new: Mapping[str, tuple[str, str]]) -> bool:
        """Whether the session began with whoever deletes it, and with nobody else: a beginning can be added later."""
        known = origin.owned(self._vault.here.store, event.session)
        if known is not None and known.began and not self._wrote(author, event.session, known.began):
            return False
        log = {**self._log(event.session), **new}
        starts = [writer for writer, kind in log.values() if kind == "session.started"]
        return bool(starts) and all(self._wrote(author, event.session, writer) for writer in starts)

    def _erasure(
        self, event: Event, said: EventErased, author: StreamAuthor, new: Mapping[str, tuple[str, str]]
    ) -> str | None:
        for name in said.hashes:
            known = new.get(name) or self._log(event.session).get(name)
            if known is None:
                return _UNKNOWN
            writer, kind = known
            if not self._wrote(author, event.session, writer):
                return _GUEST_ERASES if author.guest else _ERASES
            # What stands in the place of an erasure erases, too.
            inner = parse_erasure(said.instead.get(name)) if kind == "event.erased" else None
            reason = None if inner is None else self._erasure(event, inner, author, new)
            if reason is not None:
                return reason
        return None

    def _log(self, session: str) -> dict[str, tuple[str, str]]:
        found = self._logs.get(session)
        if found is None:
            events = self._vault.here.store.events(session)
            found = self._logs[session] = {event.hash: (event.writer, event.type) for event in events}
        return found


def settle_guests(vault: Vault) -> None:
    """Record which streams are guests', and take out what of them stands in another's place.

    `Authority` refuses a guest's event that would do so where the other one is known by then. Where the guest's came
    first, its stream is taken out from there on as soon as the other one is here: all devices end up with the same.
    """
    if vault.membership.session is None:
        _settle_announced(vault)
    else:
        _settle_guests_of(vault, vault.membership.session)


def _settle_announced(main: Vault) -> None:
    """Guests of shares that lie at other remotes, of which this device may see nothing."""
    here, members = main.here, main.membership
    if not members.guests:
        return
    is_settled = main.memory.read(tuple[str, ...], "settled") == members.tips
    is_device = provenance.device_test(members)
    for session, keys in members.guests.items():
        state = here.store.state(session)
        if state is None or (is_settled and session not in main.report.sessions):
            continue
        guests = {writer for writer in state.heads if any(certifies(writer, key) for key in keys)}
        guests |= origin.guests(here.store, session)
        others = {writer for writer in guests if not here.is_ours(writer) and not is_device(writer)}
        with here.transaction() as transaction:
            _settle(main, transaction, session, others)
    if not is_settled:
        with here.transaction() as transaction:
            main.memory.write(transaction, members.tips, "settled")


def _settle(vault: Vault, transaction: Transaction, session: str, guests: Collection[str]) -> None:
    origin.record_guests(transaction, session, guests)
    displacing = _displacing(vault.here.store.events(session), guests)
    transaction.withdraw(session, {writer: first - 1 for writer, first in displacing.items()})
    for writer in displacing:
        device = vault.membership.author_of(writer)
        vault.report.reject("", "" if device is None else name_of(vault, device.keys.id), _DISPLACES)


def _settle_guests_of(share: Vault, session: str) -> None:
    here = share.here
    state = here.store.state(session)
    if state is None:
        return
    reports = (share.report,) if share.main is None else (share.report, share.main.report)
    tips = share.membership.tips
    if share.memory.read(tuple[str, ...], "settled") == tips and all(
        session not in item.sessions for item in reports
    ):
        return
    streams = _guests(share, state.heads)
    # Of other shares of it, at other remotes, this one knows nothing.
    elsewhere = {writer for writer in origin.guests(here.store, session) if not share.membership.author_of(writer)}
    keys = origin.guest_keys(here.store).get(session, {})
    with here.transaction() as transaction:
        if share.main is not None and keys.get(share.main.id, frozenset()) != streams.keys():
            origin.record_guest_keys(transaction, session, {**keys, share.main.id: frozenset(streams)})
        share.memory.write(transaction, tips, "settled")
        _settle(share, transaction, session, elsewhere.union(*streams.values()))


def _guests(share: Vault, writers: Iterable[str]) -> dict[bytes, list[str]]:
    """Those of these streams that are by guests of a share, by their signing keys. Its owner and we are none."""
    streams: dict[tuple[str, bytes], list[str]] = {}
    for writer in writers:
        device = share.membership.author_of(writer)
        if device is not None and device.kind == "guest":
            streams.setdefault((device.keys.id, device.keys.signing), []).append(writer)
    # Asked once of each device: a guest can write any number of streams.
    return {
        signing: some
        for (device, signing), some in streams.items()
        if not (share.main is not None and share.main.membership.is_member(device))
        and not share.here.is_ours(some[0])
    }


def _displacing(events: Iterable[Event], guests: Collection[str]) -> dict[str, int]:
    """Of each guest's stream, the first event that stands in the place of what no guest recorded."""
    keyed: dict[str, list[Event]] = {}
    for event in events:
        if event.key is not None:
            keyed.setdefault(event.key, []).append(event)
    found: dict[str, int] = {}
    for alike in keyed.values():
        others = [event for event in alike if event.writer not in guests]
        for event in alike:
            if event.writer in guests and any(_stands_before(event, other) for other in others):
                found[event.writer] = min(event.seq, found.get(event.writer, event.seq))
    return found


def _stands_before(event: Event, other: Event) -> bool:
    """Of two with one key: whether this one counts, and the other, which says something else, does not."""
    return event.written < other.written and (event.type, event.data) != (other.type, other.data)


def may_share(main: Vault, by: str, session: str | None) -> bool:
    """Whether a device is entitled to share a session of the vault: an admin, or the device that began it."""
    members, store = main.membership, main.here.store
    device = members.members.get(by) or members.removed.get(by)
    if device is None or session is None:
        return False
    if device.admin or by == main.me:
        return True
    known = origin.owned(store, session)
    if known is not None and known.began and is_certified(known.began):
        return certifies(known.began, device.keys.signing)
    starts = [event.writer for event in store.events(session) if event.type == "session.started"]
    # A stream of days without keys is of who alone vouches for it.
    return not starts or all(
        certifies(writer, device.keys.signing)
        if is_certified(writer)
        else main.memory.vouched(session, writer).by.keys() == {by}
        for writer in starts
    )


def has_strangers(share: Vault) -> bool:
    """Whether devices take part in a share of ours, other than as guests, that do not belong to the main vault."""
    assert share.main is not None
    main = share.main.membership
    return any(
        member.kind != "guest" and not main.is_member(device) for device, member in share.membership.members.items()
    )
