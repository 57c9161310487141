"""Which devices have authority in a vault: deletions, erasures and shares by non-admins and by other vaults."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.core import view
from holdfast.core.envelope import Event, make_event
from holdfast.core.errors import Refused
from holdfast.core.events import EventErased, NoteAdded, ProjectFacts, SessionDeleted, SessionStarted
from holdfast.core.state import State, freeze
from holdfast.store import origin
from holdfast.store.interface import Draft
from holdfast.sync import accept_late, join_vault, provenance, removal, vault_shares
from holdfast.sync.protocol import entries, heads, sealing
from holdfast.sync.protocol.entries import Admit, Invite, NewKey, Remove, Rename
from holdfast.sync.sync import _sync_one_vault, sync_vault
from holdfast.sync.vault import Vault
from holdfast.workspace.keys import age
from holdfast.workspace.keys.device_keys import DeviceKeys, PublicKeys, certified_writer
from tests.support.vault_devices import Device, Shelf, join, opened, settle


class Fleet:
    """Anna is an admin, Ben and Cleo are not; Anna started the session."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.shelf = Shelf()
        self.anna, self.ben, self.cleo = (Device(directory, name, self.shelf) for name in ("anna", "ben", "cleo"))
        join(self.anna.create_vault(), self.ben, self.cleo)
        self.anna.start("s1")
        self.anna.note("s1", "by anna")
        settle(self.all, 2)

    @property
    def all(self) -> list[Device]:
        return [self.anna, self.ben, self.cleo]

    def hash_of(self, words: str) -> str:
        return next(event.hash for event in self.anna.events("s1") if event.data and words.encode() in event.data)

    def assert_intact(self, *devices: Device) -> None:
        for device in devices:
            state = device.state("s1")
            assert state is not None
            assert not state.deleted
            assert "by anna" in device.notes("s1")
            assert list(device.store.check()) == []


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(str(tmp_path))
    yield made
    for device in made.all:
        device.close()


def test_deletion_by_a_non_admin_is_not_obeyed(fleet: Fleet) -> None:
    """Nor are its later events in that session; it is reported, and its other sessions arrive."""
    fleet.ben.record("s1", SessionDeleted())
    fleet.ben.start("s2")
    fleet.ben.sync()
    report = fleet.anna.sync()
    assert any("may delete it" in refused.reason for refused in report.rejected)
    settle([fleet.cleo, fleet.anna], 2)
    fleet.assert_intact(fleet.anna, fleet.cleo)
    assert fleet.anna.state("s2") is not None


def test_erasure_by_a_non_admin_is_not_obeyed(fleet: Fleet) -> None:
    """It may erase what it wrote itself."""
    fleet.ben.note("s1", "by ben")
    settle(fleet.all, 2)
    own = next(event.hash for event in fleet.ben.events("s1") if event.data and b"by ben" in event.data)
    fleet.ben.record("s1", EventErased(hashes=(own,)))
    settle(fleet.all, 2)
    assert "by ben" not in fleet.anna.notes("s1")
    fleet.ben.record("s1", EventErased(hashes=(fleet.hash_of("by anna"),)))
    settle([fleet.ben, fleet.anna, fleet.cleo], 2)
    fleet.assert_intact(fleet.anna, fleet.cleo)


def test_device_may_delete_a_session_it_started(fleet: Fleet) -> None:
    """On all devices, without being an admin."""
    fleet.ben.start("s2")
    settle(fleet.all, 2)
    fleet.ben.record("s2", SessionDeleted())
    settle(fleet.all, 2)
    for device in fleet.all:
        state = device.state("s2")
        assert state is not None
        assert state.deleted


def test_forged_start_gives_no_right_to_delete(fleet: Fleet) -> None:
    """Even with the lowest clock it is not how the session started."""
    began = SessionStarted(goal="forged", device="ben", project=ProjectFacts(id="p1", name="project"))
    event = make_event(
        session="s1", writer=fleet.ben.renew(), seq=1, prev=None, clock=1, at=1, actor="ben", type="session.started",
        version=1, data=msgspec.json.encode(began), salt=os.urandom(16),
    )  # fmt: skip
    with fleet.ben.transaction() as transaction:
        transaction.receive([event])
    fleet.ben.record("s1", SessionDeleted())
    settle([fleet.ben, fleet.anna, fleet.cleo], 2)
    fleet.assert_intact(fleet.anna, fleet.cleo)


