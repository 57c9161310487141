"""Homes of several people, driven by the program's own commands, and adversaries with other means as well.

Anna owns a vault; `desk` is her second device; Ben, Cleo and Mallory have their own vaults. Every move is applied to
the model too, and after every move the homes are compared with it.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from holdfast import Keeper
from holdfast.core.canonical import MAX_SAFE_INTEGER
from holdfast.core.envelope import make_event
from holdfast.core.errors import HoldfastError
from holdfast.core.events import EventErased, NoteAdded, ProjectFacts, SessionStarted
from holdfast.store.interface import Draft
from tests.fixtures.generations.facts import Program
from tests.support import spec_examples
from tests.sync.authority_model import Answer, Model

OWNER: Final = "anna"
OTHERS: Final = ("desk", "ben", "cleo", "mallory")
ANY: Final = tuple(range(8))
_ASKING: Final = (("device", "show"), ("remote", "list"), ("people", "add"))


class Breach(AssertionError):
    """The homes do something that the model forbids."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Offer(NamedTuple):
    """A share at a remote: vault, session, guest, place, and the objects that contain the invitation."""

    vault: str
    session: str
    guest: str
    place: Path
    wraps: frozenset[str]


class Fleet:
    def __init__(self, root: Path, seed: int, *, ignored: frozenset[str] = frozenset()) -> None:
        """`ignored` kinds of breach are logged only, to see what follows from them."""
        self.root = root
        self.ignored = ignored
        self.seed, self.random = seed, random.Random(seed)
        self.model = Model()
        self.moves: list[str] = []
        self.offers: list[Offer] = []
        self.earlier: dict[str, bytes] = {}
        # What each home really had at the last look.
        self.present: set[tuple[str, str]] = set()
        self.met: list[str] = []
        self.evil: list[str] = []
        self.imported: dict[str, str] = {}  # the id that a file usually gets
        self._texts = 0
        self._keys = 0  # used by programs so far
        (root / "places").mkdir()
        self.homes = [OWNER, *self.random.sample(OTHERS, self.random.randint(1, len(OTHERS)))]
        for home in self.homes:
            self._set_up(home)
        self._introduce()

    @staticmethod
    def moves_of(seed: int, steps: int) -> list[str]:
        return random.Random(-1 - seed).choices(list(MOVES), list(MOVES.values()), k=steps)

    def breach(self, kind: str, message: str) -> None:
        if kind not in self.ignored:
            raise Breach(kind, message)
        self.moves.append(f"    {kind}: {message}")

    # ── setting up ───────────────────────────────────────────────────────────────────────────────────────────

    def _set_up(self, home: str) -> None:
        path = self.root / "homes" / home
        path.mkdir(parents=True, mode=0o700)
        (path / "config.toml").write_text(f'[device]\nname = "{home}"\n\n[sync]\nbackground = false\n')
        (self.root / "projects" / home).mkdir(parents=True)
        if home == "desk":
            self.call(home, "remote", "add", "home", self.url(OWNER))
            self.call(OWNER, "device", "approve", self.words(home))
            words = self.call(OWNER, "remote", "list")["remotes"][0]["words"]
            self.call(home, "remote", "confirm", "home", words)
            self.call(home, "sync")
            self.model.join(home, OWNER)
        else:
            self.call(home, "remote", "add", "home", self.url(home))
            self.model.create_vault(home)

    def _introduce(self) -> None:
        """Everybody knows everybody's key; some trust each other's offers."""
        for home in self.homes:
            for other in self.homes:
                if home == other:
                    continue
                self.call(home, "people", "add", email(other), self.key(other))
                if self.random.random() < 0.3 and self.trust(home, other):
                    self.model.trusts.add((home, other))

    def trust(self, home: str, other: str) -> bool:
        return "error" not in self.call(home, "people", "add", email(other), self.words(other), codes=ANY)

    def program(self, home: str) -> Program:
        environ = {
            "PATH": os.environ["PATH"], "HOME": str(self.root), "HOLDFAST_HOME": str(self.root / "homes" / home),
            "HOLDFAST_ACTOR": home, "NO_COLOR": "1", "GIT_CEILING_DIRECTORIES": str(self.root),
        }  # fmt: skip
        return Program(environ, self.root / "projects" / home)

    def call(self, home: str, *words: str, codes: tuple[int, ...] = (0,)) -> dict[str, Any]:
        response = self.program(home)(*words, codes=codes)
        if words[:2] not in _ASKING:
            answer = response["error"]["message"] if "error" in response else "done"
            self.moves.append(f"    {home}: {' '.join(words)}: {answer}")
        return response

    def keeper(self, home: str) -> Keeper:
        return Keeper.open(str(self.root / "projects" / home), home=str(self.root / "homes" / home), actor=home)

    def place(self, home: str) -> Path:
        return self.root / "places" / self.model.vault_of.get(home, home)

    def url(self, home: str) -> str:
        return f"folder:{self.place(home)}"

    def words(self, home: str) -> str:
        return str(self.call(home, "device", "show")["device"]["fingerprint"])

    def key(self, home: str) -> str:
        return str(self.call(home, "device", "show")["device"]["age"])

    def objects(self, place: Path) -> dict[str, bytes]:
        return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}

    def text(self) -> str:
        self._texts += 1
        return f"text-{self._texts}"

    # ── choosing ─────────────────────────────────────────────────────────────────────────────────────────────

    def somebody(self, *excluded: str) -> str | None:
        others = [home for home in self.homes if home not in excluded]
        return self.random.choice(others) if others else None

    def session_of(self, home: str, *, own: bool | None = None) -> str | None:
        known = [
            session
            for (who, session) in self.present
            if who == home and (own is None or self.model.is_own(home, session) is own)
        ]
        # In order of appearance: ids are random, and one seed must always make the same moves.
        return self.random.choice(sorted(known, key=self.met.index)) if known else None

    # ── moves, as people make them ───────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        home = self.somebody()
        assert home is not None
        session = self.call(home, "start", f"Begun by {home}", "--replace", codes=ANY).get("session")
        if session is not None:
            self.model.begin(home, session["id"])
            self.write_text(home, session["id"])

    def import_file(self) -> None:
        home = self.somebody()
        assert home is not None
        name = self.random.choice(("orchestrator", "craft"))
        file = self.root / f"{name}.json"
        file.write_bytes(spec_examples.JSON_FILES[name])
        usual = self.imported.get(name)
        if usual is not None and (
            any(session == usual for _, session in self.model.left)
            or any(circle.deleted for (_, session), circle in self.model.circles.items() if session == usual)
        ):
            return  # what an import of something deleted gives is another matter
        if usual is not None and self.others_have(home, usual, own=False):
            return
        (session,) = self.call(home, "import", str(file))["sessions"]
        if usual is not None and self.model.imports_as_new(home, usual):
            if session == usual:
                self.breach(
                    "import united", f"{home} imported into {session}, which is there through another's share"
                )
        elif usual is None:
            self.imported[name] = session
        self.model.begin(home, session)

    def write(self) -> None:
        home = self.somebody()
        assert home is not None
        session = self.session_of(home)
        if session is not None:
            self.write_text(home, session)

    def write_text(self, home: str, session: str) -> None:
        text = self.text()
        answer = self.model.write(home, session, text)
        done = self.note(home, session, text)
        if answer is Answer.DONE and not done:
            self.breach("frozen", f"{home} cannot write in {session}")
        if answer is Answer.REFUSED and done:
            self.breach("written without a right", f"{home} wrote in {session}, which is not theirs to write")

    def write_keyed(self) -> None:
        home = self.somebody()
        session = None if home is None else self.session_of(home, own=True)
        if home is not None and session is not None:
            self.record_keyed(home, session)

    def record_keyed(self, home: str, session: str) -> None:
        """Record an event with a key, as a program does; it must be recorded whatever others did."""
        text, key = self.text(), f"key:{self._keys}"
        self._keys += 1
        answer = self.model.write(home, session, text)
        with self.keeper(home) as keeper:
            try:
                with keeper.store().transaction() as transaction:
                    made = transaction.record(session, Draft(NoteAdded(text=text), keeper.now(), home, key))
            except HoldfastError:
                made = None
        self.moves.append(f"    {home}: records {text} under {key} in {session}: {made is not None}")
        if answer is Answer.DONE and made is None:
            self.breach("kept from recording", f"{home} cannot record {text} under {key} in {session}")

    def note(self, home: str, session: str, text: str) -> bool:
        with self.keeper(home) as keeper:
            try:
                kept = keeper.session(session)
                if kept.document().status != "in_progress":
                    kept.resume(force=True)
                kept.note(text)
            except HoldfastError as error:
                self.moves.append(f"    {home}: writes {text} in {session}: {error}")
                return False
        self.moves.append(f"    {home}: writes {text} in {session}: done")
        return True

    def share(self) -> None:
        home = self.somebody("desk")
        guest = self.somebody("desk", home or "")
        session = None if home is None else self.session_of(home)
        if home is None or guest is None or session is None:
            return
        circle = self.model.circle(home, session)
        if circle is None or circle.deleted or circle.contested or guest in circle.guests:
            return
        self.share_with(home, session, guest, writes=self.random.random() < 0.6)

    def share_with(self, home: str, session: str, guest: str, *, writes: bool) -> None:
        self.call(home, "people", "add", email(guest), self.key(guest), codes=ANY)
        place = self.place(home)
        before = set(self.objects(place))
        more = () if writes else ("--read-only",)
        response = self.call(home, "share", session, "--with", email(guest), "--remote", "home", *more, codes=ANY)
        answer = self.model.share(home, session, guest, writes=writes)
        if answer is Answer.DONE:
            if "error" in response:
                self.breach("cannot share", f"{home} cannot share {session}: {response['error']['message']}")
            wraps = frozenset(name for name in set(self.objects(place)) - before if name.startswith("k/"))
            self.offers.append(Offer(self.model.came[home, session], session, guest, place, wraps))

    def accept(self) -> None:
        """Accept by name, as a person who looked at the offer does."""
        if not self.offers:
            return
        offer = self.random.choice(self.offers)
        through = self.model.came.get((offer.guest, offer.session), offer.vault)
        if through != offer.vault and not self.model.is_own(offer.guest, offer.session):
            return  # already through somebody else's share
        if self.others_have(offer.guest, offer.session, own=True) and not self.model.is_own(
            offer.guest, offer.session
        ):
            return
        answer = self.model.accept(offer.guest, offer.vault, offer.session)
        self.lead_astray(offer)
        taken = self.accept_named(offer)
        if answer is Answer.EITHER and taken:
            self.model.came.setdefault((offer.guest, offer.session), offer.vault)
        if answer is Answer.DONE and not taken:
            self.breach("cannot accept", f"{offer.guest} cannot accept {offer.session} of {offer.vault}")
        if answer is Answer.REFUSED and taken and self.model.is_own(offer.guest, offer.session):
            self.breach(
                "own id accepted", f"{offer.guest} took {offer.session} of {offer.vault}, and has one of its own"
            )

    def lead_astray(self, offer: Offer) -> None:
        if offer.place.name != offer.vault:
            self.model.astray.add((offer.guest, offer.session))

    def others_have(self, home: str, session: str, *, own: bool) -> bool:
        """Whether another device of the vault has this id, as its own or through a share."""
        vault = self.model.vault_of[home]
        devices = [name for name in self.homes if self.model.vault_of[name] == vault and name != home]
        known = [device for device in devices if (device, session) in self.model.came]
        return any(self.model.is_own(device, session) is own for device in known)

    def accept_named(self, offer: Offer) -> bool:
        url = f"folder:{offer.place}"
        listed = self.call(offer.guest, "accept", url, "--list", codes=ANY)
        if "offers" in listed:
            words = self.words(offer.vault)
            names = [
                item["name"] for item in listed["offers"]
                if item["session"] == offer.session and item["fingerprint"] == words
            ]  # fmt: skip
            return any("error" not in self.call(offer.guest, "accept", url, name, codes=ANY) for name in names)
        # A version that takes all there are: it is shown this one alone.
        with self.hidden(offer):
            response = self.call(offer.guest, "accept", url, codes=ANY)
        return any(item["id"] == offer.session for item in response.get("sessions", ()))

    @contextlib.contextmanager
    def hidden(self, offer: Offer) -> Iterator[None]:
        """Only this invitation lies at the place."""
        others = {
            name: data for name, data in self.objects(offer.place).items()
            if name.startswith("k/") and name not in offer.wraps
        }  # fmt: skip
        for name in others:
            (offer.place / name).unlink()
        try:
            yield
        finally:
            for name, data in others.items():
                (offer.place / name).parent.mkdir(parents=True, exist_ok=True)
                if not (offer.place / name).exists():
                    (offer.place / name).write_bytes(data)

    def accept_bare(self) -> None:
        """Accept whatever lies at a place, as a script does: only offers of trusted people may be accepted."""
        if not self.offers:
            return
        offer = self.random.choice(self.offers)
        home = offer.guest
        response = self.call(home, "accept", f"folder:{offer.place}", codes=ANY)
        taken = {item["id"] for item in response.get("sessions", ())}
        for item in self.offers:
            if item.guest == home and item.place == offer.place and item.session in taken:
                if not self.model.accepts_without_asking(home, item.vault, item.session):
                    continue
                self.model.accept(home, item.vault, item.session)
                self.lead_astray(item)
                taken.discard(item.session)
        taken = {session for session in taken if not self._accepted(home, session)}
        if taken:
            self.breach("untrusted offer taken", f"a bare accept of {home} took {sorted(taken)}")

    def _accepted(self, home: str, session: str) -> bool:
        circle = self.model.circle(home, session)
        guest = None if circle is None else circle.guests.get(home)
        return guest is not None and guest.accepted

    def revoke(self) -> None:
        home = self.somebody("desk")
        session = None if home is None else self.session_of(home, own=True)
        circle = None if home is None or session is None else self.model.circle(home, session)
        if home is None or session is None or circle is None or not circle.guests or circle.deleted:
            return
        guest = self.random.choice(sorted(circle.guests))
        self.call(home, "revoke", session, "--from", email(guest), codes=ANY)
        self.model.revoke(home, session, guest)

    def delete(self) -> None:
        home = self.somebody()
        session = None if home is None else self.session_of(home)
        if home is not None and session is not None:
            self.call(home, "delete", session, "--confirm", "--force", codes=ANY)
            self.call(home, "delete", session, "--confirm", codes=ANY)  # versions without --force
            self.model.delete(home, session)

    def fork(self) -> None:
        home = self.somebody()
        session = None if home is None else self.session_of(home)
        if home is None or session is None:
            return
        made = self.call(home, "fork", session, codes=ANY).get("session")
        if made is not None:
            self.model.begin(home, made["id"])
            for text in self.model.may_know(home, session):
                if text in self.notes(home, made["id"], set()):
                    self.model.carried(home, made["id"], text)

    def sync(self) -> None:
        home = self.somebody()
        assert home is not None
        self.call(home, "sync", codes=ANY)

    def restore(self) -> None:
        """Restore a backup of a home, immediately or after other moves."""
        home = self.somebody()
        assert home is not None
        file = self.root / f"backup-{home}"
        if file.exists():
            self.call(home, "restore", str(file), codes=ANY)
        else:
            self.call(home, "backup", str(file))

    def remove_device(self) -> None:
        if "desk" in self.homes and "desk" not in self.model.removed and self.random.random() < 0.3:
            self.call(OWNER, "device", "remove", "desk")
            self.model.remove("desk")

    # ── moves, as adversaries make them ──────────────────────────────────────────────────────────────────────

    def erase(self) -> None:
        """Record an erasure without asking whether it is allowed."""
        home = self.somebody()
        session = None if home is None else self.session_of(home)
        if home is None or session is None:
            return
        with self.keeper(home) as keeper:
            store = keeper.store()
            events = [event for event in store.events(session) if event.type == "note.added" and event.data]
            if not events:
                return
            event = self.random.choice(events)
            assert event.data is not None
            text = str(msgspec.json.decode(event.data)["text"])
            if text not in self.model.author:
                return
            with contextlib.suppress(HoldfastError), store.transaction() as transaction:
                transaction.record(session, Draft(EventErased(hashes=(event.hash,)), keeper.now(), home))
        self.model.erase(home, session, text)

    def absurd_clock(self) -> None:
        """Record an event with the largest clock possible, in the home's own stream."""
        home = self.somebody()
        session = None if home is None else self.session_of(home)
        if home is None or session is None:
            return
        text = self.text()
        if self.model.write(home, session, text) is not Answer.DONE or not self.note(home, session, text):
            return
        with self.keeper(home) as keeper:
            store = keeper.store()
            writer = keeper.home.writer(keeper.address)
            last = max((event for event in store.events(session) if event.writer == writer), key=lambda one: one.seq)
            clock = self.random.choice((MAX_SAFE_INTEGER, MAX_SAFE_INTEGER - 1, 2**52))
            text = self.text()
            made = make_event(
                session=session, writer=writer, seq=last.seq + 1, prev=last.hash, clock=max(clock, last.clock),
                at=last.at, actor=home, type="note.added", version=1, data=msgspec.json.encode({"text": text}),
                salt=os.urandom(16),
            )  # fmt: skip
            with store.transaction() as transaction:
                transaction.receive([made])
        self.model.write(home, session, text)

    def take_keys(self) -> None:
        """A guest writes under keys that the owner's programs will use or have used, with a lower clock."""
        home = self.somebody()
        session = None if home is None else self.session_of(home, own=False)
        if home is None or session is None:
            return
        text = self.text()
        if self.model.write(home, session, text) is not Answer.DONE or not self.note(home, session, text):
            return
        with self.keeper(home) as keeper:
            store = keeper.store()
            writer = keeper.home.writer(keeper.address)
            last = max((event for event in store.events(session) if event.writer == writer), key=lambda one: one.seq)
            numbers = range(max(0, self._keys - 2), self._keys + 2)
            for key in [f"key:{number}{more}" for number in numbers for more in ("", "+1")]:
                response = self.text()
                last = make_event(
                    session=session, writer=writer, seq=last.seq + 1, prev=last.hash,
                    clock=self.random.choice((1, last.clock)), at=last.at, actor=home, type="note.added", version=1,
                    data=msgspec.json.encode({"text": response}), salt=os.urandom(16), key=key,
                )  # fmt: skip
                with store.transaction() as transaction:
                    transaction.receive([last])
                self.model.write(home, session, response)
        self.model.take_keys(home, session)
        owners = [home for home in self.homes if (home, session) in self.present and self.model.is_own(home, session)]
        # Most often both know of the other's by then; sometimes neither does, or a third device reads it first.
        for name in owners:
            if self.random.random() < 0.3:
                self.record_keyed(name, session)
        for name in [home, *owners]:
            if self.random.random() < 0.8:
                self.call(name, "sync", codes=ANY)
        for name in owners:
            self.record_keyed(name, session)

    def remember(self) -> None:
        """Copy the objects of a remote, as its operator could."""
        self.earlier.update(
            {f"{place.name}/{name}": data for place in self.places() for name, data in self.objects(place).items()}
        )

    def replay(self) -> None:
        """Put removed objects back."""
        for name, data in self.earlier.items():
            path = self.root / "places" / name
            if not path.exists() and self.random.random() < 0.7:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)

    def plant(self) -> None:
        """Copy somebody's objects to another person's place: an offer among offers."""
        source, target = self.random.choice(self.places()), self.random.choice(self.places())
        if source == target:
            return
        for name, data in self.objects(source).items():
            path = target / name
            # Not the founding of a vault: a place has one.
            if name.startswith(("k/", "m/", "h/", "p/")) and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        self.offers += [offer._replace(place=target) for offer in self.offers if offer.place == source]

    def places(self) -> list[Path]:
        return sorted((self.root / "places").iterdir())

    def offer_same_id(self) -> None:
        """Create a session with another person's session id in one's own vault, and share it with them."""
        attacker = self.somebody(OWNER, "desk") or OWNER
        victim = self.somebody(attacker, "desk")
        session = None if victim is None else self.session_of(victim, own=True)
        if victim is None or session is None or len(self.evil) >= 2:
            return
        evil = f"evil-{len(self.evil)}-of-{attacker}"
        self.evil.append(evil)
        self._set_up(evil)
        self.model.begin(evil, session)
        with self.keeper(evil) as keeper, keeper.store().transaction() as transaction:
            started = SessionStarted(goal="Ours now", project=ProjectFacts(id="p1", name="p"), device=evil)
            transaction.record(session, Draft(started, keeper.now(), evil))
        self.write_text(evil, session)
        self.call(evil, "sync")
        self.share_with(evil, session, victim, writes=self.random.random() < 0.5)
        self.homes.append(evil)
        if self.random.random() < 0.7:
            for offer in [offer for offer in self.offers if offer.vault == evil]:
                self.model.accept(victim, evil, session)
                if self.accept_named(offer):
                    self.breach("own id accepted", f"{victim} took {session} of {evil}, and has one of its own")
        if self.random.random() < 0.5:
            self.call(evil, "delete", session, "--confirm", "--force", codes=ANY)
            self.call(evil, "delete", session, "--confirm", codes=ANY)
            self.model.delete(evil, session)
            self.call(evil, "sync", codes=ANY)
            self.call(victim, "sync", codes=ANY)

    # ── compared with the model ──────────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        self.model.publish()
        self.present.clear()
        for home in self.homes:
            with self.keeper(home) as keeper:
                store = keeper.existing_store()
                sessions = list(store.sessions()) if store is not None else []
                for session in sessions:
                    assert store is not None
                    state = store.state(session)
                    if state is None or not state.count:
                        continue
                    texts = set() if state.deleted else {note.text for note in state.notes}
                    self._check_texts(home, session, {text for text in texts if text in self.model.author})
                    if not state.deleted:
                        self.present.add((home, session))
                        self.met += [session] if session not in self.met else []
                    if not state.deleted and not self.model.may_exist(home, session):
                        self.breach("given by nobody", f"{home} has {session}, which nobody gave them")
            for who, session in list(self.model.came):
                if who == home and session not in sessions and self.model.must_keep(home, session):
                    self.breach("lost", f"{home} lost {session}")

    def _check_texts(self, home: str, session: str, texts: set[str]) -> None:
        more = texts - self.model.may_know(home, session)
        if more:
            self.breach(
                "read without a right", f"{home} knows {sorted(more)} of {session}, which nobody let them read"
            )
        lost = self.model.must_keep(home, session) - texts
        if lost:
            self.breach("lost", f"{home} lost {sorted(lost)} of {session} to somebody who does not decide over it")
        self.model.observe(home, session, texts)

    def notes(self, home: str, session: str, default: set[str]) -> set[str]:
        with self.keeper(home) as keeper:
            store = keeper.existing_store()
            state = None if store is None else store.state(session)
            if state is None or state.deleted:
                return default
            return {note.text for note in state.notes}

    def settle(self) -> None:
        """Sync all homes until nothing changes; then everybody has everything they are entitled to."""
        for _ in range(3):
            for home in self.homes:
                self.call(home, "sync", codes=ANY)
        self.check()
        for (home, session), vault in self.model.came.items():
            if home not in self.homes:
                continue
            expected = self.model.settled(home, session)
            if expected is None:
                if self.notes(home, session, set()):
                    self.breach("not deleted", f"{home} still has {session}, which {vault} deleted")
            elif missing := expected - self.notes(home, session, set()):
                self.breach("not received", f"{home} never got {sorted(missing)} of {session} of {vault}")


MOVES: Final = {
    "begin": 3, "import_file": 2, "write": 6, "share": 5, "accept": 6, "accept_bare": 2, "revoke": 2, "delete": 2,
    "erase": 2, "fork": 1, "sync": 6, "restore": 1, "remove_device": 1, "absurd_clock": 1, "remember": 1, "replay": 1,
    "plant": 2, "offer_same_id": 3, "write_keyed": 3, "take_keys": 3,
}  # fmt: skip


def email(home: str) -> str:
    return f"{home}@example.org"


def play(fleet: Fleet, steps: int) -> None:
    """Run one sequence of moves and compare with the model after each."""
    for move in Fleet.moves_of(fleet.seed, steps):
        fleet.moves.append(move)
        getattr(fleet, move)()
        fleet.check()
    fleet.moves.append("settle")
    fleet.settle()


def clean_up(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
