"""`holdfast context --tokens N`: record how full the context is."""

from __future__ import annotations

from holdfast.cli.call import Call


def run(call: Call) -> None:
    words = call.parsed
    session = call.keeper.session()
    session.measure_context(
        words.integer("tokens") or 0, window=words.integer("window"), agent=words.text("agent"), at=call.at
    )
    document = session.document(at=call.at)
    _tell(call, document)


def _tell(call: Call, document: object) -> None:
    from holdfast.core.model import Session

    assert isinstance(document, Session)
    context = document.context
    call.done(document, lambda paint: paint.join(
        paint.bar((context.percent or 0) / 100, 20, context.level), f" {context.percent or 0:g} %",
    ))  # fmt: skip
    if context.level == "compress":
        call.note("The context is nearly full: compress now.")