def _forge_start(device: Device) -> None:
    """A start with the lowest clock, and the deletion, in a stream of their own."""
    began = SessionStarted(goal="forged", device=device.name, project=ProjectFacts(id="p1", name="project"))
    event = make_event(
        session="s1", writer=device.renew(), seq=1, prev=None, clock=1, at=1, actor="x", type="session.started",
        version=1, data=msgspec.json.encode(began), salt=os.urandom(16),
    )  # fmt: skip
    with device.transaction() as transaction:
        transaction.receive([event])


@pytest.mark.parametrize("seed", range(4))
def test_newcomer_does_not_obey_a_forged_start(fleet: Fleet, seed: int) -> None:
    """In whatever order it reads the streams; an admin that removes the forger passes none of it on."""
    _forge_start(fleet.ben)
    fleet.ben.record("s1", SessionDeleted())
    fleet.ben.sync()
    new = Device(fleet.directory, f"dora{seed}", fleet.shelf)
    join(fleet.anna, new, admin=True)
    settle([new, fleet.anna], 2)
    fleet.assert_intact(fleet.anna, new)
    new.remove(fleet.ben)
    settle([new, fleet.anna, fleet.cleo], 2)
    fleet.assert_intact(fleet.anna, fleet.cleo, new)
    new.close()


def test_admitting_late_events_deletes_nothing(fleet: Fleet) -> None:
    """The admin's rights do not extend to them."""
    fleet.anna.remove(fleet.ben)
    fleet.ben.record("s1", SessionDeleted())
    fleet.ben.sync()
    fleet.anna.sync()
    accept_late.admit_at_vault(fleet.anna.vault(), fleet.ben.keys.public.id)
    settle([fleet.anna, fleet.cleo], 2)
    fleet.assert_intact(fleet.anna, fleet.cleo)


def test_admin_that_restored_a_hostile_backup_deletes_nothing(fleet: Fleet) -> None:
    """A writer outside the vault has no authority through the admin either."""
    new = Device(fleet.directory, "dora", fleet.shelf)
    outsider = certified_writer(DeviceKeys.generate().public.signing)
    event = make_event(
        session="s1", writer=outsider, seq=1, prev=None, clock=5, at=5, actor="x", type="session.deleted", version=1,
        data=b"{}", salt=os.urandom(16),
    )  # fmt: skip
    with new.transaction() as transaction:
        transaction.receive([event])
    join(fleet.anna, new, admin=True)
    settle([new, fleet.anna, fleet.cleo], 2)
    fleet.assert_intact(fleet.anna, fleet.cleo)
    new.close()


def test_guest_cannot_restart_the_session(fleet: Fleet) -> None:
    """A start with the lowest clock would change goal and project everywhere."""
    gus = Device(fleet.directory, "gus", fleet.shelf)
    fleet.anna.share("s1", gus)
    gus.accept()
    settle([fleet.anna, gus], 2)
    (offer,) = vault_shares.offers(gus.remote, [gus.keys.identity])
    vault_shares.accept(gus.local(), gus.remote, offer)
    settle([fleet.anna, gus], 2)
    _forge_start(gus)
    gus.note("s1", "after it")
    gus.sync()
    report = fleet.anna.sync()
    assert any("start the session again" in refused.reason for refused in report.rejected)
    state = fleet.anna.state("s1")
    assert state is not None
    assert view.text_value(state, "goal") == "Keep what matters"
    gus.close()


def test_hidden_device_in_a_share_is_removed(fleet: Fleet) -> None:
    """The founder of a share admits guests only: the vault's admins remove everybody else."""
    fleet.ben.start("s2")
    settle(fleet.all, 2)
    main = fleet.ben.vault()
    sync_vault(main)
    small = vault_shares.find_or_create_share(main, "s2")
    hidden = DeviceKeys.generate()
    change = small.change()
    change.add(Admit, device=hidden.public, name="tab", admin=True, role="device")
    change.commit()
    settle(fleet.all, 2)
    share = vault_shares.find_share(fleet.anna.vault(), "s2")
    assert share is not None
    assert not share.membership.is_member(hidden.public.id)


def test_unauthorized_share_is_not_followed(fleet: Fleet) -> None:
    """Other devices publish nothing there, and admit nobody."""
    main = fleet.ben.vault()
    sync_vault(main)
    small = vault_shares.find_or_create_share(main, "s1")
    guest = DeviceKeys.generate()
    vault_shares.invite(small, "gus@example.org", [guest.public.age], write=True, expires=None)
    fleet.ben.sync()
    report = fleet.anna.sync()
    assert any("neither started" in refused.reason for refused in report.rejected)
    fleet.anna.note("s1", "after the share")
    settle([fleet.anna, fleet.cleo], 2)
    assert not fleet.shelf.list(f"p/{small.tag}/") or all(
        stretch.device == fleet.ben.keys.public.id
        for name, stretches in opened(fleet.ben).items()
        if name.startswith(f"p/{small.tag}/")
        for stretch in stretches
    )


