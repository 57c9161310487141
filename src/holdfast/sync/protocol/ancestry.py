"""Which membership entries stand, and what each of them follows.

An entry stands when it is whole, of this vault, follows entries that stand, and is signed by the keys that one of its
forerunners names. Whether its author was entitled to say it is another question (`rights`). Sets of entries are
integers, one bit each, in the order of generation and hash: forerunners always have the lower numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from holdfast.sync.protocol.entries import (
    Admit,
    Header,
    MembershipEntry,
    Signed,
    VaultFounded,
    founding_of,
    hash_of,
    header_of,
    read,
)
from holdfast.workspace.keys.device_keys import ENTRY, PublicKeys, verify


class EntryNode(NamedTuple):
    hash: str
    header: Header
    entry: MembershipEntry | None  # None: of a kind that is not known here, or malformed
    above: int  # everything it follows, however far
    generation: int  # the longest way from the founding entry


class Ancestry(NamedTuple):
    nodes: list[EntryNode]  # the founding entry first; empty without one
    numbers: dict[str, int]  # by hash
    keys: dict[str, PublicKeys]
    waiting: list[str]
    missing: list[str]  # what those that wait are waiting for
    rejected: list[tuple[str, str]]


def bits(mask: int) -> Iterator[int]:
    """The numbers of the entries in a set, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def trace(entries: Iterable[Signed], vault: str, verified: set[str]) -> Ancestry:
    """`verified` remembers signatures that were found good: they are what takes time."""
    copies: dict[str, set[Signed]] = {}
    for signed in entries:
        copies.setdefault(hash_of(signed.payload), set()).add(signed)
    rejected: dict[str, str] = {}
    headers = _headers(copies, vault, rejected)
    generation, waiting, missing = _order(headers, vault, rejected)
    nodes: list[EntryNode] = []
    numbers: dict[str, int] = {}
    keys: dict[str, PublicKeys] = {}
    named: dict[str, int] = {}  # the entries that bring a device's keys
    for own in sorted(generation, key=lambda one: (generation[one], one)):
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
                reason = None if entry else "it founds nothing: it is malformed, or its signature is wrong"
            elif not named.get(header.by, 0) & above:
                reason = "it is by a device that nobody has let in"
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


def _headers(copies: dict[str, set[Signed]], vault: str, rejected: dict[str, str]) -> dict[str, Header]:
    headers = {}
    for own, signed in copies.items():
        header = header_of(next(iter(signed)).payload)
        if header is None:
            rejected[own] = "it is no membership entry"
        elif vault not in (own, header.vault):
            rejected[own] = "it belongs to another vault"
        elif own != vault and not header.parents:
            rejected[own] = "it follows nothing"
        else:
            headers[own] = header
    return headers


def _order(
    headers: dict[str, Header], vault: str, rejected: dict[str, str]
) -> tuple[dict[str, int], set[str], set[str]]:
    """The generation of each entry whose forerunners are all here; what waits; and what it waits for."""
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


def founded_by(own: str, copies: set[Signed], verified: set[str]) -> VaultFounded | None:
    """The founding entry of a vault, if one of the copies is genuine."""
    for signed in copies:
        known = own + signed.signature.hex()
        found = read(signed.payload) if known in verified else founding_of(signed)
        if isinstance(found, VaultFounded):
            verified.add(known)
            return found
    return None


def _genuine(own: str, copies: set[Signed], keys: PublicKeys, verified: set[str]) -> bool:
    """Whether one of the copies is signed well: nobody can push an entry out by planting a bad copy of it."""
    for signed in copies:
        known = own + signed.signature.hex()
        if known in verified:
            return True
        if verify(keys.signing, ENTRY, signed.payload, signed.signature):
            verified.add(known)
            return True
    return False
