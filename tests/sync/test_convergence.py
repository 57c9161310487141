"""All devices end with the same log, whatever they do, in whatever order they sync, and whatever their clocks say."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.core import view
from holdfast.core.errors import NotFound
from holdfast.core.events import (
    AgentCompleted,
    AgentFailed,
    AgentProgressed,
    AgentStarted,
    DecisionMade,
    EventData,
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
from holdfast.sync import accept_late, read_heads, removal, vault_shares
from holdfast.sync.protocol.sealing import vault_tag
from holdfast.sync.sync import MAY_NOT_SHARE, sync_vault
from tests.support.vault_devices import Device, Shelf, join, named, settle, stale

NAMES: Final = ("anna", "ben", "cleo", "dora", "emil")
YEAR: Final = 365 * 24 * 3_600_000
# Years off, in both directions, and one that is right.
CLOCKS: Final = (0, -5 * YEAR, 3 * YEAR, -20 * YEAR, 12 * YEAR)
SESSIONS: Final = ("s1", "s2", "s3")


class World:
    """Five devices at one remote: three members from the start, two of them admins, and a guest."""

    def __init__(self, directory: str) -> None:
        self.shelf = Shelf()
        self.devices = [
            Device(directory, name, self.shelf, wall=1_800_000_000_000 + off)
            for name, off in zip(NAMES, CLOCKS, strict=True)
        ]
        self.guest = Device(directory, "gus", self.shelf)
        self.founder = self.devices[0].create_vault()
        join(self.founder, self.devices[1], admin=True)
        join(self.founder, self.devices[2])
        self.inside = self.devices[:3]
        self.removed: set[str] = set()
        self.count = 0

    def close(self) -> None:
        for device in (*self.devices, self.guest):
            device.close()

    @property
    def members(self) -> list[Device]:
        """The devices that every member takes for members now."""
        inside = self.founder.vault().membership
        return [device for device in self.devices if inside.is_member(device.keys.public.id)]

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

    def _record(self, device: Device, session: str, data: EventData) -> None:
        state = device.state(session)
        if state is None or state.created_at is None:
            if state is not None and state.deleted:
                return
            device.start(session)
        with suppress(NotFound):  # it was deleted
            device.record(session, data)

    # ── other acts than recording ────────────────────────────────────────────────────────────────────────────

    def _sync(self, device: Device, session: str, what: int) -> None:
        device.sync()

    def _set_clock_back(self, device: Device, session: str, what: int) -> None:
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
        notes = [event for event in device.events(session) if event.type == "note.added" and event.data is not None]
        if notes:
            self._record(device, session, EventErased(hashes=(notes[what % len(notes)].hash,)))

    def _join(self, device: Device, what: int) -> None:
        """Ask to join; an admin approves sooner or later."""
        if device.keys.public.id in self.removed:
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
        """An admin removes a device other than the founder."""
        others = [item for item in self.inside[1:] if item is not device]
        membership = device.vault().membership
        if what == 2 and others and membership.is_admin(device.keys.public.id):
            target = others[what % len(others)]
            if device.vault().membership.is_member(target.keys.public.id):
                device.remove(target)
                self.removed.add(target.keys.public.id)

    def _admit(self, device: Device, session: str, what: int) -> None:
        """An admin admits the late events of removed devices that it knows of."""
        me = device.keys.public.id
        sync_vault(device.vault())
        main = device.vault()
        for vault in (
            main,
            *(vault_shares.open_share(main, share.vault, share.founding) for share in main.membership.shares),
        ):
            for removed in sorted(vault.membership.removed if vault.membership.is_admin(me) else ()):
                accept_late.admit_at_vault(vault, removed)
        if what % 2:
            device.sync()

    def _share(self, device: Device, session: str, what: int) -> None:
        state = device.state("s1")
        if not self.guest.vault_id and state is not None and not state.deleted:
            device.share("s1", self.guest)
            if vault_shares.offers(self.shelf, [self.guest.keys.identity]):
                self.guest.accept()

    def _guest(self, device: Device, session: str, what: int) -> None:
        if self.guest.vault_id:
            if what % 2:
                self.count += 1
                with suppress(NotFound):
                    self.guest.note("s1", f"guest {self.count}")
            self.guest.sync()


MADE: Final[dict[str, Callable[[int], EventData]]] = {
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
    "sync", "sync", "sync", "sync", "note", "note", "set_clock_back", "delete", "erase", "join", "join", "remove",
    "admit", "share", "guest", "guest", *MADE,
)  # fmt: skip
steps = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(ACTS), st.integers(0, 7)), min_size=5, max_size=60)


def assert_same(devices: list[Device]) -> None:
    """All devices have the same log, hence the same states and conflicts."""
    first = devices[0]
    now = max(device.time for device in devices)
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


@settings(max_examples=settings().max_examples // 3)  # each example builds a whole fleet
@given(steps)
@example([(0, "sync", 0), (0, "sync", 0), (0, "note", 0), (2, "edit", 0), (2, "share", 0)])
def test_all_devices_converge(history: list[tuple[int, str, int]]) -> None:
    """Up to five devices with wrong clocks do random things and sync in any order."""
    with tempfile.TemporaryDirectory() as directory:
        world = World(directory)
        try:
            for who, verb, what in history:
                world.do(who, verb, what)
            # A removed device does not know it; it must not be able to disturb the others.
            guest = [world.guest] if world.guest.vault_id else []
            settle([*world.inside, *guest], rounds=4)
            members = world.members
            settle([*members, *guest], rounds=3)
            assert_same(members)
            assert all(not member.sync().pushed for member in members)
            if guest and any(share.vault == world.guest.vault_id for share in members[0].vault().membership.shares):
                assert world.guest.log().get("s1", set()) == members[0].log().get("s1", set())
            expected = {read_heads.NOT_ACCEPTED}
            if sum(event.type == "session.started" for event in members[0].events("s1")) > 1:
                # A plain device that began it apart from others shared it before it knew of them.
                expected.add(MAY_NOT_SHARE)
            for member in members:
                noise = [refused for refused in member.sync().rejected if refused.reason not in expected]
                assert not noise, (member.name, noise)
            # What a removed device shares after its removal does not belong to the vault.
            main = members[0].vault()
            ours = tuple(
                f"p/{vault_tag(name)}/" for name in (main.id, *(share.vault for share in main.membership.shares))
            )
            packs = {name for name in world.shelf.objects if name.startswith(ours)}
            assert packs - named(members[0]) <= stale(members)
        finally:
            world.close()


# ── concurrent acts ──────────────────────────────────────────────────────────────────────────────────────


def fleet(directory: Path, *names: str, admins: int = 2) -> list[Device]:
    shelf = Shelf()
    devices = [Device(str(directory), name, shelf) for name in names]
    devices[0].create_vault()
    for number, device in enumerate(devices[1:], 1):
        join(devices[0], device, admin=number < admins)
    devices[0].start("s1")
    settle(devices)
    return devices


def test_device_approved_during_a_key_change_gets_the_key(tmp_path: Path) -> None:
    """It reads and writes like every member."""
    anna, ben, cleo = fleet(tmp_path, "anna", "ben", "cleo")
    dora = Device(str(tmp_path), "dora", anna.remote).ask()
    first, second = anna.vault(), ben.vault()
    sync_vault(first)
    sync_vault(second)
    frozen = dict(anna.remote.objects)  # type: ignore[attr-defined]
    removal.remove(first, [cleo.keys.public.id]).commit()
    anna.note("s1", "with a key that dora was not given")
    anna.sync()
    now = dict(anna.remote.objects)  # type: ignore[attr-defined]
    anna.remote.objects.clear()  # type: ignore[attr-defined]
    anna.remote.objects.update(frozen)  # type: ignore[attr-defined]
    ben.approve(dora)
    anna.remote.objects.update(now)  # type: ignore[attr-defined]
    settle([ben, anna, dora], 3)
    dora.note("s1", "from dora")
    settle([anna, ben, dora])
    assert_same([anna, ben, dora])
    assert sorted(dora.notes("s1")) == ["from dora", "with a key that dora was not given"]
    assert not dora.sync().rejected


def test_equal_concurrent_approvals_and_removals_count_once(tmp_path: Path) -> None:
    """Two admins act on the same devices at once; all members agree on the result."""
    anna, ben, cleo = fleet(tmp_path, "anna", "ben", "cleo")
    dora = Device(str(tmp_path), "dora", anna.remote).ask()
    cleo.note("s1", "from cleo")
    cleo.sync()
    anna.sync()
    vaults = [anna.vault(), ben.vault()]
    for vault in vaults:
        removal.remove(vault, [cleo.keys.public.id]).store()
    anna.sync()
    ben.sync()
    anna.approve(dora)
    settle([ben, dora, anna])
    assert_same([anna, ben, dora])
    assert dora.notes("s1") == ["from cleo"]
    members = {frozenset(device.vault().membership.members) for device in (anna, ben, dora)}
    assert len(members) == 1


# ── removal and readmission ──────────────────────────────────────────────────────────────────────────────


def test_events_of_a_removed_device_reach_later_members(tmp_path: Path) -> None:
    """Accepted events are vouched for by another device from then on; the removed device's packs are deleted."""
    anna, ben, cleo = fleet(tmp_path, "anna", "ben", "cleo")
    cleo.note("s1", "accepted")
    cleo.sync()
    anna.remove(cleo)
    dora = Device(str(tmp_path), "dora", anna.remote)
    join(anna, dora)
    settle([anna, ben, dora])
    assert_same([anna, ben, dora])
    assert dora.notes("s1") == ["accepted"]
    assert not dora.sync().rejected
    assert {name for name in anna.remote.objects if name.startswith("p/")} == named(dora)  # type: ignore[attr-defined]


