"""`holdfast backup FILE`, `holdfast restore FILE`: a complete copy, and uniting with one."""

from __future__ import annotations

import os

from holdfast.cli.call import Call
from holdfast.keeper.wording import count


def run(call: Call) -> None:
    path = os.path.abspath(call.parsed.need("file"))
    call.keeper.backup(path)
    size = os.path.getsize(path)
    call.answer(
        {"file": path, "bytes": size},
        lambda paint: "" if call.quiet else paint.join(paint.green("Backed up "), f"to {path} ({size:,} bytes)"),
    )


def restore(call: Call) -> None:
    path = os.path.abspath(call.parsed.need("file"))
    new = call.keeper.restore(path)
    call.answer(
        {"file": path, "restored": new},
        lambda paint: "" if call.quiet else paint.join(paint.green("Restored "), count(new, "event")),
    )
