"""Text and names as they come in: what is allowed, how long, and how they are shortened."""

from __future__ import annotations

import re
import unicodedata

from holdfast.core.errors import Invalid

MAX_TEXT_LENGTH = 1 << 20  # characters; a note is not a file
MAX_NAME_LENGTH = 200
MAX_PATH_LENGTH = 4096

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")
_RAW_CONTROL = re.compile(b"\xc2[\x80-\x9f]|\x7f")  # in UTF-8
_NOT_SLUG = re.compile(r"[^a-z0-9]+")


def check_text(value: str, what: str, *, max_length: int = MAX_TEXT_LENGTH, empty: bool = False) -> str:
    """`value` itself if it can be stored and shown as text; otherwise an `Invalid` that says why."""
    if not empty and not value.strip():
        raise Invalid(f"{what} is empty")
    if len(value) > max_length:
        raise Invalid(f"{what} is {len(value):,} characters long", hint=f"The limit is {max_length:,} characters.")
    if not value.isascii() and _SURROGATE.search(value):
        raise Invalid(f"{what} is not valid UTF-8", hint="A byte in it stands for no character.")
    if "\0" in value:
        raise Invalid(f"{what} holds a NUL character")
    return value


def check_identifier(value: str, what: str) -> str:
    """The closed alphabet of agent and task ids: nothing that could name a path or hide on a screen."""
    if not _ID.match(value):
        shown = value if len(value) <= 40 else value[:39] + "…"
        raise Invalid(
            f"{shown!a} cannot be {what}",
            hint="Use 1 to 100 letters, digits, '.', '_' or '-', not beginning with a dot or dash.",
        )
    return value


def check_relative_path(value: str) -> str:
    """A path inside the project, with forward slashes; anything that points elsewhere is refused."""
    check_text(value, "the path", max_length=MAX_PATH_LENGTH)
    if any(unicodedata.category(character) == "Cc" for character in value):
        raise Invalid("the path holds control characters")
    parts = value.replace("\\", "/").split("/")
    tidy = "/".join(part for part in parts if part not in ("", "."))
    if not parts[0] or ".." in parts or tidy.startswith("~") or re.match(r"[A-Za-z]:", tidy):
        raise Invalid(f"{value[:80]!a} is outside the project", hint="Give the path relative to the project.")
    if not tidy.strip():
        raise Invalid(f"{value[:80]!a} names no file")
    return tidy


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
    """The same JSON, in which no terminal finds a control character: encoders leave some as they are."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return _RAW_CONTROL.sub(lambda found: f"\\u{found[0][-1]:04x}".encode(), data)


def printable(value: str) -> str:
    """What a stranger calls something, on one line: nothing in it moves a cursor, or hides."""
    return "".join(name if name.isprintable() else "?" for name in value)