def test_late_events_are_withdrawn_and_can_be_admitted(tmp_path: Path) -> None:
    """One device read them before the removal, the remover did not: they are withheld until an admin admits them."""
    anna, ben, cleo = fleet(tmp_path, "anna", "ben", "cleo")
    vault = anna.vault()
    sync_vault(vault)
    cleo.note("s1", "late")
    cleo.sync()
    ben.sync()
    assert ben.notes("s1") == ["late"]
    removal.remove(vault, [cleo.keys.public.id]).commit()
    settle([anna, ben])
    assert_same([anna, ben])
    assert ben.notes("s1") == []
    assert any("it comes from a removed device" in refused.reason for refused in ben.sync().rejected)
    vault = ben.vault()
    sync_vault(vault)
    accept_late.admit_at_vault(vault, cleo.keys.public.id)
    settle([ben, anna])
    assert_same([anna, ben])
    assert anna.notes("s1") == ["late"]


def test_readmitted_device_loses_nothing(tmp_path: Path) -> None:
    """Removed by mistake and approved again: everything it wrote meanwhile arrives."""
    anna, ben, cleo = fleet(tmp_path, "anna", "ben", "cleo")
    vault = anna.vault()
    sync_vault(vault)
    cleo.note("s1", "read by ben only")
    cleo.sync()
    ben.sync()
    removal.remove(vault, [cleo.keys.public.id]).commit()
    settle([anna, ben])
    cleo.note("s1", "while outside")
    cleo.sync()
    settle([anna, ben])
    cleo.ask()
    anna.approve(cleo)
    settle([cleo, anna, ben])
    assert_same([anna, ben, cleo])
    assert sorted(anna.notes("s1")) == ["read by ben only", "while outside"]


