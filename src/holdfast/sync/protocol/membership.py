"""Evaluate membership: who belongs to a vault, its keys and its shares, as a pure function of the set of entries.

The order in which entries arrive, and how often, makes no difference: devices that have the same entries agree.
`ancestry` says which entries are genuine, `membership_rules` which of them count, and this module what follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from holdfast.core.errors import Invalid
from holdfast.sync.protocol.ancestry import bits, trace
from holdfast.sync.protocol.entries import (
    Admit,
    Cut,
    Guests,
    Invite,
    NewKey,
    Origin,
    Remove,
    Rename,
    Restore,
    ShareEntry,
    SignedEntry,
    Uninvite,
    VaultFounded,
)
from holdfast.sync.protocol.membership_rules import ADMIN, NOT_GUEST, MembershipRules, MembershipVerdict
from holdfast.sync.protocol.sealing import recipient_tag
from holdfast.workspace.keys.device_keys import PublicKeys, certifies, check_recipient

# For a device without admin rights: how many of its newest entries a new one follows; how many keys count.
_MAX_TIPS: Final = 4
_MAX_KEYS: Final = 64
_MAX_INVITES: Final = 32
_MAX_RECIPIENTS: Final = 64
# Fewer than a head or an entry may name.
_MAX_PARENTS: Final = 900


class VaultMember(msgspec.Struct, frozen=True):
    keys: PublicKeys
    name: str
    admin: bool
    kind: str
    since: int
    invite: str | None = None  # a guest's invitation
    possession: bytes | None = None  # proves that it has its signing key; earlier versions gave none


class RemovedDevice(msgspec.Struct, frozen=True):
    """A removed device; `cut`: up to where its events are accepted."""

    keys: PublicKeys
    name: str
    cut: dict[str, dict[str, int]]
    # Its role while it belonged to the vault.
    admin: bool = False
    kind: str = "device"


class VaultKey(msgspec.Struct, frozen=True):
    """A key that opens objects of the vault. `superseded`: nothing is sealed with it any more."""

    id: str
    recipients: frozenset[str]
    entry: str
    superseded: bool


class SharedSession(msgspec.Struct, frozen=True):
    vault: str
    founding: bytes
    session: str
    by: str


class Invitation(msgspec.Struct, frozen=True):
    """`live`: it was not revoked. Whether it has expired depends on the reader's clock."""

    hash: str
    email: str
    recipients: tuple[str, ...]
    write: bool
    secret: bytes
    expires: int | None
    live: bool
    by: str


class Origins(msgspec.Struct, frozen=True):
    """What the devices of a vault announced about how one session came to it."""

    # The share it came through; None when a device holds a session of this id as its own.
    share: str | None
    # Every device that announced that it came through a share.
    guests: frozenset[str]


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    vault: str
    session: str | None = None
    founder: str = ""
    box: str = ""
    members: dict[str, VaultMember] = {}
    removed: dict[str, RemovedDevice] = {}
    keys: tuple[VaultKey, ...] = ()  # the one to seal with first
    shares: tuple[SharedSession, ...] = ()
    invites: tuple[Invitation, ...] = ()
    origins: dict[str, Origins] = {}  # by session; most sessions have none
    guests: dict[str, frozenset[bytes]] = {}  # by session: signing keys of guests of shares that lie elsewhere
    tips: tuple[str, ...] = ()  # what a new entry follows
    waiting: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # the missing ancestors of waiting entries
    rejected: tuple[tuple[str, str], ...] = ()
    overtaken: tuple[str, ...] = ()  # authorised, but undone by a concurrent removal of its author

    def is_member(self, device: str) -> bool:
        return device in self.members

    def is_admin(self, device: str) -> bool:
        member = self.members.get(device)
        return member is not None and member.admin

    def everybody(self) -> tuple[VaultMember | RemovedDevice, ...]:
        """Every present and removed device of the vault."""
        return (*self.members.values(), *self.removed.values())

    def author_of(self, writer: str) -> VaultMember | RemovedDevice | None:
        """The device that a certified writer id names, if it ever belonged to the vault.

        Earlier versions let in devices that named another's signing key. Only one of them can have it: the one with
        the most rights counts as the author.
        """
        candidates = (device for device in self.everybody() if certifies(writer, device.keys.signing))
        return max(candidates, key=lambda device: (device.admin, device.kind != "guest"), default=None)

    def signing_of(self, device: str) -> bytes | None:
        known = self.members.get(device) or self.removed.get(device)
        return None if known is None else known.keys.signing

    def accepted(self, device: str, writer: str, session: str, seq: int) -> int:
        """Up to where a stream counts that this device vouches for up to `seq`: less if the device was removed."""
        if device in self.members:
            return seq
        removed = self.removed.get(device)
        return 0 if removed is None else min(seq, removed.cut.get(writer, {}).get(session, 0))

    def recipient_keys(self) -> tuple[str, ...]:
        """The recipients that a new key must be wrapped for."""
        keys = {member.keys.age for member in self.members.values()}
        return tuple(sorted(keys.union(*(invite.recipients for invite in self.invites if invite.live))))

    def recipients(self) -> frozenset[str]:
        """Their tags, as entries name them."""
        return frozenset(map(recipient_tag, self.recipient_keys()))

    def usable_keys(self) -> tuple[VaultKey, ...]:
        """Keys that only members have, the one to use first; empty when a new one has to be made."""
        recipients = self.recipients()
        return tuple(key for key in self.keys if not key.superseded and key.recipients <= recipients)


