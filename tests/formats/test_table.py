"""Field tables: what follows from a table for any format, and that craft's tables are complete."""

from __future__ import annotations

import pytest

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.formats.base import Document, FormatNote
from holdfast.formats.conformance import CONTEXT
from holdfast.formats.craft.table import TABLES
from holdfast.formats.repair import Repair, adopt
from holdfast.formats.table import (
    OPTIONAL,
    REQUIRED,
    Count,
    Field,
    Nested,
    Object,
    Objects,
    Text,
    Word,
    document_schema,
)

TASK = Object(
    "task",
    "One task.",
    (
        Field("title", Text(blank=False), "What to do.", REQUIRED, also=("name", "text"), default="untitled"),
        Field("state", Word(("open", "done"), {"finished": "done"}), "How far it is."),
        Field("points", Count(), "", OPTIONAL),
    ),
)
STRICT_TASK = Object("task", TASK.meaning, TASK.fields, keeps_unusable=False)


def repaired(table: Object, data: Document) -> tuple[Document, list[FormatNote]]:
    part = Repair(table, data, CONTEXT)
    part.repair_all()
    return part.data, part.notes


def test_schema_has_the_fields_in_the_order_of_the_table() -> None:
    """Required, nullable and optional fields are described, and inner objects are definitions."""
    board = Object("board", "All tasks.", (Field("tasks", Objects(TASK), "In order.", REQUIRED),), title="Board")
    assert document_schema(board) == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Board",
        "description": "All tasks.",
        "type": "object",
        "required": ["tasks"],
        "properties": {"tasks": {"description": "In order.", "type": "array", "items": {"$ref": "#/$defs/task"}}},
        "$defs": {
            "task": {
                "description": "One task.",
                "type": "object",
                "required": ["title"],
                "properties": {
                    "title": {"description": "What to do.", "type": "string", "pattern": "\\S"},
                    "state": {
                        "description": "How far it is.",
                        "type": ["string", "null"],
                        "enum": ["open", "done", None],
                    },
                    "points": {"type": "integer", "minimum": 0, "maximum": 9007199254740991},
                },
            }
        },
    }


def test_other_names_spellings_and_missing_fields_are_repaired_in_the_order_of_the_table() -> None:
    """The first of the other names that has a value is taken, and each assumption has a note."""
    data, notes = repaired(TASK, {"text": "Ship", "state": "Finished", "points": "3"})
    assert data == {"text": "Ship", "state": "done", "points": 3, "title": "Ship"}
    assert notes == [
        FormatNote(("title",), "is missing; taken from text"),
        FormatNote(("state",), "'Finished' is taken as done"),
        FormatNote(("points",), "is taken as the whole number 3"),
    ]
    assert repaired(TASK, {})[1] == [FormatNote(("title",), "is missing; taken as untitled")]


@pytest.mark.parametrize(("key", "value"), [("title", " "), ("state", "maybe"), ("points", -1)])
def test_unusable_value_is_kept_or_refused_as_the_table_declares(key: str, value: Json) -> None:
    """One table keeps what it cannot use next to its place, the other refuses the document and names the place."""
    document: Document = {"title": "Ship", key: value}
    data, notes = repaired(TASK, document)
    assert data[f"{key}_as_found"] == value
    assert notes[0].message.endswith(f"; kept as {key}_as_found")
    with pytest.raises(Invalid, match=rf"^\$\.{key} "):
        repaired(STRICT_TASK, document)


def test_function_that_answers_false_leaves_the_entry_out() -> None:
    """What follows it is not repaired, and the other entries stay."""
    kept = Object("task", "", TASK.fields, repairs=("title", lambda task: task.data["title"] != "drop", "state"))
    board = Object("board", "", (Field("tasks", Objects(kept)),))
    data, notes = repaired(board, {"tasks": [{"title": "drop", "state": "?"}, {"title": "keep"}]})
    assert data == {"tasks": [{"title": "keep"}]}
    assert notes == []


# ── craft ────────────────────────────────────────────────────────────────────────────────────────────────

# Fields that functions in the table repair.
REPAIRED_BY_FUNCTIONS = {"session": {"$schema", "schema_version"}, "agent": {"blocking_on"}}


def tables(table: Object) -> list[Object]:
    """The table and those of the objects inside it."""
    kinds = [field.kind for field in table.fields]
    return [table, *(inner for kind in kinds if isinstance(kind, (Nested, Objects)) for inner in tables(kind.table))]


@pytest.mark.parametrize("table", tables(TABLES["craft"]), ids=lambda table: table.name)
def test_every_field_of_craft_is_repaired_when_the_table_lists_repairs(table: Object) -> None:
    """A field that is added to a table, but not to its repairs, would be left as it is."""
    steps = [step for step in table.repairs if isinstance(step, (str, tuple))]
    named = {name for step in steps for name in ((step,) if isinstance(step, str) else step)}
    if table.repairs:
        assert named | REPAIRED_BY_FUNCTIONS.get(table.name, set()) == {field.name for field in table.fields}


def test_step_looks_up_other_names_before_anything_is_repaired() -> None:
    """Notes on other names come first where the table says so."""
    early = Object("task", "", TASK.fields, repairs=("state", "title"))
    assert [note.place for note in repaired(early, {"name": "x", "state": "DONE"})[1]] == [("state",), ("title",)]
    first = Object("task", "", TASK.fields, repairs=(adopt("title"), "state", "title"))
    assert [note.place for note in repaired(first, {"name": "x", "state": "DONE"})[1]] == [("title",), ("state",)]
