"""Several devices in one room, a folder they all can reach, and how far they have come with each other.

`a`, `b` and `c` are devices of one person, `g` is somebody else's, `r` is a new one that comes later. Nothing happens
by itself: background syncing is off, and what a test sees is what it did.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from tests.faults.harness import judge
from tests.faults.harness.room import Answer, Room, Tree, bind, empty, write_tree

DEVICES: Final = ("a", "b", "c", "g", "r")
EMAIL: Final = "guest@example.org"
Log = dict[str, frozenset[str]]  # session -> hashes of its events


class Travel(Room):
    def __init__(self, place: str | None = None) -> None:
        super().__init__(place)
        self.homes = {name: os.path.join(self.root, f"home-{name}") for name in DEVICES}
        self.home, self.store = self.homes["a"], os.path.join(self.homes["a"], "store.db")
        self.remote = os.path.join(self.root, "remote")
        self.url = f"folder:{self.remote}"
        self.kept: Tree = {}  # what is there before anything else
        self._stages: dict[str, Tree] = {}
        self._fresh = 0

    def put(self, tree: Tree) -> None:
        empty(self.root)
        write_tree(self.root, {"project": None, **tree})
        for home in self.homes.values():
            if os.path.exists(os.path.join(home, "store.db")):
                bind(home)

    # ── commands ─────────────────────────────────────────────────────────────────────────────────────────

    def at(self, device: str, *argv: str, strace: Sequence[str] = (), **more: Any) -> Answer:
        """A command at this device."""
        environ = self.environ | {"HOLDFAST_HOME": self.homes[device]}
        return self.run(argv, strace=strace, environ=environ, **more)

    def cold(self, argv: Sequence[str], device: str = "a") -> subprocess.Popen[bytes]:
        """The command as people start it: a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast", *argv], cwd=self.project,
            env=self.environ | {"HOLDFAST_HOME": self.homes[device]},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def done(self, device: str, *argv: str, **more: Any) -> dict[str, Any]:
        """The same, and it works; gives its answer."""
        answer = self.at(device, *argv, "--json", **more)
        assert answer.code == 0, f"{device}: {' '.join(argv)} ended with {answer.code}: {answer.out} {answer.err}"
        found: dict[str, Any] = json.loads(answer.out)
        return found

    def sync(self, devices: Iterable[str], times: int = 1) -> None:
        for _ in range(times):
            for device in devices:
                rejected = self.done(device, "sync")["rejected"]
                assert rejected == [], f"{device} took something for an attack: {rejected}"

    def shown(self, device: str) -> dict[str, Any]:
        found: dict[str, Any] = self.done(device, "device", "show")["device"]
        return found

    def words(self, device: str) -> str:
        return str(self.shown(device)["fingerprint"])

    def vault_words(self) -> str:
        return str(self.shown("a")["vaults"][0]["words"])

    def status(self, device: str) -> list[str]:
        return [item["status"] for item in self.done(device, "remote", "list")["remotes"]]

    def session(self, device: str = "a") -> str:
        return str(self.done(device, "show", "@")["session"]["id"])

    def note(self, device: str) -> str:
        """One that nobody has written before."""
        self._fresh += 1
        text = f"note {self._fresh} of {device}"
        self.done(device, "note", text)
        return text

    # ── what there is ────────────────────────────────────────────────────────────────────────────────────

    def log(self, device: str) -> Log:
        """Everything this device has recorded or heard; its store is checked on the way."""
        home = self.homes[device]
        found = judge.look(home, self.project, self.project).log
        return {session: frozenset(own for _, own in events) for session, events in found.items()}

    def logs(self) -> dict[str, Log]:
        return {name: self.log(name) for name, home in self.homes.items() if os.path.exists(home)}

    # ── how far they have come ───────────────────────────────────────────────────────────────────────────

    def reach(self, stage: str) -> None:
        """Bring everybody there: made once, and put back afterwards."""
        if stage not in self._stages:
            before, step = STAGES[stage]
            if before is None:
                self.put(self.kept)
            else:
                self.reach(before)
            step(self)
            self._stages[stage] = self.take()
        self.put(self._stages[stage])

    def begin(self, device: str) -> None:
        """A home of its own, with nothing in it but how it is set."""
        os.mkdir(self.homes[device], 0o700)
        config = f'[device]\nname = "{device}"\n\n[sync]\nbackground = false\n'
        write_tree(self.homes[device], {"config.toml": config.encode()})

    def join(self, device: str) -> None:
        """A device that has asked is let in, and made sure of the vault."""
        self.done("a", "device", "approve", self.words(device))
        self.arrive(device)

    def arrive(self, device: str) -> None:
        self.done(device, "sync")
        self.done(device, "remote", "confirm", "home", self.vault_words())
        self.sync((device, "a", device))


def _recorded(room: Travel) -> None:
    for device in ("a", "b", "c", "g"):
        room.begin(device)
        room.done(device, "start", f"the goal of {device}", "--replace")
        room.note(device)
        room.note(device)


