"""Laws of membership, over histories of concurrent admins with partial knowledge, some of them dishonest."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from holdfast.sync.protocol.entries import (
    Admit,
    MembershipEntry,
    NewKey,
    Remove,
    Rename,
    Restore,
    SignedEntry,
    VaultFounded,
    read,
)
from holdfast.sync.protocol.membership import Membership, evaluate
from tests.sync.membership_acts import VERIFIED, Acts, id_of

NAMES = ("ann", "bob", "cat", "dan", "eli")
NEWCOMERS = ("fay", "gus")


class Lived(NamedTuple):
    acts: Acts
    entries: dict[str, MembershipEntry]  # every kind in these histories is known
    ancestors: dict[str, set[str]]


def _view(acts: Acts, known: set[str]) -> Membership:
    return evaluate([acts.entries[name] for name in known], acts.vault, verified=VERIFIED)


def _act(acts: Acts, by: str, what: str, target: str, after: set[str] | tuple[str, ...]) -> str:
    match what:
        case "remove":
            return acts.remove(by, target, after=after, cut={"w": {"s": acts.clock}})
        case "admit" | "admit plain":
            return acts.admit(by, target, admin=what == "admit", after=after)
        case "rename":
            return acts.add_entry(by, Rename, after=after, device=id_of(target), name=f"{target} {acts.clock}")
        case "restore":
            return acts.add_entry(by, Restore, after=after, device=id_of(target), cut={"w": {"s": acts.clock}})
        case _:
            return acts.add_entry(by, NewKey, after=after, id=f"{acts.clock:032x}", recipients=())


WHAT = ("remove", "remove", "remove", "admit", "admit plain", "rename", "restore", "key")


@st.composite
def histories(draw: st.DrawFn, *, honest: bool = False) -> Lived:
    """Each device acts on the entries it knows; a dishonest one on any subset of them, authorized or not."""
    team = NAMES[: draw(st.integers(2, 5))]
    acts = Acts()
    for name in team[1:]:
        acts.admit("ann", name, after=acts.ends() if draw(st.booleans()) else [acts.vault])
    known = {name: set(acts.entries) for name in (*team, *NEWCOMERS)}
    for _ in range(draw(st.integers(1, 14))):
        by = draw(st.sampled_from((*team, *NEWCOMERS)))
        if draw(st.booleans()):
            known[by] |= known[draw(st.sampled_from(team))]
        target = draw(st.sampled_from((*team, *NEWCOMERS)))
        view = _view(acts, known[by])
        if honest or draw(st.integers(0, 3)):
            if not view.is_admin(id_of(by)):
                continue
            after: tuple[str, ...] = view.tips
        else:
            after = tuple(draw(st.lists(st.sampled_from(sorted(known[by])), min_size=1, max_size=3)))
        known[by].add(_act(acts, by, draw(st.sampled_from(WHAT)), target, after))
    return _lived(acts)


def _lived(acts: Acts) -> Lived:
    entries: dict[str, MembershipEntry] = {}
    above: dict[str, set[str]] = {}
    for own, signed in acts.entries.items():  # parents come first
        entry = read(signed.payload)
        assert entry is not None
        entries[own] = entry
        above[own] = set(entry.parents).union(*(above[parent] for parent in entry.parents))
    return Lived(acts, entries, above)


@given(histories(), st.randoms(use_true_random=False))
def test_membership_depends_on_the_set_of_entries_only(lived: Lived, chance: Random) -> None:
    """Not on order, duplicates, or anything remembered."""
    entries = list(lived.acts.entries.values())
    again: list[SignedEntry] = [*entries, *entries[::2]]
    chance.shuffle(again)
    assert evaluate(again, lived.acts.vault) == evaluate(entries, lived.acts.vault, verified=VERIFIED)


@given(histories(), st.data())
def test_any_subset_of_entries_can_be_evaluated(lived: Lived, data: st.DataObject) -> None:
    """Entries without their parents wait; the rest is evaluated as if they were missing."""
    left_out = set(data.draw(st.lists(st.sampled_from(sorted(lived.acts.entries)), max_size=5)))
    members = lived.acts.evaluate(without=left_out)
    whole = {own for own in lived.acts.entries if own not in left_out and not lived.ancestors[own] & left_out}
    doomed = {own for own, _ in members.rejected}
    assert set(members.waiting) | doomed >= set(lived.acts.entries) - left_out - whole
    assert not set(members.waiting) & whole
    alone = _view(lived.acts, whole)
    assert (members.members, members.removed, members.keys, members.tips) == (
        alone.members, alone.removed, alone.keys, alone.tips,
    )  # fmt: skip


@given(histories())
def test_refusal_depends_on_the_ancestors_only(lived: Lived) -> None:
    """Evaluating only an entry's ancestors gives the same answer."""
    refused = dict(lived.acts.evaluate().rejected)
    for own, entry in lived.entries.items():
        if isinstance(entry, VaultFounded) or refused.get(own, "").startswith(("it follows", "it has no parents")):
            continue
        past = _view(lived.acts, lived.ancestors[own])
        target = entry.device if isinstance(entry, Rename | Remove | Restore) else None
        modest = isinstance(entry, NewKey) or (target == entry.by and not isinstance(entry, Restore))
        entitled = past.is_member(entry.by) if modest else past.is_admin(entry.by)
        if isinstance(entry, Remove | Restore):
            entitled = entitled and past.signing_of(entry.device) is not None
        assert (own not in refused) is entitled


