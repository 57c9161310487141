"""Saying what went wrong: to a person on stderr, to a program as one JSON document (of `run`, on stderr too)."""

from __future__ import annotations

import sys

from holdfast.cli.call import VERSION, Call, encode, put
from holdfast.cli.paint import Paint, terminal
from holdfast.core.errors import HoldfastError
from holdfast.machine.wall import Wall


def say_error(error: HoldfastError, call: Call | None, *, json: bool) -> None:
    if json:
        document = legible({"holdfast": VERSION, "error": told(error, call)})
        if "run" in (_operation(call), error.operation):  # whose standard output is the command's alone
            sys.stderr.write(document)
        else:
            put(document)
        return
    paint = _paint(call)
    sys.stderr.write(str(paint.join(paint.red("holdfast:"), " ", paint.plain(error.message))) + "\n")
    if error.file and error.file not in error.message:
        sys.stderr.write(str(paint.join("  ", paint.dim("in "), paint.plain(error.file))) + "\n")
    if error.hint:
        for line in str(paint.plain(error.hint, lines=True)).splitlines():
            sys.stderr.write(f"  {line}\n")


def told(error: HoldfastError, call: Call | None) -> dict[str, object]:
    from holdfast.keeper.telling import error_document, name_feature

    if call is not None and error.session is not None:
        name_feature(call.keeper, error)
    return error_document(error, _operation(call), Wall().now())


def legible(document: dict[str, object]) -> str:
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
    return terminal(sys.stderr, no_color=no_color, environ=os.environ)
