"""`holdfast cycle [-o FILE]`: the sessions of a cycle and their hours by scope, as Markdown."""

from __future__ import annotations

from holdfast.cli.call import Call, put
from holdfast.cli.notes import written


def run(call: Call) -> None:
    from holdfast.formats import cycle

    out, start, weeks = call.parsed.text("out"), call.parsed.text("start"), call.parsed.integer("weeks")
    path = None if out in (None, "-") else out
    # A file is of one cycle, however late it is updated.
    stands = None if path is None or start is not None or weeks is not None else cycle.in_file(path)
    if stands is not None:
        start, weeks = stands
    found = cycle.cycle(call.keeper, start=start, weeks=weeks, begins_there=stands is not None, at=call.at)
    if path is not None:
        cycle.update(path, found)
    if call.json:
        call.answer({"cycle": found, "paths": [] if path is None else [path]}, lambda _: "")
    elif path is not None:
        call.note(written([path]))
    else:
        put(cycle.markdown(found))