def evaluate(entries: Iterable[SignedEntry], vault: str, *, verified: set[str] | None = None) -> Membership:
    """Evaluate a set of entries. `verified` caches good signatures for the caller."""
    verified = set() if verified is None else verified
    ancestry = trace(entries, vault, verified)
    if not ancestry.nodes:
        return Membership(
            vault=vault,
            waiting=tuple(ancestry.waiting),
            missing=tuple(ancestry.missing),
            rejected=tuple(ancestry.rejected),
        )
    rules = MembershipRules(ancestry, verified)
    nodes = ancestry.nodes
    verdict = rules.judge((1 << len(nodes)) - 1)
    valid = sum(1 << number for number in bits(rules.authorised) if rules.valid(number, verdict))
    followed = 0
    for number in bits(valid):
        followed |= nodes[number].ancestors
    founding = nodes[0].entry
    assert isinstance(founding, VaultFounded)
    members, removed = _devices(rules, verdict, valid)
    rejected = ancestry.rejected + [(nodes[number].hash, reason) for number, reason in rules.refused.items()]
    return Membership(
        vault=vault,
        session=founding.session,
        founder=founding.by,
        box=founding.box,
        members=members,
        removed=removed,
        keys=_keys(rules, valid, _admins(members) | _admins(removed)),
        shares=_shares(rules, valid),
        invites=_invites(rules, valid, _admins(members) | _admins(removed) | {founding.by}),
        origins=_origins(rules, valid),
        guests=_guests(rules, valid),
        tips=_tips(rules, members, valid & ~followed),
        waiting=tuple(ancestry.waiting),
        missing=tuple(ancestry.missing),
        rejected=tuple(sorted(rejected)),
        overtaken=tuple(sorted(nodes[number].hash for number in bits(rules.authorised & ~valid))),
    )


def _admins(devices: Mapping[str, VaultMember | RemovedDevice]) -> set[str]:
    return {device for device, known in devices.items() if known.admin}


def _tips(rules: MembershipRules, members: dict[str, VaultMember], unfollowed: int) -> tuple[str, ...]:
    """What a new entry follows: only few entries of a device without admin rights, which could make any number.

    Entries that no other entry follows count all the same, and are undone when their author is removed.
    """
    tips: list[str] = []
    count_by_author: Counter[str] = Counter()
    for hash_, author in sorted(
        (rules.nodes[number].hash, rules.nodes[number].header.by) for number in bits(unfollowed)
    ):
        count_by_author[author] += 1
        known = members.get(author)
        if count_by_author[author] <= _MAX_TIPS or (known is not None and known.admin):
            tips.append(hash_)
    return tuple(tips[:_MAX_PARENTS])


def _devices(
    rules: MembershipRules, verdict: MembershipVerdict, valid: int
) -> tuple[dict[str, VaultMember], dict[str, RemovedDevice]]:
    names: dict[str, str] = {}
    cuts = _cuts(rules, valid)
    for number in bits(valid):  # the latest name counts
        entry = rules.nodes[number].entry
        if isinstance(entry, Admit):
            names[entry.device.id] = entry.name
        elif isinstance(entry, Rename):
            names[entry.device] = entry.name
    members: dict[str, VaultMember] = {}
    removed: dict[str, RemovedDevice] = {}
    for device, admissions in sorted(rules.admits.items()):
        live = rules.live(device, verdict)
        first = rules.nodes[(admissions & -admissions).bit_length() - 1].entry
        assert isinstance(first, VaultFounded | Admit)
        name = names.get(device, first.name if isinstance(first, Admit) else "")
        if not live:
            counted = admissions & valid  # overtaken admissions gave no rights
            was_admin = any(rules.gives(number, ADMIN) for number in bits(counted))
            not_guest = any(rules.gives(number, NOT_GUEST) for number in bits(counted or admissions))
            removed[device] = RemovedDevice(
                first.device, name, cuts.get(device, {}), was_admin, "device" if not_guest else "guest"
            )
            continue
        best = max(
            live, key=lambda admission: (rules.gives(admission, ADMIN), rules.gives(admission, NOT_GUEST), admission)
        )
        entry = rules.nodes[best].entry
        kind, invite = (entry.role, entry.invite) if isinstance(entry, Admit) else ("device", None)
        since = rules.nodes[live[0]].header.at
        admitted = (rules.nodes[number].entry for number in bits(admissions))
        proofs = (entry.possession for entry in admitted if isinstance(entry, Admit))
        proof = next((proof for proof in proofs if proof is not None), None)
        members[device] = VaultMember(first.device, name, rules.gives(best, ADMIN), kind, since, invite, proof)
    return members, removed