def _founded(room: Travel) -> None:
    room.done("a", "remote", "add", "home", room.url)
    room.sync("a")


def _asked(room: Travel) -> None:
    room.done("b", "remote", "add", "home", room.url)


def _let_in(room: Travel) -> None:
    """Approved, and not yet sure that the vault is the right one."""
    room.done("a", "device", "approve", room.words("b"))
    room.sync("b")


def _met(room: Travel) -> None:
    """The guest has keys to give."""
    room.shown("g")


def _three(room: Travel) -> None:
    room.done("c", "remote", "add", "home", room.url)
    room.join("c")
    room.sync("abc")


def _known(room: Travel) -> None:
    room.done("a", "people", "add", EMAIL, room.shown("g")["age"])
    room.done("g", "people", "add", "owner@example.org", room.shown("a")["fingerprint"])


def _shared(room: Travel) -> None:
    room.done("a", "share", room.session(), "--with", EMAIL)


def _accepted(room: Travel) -> None:
    room.done("g", "accept", room.url)
    room.sync("agb")
    room.sync("ga")


def _busy(room: Travel) -> None:
    """Both have something to tell, and there is something to hear for both."""
    room.note("b")
    room.sync("b")
    for device in "ab":
        room.note(device)
        room.done(device, "start", f"another goal of {device}", "--replace")


def _split(room: Travel) -> None:
    """Two say different things about one session without having heard of each other."""
    session = room.session()
    room.done("b", "resume", session, "--force")
    room.sync("ba")
    for device in "ab":
        room.done(device, "edit", "--goal", f"as {device} wants it")
    room.sync("aba")
    found = room.done("a", "conflicts", session)["conflicts"]
    assert len(found) == 1, found


def _gone(room: Travel) -> None:
    """A device was taken out, and went on writing."""
    room.done("a", "device", "remove", "c")
    room.note("c")
    for device in "cab":
        room.done(device, "sync")  # each says of the others' that it cannot be taken in


STAGES: Final[dict[str, tuple[str | None, Callable[[Travel], None]]]] = {
    "recorded": (None, _recorded),
    "founded": ("recorded", _founded),
    "asked": ("founded", _asked),
    "joined": ("asked", lambda room: room.join("b")),
    "let in": ("asked", _let_in),
    "three": ("joined", _three),
    "gone": ("three", _gone),
    "met": ("joined", _met),
    "known": ("met", _known),
    "shared": ("known", _shared),
    "accepted": ("shared", _accepted),
    "busy": ("joined", _busy),
    "split": ("joined", _split),
}


# ── what is done, and what must come of it ───────────────────────────────────────────────────────────────


def nothing(room: Travel) -> None:
    """There is nothing more to do, or to look at."""


class Trip(NamedTuple):
    """A command that is disturbed, and how everybody goes on afterwards."""

    name: str
    device: str
    stage: str
    argv: Callable[[Travel], tuple[str, ...]]
    # How trying again may end: what has happened is not done twice.
    again: tuple[int, ...] = (0,)
    # What others do to finish it, and what must be so then; `members` hear of each other.
    finish: Callable[[Travel], None] = nothing
    check: Callable[[Travel], None] = nothing
    members: str = "ab"

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(self.name.split(":")[0].split())


def _joined(room: Travel) -> None:
    room.done("b", "remote", "add", "home", room.url)
    room.join("b")


def _same_keys(room: Travel) -> None:
    assert room.words("a") == room.words("a")
    room.done("a", "remote", "add", "home", room.url)


def _added_again(room: Travel) -> None:
    room.done("b", "remote", "add", "home", room.url)
    room.sync("b")


def _c_is_out(room: Travel) -> None:
    told = room.note("a")
    room.sync("abab")
    assert room.done("c", "sync")["notes"], "it is not told that it may be out"
    assert told not in json.dumps(room.done("c", "show", room.session()))


def _c_was_heard(room: Travel) -> None:
    room.sync("abab")
    written = room.log("c")
    for device in "ab":
        has = room.log(device)
        late = [session for session, events in written.items() if not events <= has.get(session, frozenset())]
        assert not late, f"{device} has not all that was let in of {late}"


def _renamed(room: Travel) -> None:
    for device in "ab":
        names = {item["name"] for item in room.done(device, "device", "list")["devices"]}
        assert names == {"a", "the other"}, f"at {device}: {names}"


def _code_opens(room: Travel) -> None:
    code = room.done("a", "device", "recovery-code")["recovery_code"]
    path = os.path.join(room.root, "code")
    write_tree(room.root, {"code": f"{code}\n".encode()})
    room.begin("r")
    room.done("r", "remote", "add", "home", room.url, "--recover", stdin=path)
    room.sync("rar")
    assert room.log("r") == room.log("a")


def _guest_is_known(room: Travel) -> None:
    (person,) = room.done("a", "people", "list")["people"]
    assert person == {"email": EMAIL, "keys": [room.shown("g")["age"]], "devices": []}


