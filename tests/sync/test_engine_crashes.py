"""The program dies at every step of everything a device does; afterwards all devices continue normally.

A step is a call to the remote or a transaction of the store. It may not happen at all, happen halfway, or happen
without an answer: for each of these, at each step, the act is repeated, and all devices end up in order.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from holdfast.core.errors import NotFound
from holdfast.core.events import EventErased
from holdfast.sync import create_vault, join_vault, removal, vault_shares
from holdfast.sync.read_heads import read_listing
from holdfast.sync.remotes.base import ObjectInfo
from holdfast.sync.sync import sync_vault
from tests.support.vault_devices import Device, Shelf, join, named, settle, stale

# Every step in every way in torture runs; a sample otherwise, different for each way to die.
TORTURE: Final = bool(os.environ.get("HOLDFAST_TORTURE"))
STRIDE: Final = 1 if TORTURE else 36
HOW: Final = ("nothing", "midway", "unanswered", "nothing removed") if TORTURE else ("midway", "unanswered")
PEOPLE: Final = ("anna", "ben", "cleo", "dora", "gus")


class Died(Exception):
    """The process has died."""


class Fuse:
    """Counts steps and ends the process at one of them."""

    def __init__(self, left: int, how: str) -> None:
        self.left = left
        self.how = how

    def burn(self) -> bool:
        self.left -= 1
        return self.left == 0


class MortalRemote(Shelf):
    """A remote during whose use the process may die."""

    def __init__(self, shelf: Shelf, fuse: Fuse) -> None:
        super().__init__()
        self.objects = shelf.objects
        self._fuse = fuse

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        if self._fuse.burn():
            raise Died
        return super().list(prefix)

    def get(self, name: str, limit: int) -> bytes:
        if self._fuse.burn():
            raise Died
        return super().get(name, limit)

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:
        if not self._fuse.burn():
            return super().put(objects, remove=remove)
        if self._fuse.how == "midway":
            super().put(objects[: (len(objects) + 1) // 2])
        elif self._fuse.how == "unanswered":
            super().put(objects, remove=remove)
        elif self._fuse.how == "nothing removed":
            super().put(objects)
        raise Died


class World:
    """A vault with two admins, a member, a joiner and a guest; one session is shared."""

    def __init__(self, directory: Path, like: World | None = None) -> None:
        directory.mkdir(exist_ok=True)
        self.shelf = Shelf()
        self.people: dict[str, Device] = {}
        for name in PEOPLE:
            if like is not None:
                before = like.people[name]
                shutil.copy(before.path, directory)
                device = Device(str(directory), name, self.shelf, like=before, wall=before.time)
            else:
                device = Device(str(directory), name, self.shelf)
            self.people[name] = device
        if like is not None:
            self.shelf.objects = dict(like.shelf.objects)

    def __getitem__(self, name: str) -> Device:
        return self.people[name]

    def close(self) -> None:
        for device in self.people.values():
            device.close()


def populated(directory: Path) -> World:
    world = World(directory)
    anna, ben, cleo = world["anna"], world["ben"], world["cleo"]
    join(anna.create_vault(), ben, admin=True)
    join(anna, cleo)
    anna.start("s1")
    anna.start("s2")
    anna.note("s2", "to be erased")
    settle([anna, ben, cleo])
    world["dora"].ask()
    anna.share("s1", world["gus"])
    settle([anna, ben, cleo])
    for number in range(16):
        cleo.note("s1", f"cleo {number}")
        cleo.sync()
    return world


# ── acts ─────────────────────────────────────────────────────────────────────────────────────────────────


def create(world: World) -> None:
    anna = world["anna"]
    signed = create_vault.read_founding(anna.remote)
    if signed is None:
        anna.create_vault()
    else:
        vault = create_vault.resume(anna.local(), anna.remote, signed)
        assert vault is not None, "the vault is ours, and we know it"
        anna.vault_id = vault.id
    anna.sync()


def request_to_join(world: World) -> None:
    world["dora"].ask()
    world["dora"].sync()


def approve(world: World) -> None:
    vault = world["anna"].vault()
    sync_vault(vault)
    dora = world["dora"].keys.public.id
    if not vault.membership.is_member(dora):
        waiting = join_vault.list_requests(vault, read_listing(world["anna"].remote.list("h/"), vault.tag).joins)
        join_vault.approve(vault, next(request for request in waiting if request.keys.id == dora), admin=False)
    world["anna"].sync()


def receive_keys(world: World) -> None:
    world["dora"].sync()


def remove(world: World) -> None:
    vault = world["anna"].vault()
    sync_vault(vault)
    cleo = world["cleo"].keys.public.id
    if vault.membership.is_member(cleo):
        removal.remove(vault, [cleo]).commit()
    world["anna"].sync()


def new_key(world: World) -> None:
    vault = world["anna"].vault()
    change = vault.change()
    change.new_key()
    change.commit()
    world["anna"].note("s1", "with the new key")
    world["anna"].sync()


def share(world: World) -> None:
    main = world["anna"].vault()
    sync_vault(main)
    small = vault_shares.find_or_create_share(main, "s2")
    gus = world["gus"]
    if not any(invite.live for invite in small.membership.invites):
        vault_shares.invite(small, "gus@example.org", [gus.keys.public.age], write=True, expires=None)
    world["anna"].sync()


def accept(world: World) -> None:
    world["gus"].accept()
    world["gus"].note("s1", "from the guest")
    world["gus"].sync()


def revoke(world: World) -> None:
    main = world["anna"].vault()
    sync_vault(main)
    small = vault_shares.find_share(main, "s1")
    assert small is not None
    with suppress(NotFound):  # done before
        vault_shares.uninvite(small, "gus@example.org")
    world["anna"].sync()


def push(world: World) -> None:
    world["ben"].note("s1", "from ben")
    world["ben"].sync()


def pull(world: World) -> None:
    world["ben"].sync()


def merge(world: World) -> None:
    """The seventeenth pack of a tier: sixteen are merged into one, then the old ones are removed."""
    for number in range(3):
        world["cleo"].note("s1", f"more {number}")
        world["cleo"].sync()


def erase(world: World) -> None:
    anna = world["anna"]
    (event,) = [event for event in anna.events("s2") if event.type == "note.added"]
    if event.data is not None:
        anna.record("s2", EventErased(hashes=(event.hash,)))
    anna.sync()


def follow(world: World) -> None:
    """A later device is admitted to the share by an admin who did not share it."""
    world["ben"].sync()


Act = Callable[[World], None]
# The act, who does it, and the acts that came before without a crash.
ACTS: Final[dict[str, tuple[Act, str, tuple[Act, ...]]]] = {
    "ask": (request_to_join, "dora", ()),
    "approve": (approve, "anna", ()),
    "arrive": (receive_keys, "dora", (approve,)),
    "remove": (remove, "anna", ()),
    "new key": (new_key, "anna", ()),
    "share": (share, "anna", ()),
    "accept": (accept, "gus", ()),
    "revoke": (revoke, "anna", (accept,)),
    "push": (push, "ben", ()),
    "pull": (pull, "ben", (push, remove)),
    "merge": (merge, "cleo", ()),
    "erase": (erase, "anna", ()),
    "follow": (follow, "ben", (approve, receive_keys)),
}


def steps(directory: Path, base: World, act: Act, who: str, how: str) -> Iterator[World]:
    """For every step of the act, a world in which the actor died there and repeated the act."""
    number = 1 + HOW.index(how) * STRIDE // len(HOW)
    while True:
        world = World(directory / f"{how}-{number}".replace(" ", "-"), base)
        device = world[who]
        fuse = Fuse(number, how)
        device.remote = MortalRemote(world.shelf, fuse)

        def step(name: str, fuse: Fuse = fuse) -> None:
            if name == ("committed" if fuse.how == "unanswered" else "begin") and fuse.burn():
                raise Died

        device.step = step
        try:
            act(world)
            done = True
        except Died:
            done = False
        device.remote = world.shelf
        device.step = lambda _: None
        if not done:
            act(world)
        yield world
        world.close()
        shutil.rmtree(directory / f"{how}-{number}".replace(" ", "-"))
        if done:
            return
        number += STRIDE


def check(world: World) -> None:
    """All members agree, all can read, nobody is locked out, and no leftovers remain."""
    everybody = [person for person in world.people.values() if person.vault_id]
    settle(everybody, 3)
    anna = world["anna"]
    members = [device for device in everybody if anna.vault().membership.is_member(device.keys.public.id)]
    for device in members:
        assert device.log() == anna.log(), device.name
        assert device.states() == anna.states(), device.name
        report = device.sync()
        assert not [refused for refused in report.rejected if "removed" not in refused.reason], (
            device.name,
            report.rejected,
        )
        assert not report.pushed
    gus = world["gus"]
    if gus.vault_id and anna.vault().membership.shares:
        shared = vault_shares.find_share(anna.vault(), "s1")
        if shared is not None and shared.membership.is_member(gus.keys.public.id):
            assert gus.log()["s1"] == anna.log()["s1"]
    # Everybody writes once more: merged packs are removed then, and new events arrive everywhere.
    for device in members:
        device.note("s1", f"{device.name} at the end")
    settle(everybody, 2)
    assert all(device.log() == anna.log() for device in members)
    packs = {name for name in world.shelf.objects if name.startswith("p/")}
    assert packs - named(anna) <= stale(members)
    waiting = {name for name in world.shelf.objects if name.startswith("h/join-")}
    heads = [name for name in world.shelf.objects if name.startswith("h/") and name not in waiting]
    assert len(heads) == len({name.rpartition("-")[0] for name in heads}), "one head for each life"
    asking = [device for device in (world["dora"], gus) if device.vault_id and device.vault().memory.status().request]
    assert len(waiting) <= len(asking)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = populated(tmp_path_factory.mktemp("base"))
    for device in world.people.values():
        device.store.close()
    return world


def prepared(directory: Path, base: World, before: Sequence[Act]) -> World:
    world = World(directory / "before", base)
    for act in before:
        act(world)
    for device in world.people.values():
        device.store.close()
    return world


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("what", ACTS)
def test_act_succeeds_when_repeated_after_a_crash_at_any_step(
    tmp_path: Path, base: World, what: str, how: str
) -> None:
    act, who, before = ACTS[what]
    start = prepared(tmp_path, base, before)
    for world in steps(tmp_path, start, act, who, how):
        check(world)


@pytest.mark.parametrize("how", HOW)
def test_founding_succeeds_when_repeated_after_a_crash_at_any_step(tmp_path: Path, how: str) -> None:
    """There is one vault, and others can join it."""
    empty = World(tmp_path / "empty")
    for device in empty.people.values():
        device.store.close()
    for world in steps(tmp_path, empty, create, "anna", how):
        anna, ben = world["anna"], world["ben"]
        anna.start("s1")
        anna.sync()
        join(anna, ben)
        assert ben.log() == anna.log()
        assert anna.vault().membership.members.keys() == {anna.keys.public.id, ben.keys.public.id}


@pytest.mark.parametrize("what", ["approve", "remove", "push", "revoke"])
def test_next_sync_repairs_an_act_that_is_not_repeated(tmp_path: Path, base: World, what: str) -> None:
    """Whether the interrupted act took effect or not."""
    act, who, before = ACTS[what]
    start = prepared(tmp_path, base, before)
    for how in HOW:
        number = 1
        while True:
            world = World(tmp_path / "again", start)
            device = world[who]
            device.remote = MortalRemote(world.shelf, Fuse(number, how))
            try:
                act(world)
                died = False
            except Died:
                died = True
            device.remote = world.shelf
            check(world)
            world.close()
            shutil.rmtree(tmp_path / "again")
            if not died:
                break
            number += STRIDE
