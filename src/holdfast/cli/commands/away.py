"""`holdfast away|worked --from TIME --to TIME`: a pause nobody recorded at the time, and work counted as a pause."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.core.times import span


def run(call: Call) -> None:
    _correct(call, "away", "Away ")


def worked(call: Call) -> None:
    _correct(call, "worked", "Worked ")


def _correct(call: Call, which: str, word: str) -> None:
    words = call.parsed
    since, until = call.moment(words.need("since")), call.moment(words.need("until"))
    assert since is not None
    assert until is not None
    session = call.keeper.session(words.text("session") or "@")
    correct = session.worked if which == "worked" else session.away
    correct(since, until, words.text("reason"), at=call.at)
    document = session.document(at=call.at)
    call.done(document, lambda paint: paint.join(paint.yellow(word), f"for {span(until - since)}"))
