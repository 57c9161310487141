"""Extras: parts that not everybody needs, and how to get one that is missing."""

from __future__ import annotations

from holdfast.core.errors import Failed


def install_command(extra: str) -> str:
    """How it is installed: into what is installed already, or together with it from a clone."""
    return f"pip install 'holdfast[{extra}]' (from a clone: pip install '.[{extra}]')"


def missing_extra(what: str, extra: str, *, otherwise: str = "", operation: str | None = None) -> Failed:
    """That something cannot be done without it; `otherwise`: what else could be done."""
    instead = f", or {otherwise}" if otherwise else ""
    return Failed(
        f"{what} an extra that is not installed: holdfast[{extra}]",
        hint=f"Install it: {install_command(extra)}{instead}",
        operation=operation,
    )
