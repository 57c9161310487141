"""`holdfast export [ID] --format F [-o OUT]`: the session as a document that other programs read."""

from __future__ import annotations

from holdfast.cli.call import Call, put
from holdfast.cli.notes import public_notes, tell_notes


def run(call: Call) -> None:
    from holdfast.formats import registry
    from holdfast.keeper.exporting import exported
    from holdfast.keeper.exporting import put as put_file

    rules = registry.named(call.parsed.need("format"))
    session = call.keeper.session(call.parsed.text("id") or "@", at=call.at)
    document, notes = exported(session.state(at=call.at), rules)
    out = call.parsed.text("out")
    paths = [] if out is None or out == "-" else put_file(out, document, rules)
    if call.json:
        call.answer(
            {"id": session.id, "format": rules.name, "document": document, "paths": paths,
             "notes": public_notes(notes)}, lambda _: "",
        )  # fmt: skip
    elif paths:
        call.note(f"Written: {', '.join(paths[:5])}{' …' if len(paths) > 5 else ''}")
    else:
        put(rules.write(document).decode())
    tell_notes(call, notes)
    call.tell_of_mirrors()
