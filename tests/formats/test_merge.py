"""Merging: what each side did survives, nothing is removed by leaving it out, and one place has one clash."""

from __future__ import annotations

import copy

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.core.canonical import Json
from holdfast.core.events import (
    AgentCompleted,
    AgentProgressed,
    AgentStarted,
    DecisionMade,
    EventData,
    NoteAdded,
    TaskAdded,
    TaskCompleted,
)
from holdfast.formats import registry
from holdfast.formats.base import Document, Place
from holdfast.formats.document_paths import is_covered
from holdfast.formats.entries import entries_by_name, is_same
from holdfast.formats.merge import MergeConflict, distance, merge_documents
from holdfast.formats.remainder import render_with_remainder
from tests.formats.stub_format import STUB
from tests.support.histories import Device, started

KEYS = st.sampled_from(["a", "b", "updated", "agents", "pending", "decisions", "id", "seconds", "at", "text"])
SCALARS: st.SearchStrategy[Json] = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(-2, 2, width=16), st.text("xyz\0é", max_size=3)
)
VALUES: st.SearchStrategy[Json] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=10
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=5)


def holds(whole: Json, part: Json, place: Place = ()) -> bool:
    """Is everything of one document in another? Of derived places nothing is asked."""
    if is_covered(STUB.derived, place):
        return True
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(
            holds(whole.get(key), item, (*place, key)) for key, item in part.items()
            if key in whole or not is_covered(STUB.derived, (*place, key))
        )  # fmt: skip
    if isinstance(part, list) and isinstance(whole, list):
        return all(any(holds(there, item, (*place, name)) for there in whole) for name, item in _named(part, place))
    return is_same(whole, part)


def _named(entries: list[Json], place: Place) -> list[tuple[str, Json]]:
    return entries_by_name(entries, place, STUB.identities)


# ── sessions as they are: agents, decisions, pending tasks, and values of anybody's own ──────────────────

_WORD = st.sampled_from(["one", "two", "three", "four"])


@st.composite
def sessions(draw: st.DrawFn) -> Document:
    def entry(**own: Json) -> dict[str, Json]:
        return {**own, "status": draw(_WORD), "own": {"deep": draw(st.integers(0, 9))}}

    agents = draw(st.lists(_WORD, unique=True, max_size=4))
    decided = draw(st.lists(st.integers(1, 5), unique=True, max_size=3))
    tasks = draw(st.lists(_WORD, unique=True, max_size=2))
    return {
        "goal": draw(_WORD), "updated": "then",
        "agents": [entry(id=name, seconds=1) for name in agents],
        "decisions": [entry(at=at, text="Use it") for at in decided],
        "pending": list(draw(st.lists(st.sampled_from("pqr"), unique=True))),
        "phases": [{"id": "p", "tasks": [entry(name=name) for name in tasks]}],
    }  # fmt: skip


def leaves(value: Json, place: Place = ()) -> list[Place]:
    """Every value that can be changed without becoming another thing; entries of lists by their names."""
    if isinstance(value, dict):
        return [
            inner for key, item in value.items() if key not in ("id", "name", "at", "text", "updated", "seconds")
            for inner in leaves(item, (*place, key))
        ]  # fmt: skip
    if isinstance(value, list):
        return [
            inner for name, item in _named(value, place) if isinstance(item, dict)
            for inner in leaves(item, (*place, name))
        ]  # fmt: skip
    return [place]


def put(document: Document, place: Place, value: Json) -> Document:
    """The document with one value changed."""
    made = copy.deepcopy(document)
    at: Json = made
    for depth, step in enumerate(place[:-1]):
        if isinstance(at, list):
            at = dict(_named(at, place[:depth]))[str(step)]
        elif isinstance(at, dict):
            at = at[str(step)]
    assert isinstance(at, dict)
    at[str(place[-1])] = value
    return made


def get(document: Document, place: Place) -> Json:
    at: Json = document
    for depth, step in enumerate(place):
        at = dict(_named(at, place[:depth]))[str(step)] if isinstance(at, list) else at[str(step)]  # type: ignore[index,call-overload]
    return at


@st.composite
def grown(draw: st.DrawFn, document: Document) -> Document:
    """Another version in which things were changed and added, and nothing left out."""
    made = document
    for place in draw(st.lists(st.sampled_from(leaves(document)), max_size=3)):
        made = put(made, place, draw(st.text("uvw", min_size=1, max_size=2)))
    more = {key: draw(_WORD) for key in draw(st.lists(st.sampled_from(["k", "l"]), unique=True))}
    pending: list[Json] = [*_list(made["pending"]), *draw(st.lists(st.sampled_from("stu"), unique=True))]
    new: list[Json] = [{"id": name, "status": draw(_WORD)} for name in draw(_new_agents)]
    return {**made, "pending": pending, "agents": [*_list(made["agents"]), *new], **more}


_new_agents = st.lists(st.sampled_from(["five", "six"]), unique=True)


def _list(value: Json) -> list[Json]:
    assert isinstance(value, list)
    return value


# ── laws ─────────────────────────────────────────────────────────────────────────────────────────────────


