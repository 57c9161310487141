"""The keyboard: from the bytes a terminal sends to keys, and from keys to a line of text being written. Pure."""

from __future__ import annotations

import codecs
import re
from typing import Final, NamedTuple

from holdfast.cli.cells import clusters, head
from holdfast.cli.paint import Paint, Painted
from holdfast.core.text import MAX_TEXT_LENGTH


class KeyPress(NamedTuple):
    """A key by its name; what was written is `text`, what was pasted `paste`, both with what it is.

    `flood` is a paste that is too long: nothing of it is kept.
    """

    name: str
    text: str = ""


_PASTE: Final = "\x1b[200~"
_PASTED: Final = "\x1b[201~"
_FLOOD: Final = 2 * MAX_TEXT_LENGTH  # characters; line breaks may come as two
_SEQUENCE: Final = re.compile(r"\x1b(?:\[([0-?]{0,32}[ -/]{0,4}[@-~])|O([ -~])|([^\x1b\[O]))", re.DOTALL)
_BEGUN: Final = re.compile(r"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}|O)?")
_WRITTEN: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f]+")
_NAMES: Final = {
    "A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end", "M": "enter",
    "1~": "home", "7~": "home", "4~": "end", "8~": "end", "3~": "delete", "5~": "page up", "6~": "page down",
}  # fmt: skip
_CONTROLS: Final = {"\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\x08": "backspace"}


class KeyReader:
    """Reads on where the last bytes ended: a character or a sequence may come in pieces."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # What is not understood yet begins at `_at`: a long text is not copied for every key in it.
        self._rest, self._at = "", 0
        self._pasted: list[str] | None = None
        self._long = 0

    @property
    def unsettled(self) -> bool:
        """Whether more must come, or nothing for a moment, before it is known what was pressed."""
        return self._at < len(self._rest) and self._pasted is None

    def feed(self, data: bytes) -> list[KeyPress]:
        self._rest, self._at = self._rest[self._at :] + self._decoder.decode(data), 0
        keys: list[KeyPress] = []
        while self._at < len(self._rest):
            key = self._paste() if self._pasted is not None else self._next()
            if key is None:
                break
            if key.name:
                keys.append(key)
        return keys

    def settle(self) -> list[KeyPress]:
        """Nothing came for a moment: what looks like the beginning of a sequence was the Escape key."""
        if not self.unsettled:
            return []
        alone, self._rest, self._at = self._rest[self._at :] == "\x1b", "", 0
        return [KeyPress("escape")] if alone else []

    def _next(self) -> KeyPress | None:
        """The first key of what is left, one without a name for what means nothing; None: wait for more."""
        first = self._rest[self._at]
        if first != "\x1b":
            written = _WRITTEN.match(self._rest, self._at)
            if written is not None:
                return self._take(written.end(), KeyPress("text", written[0]))
            return self._take(self._at + 1, _control(first))
        if self._rest.startswith(_PASTE, self._at):
            self._pasted, self._long = [], 0
            return self._take(self._at + len(_PASTE), KeyPress(""))
        sequence = _SEQUENCE.match(self._rest, self._at)
        if sequence is not None:
            return self._take(sequence.end(), _named(sequence[1] or sequence[2]))
        begun = _BEGUN.match(self._rest, self._at)
        assert begun is not None
        if begun.end() == len(self._rest):
            return None
        # A lone Escape before something else, or a sequence that no terminal sends.
        return self._take(begun.end(), KeyPress("escape" if begun.end() == self._at + 1 else ""))

    def _paste(self) -> KeyPress | None:
        assert self._pasted is not None
        end = self._rest.find(_PASTED, self._at)
        # The end may have come in part.
        whole = end if end >= 0 else max(len(self._rest) - len(_PASTED) + 1, self._at)
        self._long += whole - self._at
        if self._long > _FLOOD:
            self._pasted.clear()
        else:
            self._pasted.append(self._rest[self._at : whole])
        self._at = whole
        if end < 0:
            return None
        text, self._pasted = "".join(self._pasted), None
        return self._take(end + len(_PASTED), KeyPress("flood") if self._long > _FLOOD else KeyPress("paste", text))

    def _take(self, end: int, key: KeyPress) -> KeyPress:
        self._at = end
        return key


def _control(char: str) -> KeyPress:
    if char in _CONTROLS:
        return KeyPress(_CONTROLS[char])
    return KeyPress(f"ctrl-{chr(ord(char) + 0x60)}") if "\x01" <= char <= "\x1a" else KeyPress("")


def _named(sequence: str | None) -> KeyPress:
    """`A`, `1;5A` (with a modifier) and `5~` by name; Alt with a key means nothing here."""
    if not sequence:
        return KeyPress("")
    kind = sequence[-1]
    if kind == "~":
        return KeyPress(_NAMES.get(sequence.split(";")[0].removesuffix("~") + "~", ""))
    return KeyPress(_NAMES.get(kind, ""))


_REACH: Final = 256  # characters that are looked through for one that a person sees
_PER_CELL: Final = 16  # characters, at most, that something is looked for in to fill one cell
_STEERING: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]+")


class EditedLine(NamedTuple):
    """The text before the cursor, and the text after it."""

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
    """As much of the line around the cursor as fits, and the cell of the cursor."""
    near = _PER_CELL * max(cells, 1)
    before, after = str(paint.plain(line.before[-near:])), str(paint.plain(line.after[:near]))
    room = max(cells - 1, 0)
    wide = paint.width_of(Painted(before))
    if wide > room or len(line.before) > near:
        more = "<" if paint.ascii_only else "…"
        pieces = list(clusters(before))
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
    return list(clusters(text[-_REACH:]))[-1][0]


def _first(text: str) -> str:
    return next(clusters(text[:_REACH]))[0]
