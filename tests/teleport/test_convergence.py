"""Whatever devices do, in whatever order they sync, and whatever their clocks say: in the end all show the same."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec
from fleet import Device, Shelf, join, named, opened, settle
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import view
from holdfast.core.errors import NotFound
from holdfast.core.vocabulary import (
    AgentCompleted,
    AgentFailed,
    AgentProgressed,
    AgentStarted,
    Data,
    DecisionMade,
    EventErased,
    NoteAdded,
    SessionCompleted,
    SessionDeleted,
    SessionEdited,
    SessionPaused,
    SessionResumed,
    TaskAdded,
    TaskCompleted,
    TaskDropped,
    TaskStarted,
)
from holdfast.teleport import sharing

NAMES: Final = ("anna", "ben", "cleo", "dora", "emil")
YEAR: Final = 365 * 24 * 3_600_000
# Years off, in both directions, and one that is right.
CLOCKS: Final = (0, -5 * YEAR, 3 * YEAR, -20 * YEAR, 12 * YEAR)
SESSIONS: Final = ("s1", "s2", "s3")
WORDS: Final = "the words that must go"


class World:
    """Five devices at one remote: three of them in the vault from the start, two of them admins, and a guest."""

    def __init__(self, directory: str) -> None:
        self.shelf = Shelf()
        self.devices = [
            Device(directory, name, self.shelf, wall=1_800_000_000_000 + off)
            for name, off in zip(NAMES, CLOCKS, strict=True)
        ]
        self.guest = Device(directory, "gus", self.shelf)
        self.founder = self.devices[0].found()
        join(self.founder, self.devices[1], admin=True)
        join(self.founder, self.devices[2])
        self.inside = self.devices[:3]
        self.gone: set[str] = set()
        self.count = 0

    def close(self) -> None:
        for device in (*self.devices, self.guest):
            device.close()

    @property
    def members(self) -> list[Device]:
        """Those whom everybody takes for members by now."""
        inside = self.founder.vault().membership
        return [one for one in self.devices if inside.is_member(one.keys.public.id)]

    def do(self, who: int, verb: str, what: int) -> None:
        device = self.devices[who]
        if not device.vault_id or device not in self.inside:
            if verb in ("sync", "join"):
                self._join(device, what)
            return
        session = SESSIONS[what % len(SESSIONS)]
        act = getattr(self, f"_{verb}" if verb != "join" else "_sync", None)
        if act is not None:
            act(device, session, what)
        else:
            self._record(device, session, MADE[verb](what))

    def _record(self, device: Device, session: str, data: Data) -> None:
        state = device.state(session)
        if state is None or state.created_at is None:
            if state is not None and state.deleted:
                return
            device.start(session)
        with suppress(NotFound):  # it was deleted
            device.record(session, data)

    # ── what is not just an event ────────────────────────────────────────────────────────────────────────

    def _sync(self, device: Device, session: str, what: int) -> None:
        device.sync()

    def _back(self, device: Device, session: str, what: int) -> None:
        """Somebody sets the clock back."""
        device.time -= what * 24 * 3_600_000

    def _note(self, device: Device, session: str, what: int) -> None:
        self.count += 1
        self._record(device, session, NoteAdded(text=f"{device.name} {self.count}"))

    def _delete(self, device: Device, session: str, what: int) -> None:
        state = device.state(session)
        if what == 1 and state is not None and not state.deleted:
            self._record(device, session, SessionDeleted())

    def _erase(self, device: Device, session: str, what: int) -> None:
        notes = [one for one in device.events(session) if one.type == "note.added" and one.data is not None]
        if notes:
            self._record(device, session, EventErased(hashes=(notes[what % len(notes)].hash,)))

    def _join(self, device: Device, what: int) -> None:
        """Ask; and be let in by an admin, sooner or later."""
        if device.keys.public.id in self.gone:
            return
        if not device.vault_id:
            device.ask()
            return
        admin = self.inside[what % 2] if len(self.inside) > 1 else self.founder
        if admin.vault().membership.is_admin(admin.keys.public.id):
            with suppress(NotFound):
                admin.approve(device, admin=what == 3)
                self.inside.append(device)
                device.sync()

    def _remove(self, device: Device, session: str, what: int) -> None:
        """An admin removes one of the devices that are not the founder."""
        others = [one for one in self.inside[1:] if one is not device]
        membership = device.vault().membership
        if what == 2 and others and membership.is_admin(device.keys.public.id):
            target = others[what % len(others)]
            if device.vault().membership.is_member(target.keys.public.id):
                device.remove(target)
                self.gone.add(target.keys.public.id)

    def _share(self, device: Device, session: str, what: int) -> None:
        state = device.state("s1")
        if not self.guest.vault_id and state is not None and not state.deleted:
            device.share("s1", self.guest)
            if sharing.offers(self.shelf, [self.guest.keys.identity]):
                self.guest.accept()

    def _guest(self, device: Device, session: str, what: int) -> None:
        if self.guest.vault_id:
            if what % 2:
                self.count += 1
                with suppress(NotFound):
                    self.guest.note("s1", f"guest {self.count}")
            self.guest.sync()


MADE: Final[dict[str, Callable[[int], Data]]] = {
    "edit": lambda what: SessionEdited(goal=f"goal {what}", tags=(f"t{what}",)),
    "progress": lambda what: SessionEdited(progress=what / 10, summary=f"summary {what}"),
    "pause": lambda _: SessionPaused(reason="lunch"),
    "resume": lambda _: SessionResumed(),
    "complete": lambda _: SessionCompleted(),
    "agent": lambda what: AgentStarted(id=f"a{what % 3}", type="coder", task="to code"),
    "agent_on": lambda what: AgentProgressed(id=f"a{what % 3}", progress=what / 10),
    "agent_done": lambda what: AgentCompleted(id=f"a{what % 3}", summary="done"),
    "agent_bad": lambda what: AgentFailed(id=f"a{what % 3}", category="TOOL", message="no"),
    "task": lambda what: TaskAdded(id=f"t{what % 3}", text=f"task {what}"),
    "task_on": lambda what: TaskStarted(id=f"t{what % 3}"),
    "task_done": lambda what: TaskCompleted(id=f"t{what % 3}"),
    "task_drop": lambda what: TaskDropped(id=f"t{what % 3}"),
    "decide": lambda what: DecisionMade(chosen=f"choice {what}"),
}
ACTS: Final = (
    "sync", "sync", "sync", "sync", "note", "note", "back", "delete", "erase", "join", "join", "remove", "share",
    "guest", "guest", *MADE,
)  # fmt: skip
steps = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(ACTS), st.integers(0, 7)), min_size=5, max_size=60
)


def same(devices: list[Device]) -> None:
    """All of them have the same log, and so the same states and conflicts."""
    first = devices[0]
    now = max(one.time for one in devices)
    for other in devices[1:]:
        assert other.log() == first.log(), (first.name, other.name)
        assert other.states() == first.states(), (first.name, other.name)
    for session in first.log():
        shown = set()
        for device in devices:
            state = device.state(session)
            assert state is not None
            shown.add(msgspec.json.encode(view.session(state, now)))
            time = view.worktime(state, now)
            assert time.working + time.paused == time.elapsed
        assert len(shown) == 1


@given(steps)
def test_everybody_ends_up_with_the_same(history: list[tuple[int, str, int]]) -> None:
    """Random acts on up to five devices with wrong clocks, synced in any order, add up to one truth."""
    with tempfile.TemporaryDirectory() as directory:
        world = World(directory)
        try:
            for who, verb, what in history:
                world.do(who, verb, what)
            # A removed device does not know that it was; it must not be able to disturb the others.
            guest = [world.guest] if world.guest.vault_id else []
            settle([*world.inside, *guest], rounds=4)
            members = world.members
            settle([*members, *guest], rounds=3)
            same(members)
            assert all(not one.sync().pushed for one in members)
            if guest:
                assert world.guest.log().get("s1", set()) == members[0].log().get("s1", set())
            for member in members:
                noise = [one for one in member.sync().rejected if "held back" not in one.reason]
                assert not noise, (member.name, noise)
            packs = {name for name in world.shelf.objects if name.startswith("p/")}
            kept = {one.name for one in stale_of(members)}
            loose = packs - named(members[0]) - kept
            assert not loose
        finally:
            world.close()


class _Stale(msgspec.Struct, frozen=True):
    name: str


def stale_of(members: list[Device]) -> list[_Stale]:
    """Packs that were merged, and that their author takes away with the next push."""
    from holdfast.teleport.memory import Memory, Own

    found = []
    for device in members:
        main = device.vault()
        vaults = [main, *(sharing.opened(main, one.vault, one.founding) for one in main.membership.shares)]
        for vault in vaults:
            memory = Memory(device.store, vault.id)
            for _, own in memory.under(Own, "own"):
                found += [_Stale(f"p/{vault.tag}/{name}") for name in own.stale]
    return found
