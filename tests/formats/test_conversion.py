"""Conversion between formats without the store: losses are reported, carried values come back."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.canonical import Json
from holdfast.core.events import ProjectFacts
from holdfast.core.times import parse_time
from holdfast.formats import document_paths, registry
from holdfast.formats.base import Document, Format, ImportContext
from holdfast.formats.convert import CARRIED_KEY, carried_values, convert_document, state_of
from holdfast.formats.entries import is_same
from holdfast.formats.text.json import render_json
from tests.support.spec_examples import documents

CONTEXT = ImportContext(
    ProjectFacts(id="p" * 32, name="shop", path="/home/ada/shop"), "desk", parse_time("2026-11-15T12:00:00Z"),
    lambda _: timedelta(0),
)  # fmt: skip
NAMES = registry.NAMES


def example(name: str) -> Document:
    """A document of this format as import leaves it, with a field of somebody's own."""
    rules = registry.format_named(name)
    made = convert_document(
        rules_of("orchestrator", documents()["orchestrator"]), registry.format_named("orchestrator"), rules, CONTEXT
    )
    inner: Json = {"priority": 1.50, "b": [1, {"z": None, "a": "é"}]}
    place = "state" if name == "contract" else None
    whole = made.document
    if place is None:
        return {"x-own": inner, **whole}
    kept_value = whole[place]
    assert isinstance(kept_value, dict)
    return {**whole, place: {"x-own": inner, **kept_value}}


def rules_of(name: str, value: Json) -> Document:
    return registry.format_named(name).repair(value, CONTEXT).document


def errors(rules: Format, document: Document) -> list[str]:
    return [
        problem.message for kind, value in rules.files(document) for problem in rules.problems(value, kind)
        if problem.severity == "error"
    ]  # fmt: skip


@pytest.mark.parametrize("source", NAMES)
@pytest.mark.parametrize("target", NAMES)
def test_what_is_carried_comes_back_to_the_letter(source: str, target: str) -> None:
    here, there = registry.format_named(source), registry.format_named(target)
    document = example(source)
    away, losses = convert_document(document, here, there, CONTEXT, carry=True)
    assert losses == []
    assert errors(there, away) == []
    assert is_same(convert_document(away, there, here, CONTEXT).document, document)


@pytest.mark.parametrize("source", NAMES)
@pytest.mark.parametrize("target", NAMES)
def test_loss_is_reported_for_each_place(source: str, target: str) -> None:
    here, there = registry.format_named(source), registry.format_named(target)
    away, losses = convert_document(example(source), here, there, CONTEXT)
    assert carried_values(away, there) == {}
    notes = [note for note in losses if "x-own" in note.place]
    assert len(notes) == 1
    assert notes[0].message.startswith(f"{target} cannot express it: ")
    assert all(len(note.message) < 120 and note.message.isprintable() for note in losses)
    assert document_paths.format_place(notes[0].place).endswith(".x-own")


def test_luggage_survives_the_way_through_a_third_format() -> None:
    """Out over two formats and home the same way."""
    craft, timer, orchestrator = (registry.format_named(name) for name in ("craft", "timer", "orchestrator"))
    document = example("craft")
    first = convert_document(document, craft, timer, CONTEXT, carry=True).document
    second = convert_document(first, timer, orchestrator, CONTEXT, carry=True).document
    assert set(carried_values(second, orchestrator)) == {"craft", "timer"}
    back = convert_document(second, orchestrator, timer, CONTEXT).document
    assert is_same(back, first)
    assert is_same(convert_document(back, timer, craft, CONTEXT).document, document)


def test_changes_on_the_way_are_kept_with_carried_values() -> None:
    """Somebody works with the converted document: their change counts, the rest comes back."""
    craft, orchestrator = registry.format_named("craft"), registry.format_named("orchestrator")
    document = example("craft")
    away = convert_document(document, craft, orchestrator, CONTEXT, carry=True).document
    home = convert_document({**away, "goal": "Another goal."}, orchestrator, craft, CONTEXT).document
    assert home["goal"] == "Another goal."
    assert is_same(home["x-own"], document["x-own"])


