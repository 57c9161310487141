"""Who is removed from a vault, above all when several act at once: each rule with its smallest example."""

from __future__ import annotations

from holdfast.sync.protocol.entries import Restore
from tests.sync.membership_acts import Acts, id_of, keys_of, names, reasons, team


def test_removed_device_is_known_but_no_member() -> None:
    """Its events count up to the cut, and its keys still verify its earlier signatures."""
    acts = team("bob")
    acts.remove("ann", "bob", cut={"w": {"s": 3}})
    members = acts.evaluate()
    bob = id_of("bob")
    assert names(members) == {"ann"}
    assert members.removed[bob].cut == {"w": {"s": 3}}
    assert members.signing_of(bob) == keys_of("bob").public.signing
    assert [members.accepted(bob, "w", "s", seq) for seq in (1, 3, 4)] == [1, 3, 3]
    assert members.accepted(bob, "w", "other", 1) == 0
    assert members.accepted(id_of("ann"), "w", "s", 99) == 99
    assert members.accepted(id_of("eve"), "w", "s", 1) == 0


def test_member_may_remove_only_itself() -> None:
    """Only admins remove others."""
    acts = Acts()
    acts.admit("ann", "bob", admin=False)
    own = acts.remove("bob", "ann")
    assert own in reasons(acts)
    acts.remove("bob", "bob")
    assert acts.names() == {"ann"}


def test_device_is_removed_when_approved_concurrently() -> None:
    """One admin approves a member again while another removes it: it stays out until an admin who knows admits it."""
    acts = team("bob", "cat")
    top = acts.ends()
    acts.admit("ann", "cat", after=top)
    acts.remove("bob", "cat", after=top)
    assert acts.names() == {"ann", "bob"}
    acts.admit("ann", "cat")
    assert acts.names() == {"ann", "bob", "cat"}


def test_senior_stays_when_two_remove_each_other() -> None:
    """The one admitted first."""
    acts = team("bob", "cat")
    top = acts.ends()
    lost = acts.remove("cat", "bob", after=top)
    acts.remove("bob", "cat", after=top)
    assert acts.names() == {"ann", "bob"}
    assert acts.evaluate().overtaken == (lost,)


def test_founder_can_be_removed() -> None:
    """Another admin does it; the founder's later entries have no effect."""
    acts = team("bob")
    acts.remove("bob", "ann")
    acts.remove("ann", "bob")
    assert acts.names() == {"bob"}


def test_concurrent_circle_of_removals_is_decided_by_seniority() -> None:
    """ann removes bob, bob cat, cat ann, none knowing of the others: ann's undoes bob's, so cat stays."""
    acts = team("bob", "cat")
    top = acts.ends()
    for by, target in (("ann", "bob"), ("bob", "cat"), ("cat", "ann")):
        acts.remove(by, target, after=top)
    assert acts.names() == {"cat"}


def test_circle_of_dependent_removals_is_decided() -> None:
    """dan removes bob; bob, who knows it, removes cat; cat removes dan: bob had no right any more, dan is out."""
    acts = team("bob", "cat", "dan")
    top = acts.ends()
    first = acts.remove("dan", "bob", after=top)
    late = acts.remove("bob", "cat", after=[first])
    acts.remove("cat", "dan", after=top)
    assert acts.names() == {"ann", "bob", "cat"}
    assert late in reasons(acts)


def test_one_admin_remains_after_all_removals() -> None:
    """cat removes bob, ann, who knows it, removes cat, bob removes ann: the least senior's removal does not count."""
    acts = team("bob", "cat")
    top = acts.ends()
    first = acts.remove("cat", "bob", after=top)
    acts.remove("ann", "cat", after=[first])
    acts.remove("bob", "ann", after=top)
    assert acts.names() == {"bob"}


def test_last_admin_cannot_leave() -> None:
    """Otherwise nobody could govern the vault."""
    acts = Acts()
    acts.admit("ann", "bob", admin=False)
    acts.remove("ann", "ann")
    assert acts.names() == {"ann", "bob"}