def test_unauthorized_invitation_is_ended(fleet: Fleet) -> None:
    """It would let somebody read under another guest's address; an admin's next sync ends it."""
    gus = Device(fleet.directory, "gus", fleet.shelf)
    fleet.anna.share("s1", gus)
    settle(fleet.all, 2)
    small = vault_shares.find_share(fleet.ben.vault(), "s1")
    assert small is not None
    hidden = DeviceKeys.generate()
    vault_shares.invite(small, "gus@example.org", [hidden.public.age], write=False, expires=None)
    settle(fleet.all, 2)
    share = vault_shares.find_share(fleet.anna.vault(), "s1")
    assert share is not None
    assert [invite.by for invite in share.membership.invites if invite.live] == [fleet.anna.keys.public.id]
    assert hidden.public.age not in share.membership.recipient_keys()
    gus.close()


def test_deleted_session_of_another_project_is_not_sent(fleet: Fleet) -> None:
    """A project's vault receives nothing about others, even when no event names the project any more."""
    vault = fleet.anna.vault()
    fleet.anna.start("s5")
    with fleet.anna.transaction() as transaction:
        vault.memory.write(transaction, ("another project",), "projects")
    fleet.anna.store.erase("s5", Draft(SessionDeleted(), fleet.anna.time, "anna"))
    fleet.anna.sync()
    assert all(stretch.session != "s5" for stretches in opened(fleet.anna).values() for stretch in stretches)


def test_device_may_share_a_session_it_started(fleet: Fleet) -> None:
    """The others follow its share."""
    fleet.ben.start("s2")
    settle(fleet.all, 2)
    gus = Device(fleet.directory, "gus", fleet.shelf)
    fleet.ben.share("s2", gus)
    settle(fleet.all, 2)
    gus.accept()
    fleet.anna.note("s2", "for gus too")
    settle([fleet.anna, fleet.ben, gus], 2)
    assert "for gus too" in gus.notes("s2")
    gus.close()


def test_admin_of_the_second_vault_does_not_decide(fleet: Fleet, tmp_path: Path) -> None:
    """Of several own vaults, the first with the session owns it."""
    here = fleet.ben.local()._replace(vaults=lambda _: ("another", fleet.ben.vault_id))
    with fleet.ben.transaction() as transaction:
        origin.record_own(transaction, "s1")
    fleet.anna.record("s1", SessionDeleted())
    fleet.anna.sync()
    vault = fleet.ben.vault()
    vault.local = here
    report = sync_vault(vault)
    assert any("may delete it" in refused.reason for refused in report.rejected)
    fleet.assert_intact(fleet.ben)


def test_vault_has_no_authority_over_a_session_not_sent_there(fleet: Fleet) -> None:
    """An own session of another project, or from before the vault was confirmed, loses nothing to it."""
    vault = fleet.ben.vault()
    with fleet.ben.transaction() as transaction:
        vault.memory.write(transaction, ("s1",), "earlier")
    fleet.anna.note("s1", "injected")
    fleet.anna.sync()
    assert any("confirmed" in refused.reason for refused in fleet.ben.sync().rejected)
    assert "injected" not in fleet.ben.notes("s1")
    with fleet.ben.transaction() as transaction:
        vault.memory.forget(transaction, "earlier")
    fleet.ben.sync()
    assert "injected" in fleet.ben.notes("s1")


def test_two_devices_that_accepted_different_shares_of_one_id_agree(fleet: Fleet) -> None:
    """The share announced first stays; events of the other leave the log."""
    outsiders = [Device(fleet.directory, name, Shelf()) for name in ("mallory", "trudy")]
    for outsider, device in zip(outsiders, (fleet.ben, fleet.cleo), strict=True):
        outsider.create_vault()
        outsider.start("s9", f"by {outsider.name}")
        outsider.share("s9", device)
        (offer,) = vault_shares.offers(outsider.remote, [device.keys.identity])
        sync_vault(vault_shares.accept(device.local(), outsider.remote, offer))
    settle(fleet.all, 3)
    (share,) = {origin.share_of(device.store, "s9") for device in (fleet.ben, fleet.cleo)}
    assert share is not None
    goals = {event.writer for device in fleet.all for event in device.events("s9") if event.type == "session.started"}
    assert len(goals) == 1
    for outsider in outsiders:
        outsider.close()


