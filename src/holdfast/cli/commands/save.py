"""`holdfast save`: mark that everything is saved (it always is)."""

from __future__ import annotations

from holdfast.cli.call import Call


def run(call: Call) -> None:
    session = call.keeper.session()
    session.save(at=call.at)
    document = session.document(at=call.at)
    call.done(
        document, lambda paint: paint.join(paint.green("Saved "), paint.bold(session.id[:8]), "  ", document.goal)
    )
