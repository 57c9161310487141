"""`holdfast abort`: give the session up."""

from __future__ import annotations

from holdfast.cli.call import Call


def run(call: Call) -> None:
    session = call.keeper.session()
    session.abort(call.parsed.text("reason"), at=call.at)
    document = session.document(at=call.at)
    call.done(
        document, lambda paint: paint.join(paint.red("Aborted "), paint.bold(session.id[:8]), "  ", document.goal)
    )
