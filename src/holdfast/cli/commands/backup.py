"""`holdfast backup FILE`, `holdfast restore FILE`: a complete copy, and uniting with one."""

from __future__ import annotations

import os

from holdfast.cli import left_out
from holdfast.cli.call import Call
from holdfast.core.text import shorten
from holdfast.core.wording import count
from holdfast.keeper import store_admin
from holdfast.keeper.restore import DISPLACES, ERASES, SPEAKS


def run(call: Call) -> int:
    path = os.path.abspath(call.parsed.need("file"))
    left = call.keeper.backup(path)
    size = os.path.getsize(path)
    error = store_admin.incomplete(left, "backed up", "make another backup", file=path)
    call.answer(
        {"file": path, "bytes": size, "left_out": left_out.documents(left)},
        lambda paint: "" if call.quiet else paint.join(paint.green("Backed up "), f"to {path} ({size:,} bytes)"),
        error=error,
    )
    return left_out.end(call, left, error)


def restore(call: Call) -> int:
    path = os.path.abspath(call.parsed.need("file"))
    done = call.keeper.restore(path, erase=call.parsed.globals.yes)
    erasing = [copied for copied in done.left_out if copied.reason in (ERASES, DISPLACES, SPEAKS)]
    if erasing:
        named = ", ".join(f"{copied.session[:8]} ({shorten(copied.goal or '', 60)})" for copied in erasing)
        question = (
            f"The backup deletes, erases or displaces something in {named}, or speaks for your devices. "
            "Do that here, too? Type yes:"
        )
        if call.ask(question) == "yes":
            more = call.keeper.restore(path, erase=True)
            done = more._replace(events=done.events + more.events)
        else:
            call.note("To obey the backup in this: the same command with --yes")
    error = store_admin.incomplete(done.left_out, "restored", "run the same command again", file=path)
    call.answer(
        {"file": path, "restored": done.events, "left_out": left_out.documents(done.left_out)},
        lambda paint: "" if call.quiet else paint.join(paint.green("Restored "), count(done.events, "event")),
        error=error,
    )
    return left_out.end(call, done.left_out, error)
