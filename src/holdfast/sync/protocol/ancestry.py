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
    ancestors: int  # everything it follows, however far
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
    for entry_hash in sorted(generation, key=lambda name: (generation[name], name)):
        header = headers[entry_hash]
        ancestors = 0
        for parent in header.parents:
            if parent not in numbers:
                rejected[entry_hash] = "it follows an entry that was rejected"
                break
            ancestors |= nodes[numbers[parent]].ancestors | 1 << numbers[parent]
        else:
            entry: MembershipEntry | None = None
            if entry_hash == vault:
                entry = founded_by(entry_hash, copies[entry_hash], verified)
                reason = None if entry else "the founding entry is malformed, or its signature is wrong"
            elif not named.get(header.by, 0) & ancestors:
                reason = "its author was never a member"
            elif not _genuine(entry_hash, copies[entry_hash], keys[header.by], verified):
                reason = "its signature is wrong"
            else:
                reason, entry = None, read(next(iter(copies[entry_hash])).payload)
            if reason is not None:
                rejected[entry_hash] = reason
                continue
            numbers[entry_hash] = len(nodes)
            if isinstance(entry, VaultFounded | Admit):
                device = entry.device.id
                keys[device] = entry.device
                named[device] = named.get(device, 0) | 1 << len(nodes)
            nodes.append(EntryNode(entry_hash, header, entry, ancestors, generation[entry_hash]))
    return Ancestry(nodes, numbers, keys, sorted(waiting), sorted(missing), sorted(rejected.items()))


def _headers(copies: dict[str, set[SignedEntry]], vault: str, rejected: dict[str, str]) -> dict[str, EntryHeader]:
    headers = {}
    for entry_hash, signed in copies.items():
        header = header_of(next(iter(signed)).payload)
        if header is None:
            rejected[entry_hash] = "it is not a membership entry"
        elif vault not in (entry_hash, header.vault):
            rejected[entry_hash] = "it belongs to another vault"
        elif entry_hash != vault and not header.parents:
            rejected[entry_hash] = "it has no parents"
        else:
            headers[entry_hash] = header
    return headers


def _order(
    headers: dict[str, EntryHeader], vault: str, rejected: dict[str, str]
) -> tuple[dict[str, int], set[str], set[str]]:
    """The generation of each entry whose ancestors are all here; the waiting entries; and what is missing."""
    followers: dict[str, list[str]] = {}
    missing_parents = {entry_hash: len(header.parents) for entry_hash, header in headers.items()}
    for entry_hash, header in headers.items():
        for parent in header.parents:
            followers.setdefault(parent, []).append(entry_hash)
    ready = [vault] if vault in headers else []
    generation = dict.fromkeys(ready, 0)
    for entry_hash in ready:
        for follower in followers.get(entry_hash, ()):
            generation[follower] = max(generation.get(follower, 0), generation[entry_hash] + 1)
            missing_parents[follower] -= 1
            if not missing_parents[follower]:
                ready.append(follower)
    to_reject = list(rejected)
    for entry_hash in to_reject:
        for follower in followers.get(entry_hash, ()):
            if follower not in rejected:
                rejected[follower] = "it follows an entry that was rejected"
                to_reject.append(follower)
    waiting = headers.keys() - set(ready) - rejected.keys()
    missing = (
        {parent for entry_hash in waiting for parent in headers[entry_hash].parents}
        - headers.keys()
        - rejected.keys()
    )
    return (
        {entry_hash: generation[entry_hash] for entry_hash in ready if entry_hash not in rejected},
        waiting,
        missing,
    )


def founded_by(entry_hash: str, copies: set[SignedEntry], verified: set[str]) -> VaultFounded | None:
    """The founding entry of a vault, if one of the copies is genuine."""
    for signed in copies:
        known = entry_hash + signed.signature.hex()
        entry = read(signed.payload) if known in verified else founding_of(signed)
        if isinstance(entry, VaultFounded):
            verified.add(known)
            return entry
    return None


def _genuine(entry_hash: str, copies: set[SignedEntry], keys: PublicKeys, verified: set[str]) -> bool:
    """Whether one of the copies has a good signature: a planted bad copy must not displace an entry."""
    for signed in copies:
        known = entry_hash + signed.signature.hex()
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
    combined = {**known, **new}
    headers = {name: header for name, signed in combined.items() if (header := header_of(signed.payload))}
    size_by_author: Counter[str] = Counter()
    for name, header in headers.items():
        size_by_author[header.by] += len(combined[name].payload)
    large = [author for author, size in size_by_author.items() if size > _MAX_OF_DEVICE]
    if not large:
        return {}
    membership, last = members(), len(ancestry.nodes)
    excess: dict[str, str] = {}
    for author in large:
        max_bytes = _max_bytes_of(author, membership, main)
        if max_bytes is None:
            continue
        needed = followed(
            headers.get,
            (
                entry_hash
                for entry_hash, header in headers.items()
                if header.by != author and not _is_guest(membership, header.by)
            ),
        )
        new_by_author = [name for name in new if headers[name].by == author]
        size = size_by_author[author] - sum(len(new[name].payload) for name in new_by_author)
        # Those that others follow come first, and none comes before its own ancestors.
        for name in sorted(
            new_by_author, key=lambda name: (name not in needed, ancestry.numbers.get(name, last), name)
        ):
            size += len(new[name].payload)
            if size > max_bytes and name not in needed:
                excess[name] = author
    return excess


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
    excess: dict[str, str] = {}
    # What is kept already comes first.
    for name in sorted(headers, key=lambda name: (name in new, len(headers[name].parents), name)):
        by = headers[name].by
        if members.is_admin(by) or name in needed:
            continue
        more = named.get(by, set()) | missing.intersection(headers[name].parents)
        if len(more) <= _MAX_MISSING:
            named[by] = more
        elif name in new:
            excess[name] = by
    return excess


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


def _max_bytes_of(device: str, members: Membership, main: Membership | None) -> int | None:
    """How many bytes of entries are kept of a device; None: no limit."""
    within = members if main is None else main
    known = within.members.get(device) or within.removed.get(device)
    if known is None or not known.admin:
        return _MAX_OF_DEVICE
    return _MAX_OF_FOREIGN_ADMIN if main is None and members.session is not None else None


def _is_guest(members: Membership, device: str) -> bool:
    known = members.members.get(device) or members.removed.get(device)
    return known is None or known.kind == "guest"