def _cuts(rules: MembershipRules, valid: int) -> dict[str, Cut]:
    """By device, the largest cut of each stream. A device's removal of itself counts only if it is the only one."""
    cuts: dict[str, Cut] = {}
    departures: dict[str, Cut] = {}
    removed_by_others: set[str] = set()
    for number in bits(valid):
        entry = rules.nodes[number].entry
        if isinstance(entry, Remove | Restore):
            is_departure = isinstance(entry, Remove) and entry.by == entry.device
            if isinstance(entry, Remove) and not is_departure:
                removed_by_others.add(entry.device)
            into = (departures if is_departure else cuts).setdefault(entry.device, {})
            _merge_cut(into, entry.cut)
    for device, cut in departures.items():
        if device not in removed_by_others:
            _merge_cut(cuts.setdefault(device, {}), cut)
    return cuts


def _merge_cut(into: Cut, cut: Cut) -> None:
    for writer, sessions in cut.items():
        known = into.setdefault(writer, {})
        for session, seq in sessions.items():
            known[session] = max(seq, known.get(session, 0))


def _keys(rules: MembershipRules, valid: int, admins: set[str]) -> tuple[VaultKey, ...]:
    """All keys, newest first. Overtaken ones open but seal no more: others may have used them in good faith.

    Of a device without admin rights the first few count, since every member gets all keys.
    """
    numbers: list[int] = []
    count_by_author: Counter[str] = Counter()
    for number in bits(rules.authorised):
        if isinstance(rules.nodes[number].entry, NewKey):
            author = rules.nodes[number].header.by
            count_by_author[author] += 1
            if author in admins or count_by_author[author] <= _MAX_KEYS:
                numbers.append(number)
    followed = 0
    for number in numbers:
        if valid >> number & 1:
            followed |= rules.nodes[number].ancestors
    keys = []
    for number in sorted(numbers, key=lambda item: (-rules.nodes[item].generation, item)):
        entry = rules.nodes[number].entry
        assert isinstance(entry, NewKey)
        superseded = bool(followed >> number & 1) or not valid >> number & 1
        keys.append(VaultKey(entry.id, frozenset(entry.recipients), rules.nodes[number].hash, superseded))
    return tuple(keys)


def _shares(rules: MembershipRules, valid: int) -> tuple[SharedSession, ...]:
    shares: dict[str, SharedSession] = {}
    for number in bits(valid):
        entry = rules.nodes[number].entry
        if isinstance(entry, ShareEntry):
            shares.setdefault(entry.share, SharedSession(entry.share, entry.founding, entry.session, entry.by))
    return tuple(shares.values())


def _origins(rules: MembershipRules, valid: int) -> dict[str, Origins]:
    """By session, the share announced first; once any device holds the session as its own, it is the vault's own."""
    origins: dict[str, Origins] = {}
    for number in bits(valid):
        entry = rules.nodes[number].entry
        if isinstance(entry, Origin):
            known = origins.get(entry.session)
            share = entry.share if known is None else known.share and entry.share and known.share
            guests = frozenset() if known is None else known.guests
            origins[entry.session] = Origins(share, guests if entry.share is None else guests | {entry.by})
    return origins


def _guests(rules: MembershipRules, valid: int) -> dict[str, frozenset[bytes]]:
    guests: dict[str, frozenset[bytes]] = {}
    for item in bits(valid):
        entry = rules.nodes[item].entry
        if isinstance(entry, Guests):
            guests[entry.session] = guests.get(entry.session, frozenset()) | set(entry.keys)
    return guests


def _invites(rules: MembershipRules, valid: int, admins: set[str]) -> tuple[Invitation, ...]:
    """All invitations, without unusable keys. Of a device without admin rights the first few live ones count, since
    every new key is wrapped for all of them.
    """
    entries = [(rules.nodes[number].hash, rules.nodes[number].entry) for number in bits(valid)]
    ended = {entry.invite for _, entry in entries if isinstance(entry, Uninvite)}
    invites: list[Invitation] = []
    count_by_author: Counter[str] = Counter()
    for entry_hash, entry in entries:
        if not isinstance(entry, Invite):
            continue
        live = entry_hash not in ended
        count_by_author[entry.by] += live
        if entry.by in admins or count_by_author[entry.by] <= _MAX_INVITES or not live:
            keys = tuple(filter(_is_recipient, entry.recipients))[:_MAX_RECIPIENTS]
            invites.append(
                Invitation(entry_hash, entry.email, keys, entry.write, entry.secret, entry.expires, live, entry.by)
            )
    return tuple(invites)


@lru_cache(4096)  # bounded: a hostile inviter could name any number
def _is_recipient(key: str) -> bool:
    try:
        return check_recipient(key) == key
    except Invalid:
        return False
