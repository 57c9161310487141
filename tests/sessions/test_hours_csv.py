"""Tables for spreadsheets."""

from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from holdfast.sessions.hours.table import Line, cell, csv_of


@given(st.text(max_size=20))
def test_cell_text_is_neither_a_formula_nor_a_terminal_command(text: str) -> None:
    made = cell(text)
    assert made[:1] not in tuple("=+-@\t\r")
    assert all(char.isprintable() or char in "\u200c\u200d" for char in made)
    if text.isascii() and text.isprintable():
        assert made.removeprefix("'") in (" ".join(text.split()), " ".join(text.split()).removeprefix("'"))


def test_cells_hold_no_control_sequences() -> None:
    assert not set(cell("a\x1b]0;x\x07\x9b31m\u202e\r\nb")) & set("\x1b\x07\x9b\u202e\r\n")


def test_csv_has_one_line_each_with_plain_numbers() -> None:
    """Columns are named as in the JSON."""
    text = csv_of("scope", [Line(key="=1+1", sessions=2, elapsed_ms=30, working_ms=20, paused_ms=10), Line(key=None)])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows[0]["scope"] == "'=1+1"
    assert (rows[0]["working_ms"], rows[0]["paused_ms"], rows[0]["elapsed_ms"]) == ("20", "10", "30")
    assert rows[1]["scope"] == ""
