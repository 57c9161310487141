"""`holdfast hill SCOPE POSITION`: move a scope on its hill."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.core.secrets.patterns import redact


def run(call: Call) -> None:
    words = call.parsed
    position = words.integer("position") or 0
    session = call.keeper.session()
    session.hill(words.need("scope"), position, at=call.at)
    document = session.document(at=call.at)
    scope = redact(words.need("scope")).text  # as it was stored
    call.done(document, lambda paint: paint.join(paint.bold(scope), f"  {position} of 10"))
