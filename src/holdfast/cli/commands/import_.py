"""`holdfast import PATH… [--format F] [--salvage]`: files of other programs become sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.call import Call
from holdfast.cli.notes import failure, named, public_notes, public_path, tell_notes, together
from holdfast.cli.paint import Paint, Painted

if TYPE_CHECKING:
    from holdfast.formats.import_ import Imported


def run(call: Call) -> int:
    from holdfast.formats.import_ import import_files

    paths, name = call.parsed.texts("paths"), call.parsed.text("format")
    found = import_files(call.keeper, paths, name, salvage=call.parsed.flag("salvage"))
    notes = [note for imported in found for note in imported.notes]
    failed = together(imported.error for imported in found)
    call.answer(
        {"files": [_public(imported) for imported in found], "notes": public_notes(notes),
         "sessions": list(dict.fromkeys(imported.session for imported in found if imported.session is not None))},
        lambda paint: _painted(paint, found, quiet=call.quiet),
        error=failed[0] if failed else None,
    )  # fmt: skip
    code = call.failed(failed)
    for imported in found:
        tell_notes(call, imported.notes, about=f"{named(imported.path)} " if len(found) > 1 else "")
    # The notes have said so, file by file.
    call.keeper.recorder.tally.redacted.clear()
    call.tell()
    return code


def _public(one: Imported) -> dict[str, object]:
    return {
        "path": public_path(one.path), "format": one.format, "session": one.session, "result": one.result,
        "events": one.events, "error": None if one.error is None else one.error.message,
        "hint": None if one.error is None else one.error.hint, "notes": public_notes(one.notes),
    }  # fmt: skip


def _painted(paint: Paint, found: list[Imported], *, quiet: bool) -> Painted:
    """A line for each file; those that went well need no confirmation with `--quiet`."""
    lines = []
    for imported in found:
        if imported.error is not None:
            lines.append(paint.join(paint.red("not read"), f"  {failure(imported.error, imported.path)}"))
        elif not quiet:
            assert imported.session is not None
            what = paint.dim(f"{imported.format or 'hand-made'} → {imported.session[:8]}")
            lines.append(paint.join(imported.result, f"  {named(imported.path)} ", what))
    return Painted("\n".join(lines))
