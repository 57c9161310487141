"""Entries of lists: what they are called, and when two documents are the same."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.canonical import Json
from holdfast.formats.entries import Identities, entries_by_name, is_same, match_entries

IDENTITIES: Identities = {("agents",): ("id",), ("done", "*"): (), ("decided",): ("at", "text")}
PLACES = st.sampled_from([("agents",), ("done", 3), ("done", "x"), ("decided",), ("other",)])
KEYS = st.sampled_from(["id", "at", "text", "x"])
SCALARS: st.SearchStrategy[Json] = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.floats(allow_nan=False, width=16),
    st.sampled_from(["", "x", "x\n1", "#0", "1", "null", "2026-01-01T00:00:00Z", "2026-01-01 01:00+01:00"]),
)  # fmt: skip
VALUES: st.SearchStrategy[Json] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=10
)


def names(entries: list[Json], place: tuple[str | int, ...] = ("agents",)) -> list[str]:
    return [name for name, _ in entries_by_name(entries, place, IDENTITIES)]


@given(st.lists(VALUES, max_size=8), PLACES)
def test_each_entry_has_a_name_of_its_own_and_keeps_its_place(entries: list[Json], place: Any) -> None:
    matches = entries_by_name(entries, place, IDENTITIES)
    assert [entry for _, entry in matches] == entries
    assert len({name for name, _ in matches}) == len(entries)
    assert matches == entries_by_name(copy.deepcopy(entries), place, IDENTITIES)


@given(st.lists(st.text("abc", min_size=1, max_size=2), unique=True, max_size=6), st.randoms())
def test_name_of_an_entry_does_not_depend_on_its_position(ids: list[str], chance: Any) -> None:
    entries: list[Json] = [{"id": name, "x": 1} for name in ids]
    mixed = list(entries)
    chance.shuffle(mixed)
    assert dict(entries_by_name(entries, ("agents",), {})) == dict(entries_by_name(mixed, ("agents",), {}))


def test_entries_are_named_by_what_identifies_them() -> None:
    assert names([{"id": "a"}, {"id": 7}, {"id": None, "x": 1}, {}]) == ["a", "7", '{"id":null,"x":1}', "{}"]
    assert names([{"at": 1, "text": "A", "id": "x"}], ("decided",)) == ["1\nA"]
    assert names([{"at": 1}], ("decided",)) == ["1\nnull"]
    assert names([{"b": 1, "a": 2}, {"a": 2, "b": 1}], ("done", 0)) == ['{"a":2,"b":1}', '{"a":2,"b":1}\n1']
    assert names(["one", "one", 1, None, True, ["x"]]) == ["one", "one\n1", "1", "null", "true", '["x"]']


def test_lists_without_rules_know_their_entries_by_id() -> None:
    assert [name for name, _ in entries_by_name([{"id": "a"}, {"name": "b"}], ("unknown", 1), IDENTITIES)] == [
        "a",
        "#1",
    ]


def test_decision_is_the_same_however_its_time_is_spelled() -> None:
    spellings = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000Z", "2026-01-01t01:00:00+01:00", "2026-01-01 00:00Z")
    assert {names([{"at": name, "text": "A"}], ("decided",))[0] for name in spellings} == {
        "2026-01-01T00:00:00.000Z\nA"
    }


@pytest.mark.parametrize("odd", ["2026-13-01T00:00:00Z", "2026-01-01T00:00", "2026-01-01T00:00:00Zulu", "2026-01-01"])
def test_what_only_looks_like_a_time_is_its_own_name(odd: str) -> None:
    assert names([{"at": odd, "text": "A"}], ("decided",)) == [f"{odd}\nA"]


def test_pending_tasks_are_named_by_their_text_even_if_it_looks_like_a_time() -> None:
    assert names(["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00"]) == [
        "2026-01-01T00:00:00Z",
        "2026-01-01T01:00:00+01:00",
    ]


# ── under another name ───────────────────────────────────────────────────────────────────────────────────


def test_new_entry_is_matched_by_most_of_its_values() -> None:
    theirs: dict[str, Json] = {"one": {"at": 1, "text": "A", "x": 5}, "two": {"at": 1, "text": "B", "x": 5}}
    ours: dict[str, Json] = {"b": {"at": 2, "text": "B", "x": 5}, "a": {"at": 2, "text": "A", "x": 5, "y": None}}
    assert match_entries(theirs, ours) == {"one": "a", "two": "b"}


def test_text_matches_the_entry_that_contains_it() -> None:
    ours: dict[str, Json] = {"x": {"at": 1, "text": "no"}, "y": {"at": 1, "text": "it broke"}}
    assert match_entries({"it broke": "it broke"}, ours) == {"it broke": "y"}
    assert match_entries({"something else": "something else"}, ours) == {}


def test_empty_entry_matches_the_remaining_entry_with_fewest_values() -> None:
    ours: dict[str, Json] = {"x": {"at": 1, "text": "no", "who": "a"}, "y": {"at": 1, "text": "{}", "who": None}}
    assert match_entries({"{}": {}}, ours) == {"{}": "y"}
    assert match_entries({"{}": {}, "z": {"text": "{}"}}, ours) == {"z": "y", "{}": "x"}


def test_entries_without_equal_values_do_not_match() -> None:
    assert match_entries({"one": {"at": 1, "text": "A"}}, {"two": {"at": 2, "text": "B"}}) == {}
    assert match_entries({"": "", "{}": {}}, {"Add tests": "Add tests"}) == {}


def test_each_of_a_thousand_new_entries_is_matched() -> None:
    theirs: dict[str, Json] = {f"e{number}": f"e{number}" for number in range(1000)}
    ours: dict[str, Json] = {f"1\ne{number}": {"at": 1, "text": f"e{number}"} for number in range(1000)}
    assert match_entries(theirs, ours) == dict(zip(theirs, ours, strict=True))


@given(st.dictionaries(st.text("abc"), VALUES, max_size=4), st.dictionaries(st.text("abc"), VALUES, max_size=4))
def test_entry_matches_one_other_at_most(theirs: dict[str, Json], ours: dict[str, Json]) -> None:
    matches = match_entries(theirs, ours)
    assert matches.keys() <= theirs.keys()
    assert set(matches.values()) <= ours.keys()
    assert len(set(matches.values())) == len(matches)


# ── the same ─────────────────────────────────────────────────────────────────────────────────────────────


@given(VALUES, VALUES)
def test_same_is_sameness(one: Json, other: Json) -> None:
    assert is_same(one, copy.deepcopy(one))
    assert is_same(one, other) == is_same(other, one)
    if is_same(one, other):
        assert one == other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0), (1, True), (0, False), (0.0, False), (None, False), ("", None), ([], {}), ("1", 1),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({"a": 1}, {"a": 1, "b": None}), ([1, 2], [2, 1]), ([1], [1, 1]),
        ([[1]], [[1.0]]), ({"a": {"b": 1}}, {"a": {"b": True}}),
    ],
)  # fmt: skip
def test_what_is_equal_to_python_may_be_another_document(one: Json, other: Json) -> None:
    assert not is_same(one, other)
