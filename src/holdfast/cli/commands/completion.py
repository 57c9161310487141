"""`holdfast completion SHELL`: the script that completes commands, verbs and options."""

from __future__ import annotations

from holdfast.cli.call import Call, put
from holdfast.cli.completion import script
from holdfast.cli.table import COMMANDS


def run(call: Call) -> None:
    shell = call.parsed.need("shell")
    text = script(shell, COMMANDS)
    if call.json:
        call.answer({"shell": shell, "script": text}, lambda _: "")
    else:
        put(text)
