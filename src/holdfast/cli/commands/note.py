"""`holdfast note TEXT`: write something down."""

from __future__ import annotations

from holdfast.cli.call import Call


def run(call: Call) -> None:
    session = call.keeper.session()
    session.note(call.parsed.need("text"), at=call.at)
    document = session.document(at=call.at)
    call.done(document, lambda paint: paint.join(paint.green("Noted "), paint.cut(document.notes[-1].text, 60)))
