"""Check and shorten text and names, and split text into the words that a search finds.

A search word is a run of letters and digits, compared without case and accents; in scripts without spaces between
words, every character is a word. A session matches when each word of the query is a word of its text; the last word
may be unfinished. Every store searches by these rules. Results come newest first: by creation, then by id.
"""

from __future__ import annotations

import re
import unicodedata

from holdfast.core.errors import Invalid

MAX_TEXT_LENGTH = 1 << 20  # characters; a note is not a file
MAX_NAME_LENGTH = 200
MAX_PATH_LENGTH = 4096
MAX_WORD_LENGTH = 40
MAX_WORDS = 2_000  # of one text: the rest of a pasted log is not searchable

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")
_RAW_CONTROL = re.compile(b"\xc2[\x80-\x9f]|\x7f")  # in UTF-8
_NOT_SLUG = re.compile(r"[^a-z0-9]+")

# Compiled on first use: showing a session should not spend time on search patterns.
_ASCII_WORD = r"[a-z0-9]+"
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_ANY_WORD = rf"(?!_)(?:[{_UNSPACED}](?<=\w)|[^\W_{_UNSPACED}]+)"


def check_text(value: str, subject: str, *, max_length: int = MAX_TEXT_LENGTH, empty: bool = False) -> str:
    """`value` itself if it can be stored and shown as text; otherwise raise `Invalid`."""
    if not empty and not value.strip():
        raise Invalid(f"{subject} is empty")
    if len(value) > max_length:
        raise Invalid(f"{subject} is {len(value):,} characters long", hint=f"The limit is {max_length:,} characters.")
    if not value.isascii() and _SURROGATE.search(value):
        raise Invalid(f"{subject} is not valid UTF-8", hint="It contains a byte that is not part of any character.")
    if "\0" in value:
        raise Invalid(f"{subject} contains a NUL character")
    return value


def check_identifier(value: str, subject: str) -> str:
    """`value` itself if it has only characters allowed in ids: it cannot be a path or hide text on a screen."""
    if not _ID.match(value):
        shown = value if len(value) <= 40 else value[:39] + "…"
        raise Invalid(
            f"{shown!a} cannot be {subject}",
            hint="Use 1 to 100 letters, digits, '.', '_' or '-', not beginning with a dot or dash.",
        )
    return value


def check_relative_path(value: str) -> str:
    """A path inside the project, with forward slashes; raise `Invalid` for one that leads outside."""
    check_text(value, "the path", max_length=MAX_PATH_LENGTH)
    if any(unicodedata.category(character) == "Cc" for character in value):
        raise Invalid("the path contains control characters")
    parts = value.replace("\\", "/").split("/")
    normalized = "/".join(part for part in parts if part not in ("", "."))
    if not parts[0] or ".." in parts or normalized.startswith("~") or re.match(r"[A-Za-z]:", normalized):
        raise Invalid(f"{value[:80]!a} is outside the project", hint="Give the path relative to the project.")
    if not normalized.strip():
        raise Invalid(f"{value[:80]!a} names no file")
    return normalized


def slug(value: str, words: int = 4) -> str:
    """Lower-case ASCII words joined by dashes: `Add OAuth 2.0!` gives `add-oauth-2-0`."""
    plain = unicodedata.normalize("NFKD", value).encode("ascii", "ignore").decode().lower()
    parts = [part for part in _NOT_SLUG.split(plain) if part]
    return "-".join(parts[:words])[:60].strip("-") or "session"


def shorten(value: str, max_length: int) -> str:
    """One line of at most `max_length` characters."""
    line = " ".join(value.split())
    return line if len(line) <= max_length else line[: max_length - 1].rstrip() + "…"


def escaped_json(data: bytes) -> bytes:
    """The same JSON with control characters escaped: encoders leave some raw, and none may reach a terminal."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return _RAW_CONTROL.sub(lambda match: f"\\u{match[0][-1]:04x}".encode(), data)


def printable(value: str) -> str:
    """A name that others chose, on one line, without anything that moves a cursor or hides."""
    return "".join(character if character.isprintable() else "?" for character in value)


def split_words(text: str) -> list[str]:
    """The distinct search words of a text, in order of first appearance."""
    if text.isascii():
        words = re.findall(_ASCII_WORD, text.lower())
    else:
        decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
        plain = "".join(character for character in decomposed if not unicodedata.combining(character))
        words = re.findall(_ANY_WORD, plain)
    return list(dict.fromkeys(word[:MAX_WORD_LENGTH] for word in words))[:MAX_WORDS]


def parse_query(text: str) -> tuple[list[str], str]:
    """The whole words that must match, and the beginning of one more (empty when the query has no word)."""
    words = split_words(text)
    if not words:
        return [], ""
    return words[:-1], words[-1]
