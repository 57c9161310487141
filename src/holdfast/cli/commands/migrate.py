"""`holdfast migrate PATH [--back]`: documents of older versions written anew; the old ones stay beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.call import Call
from holdfast.cli.notes import failure, public_notes, public_path, tell_notes, together
from holdfast.cli.paint import Paint, Painted

if TYPE_CHECKING:
    from holdfast.keeper.documents.migrating import Migrated


def run(call: Call) -> int:
    from holdfast.keeper.documents import migrating

    path = call.parsed.need("path")
    found = migrating.back(path) if call.parsed.flag("back") else migrating.migrate(call.keeper, path)
    failed = together(one.error for one in found)
    call.answer(
        {"files": [_public(one) for one in found]},
        lambda paint: _painted(paint, found, quiet=call.quiet),
        error=failed[0] if failed else None,
    )
    code = call.failed(failed)
    for one in found:
        tell_notes(call, one.notes, about=f"{one.path} " if len(found) > 1 else "")
    return code


def _public(one: Migrated) -> dict[str, object]:
    return {
        "path": public_path(one.path), "format": one.format, "from": one.version, "result": one.result,
        "kept": None if one.kept is None else public_path(one.kept),
        "notes": public_notes(one.notes), "error": None if one.error is None else one.error.message,
        "hint": None if one.error is None else one.error.hint,
    }  # fmt: skip


def _painted(paint: Paint, found: list[Migrated], *, quiet: bool) -> Painted:
    """A line for each file; those that went well need no confirmation with `--quiet`."""
    lines = []
    for one in found:
        if one.error is not None:
            lines.append(paint.join(paint.red(one.result), f"  {failure(one.error, one.path)}"))
        elif not quiet:
            kept = "" if one.kept is None else f"  (kept: {one.kept})"
            lines.append(paint.join(one.result, f"  {one.path}", paint.dim(kept)))
    return Painted("\n".join(lines))
