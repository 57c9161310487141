"""`holdfast context --tokens N`: record how full the context is."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.paint import Paint, Painted
from holdfast.core.model import Context


def run(call: Call) -> None:
    words = call.parsed
    session = call.keeper.session()
    session.measure_context(
        words.integer("tokens") or 0, window=words.integer("window"), agent=words.text("agent"), at=call.at
    )
    document = session.document(at=call.at)
    call.done(document, lambda paint: _shown(paint, document.context))
    if document.context.level == "compress":
        call.note("The context is nearly full: compress now.")


def _shown(paint: Paint, context: Context) -> Painted:
    percent = context.percent or 0
    bar = paint.bar(percent / 100, 20, context.level) if paint.tty else ""
    return paint.join(bar, " " if bar else "", f"{context.tokens or 0:,} of {context.window:,} tokens ({percent:g}%)")