def _guest_takes_part(room: Travel) -> None:
    room.done("g", "accept", room.url)
    room.sync("agag")
    session = room.session()
    own = room.session("g")
    room.done("g", "resume", session, "--force")
    for device in "ag":
        text = room.note(device)
        room.sync("agb" if device == "a" else "gab")
        for other in "gab":
            assert text in json.dumps(room.done(other, "show", session)), f"{other} has not heard {device}"
    assert set(room.log("g")) == {own, session}, "the guest has more than what was shared"


def _guest_is_out(room: Travel) -> None:
    session = room.session()
    told = room.note("a")
    room.sync("abab")
    answer = room.at("g", "sync")
    assert "Traceback" not in answer.err
    assert told not in json.dumps(room.done("g", "show", session))


def _settled(room: Travel) -> None:
    for device in "ab":
        (one,) = room.done(device, "conflicts", room.session("a"))["conflicts"]
        assert one["chosen"] is not None


def _conflict(room: Travel) -> tuple[str, ...]:
    session = room.session()
    (found,) = room.done("a", "conflicts", session)["conflicts"]
    return ("resolve", found["id"], session, "--take", "1")


TRIPS: Final = (
    Trip("sync: both ways", "a", "busy", lambda _: ("sync",)),
    Trip("remote add: founding", "a", "recorded", lambda room: ("remote", "add", "home", room.url), (0, 5), _joined),
    Trip("remote add: asking", "b", "founded", lambda room: ("remote", "add", "home", room.url), (0, 5),
         lambda room: room.join("b")),
    Trip("device approve", "a", "asked", lambda room: ("device", "approve", room.words("b")), (0, 5),
         lambda room: room.arrive("b")),
    Trip("device remove", "a", "three", lambda _: ("device", "remove", "c"), (0, 3), check=_c_is_out),
    Trip("device admit", "a", "gone", lambda _: ("device", "admit", "c"), check=_c_was_heard),
    Trip("share", "a", "known", lambda room: ("share", room.session(), "--with", EMAIL), check=_guest_takes_part),
    Trip("accept", "g", "shared", lambda room: ("accept", room.url), check=_guest_takes_part),
    Trip("revoke", "a", "accepted", lambda room: ("revoke", room.session(), "--from", EMAIL), (0, 3),
         check=_guest_is_out),
    Trip("device recovery-code", "a", "joined", lambda _: ("device", "recovery-code"), check=_code_opens),
    Trip("device show", "a", "recorded", lambda _: ("device", "show"), finish=_same_keys, members="a"),
    Trip("device rename", "b", "joined", lambda _: ("device", "rename", "the other"), check=_renamed),
    Trip("people add", "a", "met", lambda room: ("people", "add", EMAIL, room.shown("g")["age"]), (0, 5),
         check=_guest_is_known),
    Trip("remote confirm", "b", "let in", lambda room: ("remote", "confirm", "home", room.vault_words()),
         finish=lambda room: room.sync("b")),
    Trip("remote remove", "b", "joined", lambda _: ("remote", "remove", "home"), (0, 3),
         _added_again),
    Trip("sync: sending", "b", "busy", lambda _: ("sync",)),
    Trip("sync: receiving", "a", "accepted", lambda _: ("sync",)),
    Trip("resolve", "a", "split", _conflict, (0, 1, 3, 5), check=_settled),
    Trip("fork", "a", "joined", lambda room: ("fork", room.session())),
)  # fmt: skip
BACKGROUND: Final = ("holdfast.keeper.background_sync", "run")


def goes_on(room: Travel, trip: Trip, before: dict[str, Log]) -> None:
    """The next command works unaided, everybody hears of everything, and nobody is locked out."""
    following = room.at(trip.device, "status")
    assert following.code == 0, f"the next command ended with {following.code}: {following.err}"
    assert "Traceback" not in following.err
    again = room.at(trip.device, *trip.argv(room))
    assert again.code in trip.again, f"trying again ended with {again.code}: {again.err}"
    assert "Traceback" not in again.err
    trip.finish(room)
    converge(room, trip.members)
    trip.check(room)
    kept(before, room.logs())
    for home in room.homes.values():
        assert judge.leftovers(home) == [], f"left behind unnamed: {judge.leftovers(home)}"


def converge(room: Travel, members: str) -> None:
    """Each says something, and after a few syncs all of them know it."""
    for device in members:
        room.note(device)
    room.sync(members, 2)
    first = room.log(members[0])
    for device in members:
        assert room.status(device) == ["member"], f"{device} is locked out: {room.status(device)}"
        assert room.log(device) == first, f"{device} and {members[0]} do not have the same"


def kept(before: dict[str, Log], after: dict[str, Log]) -> None:
    for device, log in before.items():
        for session, events in log.items():
            lost = events - after[device].get(session, frozenset())
            assert not lost, f"{device} lost {len(lost)} events of {session}"
