"""Keeping what a rendering leaves out: the law, and what happens to it when things change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.canonical import Json
from holdfast.formats.base import Place
from holdfast.formats.entries import is_same
from holdfast.formats.remainder import losses, remainder, restore

KEYS = st.sampled_from(["id", "a", "b", "status", "x", "#0", "x\n1"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.floats(allow_nan=False, width=16),
    st.sampled_from(["", "x", "y", "x\n1"]),
)  # fmt: skip
VALUES: st.SearchStrategy[Json] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
IDENTITIES: dict[Place, tuple[str, ...]] = {("a",): ("id",), ("b", "*"): (), ("x",): ("a", "b")}


@given(VALUES, VALUES)
def test_what_is_kept_brings_the_document_back_to_the_letter(shown: Json, meant: Json) -> None:
    kept = remainder(shown, meant, IDENTITIES)
    assert is_same(restore(shown, kept, IDENTITIES), meant)
    assert (kept is None) == is_same(shown, meant)


@given(VALUES, VALUES, VALUES)
def test_putting_back_copes_with_any_later_rendering(shown: Json, meant: Json, later: Json) -> None:
    restore(later, remainder(shown, meant, IDENTITIES), IDENTITIES)


def test_value_that_changed_since_is_shown_as_it_is_now() -> None:
    shown: Json = {"goal": "g", "at": "2026-01-01T00:00:00.000Z"}
    meant: Json = {"at": "2026-01-01T01:00:00+01:00", "own": 1, "goal": "g"}
    kept = remainder(shown, meant, {})
    later: Json = {"goal": "h", "at": "2026-01-01T00:00:00.000Z"}
    assert restore(later, kept, {}) == {"at": "2026-01-01T01:00:00+01:00", "own": 1, "goal": "h"}
    moved: Json = {"goal": "g", "at": "2026-01-02T00:00:00.000Z", "new": True}
    assert restore(moved, kept, {}) == {
        "at": "2026-01-02T00:00:00.000Z", "own": 1, "goal": "g", "new": True,
    }  # fmt: skip


def test_remainder_of_a_list_entry_follows_the_entry() -> None:
    shown: Json = [{"id": "a", "status": "running"}, {"id": "b", "status": "running"}]
    meant: Json = [{"id": "b", "status": "running", "own": 2}, {"id": "a", "status": "running", "own": 1}]
    kept = remainder(shown, meant, {})
    later: Json = [{"id": "0", "status": "x"}, {"id": "a", "status": "done"}, {"id": "b", "status": "running"}]
    assert restore(later, kept, {}) == [
        {"id": "b", "status": "running", "own": 2},
        {"id": "a", "status": "done", "own": 1},
        {"id": "0", "status": "x"},
    ]


def test_what_holds_only_for_the_moment_is_left_out_once_it_has_passed() -> None:
    kept = remainder({"device": "here", "goal": "g"}, {"device": "there", "goal": "G"}, {})
    assert restore({"device": "here", "goal": "g"}, kept, {}, passing=[("device",)]) == {
        "device": "here",
        "goal": "G",
    }


def test_losses_name_every_place_with_what_would_be_lost() -> None:
    kept = remainder({"a": 1, "b": [{"id": "x"}]}, {"a": 2, "own": 3, "b": [{"id": "x", "more": 4}]}, {})
    assert dict(losses(kept)) == {("a",): 2, ("own",): 3, ("b", "x", "more"): 4}
