"""`holdfast compress`: record that the context was compressed."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.core.wording import count


def run(call: Call) -> None:
    session = call.keeper.session()
    session.compress(call.parsed.integer("to"), at=call.at)
    document = session.document(at=call.at)
    call.done(
        document, lambda paint: paint.plain(f"Compressed, {count(document.context.compressions, 'time')} so far")
    )
