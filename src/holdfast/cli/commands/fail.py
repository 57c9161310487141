"""`holdfast fail`: say that the session cannot go on."""

from __future__ import annotations

from holdfast.cli.call import Call


def run(call: Call) -> None:
    session = call.keeper.session()
    session.fail(call.parsed.need("message"), at=call.at)
    document = session.document(at=call.at)
    call.done(
        document, lambda paint: paint.join(paint.red("Failed "), paint.bold(session.id[:8]), "  ", document.goal)
    )
