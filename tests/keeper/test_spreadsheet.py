"""Tables for a spreadsheet."""

from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from holdfast.keeper.spreadsheet import cell, csv_of
from holdfast.keeper.statistics import Line


@given(st.text(max_size=20))
def test_no_text_is_taken_for_a_formula(text: str) -> None:
    """What a cell holds begins with nothing that a spreadsheet would compute, and is otherwise as it was."""
    made = cell(text)
    assert made[:1] not in tuple("=+-@\t\r")
    assert made in (text, f"'{text}")


def test_numbers_stay_numbers() -> None:
    """One line for each, the columns named as in the JSON."""
    text = csv_of("scope", [Line(key="=1+1", sessions=2, elapsed_ms=30, working_ms=20, paused_ms=10), Line(key=None)])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows[0]["scope"] == "'=1+1"
    assert (rows[0]["working_ms"], rows[0]["paused_ms"], rows[0]["elapsed_ms"]) == ("20", "10", "30")
    assert rows[1]["scope"] == ""
