"""`holdfast delete ID --confirm [--force]`: erase a session for good."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.core.errors import Refused
from holdfast.sessions.stop import needs_force


def run(call: Call) -> None:
    found = call.keeper.session(call.parsed.need("id"))
    force = call.parsed.flag("force")
    if not (call.parsed.flag("confirm") or call.parsed.globals.yes):
        unfinished = needs_force(call.keeper, found.state())
        goal = found.document().goal
        answer = call.ask(
            f"{goal!r} is unfinished ({found.document().status}). Erase it for good, as it is? Type yes:"
            if unfinished
            else f"Erase {goal!r} for good? Type yes:"
        )
        if answer != "yes":
            flags = "--confirm --force" if unfinished else "--confirm"
            raise Refused(
                "nothing was deleted", hint=f"Say it: holdfast delete {found.id[:8]} {flags}", session=found.id
            )
        force = True  # the question said that it is unfinished
    deleted = call.keeper.delete(found.id, force=force, at=call.at)
    call.answer({"deleted": deleted}, lambda paint: "" if call.quiet else paint.join("Erased ", deleted[:8]))
    call.tell_of_mirrors()