def test_entry_of_a_removed_device_counts_only_before_the_removal() -> None:
    """The removal knows the first admission, but not the second, which was withheld or made later."""
    acts = team("bob")
    top = [acts.admit("bob", "cat")]
    acts.remove("ann", "bob", after=top)
    late = acts.admit("bob", "eve", after=top)
    members = acts.evaluate()
    assert names(members) == {"ann", "cat"}
    assert late in members.overtaken
    assert late not in members.tips
    assert members.removed[id_of("eve")].cut == {}


def test_device_admitted_by_a_removed_one_has_no_rights() -> None:
    """Not even to remove: helpers a removed device admits secretly are as powerless as itself."""
    acts = team("bob", "cat")
    top = acts.ends()
    acts.remove("ann", "bob", after=top)
    helper = acts.admit("bob", "eve", after=top)
    again = acts.admit("eve", "fay", after=[helper])
    acts.remove("eve", "cat", after=[helper])
    acts.remove("fay", "ann", after=[again])
    assert acts.names() == {"ann", "cat"}


def test_admission_by_a_removed_device_gives_no_seniority() -> None:
    """bob is out; an early admission of dan that bob makes afterwards does not raise dan above cat."""
    acts = Acts()
    early = acts.admit("ann", "bob")
    acts.admit("ann", "cat")
    acts.admit("ann", "dan")
    top = acts.ends()
    acts.remove("ann", "bob", after=top)
    raised = acts.admit("bob", "dan", after=[early])
    acts.remove("cat", "dan", after=top)
    acts.remove("dan", "cat", after=[*top, raised])
    assert acts.names() == {"ann", "cat"}


def test_readmitted_device_has_rights_again() -> None:
    """Including removals; its earlier overruled entries do not come back."""
    acts = team("bob", "cat")
    top = acts.ends()
    late = acts.admit("bob", "eve", after=top)
    acts.remove("ann", "bob", after=top, cut={"w": {"s": 1}})
    acts.admit("ann", "bob")
    assert acts.names() == {"ann", "bob", "cat"}
    acts.remove("bob", "cat")
    acts.admit("bob", "dan")
    members = acts.evaluate()
    assert names(members) == {"ann", "bob", "dan"}
    assert late in members.overtaken
    assert members.accepted(id_of("bob"), "w", "s", 9) == 9


def test_admin_can_be_readmitted_with_a_lower_role() -> None:
    """The old admission as admin does not count."""
    acts = team("bob")
    acts.remove("ann", "bob")
    acts.admit("ann", "bob", admin=False)
    own = acts.admit("bob", "eve")
    assert not acts.evaluate().is_admin(id_of("bob"))
    assert own in reasons(acts)


def test_largest_cut_counts_and_an_admin_can_widen_it() -> None:
    """Two admins remove with different knowledge; a restore accepts more. The device's own claim does not count."""
    acts = team("bob", "cat")
    top = acts.ends()
    acts.remove("ann", "cat", after=top, cut={"w": {"s": 3, "t": 1}})
    acts.remove("bob", "cat", after=top, cut={"w": {"s": 5}})
    acts.remove("cat", "cat", after=top, cut={"w": {"s": 99}})
    assert acts.evaluate().removed[id_of("cat")].cut == {"w": {"s": 5, "t": 1}}
    acts.add_entry("ann", Restore, device=id_of("cat"), cut={"w": {"s": 7}, "x": {"s": 1}})
    acts.add_entry("bob", Restore, device=id_of("cat"), cut={"w": {"s": 6}})
    assert acts.evaluate().removed[id_of("cat")].cut == {"w": {"s": 7, "t": 1}, "x": {"s": 1}}


def test_leaving_device_cuts_its_own_events() -> None:
    """Unless somebody else removed it, its own cut counts."""
    acts = team("bob")
    acts.remove("bob", "bob", cut={"w": {"s": 4}})
    assert acts.evaluate().removed[id_of("bob")].cut == {"w": {"s": 4}}


def test_removal_of_an_unknown_device_has_no_effect() -> None:
    """The author of a removal must be able to know the device."""
    acts = Acts()
    own = acts.remove("ann", "eve")
    assert reasons(acts) == {own: "it names a device that was never a member"}
