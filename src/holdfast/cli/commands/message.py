"""`holdfast message`: a sign of activity. What was said is not kept."""

from __future__ import annotations

from holdfast.cli.call import Call


def run(call: Call) -> None:
    document = call.keeper.session().message(call.parsed.text("role") or "user", at=call.at)
    call.done(document, lambda _: "")
