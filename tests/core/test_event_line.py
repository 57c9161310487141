"""Events as lines and errors as documents, worded alike on every surface."""

from __future__ import annotations

from pathlib import Path

from holdfast import Keeper
from holdfast.core.errors import Refused
from holdfast.core.wording import describe_event, error_document


def test_event_is_described_on_one_line(tmp_path: Path) -> None:
    """Line breaks become spaces, and numbers are formatted for people."""
    with Keeper.open(str(tmp_path), home=str(tmp_path / "home")) as keeper:
        session = keeper.start("Build\nthe shop")
        session.note("one\n\ttwo")
        session.edit(progress=0.5)
        session.hill("Checkout", 7)
        lines = {event.type: describe_event(event) for event in keeper.events(session.id)}
    assert lines["session.started"].startswith("Build the shop")
    assert lines["note.added"] == "one two"
    assert lines["session.edited"] == "50%"
    assert lines["hill.moved"] == "Checkout  position 7"


def test_erased_event_is_described_as_erased(tmp_path: Path) -> None:
    with Keeper.open(str(tmp_path), home=str(tmp_path / "home")) as keeper:
        session = keeper.start("Build the shop")
        keeper.delete(session.id, force=True)
        assert describe_event(keeper.events(session.id)[0]) == "(erased)"


def test_error_document_has_the_errors_own_operation_first() -> None:
    """It outranks the operation that was asked for; unknown fields are null."""
    error = Refused("no", hint="Ask again.", session="s")
    assert error_document(error, "note", 0) == {
        "kind": "refused", "message": "no", "hint": "Ask again.", "operation": "note", "file": None, "session": "s",
        "feature_id": None, "details": "no", "timestamp": "1970-01-01T00:00:00.000Z",
    }  # fmt: skip
    assert error_document(Refused("no", operation="own"), "note", 0)["operation"] == "own"
