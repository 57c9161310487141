"""Tables for a spreadsheet: numbers as numbers, and no text that it would take for a formula."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.wording import one_line
from holdfast.sessions.hours.table import AgentLine, Line

_FORMULA = tuple("=+-@")


def csv_of(by: str, lines: Sequence[Line] | Sequence[AgentLine], kind: type[Line | AgentLine] = Line) -> str:
    """The lines of a table of hours; the first column is what they are by."""
    import csv
    import io

    text = io.StringIO()
    fields = [name for name in kind.__struct_fields__ if name != "key"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([by, *fields])
    for line in lines:
        values = [getattr(line, name) for name in fields]
        writer.writerow([cell(line.key), *(cell(" ".join(v)) if isinstance(v, list) else v for v in values)])
    return text.getvalue()


def cell(value: str | None) -> str:
    """A text on one line, which no spreadsheet takes for a formula and no terminal for a command."""
    text = one_line(value or "")
    return f"'{text}" if text[:1] in _FORMULA else text
