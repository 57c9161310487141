"""Print errors: a sentence for people on stderr, a JSON document for programs; unexpected ones go to the error
log.
"""

from __future__ import annotations

import os
import sys
import traceback

from holdfast import __version__
from holdfast.cli.call import VERSION, Call, encode, write_output
from holdfast.cli.paint import Paint, paint_for
from holdfast.core.errors import Failed, HoldfastError
from holdfast.core.times import format_time
from holdfast.machine import files
from holdfast.machine.wall import Wall


def unexpected(error: Exception, call: Call | None) -> HoldfastError:
    if isinstance(error, MemoryError):
        return Failed("out of memory; nothing was changed")
    if isinstance(error, OSError):
        return files.explain(error, "continue", str(error.filename or ""))
    if isinstance(error, RecursionError):
        return Failed("the input is nested too deeply")
    log = _log_unexpected(error, call)
    return Failed(
        f"something unexpected happened ({type(error).__name__})",
        hint=f"Details are in {log}: please report them." if log else "Please report it.",
    )


def _log_unexpected(error: Exception, call: Call | None) -> str | None:
    """Log where it happened and its type, without the message, which may contain text of the person."""
    try:
        home = call.keeper.home.path if call is not None else None
        if home is None or not os.path.isdir(home):
            return None
        frames = traceback.extract_tb(error.__traceback__)
        about = f"{format_time(Wall().now())} holdfast {__version__} {' '.join(call.parsed.path) if call else ''}"
        lines = [about] + [
            f"{type(error).__name__} in {os.path.basename(frame.filename)}:{frame.lineno} {frame.name}"
            for frame in frames[-8:]
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


def report_error(error: HoldfastError, call: Call | None, *, json: bool) -> None:
    if json:
        document = encode_lossy({"holdfast": VERSION, "error": error_json(error, call)})
        if "run" in (_operation(call), error.operation):  # whose standard output is the command's alone
            sys.stderr.write(document)
        else:
            write_output(document)
        return
    paint = _paint(call)
    sys.stderr.write(str(paint.join(paint.red("holdfast:"), " ", paint.plain(error.message))) + "\n")
    if error.file and error.file not in error.message:
        sys.stderr.write(str(paint.join("  ", paint.dim("in "), paint.plain(error.file))) + "\n")
    if error.hint:
        for line in str(paint.plain(error.hint, lines=True)).splitlines():
            sys.stderr.write(f"  {line}\n")


def error_json(error: HoldfastError, call: Call | None) -> dict[str, object]:
    from holdfast.core.wording import error_document
    from holdfast.workspace.unit import name_feature

    if call is not None and error.session is not None:
        name_feature(call.keeper, error)
    return error_document(error, _operation(call), Wall().now())


def encode_lossy(document: dict[str, object]) -> str:
    """Bytes that are no UTF-8 (a file name, say) must not stop the report of an error."""
    try:
        return encode(document)
    except UnicodeEncodeError:
        import json

        return json.dumps(document, ensure_ascii=True) + "\n"


def _operation(call: Call | None) -> str | None:
    return None if call is None or not call.parsed.path else " ".join(call.parsed.path)


def _paint(call: Call | None) -> Paint:
    import os

    no_color = call is not None and call.parsed.globals.no_color
    return paint_for(sys.stderr, no_color=no_color, environ=os.environ)
