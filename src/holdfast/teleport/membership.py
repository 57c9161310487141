"""Who belongs to a vault, which keys it uses and what it shares: a pure function of the set of its entries.

The order in which entries arrive, and how often, makes no difference: devices that have the same entries agree.
`ancestry` says which entries stand, `rights` which of them count, and this module what follows from those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from holdfast.core.errors import Invalid
from holdfast.teleport.ancestry import bits, trace
from holdfast.teleport.entries import (
    Admit,
    Cut,
    Found,
    Invite,
    NewKey,
    Origin,
    Remove,
    Rename,
    Restore,
    Share,
    Signed,
    Uninvite,
)
from holdfast.teleport.keys import PublicKeys, certifies, checked_recipient
from holdfast.teleport.rights import ADMIN, OWN, Court, Verdict
from holdfast.teleport.sealing import recipient_tag

# Of a device that is no admin: how many of its newest entries a new one follows, and how many of its keys count.
_MOST_TIPS: Final = 4
_MOST_KEYS: Final = 64
_MOST_INVITES: Final = 32
_MOST_RECIPIENTS: Final = 64
# Fewer than a head or an entry may name.
_MOST_PARENTS: Final = 900


class Member(msgspec.Struct, frozen=True):
    keys: PublicKeys
    name: str
    admin: bool
    kind: str
    since: int
    invite: str | None = None  # a guest's invitation
    possession: bytes | None = None  # proves that it has its signing key; earlier versions gave none


class Removed(msgspec.Struct, frozen=True):
    """A device that does not belong to the vault any more; `cut`: up to where its events are accepted."""

    keys: PublicKeys
    name: str
    cut: dict[str, dict[str, int]]
    # What it was while it belonged to it.
    admin: bool = False
    kind: str = "device"


class Key(msgspec.Struct, frozen=True):
    """A key that opens what is in the vault. `superseded`: nothing is sealed with it any more."""

    id: str
    recipients: frozenset[str]
    entry: str
    superseded: bool


class SharedSession(msgspec.Struct, frozen=True):
    vault: str
    founding: bytes
    session: str
    by: str


class Invited(msgspec.Struct, frozen=True):
    """`live`: it was not taken back. Whether it has expired, the clock of the one who asks says."""

    hash: str
    email: str
    recipients: tuple[str, ...]
    write: bool
    secret: bytes
    expires: int | None
    live: bool
    by: str


class Origins(msgspec.Struct, frozen=True):
    """What the devices of a vault say about how one session came to it."""

    # The share it came through; None when a device holds a session of this id as its own.
    share: str | None
    # Every device that ever said that it came through a share.
    guests: frozenset[str]


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    vault: str
    session: str | None = None
    founder: str = ""
    box: str = ""
    members: dict[str, Member] = {}
    removed: dict[str, Removed] = {}
    keys: tuple[Key, ...] = ()  # the one to seal with first
    shares: tuple[SharedSession, ...] = ()
    invites: tuple[Invited, ...] = ()
    origins: dict[str, Origins] = {}  # by session; most sessions have none
    tips: tuple[str, ...] = ()  # what a new entry follows
    waiting: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # what those that wait are waiting for
    rejected: tuple[tuple[str, str], ...] = ()
    overtaken: tuple[str, ...] = ()  # rightly said, but undone by a removal its author did not know of

    def is_member(self, device: str) -> bool:
        return device in self.members

    def is_admin(self, device: str) -> bool:
        member = self.members.get(device)
        return member is not None and member.admin

    def everybody(self) -> tuple[Member | Removed, ...]:
        """Every device that belongs to the vault, or did."""
        return (*self.members.values(), *self.removed.values())

    def author_of(self, writer: str) -> Member | Removed | None:
        """The device that a certified writer id names, if it ever belonged to the vault.

        Earlier versions let in devices that named another's signing key. Only one of them can have it: the one with
        the most rights is taken to be the author, whatever the others are or were.
        """
        alike = (device for device in self.everybody() if certifies(writer, device.keys.signing))
        return max(alike, key=lambda device: (device.admin, device.kind != "guest"), default=None)

    def signing_of(self, device: str) -> bytes | None:
        known = self.members.get(device) or self.removed.get(device)
        return None if known is None else known.keys.signing

    def accepted(self, device: str, writer: str, session: str, seq: int) -> int:
        """How much counts of a stream that this device vouches for up to `seq`: all of it, unless it was removed."""
        if device in self.members:
            return seq
        gone = self.removed.get(device)
        return 0 if gone is None else min(seq, gone.cut.get(writer, {}).get(session, 0))

    def recipient_keys(self) -> tuple[str, ...]:
        """Everybody that a new key must be wrapped for."""
        found = {member.keys.age for member in self.members.values()}
        return tuple(sorted(found.union(*(invite.recipients for invite in self.invites if invite.live))))

    def recipients(self) -> frozenset[str]:
        """The same, as entries name them."""
        return frozenset(map(recipient_tag, self.recipient_keys()))

    def usable_keys(self) -> tuple[Key, ...]:
        """Keys that nobody has who does not belong here, the one to use first; none when a new one has to be made."""
        here = self.recipients()
        return tuple(key for key in self.keys if not key.superseded and key.recipients <= here)


def evaluate(entries: Iterable[Signed], vault: str, *, verified: set[str] | None = None) -> Membership:
    """`verified` is the caller's to keep: the signatures that were found good, which need no second look."""
    verified = set() if verified is None else verified
    ancestry = trace(entries, vault, verified)
    if not ancestry.nodes:
        return Membership(
            vault=vault,
            waiting=tuple(ancestry.waiting),
            missing=tuple(ancestry.missing),
            rejected=tuple(ancestry.rejected),
        )
    court = Court(ancestry, verified)
    nodes = ancestry.nodes
    verdict = court.judge((1 << len(nodes)) - 1)
    valid = sum(1 << one for one in bits(court.authorised) if court.valid(one, verdict))
    followed = 0
    for one in bits(valid):
        followed |= nodes[one].above
    found = nodes[0].entry
    assert isinstance(found, Found)
    members, removed = _devices(court, verdict, valid)
    rejected = ancestry.rejected + [(nodes[one].hash, reason) for one, reason in court.refused.items()]
    return Membership(
        vault=vault,
        session=found.session,
        founder=found.by,
        box=found.box,
        members=members,
        removed=removed,
        keys=_keys(court, valid, _admins(members) | _admins(removed)),
        shares=_shares(court, valid),
        invites=_invites(court, valid, _admins(members) | _admins(removed) | {found.by}),
        origins=_origins(court, valid),
        tips=_tips(court, members, valid & ~followed),
        waiting=tuple(ancestry.waiting),
        missing=tuple(ancestry.missing),
        rejected=tuple(sorted(rejected)),
        overtaken=tuple(sorted(nodes[one].hash for one in bits(court.authorised & ~valid))),
    )


