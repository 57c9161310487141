"""`holdfast migrate PATH [--back]`: documents of older versions written anew; the old ones stay beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.call import Call
from holdfast.cli.notes import public_notes, tell_notes
from holdfast.cli.paint import Paint, Painted

if TYPE_CHECKING:
    from holdfast.keeper.migrating import Migrated


def run(call: Call) -> int:
    from holdfast.keeper import migrating

    path = call.parsed.need("path")
    found = migrating.back(path) if call.parsed.flag("back") else migrating.migrate(call.keeper, path)
    call.answer(
        {"files": [_public(one) for one in found]}, lambda paint: "" if call.quiet else _painted(paint, found)
    )
    for one in found:
        tell_notes(call, one.notes, about=f"{one.path} " if len(found) > 1 else "")
    return 4 if any(one.error is not None for one in found) else 0


def _public(one: Migrated) -> dict[str, object]:
    return {
        "path": one.path, "format": one.format, "from": one.version, "result": one.result, "kept": one.kept,
        "notes": public_notes(one.notes), "error": None if one.error is None else one.error.message,
    }  # fmt: skip


def _painted(paint: Paint, found: list[Migrated]) -> Painted:
    lines = []
    for one in found:
        if one.error is not None:
            hint = "" if one.error.hint is None else f" {one.error.hint}"
            lines.append(paint.join(paint.red(one.result), f"  {one.path}: {one.error.message}.{hint}"))
        else:
            kept = "" if one.kept is None else f"  (kept: {one.kept})"
            lines.append(paint.join(one.result, f"  {one.path}", paint.dim(kept)))
    return Painted("\n".join(lines))
