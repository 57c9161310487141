r"""One line of text being written: what keys do to it, and how it is shown. Pure.

The cursor moves over what a person sees as one character. A line break that was pasted is kept, and shown as `\n`.
However long the line is, only what is near the cursor is looked at: somebody may paste a whole file.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from holdfast.cli.cells import clusters, head
from holdfast.cli.paint import Paint, Painted
from holdfast.cli.watch.keys import KeyPress

_REACH: Final = 256  # characters that are looked through for one that a person sees
_PER_CELL: Final = 16  # characters, at most, that something is looked for in to fill one cell
_STEERING: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]+")


class EditedLine(NamedTuple):
    """What stands before the cursor, and behind it."""

    before: str = ""
    after: str = ""

    @property
    def text(self) -> str:
        return self.before + self.after

    @property
    def length(self) -> int:
        return len(self.before) + len(self.after)


def edit(line: EditedLine, key: KeyPress) -> EditedLine:
    """The line after a key; keys that mean nothing here change nothing."""
    before, after = line
    match key.name:
        case "text":
            return EditedLine(before + key.text, after)
        case "paste":
            return EditedLine(before + _tidy(key.text), after)
        case "backspace" if before:
            return EditedLine(before[: -len(_last(before))], after)
        case "delete" if after:
            return EditedLine(before, after[len(_first(after)) :])
        case "left" if before:
            moved = _last(before)
            return EditedLine(before[: -len(moved)], moved + after)
        case "right" if after:
            moved = _first(after)
            return EditedLine(before + moved, after[len(moved) :])
        case "home" | "ctrl-a":
            return EditedLine("", line.text)
        case "end" | "ctrl-e":
            return EditedLine(line.text, "")
        case "ctrl-u":
            return EditedLine("", after)
        case "ctrl-k":
            return EditedLine(before, "")
        case "ctrl-w":
            kept = before.rstrip()
            return EditedLine(kept[: len(kept) - len(kept.rsplit(None, 1)[-1])] if kept else "", after)
    return line


def shown(paint: Paint, line: EditedLine, cells: int) -> tuple[Painted, int]:
    """As much of the line around the cursor as fits, and the cell the cursor stands in."""
    near = _PER_CELL * max(cells, 1)
    before, after = str(paint.plain(line.before[-near:])), str(paint.plain(line.after[:near]))
    room = max(cells - 1, 0)
    wide = paint.width_of(Painted(before))
    if wide > room or len(line.before) > near:
        more = "<" if paint.ascii_only else "…"
        pieces = clusters(before)
        first = 0
        while first < len(pieces) and wide > room - 1:
            wide -= pieces[first][1]
            first += 1
        before = head(more, room) + "".join(piece for piece, _ in pieces[first:])
        wide = paint.width_of(Painted(before))
    return Painted(before + head(after, max(cells - wide, 0))), wide


def _tidy(pasted: str) -> str:
    """Line breaks of one kind, and nothing that only a terminal would understand."""
    text = pasted.replace("\r\n", "\n").replace("\r", "\n")
    return _STEERING.sub("", text)


def _last(text: str) -> str:
    return clusters(text[-_REACH:])[-1][0]


def _first(text: str) -> str:
    return clusters(text[:_REACH])[0][0]
