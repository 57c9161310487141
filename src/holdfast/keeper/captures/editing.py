"""The kinds of shared files, and who knows how to change each: JSON with comments, and TOML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

import msgspec

from holdfast.capture import jsonedit, jsonremoval, jsontree, tomledit
from holdfast.capture.jsonedit import Path, Receipt
from holdfast.capture.wiring import Entry

Ours = Callable[[str], bool]


class Editing(Protocol):
    """How entries get into one kind of file, and out of it again."""

    def plain(self, text: str, file: str) -> object:
        """What stands in it, as data; None for nothing."""

    def texts(self, text: str, file: str) -> Iterator[str]:
        """The texts in it among which one of ours may be."""

    def insert(self, text: str, entries: Iterable[Entry], file: str) -> tuple[str, Receipt]:
        """The text with these entries, and what has to be known to take them out again."""

    def remove(self, text: str, ours: Ours, receipt: Receipt | None, file: str, *, whole: Iterable[Path] = ()) -> str:
        """The text without what is ours."""


class _Json:
    texts = staticmethod(jsonremoval.texts)
    insert = staticmethod(jsonedit.insert)
    remove = staticmethod(jsonremoval.remove)

    @staticmethod
    def plain(text: str, file: str) -> object:
        try:
            return msgspec.json.decode(text)  # much quicker, where nothing but JSON stands there
        except (msgspec.DecodeError, RecursionError):
            document = jsontree.Document(text, file)
        return None if document.root is None else document.plain(document.root)


class _Toml:
    plain = staticmethod(tomledit.plain)
    texts = staticmethod(tomledit.texts)
    insert = staticmethod(tomledit.insert)
    remove = staticmethod(tomledit.remove)


_JSON: Final[Editing] = _Json()
_TOML: Final[Editing] = _Toml()
_TOML_ENDING: Final = ".toml"


def editing(path: str) -> Editing:
    """Whoever knows the kind of this file."""
    return _TOML if path.endswith(_TOML_ENDING) else _JSON


def decoded(data: bytes, path: str) -> str:
    """The text of a shared file, from which exactly these bytes can be had again."""
    return jsontree.decoded(data, path, kind="TOML" if path.endswith(_TOML_ENDING) else "JSON")
