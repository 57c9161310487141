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


_PASTE_START: Final = "\x1b[200~"
_PASTE_END: Final = "\x1b[201~"
_MAX_PASTE: Final = 2 * MAX_TEXT_LENGTH  # characters; line breaks may come as two
_SEQUENCE: Final = re.compile(r"\x1b(?:\[([0-?]{0,32}[ -/]{0,4}[@-~])|O([ -~])|([^\x1b\[O]))", re.DOTALL)
_PARTIAL: Final = re.compile(r"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}|O)?")
_PRINTABLE: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f]+")
_NAMES: Final = {
    "A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end", "M": "enter",
    "1~": "home", "7~": "home", "4~": "end", "8~": "end", "3~": "delete", "5~": "page up", "6~": "page down",
}  # fmt: skip
_CONTROLS: Final = {"\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\x08": "backspace"}


class KeyReader:
    """Reads on where the last bytes ended: a character or a sequence may come in pieces."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # What is not understood yet begins at `_position`: a long text is not copied for every key in it.
        self._pending, self._position = "", 0
        self._pasted: list[str] | None = None
        self._paste_length = 0

    @property
    def is_ambiguous(self) -> bool:
        """Whether more must come, or nothing for a moment, before it is known what was pressed."""
        return self._position < len(self._pending) and self._pasted is None

    def feed(self, data: bytes) -> list[KeyPress]:
        self._pending, self._position = self._pending[self._position :] + self._decoder.decode(data), 0
        keys: list[KeyPress] = []
        while self._position < len(self._pending):
            key = self._paste() if self._pasted is not None else self._next()
            if key is None:
                break
            if key.name:
                keys.append(key)
        return keys

    def settle_escape(self) -> list[KeyPress]:
        """Nothing came for a moment: what looks like the beginning of a sequence was the Escape key."""
        if not self.is_ambiguous:
            return []
        alone, self._pending, self._position = self._pending[self._position :] == "\x1b", "", 0
        return [KeyPress("escape")] if alone else []

    def _next(self) -> KeyPress | None:
        """The first key of what is left, one without a name for what means nothing; None: wait for more."""
        first = self._pending[self._position]
        if first != "\x1b":
            printable = _PRINTABLE.match(self._pending, self._position)
            if printable is not None:
                return self._advance(printable.end(), KeyPress("text", printable[0]))
            return self._advance(self._position + 1, _control(first))
        if self._pending.startswith(_PASTE_START, self._position):
            self._pasted, self._paste_length = [], 0
            return self._advance(self._position + len(_PASTE_START), KeyPress(""))
        sequence = _SEQUENCE.match(self._pending, self._position)
        if sequence is not None:
            return self._advance(sequence.end(), _named_key(sequence[1] or sequence[2]))
        partial = _PARTIAL.match(self._pending, self._position)
        assert partial is not None
        if partial.end() == len(self._pending):
            return None
        # A lone Escape before something else, or a sequence that no terminal sends.
        return self._advance(partial.end(), KeyPress("escape" if partial.end() == self._position + 1 else ""))

    def _paste(self) -> KeyPress | None:
        assert self._pasted is not None
        end = self._pending.find(_PASTE_END, self._position)
        # The end may have come in part.
        paste_end = end if end >= 0 else max(len(self._pending) - len(_PASTE_END) + 1, self._position)
        self._paste_length += paste_end - self._position
        if self._paste_length > _MAX_PASTE:
            self._pasted.clear()
        else:
            self._pasted.append(self._pending[self._position : paste_end])
        self._position = paste_end
        if end < 0:
            return None
        text, self._pasted = "".join(self._pasted), None
        return self._advance(
            end + len(_PASTE_END), KeyPress("flood") if self._paste_length > _MAX_PASTE else KeyPress("paste", text)
        )

    def _advance(self, end: int, key: KeyPress) -> KeyPress:
        self._position = end
        return key


def _control(char: str) -> KeyPress:
    if char in _CONTROLS:
        return KeyPress(_CONTROLS[char])
    return KeyPress(f"ctrl-{chr(ord(char) + 0x60)}") if "\x01" <= char <= "\x1a" else KeyPress("")


def _named_key(sequence: str | None) -> KeyPress:
    """`A`, `1;5A` (with a modifier) and `5~` by name; Alt with a key means nothing here."""
    if not sequence:
        return KeyPress("")
    kind = sequence[-1]
    if kind == "~":
        return KeyPress(_NAMES.get(sequence.split(";")[0].removesuffix("~") + "~", ""))
    return KeyPress(_NAMES.get(kind, ""))


_MAX_CLUSTER: Final = 256  # characters that are looked through for one that a person sees
_PER_CELL: Final = 16  # characters, at most, that something is looked for in to fill one cell
_CONTROL_CHARACTERS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]+")


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
            return EditedLine(before + _clean_paste(key.text), after)
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
            trimmed = before.rstrip()
            return EditedLine(trimmed[: len(trimmed) - len(trimmed.rsplit(None, 1)[-1])] if trimmed else "", after)
    return line


def visible_part(paint: Paint, line: EditedLine, cells: int) -> tuple[Painted, int]:
    """As much of the line around the cursor as fits, and the cell of the cursor."""
    max_chars = _PER_CELL * max(cells, 1)
    before, after = str(paint.plain(line.before[-max_chars:])), str(paint.plain(line.after[:max_chars]))
    room = max(cells - 1, 0)
    width = paint.width_of(Painted(before))
    if width > room or len(line.before) > max_chars:
        ellipsis = "<" if paint.ascii_only else "…"
        pieces = list(clusters(before))
        first = 0
        while first < len(pieces) and width > room - 1:
            width -= pieces[first][1]
            first += 1
        before = head(ellipsis, room) + "".join(piece for piece, _ in pieces[first:])
        width = paint.width_of(Painted(before))
    return Painted(before + head(after, max(cells - width, 0))), width


def _clean_paste(pasted: str) -> str:
    """Line breaks of one kind, and nothing that only a terminal would understand."""
    text = pasted.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL_CHARACTERS.sub("", text)


def _last(text: str) -> str:
    return list(clusters(text[-_MAX_CLUSTER:]))[-1][0]


def _first(text: str) -> str:
    return next(clusters(text[:_MAX_CLUSTER]))[0]
