"""Who is let into a vault, and which entries stand: every rule with the smallest example that shows it."""

from __future__ import annotations

import msgspec

from holdfast.sync.protocol.entries import Rename, SignedEntry, hash_of, read, sign
from holdfast.sync.protocol.membership import evaluate
from holdfast.workspace.keys.device_keys import ENTRY
from tests.sync.membership_acts import Acts, id_of, keys_of, names, reasons, team

# ── letting in ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_founder_is_the_first_admin() -> None:
    """A vault with nothing but its founding entry has one member."""
    acts = Acts()
    members = acts.evaluate()
    assert members.founder == id_of("ann")
    assert members.is_admin(id_of("ann"))
    assert members.tips == (acts.vault,)
    assert members.box == keys_of("box").public.age
    assert members.session is None


def test_an_admin_lets_a_device_in() -> None:
    """The admission says name, role and when."""
    acts = Acts()
    own = acts.admit("ann", "bob", admin=False, role="recovery")
    members = acts.evaluate()
    member = members.members[id_of("bob")]
    assert (member.name, member.admin, member.kind, member.since) == ("bob", False, "recovery", 1)
    assert members.signing_of(id_of("bob")) == keys_of("bob").public.signing
    assert members.tips == (own,)


def test_admission_is_refused_without_admin_rights() -> None:
    """An admission by an ordinary member has no effect, and is reported."""
    acts = Acts()
    acts.admit("ann", "bob", admin=False)
    own = acts.admit("bob", "eve")
    assert acts.names() == {"ann", "bob"}
    assert reasons(acts) == {own: "its author was not entitled to it"}
    assert own not in acts.evaluate().tips


def test_device_cannot_admit_itself() -> None:
    """The keys in an entry do not make it count."""
    acts = Acts()
    own = acts.admit("eve", "eve")
    assert acts.names() == {"ann"}
    assert reasons(acts) == {own: "its author was never let in"}


def test_two_admissions_at_the_same_time_are_one_member() -> None:
    """Two admins approve the same device; the higher role of the two counts."""
    acts = team("bob")
    top = acts.ends()
    acts.admit("ann", "cat", admin=False, after=top)
    acts.admit("bob", "cat", admin=True, after=top)
    assert acts.evaluate().is_admin(id_of("cat"))


def test_a_device_is_renamed_by_itself_and_by_admins_only() -> None:
    """The latest name counts; others may not give one."""
    acts = team("bob")
    acts.admit("ann", "cat", admin=False)
    acts.say("cat", Rename, device=id_of("cat"), name="Cat's own")
    assert acts.evaluate().members[id_of("cat")].name == "Cat's own"
    acts.say("bob", Rename, device=id_of("cat"), name="Bob's word")
    own = acts.say("cat", Rename, device=id_of("bob"), name="nonsense")
    members = acts.evaluate()
    assert members.members[id_of("cat")].name == "Bob's word"
    assert members.members[id_of("bob")].name == "bob"
    assert [name for name, _ in members.rejected] == [own]


# ── entries that do not stand ────────────────────────────────────────────────────────────────────────────


def test_an_entry_of_another_vault_is_rejected() -> None:
    """The same founder, another vault: nothing is carried over."""
    acts, other = Acts(), Acts(nonce=1)
    own = acts.put(other.entries[other.admit("ann", "eve")])
    again = acts.put(other.founding)
    assert acts.names() == {"ann"}
    assert set(reasons(acts)) == {own, again}


def test_a_wrong_signature_is_rejected() -> None:
    """Signed by someone else, or for something else; a good copy beside the bad one still counts."""
    acts = Acts()
    good = acts.entries.pop(acts.admit("ann", "bob"))
    for bad in (
        SignedEntry(good.payload, keys_of("eve").sign(ENTRY, good.payload)),
        SignedEntry(good.payload, keys_of("ann").sign(b"holdfast head 1\n", good.payload)),
    ):
        members = evaluate([acts.founding, bad], acts.vault)
        assert members.rejected == ((hash_of(good.payload), "its signature is wrong"),)
        assert members.tips == (acts.vault,)
        assert evaluate([acts.founding, bad, good], acts.vault).is_member(id_of("bob"))


