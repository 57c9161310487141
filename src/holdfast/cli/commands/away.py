"""`holdfast away|worked --from TIME --to TIME`: a pause nobody recorded at the time, and work counted as a pause."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.core.errors import NotFound
from holdfast.core.text import shorten
from holdfast.core.times import format_duration
from holdfast.keeper.session import SessionHandle


def run(call: Call) -> None:
    _correct(call, "away", "Away ")


def worked(call: Call) -> None:
    _correct(call, "worked", "Worked ")


def _correct(call: Call, which: str, word: str) -> None:
    words = call.parsed
    since, until = call.moment(words.need("since")), call.moment(words.need("until"))
    assert since is not None
    assert until is not None
    session = _session(call)
    correct = session.worked if which == "worked" else session.away
    correct(since, until, words.text("reason"), at=call.at)
    document = session.document(at=call.at)
    call.done(document, lambda paint: paint.join(paint.yellow(word), f"for {format_duration(until - since)}"))


def _session(call: Call) -> SessionHandle:
    """The one that is named, else the current one: which other one is meant, nobody guesses."""
    named = call.parsed.text("session")
    if named is not None:
        return call.keeper.session(named)
    found = call.keeper.current()
    if found is None:
        latest = call.keeper.latest()
        hint = "Name one: holdfast history lists them."
        if latest is not None:
            hint = f"For the latest one, {shorten(latest.document().goal, 60)}: --session {latest.id[:8]}"
        raise NotFound("there is no current session here", hint=hint)
    return found
