"""The registry of formats, each loaded on demand. A new one needs a package next to this module and a line here."""

from __future__ import annotations

from importlib import import_module

from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.formats.base import Format

NAMES = ("orchestrator", "timer", "contract", "craft")

_loaded: dict[str, Format] = {}


def format_named(name: str) -> Format:
    """The format of this name."""
    if name not in NAMES:
        raise Invalid(f"there is no format {shorten(name, 40)!a}", hint=f"Formats are {', '.join(NAMES)}.")
    if name not in _loaded:
        loaded = import_module(f"holdfast.formats.{name}").FORMAT
        assert isinstance(loaded, Format)
        _loaded[name] = loaded
    return _loaded[name]
