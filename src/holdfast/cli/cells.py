"""Text in terminal cells: made harmless, measured, cut and wrapped.

What Holdfast shows was often written by a model, a web page or an unknown person. `safe` turns everything that
could move the cursor, hide or reorder text into a visible escape. `unicodedata` is imported only when a
text needs it: loading it costs more than the rest of this module.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN = "\u0300"  # below it every printable character is one cell and combines with nothing
_JOINERS = "\u200c\u200d"
_EMOJI_STYLE = "\ufe0f"  # "show as emoji": makes a narrow character wide
_NAMED_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
# Letters and marks by category, nothing to the eye: Hangul fillers, Khmer vowels, Mongolian selectors.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0\ufffe\uffff")
_MARKS_IN_A_ROW = 4  # more than any living script stacks; beyond it lies text that climbs over its neighbours


def safe(text: str, *, lines: bool = False) -> str:
    """The text with everything that is not plainly visible spelled out; line breaks and tabs stay if `lines`.

    Doing it twice changes nothing. Right-to-left scripts, emoji and combining accents stay as they are.
    """
    if text.isprintable() and _is_plain(text):
        return text
    if lines:
        text = text.replace("\r\n", "\n")
        return "".join(part if part in "\n\t" else safe(part) for part in _split_at_breaks(text))
    from unicodedata import category

    parts: list[str] = []
    marks = 0
    base = ""  # the visible character that marks and joiners would attach to
    for index, char in enumerate(text):
        if char < _PLAIN:
            hidden, mark = not (char.isprintable() or char == "\xa0"), False
        elif char in _JOINERS:
            after = text[index + 1 : index + 2]
            needed = _can_be_joined(base) and _can_be_joined(after) and parts[-1] not in _JOINERS
            # One mark fewer than allowed: what follows may be a mark too, and must not lose its joiner.
            hidden, mark = not needed or marks >= _MARKS_IN_A_ROW - 1, True
        else:
            kind = category(char)
            mark = kind in ("Mn", "Me")
            hidden = (
                kind in ("Cc", "Cf", "Cs", "Zl", "Zp") or char in _INVISIBLE or "\U000e0000" <= char < "\U000e0100"
            )
            hidden = hidden or (mark and (not base or marks >= _MARKS_IN_A_ROW))
        parts.append(escaped(char) if hidden else char)
        if hidden:
            base, marks = "", 0
        elif mark:
            marks += 1
        else:
            base, marks = ("" if char.isspace() else char), 0
    return "".join(parts)


def escaped(char: str) -> str:
    r"""`\x1b`, `\u202e`, `\U000e0041`; `\n`, `\r`, `\t` by the names everyone knows."""
    if char in _NAMED_ESCAPES:
        return _NAMED_ESCAPES[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _can_be_joined(char: str) -> bool:
    """A joiner has work between letters of the scripts that need it and between emoji, and nowhere else."""
    return char >= _PLAIN and char.isprintable() and char not in _INVISIBLE


def _is_plain(text: str) -> bool:
    return text.isascii() or max(text) < _PLAIN


def _split_at_breaks(text: str) -> list[str]:
    """The text in pieces, line breaks and tabs as pieces of their own."""
    pieces: list[str] = []
    start = 0
    for index, char in enumerate(text):
        if char in "\n\t":
            pieces += [text[start:index], char]
            start = index + 1
    return [piece for piece in [*pieces, text[start:]] if piece]


def clusters(text: str) -> Iterator[tuple[str, int]]:
    """The text in pieces that must not be separated, each with its width in cells."""
    if _is_plain(text):
        yield from ((char, 1) for char in text)
        return
    from unicodedata import category, east_asian_width

    piece: list[str] = []
    cells = 0
    for char in text:
        if cells and (
            char == _EMOJI_STYLE or (cells == 2 and _is_skin_tone(char)) or _continues_emoji(piece[-1], char)
        ):
            # Terminals that know emoji sequences draw them as one picture, two cells wide.
            cells = 2
        elif char < _PLAIN or not (category(char) in ("Mn", "Me", "Cf") or "\u1160" <= char <= "\u11ff"):
            if piece:
                yield "".join(piece), cells
            piece, cells = [], 2 if char >= _PLAIN and east_asian_width(char) in "WF" else 1
        piece.append(char)
    if piece:
        yield "".join(piece), cells


def _is_skin_tone(char: str) -> bool:
    return "\U0001f3fb" <= char <= "\U0001f3ff"


def _continues_emoji(before: str, char: str) -> bool:
    return before == "\u200d" and ("\u2190" <= char <= "\u2bff" or char >= "\U0001f000")


def width_of(text: str) -> int:
    """How many cells a safe text takes."""
    return len(text) if _is_plain(text) else sum(cells for _, cells in clusters(text))


def head(text: str, cells: int) -> str:
    """As much of the beginning as fits."""
    if _is_plain(text):
        return text[: max(cells, 0)]
    fitting: list[str] = []
    for piece, width in clusters(text):
        cells -= width
        if cells < 0:
            break
        fitting.append(piece)
    return "".join(fitting)


def cut(text: str, cells: int, ellipsis: str = "…") -> str:
    """The text itself if it fits, else its beginning and an ellipsis; never wider than `cells`."""
    if width_of(text) <= cells:
        return text
    ellipsis = head(ellipsis, cells)
    return head(text, cells - width_of(ellipsis)) + ellipsis


def wrap(text: str, cells: int, *, whole: bool = False) -> list[str]:
    """Lines of at most `cells` (at least 2, the width of one wide character), broken at blanks if possible.

    A line that fits stays as written, so what was aligned by hand stays aligned; tabs become four blanks. `whole`: a
    word that does not fit is on a separate line. The terminal breaks it, and it can be copied in one piece.
    """
    cells = max(cells, 2)
    lines: list[str] = []
    for paragraph in text.replace("\t", "    ").split("\n"):
        if width_of(paragraph) <= cells:
            lines.append(paragraph)
            continue
        line = ""
        for word in paragraph.split():
            candidate = f"{line} {word}" if line else word
            if width_of(candidate) <= cells:
                line = candidate
                continue
            if line:
                lines.append(line)
            line = word
            if not whole and width_of(word) > cells:
                *full, line = _break_word(word, cells)
                lines += full
        if line:
            lines.append(line)
    return lines


def _break_word(word: str, cells: int) -> list[str]:
    """A word that does not fit, in lines."""
    lines = [""]
    room = cells
    for piece, width in clusters(word):
        if width > room:
            lines.append("")
            room = cells
        lines[-1] += piece
        room -= width
    return lines
