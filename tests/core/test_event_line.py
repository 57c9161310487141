"""Events in a line, errors as documents: the words that every surface shares."""

from __future__ import annotations

from pathlib import Path

from holdfast import Keeper
from holdfast.core.errors import Refused
from holdfast.core.wording import describe_event, error_document


def test_event_is_described_on_one_line(tmp_path: Path) -> None:
    """What matters of it, on one line, numbers as people write them."""
    with Keeper.open(str(tmp_path), home=str(tmp_path / "home")) as keeper:
        session = keeper.start("Build\nthe shop")
        session.note("one\n\ttwo")
        session.edit(progress=0.5)
        session.hill("Checkout", 7)
        told = {event.type: describe_event(event) for event in keeper.events(session.id)}
    assert told["session.started"].startswith("Build the shop")
    assert told["note.added"] == "one two"
    assert told["session.edited"] == "50%"
    assert told["hill.moved"] == "Checkout  position 7"


def test_an_erased_event_says_so(tmp_path: Path) -> None:
    """Nothing is left of what it said, and that is what is told."""
    with Keeper.open(str(tmp_path), home=str(tmp_path / "home")) as keeper:
        session = keeper.start("Build the shop")
        keeper.delete(session.id, force=True)
        assert describe_event(keeper.events(session.id)[0]) == "(erased)"


def test_an_error_becomes_a_document() -> None:
    """Its own operation before the one that was asked for; what is not known is null."""
    error = Refused("no", hint="Ask again.", session="s")
    assert error_document(error, "note", 0) == {
        "kind": "refused", "message": "no", "hint": "Ask again.", "operation": "note", "file": None, "session": "s",
        "feature_id": None, "details": "no", "timestamp": "1970-01-01T00:00:00.000Z",
    }  # fmt: skip
    assert error_document(Refused("no", operation="own"), "note", 0)["operation"] == "own"
