"""`holdfast resolve CONFLICT --take N [ID]`: let one of the values stand."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.commands.conflicts import spelled
from holdfast.sessions.conflicts import worked_on


def run(call: Call) -> None:
    words = call.parsed
    session = call.keeper.session(worked_on(call.keeper, words.text("id")))
    take = words.integer("take") or 0
    conflict = session.resolve(words.need("conflict"), take, at=call.at)
    call.done(
        session.document(at=call.at),
        lambda paint: paint.cut(
            paint.join(
                paint.green("Settled "), paint.bold(conflict.id), f"  {conflict.field}: ",
                spelled(conflict.values[take - 1].value),
            ),
            paint.width,
        ),
        conflict=conflict,
    )  # fmt: skip
