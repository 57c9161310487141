"""Which membership entries count, when devices act without knowing of each other.

1. An entry is *authorised* when its author was entitled to it, judged only by what the entry follows. That never
   changes, so all devices agree on it; a device that knew of its removal is not authorised.
2. Given a set of removals, an entry *holds* when its author was let in, by an admission that itself holds, with the
   needed role, and every one of these removals of its author either knew the entry (follows it) or was known to that
   admission (the device was let in again).
3. An admission that holds even if every removal counted is *clear*. A device's seniority, as the author of a removal,
   is its earliest clear admission among what the removal follows; those who have none come after all who have one.
4. Removals are decided from the most senior author to the least, then by generation and hash. One counts when it
   holds against those that were found to count before it, except that concurrent removals of its author by a junior
   do not hinder it: of two that remove each other the senior stays. A device may always leave by itself.
5. Should no device be left that may admit others, they are decided once more, and a removal that would take the last
one does not count. Everything else then counts when it holds against the removals that count. A guest's admission
ends, besides, when its invitation was taken back by someone who did not know of it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.sync.protocol.ancestry import Ancestry, EntryNode, bits, founded_by
from holdfast.sync.protocol.entries import (
    Admit,
    Guests,
    Invite,
    Remove,
    Rename,
    Restore,
    ShareEntry,
    Uninvite,
    VaultFounded,
    hash_of,
    unpack_or_none,
)

ANY: Final = 1
NOT_GUEST: Final = 2  # not a guest
ADMIN: Final = 3


def _role(entry: VaultFounded | Admit) -> int:
    """The role that an admission gives."""
    return ADMIN if isinstance(entry, VaultFounded) or entry.admin else ANY if entry.role == "guest" else NOT_GUEST


class MembershipVerdict(NamedTuple):
    """For a set of entries: the removals that count, and the admissions that hold against them."""

    removals: int
    admissions: int


class MembershipRules:
    """Applies the rules to the entries of an ancestry, and judges any ancestor-closed set of them."""

    def __init__(self, ancestry: Ancestry, verified: set[str]) -> None:
        self.nodes = ancestry.nodes
        self.numbers = ancestry.numbers
        self.refused: dict[int, str] = {}
        self.authorised = 0
        self.admits: dict[str, int] = {}  # by device
        self.removes: dict[str, int] = {}  # by device
        self.targets: dict[int, str] = {}
        self.admissions = self.removals = self.uninvites = 0
        self._at_least = [0, 0, 0, 0]  # admissions that give this role or a higher one
        self._acts: dict[str, int] = {}  # admissions and invitations, by author
        self._signing: dict[bytes, int] = {}  # admissions, by signing key
        self._admitted: dict[int, str] = {}  # the device, by its admission
        self._guests: dict[int, int] = {}  # their admissions, by invitation
        self._need: dict[int, int] = {}
        self._verified = verified
        self._decided: dict[int, int] = {}
        self._verdicts: dict[int, MembershipVerdict] = {}
        for number, node in enumerate(self.nodes):
            reason = self._refusal(number, node)
            if reason is None:
                self._register(number, node)
            else:
                self.refused[number] = reason

    # ── one entry ────────────────────────────────────────────────────────────────────────────────────────

    def _refusal(self, number: int, node: EntryNode) -> str | None:
        if number == 0:
            return None
        entry, by = node.entry, node.header.by
        of_share = isinstance(self.nodes[0].entry, VaultFounded) and self.nodes[0].entry.session is not None
        verdict = self.judge(node.ancestors)
        need = ANY
        match entry:
            case None:
                pass
            case VaultFounded():
                return "a vault can be founded only once"
            case Admit():
                return self._admission_refusal(number, entry, verdict, of_share=of_share)
            case Rename():
                need = ANY if entry.device == by else ADMIN
            case Guests():
                need = ADMIN  # only admins pass on what others wrote
            case Remove() | Restore():
                need = ANY if isinstance(entry, Remove) and entry.device == by else ADMIN
                if not self.admits.get(entry.device, 0) & node.ancestors:
                    return "it names a device that was never a member"
            case ShareEntry():
                if of_share:
                    return "sessions are shared only from the main vault"
                if not self._is_share(entry):
                    return "the shared session's founding entry is not genuine"
            case Invite() | Uninvite():
                need = NOT_GUEST
                if not of_share:
                    return "people are invited only to a shared session"
                if isinstance(entry, Uninvite) and not self._is_invite(entry.invite, node.ancestors):
                    return "it names an invitation that does not exist"
        self._need[number] = need
        return None if self.holds(number, need, verdict) else "its author may not make this change"

    def _admission_refusal(
        self, number: int, entry: Admit, verdict: MembershipVerdict, *, of_share: bool
    ) -> str | None:
        ancestors = self.nodes[number].ancestors
        if entry.role == "guest" and (entry.admin or not of_share):
            return "guests can only belong to a shared session, and cannot admit anyone"
        if not self._has_signing_key(number, entry):
            return "it does not prove that the device has the signing key it names"
        if entry.invite is not None and not self._is_invite(entry.invite, ancestors):
            return "it names an invitation that does not exist"
        self._need[number] = ADMIN
        if self.holds(number, ADMIN, verdict):
            return None
        invite = self.nodes[self.numbers[entry.invite]].entry if entry.invite is not None else None
        if entry.role == "guest" and isinstance(invite, Invite) and invite.write:
            expired = invite.expires is not None and entry.at > invite.expires
            revoked = any(
                getattr(self.nodes[number].entry, "invite", None) == entry.invite
                for number in bits(self.uninvites & ancestors)
            )
            self._need[number] = NOT_GUEST
            if not expired and not revoked and self._admission_holds(number, verdict):
                return None
        return "its author may not make this change"

    def _has_signing_key(self, number: int, entry: Admit) -> bool:
        """Whether an admitted device proves that it has its signing key; without a proof (earlier versions), whether
        no other device with this role or a higher one was known to have it.
        """
        device, node = entry.device, self.nodes[number]
        if entry.possession is not None:
            proof = node.hash + entry.possession.hex()
            if proof not in self._verified and not device.proven_by(entry.possession):
                return False
            self._verified.add(proof)
            return True
        if self.admits.get(device.id, 0) & node.ancestors:
            return True
        others = self._signing.get(device.signing, 0) & node.ancestors & self._at_least[_role(entry)]
        return not any(self._admitted[number] != device.id for number in bits(others))

    def _is_invite(self, entry_hash: str, ancestors: int) -> bool:
        number = self.numbers.get(entry_hash)
        if number is None or not ancestors & self.authorised & 1 << number:
            return False
        return isinstance(self.nodes[number].entry, Invite)

    def _is_share(self, entry: ShareEntry) -> bool:
        signed = unpack_or_none(entry.founding)
        if signed is None or hash_of(signed.payload) != entry.share:
            return False
        founding = founded_by(entry.share, {signed}, self._verified)
        return founding is not None and founding.session == entry.session

    def _register(self, number: int, node: EntryNode) -> None:
        bit, entry, by = 1 << number, node.entry, node.header.by
        self.authorised |= bit
        if isinstance(entry, VaultFounded | Admit):
            device = entry.device.id
            self.admissions |= bit
            self._signing[entry.device.signing] = self._signing.get(entry.device.signing, 0) | bit
            self._admitted[number] = device
            self.admits[device] = self.admits.get(device, 0) | bit
            for level in range(ANY, _role(entry) + 1):
                self._at_least[level] |= bit
            if isinstance(entry, Admit) and entry.role == "guest" and entry.invite is not None:
                invite = self.numbers[entry.invite]
                self._guests[invite] = self._guests.get(invite, 0) | bit
        elif isinstance(entry, Remove):
            self.removals |= bit
            self.targets[number] = entry.device
            self.removes[entry.device] = self.removes.get(entry.device, 0) | bit
        elif isinstance(entry, Uninvite):
            self.uninvites |= bit
        if isinstance(entry, Admit | Invite):
            self._acts[by] = self._acts.get(by, 0) | bit

    # ── which entries hold ───────────────────────────────────────────────────────────────────────────────────────

    def holds(self, number: int, need: int, verdict: MembershipVerdict) -> bool:
        node = self.nodes[number]
        by = node.header.by
        admissions = self.admits.get(by, 0) & node.ancestors & verdict.admissions & self._at_least[need]
        removals = self.removes.get(by, 0) & verdict.removals
        unknowing = 0
        for item in bits(removals):
            if not self.nodes[item].ancestors >> number & 1:
                unknowing |= 1 << item
        return self._any_follows(admissions, unknowing)

    def valid(self, number: int, verdict: MembershipVerdict) -> bool:
        """Whether an authorised entry counts in the end."""
        bit = 1 << number
        if self.admissions & bit:
            return bool(verdict.admissions & bit)
        if self.removals & bit:
            return bool(verdict.removals & bit)
        return self.holds(number, self._need[number], verdict)

    def live(self, device: str, verdict: MembershipVerdict) -> list[int]:
        """The admissions by which a device belongs to the vault: those that follow every removal of it."""
        removals = self.removes.get(device, 0) & verdict.removals
        admissions = self.admits.get(device, 0) & verdict.admissions
        return [number for number in bits(admissions) if not removals & ~self.nodes[number].ancestors]

    def gives(self, number: int, role: int) -> bool:
        """Whether an admission gives this role, or a higher one."""
        return bool(self._at_least[role] >> number & 1)

    def _any_follows(self, admissions: int, removals: int) -> bool:
        return (
            any(not removals & ~self.nodes[number].ancestors for number in bits(admissions))
            if removals
            else admissions != 0
        )

    def _admission_holds(self, number: int, verdict: MembershipVerdict) -> bool:
        if self._need.get(number, ADMIN) == ADMIN:
            return number == 0 or self.holds(number, ADMIN, verdict)
        entry = self.nodes[number].entry
        assert isinstance(entry, Admit)
        assert entry.invite is not None
        invited = self.holds(self.numbers[entry.invite], NOT_GUEST, verdict)
        return invited and self.holds(number, NOT_GUEST, verdict)

    def _admissions_holding(self, removals: int, within: int) -> int:
        """The admissions that hold against these removals."""
        admissions = self.admissions & within
        touched = 0
        for number in bits(removals):
            touched |= self._acts.get(self.targets[number], 0) & ~self.nodes[number].ancestors
        if not touched & within:
            return admissions
        holding = 0
        for number in bits(admissions):
            if self._admission_holds(number, MembershipVerdict(removals, holding)):
                holding |= 1 << number
        return holding

    # ── which removals count ─────────────────────────────────────────────────────────────────────────────

    def judge(self, within: int) -> MembershipVerdict:
        known = within & (self.admissions | self.removals | self.uninvites)
        cached = self._verdicts.get(known)
        if cached is not None:
            return cached
        removals = self.removals & within
        counting = self._decided.get(removals)
        if counting is None:
            counting = self._decided[removals] = self._decide(removals, within, keep_admin=False)
        holding = self._admissions_holding(counting, within)
        if counting and not self._has_admin(MembershipVerdict(counting, holding)):
            counting = self._decide(removals, within, keep_admin=True)
            holding = self._admissions_holding(counting, within)
        verdict = MembershipVerdict(
            counting, holding & ~self._revoked_guests(MembershipVerdict(counting, holding), within)
        )
        self._verdicts[known] = verdict
        return verdict

    def _decide(self, removals: int, within: int, *, keep_admin: bool) -> int:
        clear = self._admissions_holding(removals, within)
        remover_removed = any(
            self.removes.get(self.nodes[number].header.by, 0) & removals for number in bits(removals)
        )
        if not keep_admin and not remover_removed and clear == self.admissions & within:
            return removals  # the usual case: no admission is in doubt, and no remover was removed
        seniority = {number: self._seniority(number, clear) for number in bits(removals)}
        counting = 0
        for item in sorted(seniority, key=lambda number: (seniority[number], number)):
            if self._counts(item, counting, clear, seniority, within):
                extended = counting | 1 << item
                if not keep_admin or self._has_admin(
                    MembershipVerdict(extended, self._admissions_holding(extended, within))
                ):
                    counting = extended
        return counting

    def _seniority(self, number: int, clear: int) -> tuple[bool, int]:
        node = self.nodes[number]
        admissions = self.admits[node.header.by] & node.ancestors
        undisputed = admissions & clear
        earliest = undisputed or admissions
        return not undisputed, (earliest & -earliest).bit_length()

    def _counts(
        self, number: int, counting: int, clear: int, seniority: dict[int, tuple[bool, int]], within: int
    ) -> bool:
        node = self.nodes[number]
        by = node.header.by
        leaves = self.targets[number] == by
        admissions = self.admits[by] & node.ancestors & self._at_least[ANY if leaves else ADMIN]
        if admissions & ~clear:
            admissions &= self._admissions_holding(counting, within)
        known = 0
        for item in bits(self.removes.get(by, 0) & counting):
            if node.ancestors >> item & 1:
                known |= 1 << item
            elif not self.nodes[item].ancestors >> number & 1:
                by_senior = self.nodes[item].header.by != by and seniority[item] < seniority[number]
                if by_senior and not leaves:
                    return False
        return self._any_follows(admissions, known)

    def _has_admin(self, verdict: MembershipVerdict) -> bool:
        """Whether an admin is left."""
        admins = verdict.admissions & self._at_least[ADMIN]
        while admins:  # the latest first: the likeliest to be live
            latest = admins.bit_length() - 1
            if not self.removes.get(self._admitted[latest], 0) & verdict.removals & ~self.nodes[latest].ancestors:
                return True
            admins ^= 1 << latest
        return False

    def _revoked_guests(self, verdict: MembershipVerdict, within: int) -> int:
        """Admissions of guests whose invitation was concurrently revoked."""
        ended = 0
        for number in bits(self.uninvites & within):
            entry = self.nodes[number].entry
            assert isinstance(entry, Uninvite)
            guests = self._guests.get(self.numbers[entry.invite], 0) & within & ~self.nodes[number].ancestors
            if guests and self.holds(number, NOT_GUEST, verdict):
                for guest in bits(guests):
                    if not self.nodes[guest].ancestors >> number & 1:
                        ended |= 1 << guest
        return ended
