"""`holdfast export [ID] --format F [-o OUT]`: the session as a document that other programs read."""

from __future__ import annotations

from holdfast.cli.call import Call, put
from holdfast.cli.notes import public_notes, tell_notes, written


def run(call: Call) -> None:
    from holdfast.formats import registry
    from holdfast.formats.export import exported
    from holdfast.formats.export import put as put_file
    from holdfast.formats.import_context import configured, models

    rules = configured(registry.named(call.parsed.need("format")), models(call.keeper))
    session = call.session_to_read()
    state = session.state(at=call.at)
    document, notes = exported(call.keeper, state, rules)
    out = call.parsed.text("out")
    paths = [] if out is None or out == "-" else put_file(out, document, rules)
    if call.json:
        call.answer(
            {"id": session.id, "format": rules.name, "document": document, "paths": paths,
             "notes": public_notes(notes)}, lambda _: "",
        )  # fmt: skip
    elif paths:
        call.note(written(paths))
    else:
        put(rules.write(document).decode())
    tell_notes(call, notes)
    call.tell_of_mirrors()
