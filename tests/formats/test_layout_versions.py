"""Versions: a newer one is refused by name, an older one repaired with a note, in every format with versions."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.events import ProjectFacts
from holdfast.core.times import parse_time
from holdfast.formats import registry
from holdfast.formats.base import Document, ImportContext, is_newer

NOW = parse_time("2026-11-15T12:00:00Z")
CONTEXT = ImportContext(ProjectFacts(id="p", name="shop", path="/shop"), "desk", NOW, lambda _: timedelta(0))
PLACES = {"orchestrator": "schema_version", "craft": "schema_version", "contract": "version"}


def document(name: str, version: Json) -> Document:
    """A small document of this version: whatever else it lacks, an import would derive."""
    if name == "contract":
        current: Json = {"started_at": "2026-11-15T10:00:00Z"}
        return {"version": version, "feature_id": "shop-2026-11-15", "current_state": current}
    return {
        "schema_version": version, "goal": "Build the shop", "created": "2026-11-15T10:00:00Z",
        "created_at": "2026-11-15T10:00:00.000Z",
    }  # fmt: skip


@pytest.mark.parametrize("version", ["1.1", "1.0.1", "1.1.0", "2.0", "2.0.0", "v1.2", 2, 1.1])
@pytest.mark.parametrize("name", PLACES)
def test_newer_version_is_refused_by_name(name: str, version: Json) -> None:
    with pytest.raises(Invalid, match=str(version).removeprefix("v").replace(".", r"\.")):
        registry.format_named(name).repair(document(name, version), CONTEXT)


@pytest.mark.parametrize("version", ["0.9", "0.9.0"])
@pytest.mark.parametrize("name", PLACES)
def test_older_version_is_repaired_with_a_note(name: str, version: Json) -> None:
    rules = registry.format_named(name)
    made, notes = rules.repair(document(name, version), CONTEXT)
    inner = made["state"] if name == "contract" else made
    assert isinstance(inner, dict)
    assert inner[PLACES[name]] == rules.version
    assert [note for note in notes if note.place[-1] == PLACES[name]]


@pytest.mark.parametrize("version", ["1.1.0", "1.0.1", "2.0.0", "0.9.0"])
def test_any_other_version_is_an_error_to_validate(version: str) -> None:
    rules = registry.format_named("craft")
    made = {**rules.repair(document("craft", "1.0.0"), CONTEXT).document, "schema_version": version}
    (result,) = rules.problems(made, "craft")
    assert (result.place, result.severity) == (("schema_version",), "error")


def test_versions_are_compared_by_their_parts() -> None:
    assert is_newer("1.10", "1.9")
    assert is_newer("1.0.1", "1.0")
    assert not is_newer("1.0.0", "1.0")
    assert not is_newer("draft", "1.0")
