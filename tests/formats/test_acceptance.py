"""What `validate` calls valid is imported, and what an import refuses is called invalid: the same documents."""

from __future__ import annotations

import json
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.canonical import Json
from holdfast.core.errors import HoldfastError
from holdfast.core.text import MAX_TEXT_LENGTH
from holdfast.core.times import parse_time
from holdfast.formats import registry
from holdfast.formats.base import Document, Format, Place, Problem
from holdfast.formats.document_paths import value_at
from holdfast.formats.import_ import import_document
from holdfast.formats.validate import Validator
from holdfast.keeper.keeper import Keeper
from tests.formats import contract_documents, craft_documents, orchestrator_documents, timer_documents

DOCUMENTS = {
    "orchestrator": orchestrator_documents.documents(),
    "timer": timer_documents.documents(),
    "contract": contract_documents.documents(),
    "craft": craft_documents.documents(),
}
HARM = {"nothing": "", "NUL": "\0", "length": "x" * (MAX_TEXT_LENGTH + 1)}


def texts(value: Json, place: Place = ()) -> list[Place]:
    if isinstance(value, str):
        return [place]
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [inner_text for key, item in inner for inner_text in texts(item, (*place, key))]


def is_valid(document: Document, name: str, folder: Path, *, lenient: bool) -> bool:
    """As the program says it, of the document's files."""
    paths = []
    for number, (kind, value) in enumerate(registry.format_named(name).files(document)):
        lines = value if kind.endswith("-history") and isinstance(value, list) else [value]
        path = folder / f"{number}-{kind}.{'jsonl' if kind.endswith('-history') else 'json'}"
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        paths.append(str(path))
    now = parse_time("2030-01-01T00:00:00Z")
    checks = Validator(format_name=None, lenient=lenient, now=now, offset=lambda _: timedelta(0))
    return all(verdict.valid for verdict in checks.check(paths))


def allowed(document: Document, name: str) -> bool:
    """By the specification alone."""
    rules = registry.format_named(name)
    inner_text = [problem for kind, value in rules.files(document) for problem in _problems(rules, value, kind)]
    return all(problem.severity != "error" for problem in inner_text)


def _problems(rules: Format, value: Json, kind: str) -> list[Problem]:
    lines = value if kind.endswith("-history") and isinstance(value, list) else [value]
    return [problem for line in lines for problem in rules.problems(line, kind)]


def is_imported(document: Document, name: str, folder: Path) -> bool:
    project = folder / "project"
    project.mkdir()
    with Keeper.open(str(project), home=str(folder / "home")) as keeper:
        try:
            import_document(keeper, document, registry.format_named(name))
        except HoldfastError:
            return False
    return True


@pytest.mark.parametrize("name", DOCUMENTS)
@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=settings().max_examples // 3)
@given(data=st.data(), harm=st.sampled_from(sorted(HARM)))
def test_valid_is_what_is_imported(name: str, data: st.DataObject, harm: str) -> None:
    """Of documents that a specification allows, with text in any one field that may be too much."""
    # As it is read: two places that a generated document shares are apart.
    document = json.loads(json.dumps(data.draw(DOCUMENTS[name])))
    place = data.draw(st.sampled_from(texts(document)))
    holder = value_at(document, place[:-1]) if len(place) > 1 else document
    holder[place[-1]] = f"{value_at(document, place)}{HARM[harm]}"  # type: ignore[index]
    with tempfile.TemporaryDirectory() as folder:
        strict = is_valid(document, name, Path(folder), lenient=False)
        lenient = is_valid(document, name, Path(folder), lenient=True)
        imported = is_imported(document, name, Path(folder))
    assert lenient == imported
    assert strict == (imported and allowed(document, name))
