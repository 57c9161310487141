"""`holdfast hill SCOPE POSITION`: move a scope on its hill."""

from __future__ import annotations

from holdfast.cli.call import Call


def run(call: Call) -> None:
    words = call.parsed
    position = words.integer("position") or 0
    session = call.keeper.session()
    session.hill(words.need("scope"), position, at=call.at)
    document = session.document(at=call.at)
    call.done(document, lambda paint: paint.join(paint.bold(words.need("scope")), f"  {position} of 10"))
