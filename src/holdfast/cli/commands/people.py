"""`holdfast people add|list`: whom sessions can be shared with."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.paint import Paint, Painted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.keeper.teleports.people import Person


def add(call: Call) -> None:
    from holdfast.keeper.teleports import people

    person = people.add(call.keeper.home, call.parsed.need("email"), call.parsed.need("key"))
    more = f", with {len(person.keys)} keys" if len(person.keys) > 1 else ""
    call.answer(
        {"person": person},
        lambda paint: "" if call.quiet else paint.join(paint.bold(person.email), f" is known{more}"),
    )
    call.note(f"Share a session with them: holdfast share ID --with {person.email}")


def list_(call: Call) -> None:
    from holdfast.keeper.teleports import people

    found = people.load(call.keeper.home)
    call.answer({"people": found}, lambda paint: _listed(paint, found))


def _listed(paint: Paint, found: Sequence[Person]) -> Painted:
    if not found:
        return paint.dim("Nobody is known yet: holdfast people add EMAIL KEY")
    lines: list[str] = []
    for one in found:
        lines.append(paint.bold(one.email))
        lines += [paint.join("  ", paint.dim(key)) for key in one.keys]
    return Painted("\n".join(lines))
