"""`holdfast log`: the events of a session, oldest first."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.cli.call import Call
from holdfast.cli.clock import stamp
from holdfast.cli.paint import Column, Paint, Painted
from holdfast.core.envelope import Event, event_document
from holdfast.core.errors import Invalid
from holdfast.core.event_line import describe_event

_LONGEST = 2_000


def run(call: Call) -> None:
    words = call.parsed
    limit = words.integer("limit")
    if limit is not None and limit < 1:
        raise Invalid("the limit must be at least 1")
    session = call.session_to_read()
    at, kind = call.at, words.text("type")
    session.state(at=at)  # a session that is erased, or had not begun, is not found
    events = [
        event
        for event in call.keeper.events(session.id)
        if (kind is None or event.type == kind) and (at is None or event.at <= at)
    ]
    if limit is not None:
        events = events[-limit:]
    document = {"events": [event_document(event) for event in events]} if call.json else {}
    call.answer(document, lambda paint: _table(paint, events) if events else paint.plain("No such events."))


def _table(paint: Paint, events: Sequence[Event]) -> Painted:
    titles = ("When", "Event", "By", "What") if paint.tty else ("", "", "", "")
    if not paint.tty:  # whoever filters lines wants them whole, and nothing but them
        paint = Paint(_LONGEST, paint.colour, ascii_only=paint.ascii_only)
    columns = [
        Column(titles[0], style="dim"), Column(titles[1]), Column(titles[2], weight=1, most=16),
        Column(titles[3], weight=6),
    ]  # fmt: skip
    rows: list[list[str]] = [[stamp(event.at), event.type, event.actor, describe_event(event)] for event in events]
    if len({event.actor for event in events}) == 1:
        del columns[2]
        for row in rows:
            del row[2]
    return paint.table(rows, columns)
