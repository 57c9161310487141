"""The suite every format passes. Derive from `FormatConformance`, name the format, how its documents are made, and
its specification's examples; pytest does the rest.

    class TestMine(FormatConformance):
        rules = registry.format_named("mine")
        documents = my_strategy          # hypothesis: arbitrary valid documents, unknown fields included
        examples = [("the text's example", {...})]
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.canonical import Json
from holdfast.core.events import ProjectFacts
from holdfast.core.state import State
from holdfast.core.times import SECOND, parse_time
from holdfast.formats import registry
from holdfast.formats.base import Document, Format, ImportContext, Place, Problem, TimedEvent
from holdfast.formats.convert import carried_values, convert_document, state_of
from holdfast.formats.document_paths import is_covered
from holdfast.formats.entries import entries_by_name, is_same
from holdfast.formats.merge import merge_documents
from holdfast.formats.remainder import remainder, restore
from holdfast.formats.timestamps import is_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CONTEXT = ImportContext(
    project=ProjectFacts(id="p" * 32, name="holdfast", path="/home/ada/holdfast", git_branch="main"),
    device="workbench",
    now=1_800_000_000_000,
    offset=lambda _: timedelta(0),
)


class FormatConformance:
    rules: ClassVar[Format]
    documents: ClassVar[st.SearchStrategy[Document]]
    # Two versions of one session's document, the second made by another program from the first.
    edits: ClassVar[st.SearchStrategy[tuple[Document, Document]]]
    # The specification's own examples, as `repair` returns them.
    examples: ClassVar[Sequence[tuple[str, Document]]] = ()

    # ── documents ────────────────────────────────────────────────────────────────────────────────────────

    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors])
    @given(st.data())
    def test_generated_document_is_valid_and_needs_no_repair(self, data: st.DataObject) -> None:
        document = data.draw(self.documents)
        files = self.rules.files(document)
        assert not [
            problem
            for kind, value in files
            for problem in self.rules.broken(value, kind)
            if problem.severity == "error"
        ]
        repaired = self.rules.repair(document, CONTEXT)
        assert is_same(repaired.document, document)
        assert repaired.notes == []

    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors])
    @given(st.data())
    def test_import_gives_valid_events(self, data: st.DataObject) -> None:
        document = data.draw(self.documents)
        events = self.rules.changes(None, document, None, CONTEXT)
        state = state_of(document, self.rules, CONTEXT)
        assert state.clashes == []
        assert state.not_applied == 0
        assert [event.at for event in events] == sorted(event.at for event in events)
        assert all(event.at <= CONTEXT.now for event in events)
        assert state.aliases.get(self.rules.name) == self.rules.alias(document)

    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors])
    @given(st.data())
    def test_round_trip_is_exact(self, data: st.DataObject) -> None:
        self._round_trip(data.draw(self.documents))

    def test_examples_of_the_specification_make_the_round_trip(self) -> None:
        for name, document in self.examples:
            assert is_same(self.rules.repair(document, CONTEXT).document, document), name
            self._round_trip(document)

    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors])
    @given(st.data())
    def test_rendering_is_valid_and_stable(self, data: st.DataObject) -> None:
        state = state_of(data.draw(self.documents), self.rules, CONTEXT)
        shown = self.rules.render(state)
        assert self._errors(shown) == []
        refolded = state_of(shown, self.rules, CONTEXT)
        assert is_same(self.rules.render(refolded), shown)

    # ── through the others ───────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("other", registry.NAMES)
    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors])
    @given(st.data())
    def test_round_trip_through_another_format_is_exact_with_carry(self, other: str, data: st.DataObject) -> None:
        document = data.draw(self.documents)
        target = registry.format_named(other)
        converted = convert_document(document, self.rules, target, CONTEXT, carry=True).document
        assert not any(problem.severity == "error" for problem in _problems(target, converted))
        assert is_same(target.repair(converted, CONTEXT).document, converted)
        assert is_same(convert_document(converted, target, self.rules, CONTEXT).document, document)

    @pytest.mark.parametrize("other", registry.NAMES)
    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors])
    @given(st.data())
    def test_without_carry_each_loss_is_reported(self, other: str, data: st.DataObject) -> None:
        document = data.draw(self.documents)
        target = registry.format_named(other)
        converted, losses = convert_document(document, self.rules, target, CONTEXT)
        assert carried_values(converted, target) == {}
        converted_back = convert_document(converted, target, self.rules, CONTEXT).document
        assert (
            is_same(converted_back, document)
            or losses
            or remainder(converted_back, document, self.rules.identities) is not None
        )

    # ── changes ──────────────────────────────────────────────────────────────────────────────────────────

    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors])
    @given(st.data())
    def test_equal_documents_give_no_events(self, data: st.DataObject) -> None:
        document = data.draw(self.documents)
        state = state_of(document, self.rules, CONTEXT)
        shown = self.rules.render(state)
        assert self.rules.changes(shown, shown, state, CONTEXT) == []
        restored = restore(shown, remainder(shown, document, self.rules.identities), self.rules.identities)
        assert isinstance(restored, dict)
        assert self.rules.changes(restored, document, state, CONTEXT) == []

    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors])
    @given(st.data())
    def test_edit_of_another_program_is_imported(self, data: st.DataObject) -> None:
        """Their version, merged and folded, is rendered again: nothing is lost, and there is no conflict."""
        before, after = data.draw(self.edits)
        started = self.rules.changes(None, before, None, CONTEXT)
        state = state_of(before, self.rules, CONTEXT)
        together = merge_documents(before, before, after, self.rules)
        assert together.clashes == []
        events = self.rules.changes(before, together.document, state, CONTEXT)
        state_after = _fold([*started, *events], state.session)
        assert state_after.clashes == []
        assert state_after.not_applied == 0
        shown_before, shown = self.rules.render(state), self.rules.render(state_after)
        now = restore(shown, remainder(shown_before, before, self.rules.identities), self.rules.identities)
        assert isinstance(now, dict)
        expected = merge_documents(before, now, together.document, self.rules, in_their_words=True).document
        final = restore(shown, remainder(shown, expected, self.rules.identities), self.rules.identities)
        assert isinstance(final, dict)
        # All they wrote is there, and all they left unchanged unless an event changed it; except derived places.
        final_values, old = (dict(_values(entry, self.rules)) for entry in (final, before))
        moved = _moved(dict(_values(shown_before, self.rules)), dict(_values(shown, self.rules)))
        for place, value in _values(after, self.rules):
            is_new = place not in old or old[place] != value
            stays = not any(place[:length] in moved for length in range(1, len(place) + 1))
            if (is_new or stays) and not is_covered(self.rules.derived, place):
                assert final_values.get(place) == value or self._means_the_same(
                    place, final_values.get(place), value
                ), place
        # Once imported, it is no change any more.
        assert (
            self.rules.changes(
                final, merge_documents(before, final, after, self.rules).document, state_after, CONTEXT
            )
            == []
        )

    # ── comparing ────────────────────────────────────────────────────────────────────────────────────────

    def _means_the_same(self, place: Place, left: Json, right: Json) -> bool:  # noqa: ARG002
        """Do two values mean the same at a place? A time may be respelled, and truncated to seconds."""
        if not (isinstance(left, str) and isinstance(right, str) and is_time(left) and is_time(right)):
            return False
        return abs(parse_time(left) - parse_time(right)) < SECOND

    def _round_trip(self, document: Document) -> None:
        shown = self.rules.render(state_of(document, self.rules, CONTEXT))
        kept = remainder(shown, document, self.rules.identities)
        assert is_same(restore(shown, kept, self.rules.identities), document)

    def _errors(self, document: Document) -> list[Problem]:
        return [problem for problem in _problems(self.rules, document) if problem.severity == "error"]


def _values(value: Json, rules: Format, place: Place = ()) -> Iterator[tuple[Place, Json]]:
    """Every single value of a document with its place, entries of lists by name."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _values(inner, rules, (*place, key))
    elif isinstance(value, list):
        seen: list[Json] = []
        for name, inner in entries_by_name(value, place, rules.identities):
            if inner not in seen:  # exact repetitions add nothing
                yield from _values(inner, rules, (*place, name))
            seen.append(inner)
    else:
        yield place, value


def _moved(before: dict[Place, Json], after: dict[Place, Json]) -> set[Place]:
    """Places where two renderings differ, or only one has an object or entry."""
    parts = ({place[:length] for place in entry for length in range(len(place))} for entry in (before, after))
    changed = {
        place
        for place in {**before, **after}
        if (place in before) != (place in after) or before.get(place) != after.get(place)
    }
    return changed.union(set.symmetric_difference(*parts))


def _problems(rules: Format, document: Document) -> list[Problem]:
    """Of every file the document consists of."""
    return [problem for kind, value in rules.files(document) for problem in rules.problems(value, kind)]


def _fold(events: list[TimedEvent], session: str) -> State:
    from holdfast.formats.convert import fold_events

    return fold_events(events, session)