@given(DOCUMENTS, DOCUMENTS)
def test_without_our_changes_theirs_are_kept_and_nothing_is_removed(base: Document, theirs: Document) -> None:
    together = merge_documents(base, base, theirs, STUB)
    assert together.clashes == []
    assert holds(together.document, theirs)
    assert list(together.document)[: len(base)] == list(base)


@given(DOCUMENTS, DOCUMENTS)
def test_without_their_changes_ours_stays_exactly(base: Document, ours: Document) -> None:
    together = merge_documents(base, ours, base, STUB)
    assert is_same(together.document, ours)
    assert together.clashes == []


@given(DOCUMENTS)
def test_version_merged_with_itself_is_itself(document: Document) -> None:
    for base in (None, document, {}):
        together = merge_documents(base, document, document, STUB)
        assert is_same(together.document, document)
        assert together.clashes == []


@given(DOCUMENTS, DOCUMENTS, DOCUMENTS)
def test_merging_any_three_documents_gives_one(base: Document, ours: Document, theirs: Document) -> None:
    together = merge_documents(base, ours, theirs, STUB)
    assert set(ours) <= set(together.document)
    for clash in together.clashes:
        assert not is_same(clash.ours, clash.theirs)
        assert not is_covered(STUB.derived, clash.place)


@given(sessions(), st.data())
def test_omitted_fields_are_kept(base: Document, data: st.DataObject) -> None:
    ours = data.draw(grown(base))
    theirs = {key: item for key, item in base.items() if data.draw(st.booleans())}
    for key in ("agents", "pending", "decisions"):
        if key in theirs:
            theirs[key] = [item for item in _list(theirs[key]) if data.draw(st.booleans())]
    together = merge_documents(base, ours, theirs, STUB)
    assert together.clashes == []
    assert is_same(together.document, ours)


@given(sessions(), st.data())
def test_changes_to_different_places_both_survive(base: Document, data: st.DataObject) -> None:
    places = leaves(base)
    one, other = data.draw(st.sampled_from(places)), data.draw(st.sampled_from(places))
    assume(one != other)
    together = merge_documents(base, put(base, one, "ours"), put(base, other, "theirs"), STUB)
    assert together.clashes == []
    assert is_same(together.document, put(put(base, one, "ours"), other, "theirs"))


@given(sessions(), st.data())
def test_place_changed_on_both_sides_is_one_conflict_with_both_values(base: Document, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(leaves(base)))
    together = merge_documents(base, put(base, place, "ours"), put(base, place, "theirs"), STUB)
    assert together.clashes == [MergeConflict(place, "ours", "theirs")]
    assert is_same(together.document, put(base, place, "ours"))


@given(sessions(), st.data())
def test_same_change_on_both_sides_is_no_clash(base: Document, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(leaves(base)))
    after = put(base, place, "both")
    assert merge_documents(base, after, after, STUB) == (after, [])


@given(sessions(), st.data())
def test_derived_places_are_ours_alone(base: Document, data: st.DataObject) -> None:
    theirs = {**copy.deepcopy(base), "updated": "later"}
    for agent in _list(theirs["agents"]):
        assert isinstance(agent, dict)
        agent["seconds"] = 99
    ours = data.draw(grown({**base, "updated": "now"}))
    together = merge_documents(base, ours, theirs, STUB)
    assert is_same(together.document, ours)
    assert together.clashes == []


@given(sessions(), st.data())
def test_order_of_versions_matters_only_where_both_changed_one_value(base: Document, data: st.DataObject) -> None:
    one, other = data.draw(grown(base)), data.draw(grown(base))
    here, there = merge_documents(base, one, other, STUB), merge_documents(base, other, one, STUB)
    assert {(place, str(ours), str(theirs)) for place, ours, theirs in here.clashes} == {
        (place, str(theirs), str(ours)) for place, ours, theirs in there.clashes
    }
    settled = there.document
    for clash in here.clashes:
        settled = put(settled, clash.place, clash.ours)
    assert distance(here.document, settled, STUB) == 0


@given(sessions(), st.data())
def test_without_a_version_of_ours_all_of_theirs_is_new(ours: Document, data: st.DataObject) -> None:
    theirs = data.draw(grown(ours))
    together = merge_documents(None, ours, theirs, STUB)
    changed = {clash.place for clash in together.clashes}
    assert changed == {place for place in leaves(ours) if not is_same(get(ours, place), get(theirs, place))}
    assert {clash.place for clash in merge_documents(None, theirs, ours, STUB).clashes} == changed


@given(DOCUMENTS, DOCUMENTS, DOCUMENTS)
def test_in_their_words_there_is_no_conflict_and_no_loss_of_ours(
    base: Document, ours: Document, theirs: Document
) -> None:
    """Ours is what theirs led to: where both differ from the base, theirs is how it was put."""
    together = merge_documents(base, ours, theirs, STUB, in_their_words=True)
    assert together.clashes == []
    assert set(ours) <= set(together.document)


