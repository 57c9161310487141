"""Which membership entries are genuine, what each of them follows, and how many are kept of one device.

An entry is genuine when it is whole, of this vault, follows genuine entries, and is signed by the keys that one of
its ancestors names. Whether its author was entitled to it is another question (`membership_rules`). Sets of entries
are integers, one bit each, in the order of generation and hash: ancestors always have the lower numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.sync.protocol.entries import (
    Admit,
    EntryHeader,
    MembershipEntry,
    SignedEntry,
    VaultFounded,
    founding_of,
    hash_of,
    header_of,
    read,
)
from holdfast.workspace.keys.device_keys import ENTRY, PublicKeys, verify

if TYPE_CHECKING:
    from holdfast.sync.protocol.membership import Membership


class EntryNode(NamedTuple):
    hash: str
    header: EntryHeader
    entry: MembershipEntry | None  # None: of an unknown kind, or malformed
    above: int  # everything it follows, however far
    generation: int  # the longest way from the founding entry


class Ancestry(NamedTuple):
    nodes: list[EntryNode]  # the founding entry first; empty without one
    numbers: dict[str, int]  # by hash
    keys: dict[str, PublicKeys]
    waiting: list[str]
    missing: list[str]  # the missing ancestors of waiting entries
    rejected: list[tuple[str, str]]


def bits(mask: int) -> Iterator[int]:
    """The numbers of the entries in a set, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def trace(entries: Iterable[SignedEntry], vault: str, verified: set[str]) -> Ancestry:
    """Sort out entries. `verified` caches good signatures: checking them takes the most time."""
    copies: dict[str, set[SignedEntry]] = {}
    for signed in entries:
        copies.setdefault(hash_of(signed.payload), set()).add(signed)
    rejected: dict[str, str] = {}
    headers = _headers(copies, vault, rejected)
    generation, waiting, missing = _order(headers, vault, rejected)
    nodes: list[EntryNode] = []
    numbers: dict[str, int] = {}
    keys: dict[str, PublicKeys] = {}
    named: dict[str, int] = {}  # by device: the entries that bring its keys
    for own in sorted(generation, key=lambda name: (generation[name], name)):
        header = headers[own]
        above = 0
        for parent in header.parents:
            if parent not in numbers:
                rejected[own] = "it follows an entry that was rejected"
                break
            above |= nodes[numbers[parent]].above | 1 << numbers[parent]
        else:
            entry: MembershipEntry | None = None
            if own == vault:
                entry = founded_by(own, copies[own], verified)
                reason = None if entry else "the founding entry is malformed, or its signature is wrong"
            elif not named.get(header.by, 0) & above:
                reason = "its author was never let in"
            elif not _genuine(own, copies[own], keys[header.by], verified):
                reason = "its signature is wrong"
            else:
                reason, entry = None, read(next(iter(copies[own])).payload)
            if reason is not None:
                rejected[own] = reason
                continue
            numbers[own] = len(nodes)
            if isinstance(entry, VaultFounded | Admit):
                device = entry.device.id
                keys[device] = entry.device
                named[device] = named.get(device, 0) | 1 << len(nodes)
            nodes.append(EntryNode(own, header, entry, above, generation[own]))
    return Ancestry(nodes, numbers, keys, sorted(waiting), sorted(missing), sorted(rejected.items()))


def _headers(copies: dict[str, set[SignedEntry]], vault: str, rejected: dict[str, str]) -> dict[str, EntryHeader]:
    headers = {}
    for own, signed in copies.items():
        header = header_of(next(iter(signed)).payload)
        if header is None:
            rejected[own] = "it is not a membership entry"
        elif vault not in (own, header.vault):
            rejected[own] = "it belongs to another vault"
        elif own != vault and not header.parents:
            rejected[own] = "it follows nothing"
        else:
            headers[own] = header
    return headers


def _order(
    headers: dict[str, EntryHeader], vault: str, rejected: dict[str, str]
) -> tuple[dict[str, int], set[str], set[str]]:
    """The generation of each entry whose ancestors are all here; the waiting entries; and what is missing."""
    followers: dict[str, list[str]] = {}
    open_parents = {own: len(header.parents) for own, header in headers.items()}
    for own, header in headers.items():
        for parent in header.parents:
            followers.setdefault(parent, []).append(own)
    ready = [vault] if vault in headers else []
    generation = dict.fromkeys(ready, 0)
    for own in ready:
        for follower in followers.get(own, ()):
            generation[follower] = max(generation.get(follower, 0), generation[own] + 1)
            open_parents[follower] -= 1
            if not open_parents[follower]:
                ready.append(follower)
    doomed = list(rejected)
    for own in doomed:
        for follower in followers.get(own, ()):
            if follower not in rejected:
                rejected[follower] = "it follows an entry that was rejected"
                doomed.append(follower)
    waiting = headers.keys() - set(ready) - rejected.keys()
    missing = {parent for own in waiting for parent in headers[own].parents} - headers.keys() - rejected.keys()
    return {own: generation[own] for own in ready if own not in rejected}, waiting, missing


