"""`holdfast decide CHOSEN`: record a decision."""

from __future__ import annotations

from holdfast.cli.call import Call


def run(call: Call) -> None:
    words = call.parsed
    session = call.keeper.session()
    session.decide(
        words.need("chosen"),
        context=words.text("context"),
        options=words.texts("options"),
        why=words.text("why"),
        at=call.at,
    )
    document = session.document(at=call.at)
    made = document.decisions[-1]
    call.done(document, lambda paint: paint.join(paint.green("Decided "), paint.bold(made.chosen)), decision=made)