@given(sessions(), st.data())
def test_in_their_words_a_value_both_changed_is_theirs(base: Document, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(leaves(base)))
    ours, theirs = put(base, place, "ours"), put(base, place, "theirs")
    assert merge_documents(base, ours, theirs, STUB, in_their_words=True) == (theirs, [])


def test_what_we_no_longer_show_is_not_brought_back_by_who_kept_it() -> None:
    base: Document = {"agents": [{"id": "a", "status": "x", "seconds": 1}], "note": "old"}
    theirs: Document = {"note": "old", "agents": [{"seconds": 2, "status": "x", "id": "a"}]}
    assert merge_documents(base, {"agents": []}, theirs, STUB) == ({"agents": []}, [])


def test_what_we_no_longer_show_and_they_changed_is_a_clash() -> None:
    base: Document = {"agents": [{"id": "a", "status": "x"}], "note": "old"}
    theirs: Document = {"agents": [{"id": "a", "status": "y"}], "note": "new"}
    assert merge_documents(base, {"agents": []}, theirs, STUB) == (
        {"agents": []},
        [MergeConflict(("agents", "a"), None, {"id": "a", "status": "y"}), MergeConflict(("note",), None, "new")],
    )


def test_entries_are_recognised_at_any_position() -> None:
    base: Document = {"decisions": [{"at": "2026-01-01T00:00:00Z", "text": "A", "why": "x"}], "pending": ["p", "q"]}
    ours: Document = {**base, "pending": ["q", "p", "r"]}
    theirs: Document = {
        "pending": ["s", "q", "p"],
        "decisions": [{"at": "2", "text": "B"}, {"at": "2026-01-01T01:00:00+01:00", "text": "A", "why": "y"}],
    }
    together = merge_documents(base, ours, theirs, STUB)
    assert together.clashes == []
    assert together.document == {
        "decisions": [{"at": "2026-01-01T01:00:00+01:00", "text": "A", "why": "y"}, {"at": "2", "text": "B"}],
        "pending": ["q", "p", "r", "s"],
    }


# ── distance ─────────────────────────────────────────────────────────────────────────────────────────────


@given(DOCUMENTS, DOCUMENTS)
def test_distance_is_symmetric_and_smallest_to_itself(one: Document, other: Document) -> None:
    assert distance(one, other, STUB) == distance(other, one, STUB) >= 0
    assert distance(one, copy.deepcopy(one), STUB) == 0


def _in_order(value: Json) -> Json:
    """The same for versions that differ in nothing but the order of keys."""
    if isinstance(value, dict):
        return {key: _in_order(value[key]) for key in sorted(value)}
    return [_in_order(item) for item in value] if isinstance(value, list) else value


@given(DOCUMENTS, DOCUMENTS)
def test_no_distance_means_the_same_values(one: Document, other: Document) -> None:
    near = distance(one, other, STUB) == 0
    if is_same(_in_order(one), _in_order(other)):
        assert near
    elif near:
        assert holds(one, other)
        assert holds(other, one)


@given(sessions(), st.data())
def test_each_changed_value_counts(base: Document, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.sampled_from(leaves(base)), unique=True))
    after = base
    for place in places:
        after = put(after, place, "changed")
    assert distance(base, after, STUB) == len(places)


def test_missing_part_counts_with_everything_in_it() -> None:
    assert distance({"a": {"b": [1, 2], "c": {}}}, {}, STUB) == 3
    assert distance({"a": "\0"}, {}, STUB) == 1
    assert distance({"updated": "x"}, {"updated": "y"}, STUB) == 2


_STEPS: tuple[EventData, ...] = (
    AgentStarted(id="a1", type="coder", task="Write it"), TaskAdded(id="t1", text="Add unit tests"),
    DecisionMade(chosen="Use SQLite", why="It is there"), AgentProgressed(id="a1", progress=0.5),
    NoteAdded(text="Half way"), TaskAdded(id="t2", text="Update documentation"),
    AgentCompleted(id="a1", summary="Written"), TaskCompleted(id="t1", outcome="They pass"),
)  # fmt: skip


def _versions(device: Device, name: str) -> list[Document]:
    rules = registry.format_named(name)
    documents_made = [render_with_remainder(device.state(), rules)]
    for step in _STEPS:
        device.wait(70_000)
        device.record(step)
        documents_made.append(render_with_remainder(device.state(), rules))
    return documents_made


@pytest.mark.parametrize("name", registry.NAMES)
def test_edited_copy_is_nearest_to_the_version_it_was_made_from(name: str) -> None:
    """Whichever version somebody holds, and whether they wrote something new, reworded, or left things out."""
    rules = registry.format_named(name)
    versions = _versions(started(), name)
    for place, version in enumerate(versions):
        rarely = {key: item for key, item in version.items() if key not in ("errors", "metadata", "flags")}
        copies: list[Document] = [{**version, "own": {"todo": ["Call Ben"]}}, {**version, "x": 1, "y": 2}, rarely]
        for edited in copies:
            far = [distance(other, edited, rules) for other in versions]
            assert far[place] == min(far), (place, far)
            assert [other for other, number in zip(versions, far, strict=True) if number == min(far)][-1] == version
