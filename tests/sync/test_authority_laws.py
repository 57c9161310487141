"""F26: without the owner's consent nobody reads, changes, erases or freezes a session, whatever others do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scale import scale
from tests.sync.authority_fleet import MOVES, OWNER, Breach, Fleet, clean_up, play
from tests.sync.authority_model import Answer, Model

BATCH = 4
STEPS = 30
COUNT = scale(12, 1_000, 20_000)


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_homes_match_the_model_after_every_move(tmp_path: Path, first: int) -> None:
    """Owner, guests, outsiders and a removed device make random moves."""
    for seed in range(first, min(first + BATCH, COUNT)):
        root = tmp_path / str(seed)
        root.mkdir()
        fleet = Fleet(root, seed)
        try:
            play(fleet, STEPS)
        except Breach as breach:
            moves = "\n".join(fleet.moves).replace(str(root), "")
            pytest.fail(f"seed {seed}: {breach}\n{moves}", pytrace=False)
        clean_up(root)


def test_random_sequences_contain_every_move(tmp_path: Path) -> None:
    seen: set[str] = set()
    for seed in range(20):
        seen.update(Fleet.moves_of(seed, STEPS))
    assert seen == set(MOVES)
    assert tmp_path.exists()


def test_model_keeps_circles_of_equal_ids_apart() -> None:
    """The same id in two vaults: neither vault reads, deletes or freezes the other's session."""
    model = Model()
    for home in (OWNER, "mallory"):
        model.create_vault(home)
        model.begin(home, "s")
        assert model.write(home, "s", f"by {home}") is Answer.DONE
    assert model.share("mallory", "s", OWNER, writes=False) is Answer.DONE
    assert model.accept(OWNER, "mallory", "s") is Answer.REFUSED
    model.publish()
    model.observe(OWNER, "s", model.may_know(OWNER, "s"))
    model.delete("mallory", "s")
    assert model.may_know(OWNER, "s") == model.must_keep(OWNER, "s") == {f"by {OWNER}"}
    assert model.write(OWNER, "s", "still") is Answer.DONE
    assert not model.accepts_without_asking(OWNER, "mallory", "s")


def test_model_gives_guests_rights_until_they_are_revoked() -> None:
    """Nothing written afterwards reaches them."""
    model = Model()
    for home in (OWNER, "ben", "cleo"):
        model.create_vault(home)
    model.begin(OWNER, "s")
    model.write(OWNER, "s", "one")
    for guest, writes in (("ben", True), ("cleo", False)):
        model.share(OWNER, "s", guest, writes=writes)
        assert model.accept(guest, OWNER, "s") is Answer.DONE
    assert model.write("ben", "s", "two") is Answer.DONE
    assert model.write("cleo", "s", "no") is Answer.REFUSED
    model.publish()
    assert model.may_know("cleo", "s") == {"one", "two"}
    model.revoke(OWNER, "s", "ben")
    model.write(OWNER, "s", "three")
    model.write("ben", "s", "too late")
    model.delete("ben", "s")
    model.publish()
    assert model.may_know("cleo", "s") == {"one", "two", "three"}
    assert "three" not in model.may_know("ben", "s")
    assert model.settled(OWNER, "s") == {"one", "three"}
