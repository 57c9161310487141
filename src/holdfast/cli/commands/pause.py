"""`holdfast pause`: stop the clock until someone resumes.

In a terminal, of everything that is open in the work tree: a person who leaves leaves all of it.
"""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.paint import Paint, Painted
from holdfast.core import view


def run(call: Call) -> None:
    session, reason = call.keeper.session(), call.parsed.text("reason")
    others = [
        other
        for other in (call.keeper.open_sessions() if call.keeper.conversation is None else ())
        if other.id != session.id
        and view.status_of(other.state()) == "in_progress"
        and not call.keeper.is_read_only(other.id)
    ]
    if not others or view.status_of(session.state()) == "in_progress":
        session.pause(reason, at=call.at)
    for other in others:
        other.pause(reason, at=call.at)
    document = session.document(at=call.at)
    paused = [document, *(other.document(at=call.at) for other in others)]

    def shown(paint: Paint) -> Painted:
        lines = [
            paint.join(paint.yellow("Paused "), paint.bold(session.id[:8]), "  ", session.goal) for session in paused
        ]
        return Painted("\n".join(lines))

    call.done(document, shown, **({"others": paused[1:]} if others else {}))
