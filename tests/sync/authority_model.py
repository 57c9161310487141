"""Who may read, write and delete which session: a small model of the rules, written from the documents alone.

A *circle* is one session of one vault: the vault's members and the guests it was shared with. The same id in two
vaults is two circles, even with equal content. A home is in at most one circle for an id: as *own* in that of its
vault, or *through a share* in that of another.

The model says what holds at any moment, however far events have spread: what a home may know at most (all that was
published in its circle while it belonged there), and what it must keep (all it once had, unless someone with
authority over the circle erased or deleted it). `settled` says what every home has after a full sync.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

Home: TypeAlias = str
Vault: TypeAlias = str
Session: TypeAlias = str
Text: TypeAlias = str


class Answer(Enum):
    """The answer a verb must give; `EITHER` where the documents leave it open."""

    DONE = "done"
    REFUSED = "refused"
    EITHER = "either"


@dataclass(slots=True)
class Guest:
    writes: bool
    accepted: bool = False
    revoked: bool = False


@dataclass(slots=True)
class Circle:
    """One session of one vault."""

    began: set[Home] = field(default_factory=set)
    guests: dict[Home, Guest] = field(default_factory=dict)
    deleted: bool = False
    deleted_by: Home = ""
    contested: bool = False
    # Everything that was ever said in it by somebody who was allowed to, and what of it was erased.
    texts: set[Text] = field(default_factory=set)
    erased: set[Text] = field(default_factory=set)


class Model:
    def __init__(self) -> None:
        self.vault_of: dict[Home, Vault] = {}
        self.members: dict[Vault, set[Home]] = {}
        self.admins: dict[Vault, set[Home]] = {}
        self.removed: set[Home] = set()
        self.circles: dict[tuple[Vault, Session], Circle] = {}
        # Which circle a home is in for an id; and who wrote which text where.
        self.came: dict[tuple[Home, Session], Vault] = {}
        self.author: dict[Text, Home] = {}
        # Whose words a home added, and whom it revoked: what a bare `accept` goes by.
        self.trusts: set[tuple[Home, Home]] = set()
        self.revoked_by: set[tuple[Home, Home]] = set()
        # Who deleted or erased for themselves what was not theirs to take from all, and who sits at a place to which
        # an offer was copied: nothing more comes there.
        self.left: set[tuple[Home, Session]] = set()
        self._dropped: set[tuple[Home, Session, Text]] = set()
        self.astray: set[tuple[Home, Session]] = set()
        # Who said what they may not: others need not take in anything that follows it.
        self._forged: set[Home] = set()
        # Whose devices took keys of a session that others record something under: what they wrote there may be taken
        # out again elsewhere, and with themselves anything may stand in the place of anything.
        self._took_keys: set[tuple[Vault, Session]] = set()
        self._may: dict[tuple[Home, Session], set[Text]] = {}
        self._must: dict[tuple[Home, Session], set[Text]] = {}

    # ── homes and vaults ─────────────────────────────────────────────────────────────────────────────────────

    def create_vault(self, home: Home) -> None:
        self.vault_of[home] = home
        self.members[home] = {home}
        self.admins[home] = {home}

    def join(self, home: Home, vault: Vault) -> None:
        self.vault_of[home] = vault
        self.members[vault].add(home)

    def remove(self, home: Home) -> None:
        """Remove a device from its vault: it sends and receives nothing more."""
        self.members[self.vault_of[home]].discard(home)
        self.removed.add(home)
        for circle in self.circles.values():
            if circle.deleted_by == home:  # nobody may have heard of it
                circle.deleted, circle.contested = False, True

    # ── what is whose ────────────────────────────────────────────────────────────────────────────────────────

    def is_own(self, home: Home, session: Session) -> bool:
        return self.came.get((home, session)) == self.vault_of[home]

    def circle(self, home: Home, session: Session) -> Circle | None:
        vault = self.came.get((home, session))
        return None if vault is None else self.circles[vault, session]

    def decides(self, home: Home, session: Session) -> bool:
        """Whether this home may delete the session for everybody in its circle."""
        circle = self.circle(home, session)
        return circle is not None and self._belongs(home, session) and (
            home in self.admins[self.came[home, session]] or home in circle.began
        )  # fmt: skip

    def _belongs(self, home: Home, session: Session) -> bool:
        vault = self.came[home, session]
        guest = self.circles[vault, session].guests.get(home)
        return home in self.members[vault] or (guest is not None and guest.accepted and not guest.revoked)

    # ── moves ────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, home: Home, session: Session) -> None:
        """Start a session, or import a file whose id is not here through somebody else's share."""
        vault = self.vault_of[home]
        self.came[home, session] = vault
        self.circles.setdefault((vault, session), Circle()).began.add(home)

    def imports_as_new(self, home: Home, session: Session) -> bool:
        """Whether an import of this id gets a new id, because the id is here through somebody else's share."""
        return (home, session) in self.came and not self.is_own(home, session)

    def write(self, home: Home, session: Session, text: Text) -> Answer:
        circle = self.circle(home, session)
        if circle is None or circle.deleted or circle.contested:
            return Answer.EITHER if circle is not None else Answer.REFUSED
        self.author[text] = home
        guest = circle.guests.get(home) if not self.is_own(home, session) else None
        if guest is None and not self.is_own(home, session):
            return self._written_by_device_of_guest(home, session, text)
        if guest is not None and not guest.writes and not guest.revoked:
            return Answer.REFUSED
        # What is written stays with the writer's devices, and reaches the circle of whoever belongs to it.
        self._add_to_own_devices(home, session, text)
        if self._belongs(home, session):
            circle.texts.add(text)
        return Answer.EITHER if guest is not None and guest.revoked else Answer.DONE

    def _written_by_device_of_guest(self, home: Home, session: Session, text: Text) -> Answer:
        """Written by another device of a guest: it counts as the guest's, if it is sent at all."""
        circle = self.circles[self.came[home, session], session]
        self._add_to_own_devices(home, session, text)
        if any(guest.writes and not guest.revoked for guest in self._guests_of(home, circle)):
            circle.texts.add(text)
        return Answer.EITHER

    def _add_to_own_devices(self, home: Home, session: Session, text: Text) -> None:
        devices = self.members[self.vault_of[home]]
        for device in devices | {home} if home in devices else {home}:
            self._may.setdefault((device, session), set()).add(text)

    def _guests_of(self, home: Home, circle: Circle) -> list[Guest]:
        vault = self.members[self.vault_of[home]]
        return [guest for person, guest in circle.guests.items() if person in vault and home in vault]

    def share(self, home: Home, session: Session, guest: Home, *, writes: bool) -> Answer:
        """Share a session; only a home that decides over a session can widen its circle."""
        if not self.decides(home, session) or not self.is_own(home, session):
            return Answer.EITHER  # whatever is answered, it has no effect
        circle = self.circles[self.came[home, session], session]
        known = circle.guests.get(guest)
        circle.guests[guest] = Guest(writes, accepted=known is not None and known.accepted)
        return Answer.DONE

    def accept(self, home: Home, vault: Vault, session: Session) -> Answer:
        guest = self.circles[vault, session].guests.get(home)
        if self.is_own(home, session) or guest is None:
            return Answer.REFUSED
        if guest.revoked or self.came.get((home, session), vault) != vault:
            return Answer.EITHER
        again = guest.accepted or (home, session) in self.left
        guest.accepted = True
        self.came[home, session] = vault
        circle = self.circles[vault, session]
        return Answer.EITHER if again or circle.deleted or circle.contested else Answer.DONE

    def accepts_without_asking(self, home: Home, offerer: Home, session: Session) -> bool:
        """Whether a bare `accept` without a terminal accepts this offer."""
        trusted = (home, offerer) in self.trusts and (home, offerer) not in self.revoked_by
        return trusted and not self.is_own(home, session)

    def revoke(self, home: Home, session: Session, person: Home) -> None:
        if not self.decides(home, session) or not self.is_own(home, session):
            return
        guest = self.circles[self.came[home, session], session].guests.get(person)
        if guest is not None:
            guest.revoked = True
            self.revoked_by.add((home, person))

    def delete(self, home: Home, session: Session) -> None:
        """Delete: with authority for everybody in the circle, without it at most for oneself."""
        circle = self.circle(home, session)
        if circle is not None and self.decides(home, session):
            # Of several devices that began it, by importing the same file, no document says which one decides.
            sure = home in self.admins[self.came[home, session]] or circle.began == {home}
            circle.deleted_by = circle.deleted_by if circle.deleted else home
            circle.deleted, circle.contested = circle.deleted or sure, circle.contested or not sure
        else:
            self._must.pop((home, session), None)
            self.left.add((home, session))

    def erase(self, home: Home, session: Session, text: Text) -> None:
        """Erase: allowed to the author and to admins of the vault that owns the session."""
        circle = self.circle(home, session)
        admin = circle is not None and home in self.admins[self.came[home, session]]
        if circle is not None and self._belongs(home, session) and (admin or self.author[text] == home):
            circle.erased.add(text)
        else:
            self._dropped.add((home, session, text))  # with themselves at most
            self._forged.add(home)

    def take_keys(self, home: Home, session: Session) -> None:
        """A guest may write under any key: no event of others gives way to it or is rejected for it."""
        self._forged.add(home)
        self._took_keys.add((self.vault_of[home], session))

    def carried(self, home: Home, session: Session, text: Text) -> None:
        """What a fork starts with: everything its maker knew."""
        self._may.setdefault((home, session), set()).add(text)
        if self._belongs(home, session):
            self.circles[self.came[home, session], session].texts.add(text)

    # ── what must hold ───────────────────────────────────────────────────────────────────────────────────────

    def publish(self) -> None:
        """Publish after every move: members of a circle, with all their devices, may know everything in it.

        Invited people may too, even before they accept: what lay there then can be shown to them later.
        """
        for (vault, session), circle in self.circles.items():
            invited = {home for home, guest in circle.guests.items() if not guest.revoked}
            for person in self.members[vault] | invited:
                for home in {person, *self.members[self.vault_of[person]]}:
                    if self.came.get((home, session), vault) == vault:
                        self._may.setdefault((home, session), set()).update(circle.texts)

    def _everybody(self, vault: Vault, circle: Circle) -> set[Home]:
        guests = {home for home, guest in circle.guests.items() if guest.accepted and not guest.revoked}
        return self.members[vault] | guests

    def may_know(self, home: Home, session: Session) -> set[Text]:
        return self._may.get((home, session), set())

    def must_keep(self, home: Home, session: Session) -> set[Text]:
        """What must still be here of everything that was once here."""
        kept = self._must.get((home, session), set())
        circle = self.circle(home, session)
        if circle is None or not kept:
            return set()
        return (
            set()
            if circle.deleted or circle.contested
            else {text for text in kept - circle.erased if self._stays(home, session, text)}
        )

    def _stays(self, home: Home, session: Session, text: Text) -> bool:
        vault, theirs = self.vault_of[home], self.vault_of[self.author[text]]
        fair = not {(vault, session), (theirs, session)} & self._took_keys
        return fair and self._has(home, session, text)

    def _has(self, home: Home, session: Session, text: Text) -> bool:
        return (home, session, text) not in self._dropped

    def may_exist(self, home: Home, session: Session) -> bool:
        return (home, session) in self.came or self.reached_by(home, session) is not None

    def reached_by(self, home: Home, session: Session) -> Vault | None:
        """The circle whose sync brought a session to a home; None if it did not come by itself."""
        near = self.members[self.vault_of[home]] | {home}
        for vault, known in self.circles:
            if known == session and (vault == self.vault_of[home] or near & set(self.circles[vault, known].guests)):
                return vault
        return None

    def observe(self, home: Home, session: Session, texts: set[Text]) -> None:
        """Note what a home has; its origin is known from now on."""
        if (vault := self.reached_by(home, session)) is not None:
            self.came.setdefault((home, session), vault)
        self._must.setdefault((home, session), set()).update(texts)

    def settled(self, home: Home, session: Session) -> set[Text] | None:
        """What a home has of a session at least after a full sync; None if the session is deleted there."""
        vault = self.came[home, session]
        circle = self.circles[vault, session]
        absent = home not in self._everybody(vault, circle) or (home, session) in self.left | self.astray
        absent = absent or (self.vault_of[home], session) in self._took_keys
        if absent or circle.contested:
            return self.must_keep(home, session)
        if circle.deleted:
            return None
        # Who was sent away, or went, may have kept some of it for themselves.
        present = {name for name in self._everybody(vault, circle) if (name, session) not in self.left}
        expected = {text for text in circle.texts - circle.erased if self._has(home, session, text)}
        return {text for text in expected if self._sent(self.author[text], session, text, present)}

    def _sent(self, author: Home, session: Session, text: Text, present: set[Home]) -> bool:
        honest = author not in self._forged and (author, session) not in self.astray
        return honest and author in present and self._has(author, session, text)
