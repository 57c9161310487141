"""Places in documents: written for people, matched by patterns, looked up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.canonical import Json
from holdfast.formats.base import Place
from holdfast.formats.document_paths import covers, format_place, is_covered, value_at

STEPS = st.one_of(st.text(max_size=5), st.integers(0, 5), st.sampled_from(["*", "agents", "id"]))
PLACES: st.SearchStrategy[Place] = st.lists(STEPS, max_size=4).map(tuple)


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ((), "$"),
        (("goal",), "$.goal"),
        (("agents", 0, "status"), "$.agents[0].status"),
        (("x-own", "$ref", "_a1"), "$.x-own.$ref._a1"),
        (("a b",), "$['a b']"),
        (("",), "$['']"),
        (("0",), "$['0']"),
        (("it's",), '$["it\'s"]'),
        (("a.b", "é"), "$['a.b']['\\xe9']"),
        (("line\n",), "$['line\\n']"),
        (("\x1b[31m\u202e",), "$['\\x1b[31m\\u202e']"),
    ],
)
def test_places_are_written_as_json_paths(place: Place, path: str) -> None:
    assert format_place(place) == path


@given(PLACES)
def test_whatever_the_keys_a_written_place_is_one_line_of_printable_ascii(place: Place) -> None:
    assert format_place(place).isascii()
    assert format_place(place).isprintable()
    assert format_place(place).startswith("$")


def test_key_of_any_length_is_cut() -> None:
    assert len(format_place(("é" * 10_000,))) < 300
    assert len(format_place(("k" * 10_000,))) < 300


@given(PLACES)
def test_place_covers_itself_and_stars_cover_every_place_of_their_length(place: Place) -> None:
    assert covers(place, place)
    assert covers(("*",) * len(place), place)
    assert not covers((*place, "*"), place)
    assert not covers(place, (*place, "x"))


@given(PLACES, PLACES)
def test_without_stars_a_pattern_covers_only_itself(pattern: Place, place: Place) -> None:
    if "*" not in pattern:
        assert covers(pattern, place) == (pattern == place)
    assert is_covered([pattern], place) == covers(pattern, place)
    assert is_covered([("never", "here"), pattern, place], place)


def test_no_patterns_cover_nothing() -> None:
    assert not is_covered([], ())
    assert is_covered([()], ())


DOCUMENT: Json = {"a": [1, {"b": None, "c": "x"}], "": False}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ((), DOCUMENT),
        (("a", 1, "c"), "x"),
        (("a", -1, "c"), "x"),
        (("",), False),
        (("a", 2), None),
        (("a", -3), None),
        (("a", "0"), None),
        (("a", 0, "b"), None),
        (("a", 1, "b", "deeper"), None),
        ((0,), None),
        (("missing", "b"), None),
    ],
)
def test_value_at_a_place(place: Place, value: Json) -> None:
    assert value_at(DOCUMENT, place) == value
