"""`holdfast pause`: stop the clock until someone resumes."""

from __future__ import annotations

from holdfast.cli.call import Call


def run(call: Call) -> None:
    session = call.keeper.session()
    session.pause(call.parsed.text("reason"), at=call.at)
    document = session.document(at=call.at)
    call.done(
        document, lambda paint: paint.join(paint.yellow("Paused "), paint.bold(session.id[:8]), "  ", document.goal)
    )