@pytest.mark.parametrize(
    "luggage",
    [
        None, 1, [], {}, "", "{", "[]", "null", '"x"', "[" * 5000, '{"craft": 7}', '{"craft": {"v": 1}}',
        '{"craft": {"i": 3, "m": [], "o": {}}}', '{"craft": {"r": [[1], [null, 2], "x"]}}',
        '{"craft": {"n": {"goal": {}}, "o": [1, "goal"]}}',
    ],
)  # fmt: skip
def test_damaged_luggage_is_ignored(luggage: Json) -> None:
    """It came through other programs: whatever became of it, the document itself still converts."""
    orchestrator, craft = registry.format_named("orchestrator"), registry.format_named("craft")
    document: Document = {**example("orchestrator"), "x-holdfast": {CARRIED_KEY: luggage}}
    assert convert_document(document, orchestrator, craft, CONTEXT).document["goal"] == document["goal"]


def test_luggage_that_would_make_the_document_invalid_is_ignored() -> None:
    """Replacing the whole, hiding what is required, or giving a list the shape of a number."""
    orchestrator, craft = registry.format_named("orchestrator"), registry.format_named("craft")
    document = example("orchestrator")
    plain = convert_document(document, orchestrator, craft, CONTEXT).document
    others: list[Json] = [1, None, [], {}, {"x": 1}]
    hiding: list[Json] = [{"v": value, "w": plain} for value in others]
    hiding += [{"i": {key: {"v": 5, "w": item}}} for key, item in plain.items()]
    hiding += [{"n": {key: item}} for key, item in plain.items()]
    hiding.append({"n": plain})
    for luggage in hiding:
        loaded: Document = {**document, "x-holdfast": {CARRIED_KEY: json.dumps({"craft": luggage})}}
        made = convert_document(loaded, orchestrator, craft, CONTEXT).document
        assert errors(craft, made) == [], luggage


@given(
    st.recursive(
        st.none() | st.text(), lambda inner: st.dictionaries(st.sampled_from("vwimnor"), inner) | st.lists(inner)
    )
)
def test_any_luggage_gives_a_document(luggage: Json) -> None:
    orchestrator, craft = registry.format_named("orchestrator"), registry.format_named("craft")
    document: Document = {**example("orchestrator"), "x-holdfast": {CARRIED_KEY: json.dumps({"craft": luggage})}}
    assert isinstance(convert_document(document, orchestrator, craft, CONTEXT).document, dict)


def test_one_file_holds_what_fits_and_the_rest_is_reported() -> None:
    orchestrator, contract = registry.format_named("orchestrator"), registry.format_named("contract")
    document = example("orchestrator")
    whole = convert_document(document, orchestrator, contract, CONTEXT)
    alone = convert_document(document, orchestrator, contract, CONTEXT, one_file=True)
    assert set(alone.document) < set(whole.document)
    assert len(alone.notes) > len(whole.notes)
    carrying = convert_document(document, orchestrator, contract, CONTEXT, one_file=True, carry=True).document
    assert is_same(convert_document(carrying, contract, orchestrator, CONTEXT).document, document)


@pytest.mark.parametrize("name", NAMES)
def test_same_document_is_the_same_session_everywhere(name: str) -> None:
    rules = registry.format_named(name)
    one, other = (state_of(example(name), rules, context) for context in (CONTEXT, CONTEXT._replace(device="phone")))
    assert one.session == other.session
    assert one.aliases[name] == rules.alias(example(name))


# ── JSON as text ─────────────────────────────────────────────────────────────────────────────────────────

_VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20,
)  # fmt: skip


@given(_VALUES)
def test_what_is_written_reads_as_the_same(value: Json) -> None:
    assert is_same(json.loads(render_json(value)), value)
    assert render_json(value).endswith(b"\n")
    assert render_json(value) == render_json(json.loads(render_json(value)))


def test_document_is_written_as_people_read_it() -> None:
    assert render_json({"b": "é", "a": [1, 2.0, {}], "c": {"d": []}}) == (
        '{\n  "b": "é",\n  "a": [\n    1,\n    2.0,\n    {}\n  ],\n  "c": {\n    "d": []\n  }\n}\n'.encode()
    )


@pytest.mark.parametrize("value", [10**30, {"a": [2**64]}, -(2**63) - 1])
def test_numbers_beyond_64_bits_are_written_in_full(value: Json) -> None:
    assert is_same(json.loads(render_json(value)), value)


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": "x"}, [10**30, "half \ud83d"]])
def test_half_a_letter_is_written_as_its_escape(value: Json) -> None:
    """No program can write it as UTF-8; escaped it is read as it was."""
    assert is_same(json.loads(render_json(value)), value)
