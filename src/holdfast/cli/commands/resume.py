"""`holdfast resume`, `holdfast continue`: go on with a session, here."""

from __future__ import annotations

import os

from holdfast.cli.call import Call
from holdfast.cli.places import places
from holdfast.core.errors import NotFound
from holdfast.keeper.session import KeptSession


def run(call: Call) -> None:
    if not call.parsed.flag("no_sync"):
        _sync_first(call)
    reference, device = call.parsed.text("id"), call.parsed.text("device")
    if reference is not None:
        session = call.keeper.session(reference)
    elif device is not None:
        session = _left_by(call, device)
    else:
        session = call.keeper.current() or _latest(call)
    _go_on(call, session, device=device, force=call.parsed.flag("force"))


def latest(call: Call) -> None:
    _sync_first(call)
    _go_on(call, _latest(call))


def _sync_first(call: Call) -> None:
    """Hear what other devices did, where there is a remote to ask; without one, nothing of it is loaded."""
    if os.path.lexists(call.keeper.home.remotes):
        from holdfast.keeper.teleports.catching_up import catch_up

        for sentence in catch_up(call.keeper):
            call.note(sentence)


def _latest(call: Call) -> KeptSession:
    found = call.keeper.latest_unfinished()
    if found is None:
        raise NotFound("there is no unfinished session here", hint="Start one: holdfast start GOAL")
    return found


def _left_by(call: Call, device: str) -> KeptSession:
    from holdfast.keeper.finding import unfinished_by

    found = unfinished_by(call.keeper, device)
    if found is None:
        raise NotFound(
            f"no device called {device[:60]!a} has worked on an unfinished session of this project",
            hint="holdfast history shows the sessions; --all-projects those of other projects.",
        )
    return call.keeper.session(found)


def _go_on(call: Call, session: KeptSession, *, device: str | None = None, force: bool = False) -> None:
    call.keeper.places = places(call)
    resumed = session.resume(device=device, force=force, at=call.at)
    document = session.document(at=call.at)
    text = session.briefing(reader="person", at=call.at)
    more = {
        "interrupted": [one.id for one in resumed.interrupted],
        "unknown": [one.id for one in resumed.unknown],
        "files": [{"path": one.path, "action": one.action, "agent": one.agent, "state": one.what}
                  for one in resumed.files],
        "ground": [one._asdict() for one in resumed.ground],
    }  # fmt: skip
    call.done(document, lambda paint: paint.plain(text, lines=True), **more)
    for one in resumed.ground:
        call.note(f"The ground differs, {one.detail}." + (f"\n  {one.fix}" if one.fix else ""))