def _admins(devices: Mapping[str, Member | Removed]) -> set[str]:
    return {device for device, known in devices.items() if known.admin}


def _tips(court: Court, members: dict[str, Member], open_: int) -> tuple[str, ...]:
    """What a new entry follows. Whoever is no admin could say any number of things at once: few of them are followed.

    What nobody follows counts all the same, and is undone when its author is removed.
    """
    found: list[str] = []
    by: Counter[str] = Counter()
    for hash_, author in sorted((court.nodes[one].hash, court.nodes[one].header.by) for one in bits(open_)):
        by[author] += 1
        known = members.get(author)
        if by[author] <= _MOST_TIPS or (known is not None and known.admin):
            found.append(hash_)
    return tuple(found[:_MOST_PARENTS])


def _devices(court: Court, verdict: Verdict, valid: int) -> tuple[dict[str, Member], dict[str, Removed]]:
    names: dict[str, str] = {}
    cuts = _cuts(court, valid)
    for one in bits(valid):  # the latest name counts
        entry = court.nodes[one].entry
        if isinstance(entry, Admit):
            names[entry.device.id] = entry.name
        elif isinstance(entry, Rename):
            names[entry.device] = entry.name
    members: dict[str, Member] = {}
    removed: dict[str, Removed] = {}
    for device, admissions in sorted(court.admits.items()):
        live = court.live(device, verdict)
        first = court.nodes[(admissions & -admissions).bit_length() - 1].entry
        assert isinstance(first, Found | Admit)
        name = names.get(device, first.name if isinstance(first, Admit) else "")
        if not live:
            held = admissions & valid  # what was overtaken gave no rights
            was_admin = any(court.gives(one, ADMIN) for one in bits(held))
            own = any(court.gives(one, OWN) for one in bits(held or admissions))
            removed[device] = Removed(
                first.device, name, cuts.get(device, {}), was_admin, "device" if own else "guest"
            )
            continue
        best = max(live, key=lambda one: (court.gives(one, ADMIN), court.gives(one, OWN), one))
        entry = court.nodes[best].entry
        kind, invite = (entry.role, entry.invite) if isinstance(entry, Admit) else ("device", None)
        since = court.nodes[live[0]].header.at
        admitted = (court.nodes[one].entry for one in bits(admissions))
        proofs = (entry.possession for entry in admitted if isinstance(entry, Admit))
        proof = next((proof for proof in proofs if proof is not None), None)
        members[device] = Member(first.device, name, court.gives(best, ADMIN), kind, since, invite, proof)
    return members, removed


