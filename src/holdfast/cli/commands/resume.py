"""`holdfast resume`, `holdfast continue`: go on with a session, here."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.core.errors import NotFound
from holdfast.keeper.session import KeptSession


def run(call: Call) -> None:
    reference = call.parsed.text("id")
    if reference is None:
        _go_on(call, call.keeper.current() or _latest(call))
    else:
        _go_on(call, call.keeper.session(reference))


def latest(call: Call) -> None:
    _go_on(call, _latest(call))


def _latest(call: Call) -> KeptSession:
    found = call.keeper.latest_unfinished()
    if found is None:
        raise NotFound("there is no unfinished session here", hint="Start one: holdfast start GOAL")
    return found


def _go_on(call: Call, session: KeptSession) -> None:
    device = call.parsed.text("device") if call.parsed.path[0] == "resume" else None
    if device is not None and device not in session.document().devices:
        raise NotFound(f"no device called {device[:60]!a} has worked on this session", session=session.id)
    resumed = session.resume(
        force=call.parsed.flag("force") if call.parsed.path[0] == "resume" else False, at=call.at
    )
    document = session.document(at=call.at)
    text = session.briefing(reader="person", at=call.at)
    more = {
        "interrupted": [one.id for one in resumed.interrupted],
        "unknown": [one.id for one in resumed.unknown],
        "files": [{"path": one.path, "action": one.action, "agent": one.agent, "state": one.what}
                  for one in resumed.files],
    }  # fmt: skip
    call.done(document, lambda paint: paint.plain(text, lines=True), **more)
