"""`holdfast convert PATH --to F [--from F] [-o OUT] [--carry]`: a file in another format, without the store."""

from __future__ import annotations

from holdfast.cli.call import Call, put
from holdfast.cli.notes import public_notes, tell_notes, written


def run(call: Call) -> None:
    from holdfast.formats import registry
    from holdfast.formats.convert import convert
    from holdfast.formats.discover import one_source
    from holdfast.formats.export import is_layout
    from holdfast.formats.export import put as put_file

    target = registry.named(call.parsed.need("to"))
    source = one_source(call.parsed.need("path"), call.parsed.text("from_"))
    out = call.parsed.text("out")
    one_file = not is_layout(out, target)
    document, notes = convert(call.keeper, source, target, carry=call.parsed.flag("carry"), one_file=one_file)
    paths = [] if out is None or out == "-" else put_file(out, document, target)
    if call.json:
        call.answer(
            {"from": source.rules.name, "to": target.name, "document": document, "paths": paths,
             "notes": public_notes(notes)}, lambda _: "",
        )  # fmt: skip
    elif not paths:
        put(target.write(document).decode())
    tell_notes(call, notes)
    if paths:
        call.note(written(paths))