def _cuts(court: Court, valid: int) -> dict[str, Cut]:
    """Per stream the largest an admin vouched for. What a device says of itself counts if nobody else removed it."""
    cuts: dict[str, Cut] = {}
    own: dict[str, Cut] = {}
    judged: set[str] = set()
    for one in bits(valid):
        entry = court.nodes[one].entry
        if isinstance(entry, Remove | Restore):
            leaves = isinstance(entry, Remove) and entry.by == entry.device
            if isinstance(entry, Remove) and not leaves:
                judged.add(entry.device)
            into = (own if leaves else cuts).setdefault(entry.device, {})
            _widen(into, entry.cut)
    for device, cut in own.items():
        if device not in judged:
            _widen(cuts.setdefault(device, {}), cut)
    return cuts


def _widen(into: Cut, cut: Cut) -> None:
    for writer, sessions in cut.items():
        known = into.setdefault(writer, {})
        for session, seq in sessions.items():
            known[session] = max(seq, known.get(session, 0))


def _keys(court: Court, valid: int, admins: set[str]) -> tuple[Key, ...]:
    """Those that were overtaken too: others may have sealed with them in good faith. They open, and seal no more.

    Of a device that is no admin the first few count: everybody is given all keys that do.
    """
    numbers: list[int] = []
    by: Counter[str] = Counter()
    for one in bits(court.authorised):
        if isinstance(court.nodes[one].entry, NewKey):
            author = court.nodes[one].header.by
            by[author] += 1
            if author in admins or by[author] <= _MOST_KEYS:
                numbers.append(one)
    followed = 0
    for one in numbers:
        if valid >> one & 1:
            followed |= court.nodes[one].above
    found = []
    for one in sorted(numbers, key=lambda one: (-court.nodes[one].generation, one)):
        entry = court.nodes[one].entry
        assert isinstance(entry, NewKey)
        superseded = bool(followed >> one & 1) or not valid >> one & 1
        found.append(Key(entry.id, frozenset(entry.recipients), court.nodes[one].hash, superseded))
    return tuple(found)


def _shares(court: Court, valid: int) -> tuple[SharedSession, ...]:
    found: dict[str, SharedSession] = {}
    for one in bits(valid):
        entry = court.nodes[one].entry
        if isinstance(entry, Share):
            found.setdefault(entry.share, SharedSession(entry.share, entry.founding, entry.session, entry.by))
    return tuple(found.values())


def _origins(court: Court, valid: int) -> dict[str, Origins]:
    """Of each session, the share that was named first; once anybody holds it as its own, it is the vault's own."""
    found: dict[str, Origins] = {}
    for one in bits(valid):
        entry = court.nodes[one].entry
        if isinstance(entry, Origin):
            known = found.get(entry.session)
            share = entry.share if known is None else known.share and entry.share and known.share
            guests = frozenset() if known is None else known.guests
            found[entry.session] = Origins(share, guests if entry.share is None else guests | {entry.by})
    return found


def _invites(court: Court, valid: int, admins: set[str]) -> tuple[Invited, ...]:
    """Keys that nothing can be sealed to are passed over, and of a device that is no admin the first few count: every
    new key is wrapped for all that do.
    """
    entries = [(court.nodes[one].hash, court.nodes[one].entry) for one in bits(valid)]
    ended = {entry.invite for _, entry in entries if isinstance(entry, Uninvite)}
    found: list[Invited] = []
    by: Counter[str] = Counter()
    for own, entry in entries:
        if not isinstance(entry, Invite):
            continue
        live = own not in ended
        by[entry.by] += live
        if entry.by in admins or by[entry.by] <= _MOST_INVITES or not live:
            keys = tuple(filter(_is_recipient, entry.recipients))[:_MOST_RECIPIENTS]
            found.append(Invited(own, entry.email, keys, entry.write, entry.secret, entry.expires, live, entry.by))
    return tuple(found)


@lru_cache(4096)  # bounded: whoever may invite decides how many there are
def _is_recipient(key: str) -> bool:
    try:
        return checked_recipient(key) == key
    except Invalid:
        return False