def test_origin_is_derived_for_a_store_without_records(fleet: Fleet) -> None:
    """An earlier version's store: sessions started here are ours, those only others vouch for are not."""
    with fleet.anna.transaction() as transaction:
        origin.forget(transaction, "s1")
    assert provenance.is_own(fleet.anna.vault(), "s1")
    with fleet.ben.transaction() as transaction:
        origin.forget(transaction, "s1")
    assert not provenance.is_own(fleet.ben.vault(), "s1")


# ── floods, founders, streams without keys ───────────────────────────────────────────────────────────────


def _flood(device: Device, number: int) -> None:
    """Many entries of which none follows another, in heads that others can read."""
    vault = device.vault()
    sync_vault(vault)
    key = vault.sealing_key()
    assert key is not None
    tips = tuple(sorted(vault.membership.tips))
    made: list[tuple[str, bytes]] = []
    named: list[str] = []
    for at in range(number):
        entry = Rename(vault=vault.id, parents=tips, by=vault.me, at=at, device=vault.me, name=device.name)
        signed = entries.sign(device.keys, entry)
        named.append(entries.hash_of(signed.payload))
        made.append(vault.sealed_entry(key, signed))
    for first in range(0, number, 900):
        writer = certified_writer(device.keys.public.signing)
        name = heads.name_of(vault.id, writer, 1)
        head = heads.PublishedHead(
            vault=vault.id, device=vault.me, writer=writer, counter=1, at=device.time, packs=(),
            tips=tuple(sorted(named[first : first + 900])),
        )  # fmt: skip
        made.append((name, sealing.seal(key, "head", vault.id, name, heads.sign(device.keys, head))))
    device.remote.put(made)


def test_removal_holds_against_a_flood_of_entries(fleet: Fleet) -> None:
    """More than an entry may follow or a head may name: others still read the admin's events."""
    _flood(fleet.ben, 1_100)
    settle([fleet.anna, fleet.cleo], 2)
    assert len(fleet.anna.vault().membership.tips) < 100
    fleet.anna.remove(fleet.ben)
    fleet.anna.note("s1", "after the removal")
    settle([fleet.anna, fleet.cleo], 2)
    assert not fleet.cleo.vault().membership.is_member(fleet.ben.keys.public.id)
    assert "after the removal" in fleet.cleo.notes("s1")
    report = fleet.ben.sync()
    assert "after the removal" not in fleet.ben.notes("s1")
    assert report.pushed == 0


def test_change_without_effect_is_not_reported_as_done(fleet: Fleet) -> None:
    vault = fleet.anna.vault()
    change = vault.change()
    change.add(Admit, device=DeviceKeys.generate().public, name="x", admin=True, role="guest")
    with pytest.raises(Refused, match="would not accept"):
        change.commit()


def test_only_few_keys_of_a_non_admin_count(fleet: Fleet) -> None:
    """Everybody receives all keys that count: thousands would leave no room for others."""
    for _ in range(100):
        vault = fleet.ben.vault()
        change = vault.change()
        change.add(NewKey, id=os.urandom(16).hex(), recipients=tuple(sorted(vault.membership.recipients())))
        change.commit()
    fleet.ben.sync()
    fleet.anna.sync()
    made = {
        name for name, signed in fleet.anna.vault().known.items() if isinstance(entries.read(signed.payload), NewKey)
    }
    assert len(made) > 100
    assert len(fleet.anna.vault().membership.keys) < 80


