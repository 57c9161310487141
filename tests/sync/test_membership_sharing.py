"""Which keys a vault uses, what it shares and with whom: each rule with its smallest example."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.sync.protocol.entries import Invite, ShareEntry, SignedEntry, Uninvite, pack
from holdfast.sync.protocol.membership import VaultKey
from holdfast.workspace.keys.device_keys import POSSESSION, certified_writer
from tests.sync.membership_acts import Acts, current_key, id_of, keys_of, new_key, reasons, tag_of, team

# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_later_key_supersedes_an_earlier_one() -> None:
    """Both open; the later one seals."""
    acts = team("bob")
    assert current_key(acts) is None
    new_key(acts, "ann", 1, "ann", "bob")
    new_key(acts, "bob", 2, "ann", "bob")
    assert current_key(acts) == 2
    assert [(int(key.id, 16), key.superseded) for key in acts.evaluate().keys] == [(2, False), (1, True)]


def test_concurrent_keys_coexist() -> None:
    """All devices choose the same: highest generation, then hash; the next key supersedes both."""
    acts = team("bob")
    top = list(acts.ends())
    one = new_key(acts, "ann", 1, "ann", "bob", after=top)
    two = new_key(acts, "bob", 2, "ann", "bob", after=top)
    members = acts.evaluate()
    assert [key.entry for key in members.usable_keys()] == sorted((one, two))
    assert members.usable_keys()[0] == VaultKey(
        "1".zfill(32) if one < two else "2".zfill(32), frozenset({tag_of("ann"), tag_of("bob")}), min(one, two), False
    )
    new_key(acts, "ann", 3, "ann")
    assert [key.superseded for key in acts.evaluate().keys] == [False, True, True]


def test_key_known_to_a_removed_device_seals_nothing() -> None:
    """The next push makes a new one; the old one still opens what it sealed."""
    acts = team("bob")
    new_key(acts, "ann", 1, "ann", "bob")
    acts.remove("ann", "bob")
    assert current_key(acts) is None
    assert len(acts.evaluate().keys) == 1
    new_key(acts, "ann", 2, "ann")
    acts.admit("ann", "cat")
    assert current_key(acts) == 2


def test_key_of_a_concurrently_removed_author_only_opens() -> None:
    """Others may have sealed with it before they knew: their packs must not be lost."""
    acts = team("bob", "cat")
    top = list(acts.ends())
    acts.remove("ann", "bob", after=top)
    new_key(acts, "bob", 1, "ann", "cat", after=top)
    members = acts.evaluate()
    assert [int(key.id, 16) for key in members.keys] == [1]
    assert not members.usable_keys()


def test_key_by_a_removed_device_is_ignored() -> None:
    """The author knew of its removal."""
    acts = team("bob")
    acts.remove("ann", "bob")
    new_key(acts, "bob", 1, "ann")
    assert acts.evaluate().keys == ()


# ── sharing ──────────────────────────────────────────────────────────────────────────────────────────────


def share(acts: Acts, small: Acts, session: str = "s", **change: object) -> str:
    fields: dict[str, Any] = {"share": small.vault, "founding": pack(small.founding), "session": session} | change
    return acts.add_entry("bob", ShareEntry, **fields)


def test_member_can_share_a_session() -> None:
    """The main vault lists the shares with their genuine founding entries."""
    acts, small = Acts(), Acts("bob", session="s")
    acts.admit("ann", "bob", admin=False)
    share(acts, small)
    share(acts, small)
    (members,) = acts.evaluate().shares
    assert (members.vault, members.session, members.by) == (small.vault, "s", id_of("bob"))
    assert members.founding == pack(small.founding)


def test_planted_share_is_rejected() -> None:
    """Another session, another vault, a bad signature, garbage, or a main vault."""
    acts, small = team("bob"), Acts("bob", session="s")
    bad = SignedEntry(small.founding.payload, bytes(64))
    main = Acts("bob")
    for own in (
        share(acts, small, session="t"),
        share(acts, small, share="00" * 32),
        share(acts, small, founding=pack(bad)),
        share(acts, small, founding=b"garbage"),
        share(acts, main),
    ):
        assert own in reasons(acts)
    assert acts.evaluate().shares == ()
    assert share(small, Acts("bob", session="s", nonce=1)) in reasons(small)


def invite(acts: Acts, by: str = "ann", *, write: bool = True, expires: int | None = None) -> str:
    return acts.add_entry(
        by,
        Invite,
        email="gus@example.org",
        recipients=(keys_of("gus").public.age,),
        write=write,
        secret=b"s",
        expires=expires,
    )


def test_invitation_to_the_main_vault_is_rejected() -> None:
    """It would show everything."""
    acts = team("bob")
    assert invite(acts) in reasons(acts)
    assert acts.admit("ann", "gus", admin=False, role="guest") in reasons(acts)


def test_invited_person_gets_the_keys_until_uninvited() -> None:
    """A key must be for members and invited people; one that uninvited people have seals no more."""
    acts = team("bob", session="s")
    own = invite(acts, "bob")
    members = acts.evaluate()
    assert members.session == "s"
    assert members.recipients() == {tag_of("ann"), tag_of("bob"), tag_of("gus")}
    assert keys_of("gus").public.age in members.recipient_keys()
    new_key(acts, "ann", 1, "ann", "bob", "gus")
    assert current_key(acts) == 1
    acts.add_entry("ann", Uninvite, invite=own)
    members = acts.evaluate()
    assert [invited.live for invited in members.invites] == [False]
    assert members.recipients() == {tag_of("ann"), tag_of("bob")}
    assert current_key(acts) is None


def test_uninvite_must_name_an_invitation_known_to_its_author() -> None:
    acts = team("bob", session="s")
    assert acts.add_entry("ann", Uninvite, invite="00" * 32) in reasons(acts)
    assert acts.add_entry("ann", Uninvite, invite=acts.vault) in reasons(acts)


def test_guest_can_write_but_not_govern() -> None:
    """It may make keys and rename itself, not invite, admit or remove others."""
    acts = team("bob", session="s")
    own = invite(acts)
    acts.admit("ann", "gus", admin=False, role="guest", invite=own)
    new_key(acts, "gus", 1, "ann", "bob", "gus")
    assert current_key(acts) == 1
    member = acts.evaluate().members[id_of("gus")]
    assert (member.kind, member.admin, member.invite) == ("guest", False, own)
    for refused in (
        invite(acts, "gus"),
        acts.add_entry("gus", Uninvite, invite=own),
        acts.admit("gus", "eve", admin=False, role="guest", invite=own),
        acts.remove("gus", "bob"),
        acts.admit("ann", "hal", admin=True, role="guest"),
    ):
        assert refused in reasons(acts)
    acts.remove("ann", "gus")
    assert acts.names() == {"ann", "bob"}


@pytest.mark.parametrize(
    ("write", "expires", "admitted"), [(True, None, True), (False, None, False), (True, 1, False), (True, 99, True)]
)
def test_member_can_admit_a_guest_invited_to_write(write: bool, expires: int | None, admitted: bool) -> None:
    """Whoever may invite may admit, as a guest, before the invitation expires; nobody else may."""
    acts = Acts(session="s")
    acts.admit("ann", "bob", admin=False)
    own = invite(acts, "bob", write=write, expires=expires)
    acts.admit("bob", "gus", admin=False, role="guest", invite=own)
    assert acts.evaluate().is_member(id_of("gus")) is admitted
    assert acts.admit("bob", "eve", admin=False, role="guest") in reasons(acts)
    assert acts.admit("bob", "eve", admin=False, role="device", invite=own) in reasons(acts)


def test_guest_uninvited_concurrently_is_not_admitted() -> None:
    """The uninviter could not name the guest; one who knows the guest removes it by name."""
    acts = team("bob", session="s")
    own = invite(acts)
    early = acts.admit("bob", "hal", admin=False, role="guest", invite=own, after=[own])
    back = acts.add_entry("ann", Uninvite, invite=own, after=[early])
    acts.admit("bob", "gus", admin=False, role="guest", invite=own, after=[own])
    assert acts.names() == {"ann", "bob", "hal"}
    acts.admit("bob", "gus", admin=False, role="guest", invite=own, after=[back])
    assert acts.names() == {"ann", "bob", "hal", "gus"}


def test_invitation_of_a_concurrently_removed_member_is_void() -> None:
    """So are its guests' admissions."""
    acts = Acts(session="s")
    acts.admit("ann", "bob", admin=False)
    acts.admit("ann", "cat", admin=False)
    top = acts.ends()
    own = acts.add_entry(
        "bob", Invite, after=top, email="gus@example.org", recipients=(), write=True, secret=b"", expires=None
    )
    acts.admit("cat", "gus", admin=False, role="guest", invite=own, after=[own])
    assert acts.evaluate().is_member(id_of("gus"))
    acts.remove("ann", "bob", after=top)
    assert acts.names() == {"ann", "cat"}


