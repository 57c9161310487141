"""A fault of ours: the person gets one sentence, the details go to Holdfast's own error log."""

from __future__ import annotations

import os
import traceback

from holdfast import __version__
from holdfast.cli.call import Call
from holdfast.core.errors import Failed, HoldfastError
from holdfast.core.times import text
from holdfast.machine import files
from holdfast.machine.wall import Wall


def unexpected(error: Exception, call: Call | None) -> HoldfastError:
    if isinstance(error, MemoryError):
        return Failed("out of memory; nothing was changed")
    if isinstance(error, OSError):
        return files.explain(error, "go on", str(error.filename or ""))
    if isinstance(error, RecursionError):
        return Failed("the input is nested too deeply")
    kept = _keep(error, call)
    return Failed(
        f"something unexpected happened ({type(error).__name__})",
        hint=f"Details are in {kept}: please report them." if kept else "Please report it.",
    )


def _keep(error: Exception, call: Call | None) -> str | None:
    """Where and what kind, without the message: that may hold somebody's text."""
    try:
        home = call.keeper.home.path if call is not None else None
        if home is None or not os.path.isdir(home):
            return None
        frames = traceback.extract_tb(error.__traceback__)
        about = f"{text(Wall().now())} holdfast {__version__} {' '.join(call.parsed.path) if call else ''}"
        lines = [about] + [
            f"{type(error).__name__} in {os.path.basename(f.filename)}:{f.lineno} {f.name}" for f in frames[-8:]
        ]
        path = os.path.join(home, "errors.log")
        descriptor = files.open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(descriptor, ("\n".join(lines) + "\n\n").encode())
        finally:
            os.close(descriptor)
    except Exception:  # noqa: BLE001 (reporting a fault must not be another one)
        return None
    return path
