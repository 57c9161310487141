"""`holdfast compress`: record that the context was compressed."""

from __future__ import annotations

from holdfast.cli.call import Call


def run(call: Call) -> None:
    document = call.keeper.session().compress(call.parsed.integer("to"), at=call.at)
    call.done(document, lambda paint: paint.plain(f"Compressed, {document.context.compressions} time(s) so far"))