def test_devices_agree_on_the_last_events_of_a_removed_guest(tmp_path: Path) -> None:
    """The guest is removed by somebody who had not read them; another admin had passed them on."""
    anna, ben, cleo = fleet(tmp_path, "anna", "ben", "cleo")
    gus = Device(str(tmp_path), "gus", anna.remote)
    anna.share("s1", gus)
    gus.accept()
    settle([anna, ben, cleo, gus])
    main = anna.vault()
    sync_vault(main)
    small = vault_shares.find_share(main, "s1")
    assert small is not None
    gus.note("s1", "passed on")
    gus.sync()
    ben.sync()
    ben.sync()  # it reads the share first, then passes events on to the vault
    vault_shares.uninvite(small, "gus@example.org")
    settle([anna, ben, cleo])
    assert_same([anna, ben, cleo])
    dora = Device(str(tmp_path), "dora", anna.remote)
    join(anna, dora)
    settle([anna, ben, cleo, dora])
    assert_same([anna, ben, cleo, dora])


def test_stream_stays_valid_when_one_of_its_vouchers_is_removed(tmp_path: Path) -> None:
    """An admin who passed on somebody's events is removed: the author's own signature still counts."""
    anna, ben, cleo = fleet(tmp_path, "anna", "ben", "cleo")
    for number in range(3):
        cleo.note("s1", str(number))
        cleo.sync()
    ben.forget()  # it publishes what it has once more
    settle([ben, anna, cleo])
    anna.remove(ben)
    settle([anna, cleo])
    assert_same([anna, cleo])
    assert len(anna.notes("s1")) == 3
