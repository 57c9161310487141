"""`holdfast delete ID --confirm`: erase a session for good."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.core.errors import Refused


def run(call: Call) -> None:
    reference = call.parsed.need("id")
    found = call.keeper.session(reference)
    if not (call.parsed.flag("confirm") or call.parsed.globals.yes):
        answer = call.ask(f"Erase {found.document().goal!r} for good? Type yes:")
        if answer != "yes":
            raise Refused(
                "nothing was deleted", hint=f"Say it: holdfast delete {found.id[:8]} --confirm", session=found.id
            )
    deleted = call.keeper.delete(found.id, at=call.at)
    call.answer({"deleted": deleted}, lambda paint: "" if call.quiet else paint.join("Erased ", deleted[:8]))
    call.tell_of_mirrors()
