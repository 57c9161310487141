"""Through the store and out again: exact, for whatever documents there are; also by way of another format."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.secrets.patterns import redact_document
from holdfast.formats import registry
from holdfast.formats.base import Document
from holdfast.formats.entries import is_same
from holdfast.formats.import_ import import_document
from holdfast.formats.remainder import render_with_remainder
from holdfast.keeper.keeper import Keeper
from tests.formats import contract_documents, craft_documents, orchestrator_documents, timer_documents

DOCUMENTS = {
    "orchestrator": orchestrator_documents.documents(),
    "timer": timer_documents.documents(),
    "contract": contract_documents.documents(),
    "craft": craft_documents.documents(),
}
FEW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=15)


@contextmanager
def opened() -> Iterator[Keeper]:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        project.mkdir()
        with Keeper.open(str(project), home=str(Path(folder) / "home")) as keeper:
            yield keeper


def drawn(name: str, data: st.DataObject) -> Document:
    return data.draw(DOCUMENTS[name].filter(lambda one: not redact_document(one).counts))


@pytest.mark.parametrize("name", DOCUMENTS)
@FEW
@given(data=st.data())
def test_what_is_imported_is_exported_to_the_letter(name: str, data: st.DataObject) -> None:
    document, rules = drawn(name, data), registry.format_named(name)
    with opened() as keeper:
        taken = import_document(keeper, document, rules)
        assert taken.notes == []
        state = keeper.state(taken.session)
        assert is_same(render_with_remainder(state, rules), document)
        assert state.clashes == []
        again = import_document(keeper, document, rules)
        assert (again.session, again.events) == (taken.session, 0)


@pytest.mark.parametrize("name", DOCUMENTS)
@FEW
@given(data=st.data())
def test_another_formats_view_of_it_changes_nothing(name: str, data: st.DataObject) -> None:
    """Shown in another format, taken in again from there unchanged, and still exported to the letter."""
    document, rules = drawn(name, data), registry.format_named(name)
    other = registry.format_named(data.draw(st.sampled_from([item for item in DOCUMENTS if item != name])))
    with opened() as keeper:
        session = import_document(keeper, document, rules).session
        taken = import_document(keeper, render_with_remainder(keeper.state(session), other), other)
        assert taken.session == session
        assert is_same(render_with_remainder(keeper.state(session), rules), document)
