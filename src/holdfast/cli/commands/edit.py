"""`holdfast edit`: change facts about the session."""

from __future__ import annotations

from holdfast.cli.call import Call


def run(call: Call) -> None:
    words = call.parsed
    session = call.keeper.session()
    session.edit(
        goal=words.text("goal"),
        mode=words.text("mode"),
        progress=words.number("progress"),
        scope=words.text("scope"),
        summary=words.text("summary"),
        tags=words.texts("tags"),
        at=call.at,
    )
    document = session.document(at=call.at)
    call.done(document, lambda paint: paint.join(paint.green("Changed "), paint.bold(session.id[:8])))