def test_good_signatures_are_remembered_and_bad_ones_are_not() -> None:
    """The caller's memory of what was verified holds exactly the good ones."""
    acts = Acts()
    acts.admit("ann", "bob")
    seen: set[str] = set()
    evaluate(acts.entries.values(), acts.vault, verified=seen)
    assert seen == {own + signed.signature.hex() for own, signed in acts.entries.items()}
    bad = [SignedEntry(signed.payload, bytes(64)) for signed in acts.entries.values()]
    assert not evaluate(bad, acts.vault, verified=seen).members
    assert len(seen) == 2


def test_entry_waits_for_missing_ancestors() -> None:
    """Without its forerunner an entry waits; when that comes, both count."""
    acts = Acts()
    first = acts.admit("ann", "bob")
    second = acts.admit("bob", "cat")
    third = acts.admit("cat", "dan")
    members = acts.evaluate(without=[first])
    assert names(members) == {"ann"}
    assert members.waiting == tuple(sorted((second, third)))
    assert members.missing == (first,)
    assert acts.names() == {"ann", "bob", "cat", "dan"}


def test_without_the_founding_entry_everything_waits() -> None:
    """Nobody is a member of a vault whose beginning is not known."""
    acts = team("bob")
    members = acts.evaluate(without=[acts.vault])
    assert not members.members
    assert members.founder == ""
    assert members.missing == (acts.vault,)
    assert not members.usable_keys()
    assert evaluate([], acts.vault).tips == ()


def test_what_follows_a_planted_entry_is_rejected() -> None:
    """A vault grows from its founding entry alone."""
    acts = Acts()
    planted = acts.put(SignedEntry(b"garbage", bytes(64)))
    after = acts.admit("ann", "bob", after=[acts.vault, planted])
    orphan = acts.admit("ann", "cat", after=[])
    members = acts.evaluate()
    assert names(members) == {"ann"}
    assert {own for own, _ in members.rejected} == {planted, after, orphan}


def test_a_second_founding_has_no_effect() -> None:
    """A founding entry that claims to follow is refused."""
    acts = Acts()
    members = read(acts.founding.payload)
    assert members is not None
    own = acts.put(sign(keys_of("ann"), msgspec.structs.replace(members, vault=acts.vault, parents=(acts.vault,))))
    assert reasons(acts) == {own: "a vault is founded once"}


def _later(acts: Acts, by: str) -> str:
    payload = msgspec.msgpack.encode(
        {"kind": "later", "vault": acts.vault, "parents": sorted(acts.ends()), "by": id_of(by), "at": 5, "new": [1]}
    )
    return acts.put(SignedEntry(payload, keys_of(by).sign(ENTRY, payload)))


def test_an_unknown_kind_has_a_place_and_no_effect() -> None:
    """What a newer program says is followed by what an older one says."""
    acts = team("bob")
    own = _later(acts, "bob")
    assert acts.evaluate().tips == (own,)
    acts.admit("ann", "cat")
    members = acts.evaluate()
    assert names(members) == {"ann", "bob", "cat"}
    assert not members.rejected


def test_entry_counts_after_a_refused_one() -> None:
    """A newer program may know a reason to accept what this one refuses: its followers still count here."""
    acts = Acts()
    acts.admit("ann", "bob", admin=False)
    acts.admit("bob", "eve")
    acts.admit("ann", "cat")
    assert acts.names() == {"ann", "bob", "cat"}


def test_duplicates_change_nothing() -> None:
    """The same entries, however often."""
    acts = team("bob", "cat")
    acts.remove("ann", "bob")
    many = [*acts.entries.values(), *reversed(list(acts.entries.values()))]
    assert evaluate(many, acts.vault) == acts.evaluate()
