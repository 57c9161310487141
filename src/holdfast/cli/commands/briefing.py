"""`holdfast briefing`: the text that lets a person or an agent go on."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.core.errors import Invalid


def run(call: Call) -> None:
    words = call.parsed
    session = call.session_to_read()
    longest = words.integer("max_chars")
    if longest is not None and longest < 200:
        raise Invalid("a briefing needs at least 200 characters")
    reader = words.text("reader") or "person"
    text = session.briefing(reader=reader, max_chars=longest or 10_000, at=call.at)
    call.answer({"briefing": text, "for": reader, "id": session.id}, lambda paint: paint.plain(text, lines=True))
