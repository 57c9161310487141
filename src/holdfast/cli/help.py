"""`--help` and `--version`."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.table import COMMANDS


def show(call: Call) -> int:
    if call.parsed.globals.version:
        from holdfast import __version__

        call.answer({"version": __version__}, lambda paint: paint.plain(f"holdfast {__version__}"))
        return 0
    from holdfast.cli.helptext import help_text

    text = help_text(COMMANDS, call.parsed.path, call.paint)
    call.answer({"help": str(help_text(COMMANDS, call.parsed.path))}, lambda _: text)
    return 0
