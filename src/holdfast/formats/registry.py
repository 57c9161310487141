"""The formats there are, each loaded when it is asked for. A new one is a package beside this and a line here."""

from __future__ import annotations

from importlib import import_module

from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.formats.base import Format

NAMES = ("orchestrator", "timer", "contract", "craft")

_loaded: dict[str, Format] = {}


def named(name: str) -> Format:
    """The format of this name."""
    if name not in NAMES:
        raise Invalid(f"there is no format {shorten(name, 40)!a}", hint=f"Formats are {', '.join(NAMES)}.")
    if name not in _loaded:
        found = import_module(f"holdfast.formats.{name}").FORMAT
        assert isinstance(found, Format)
        _loaded[name] = found
    return _loaded[name]


def every() -> list[Format]:
    return [named(name) for name in NAMES]
