"""`holdfast archive ID`, `holdfast unarchive ID`: put a session away, take it out again."""

from __future__ import annotations

from holdfast.cli.call import Call


def run(call: Call) -> None:
    found = call.keeper.archive(call.parsed.need("id"), at=call.at)
    call.done(found.document(), lambda paint: paint.join("Archived ", paint.bold(found.id[:8])))


def unarchive(call: Call) -> None:
    found = call.keeper.unarchive(call.parsed.need("id"), at=call.at)
    call.done(found.document(), lambda paint: paint.join("Taken out ", paint.bold(found.id[:8])))
