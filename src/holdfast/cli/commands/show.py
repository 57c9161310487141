"""`holdfast show`: everything about a session."""

from __future__ import annotations

from holdfast.cli.agent_dirs import places
from holdfast.cli.call import Call
from holdfast.cli.clock import Clock


def run(call: Call) -> None:
    at = call.at
    call.keeper.agent_dirs = places(call)
    call.keeper.compare()
    session = call.session_to_read()
    document = session.document(at=at)
    clock = Clock(call.keeper.now() if at is None else at)

    from holdfast.cli.session_view import whole
    from holdfast.core.device_names import with_device_labels

    shown = with_device_labels(document, session.state(at=at), session.guests())
    call.answer({"session": document}, lambda paint: whole(paint, shown, clock, session.other_names()))