@pytest.mark.parametrize(
    ("proved_by", "role", "counts"),
    [(None, "guest", False), (None, "device", False), ("gus", "device", False), ("bob", "device", True)],
)
def test_admission_with_another_devices_signing_key_needs_its_proof(
    proved_by: str | None, role: str, counts: bool
) -> None:
    """Bob's signing key with an age key of Gus: Bob himself must have named that age key."""
    acts = team("bob", session="s")
    age = keys_of("gus").public.age.encode()
    proof = None if proved_by is None else keys_of(proved_by).sign(POSSESSION, age)
    entry = acts.admit("ann", "gus", admin=False, role=role, signing="bob", possession=proof)
    assert (entry in reasons(acts)) is not counts
    author = acts.evaluate().author_of(certified_writer(keys_of("bob").public.signing))
    assert author is not None
    assert (author.name, author.admin) == ("bob", True)


def test_stream_with_a_shared_signing_key_belongs_to_the_device_with_more_rights() -> None:
    """Admitted concurrently: a guest's admission takes nothing from the device."""
    acts = team("bob", session="s")
    before = acts.ends()
    acts.admit("ann", "dan", admin=False, after=before)
    twins = [
        acts.admit("ann", name, admin=False, role="guest", signing="dan", after=before)
        for name in ("gus", "hal", "ida", "joe")
    ]
    assert not set(twins) & reasons(acts).keys()
    author = acts.evaluate().author_of(certified_writer(keys_of("dan").public.signing))
    assert author is not None
    assert author.kind == "device"
