"""`holdfast import PATH… [--format F] [--salvage]`: files of other programs become sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.call import Call
from holdfast.cli.notes import public_notes, tell_notes
from holdfast.cli.paint import Paint, Painted

if TYPE_CHECKING:
    from holdfast.keeper.imports import Imported


def run(call: Call) -> int:
    from holdfast.keeper.imports import import_files

    paths, name = call.parsed.texts("paths"), call.parsed.text("format")
    found = import_files(call.keeper, paths, name, salvage=call.parsed.flag("salvage"))
    notes = [note for one in found for note in one.notes]
    call.answer(
        {"files": [_public(one) for one in found], "notes": public_notes(notes),
         "sessions": list(dict.fromkeys(one.session for one in found if one.session is not None))},
        lambda paint: "" if call.quiet else _painted(paint, found),
    )  # fmt: skip
    for one in found:
        tell_notes(call, one.notes, about=f"{one.path} " if len(found) > 1 else "")
    call.tell()
    return 4 if any(one.error is not None for one in found) else 0


def _public(one: Imported) -> dict[str, object]:
    return {
        "path": one.path, "format": one.format, "session": one.session, "result": one.result, "events": one.events,
        "error": None if one.error is None else one.error.message, "notes": public_notes(one.notes),
    }  # fmt: skip


def _painted(paint: Paint, found: list[Imported]) -> Painted:
    lines = []
    for one in found:
        if one.error is not None:
            lines.append(paint.join(paint.red("not read"), f"  {one.path}: {one.error.message}"))
        else:
            assert one.session is not None
            lines.append(paint.join(one.result, f"  {one.path} ", paint.dim(f"{one.format} → {one.session[:8]}")))
    return Painted("\n".join(lines))
