"""`holdfast away --from TIME --to TIME`: a pause nobody recorded at the time."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.core.times import span


def run(call: Call) -> None:
    words = call.parsed
    since, until = call.moment(words.need("since")), call.moment(words.need("until"))
    assert since is not None
    assert until is not None
    session = call.keeper.session()
    session.away(since, until, words.text("reason"), at=call.at)
    document = session.document(at=call.at)
    call.done(document, lambda paint: paint.join(paint.yellow("Away "), f"for {span(until - since)}"))
