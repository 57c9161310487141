"""Devices that publish membership entries, each based on the entries it knows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from typing import Any

from holdfast.sync.protocol.entries import (
    Admit,
    MembershipEntry,
    NewKey,
    Remove,
    SignedEntry,
    VaultFounded,
    hash_of,
    header_of,
    sign,
)
from holdfast.sync.protocol.membership import Membership, evaluate
from holdfast.sync.protocol.sealing import recipient_tag
from holdfast.workspace.keys import age
from holdfast.workspace.keys.device_keys import DeviceKeys, PublicKeys

VERIFIED: set[str] = set()


@cache
def keys_of(name: str) -> DeviceKeys:
    """The same keys for the same name in every run: hashes decide ties."""
    seed = hashlib.sha256(name.encode()).digest()
    return DeviceKeys(seed, age.identity(hashlib.sha256(seed).digest()))


def id_of(name: str) -> str:
    return keys_of(name).public.id


class Acts:
    """All membership entries of one vault; each follows `after`, or all earlier entries."""

    def __init__(self, founder: str = "ann", session: str | None = None, nonce: int = 0) -> None:
        self.founding = sign(
            keys_of(founder),
            VaultFounded(
                vault="",
                parents=(),
                by=id_of(founder),
                at=0,
                device=keys_of(founder).public,
                nonce=nonce.to_bytes(16),
                box=keys_of("box").public.age,
                session=session,
            ),
        )
        self.vault = hash_of(self.founding.payload)
        self.entries: dict[str, SignedEntry] = {self.vault: self.founding}
        self.clock = 0

    def add_entry(
        self, by: str, kind: type[MembershipEntry], *, after: Iterable[str] | None = None, **fields: Any
    ) -> str:
        self.clock += 1
        parents = self.ends() if after is None else after
        entry = kind(vault=self.vault, parents=tuple(sorted(set(parents))), by=id_of(by), at=self.clock, **fields)
        return self.put(sign(keys_of(by), entry))

    def put(self, signed: SignedEntry) -> str:
        own = hash_of(signed.payload)
        self.entries[own] = signed
        return own

    def admit(
        self,
        by: str,
        name: str,
        *,
        admin: bool = True,
        role: str = "device",
        invite: str | None = None,
        after: Iterable[str] | None = None,
        signing: str | None = None,
        possession: bytes | None = None,
    ) -> str:
        """`signing`: use this name's signing key, with an age key of its own."""
        device = keys_of(name).public
        if signing is not None:
            device = PublicKeys(keys_of(signing).public.signing, device.age)
        return self.add_entry(
            by, Admit, after=after, device=device, name=name, admin=admin, role=role, invite=invite,
            possession=possession,
        )  # fmt: skip

    def remove(
        self, by: str, name: str, *, after: Iterable[str] | None = None, cut: dict[str, dict[str, int]] | None = None
    ) -> str:
        return self.add_entry(by, Remove, after=after, device=id_of(name), cut=cut or {})

    def ends(self) -> set[str]:
        """Hashes of entries that no other entry follows."""
        followed: set[str] = set()
        for signed in self.entries.values():
            header = header_of(signed.payload)
            followed |= set(header.parents if header else ())
        return set(self.entries) - followed

    def evaluate(self, without: Iterable[str] = ()) -> Membership:
        left_out = set(without)
        chosen = [signed for own, signed in self.entries.items() if own not in left_out]
        return evaluate(chosen, self.vault, verified=VERIFIED)

    def names(self) -> set[str]:
        return names(self.evaluate())


def names(members: Membership) -> set[str]:
    """Names of the members; the founder, whose name is in no entry, is `ann`."""
    return {member.name or "ann" for member in members.members.values()}


def tag_of(name: str) -> str:
    return recipient_tag(keys_of(name).public.age)


def team(*others: str, session: str | None = None) -> Acts:
    """A vault of ann, who admits the others in order, all as admins: the earlier, the more senior."""
    acts = Acts(session=session)
    for other in others:
        acts.admit("ann", other)
    return acts


def reasons(acts: Acts) -> dict[str, str]:
    return dict(acts.evaluate().rejected)


def new_key(acts: Acts, by: str, number: int, *recipients: str, after: Iterable[str] | None = None) -> str:
    return acts.add_entry(by, NewKey, after=after, id=f"{number:032x}", recipients=tuple(map(tag_of, recipients)))


def current_key(acts: Acts) -> int | None:
    key = next(iter(acts.evaluate().usable_keys()), None)
    return None if key is None else int(key.id, 16)