@given(histories())
def test_vault_always_has_an_admin(lived: Lived) -> None:
    """However the admins remove each other."""
    members = lived.acts.evaluate()
    assert any(member.admin for member in members.members.values())


@given(histories())
def test_every_admitted_device_is_member_or_removed(lived: Lived) -> None:
    """Never both, and every entry is accounted for."""
    members = lived.acts.evaluate()
    assert not members.members.keys() & members.removed.keys()
    counted = {own for own, _ in members.rejected} | set(members.overtaken)
    admitted = {id_of("ann")} | {
        entry.device.id
        for own, entry in lived.entries.items()
        if isinstance(entry, Admit) and (own not in counted or own in members.overtaken)
    }
    assert members.members.keys() | members.removed.keys() == admitted
    assert not counted & set(members.tips)


@given(histories(honest=True), st.data())
def test_removed_device_has_no_rights_after_its_removal(lived: Lived, data: st.DataObject) -> None:
    """Whatever it adds, based on anything it knew, changes nothing, except a removal by a senior."""
    before = lived.acts.evaluate()
    removed = [name for name in (*NAMES, *NEWCOMERS) if id_of(name) in before.removed]
    if not removed:
        return
    by = data.draw(st.sampled_from(removed))
    after = tuple(data.draw(st.lists(st.sampled_from(sorted(lived.acts.entries)), min_size=1, max_size=3)))
    what = data.draw(st.sampled_from(("admit", "admit plain", "rename", "restore")))
    own = _act(lived.acts, by, what, data.draw(st.sampled_from((*NAMES, "zoe"))), after)
    members = lived.acts.evaluate()
    assert members.members == before.members
    assert members.usable_keys()[:1] == before.usable_keys()[:1]
    assert {name: removed.cut for name, removed in before.removed.items()} == {
        name: removed.cut for name, removed in members.removed.items() if name in before.removed
    }
    assert own not in members.tips


@given(histories(), st.data())
def test_admission_restores_no_removed_device(lived: Lived, data: st.DataObject) -> None:
    """Unless it follows the removal."""
    before = lived.acts.evaluate()
    by = data.draw(st.sampled_from([name for name in NAMES if before.is_member(id_of(name))] or ["fay"]))
    target = data.draw(st.sampled_from((*NAMES, *NEWCOMERS, "zoe")))
    removals = {own for own, entry in lived.entries.items() if isinstance(entry, Remove)}
    ignorant = sorted(own for own in lived.acts.entries if not (lived.ancestors[own] | {own}) & removals)
    lived.acts.admit(by, target, after=[data.draw(st.sampled_from(ignorant))])
    members = lived.acts.evaluate()
    came = members.members.keys() - before.members.keys()
    refused = {own for own, _ in before.rejected}
    removed = {
        entry.device for own, entry in lived.entries.items() if isinstance(entry, Remove) and own not in refused
    }
    assert came <= {id_of(target)} - removed


@given(histories())
def test_entry_without_effect_changes_nothing(lived: Lived) -> None:
    """A member's rename, after all other entries, leaves membership as it was."""
    before = lived.acts.evaluate()
    for name in NAMES:
        if before.is_member(id_of(name)):
            own = lived.acts.add_entry(name, Rename, after=before.tips, device=id_of(name), name="new")
            members = lived.acts.evaluate()
            assert members.members.keys() == before.members.keys()
            assert members.removed == before.removed
            assert members.members[id_of(name)].name == "new"
            assert own in members.tips
            assert not set(members.tips) & set(before.tips)  # a device with many tips shows the others only now
            return


@given(histories(honest=True), st.data())
def test_removal_after_all_entries_removes_exactly_one_device(lived: Lived, data: st.DataObject) -> None:
    """Without concurrency there is nothing to weigh."""
    before = lived.acts.evaluate()
    admins = [name for name in (*NAMES, *NEWCOMERS) if before.is_admin(id_of(name))]
    by = data.draw(st.sampled_from(admins))
    others = [name for name in (*NAMES, *NEWCOMERS) if before.is_member(id_of(name)) and name != by]
    if others:
        target = data.draw(st.sampled_from(others))
        lived.acts.remove(by, target, after=before.tips)
        assert before.members.keys() - lived.acts.evaluate().members.keys() == {id_of(target)}
