"""`holdfast people add|list`: whom sessions can be shared with."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.paint import Paint, Painted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.sync.people import Person


def add(call: Call) -> None:
    from holdfast.sync import people

    person = people.add(call.keeper.home, call.parsed.need("email"), call.parsed.need("key"))
    known = len(person.keys) + len(person.devices)
    more = f", with {known} keys" if known > 1 else ""
    call.answer(
        {"person": _document(person)},
        lambda paint: "" if call.quiet else paint.join(paint.bold(person.email), f" is known{more}"),
    )
    if person.keys:
        call.note(f"Share a session with them: holdfast share ID --with {person.email}")


def list_(call: Call) -> None:
    from holdfast.sync import people

    found = people.load(call.keeper.home)
    call.answer({"people": [_document(person) for person in found]}, lambda paint: _listed(paint, found))


def _document(person: Person) -> dict[str, object]:
    return {"email": person.email, "keys": person.keys, "devices": [_words(device) for device in person.devices]}


def _words(device: str) -> str:
    from holdfast.workspace.keys.words import spell

    return spell(bytes.fromhex(device))


def _listed(paint: Paint, found: Sequence[Person]) -> Painted:
    if not found:
        return paint.dim("Nobody is known yet: holdfast people add EMAIL KEY")
    lines: list[str] = []
    for person in found:
        lines.append(paint.bold(person.email))
        lines += [paint.join("  ", paint.dim(key)) for key in person.keys]
        lines += [paint.join("  offers from ", paint.dim(_words(device))) for device in person.devices]
    return Painted("\n".join(lines))
