"""Print which sessions a copy, a backup or a restore left out, and why."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from holdfast.cli.call import Call
from holdfast.cli.paint import terminal
from holdfast.core.errors import HoldfastError
from holdfast.core.wording import one_line
from holdfast.store.interface import NotCopied


def documents(left: Sequence[NotCopied]) -> list[dict[str, str]]:
    return [{"session": rest.session, "reason": rest.reason} for rest in left]


def end(call: Call, left: Sequence[NotCopied], error: HoldfastError | None) -> int:
    """A line for each, with `--quiet` too; then the error, of which a JSON document has told already."""
    if error is None:
        return 0
    if call.json:
        return error.exit_code
    paint = terminal(sys.stderr, no_color=call.parsed.globals.no_color, environ=call.environ)
    for rest in left:
        goal = f"  {one_line(rest.goal)}" if rest.goal else ""
        line = paint.join(paint.yellow("left out "), paint.plain(f"{rest.session}{goal}: {one_line(rest.reason)}"))
        sys.stderr.write(f"{line}\n")
    raise error
