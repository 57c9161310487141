"""Decode the text in damaged bytes, and map every position back to its byte.

It handles byte order marks, UTF-16, zeros left by a crash, UTF-8 that was read as Latin-1 and written as UTF-8 again,
and a document stored as a JSON string. Each of these is noted.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import Final, NamedTuple

_MAX_WRAPPINGS: Final = 4
_UTF8: Final = codecs.getincrementaldecoder("utf-8")
_UTF16: Final = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_WITHIN_A_STRING: Final = re.compile(r'\s*"\s*(?:[{\[](?:\s|\\[nrt])*(?:\\"|\\\\|[{\[\]}0-9])|\\")')
_BODY: Final = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_ESCAPE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL
)
_NOT_ASCII: Final = re.compile("[^\x00-\x7f]")
# Bytes that are not UTF-8, as they appear in decoded text.
_FOREIGN: Final = "".join(map(chr, range(0xDC80, 0xDD00)))
_CONTROL: Final = re.compile("[\x80-\x9f]")

# Bytes as Windows-1252 shows them, where it differs from Latin-1.
_AS_SHOWN: Final = {
    byte: bytes([byte]).decode("cp1252") for byte in range(0x80, 0xA0) if byte not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}
_BACK: Final = {ord(shown): byte for byte, shown in _AS_SHOWN.items()}


class Layer(NamedTuple):
    """A text, a function from character to byte of the file, and notes on what was decoded."""

    text: str
    byte: Callable[[int], int]
    notes: tuple[str, ...] = ()


def unwrap(raw: bytes) -> Layer:
    """The intended text, as far as it can be known."""
    layer = _decoded(raw)
    for _ in range(_MAX_WRAPPINGS):
        inner = _without_mojibake(layer) or _out_of_string(layer)
        if inner is None:
            return layer
        layer = inner
    return layer


def is_mojibake(text: str) -> bool:
    """Does this text look like UTF-8 that was read as Latin-1?"""
    return _undo_mojibake(text) is not None


# ── bytes ────────────────────────────────────────────────────────────────────────────────────────────────


def _decoded(raw: bytes) -> Layer:
    notes: list[str] = []
    encoding, skip = _encoding(raw)
    if skip or encoding != "utf-8":
        notes.append("a byte order mark was ignored" if encoding == "utf-8" else "its text is UTF-16")
    width = 1 if encoding == "utf-8" else 2
    end = len(raw)
    if width == 1:
        end = len(raw.rstrip(b"\0"))
        if end < len(raw):
            notes.append(f"{len(raw) - end:,} zero bytes at its end were ignored")
    body = raw[skip:end]
    text = _decode_8_bit(body, notes) if width == 1 else body.decode(encoding, "replace").rstrip("\0")

    def byte(position: int) -> int:
        before = text[:position]
        if width == 2:
            return min(skip + len(before.encode(encoding, "replace")), len(raw))
        if "it is not UTF-8 and was read as Windows-1252" in notes:
            return skip + len(before)
        return skip + len(before.encode("utf-8", "surrogateescape"))

    return Layer(text, byte, tuple(notes))


def _encoding(raw: bytes) -> tuple[str, int]:
    if raw.startswith(codecs.BOM_UTF8):
        return "utf-8", 3
    for mark, name in _UTF16:
        if raw.startswith(mark):
            return name, 2
    head = raw[:64].rstrip(b"\0")
    if len(head) >= 8 and not any(head[1::2]) and all(head[::2]):
        return "utf-16-le", 0
    if len(head) >= 8 and not any(head[::2]) and all(head[1::2]):
        return "utf-16-be", 0
    return "utf-8", 0


def _decode_8_bit(body: bytes, notes: list[str]) -> str:
    text = body.decode("utf-8", "surrogateescape")
    ends = text.rstrip(_FOREIGN)
    if len(text) - len(ends) < 4:  # cut within its last character
        text = ends
    non_ascii = [char for char in _NOT_ASCII.findall(text) if char not in _FOREIGN]
    # If all other characters are single invalid bytes, another encoding was used.
    if not non_ascii and not text.isascii():
        notes.append("it is not UTF-8 and was read as Windows-1252")
        return body.decode("latin-1").translate(_AS_SHOWN)
    return text


# ── wrappings ────────────────────────────────────────────────────────────────────────────────────────────


def _undo_mojibake(text: str) -> tuple[str, int] | None:
    """The text whose UTF-8, read as Latin-1 or Windows-1252, gives this one; and how many times."""
    times = 0
    while not text.isascii() and times < _MAX_WRAPPINGS:
        try:
            # Incremental, since the text may be cut within its last character.
            text = _UTF8().decode(text.translate(_BACK).encode("latin-1"))
        except UnicodeError:
            break
        times += 1
    # A text that only looks like it gives control characters, which no text has.
    return None if not times or _CONTROL.search(text) else (text, times)


def _without_mojibake(outer: Layer) -> Layer | None:
    undone = _undo_mojibake(outer.text)
    if undone is None:
        return None
    text, times = undone

    def byte(position: int) -> int:
        before = text[:position]
        for _ in range(times):
            before = before.encode().decode("latin-1")
        return outer.byte(len(before))

    return Layer(text, byte, (*outer.notes, "its UTF-8 had been read as Latin-1 and was corrected"))


def _out_of_string(outer: Layer) -> Layer | None:
    if _WITHIN_A_STRING.match(outer.text) is None:
        return None
    from holdfast.formats.recovery.json_scalars import unescaped

    start = outer.text.index('"') + 1
    body_match = _BODY.match(outer.text, start)
    assert body_match is not None
    body = body_match[0]
    if outer.text[body_match.end() :].strip('" \t\r\n\\\0'):
        return None

    def byte(position: int) -> int:
        at = start
        for number, match in enumerate(_ESCAPE.finditer(body)):
            if number >= position:
                break
            at = start + match.end()
        return outer.byte(at)

    cut = () if body_match.end() < len(outer.text) else ("that string has no end",)
    return Layer(
        unescaped(body), byte, (*outer.notes, "the document was stored as a JSON string, and was unpacked", *cut)
    )
