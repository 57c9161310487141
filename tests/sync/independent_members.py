"""Vault membership computed from docs/internals/sync.md alone, without importing Holdfast.

Plain sets and no optimization: slow, and easy to compare with the page.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

GUEST, OWN, ADMIN = 1, 2, 3
SignedEntry = tuple[bytes, bytes]


def entry_hash(payload: bytes) -> str:
    return hashlib.sha256(b"holdfast entry\n" + payload).hexdigest()


def fingerprint(keys: dict[str, Any]) -> str:
    return hashlib.sha256(b"holdfast device 1\n" + keys["signing"] + keys["age"].encode()).digest()[:16].hex()


def signed_by(signing: bytes, domain: bytes, payload: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(signing).verify(signature, domain + payload)
    except (InvalidSignature, ValueError):
        return False
    return True


class ValidEntry(NamedTuple):
    hash: str
    fields: dict[str, Any]
    follows: frozenset[str]
    place: tuple[int, str]


class Verdict(NamedTuple):
    removals: frozenset[str]
    admissions: frozenset[str]


def counting_entries(entries: Iterable[SignedEntry], vault: str) -> dict[str, ValidEntry]:
    """The entries that count, in order."""
    copies: dict[str, list[SignedEntry]] = {}
    for payload, signature in entries:
        copies.setdefault(entry_hash(payload), []).append((payload, signature))
    waiting = {own: msgspec.msgpack.decode(valid[0][0]) for own, valid in copies.items()}
    valid: dict[str, ValidEntry] = {}
    while True:
        ready = [
            own
            for own, fields in waiting.items()
            if own == vault or (fields["parents"] and all(parent in valid for parent in fields["parents"]))
        ]
        if not ready:
            return dict(sorted(valid.items(), key=lambda item: item[1].place))
        for own in ready:
            fields = waiting.pop(own)
            if fields["parents"] != sorted(set(fields["parents"])) or fields["vault"] != (
                "" if own == vault else vault
            ):
                continue
            follows = frozenset(fields["parents"]).union(*(valid[parent].follows for parent in fields["parents"]))
            known = [fields] if own == vault else [valid[item].fields for item in follows]
            keys = [item["device"] for item in known if item["kind"] in ("found", "admit")]
            signing = next((key["signing"] for key in keys if fingerprint(key) == fields["by"]), b"")
            if own == vault and fields["kind"] != "found":
                continue
            if any(signed_by(signing, b"holdfast entry 1\n", *copy) for copy in copies[own]):
                generation = 1 + max((valid[parent].place[0] for parent in fields["parents"]), default=-1)
                valid[own] = ValidEntry(own, fields, follows, (generation, own))


class Members:
    """The entries of one vault after evaluation; results: `members`, `removed`, `keys`, `tips`."""

    def __init__(self, entries: Iterable[SignedEntry], vault: str) -> None:
        self.all = counting_entries(entries, vault)
        self.vault = vault
        self.single = vault in self.all and self.all[vault].fields["session"] is not None
        self.authorised: set[str] = set()
        self.need: dict[str, int] = {}
        for own, item in self.all.items():
            if own == vault or self._entitled(item):
                self.authorised.add(own)
        self.verdict = self.judge(frozenset(self.all))
        self.valid = {own for own in self.authorised if self._valid(own)}
        self._conclude()

    # ── small questions ──────────────────────────────────────────────────────────────────────────────────────

    def _kind(self, own: str) -> str:
        kind: str = self.all[own].fields["kind"]
        return kind

    def _of(self, within: AbstractSet[str], *kinds: str) -> list[str]:
        return [own for own in self.all if own in within and own in self.authorised and self._kind(own) in kinds]

    def _admits(self, own: str) -> str:
        return fingerprint(self.all[own].fields["device"])

    def _role(self, own: str) -> int:
        fields = self.all[own].fields
        return ADMIN if fields["kind"] == "found" or fields["admin"] else GUEST if fields["role"] == "guest" else OWN

    def holds(self, own: str, need: int, removals: AbstractSet[str], admissions: AbstractSet[str]) -> bool:
        one = self.all[own]
        by = one.fields["by"]
        threats = [
            each for each in removals if self.all[each].fields["device"] == by and own not in self.all[each].follows
        ]
        return any(
            self._admits(mine) == by and self._role(mine) >= need and self.all[mine].follows.issuperset(threats)
            for mine in admissions & one.follows
        )

    # ── who was entitled ─────────────────────────────────────────────────────────────────────────────────────

    def _entitled(self, one: ValidEntry) -> bool:
        fields, verdict = one.fields, self.judge(one.follows)
        need = GUEST
        match fields["kind"]:
            case "found":
                return False
            case "admit":
                return self._may_admit(one, verdict)
            case "rename":
                need = GUEST if fields["device"] == fields["by"] else ADMIN
            case "remove" | "restore":
                need = GUEST if fields["kind"] == "remove" and fields["device"] == fields["by"] else ADMIN
                if fields["device"] not in map(self._admits, self._of(one.follows, "found", "admit")):
                    return False
            case "share":
                payload, signature = msgspec.msgpack.decode(fields["founding"], type=SignedEntry)
                inner = msgspec.msgpack.decode(payload)
                genuine = signed_by(inner["device"]["signing"], b"holdfast entry 1\n", payload, signature)
                if self.single or not genuine or entry_hash(payload) != fields["share"]:
                    return False
            case "invite" | "uninvite":
                need = OWN
                if not self.single:
                    return False
                if fields["kind"] == "uninvite" and fields["invite"] not in self._of(one.follows, "invite"):
                    return False
        self.need[one.hash] = need
        return self.holds(one.hash, need, *verdict)

    def _may_admit(self, one: ValidEntry, verdict: Verdict) -> bool:
        fields = one.fields
        if fields["role"] == "guest" and (fields["admin"] or not self.single):
            return False
        if not self._proves(one):
            return False
        if fields["invite"] is not None and fields["invite"] not in self._of(one.follows, "invite"):
            return False
        self.need[one.hash] = ADMIN
        if self.holds(one.hash, ADMIN, *verdict):
            return True
        if fields["role"] != "guest" or fields["invite"] is None:
            return False
        invite = self.all[fields["invite"]].fields
        back = [
            own for own in self._of(one.follows, "uninvite") if self.all[own].fields["invite"] == fields["invite"]
        ]
        late = invite["expires"] is not None and fields["at"] > invite["expires"]
        self.need[one.hash] = OWN
        return invite["write"] and not late and not back and self._admission_holds(one.hash, *verdict)

    def _proves(self, one: ValidEntry) -> bool:
        """Whether the device has the signing key it names, or nobody with as many rights was known to have it."""
        device, proof = one.fields["device"], one.fields.get("possession")
        if proof is not None:
            return signed_by(device["signing"], b"holdfast possession 1\n", device["age"].encode(), proof)
        known = self._of(one.follows, "found", "admit")
        return self._admits(one.hash) in map(self._admits, known) or not any(
            self.all[own].fields["device"]["signing"] == device["signing"] and self._role(own) >= self._role(one.hash)
            for own in known
        )

    # ── judging a set ────────────────────────────────────────────────────────────────────────────────────────

    def judge(self, within: AbstractSet[str]) -> Verdict:
        removals = self._of(within, "remove")
        counting = self._counting(removals, within, spare=False)
        admissions = self._holding(counting, within)
        if counting and not self._governed(counting, admissions):
            counting = self._counting(removals, within, spare=True)
            admissions = self._holding(counting, within)
        ended = set()
        for taken in self._of(within, "uninvite"):
            if self.holds(taken, OWN, counting, admissions):
                for guest in admissions:
                    fields = self.all[guest].fields
                    apart = guest not in self.all[taken].follows and taken not in self.all[guest].follows
                    if (
                        fields.get("role") == "guest"
                        and fields["invite"] == self.all[taken].fields["invite"]
                        and apart
                    ):
                        ended.add(guest)
        return Verdict(frozenset(counting), frozenset(admissions - ended))

    def _admission_holds(self, own: str, removals: AbstractSet[str], admissions: AbstractSet[str]) -> bool:
        if own == self.vault:
            return True
        if self.need[own] == ADMIN:
            return self.holds(own, ADMIN, removals, admissions)
        invite = self.all[own].fields["invite"]
        return self.holds(invite, OWN, removals, admissions) and self.holds(own, OWN, removals, admissions)

    def _holding(self, removals: AbstractSet[str], within: AbstractSet[str]) -> set[str]:
        holding: set[str] = set()
        for own in self._of(within, "found", "admit"):
            if self._admission_holds(own, removals, holding):
                holding.add(own)
        return holding

    def _counting(self, removals: list[str], within: AbstractSet[str], *, spare: bool) -> set[str]:
        clear = self._holding(set(removals), within)
        rank = {own: self._seniority(own, clear) for own in removals}
        counting: set[str] = set()
        for own in sorted(removals, key=lambda one: (rank[one], self.all[one].place)):
            if self._counts(own, counting, clear, rank, within):
                more = counting | {own}
                if not spare or self._governed(more, self._holding(more, within)):
                    counting = more
        return counting

    def _seniority(self, own: str, clear: set[str]) -> tuple[bool, tuple[int, str]]:
        one = self.all[own]
        mine = [each for each in self._of(one.follows, "found", "admit") if self._admits(each) == one.fields["by"]]
        undisputed = [each for each in mine if each in clear]
        return not undisputed, self.all[(undisputed or mine)[0]].place

    def _counts(
        self,
        own: str,
        counting: set[str],
        clear: set[str],
        rank: dict[str, tuple[bool, tuple[int, str]]],
        within: AbstractSet[str],
    ) -> bool:
        one = self.all[own]
        by = one.fields["by"]
        leaves = one.fields["device"] == by
        holding = clear | self._holding(counting, within)
        against = [each for each in counting if self.all[each].fields["device"] == by]
        for each in against:
            apart = each not in one.follows and own not in self.all[each].follows
            if apart and not leaves and self.all[each].fields["by"] != by and rank[each] < rank[own]:
                return False
        known = {each for each in against if each in one.follows}
        return any(
            self._admits(mine) == by and (leaves or self._role(mine) == ADMIN) and self.all[mine].follows >= known
            for mine in holding & one.follows
        )

    def _governed(self, removals: AbstractSet[str], admissions: AbstractSet[str]) -> bool:
        return any(self._role(own) == ADMIN and self._lives(own, removals) for own in admissions)

    def _lives(self, own: str, removals: AbstractSet[str]) -> bool:
        device = self._admits(own)
        return all(name in self.all[own].follows for name in removals if self.all[name].fields["device"] == device)

    # ── what follows from it ─────────────────────────────────────────────────────────────────────────────────

    def _valid(self, own: str) -> bool:
        if self._kind(own) in ("found", "admit"):
            return own in self.verdict.admissions
        if self._kind(own) == "remove":
            return own in self.verdict.removals
        return self.holds(own, self.need[own], *self.verdict)

    def _conclude(self) -> None:
        admissions = self._of(self.all.keys(), "found", "admit")
        live = [
            own for own in admissions if own in self.verdict.admissions and self._lives(own, self.verdict.removals)
        ]
        self.keys_of = {self._admits(own): self.all[own].fields["device"] for own in admissions}
        self.members = {self._admits(own): max(map(self._role, self._same(own, live))) for own in live}
        self.removed = {device: self._cut(device) for device in self.keys_of if device not in self.members}
        self.keys = {self.all[own].fields["id"] for own in self._of(self.all.keys(), "key")}
        followed = frozenset[str]().union(*(self.all[own].follows for own in self.valid))
        self.tips = self._limited(sorted(self.valid - followed))

    def _limited(self, tips: list[str]) -> list[str]:
        """At most four from each author who is no admin, and 900 in total."""
        chosen: list[str] = []
        for own in tips:
            by = self.all[own].fields["by"]
            earlier = sum(self.all[name].fields["by"] == by for name in chosen)
            if earlier < 4 or self.members.get(by) == ADMIN:
                chosen.append(own)
        return chosen[:900]

    def _same(self, own: str, live: list[str]) -> list[str]:
        return [name for name in live if self._admits(name) == self._admits(own)]

    def _cut(self, device: str) -> dict[tuple[str, str], int]:
        removals = [self.all[own].fields for own in self.valid if self._kind(own) in ("remove", "restore")]
        about = [entry for entry in removals if entry["device"] == device]
        others = [entry for entry in about if entry["kind"] == "restore" or entry["by"] != device]
        judged = any(other["kind"] == "remove" for other in others)
        cut: dict[tuple[str, str], int] = {}
        for other in others if judged else about:
            for writer, sessions in other["cut"].items():
                for session, seq in sessions.items():
                    cut[writer, session] = max(seq, cut.get((writer, session), 0))
        return cut