def test_removed_device_has_no_part_in_the_share_it_founded(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """As founder it is senior there and removes the admin in turn: nobody else continues that share."""
    fleet.ben.start("s2")
    settle(fleet.all, 2)
    gus = Device(fleet.directory, "gus", fleet.shelf)
    fleet.ben.share("s2", gus)
    settle(fleet.all, 2)
    (shared,) = fleet.ben.vault().membership.shares

    def exchange() -> None:
        """Only in the share, and tending nothing: no program of ours does so."""
        main = fleet.ben.vault()
        small = vault_shares.open_share(main, shared.vault, shared.founding)
        with monkeypatch.context() as patch:
            patch.setattr("holdfast.sync.key_maintenance.maintain", lambda *_, **__: None)
            _sync_one_vault(small, fleet.shelf.list("h/"), main, lambda *_: None, patient=True, put_back=False)

    counter = removal.remove(
        vault_shares.open_share(fleet.ben.vault(), shared.vault, shared.founding), [fleet.anna.keys.public.id]
    )
    fleet.anna.remove(fleet.ben)
    settle([fleet.anna, fleet.cleo], 2)
    counter.commit()
    fleet.ben.note("s2", "by the removed")
    exchange()
    fleet.cleo.sync()
    fleet.cleo.note("s2", "after the removal")
    settle([fleet.cleo, fleet.anna], 2)
    exchange()
    assert "after the removal" not in fleet.ben.notes("s2")
    assert "by the removed" not in fleet.cleo.notes("s2")
    gus.close()


def _receive(device: Device, **fields: object) -> None:
    """An event that Holdfast would never write, in the device's own store."""
    words = {
        "session": "s1", "prev": None, "clock": 1, "at": 1, "actor": "x", "version": 1, "data": b"{}",
        "salt": os.urandom(16), **fields,
    }  # fmt: skip
    with device.transaction() as transaction:
        transaction.receive([make_event(**words)])  # type: ignore[arg-type]


def test_guests_event_replaces_nobody_elses(fleet: Fleet) -> None:
    """Of equal keys the lowest clock counts, and a guest can forge its clock."""
    with fleet.anna.transaction() as transaction:
        transaction.record("s1", Draft(NoteAdded(text="captured"), fleet.anna.time, "anna", "hook:1"))
    gus = Device(fleet.directory, "gus", fleet.shelf)
    fleet.anna.share("s1", gus)
    gus.accept()
    settle([fleet.anna, gus, fleet.anna, gus], 1)
    gus.note("s1", "by gus")
    _receive(
        gus, writer=gus.renew(), seq=1, type="note.added", key="hook:1", data=msgspec.json.encode({"text": "instead"})
    )
    settle([gus, fleet.anna], 1)
    report = fleet.anna.sync()
    settle([gus, fleet.cleo, fleet.anna], 2)
    for device in (fleet.anna, fleet.cleo):
        assert "captured" in device.notes("s1")
        assert "by gus" in device.notes("s1")
        assert "instead" not in device.notes("s1")
    assert any("would replace" in refused.reason for refused in report.rejected)
    gus.close()


def _record(device: Device, key: str, text: str) -> Event | None:
    device.time += 1000
    with device.transaction() as transaction:
        return transaction.record("s1", Draft(NoteAdded(text=text), device.time, device.name, key))


def _take_key(guest: Device, key: str, text: str = "instead") -> None:
    """A guest writes an event with somebody else's key, before everything else in the log."""
    data = msgspec.json.encode({"text": text})
    _receive(guest, writer=guest.renew(), seq=1, type="note.added", key=key, data=data)


def test_owner_can_record_under_a_key_a_guest_used_before(shared: tuple[Fleet, Device]) -> None:
    """Keys can be guessed: the owner's event is recorded, and once."""
    fleet, gus = shared
    gus.accept()
    settle([fleet.anna, gus], 1)
    for key in ("run:1", "run:1+1"):
        _take_key(gus, key)
    settle([gus, *fleet.all], 2)
    assert fleet.cleo.notes("s1").count("instead") == 2
    assert _record(fleet.anna, "run:1", "how it ended") is not None
    assert _record(fleet.anna, "run:1", "how it ended") is None
    settle([*fleet.all, gus], 2)
    assert _record(fleet.ben, "run:1", "how it ended") is None
    settle([*fleet.all, gus], 2)
    for device in (*fleet.all, gus):
        assert device.notes("s1").count("how it ended") == 1
        assert list(device.store.check()) == []
    assert len({freeze(device.state("s1") or State(session="")) for device in (*fleet.all, gus)}) == 1


@pytest.mark.parametrize("first", ["anna", "ben", "cleo", "dora"])
def test_guests_event_gives_way_to_the_owners_concurrent_event(shared: tuple[Fleet, Device], first: str) -> None:
    """In whatever order a device reads them."""
    fleet, gus = shared
    dora = Device(fleet.directory, "dora", fleet.shelf)
    join(fleet.anna, dora, admin=True)  # an admin passes on what a guest wrote
    gus.accept()
    settle([fleet.anna, gus, *fleet.all, dora], 1)
    gus.note("s1", "before that")
    _take_key(gus, "run:1")
    owner = fleet.ben if first != "ben" else fleet.anna
    assert _record(owner, "run:1", "how it ended") is not None
    gus.sync()
    devices = {"anna": fleet.anna, "ben": fleet.ben, "cleo": fleet.cleo, "dora": dora}
    others = [device for device in devices.values() if device is not owner]
    settle([devices[first], *others], 1)
    settle([owner, *others, gus], 3)
    new = Device(fleet.directory, "emil", fleet.shelf)
    join(fleet.anna, new)
    settle([new, *devices.values()], 2)
    for device in (*devices.values(), new):
        assert "how it ended" in device.notes("s1"), device.name
        assert "before that" in device.notes("s1"), device.name
        assert "instead" not in device.notes("s1"), device.name
        assert list(device.store.check()) == []
    new.close()
    dora.close()


def test_store_of_an_earlier_version_replaces_a_guests_event_by_the_owners(
    shared: tuple[Fleet, Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had accepted the guest's event first, without records of guests."""
    fleet, gus = shared
    gus.accept()
    settle([fleet.anna, gus], 1)
    with monkeypatch.context() as earlier:
        earlier.setattr("holdfast.sync.event_rights.settle_guests", lambda _: None)
        _take_key(gus, "run:1")
        settle([gus, fleet.cleo], 1)
        assert _record(fleet.anna, "run:1", "how it ended") is not None
        settle([fleet.anna, fleet.cleo], 2)
        assert "how it ended" not in fleet.cleo.notes("s1")
    report = fleet.cleo.sync()
    assert "how it ended" in fleet.cleo.notes("s1")
    assert any("would replace" in refused.reason for refused in report.rejected)


@pytest.mark.parametrize("guest_first", [True, False])
def test_owner_can_record_under_a_guests_key_when_the_share_is_at_another_remote(
    shared: tuple[Fleet, Device], guest_first: bool
) -> None:
    """Dora belongs to Anna's second vault only, where Gus is known through Anna alone."""
    fleet, gus = shared
    anna, dora = fleet.anna, Device(fleet.directory, "dora", Shelf())
    ways = {"first": (anna.remote, anna.vault_id), "second": (dora.remote, "")}

    def sync_at(way: str) -> None:
        anna.remote, anna.vault_id = ways[way]
        anna.sync()

    anna.remote = dora.remote
    ways["second"] = (dora.remote, anna.create_vault().vault_id)
    join(anna, dora)
    gus.accept()
    for way in ("first", "second"):
        sync_at(way)
    dora.sync()
    gus.note("s1", "by gus")
    _take_key(gus, "run:1")
    if not guest_first:
        assert _record(dora, "run:1", "how it ended") is not None
    settle([gus], 1)
    for way in ("first", "second"):
        sync_at(way)
    dora.sync()
    if guest_first:
        assert _record(dora, "run:1", "how it ended") is not None
    for _ in range(2):
        dora.sync()
        for way in ("second", "first"):
            sync_at(way)
        gus.sync()
    for device in (anna, dora):
        assert "how it ended" in device.notes("s1")
        assert "by gus" in device.notes("s1")
        assert ("instead" in device.notes("s1")) == guest_first
    assert _record(dora, "run:1", "how it ended") is None
    dora.close()


def test_guest_can_record_under_a_key_another_guest_used(shared: tuple[Fleet, Device]) -> None:
    """Guests have no authority over each other's events either."""
    fleet, gus = shared
    hal = Device(fleet.directory, "hal", fleet.shelf)
    fleet.anna.share("s1", hal)
    for guest in (gus, hal):
        guest.accept()
        settle([fleet.anna, guest], 2)
    _take_key(gus, "run:1")
    settle([gus, fleet.anna, hal], 2)
    assert _record(hal, "run:1", "by hal") is not None
    settle([hal, fleet.anna, gus], 2)
    for device in (hal, gus, fleet.anna):
        assert "by hal" in device.notes("s1")
    hal.close()


@pytest.mark.parametrize("kind", ["session.deleted", "event.erased"])
def test_stream_from_before_the_keys_is_continued_by_nobody_else(fleet: Fleet, kind: str) -> None:
    """The session is older than the vault: its stream names no device, so a plain device could try."""
    fleet.anna._writer = "0" * 20
    fleet.anna.start("s7")
    fleet.anna.note("s7", "precious")
    fleet.anna.renew()
    settle(fleet.all, 2)
    last = max((event for event in fleet.ben.events("s7")), key=lambda event: event.seq)
    data = b"{}" if kind == "session.deleted" else msgspec.json.encode({"hashes": [last.hash]})
    _receive(
        fleet.ben, session="s7", writer="0" * 20, seq=last.seq + 1, prev=last.hash, clock=last.clock + 1, type=kind,
        data=data,
    )  # fmt: skip
    settle([fleet.ben, fleet.anna, fleet.cleo], 2)
    for device in (fleet.anna, fleet.cleo):
        assert "precious" in device.notes("s7")
    main = fleet.ben.vault()
    sync_vault(main)
    vault_shares.find_or_create_share(main, "s7")
    fleet.ben.sync()
    assert any("neither started" in refused.reason for refused in fleet.anna.sync().rejected)


# ── removals, invitations and roles ──────────────────────────────────────────────────────────────────────


def test_removal_holds_against_more_streams_than_it_can_name(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest are accepted, and no ineffective removal is published."""
    monkeypatch.setattr(removal, "_MAX_STREAMS", 5)
    monkeypatch.setattr(entries, "_MAX_STREAMS", 10)
    for number in range(12):
        fleet.ben.renew()
        fleet.ben.note("s1", f"stream {number}")
    settle(fleet.all, 2)
    fleet.anna.remove(fleet.ben)
    settle([fleet.anna, fleet.cleo], 2)
    for device in (fleet.anna, fleet.cleo):
        assert not device.vault().membership.is_member(fleet.ben.keys.public.id)
    change = fleet.anna.vault().change()
    change.add(Remove, device=fleet.cleo.keys.public.id, cut={"w": {f"s{number}": 1 for number in range(20)}})
    with pytest.raises(Refused, match="would not accept"):
        change.commit()


@pytest.fixture
def shared(fleet: Fleet) -> Iterator[tuple[Fleet, Device]]:
    """Anna shares s1 with Gus; Ben is one of the vault's devices."""
    gus = Device(fleet.directory, "gus", fleet.shelf)
    fleet.anna.share("s1", gus)
    settle(fleet.all, 2)
    yield fleet, gus
    gus.close()


def _share_of(device: Device) -> Vault:
    share = vault_shares.find_share(device.vault(), "s1")
    assert share is not None
    return share


def test_invitation_hidden_among_many_entries_is_ended(shared: tuple[Fleet, Device]) -> None:
    """Few entries of a plain device are followed, but always the one that a change names."""
    fleet, gus = shared
    vault = _share_of(fleet.ben)
    vault.fetch_all_entries()
    tips = tuple(sorted(vault.membership.tips))
    change = vault.change()
    for number in range(200):
        entry = Rename(vault=vault.id, parents=tips, by=vault.me, at=number, device=vault.me, name="ben")
        change._entries.append(entries.sign(fleet.ben.keys, entry))
        vault.add(change._entries[-1])
    invitation = Invite(
        vault=vault.id, parents=tips, by=vault.me, at=99, email="mal@example.org",
        recipients=(DeviceKeys.generate().public.age,), write=False, secret=b"",
    )  # fmt: skip
    change._entries.append(entries.sign(fleet.ben.keys, invitation))
    vault.add(change._entries[-1])
    change.commit()
    settle(fleet.all, 2)
    assert [invite.email for invite in _share_of(fleet.anna).membership.invites if invite.live] == ["gus@example.org"]
    fleet.anna.revoke("s1", gus)
    fleet.anna.remove(fleet.ben)
    assert not fleet.anna.vault().membership.is_member(fleet.ben.keys.public.id)


@pytest.mark.parametrize("recipients", [("no key at all",), tuple(f"age1{number}" for number in range(900))])
def test_invitation_to_an_invalid_key_stops_no_sync(
    shared: tuple[Fleet, Device], recipients: tuple[str, ...]
) -> None:
    fleet, gus = shared
    change = _share_of(fleet.ben).change()
    change.add(Invite, email="mal@example.org", recipients=recipients, write=False, secret=b"")
    own = (DeviceKeys.generate().public.age,)
    change.add(Invite, email="old@example.org", recipients=own, write=False, secret=b"", expires=1)
    change.commit()
    settle(fleet.all, 2)
    fleet.anna.revoke("s1", gus)
    fleet.anna.remove(fleet.ben)
    assert not fleet.anna.vault().membership.is_member(fleet.ben.keys.public.id)


def test_former_admin_has_only_guest_rights_in_a_share(fleet: Fleet) -> None:
    dora = Device(fleet.directory, "dora", fleet.shelf)
    join(fleet.anna, dora, admin=True)
    fleet.anna.remove(dora)
    settle(fleet.all, 2)
    fleet.anna.share("s1", dora)
    dora.lose()
    dora.renew()
    dora.accept()
    settle([fleet.anna, dora], 2)
    dora.record("s1", SessionDeleted())
    dora.sync()
    assert any("guest may not delete" in refused.reason for refused in fleet.anna.sync().rejected)
    fleet.assert_intact(fleet.anna)
    dora.close()


def test_forged_start_gives_no_right_to_share(fleet: Fleet) -> None:
    _forge_start(fleet.ben)
    fleet.ben.sync()
    main = fleet.ben.vault()
    vault_shares.find_or_create_share(main, "s1")
    fleet.ben.sync()
    assert any("neither started" in refused.reason for refused in fleet.anna.sync().rejected)


# ── whose signing key a device names ─────────────────────────────────────────────────────────────────────


def _ask_with_key_of(victim: Device, fleet: Fleet, gus: Device, proof: str) -> PublicKeys:
    """Gus asks to join with a further device: his own age key, and the victim's signing key.

    Of two devices with one signing key the lower id is read first: this one comes before the victim.
    """
    share = _share_of(fleet.anna)
    [offer] = vault_shares.offers(fleet.shelf, [gus.keys.identity])
    assert offer.secret is not None
    while True:
        identity = DeviceKeys.generate()
        named = PublicKeys(victim.keys.public.signing, identity.public.age)
        if named.id < victim.keys.public.id:
            break
    possession = {
        "none": None,
        "of another key": identity.possession,
        "of another pair": victim.keys.possession,
        "nonsense": b"x",
    }[proof]
    letter = join_vault._RequestDocument(
        vault=share.id, signing=named.signing, age=named.age, name=victim.name, at=1,
        proof=join_vault.sign_proof(offer.secret, named), possession=possession,
    )  # fmt: skip
    sealed = age.encrypt(share.membership.box, msgspec.json.encode(letter))
    fleet.shelf.objects[f"h/join-{os.urandom(16).hex()}"] = sealed
    return named


@pytest.mark.parametrize("proof", ["none", "of another key", "of another pair", "nonsense"])
@pytest.mark.parametrize("whose", ["anna", "ben"])
def test_request_with_anothers_signing_key_admits_nobody(
    shared: tuple[Fleet, Device], whose: str, proof: str
) -> None:
    """An invitation cannot turn an owner's device into a guest of its own session."""
    fleet, gus = shared
    gus.accept()
    settle([fleet.anna, gus], 1)
    victim: Device = getattr(fleet, whose)
    named = _ask_with_key_of(victim, fleet, gus, proof)
    report = fleet.anna.sync()
    settle([fleet.ben, gus], 1)
    assert any("signing key" in refused.reason for refused in report.rejected)
    assert not _share_of(fleet.anna).membership.is_member(named.id)
    victim.note("s1", "still theirs")
    settle([victim, fleet.anna, gus], 2)
    assert "still theirs" in gus.notes("s1")
    author = _share_of(fleet.ben).membership.author_of(victim.writer)
    assert author is not None
    assert author.kind == "device"


def test_request_of_an_earlier_version_admits_its_own_device(shared: tuple[Fleet, Device]) -> None:
    """It proves nothing about its signing key, but nobody else is known to have that."""
    fleet, gus = shared
    share = _share_of(fleet.anna)
    [offer] = vault_shares.offers(fleet.shelf, [gus.keys.identity])
    assert offer.secret is not None
    public = gus.keys.public
    letter = join_vault._RequestDocument(
        vault=share.id, signing=public.signing, age=public.age, name="gus", at=1,
        proof=join_vault.sign_proof(offer.secret, public),
    )  # fmt: skip
    fleet.shelf.objects[f"h/join-{1:032x}"] = age.encrypt(share.membership.box, msgspec.json.encode(letter))
    fleet.anna.sync()
    assert _share_of(fleet.anna).membership.is_member(public.id)


def test_device_is_admitted_when_somebody_named_its_signing_key_before(shared: tuple[Fleet, Device]) -> None:
    """An earlier version's request can name any key: its owner proves it and joins."""
    fleet, gus = shared
    gus.accept()
    settle([fleet.anna, gus], 1)
    dora = Device(fleet.directory, "dora", fleet.shelf)
    named = _ask_with_key_of(dora, fleet, gus, "none")
    fleet.anna.sync()
    assert _share_of(fleet.anna).membership.is_member(named.id)
    join(fleet.anna, dora)
    settle(fleet.all, 1)
    dora.note("s1", "by dora")
    settle([dora, fleet.anna, gus, fleet.ben], 2)
    assert "by dora" in gus.notes("s1")
    author = _share_of(fleet.ben).membership.author_of(dora.writer)
    assert author is not None
    assert author.kind == "device"
    dora.close()
