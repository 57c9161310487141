"""`holdfast note TEXT`: write something down."""

from __future__ import annotations

from holdfast.cli.call import Call


def run(call: Call) -> None:
    document = call.keeper.session().note(call.parsed.need("text"), at=call.at)
    call.done(document, lambda paint: paint.join(paint.green("Noted "), paint.cut(document.notes[-1].text, 60)))
