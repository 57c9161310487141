"""Which devices a vault admits and which entries count: each rule with its smallest example."""

from __future__ import annotations

import msgspec

from holdfast.sync.protocol.entries import Rename, SignedEntry, hash_of, read, sign
from holdfast.sync.protocol.membership import evaluate
from holdfast.workspace.keys.device_keys import ENTRY
from tests.sync.membership_acts import Acts, id_of, keys_of, names, reasons, team

# ── admitting ────────────────────────────────────────────────────────────────────────────────────────────


def test_founder_is_the_first_admin() -> None:
    """A vault with only its founding entry has one member."""
    acts = Acts()
    members = acts.evaluate()
    assert members.founder == id_of("ann")
    assert members.is_admin(id_of("ann"))
    assert members.tips == (acts.vault,)
    assert members.box == keys_of("box").public.age
    assert members.session is None


def test_admin_admits_a_device() -> None:
    """The entry contains name, role and time."""
    acts = Acts()
    own = acts.admit("ann", "bob", admin=False, role="recovery")
    members = acts.evaluate()
    member = members.members[id_of("bob")]
    assert (member.name, member.admin, member.kind, member.since) == ("bob", False, "recovery", 1)
    assert members.signing_of(id_of("bob")) == keys_of("bob").public.signing
    assert members.tips == (own,)


def test_admission_is_refused_without_admin_rights() -> None:
    """An ordinary member's admission has no effect and is reported."""
    acts = Acts()
    acts.admit("ann", "bob", admin=False)
    own = acts.admit("bob", "eve")
    assert acts.names() == {"ann", "bob"}
    assert reasons(acts) == {own: "its author may not make this change"}
    assert own not in acts.evaluate().tips


def test_device_cannot_admit_itself() -> None:
    """The keys in an entry do not make it count."""
    acts = Acts()
    own = acts.admit("eve", "eve")
    assert acts.names() == {"ann"}
    assert reasons(acts) == {own: "its author was never a member"}


def test_concurrent_admissions_make_one_member() -> None:
    """The higher of the two roles counts."""
    acts = team("bob")
    top = acts.ends()
    acts.admit("ann", "cat", admin=False, after=top)
    acts.admit("bob", "cat", admin=True, after=top)
    assert acts.evaluate().is_admin(id_of("cat"))


def test_only_the_device_and_admins_can_rename_it() -> None:
    """The latest name counts."""
    acts = team("bob")
    acts.admit("ann", "cat", admin=False)
    acts.add_entry("cat", Rename, device=id_of("cat"), name="Cat's own")
    assert acts.evaluate().members[id_of("cat")].name == "Cat's own"
    acts.add_entry("bob", Rename, device=id_of("cat"), name="Bob's word")
    own = acts.add_entry("cat", Rename, device=id_of("bob"), name="nonsense")
    members = acts.evaluate()
    assert members.members[id_of("cat")].name == "Bob's word"
    assert members.members[id_of("bob")].name == "bob"
    assert [name for name, _ in members.rejected] == [own]


# ── entries that do not count ────────────────────────────────────────────────────────────────────────────


def test_entry_of_another_vault_is_rejected() -> None:
    """Even with the same founder."""
    acts, other = Acts(), Acts(nonce=1)
    own = acts.put(other.entries[other.admit("ann", "eve")])
    again = acts.put(other.founding)
    assert acts.names() == {"ann"}
    assert set(reasons(acts)) == {own, again}


def test_entry_with_a_wrong_signature_is_rejected() -> None:
    """Signed by someone else or for another purpose; a good copy of the entry still counts."""
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


def test_only_good_signatures_are_remembered() -> None:
    """In the set that the caller provides."""
    acts = Acts()
    acts.admit("ann", "bob")
    seen: set[str] = set()
    evaluate(acts.entries.values(), acts.vault, verified=seen)
    assert seen == {own + signed.signature.hex() for own, signed in acts.entries.items()}
    bad = [SignedEntry(signed.payload, bytes(64)) for signed in acts.entries.values()]
    assert not evaluate(bad, acts.vault, verified=seen).members
    assert len(seen) == 2


def test_entry_waits_for_missing_ancestors() -> None:
    """Once its parent arrives, both count."""
    acts = Acts()
    first = acts.admit("ann", "bob")
    second = acts.admit("bob", "cat")
    third = acts.admit("cat", "dan")
    members = acts.evaluate(without=[first])
    assert names(members) == {"ann"}
    assert members.waiting == tuple(sorted((second, third)))
    assert members.missing == (first,)
    assert acts.names() == {"ann", "bob", "cat", "dan"}


def test_all_entries_wait_without_the_founding_entry() -> None:
    """Nobody is a member of a vault whose founding is unknown."""
    acts = team("bob")
    members = acts.evaluate(without=[acts.vault])
    assert not members.members
    assert members.founder == ""
    assert members.missing == (acts.vault,)
    assert not members.usable_keys()
    assert evaluate([], acts.vault).tips == ()


def test_entry_that_follows_a_planted_one_is_rejected() -> None:
    """A vault grows from its founding entry alone."""
    acts = Acts()
    planted = acts.put(SignedEntry(b"garbage", bytes(64)))
    after = acts.admit("ann", "bob", after=[acts.vault, planted])
    orphan = acts.admit("ann", "cat", after=[])
    members = acts.evaluate()
    assert names(members) == {"ann"}
    assert {own for own, _ in members.rejected} == {planted, after, orphan}


def test_second_founding_has_no_effect() -> None:
    """A founding entry with parents is refused."""
    acts = Acts()
    members = read(acts.founding.payload)
    assert members is not None
    own = acts.put(sign(keys_of("ann"), msgspec.structs.replace(members, vault=acts.vault, parents=(acts.vault,))))
    assert reasons(acts) == {own: "a vault can be founded only once"}


def _later(acts: Acts, by: str) -> str:
    payload = msgspec.msgpack.encode(
        {"kind": "later", "vault": acts.vault, "parents": sorted(acts.ends()), "by": id_of(by), "at": 5, "new": [1]}
    )
    return acts.put(SignedEntry(payload, keys_of(by).sign(ENTRY, payload)))


def test_entry_of_an_unknown_kind_is_an_ancestor_without_effect() -> None:
    """Entries of older versions can follow those of newer ones."""
    acts = team("bob")
    own = _later(acts, "bob")
    assert acts.evaluate().tips == (own,)
    acts.admit("ann", "cat")
    members = acts.evaluate()
    assert names(members) == {"ann", "bob", "cat"}
    assert not members.rejected


def test_entry_counts_after_a_refused_one() -> None:
    """A newer version might accept what this one refuses: entries that follow it count here."""
    acts = Acts()
    acts.admit("ann", "bob", admin=False)
    acts.admit("bob", "eve")
    acts.admit("ann", "cat")
    assert acts.names() == {"ann", "bob", "cat"}


def test_duplicate_entries_change_nothing() -> None:
    acts = team("bob", "cat")
    acts.remove("ann", "bob")
    many = [*acts.entries.values(), *reversed(list(acts.entries.values()))]
    assert evaluate(many, acts.vault) == acts.evaluate()
