"""Saying which sessions a copy, a backup or a restore had to leave out, and why."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from holdfast.cli.call import Call
from holdfast.cli.paint import terminal
from holdfast.core.errors import HoldfastError
from holdfast.keeper.wording import one_line
from holdfast.store.interface import LeftOut


def documents(left: Sequence[LeftOut]) -> list[dict[str, str]]:
    return [{"session": one.session, "reason": one.reason} for one in left]


def end(call: Call, left: Sequence[LeftOut], error: HoldfastError | None) -> int:
    """A line for each, with `--quiet` too; then the error, of which a JSON document has told already."""
    if error is None:
        return 0
    if call.json:
        return error.exit_code
    paint = terminal(sys.stderr, no_color=call.parsed.globals.no_color, environ=call.environ)
    for one in left:
        goal = f"  {one_line(one.goal)}" if one.goal else ""
        line = paint.join(paint.yellow("left out "), paint.plain(f"{one.session}{goal}: {one_line(one.reason)}"))
        sys.stderr.write(f"{line}\n")
    raise error
