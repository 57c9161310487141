"""The text in damaged bytes: whatever it was wrapped in is taken off, and every position leads back to its byte.

Byte order marks, UTF-16, zeros that a crash left, UTF-8 that was read as Latin-1 and written as UTF-8 again, a
document stored as a JSON string within a document. Each wrapping taken off is told.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import Final, NamedTuple

_MOST_WRAPPINGS: Final = 4
_UTF8: Final = codecs.getincrementaldecoder("utf-8")
_UTF16: Final = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_WITHIN_A_STRING: Final = re.compile(r'\s*"\s*(?:[{\[](?:\s|\\[nrt])*(?:\\"|\\\\|[{\[\]}0-9])|\\")')
_BODY: Final = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_ESCAPE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL
)
_NOT_ASCII: Final = re.compile("[^\x00-\x7f]")
# Bytes that are no UTF-8, as they stand in decoded text.
_FOREIGN: Final = "".join(map(chr, range(0xDC80, 0xDD00)))
_CONTROL: Final = re.compile("[\x80-\x9f]")

# Bytes as a Windows program shows them: where it has a character of its own, and Latin-1 elsewhere.
_AS_SHOWN: Final = {
    byte: bytes([byte]).decode("cp1252") for byte in range(0x80, 0xA0) if byte not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}
_BACK: Final = {ord(shown): byte for byte, shown in _AS_SHOWN.items()}


class Layer(NamedTuple):
    """A text, the byte in the file at which a character of it begins, and what was taken off to get here."""

    text: str
    byte: Callable[[int], int]
    told: tuple[str, ...] = ()


def unwrapped(raw: bytes) -> Layer:
    """The text as it was meant, as far as that can be known."""
    layer = _decoded(raw)
    for _ in range(_MOST_WRAPPINGS):
        inner = _read_wrongly(layer) or _within_a_string(layer)
        if inner is None:
            return layer
        layer = inner
    return layer


def is_read_wrongly(text: str) -> bool:
    """Does this text look as if its UTF-8 had been taken for Latin-1?"""
    return _mended(text) is not None


# ── bytes ────────────────────────────────────────────────────────────────────────────────────────────────


def _decoded(raw: bytes) -> Layer:
    told: list[str] = []
    encoding, skip = _encoding(raw)
    if skip or encoding != "utf-8":
        told.append("a byte order mark was ignored" if encoding == "utf-8" else "its text is UTF-16")
    width = 1 if encoding == "utf-8" else 2
    end = len(raw)
    if width == 1:
        end = len(raw.rstrip(b"\0"))
        if end < len(raw):
            told.append(f"{len(raw) - end:,} zero bytes at its end were ignored")
    body = raw[skip:end]
    text = _plain(body, told) if width == 1 else body.decode(encoding, "replace").rstrip("\0")

    def byte(position: int) -> int:
        before = text[:position]
        if width == 2:
            return min(skip + len(before.encode(encoding, "replace")), len(raw))
        if "it is not UTF-8 and was read as Windows-1252" in told:
            return skip + len(before)
        return skip + len(before.encode("utf-8", "surrogateescape"))

    return Layer(text, byte, tuple(told))


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


def _plain(body: bytes, told: list[str]) -> str:
    text = body.decode("utf-8", "surrogateescape")
    ends = text.rstrip(_FOREIGN)
    if len(text) - len(ends) < 4:  # cut within its last character
        text = ends
    strange = [char for char in _NOT_ASCII.findall(text) if char not in _FOREIGN]
    # Where nothing but single foreign bytes stand, in the midst of things, another encoding was used.
    if not strange and not text.isascii():
        told.append("it is not UTF-8 and was read as Windows-1252")
        return body.decode("latin-1").translate(_AS_SHOWN)
    return text


# ── wrappings ────────────────────────────────────────────────────────────────────────────────────────────


def _mended(text: str) -> tuple[str, int] | None:
    """The text whose UTF-8 was shown as Latin-1 or Windows-1252 to give this one, and how many times over."""
    times = 0
    while not text.isascii() and times < _MOST_WRAPPINGS:
        try:
            # Cut within its last character, it is still the same text.
            text = _UTF8().decode(text.translate(_BACK).encode("latin-1"))
        except UnicodeError:
            break
        times += 1
    # A text that only happens to look so gives control characters, which nobody writes.
    return None if not times or _CONTROL.search(text) else (text, times)


def _read_wrongly(outer: Layer) -> Layer | None:
    found = _mended(outer.text)
    if found is None:
        return None
    mended, times = found

    def byte(position: int) -> int:
        before = mended[:position]
        for _ in range(times):
            before = before.encode().decode("latin-1")
        return outer.byte(len(before))

    return Layer(mended, byte, (*outer.told, "its UTF-8 had been taken for Latin-1, and was put right"))


def _within_a_string(outer: Layer) -> Layer | None:
    if _WITHIN_A_STRING.match(outer.text) is None:
        return None
    from holdfast.formats.recovery.json_scalars import unescaped

    start = outer.text.index('"') + 1
    found = _BODY.match(outer.text, start)
    assert found is not None
    body = found[0]
    if outer.text[found.end() :].strip('" \t\r\n\\\0'):
        return None

    def byte(position: int) -> int:
        at = start
        for number, match in enumerate(_ESCAPE.finditer(body)):
            if number >= position:
                break
            at = start + match.end()
        return outer.byte(at)

    cut = () if found.end() < len(outer.text) else ("that string has no end",)
    return Layer(
        unescaped(body), byte, (*outer.told, "the document was stored as a JSON string, and was unpacked", *cut)
    )
