"""The kinds of shared files, and who knows how to change each: JSON with comments, and TOML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

import msgspec

from holdfast.conversations.adapters import json_tree
from holdfast.conversations.connect import json_edit, toml_edit
from holdfast.conversations.connect.json_edit import EditReceipt, Path
from holdfast.conversations.connect.wiring import SettingsEntry

Ours = Callable[[str], bool]


class Editing(Protocol):
    """How entries get into one kind of file, and out of it again."""

    def plain(self, text: str, file: str) -> object:
        """What stands in it, as data; None for nothing."""

    def texts(self, text: str, file: str) -> Iterator[str]:
        """The texts in it among which one of ours may be."""

    def insert(self, text: str, entries: Iterable[SettingsEntry], file: str) -> tuple[str, EditReceipt]:
        """The text with these entries, and what has to be known to take them out again."""

    def remove(
        self, text: str, ours: Ours, receipt: EditReceipt | None, file: str, *, whole: Iterable[Path] = ()
    ) -> str:
        """The text without what is ours."""


class _Json:
    texts = staticmethod(json_edit.texts)
    insert = staticmethod(json_edit.insert)
    remove = staticmethod(json_edit.remove)

    @staticmethod
    def plain(text: str, file: str) -> object:
        try:
            return msgspec.json.decode(text)  # much quicker, where nothing but JSON stands there
        except (msgspec.DecodeError, RecursionError):
            document = json_tree.JsonText(text, file)
        return None if document.root is None else document.plain(document.root)


class _Toml:
    plain = staticmethod(toml_edit.plain)
    texts = staticmethod(toml_edit.texts)
    insert = staticmethod(toml_edit.insert)
    remove = staticmethod(toml_edit.remove)


_JSON: Final[Editing] = _Json()
_TOML: Final[Editing] = _Toml()
_TOML_ENDING: Final = ".toml"


def editing(path: str) -> Editing:
    """Whoever knows the kind of this file."""
    return _TOML if path.endswith(_TOML_ENDING) else _JSON


def decoded(data: bytes, path: str) -> str:
    """The text of a shared file, from which exactly these bytes can be had again."""
    return json_tree.decoded(data, path, kind="TOML" if path.endswith(_TOML_ENDING) else "JSON")