def founded_by(own: str, copies: set[SignedEntry], verified: set[str]) -> VaultFounded | None:
    """The founding entry of a vault, if one of the copies is genuine."""
    for signed in copies:
        known = own + signed.signature.hex()
        entry = read(signed.payload) if known in verified else founding_of(signed)
        if isinstance(entry, VaultFounded):
            verified.add(known)
            return entry
    return None


def _genuine(own: str, copies: set[SignedEntry], keys: PublicKeys, verified: set[str]) -> bool:
    """Whether one of the copies has a good signature: a planted bad copy must not displace an entry."""
    for signed in copies:
        known = own + signed.signature.hex()
        if known in verified:
            return True
        if verify(keys.signing, ENTRY, signed.payload, signed.signature):
            verified.add(known)
            return True
    return False


# Bytes. Admins of our own vault are not bounded; those of who shares a session with us are.
_MAX_OF_DEVICE: Final = 16 << 20
_MAX_OF_FOREIGN_ADMIN: Final = 64 << 20
# How many missing entries those of a device without admin rights may wait for: more than one entry names.
_MAX_MISSING: Final = 2_000


def over_size_limit(
    known: Mapping[str, SignedEntry],
    new: Mapping[str, SignedEntry],
    ancestry: Ancestry,
    members: Callable[[], Membership],
    main: Membership | None,
) -> dict[str, str]:
    """The new entries that exceed the bytes kept of their author, with the author.

    Devices that may make entries could otherwise fill the disks of all. An entry that is not kept counts as unknown,
    so ancestors of another device's entries are always kept. `ancestry` and `members` are of all entries together;
    `main` is the membership of our own vault, for entries of a share of it.
    """
    together = {**known, **new}
    headers = {name: header for name, signed in together.items() if (header := header_of(signed.payload))}
    size_by_author: Counter[str] = Counter()
    for name, header in headers.items():
        size_by_author[header.by] += len(together[name].payload)
    large = [author for author, size in size_by_author.items() if size > _MAX_OF_DEVICE]
    if not large:
        return {}
    judged, last = members(), len(ancestry.nodes)
    over: dict[str, str] = {}
    for author in large:
        max_entries = _max_entries_of(author, judged, main)
        if max_entries is None:
            continue
        needed = followed(
            headers.get,
            (own for own, header in headers.items() if header.by != author and not _is_guest(judged, header.by)),
        )
        theirs = [name for name in new if headers[name].by == author]
        size = size_by_author[author] - sum(len(new[name].payload) for name in theirs)
        # Those that others follow come first, and none comes before its own ancestors.
        for name in sorted(theirs, key=lambda name: (name not in needed, ancestry.numbers.get(name, last), name)):
            size += len(new[name].payload)
            if size > max_entries and name not in needed:
                over[name] = author
    return over


def over_missing_limit(
    known: Mapping[str, SignedEntry], new: Mapping[str, SignedEntry], ancestry: Ancestry, members: Membership
) -> dict[str, str]:
    """The new entries that wait for too many missing ones, with the author.

    Ancestors of an admin's entries are kept.
    """
    missing = set(ancestry.missing)
    if len(missing) <= _MAX_MISSING:
        return {}
    headers = {
        name: header
        for name in ancestry.waiting
        if (signed := new.get(name) or known.get(name)) is not None  # others are wrongly signed
        and (header := header_of(signed.payload)) is not None
    }
    needed = followed(headers.get, (name for name, header in headers.items() if members.is_admin(header.by)))
    named: dict[str, set[str]] = {}
    over: dict[str, str] = {}
    # What is kept already comes first.
    for name in sorted(headers, key=lambda name: (name in new, len(headers[name].parents), name)):
        by = headers[name].by
        if members.is_admin(by) or name in needed:
            continue
        more = named.get(by, set()) | missing.intersection(headers[name].parents)
        if len(more) <= _MAX_MISSING:
            named[by] = more
        elif name in new:
            over[name] = by
    return over


def followed(header_of: Callable[[str], EntryHeader | None], names: Iterable[str]) -> set[str]:
    """Everything that these entries follow, however far."""
    ancestors: set[str] = set()
    waiting = list(names)
    while waiting:
        header = header_of(waiting.pop())
        for parent in () if header is None else header.parents:
            if parent not in ancestors:
                ancestors.add(parent)
                waiting.append(parent)
    return ancestors


def _max_entries_of(device: str, members: Membership, main: Membership | None) -> int | None:
    """How many bytes of entries are kept of a device; None: no limit."""
    within = members if main is None else main
    known = within.members.get(device) or within.removed.get(device)
    if known is None or not known.admin:
        return _MAX_OF_DEVICE
    return _MAX_OF_FOREIGN_ADMIN if main is None and members.session is not None else None


def _is_guest(members: Membership, device: str) -> bool:
    known = members.members.get(device) or members.removed.get(device)
    return known is None or known.kind == "guest"
