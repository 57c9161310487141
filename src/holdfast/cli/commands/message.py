"""`holdfast message`: a sign of activity. What was said is not kept."""

from __future__ import annotations

from holdfast.cli.call import Call


def run(call: Call) -> None:
    session = call.keeper.session()
    session.message(call.parsed.text("role") or "user", at=call.at)
    document = session.document(at=call.at)
    call.done(document, lambda _: "")
